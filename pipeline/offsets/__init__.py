"""Where the agents' consumer groups stand, and setting that."""
