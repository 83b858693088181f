"""What a service tells about itself: logs, metrics, trace context."""
