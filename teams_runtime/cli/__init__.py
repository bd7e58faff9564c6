"""Arguments, calls, printing."""
