"""The gateway: REST and server-sent events in, gRPC out. It owns nothing."""
