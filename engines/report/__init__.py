"""What is known of a policy, from the files that measured it: tables, pictures, the model card."""
