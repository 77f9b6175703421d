"""One drive of one episode: setting, sensing, the whole runtime in process."""
