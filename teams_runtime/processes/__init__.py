"""Other programs, started, bounded and ended with everything that they started themselves."""
