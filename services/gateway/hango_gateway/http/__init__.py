"""REST: one router for each kind of thing."""
