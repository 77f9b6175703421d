"""Bytes of images become pixels: raw encodings of ROS, PNG, JPEG and RVL."""
