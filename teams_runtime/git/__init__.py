"""Git, through one door: repositories, worktrees and commits, without running what a repository's config names."""
