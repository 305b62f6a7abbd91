"""Todos: the plan that an agent keeps beside its messages."""

from __future__ import annotations

from collections.abc import Iterable, Mapping
from dataclasses import dataclass
from typing import Any, Literal, get_args

from sagents_app.engine import canonical
from sagents_app.engine.errors import Misconfigured

TodoStatus = Literal["pending", "in_progress", "completed", "cancelled"]
STATUSES: tuple[str, ...] = get_args(TodoStatus)
MOST_CONTENT = 1000  # characters


@dataclass(frozen=True, slots=True)
class Todo:
    """One line of the plan; `id` is a positive number that is unique in its list.

    Raises:
        Misconfigured: an id below 1, no content or more than 1,000 characters, an unknown status.
    """

    id: int
    content: str
    status: TodoStatus = "pending"

    def __post_init__(self) -> None:
        if isinstance(self.id, bool) or not isinstance(self.id, int) or self.id < 1:
            raise Misconfigured(f"a todo's id is a positive integer, got {self.id!r}")
        if not isinstance(self.content, str) or not self.content.strip():
            raise Misconfigured(f"todo {self.id} needs content, got {self.content!r}")
        if len(self.content) > MOST_CONTENT:
            size = len(self.content)
            raise Misconfigured(f"todo {self.id}: content has {size} of {MOST_CONTENT} characters")
        if self.status not in STATUSES:
            raise Misconfigured(
                f"todo {self.id}: status is one of {', '.join(STATUSES)}, got {self.status!r}"
            )
        object.__setattr__(self, "content", canonical.clean_text(self.content))

    @property
    def is_open(self) -> bool:
        """Whether there is still something to do about it."""
        return self.status in ("pending", "in_progress")


def read(given: Iterable[Todo | Mapping[str, Any]]) -> tuple[Todo, ...]:
    """Return a list of todos, each given as one or as a mapping of its fields.

    Raises:
        Misconfigured: something among them is neither.
    """
    if isinstance(given, (str, Mapping)) or not isinstance(given, Iterable):
        raise Misconfigured(f"todos are a list, got {given!r:.200}")
    return tuple(one if isinstance(one, Todo) else _from_mapping(one) for one in given)


def get(todos: tuple[Todo, ...], todo_id: int) -> Todo | None:
    """Return the todo of that id, None where there is none."""
    checked_id(todo_id)
    return next((todo for todo in todos if todo.id == todo_id), None)


def checked_id(todo_id: int) -> int:
    """Return a todo's id.

    Raises:
        Misconfigured: it is no integer.
    """
    if isinstance(todo_id, bool) or not isinstance(todo_id, int):
        raise Misconfigured(f"a todo's id is an integer, got {todo_id!r:.200}")
    return todo_id


def put(todos: tuple[Todo, ...], todo: Todo) -> tuple[Todo, ...]:
    """Return `todos` with `todo` in the place of the one with its id, or at the end."""
    if any(known.id == todo.id for known in todos):
        return tuple(todo if known.id == todo.id else known for known in todos)
    return (*todos, todo)


def delete(todos: tuple[Todo, ...], todo_id: int) -> tuple[Todo, ...]:
    """Return `todos` without the one of that id."""
    checked_id(todo_id)
    return tuple(todo for todo in todos if todo.id != todo_id)


def _from_mapping(given: Any) -> Todo:
    if not isinstance(given, Mapping):
        raise Misconfigured(f"a todo is a Todo or a mapping of its fields, got {given!r:.200}")
    try:
        return Todo(**given)
    except TypeError as error:
        raise Misconfigured(f"a todo has id, content and status, got {given!r:.200}") from error
