"""The commands, one module a family; each has `register(app)`."""
