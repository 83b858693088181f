"""What can go wrong with the stack."""

from hango_cli.errors import Failed


class StackError(Failed):
    """The stack cannot start; the message says why, and what to do."""
