"""One endpoint through pydantic-ai's `direct` API. Loads the providers' libraries: two seconds."""

from __future__ import annotations

from typing import TYPE_CHECKING, Any

import httpx2
import pydantic_core
from anthropic import AsyncAnthropic
from openai import AsyncOpenAI
from pydantic_ai import exceptions as errors
from pydantic_ai.direct import model_request_stream
from pydantic_ai.messages import (
    InstructionPart,
    PartDeltaEvent,
    PartStartEvent,
    TextPart,
    TextPartDelta,
    ToolCallPart,
)
from pydantic_ai.models import ModelRequestParameters
from pydantic_ai.models.anthropic import AnthropicModel
from pydantic_ai.models.openai import OpenAIChatModel
from pydantic_ai.profiles.openai import OpenAIModelProfile
from pydantic_ai.providers.anthropic import AnthropicProvider
from pydantic_ai.providers.openai import OpenAIProvider
from pydantic_ai.settings import ModelSettings
from pydantic_ai.tools import ToolDefinition

from hango_runner.agent.model import ModelFailed
from hango_runner.models.asking import Passing
from hango_runner.models.conversation import RefusedByModel, from_provider, to_provider
from hango_runner.models.endpoints import Protocol

if TYPE_CHECKING:
    from openai.types.chat import ChatCompletionMessageFunctionToolCallParam
    from pydantic_ai.messages import ModelResponseStreamEvent
    from pydantic_ai.models import Model

    from hango_runner.agent.model import ModelRequest
    from hango_runner.agent.state import Answer
    from hango_runner.agent.tools import ToolSpec
    from hango_runner.models.endpoints import Endpoint

_CONNECT_TIMEOUT = 10.0
_NO_KEY = "none"  # the libraries insist on one; a server that wants none ignores it
_FINAL = (errors.ModelRequestRejectedError, errors.ModelQuotaExceededError, errors.UserError)
_UNREADABLE = (errors.UnexpectedModelBehavior, pydantic_core.ValidationError)
_WORTH_A_RETRY = frozenset({408, 409, 425, 429})


class EndpointClient:
    """The connections to one endpoint."""

    def __init__(self, endpoint: Endpoint, key: str | None) -> None:
        self._endpoint = endpoint
        timeout = httpx2.Timeout(endpoint.timeout, connect=_CONNECT_TIMEOUT)
        limits = httpx2.Limits(max_connections=None, max_keepalive_connections=64)
        self._http = httpx2.AsyncClient(timeout=timeout, limits=limits)
        # Retrying is ours: a library that retried would start the stream over unseen.
        access: dict[str, Any] = {
            "api_key": key or _NO_KEY,
            "base_url": endpoint.base_url,
            "http_client": self._http,
            "max_retries": 0,
        }
        self._provider: OpenAIProvider | AnthropicProvider
        if endpoint.protocol is Protocol.OPENAI:
            openai = AsyncOpenAI(**access)
            _send_as_given(openai.chat.completions)
            self._provider = OpenAIProvider(openai_client=openai)
        else:
            anthropic = AsyncAnthropic(**access)
            _send_as_given(anthropic.beta.messages)
            self._provider = AnthropicProvider(anthropic_client=anthropic)

    async def close(self) -> None:
        """Close the connections."""
        await self._http.aclose()

    async def ask(self, model: str, request: ModelRequest, attempt: int) -> Answer:
        """One attempt. Raises Passing where another may help, ModelFailed where none would."""
        try:
            return await self._ask(self._model(model), request, attempt)
        except RefusedByModel as error:
            raise ModelFailed(str(error)) from None
        except (errors.ModelAPIError, errors.UserError) as error:
            if _is_final(error):
                msg = f"the model cannot be asked: {_why(error)}"
                raise ModelFailed(msg) from error
            raise Passing(_why(error), getattr(error, "retry_after", None)) from error
        except _UNREADABLE as error:
            msg = "the answer cannot be read"
            raise Passing(msg) from error

    async def _ask(self, model: Model, request: ModelRequest, attempt: int) -> Answer:
        messages = to_provider(
            request.messages, flag_errors=self._endpoint.protocol is Protocol.ANTHROPIC
        )
        parameters = ModelRequestParameters(
            function_tools=[_definition(tool) for tool in request.tools],
            instruction_parts=_instructions(request.instructions),
        )
        async with model_request_stream(
            model,
            messages,
            model_settings=self._settings(),
            model_request_parameters=parameters,
            instrument=False,
        ) as stream:
            async for event in stream:
                if request.tell is not None and (text := _text(event)):
                    request.tell(text, attempt)
            response = stream.get()
        if response.finish_reason is None:
            msg = "the answer was cut off"
            raise Passing(msg)
        return from_provider(response)

    def _settings(self) -> ModelSettings:
        settings = ModelSettings(timeout=self._endpoint.timeout)
        if self._endpoint.max_output_tokens is not None:
            settings["max_tokens"] = self._endpoint.max_output_tokens
        return settings

    def _model(self, name: str) -> Model:
        if isinstance(self._provider, AnthropicProvider):
            return AnthropicModel(name, provider=self._provider)
        return _ExactOpenAI(
            name,
            provider=self._provider,
            profile=OpenAIModelProfile(
                # A stream that just ends was cut off, however politely.
                openai_chat_streaming_requires_finish_reason=True,
                openai_supports_strict_tool_definition=False,
            ),
        )


class _ExactOpenAI(OpenAIChatModel):
    """Sends a model's own arguments back as it wrote them, where they are JSON at all: the library
    parses and writes them anew.
    """

    @staticmethod
    def _map_tool_call(t: ToolCallPart) -> ChatCompletionMessageFunctionToolCallParam:
        mapped = OpenAIChatModel._map_tool_call(t)  # noqa: SLF001 - made to be overridden
        if isinstance(t.args, str) and "INVALID_JSON" not in t.args_as_dict():
            mapped["function"]["arguments"] = t.args or "{}"
        return mapped


def _send_as_given(resource: Any) -> None:
    """Have `resource.create` send messages and tools as they are.

    The libraries walk through every member of every message in search of things to convert, of
    which there are none here: 0.2 ms a message, in which nothing else of the process runs.
    """
    create = resource.create

    async def as_given(
        *, messages: Any, tools: Any = None, extra_body: Any = None, **rest: Any
    ) -> Any:
        body = {**(extra_body or {}), "messages": messages}
        if isinstance(tools, list):
            body["tools"] = tools
        return await create(messages=[], extra_body=body, **rest)

    resource.create = as_given


def _instructions(text: str) -> list[InstructionPart]:
    return [InstructionPart(content=text)] if text else []


def _definition(tool: ToolSpec) -> ToolDefinition:
    return ToolDefinition(
        name=tool.name,
        description=tool.description,
        parameters_json_schema=tool.parameters,
        strict=False,
    )


def _text(event: ModelResponseStreamEvent) -> str:
    match event:
        case PartStartEvent(part=TextPart(content=text)):
            return text
        case PartDeltaEvent(delta=TextPartDelta(content_delta=text)):
            return text
    return ""


def _is_final(error: Exception) -> bool:
    if isinstance(error, _FINAL):
        return True
    status = getattr(error, "status_code", None)
    return status is not None and 400 <= status < 500 and status not in _WORTH_A_RETRY


def _why(error: Exception) -> str:
    """A kind and a status. What the provider says may quote the conversation."""
    name = type(error).__name__.removeprefix("Model").removesuffix("Error")
    words = {"API": "answer broken off", "HTTP": "error"}.get(name)
    if words is None:
        words = "".join(f" {c.lower()}" if c.isupper() else c for c in name).strip()
    status = getattr(error, "status_code", None)
    return words if status is None else f"{words} (status {status})"
