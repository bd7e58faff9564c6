"""Each role's text and the contract of its answer; pure."""
