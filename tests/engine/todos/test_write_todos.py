"""TodoList: the plan that a model writes with `write_todos`."""

from __future__ import annotations

from dataclasses import dataclass
from typing import Any

import pytest

from sagents_app.engine import (
    Agent,
    AgentState,
    Approve,
    Completed,
    Edit,
    Interrupted,
    Message,
    Misconfigured,
    Reject,
    ScriptedModel,
    Todo,
    ToolCall,
)
from sagents_app.engine.events import Custom, TodosChanged
from sagents_app.engine.middlewares import HumanInTheLoop, TodoList
from tests.engine.doubles import Events, Notes, asked, call, calling, results, told

OLD = (Todo(1, "Shop", "completed"), Todo(2, "Cook", "in_progress"))


def writing(*todos: dict[str, Any], merge: bool = False, call_id: str = "c1") -> ToolCall:
    return call(call_id, "write_todos", todos=list(todos), merge=merge)


def item(todo_id: int | None = None, content: str | None = None, status: Any = None) -> Any:
    given = {"id": todo_id, "content": content, "status": status}
    return {name: value for name, value in given.items() if value is not None}


async def after(*calls: ToolCall, known: tuple[Todo, ...] = ()) -> AgentState:
    """The state after a reply with `calls`."""
    agent = Agent(model=ScriptedModel(calling(*calls), "done"), middlewares=[TodoList()])
    outcome = await agent.execute(asked(todos=known))
    assert isinstance(outcome, Completed)
    return outcome.state


def test_the_model_is_told_of_one_tool() -> None:
    """T-020: the prompt names it; the id is an integer; merge and todos are required."""
    agent = Agent(model=ScriptedModel(), middlewares=[TodoList()])
    assert "write_todos" in agent.system_prompt
    assert list(agent.tools) == ["write_todos"]
    schema = agent.tools["write_todos"].parameters
    assert schema["required"] == ["todos", "merge"]
    assert schema["properties"]["merge"]["type"] == "boolean"
    fields = schema["$defs"]["Item"]["properties"]
    assert list(fields) == ["id", "content", "status"]
    assert fields["id"]["anyOf"][0] == {"type": "integer"}
    assert fields["status"]["anyOf"][0]["enum"] == [
        "pending",
        "in_progress",
        "completed",
        "cancelled",
    ]


def test_pages_call_it_as_they_are_told() -> None:
    """T-020."""
    for options, label in (
        ({}, "Updating task list"),
        ({"display_text": "Planning"}, "Planning"),
    ):
        agent = Agent(model=ScriptedModel(), middlewares=[TodoList(**options)])  # type: ignore[arg-type]
        assert agent.tools["write_todos"].display_text == label


@dataclass(frozen=True)
class Case:
    id: str
    given: list[dict[str, Any]]
    todos: tuple[Todo, ...]
    merge: bool = False
    known: tuple[Todo, ...] = OLD


CASES = [
    Case(
        "replace",
        [item(1, "Wash", "pending"), item(2, "Dry", "in_progress")],
        (Todo(1, "Wash"), Todo(2, "Dry", "in_progress")),
    ),
    Case(
        "replace, sorted by number and not by text",
        [item(n, f"Step {n}") for n in (12, 1, 10, 11, 2)],
        tuple(Todo(n, f"Step {n}") for n in (1, 2, 10, 11, 12)),
    ),
    Case(
        "replace, numbered by place",
        [item(None, "a"), item(None, "b", "completed"), item(None, "c")],
        (Todo(1, "a"), Todo(2, "b", "completed"), Todo(3, "c")),
    ),
    Case(
        "replace, with a number that a place would have had",
        [item(2, "given"), item(None, "placed"), item(None, "next")],
        (Todo(2, "given"), Todo(3, "placed"), Todo(4, "next")),
    ),
    Case("replace by nothing", [], ()),
    Case(
        "merge what changes",
        [item(2, "Cook well", "completed"), item(3, "Eat")],
        (Todo(1, "Shop", "completed"), Todo(2, "Cook well", "completed"), Todo(3, "Eat")),
        merge=True,
    ),
    Case(
        "merge a status alone",
        [item(1, None, "cancelled")],
        (Todo(1, "Shop", "cancelled"), Todo(2, "Cook", "in_progress")),
        merge=True,
    ),
    Case(
        "merge content alone",
        [item(2, "Bake")],
        (Todo(1, "Shop", "completed"), Todo(2, "Bake", "in_progress")),
        merge=True,
    ),
    Case(
        "merge others",
        [item(7, "Rest"), item(5, "Eat")],
        (*OLD, Todo(5, "Eat"), Todo(7, "Rest")),
        merge=True,
    ),
    Case(
        "merge without a number never overwrites",
        [item(None, "Eat")],
        (*OLD, Todo(3, "Eat")),
        merge=True,
    ),
    Case("merge nothing", [], OLD, merge=True),
    Case("merge into nothing", [item(4, "Eat")], (Todo(4, "Eat"),), merge=True, known=()),
    Case(
        "all completed: cleared",
        [item(1, "a", "completed"), item(2, "b", "completed")],
        (),
    ),
    Case(
        "the last one cancelled: cleared",
        [item(1, "a", "completed"), item(2, "b", "cancelled")],
        (),
    ),
    Case("all resolved by a merge: cleared", [item(2, None, "completed")], (), merge=True),
]


@pytest.mark.parametrize("case", CASES, ids=lambda case: case.id)
async def test_todos_are_replaced_or_merged_by_id(case: Case) -> None:
    """T-005, T-006, T-021, T-022, T-023, T-026, T-027, G-001, G-019, G-029."""
    state = await after(writing(*case.given, merge=case.merge), known=case.known)
    assert state.todos == case.todos
    assert not results(state)["c1"].is_error


async def test_the_model_reads_what_was_done_and_what_stands_now() -> None:
    """T-025."""
    replaced = await after(writing(item(1, "Wash", "in_progress"), item(2, "Dry")))
    assert told(replaced)["c1"] == (
        "Replaced the list: 2 todos (1 pending, 1 in_progress, 0 completed, 0 cancelled).\n"
        "1. [in_progress] Wash\n"
        "2. [pending] Dry"
    )
    merged = await after(writing(item(3, "Eat"), merge=True), known=OLD)
    assert told(merged)["c1"] == (
        "Merged the list: 3 todos (1 pending, 1 in_progress, 1 completed, 0 cancelled).\n"
        "1. [completed] Shop\n"
        "2. [in_progress] Cook\n"
        "3. [pending] Eat"
    )


async def test_the_model_is_told_that_the_list_was_cleared() -> None:
    """T-026."""
    state = await after(writing(item(2, None, "completed"), merge=True), known=OLD)
    assert told(state)["c1"] == (
        "Merged the list: 2 todos (0 pending, 0 in_progress, 2 completed, 0 cancelled). "
        "All tasks are resolved, so the list was cleared."
    )


async def test_an_emptied_list_is_not_said_to_be_resolved() -> None:
    state = await after(writing(), known=OLD)
    assert told(state)["c1"] == (
        "Replaced the list: 0 todos (0 pending, 0 in_progress, 0 completed, 0 cancelled)."
    )


UNFIT = "The arguments do not fit; the call was not run.\n"


@dataclass(frozen=True)
class Mistake:
    id: str
    arguments: dict[str, Any]
    text: str


MISTAKES = [
    Mistake(
        "no list",
        {"todos": "eat", "merge": False},
        UNFIT + "todos: Input should be a valid array",
    ),
    Mistake("no todos", {"merge": False}, UNFIT + "todos: Field required"),
    Mistake("no word on merging", {"todos": []}, UNFIT + "merge: Field required"),
    Mistake(
        "merge as text",
        {"todos": [], "merge": "true"},
        UNFIT + "merge: Input should be a valid boolean",
    ),
    Mistake(
        "another status",
        {"todos": [item(1, "a"), item(2, "b", "done")], "merge": False},
        UNFIT + "todos.1.status: Input should be 'pending', 'in_progress', 'completed' or "
        "'cancelled'",
    ),
    Mistake(
        "an id as text",
        {"todos": [{"id": "3", "content": "a"}], "merge": False},
        UNFIT + "todos.0.id: Input should be a valid integer",
    ),
    Mistake(
        "an unknown field",
        {"todos": [{"id": 3, "content": "a", "priority": 1}], "merge": False},
        UNFIT + "todos.0.priority: Unexpected keyword argument",
    ),
    Mistake(
        "an id below 1",
        {"todos": [item(1, "a"), {"id": 0, "content": "b"}], "merge": False},
        "Failed to parse the todos: a todo's id is a positive integer, got 0",
    ),
    Mistake(
        "no content",
        {"todos": [item(9, None, "pending")], "merge": False},
        "Todo 9 is new and needs content.",
    ),
    Mistake(
        "no content for one that is new to the list",
        {"todos": [item(9, None, "pending")], "merge": True},
        "Todo 9 is new and needs content.",
    ),
    Mistake(
        "empty content",
        {"todos": [{"id": 1, "content": ""}], "merge": False},
        "Failed to parse the todos: todo 1 needs content, got ''",
    ),
    Mistake(
        "too much content",
        {"todos": [item(1, "x" * 1001)], "merge": False},
        "Failed to parse the todos: todo 1: content has 1001 of 1000 characters",
    ),
    Mistake(
        "a doubled id",
        {"todos": [item(1, "a"), item(2, "b"), item(2, "c")], "merge": True},
        "The id 2 is given twice; each todo needs an id of its own.",
    ),
]


@pytest.mark.parametrize("case", MISTAKES, ids=lambda case: case.id)
async def test_a_mistake_changes_nothing_and_is_told_to_the_model(case: Mistake) -> None:
    """T-002, T-006, T-007, T-024, T-028: the whole list, strictly; no status is guessed."""
    state = await after(ToolCall("c1", "write_todos", case.arguments), known=OLD)
    assert state.todos == OLD
    assert told(state) == {"c1": case.text}
    assert results(state)["c1"].is_error


async def test_only_todos_are_changed() -> None:
    """T-025: what else the state holds stays."""
    agent = Agent(
        model=ScriptedModel(calling(writing(item(1, "a"))), "done"), middlewares=[TodoList()]
    )
    outcome = await agent.execute(asked(metadata={"kept": [1]}))
    assert outcome.state.metadata == {"kept": [1]}
    assert outcome.state.todos == (Todo(1, "a"),)


async def test_two_calls_of_one_reply_build_on_one_another() -> None:
    """T-032: upstream's second call does not see the first."""
    state = await after(
        writing(item(1, "a"), item(2, "b"), call_id="c1"),
        writing(item(None, "c"), item(1, None, "completed"), merge=True, call_id="c2"),
        writing(item(0, "bad"), merge=True, call_id="c3"),
        writing(item(2, None, "in_progress"), merge=True, call_id="c4"),
    )
    assert state.todos == (Todo(1, "a", "completed"), Todo(2, "b", "in_progress"), Todo(3, "c"))
    assert [result.is_error for result in results(state).values()] == [False, False, True, False]


async def test_a_call_sees_what_an_earlier_round_wrote() -> None:
    """G-019."""
    model = ScriptedModel(
        calling(writing(item(1, "a"), item(2, "b"))),
        calling(writing(item(2, None, "completed"), merge=True, call_id="c2")),
        "done",
    )
    outcome = await Agent(model=model, middlewares=[TodoList()]).execute(asked())
    assert outcome.state.todos == (Todo(1, "a"), Todo(2, "b", "completed"))


@pytest.mark.parametrize(
    ("reply", "todos"),
    [
        (Approve(), (Todo(1, "a"), Todo(2, "b"))),
        (Edit({"todos": [item(5, "e")], "merge": False}), (Todo(1, "b"), Todo(5, "e"))),
        (Reject("no"), (Todo(1, "b"),)),
    ],
    ids=["approved", "edited", "rejected"],
)
async def test_a_sibling_counts_as_it_was_decided(reply: Any, todos: tuple[Todo, ...]) -> None:
    gate = HumanInTheLoop({"write_todos": True})
    calls = (
        writing(item(1, "a"), call_id="c1"),
        writing(item(None, "b"), merge=True, call_id="c2"),
    )
    agent = Agent(model=ScriptedModel(calling(*calls), "done"), middlewares=[TodoList(), gate])
    stopped = await agent.execute(asked())
    assert isinstance(stopped, Interrupted)
    outcome = await agent.resume(stopped.state, {"c1": reply, "c2": Approve()})
    assert outcome.state.todos == todos


async def test_a_sibling_that_had_run_before_the_others_were_decided_counts_once() -> None:
    gate = HumanInTheLoop(
        {"write_todos": {"when": lambda arguments, ctx: arguments["merge"]}}, early_start=True
    )
    calls = (
        writing(item(None, "a"), call_id="c1"),
        writing(item(None, "b"), merge=True, call_id="c2"),
    )
    agent = Agent(model=ScriptedModel(calling(*calls), "done"), middlewares=[TodoList(), gate])
    stopped = await agent.execute(asked())
    assert isinstance(stopped, Interrupted)
    outcome = await agent.resume(stopped.state, {"c2": Approve()})
    assert outcome.state.todos == (Todo(1, "a"), Todo(2, "b"))


async def test_the_change_is_told_as_it_stands_in_the_state() -> None:
    """T-030: nothing more without `inline`."""
    events = Events()
    agent = Agent(
        model=ScriptedModel(calling(writing(item(1, "a", "completed"))), "done"),
        middlewares=[TodoList()],
    )
    await agent.execute(asked(todos=OLD), on_event=events)
    assert [one for one in events.seen if isinstance(one, TodosChanged | Custom)] == [
        TodosChanged(())
    ]


async def test_with_inline_a_snapshot_shows_the_list_before_it_is_cleared() -> None:
    """T-030."""
    events = Events()
    agent = Agent(
        model=ScriptedModel(calling(writing(item(1, "a", "completed"))), "done"),
        middlewares=[TodoList(inline=True)],
    )
    outcome = await agent.execute(asked(todos=OLD), on_event=events)
    assert outcome.state.todos == ()
    assert [one for one in events.seen if isinstance(one, TodosChanged | Custom)] == [
        Custom(
            "todo_snapshot",
            {
                "todos": [{"id": 1, "content": "a", "status": "completed"}],
                "summary": {
                    "total": 1,
                    "pending": 0,
                    "in_progress": 0,
                    "completed": 1,
                    "cancelled": 0,
                },
            },
        ),
        TodosChanged(()),
    ]


async def test_with_inline_nobody_has_to_listen() -> None:
    """T-030: upstream's "no live server"."""
    agent = Agent(
        model=ScriptedModel(calling(writing(item(1, "a"))), "done"),
        middlewares=[TodoList(inline=True)],
    )
    assert (await agent.execute(asked())).state.todos == (Todo(1, "a"),)


async def test_it_stands_beside_other_tools() -> None:
    notes = Notes()
    agent = Agent(
        model=ScriptedModel(calling(writing(item(1, "a")), call("c2", text="x")), "done"),
        tools=[notes.tool],
        middlewares=[TodoList()],
    )
    outcome = await agent.execute(AgentState((Message.user("hi"),)))
    assert (outcome.state.todos, notes.taken) == ((Todo(1, "a"),), ["x"])
    with pytest.raises(Misconfigured, match="two middlewares have the key 'TodoList'"):
        Agent(model=ScriptedModel(), middlewares=[TodoList(), TodoList()])
