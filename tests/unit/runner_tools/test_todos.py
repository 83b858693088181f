"""`write_todos` and `ask_human`."""

from typing import Any

import pytest
from hango_policy.schemas import compile_schema
from hango_runner.tools.questions import ASK_HUMAN
from hango_runner.tools.todos import WRITE_TODOS

from tests.support.files import DictFiles


async def test_the_result_is_the_list() -> None:
    todos: list[Any] = [
        {"content": "look", "status": "completed"},
        {"content": "pay", "status": "in_progress"},
        {"content": "tell", "status": "pending"},
    ]
    assert compile_schema(WRITE_TODOS.spec.parameters).violations({"todos": todos}) == []
    result = await WRITE_TODOS.run({"todos": todos}, DictFiles())
    assert result.text == "[x] look\n[~] pay\n[ ] tell"


async def test_text_that_no_database_holds_is_refused() -> None:
    todos = [{"content": "a\0b", "status": "pending"}]
    assert (await WRITE_TODOS.run({"todos": todos}, DictFiles())).is_error


@pytest.mark.parametrize("todo", [{"content": "x"}, {"content": "x", "status": "done"}, "x"])
def test_other_forms_break_the_schema(todo: object) -> None:
    assert compile_schema(WRITE_TODOS.spec.parameters).violations({"todos": [todo]})  # type: ignore[list-item]  # also what is no JSON object


def test_a_question_may_have_a_schema() -> None:
    schema = compile_schema(ASK_HUMAN.parameters)
    assert schema.violations({"question": "which?", "schema": {"type": "integer"}}) == []
    assert schema.violations({"schema": {}})
