"""The gRPC edge: decode, call, encode."""
