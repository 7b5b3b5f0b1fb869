"""The whole machine, its units one by one, and what it refuses."""
