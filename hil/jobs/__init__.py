"""Jobs on several processes of this machine, or on a Ray cluster."""
