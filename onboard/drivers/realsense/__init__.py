"""RealSense cameras, each in a child process that can be killed."""
