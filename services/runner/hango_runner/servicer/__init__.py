"""The edge: decode, call, encode."""
