"""Counts, sizes, durations, kinds and manifests; never content."""
