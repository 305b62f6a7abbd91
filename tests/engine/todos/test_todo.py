"""A todo as a value."""

from __future__ import annotations

from dataclasses import dataclass
from typing import Any

import pytest

from sagents_app.engine import AgentState, Misconfigured, Todo


def test_a_todo_is_pending_at_first() -> None:
    """T-001."""
    assert Todo(1, "Buy eggs") == Todo(1, "Buy eggs", "pending")


@pytest.mark.parametrize("status", ["pending", "in_progress", "completed", "cancelled"])
def test_there_are_four_statuses(status: Any) -> None:
    """T-002, T-008: two of them are open."""
    todo = Todo(1, "Buy eggs", status)
    assert todo.status == status
    assert todo.is_open is (status in ("pending", "in_progress"))


@dataclass(frozen=True)
class Case:
    id: str
    values: tuple[Any, ...]
    problem: str


REFUSED = [
    Case("zero", (0, "x"), "a todo's id is a positive integer, got 0"),
    Case("below zero", (-1, "x"), "a todo's id is a positive integer, got -1"),
    Case("no number", ("abc", "x"), "a todo's id is a positive integer, got 'abc'"),
    Case("a number as text", ("5", "x"), "a todo's id is a positive integer, got '5'"),
    Case("True", (True, "x"), "a todo's id is a positive integer, got True"),
    Case("no content", (1, ""), "todo 1 needs content, got ''"),
    Case("blank content", (1, "  "), "todo 1 needs content, got '  '"),
    Case("content that is no text", (1, None), "todo 1 needs content, got None"),
    Case("too long", (1, "x" * 1001), "todo 1: content has 1001 of 1000 characters"),
    Case(
        "another status",
        (1, "x", "done"),
        "todo 1: status is one of pending, in_progress, completed, cancelled, got 'done'",
    ),
]


@pytest.mark.parametrize("case", REFUSED, ids=lambda case: case.id)
def test_what_is_no_todo_is_refused(case: Case) -> None:
    """T-001, T-002: the number is a number here; upstream reads "5" as one."""
    with pytest.raises(Misconfigured) as refused:
        Todo(*case.values)
    assert str(refused.value) == case.problem


def test_content_may_have_a_thousand_characters() -> None:
    """T-002."""
    assert len(Todo(1, "x" * 1000).content) == 1000


def test_a_state_reads_todos_from_mappings_and_refuses_the_first_bad_one() -> None:
    """T-004, T-007: the whole list, and an unknown status is not taken for pending."""
    state = AgentState(todos=[{"id": 2, "content": "a"}, Todo(1, "b", "completed")])  # type: ignore[arg-type]
    assert state.todos == (Todo(2, "a"), Todo(1, "b", "completed"))
    for bad in ({"content": "x"}, {"id": 3, "content": "x", "status": "done"}, {"id": "3"}):
        with pytest.raises(Misconfigured):
            AgentState(todos=[{"id": 2, "content": "a"}, bad])  # type: ignore[arg-type]
