"""How the policy learns: stages that checkpoint and resume (paper 1, sections 1.6 to 1.9)."""
