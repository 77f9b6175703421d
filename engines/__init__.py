"""How the policy comes to be: network, export, engine building."""
