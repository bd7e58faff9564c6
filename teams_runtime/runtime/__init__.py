"""One turn of one role: project, prompt, call, parse, repair."""
