"""How the base answers commands: identification, and the distance of the simulated base from the real one."""
