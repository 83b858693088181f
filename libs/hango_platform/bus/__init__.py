"""NATS: hints that carry ids. Losing one costs time, never a verdict."""
