"""Values that every room speaks: messages, poses, images, protocols, the clock and the errors."""
