"""hango: durable human approval for agents' tool calls."""

__version__ = "0.1.0"
