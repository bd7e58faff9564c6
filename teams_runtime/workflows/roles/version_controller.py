"""The commit message: what the version controller is asked before the runtime makes a commit."""

from __future__ import annotations

VERSION_CONTROL_TASK = """\
Write the message of the one commit that holds this request's change, and confirm its paths.
`commit.paths` repeats `paths` below, all of them and no other. `outside` lists changes outside the owned paths: they \
stay out of the commit; reopen with category `implementation` when the change cannot work without them."""
"""The task of the step `version_control`."""
