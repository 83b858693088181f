"""hango: durable human approval for agents' tool calls.

    from hango import Hango                # the client
    from hango.tool_server import tool     # a server of your own tools

Both are loaded when they are first used.
"""

import importlib
from typing import TYPE_CHECKING, Any

if TYPE_CHECKING:
    from hango import tool_server
    from hango.sdk.client import Hango

__version__ = "0.1.0"
__all__ = ["Hango", "__version__", "tool_server"]


def __getattr__(name: str) -> Any:
    match name:
        case "Hango":
            return importlib.import_module("hango.sdk.client").Hango
        case "tool_server":
            return importlib.import_module("hango.tool_server")
    message = f"module {__name__!r} has no attribute {name!r}"
    raise AttributeError(message)
