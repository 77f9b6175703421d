"""`onboard secure-setup`: keys, certificates and permissions for DDS Security."""
