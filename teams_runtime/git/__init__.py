"""The only place that runs git: facts, worktrees and commits."""
