"""What stands and walks in a building: furniture, doors, walkers."""
