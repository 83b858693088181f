"""Between the wire and the domain."""

import pytest
from hango.approvals.v1 import approvals_pb2 as pb
from hango.common.v1 import types_pb2
from hango_approvals.domain.suspension import ApprovalKind, DecisionKind, Execution, State
from hango_approvals.mapping import approvals, values
from hango_platform import ids
from hango_platform.errors import InvalidRequest
from hango_platform.rpc import paging


def test_enums_survive_the_way_there_and_back() -> None:
    for state in State:
        assert values.state_from_proto(values.state_to_proto(state)) is state
    for kind in DecisionKind:
        assert values.decision_from_proto(values.decision_to_proto(kind)) is kind
    for what in ApprovalKind:
        assert values.kind_from_proto(values.kind_to_proto(what)) is what
    for execution in Execution:
        assert values.execution_from_proto(values.execution_to_proto(execution)) is execution
    assert values.decision_from_proto(99) is None
    assert values.state_from_proto(0) is None


@pytest.mark.parametrize("token", ["x", paging.to_token(1), paging.to_token("no id")])
def test_a_token_of_another_list_is_refused(token: str) -> None:
    for read in (values.id_from_token, values.place_from_token):
        with pytest.raises(InvalidRequest):
            read(token)


@pytest.mark.parametrize("number", [0, -1, 2**63])
def test_a_number_that_no_row_has_is_refused(number: int) -> None:
    with pytest.raises(InvalidRequest):
        values.number_from_token(paging.to_token(number))


def test_a_time_without_a_zone_is_refused() -> None:
    token = paging.to_token("2026-01-01T00:00:00", ids.new_id())
    with pytest.raises(InvalidRequest):
        values.place_from_token(token)


def test_what_is_absent_is_none_and_what_is_empty_is_not() -> None:
    request = pb.DecideApprovalsRequest(
        run_id="r",
        decisions=[
            pb.Decision(tool_call_id="c"),
            pb.Decision(approval_id="a", args_json=b"", message="", value_json=b""),
        ],
    )
    absent, empty = approvals.attempt(request).decisions
    assert (absent.kind, absent.args, absent.message, absent.value) == (None, None, None, None)
    assert (empty.args, empty.message, empty.value, empty.tool_call_id) == (b"", "", b"", None)


def test_the_digest_is_of_the_decisions_unless_an_edge_gave_one() -> None:
    one = pb.DecideApprovalsRequest(run_id="r", decisions=[pb.Decision(tool_call_id="c")])
    other = pb.DecideApprovalsRequest(run_id="r", decisions=[pb.Decision(tool_call_id="d")])
    digests = {approvals.attempt(r).request_digest for r in (one, other)}
    assert len(digests) == 2
    for request in (one, other):
        request.request_digest = b"given"
    assert {approvals.attempt(r).request_digest for r in (one, other)} == {b"given"}


def test_types_of_the_wire_that_nobody_knows_are_refused() -> None:
    with pytest.raises(InvalidRequest):
        values.state_from_proto(99)
    with pytest.raises(InvalidRequest):
        values.role_from_proto(0)
    assert types_pb2.APPROVAL_STATE_UNSPECIFIED == 0
