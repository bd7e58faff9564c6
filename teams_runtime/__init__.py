"""teams_runtime: a durable runtime for a team of model roles, with bounded, inspectable prompts."""

__version__ = "0.1.0"
