"""Values that every room speaks: messages, poses, images, protocols, reasons, the clock and the errors."""
