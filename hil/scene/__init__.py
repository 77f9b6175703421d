"""Objects in a building: furniture, doors, moving characters."""
