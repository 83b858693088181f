"""The tool server of the SDK, under its short name."""

from hango.sdk.tool_server import (
    NeedsInput,
    Tool,
    ToolCall,
    ToolError,
    ToolServer,
    serve,
    tool,
)

__all__ = ["NeedsInput", "Tool", "ToolCall", "ToolError", "ToolServer", "serve", "tool"]
