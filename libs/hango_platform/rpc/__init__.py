"""gRPC: servers, channels, and what every call carries: who calls, for whom, in which trace."""
