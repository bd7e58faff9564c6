"""Speed and memory of the parts, measured; `python -m benchmarks` runs them all. Never part of the tests."""
