"""What can go wrong with an embedded server."""


class EmbeddedServerError(RuntimeError):
    """A server could not be started; the message says why, what to do, and names the log file."""
