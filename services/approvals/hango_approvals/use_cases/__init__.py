"""What the service does: each use case owns its transaction and its rule."""
