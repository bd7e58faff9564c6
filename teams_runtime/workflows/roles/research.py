"""The research decision: whether facts from outside the repository are needed before anyone plans."""

from __future__ import annotations

RESEARCH_TASK = """\
Decide whether outside facts are needed; when they are, the runtime makes the search, not you.
- `needed` is true only when the work depends on a fact, no local file settles it, and a wrong guess spoils the result.
  Then reason_code is `needed_external_grounding`, and `subject`, `query` (one question with versions and dates) and
  `knowledge_gap` (what is unknown, what goes wrong without it) are filled in.
- Else it is `not_needed_local_evidence` (the repository settles each fact) or `not_needed_no_subject` (the work depends
  on none), and those three may be "".
- `query` leaves the house: put no secret, private name or code into it."""
"""The task of the step `research`."""
