"""TodoList: the tool `write_todos`, with which a model keeps its plan in the state's `todos`."""

from __future__ import annotations

from collections.abc import Iterable, Sequence
from dataclasses import asdict, dataclass, replace
from itertools import takewhile

from sagents_app.engine.decisions import Approve, Edit
from sagents_app.engine.errors import InvalidArguments, Misconfigured, ToolError
from sagents_app.engine.events import Custom
from sagents_app.engine.messages import Message, ToolCall
from sagents_app.engine.middleware import Middleware
from sagents_app.engine.state import open_calls
from sagents_app.engine.todos import STATUSES, Todo, TodoStatus
from sagents_app.engine.tools import Tool, ToolContext, ToolOutput, tool

PROMPT = """## Plan
For work of three steps or more, keep a plan with the write_todos tool: write it before you begin,
have one todo in_progress at a time, and mark each one completed as soon as it is. Write the whole
list with merge false; with merge true, only what changes. Do not plan what takes one step."""


@dataclass(frozen=True, slots=True)
class Item:
    """One todo; with merge, a known id may leave out what stays as it is."""

    id: int | None = None
    content: str | None = None
    status: TodoStatus | None = None


class TodoList(Middleware):
    """The tool `write_todos`.

    `display_text` is what pages call it. With `inline` each call emits a `Custom` event
    `todo_snapshot`: the todos as they were written, and how many there are of each status.
    """

    def __init__(self, *, display_text: str = "Updating task list", inline: bool = False) -> None:
        self._inline = inline
        self._tool = self._write_todos(display_text)

    def system_prompt(self) -> str:
        """Tell the model when and how to plan."""
        return PROMPT

    def tools(self) -> tuple[Tool, ...]:
        """Return `write_todos`."""
        return (self._tool,)

    def _write_todos(self, display_text: str) -> Tool:
        @tool(display_text=display_text, retry_safe=True)
        async def write_todos(todos: list[Item], merge: bool, ctx: ToolContext) -> ToolOutput:
            """Write the list of todos, or change some of them.

            Once all are completed or cancelled, the list is cleared.

            Args:
                todos: Each with its id (a positive integer; left out, it is numbered), content (up
                    to 1000 characters) and status.
                merge: Whether the todos change and extend the list instead of replacing it.
            """
            written = write(self._before(ctx), todos, merge=merge)
            if self._inline and ctx.emit is not None:
                await ctx.emit(Custom("todo_snapshot", snapshot(written)))
            is_over = bool(written) and not any(todo.is_open for todo in written)
            kept = () if is_over else written
            return ToolOutput(told(written, merge=merge, is_over=is_over), state={"todos": kept})

        return write_todos

    def _before(self, ctx: ToolContext) -> tuple[Todo, ...]:
        """Return the todos as the earlier calls of the same reply leave them."""
        known = ctx.state.todos
        for call in _earlier(ctx, self._tool.name):
            try:
                arguments = self._tool.validate(call)
                known = write(known, arguments["todos"], merge=arguments["merge"])
            except (InvalidArguments, ToolError):
                continue  # it was answered with the reason, and changed nothing
        return known


def write(known: Sequence[Todo], items: Iterable[Item], *, merge: bool) -> tuple[Todo, ...]:
    """Return the todos after `items` have replaced or changed `known`, sorted by id.

    Raises:
        ToolError: an item that cannot be a todo, or an id that stands twice; nothing is changed.
    """
    written = {todo.id: todo for todo in known} if merge else {}
    given = [item.id for item in items if item.id is not None]
    if doubled := sorted({one for one in given if given.count(one) > 1}):
        raise ToolError(f"The id {doubled[0]} is given twice; each todo needs an id of its own.")
    taken = {*written, *given}
    for place, item in enumerate(items, start=1):
        todo_id = item.id if item.id is not None else _free(taken, 1 if merge else place)
        taken.add(todo_id)
        written[todo_id] = _todo(todo_id, item, written.get(todo_id))
    return tuple(written[todo_id] for todo_id in sorted(written))


def told(todos: Sequence[Todo], *, merge: bool, is_over: bool) -> str:
    """Return what the model reads: what was done, how many there are, and each of them."""
    counts = ", ".join(f"{count} {status}" for status, count in _counts(todos).items())
    done = f"{'Merged' if merge else 'Replaced'} the list: {len(todos)} todos ({counts})."
    if is_over:
        return f"{done} All tasks are resolved, so the list was cleared."
    return "\n".join([done, *(f"{todo.id}. [{todo.status}] {todo.content}" for todo in todos)])


def snapshot(todos: Sequence[Todo]) -> dict[str, object]:
    """Return todos as JSON, with how many there are in all and of each status."""
    summary = {"total": len(todos), **_counts(todos)}
    return {"todos": [asdict(todo) for todo in todos], "summary": summary}


def _counts(todos: Sequence[Todo]) -> dict[str, int]:
    return {status: sum(todo.status == status for todo in todos) for status in STATUSES}


def _free(taken: set[int], first: int) -> int:
    while first in taken:
        first += 1
    return first


def _todo(todo_id: int, item: Item, known: Todo | None) -> Todo:
    content = item.content if known is None or item.content is not None else known.content
    status = item.status or ("pending" if known is None else known.status)
    if content is None:
        raise ToolError(f"Todo {todo_id} is new and needs content.")
    try:
        return Todo(todo_id, content, status)
    except Misconfigured as error:
        raise ToolError(f"Failed to parse the todos: {error}") from error


def _earlier(ctx: ToolContext, name: str) -> Iterable[ToolCall]:
    """Yield the calls before this one in its reply that run in the same round, as they run.

    The state does not hold their changes yet, since those of a batch are applied together.
    """
    _, reply, settled = open_calls(ctx.state.messages) or (0, Message.assistant(), {})
    for call in takewhile(lambda one: one.call_id != ctx.call_id, reply.tool_calls):
        decision = ctx.state.decisions.get(call.call_id)
        if call.name != name or call.call_id in settled:
            continue
        if isinstance(decision, Edit):
            yield replace(call, arguments_json=decision.arguments_json)
        elif isinstance(decision, Approve | None):
            yield call
