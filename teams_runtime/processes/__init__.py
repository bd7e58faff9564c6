"""One subprocess with its group, its deadline and its bounded output."""
