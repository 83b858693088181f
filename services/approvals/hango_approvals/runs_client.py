"""What A may ask R: where runs stand."""

from __future__ import annotations

from dataclasses import dataclass
from typing import TYPE_CHECKING

from hango.common.v1 import types_pb2
from hango.runs.v1 import runs_pb2, runs_pb2_grpc
from hango_platform.errors import OutcomeUnknown, Unavailable

if TYPE_CHECKING:
    from collections.abc import Sequence

    from hango_platform.rpc.channel import Channel

_TIMEOUT = 2.0


@dataclass(frozen=True, slots=True)
class Run:
    """A run as R knows it. `state` is the API's lower-case name."""

    id: str
    tenant_id: str
    created_by: str
    state: str


class RunsClient:
    """Asks the runner service. Every method raises Unavailable where it does not answer."""

    def __init__(self, channel: Channel) -> None:
        self._channel = channel
        self._stub = runs_pb2_grpc.RunStatesServiceStub(channel.raw)

    async def states(self, run_ids: Sequence[str]) -> dict[str, Run]:
        """These runs, at most 500, of any tenant; unknown ones are left out."""
        request = runs_pb2.GetRunStatesRequest(run_ids=run_ids)
        try:
            answer = await self._channel.call(self._stub.GetRunStates, request, timeout=_TIMEOUT)
        except OutcomeUnknown:
            # Nothing was to be changed: not to know is not to be able to answer.
            raise Unavailable from None
        return {r.run_id: _run(r) for r in answer.runs}

    async def find(self, run_id: str) -> Run | None:
        """This run."""
        return (await self.states([run_id])).get(run_id)


def _run(status: runs_pb2.RunStatus) -> Run:
    name = types_pb2.RunState.Name(status.state).removeprefix("RUN_STATE_").lower()
    return Run(status.run_id, status.tenant_id, status.created_by, name)
