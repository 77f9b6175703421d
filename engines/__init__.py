"""Making the policy: network, training, export, the model card."""
