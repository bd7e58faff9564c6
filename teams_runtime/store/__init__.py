"""Read a record, append an event, never rewrite history."""
