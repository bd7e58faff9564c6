"""Runs of the whole team on source trees of other projects."""
