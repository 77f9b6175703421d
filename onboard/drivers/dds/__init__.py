"""Topics over Cyclone DDS: participant, message types, inputs and outputs."""
