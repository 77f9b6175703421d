"""What cameras see in a building: ray casting, depth noise, the direct scan."""
