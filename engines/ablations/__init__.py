"""What each part of the recipe is good for: agents trained alike but for one thing, and driven alike."""
