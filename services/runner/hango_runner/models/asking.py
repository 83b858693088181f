"""The models of this deployment, asked until they answer or surely will not."""

from __future__ import annotations

import asyncio
import importlib
import logging
from typing import TYPE_CHECKING, Any

from hango_platform.ids import jitter

from hango_runner.agent.model import ModelFailed

if TYPE_CHECKING:
    from collections.abc import Callable, Mapping

    from hango_runner.agent.model import Model, ModelRequest
    from hango_runner.agent.state import Answer
    from hango_runner.domain.spec import ScriptedModel
    from hango_runner.models.endpoints import Endpoint

log = logging.getLogger(__name__)

ATTEMPTS = 5
FIRST_PAUSE = 1.0
LONGEST_PAUSE = 30.0
"""Seconds between two attempts, doubling from the first to the longest; a provider that asks for
more patience than that is not waited for any longer."""


class Passing(Exception):
    """It may work a little later; `after` is for how many seconds the provider asks to wait."""

    def __init__(self, why: str, after: float | None = None) -> None:
        super().__init__(why)
        self.after = after


class Models:
    """Finds the model that a spec names.

    `secret` gives the value of an environment variable; `others` finds what no endpoint has.
    """

    def __init__(
        self,
        endpoints: Mapping[str, Endpoint],
        secret: Callable[[str], str | None],
        others: Callable[[str | ScriptedModel], Model],
    ) -> None:
        self._endpoints = endpoints
        self._secret = secret
        self._others = others
        self._clients: dict[str, Any] = {}
        self._library: asyncio.Task[Any] | None = None

    def __call__(self, name: str | ScriptedModel) -> Model:
        """The model. Raises ModelFailed where this runner has none of that name."""
        if not isinstance(name, str):
            return self._others(name)
        endpoint_name, _, model = name.partition(":")
        endpoint = self._endpoints.get(endpoint_name)
        if endpoint is None or (endpoint.models and model not in endpoint.models):
            return self._others(name)
        if endpoint.key and not self._secret(endpoint.key):
            msg = f"the model {name} has no key here: the runner's variable {endpoint.key} is empty"
            raise ModelFailed(msg)
        return _Asked(self, endpoint, model)

    async def close(self) -> None:
        """Close the connections."""
        for client in self._clients.values():
            await client.close()

    async def client(self, endpoint: Endpoint) -> Any:
        """The connections to an endpoint; the first time this takes seconds, in a thread."""
        if self._library is None:
            self._library = asyncio.ensure_future(
                asyncio.to_thread(importlib.import_module, "hango_runner.models.client")
            )
        library = await asyncio.shield(self._library)
        if endpoint.name not in self._clients:
            key = self._secret(endpoint.key) if endpoint.key else None
            self._clients[endpoint.name] = library.EndpointClient(endpoint, key)
        return self._clients[endpoint.name]


class _Asked:
    """One model of an endpoint."""

    def __init__(self, models: Models, endpoint: Endpoint, model: str) -> None:
        self._models = models
        self._endpoint = endpoint
        self._model = model

    async def answer(self, request: ModelRequest) -> Answer:
        """The next assistant message. Raises ModelFailed."""
        client = await self._models.client(self._endpoint)
        attempt = 0
        while True:
            attempt += 1
            try:
                answer: Answer = await client.ask(self._model, request, attempt)
            except Passing as error:
                await asyncio.sleep(self._pause(attempt, error))
            else:
                return answer

    def _pause(self, attempt: int, error: Passing) -> float:
        """Seconds until the next attempt. Raises ModelFailed where there is none."""
        ours = min(FIRST_PAUSE * (1 << attempt - 1), LONGEST_PAUSE) * jitter()
        pause = max(ours, error.after or 0.0)
        log.warning(
            "the model did not answer",
            extra={
                "endpoint": self._endpoint.name,
                "model": self._model,
                "attempt": attempt,
                "reason": str(error),
            },
        )
        if attempt >= ATTEMPTS or pause > 2 * LONGEST_PAUSE:
            msg = f"the model did not answer: {error}, after {attempt} attempts"
            raise ModelFailed(msg) from error
        return pause
