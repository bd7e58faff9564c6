"""Words, config and pure rules; imports nothing else of this package."""
