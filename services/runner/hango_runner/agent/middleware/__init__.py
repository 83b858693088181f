"""The layers of the onion, one a module."""
