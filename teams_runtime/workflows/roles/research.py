"""The research decision: whether facts from outside the repository are needed before anyone plans."""

from __future__ import annotations

RESEARCH_TASK = """\
Decide whether outside facts are needed. Do not search for them yourself: when they are, the runtime does.
`needed` is true only when all three hold: the work depends on a fact, no local file settles it, and a wrong guess would \
spoil the result.
- needed: reason_code `needed_external_grounding`; `subject`, `query` (one searchable question, with versions and \
dates) and `knowledge_gap` (what is unknown, what goes wrong without it) are filled in.
- not needed: `not_needed_local_evidence` when the repository settles each fact, `not_needed_no_subject` when the work \
depends on none; then `subject`, `query` and `knowledge_gap` may be empty.
`query` leaves the company: put no secret, private name or code into it."""
"""The task of the step `research`."""
