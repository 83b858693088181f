"""The rules of a decide, without a service around them."""

import hashlib
import json
import random
from datetime import UTC, datetime, timedelta

import pytest
from hango_approvals.domain.attempt import Attempt
from hango_approvals.domain.deciding import Decision, check_shape, rule_on
from hango_approvals.domain.suspension import (
    TRANSITIONS,
    Approval,
    ApprovalKind,
    Call,
    DecisionKind,
    Origin,
    State,
    Suspension,
)
from hango_platform import errors

AT = datetime(2026, 1, 1, tzinfo=UTC)
RULE = {"source": "user", "entry": "pay", "when": {"arg": "amount", "gt": 100}}
SCHEMA = {"type": "object", "properties": {"amount": {"type": "number"}}}
APPROVE, EDIT, REJECT, RESPOND = DecisionKind


def suspension(
    names: list[str],
    *,
    allowed: tuple[DecisionKind, ...] = tuple(DecisionKind),
    parameters: object = SCHEMA,
    state: State = State.PENDING,
) -> Suspension:
    """Calls of `pay` under these ids; the approvals are a0, a1, ..."""
    raw = b'{"amount":150}'
    calls = [
        Call(
            position=i,
            subagent_path="",
            turn=0,
            call_index=i,
            entry=0,
            tool_call_id=name,
            tool_name="pay",
            kind=ApprovalKind.TOOL_CALL,
            arguments=raw,
            arguments_sha256=hashlib.sha256(raw).hexdigest(),
            allowed=allowed,
            rule=json.dumps(RULE).encode(),
            parameters=json.dumps(parameters).encode(),
        )
        for i, name in enumerate(names)
    ]
    return Suspension(
        id="s",
        origin=Origin("t", "tenant", "r", 1, "u", "bot", 1),
        state=state,
        created_at=AT,
        expires_at=AT + timedelta(hours=1),
        approvals=tuple(Approval(f"a{i}", c, State.PENDING) for i, c in enumerate(calls)),
    )


def test_each_call_gets_its_own_decision_whatever_the_order() -> None:
    given = [
        Decision(tool_call_id="c0", kind=APPROVE),
        Decision(tool_call_id="c1", kind=EDIT, args=b'{"amount": 200}'),
        Decision(approval_id="a2", kind=REJECT, message="no"),
        Decision(tool_call_id="c3", kind=RESPOND, message="42"),
    ]
    for _ in range(100):
        shuffled = random.sample(given, len(given))
        rulings = rule_on(suspension([f"c{i}" for i in range(4)]), shuffled)
        assert [r.decision for r in rulings] == [APPROVE, EDIT, REJECT, RESPOND]
        assert rulings[1].args == b'{"amount": 200}'
        assert rulings[1].args_sha256 == hashlib.sha256(b'{"amount": 200}').hexdigest()


def test_one_check_is_done_on_all_before_the_next_begins() -> None:
    """Each request below is wrong twice: in its first decision later in the order of checks."""
    two = suspension(["c0", "c1"], allowed=(APPROVE, EDIT))
    outside = Decision(tool_call_id="c0", kind=EDIT, args=b'{"amount":1}')
    later_and_earlier = [
        (outside, Decision(tool_call_id="c1", kind=EDIT, args=b"{"), errors.EditInvalid),
        (outside, Decision(tool_call_id="c1", kind=REJECT), errors.DecisionNotAllowed),
        (
            Decision(tool_call_id="c0", kind=REJECT),
            Decision(tool_call_id="c1", kind=APPROVE, arguments_sha256="0"),
            errors.ArgumentsChanged,
        ),
        (
            Decision(tool_call_id="c0", kind=APPROVE, arguments_sha256="0"),
            Decision(tool_call_id="c9", kind=APPROVE),
            errors.InvalidRequest,
        ),
    ]
    for later, earlier, expected in later_and_earlier:
        with pytest.raises(errors.HangoError) as caught:
            rule_on(two, [later, earlier])
        assert type(caught.value) is expected
    with pytest.raises(errors.EditOutOfScope):
        rule_on(two, [outside])  # incomplete too


@pytest.mark.parametrize("state", [s for s in State if s is not State.PENDING])
def test_a_closed_suspension_is_closed_for_good(state: State) -> None:
    assert TRANSITIONS[state] == frozenset()
    with pytest.raises(errors.ApprovalsClosed) as caught:
        rule_on(suspension(["c0"], state=state), [Decision(tool_call_id="c0", kind=APPROVE)])
    assert caught.value.members == {"state": state.value}


def test_an_earlier_suspension_speaks_with_its_own_state() -> None:
    with pytest.raises(errors.ApprovalsClosed) as caught:
        rule_on(suspension(["c0"]), [], earlier=State.EXPIRED)
    assert caught.value.members == {"state": "expired"}


def test_a_schema_that_cannot_be_used_lets_no_edit_pass() -> None:
    edit = Decision(tool_call_id="c0", kind=EDIT, args=b'{"amount":150}')
    for broken in ({"type": 7}, "x", None, {"$ref": "https://example.org/schema"}):
        with pytest.raises(errors.EditInvalid):
            rule_on(suspension(["c0"], parameters=broken), [edit])


def test_all_faults_of_a_body_are_told_at_once() -> None:
    with pytest.raises(errors.InvalidRequest) as caught:
        check_shape([Decision(), Decision(tool_call_id="c", kind=EDIT, message="\ud800")])
    assert [v.pointer for v in caught.value.violations] == [
        "/decisions/0",
        "/decisions/0/decision",
        "/decisions/1/args",
        "/decisions/1/message",
    ]
    with pytest.raises(errors.InvalidRequest):
        check_shape([Decision(tool_call_id="c", kind=APPROVE)] * 1001)


@pytest.mark.parametrize(
    ("decisions", "named"),
    [
        ((), False),
        ((Decision(tool_call_id="c0"),), True),
        ((Decision(approval_id="a0"), Decision(approval_id="a0")), True),
        ((Decision(tool_call_id="c0"), Decision(tool_call_id="c1")), False),
        ((Decision(),), False),
    ],
)
def test_whether_an_attempt_is_about_one_call(
    decisions: tuple[Decision, ...], *, named: bool
) -> None:
    assert (Attempt("r", decisions).named_once() is not None) is named
