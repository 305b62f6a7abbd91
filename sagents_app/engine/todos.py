"""Todos: the plan that an agent keeps beside its messages."""

from __future__ import annotations

from dataclasses import dataclass
from typing import Literal, get_args

from sagents_app.engine.errors import Misconfigured

TodoStatus = Literal["pending", "in_progress", "completed", "cancelled"]
STATUSES: tuple[str, ...] = get_args(TodoStatus)


@dataclass(frozen=True, slots=True)
class Todo:
    """One line of the plan; `id` is a positive number that is unique in its list."""

    id: int
    content: str
    status: TodoStatus = "pending"

    def __post_init__(self) -> None:
        if isinstance(self.id, bool) or not isinstance(self.id, int) or self.id < 1:
            raise Misconfigured(f"a todo's id is a positive integer, got {self.id!r}")
        if not isinstance(self.content, str) or not self.content.strip():
            raise Misconfigured(f"todo {self.id} needs content, got {self.content!r}")
        if self.status not in STATUSES:
            raise Misconfigured(
                f"todo {self.id}: status is one of {', '.join(STATUSES)}, got {self.status!r}"
            )

    @property
    def is_open(self) -> bool:
        """Whether there is still something to do about it."""
        return self.status in ("pending", "in_progress")


def put(todos: tuple[Todo, ...], todo: Todo) -> tuple[Todo, ...]:
    """Return `todos` with `todo` in the place of the one with its id, or at the end."""
    if any(known.id == todo.id for known in todos):
        return tuple(todo if known.id == todo.id else known for known in todos)
    return (*todos, todo)


def delete(todos: tuple[Todo, ...], todo_id: int) -> tuple[Todo, ...]:
    """Return `todos` without the one of that id."""
    return tuple(todo for todo in todos if todo.id != todo_id)
