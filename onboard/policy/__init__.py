"""An observation becomes an action: contract, manifest, network policy, inference thread."""
