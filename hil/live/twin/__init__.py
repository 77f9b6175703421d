"""Vehicle in the loop (paper 4): a real robot in an empty room, its twin in a building."""
