"""The two experiments of paper 2, reproduced in simulation: a shuttle on hard ground, a vehicle before a ramp."""
