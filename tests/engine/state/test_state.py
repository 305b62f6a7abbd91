"""What a state holds and how it changes: construction, merge, messages, metadata, todos, reset."""

from __future__ import annotations

from dataclasses import dataclass, fields, replace
from typing import Any

import pytest

from sagents_app.engine import (
    AgentState,
    Approve,
    Halt,
    Message,
    Misconfigured,
    TextPart,
    Todo,
    ToolCall,
    ToolResult,
)

USER = Message.user("hello")
ASSISTANT = Message.assistant("hi")


def result(call_id: str, text: str = "done", **options: Any) -> ToolResult:
    return ToolResult(call_id, "work", (TextPart(text),), **options)


class TestConstruction:
    def test_new_state_is_empty(self):
        """S-001, S-003: messages, todos, metadata and everything of the turn start empty."""
        state = AgentState()
        assert (state.messages, state.todos, state.metadata) == ((), (), {})
        assert state.interrupt is None
        assert state.pause_reason is None
        assert [field.name for field in fields(state) if getattr(state, field.name)] == []

    def test_new_state_keeps_what_it_is_given(self):
        """S-002: messages, todos (mappings allowed) and metadata are stored as given."""
        plain = {"id": 2, "content": "second", "status": "completed"}
        state = AgentState((USER,), [Todo(1, "first"), plain], {"key": "value"})  # type: ignore[arg-type]
        assert list(state.messages) == [USER]
        assert state.todos == (Todo(1, "first"), Todo(2, "second", "completed"))
        assert state.metadata == {"key": "value"}

    @pytest.mark.parametrize(
        ("given", "told"),
        [
            pytest.param({"todos": ["text"]}, "a todo is a Todo or a mapping", id="S-005 text"),
            pytest.param({"todos": "text"}, "todos are a list, got 'text'", id="S-005 no list"),
            pytest.param({"todos": [{"id": 1}]}, "a todo has id, content and", id="S-005 short"),
            pytest.param(
                {"todos": [{"id": 1, "content": "a", "status": "lost"}]},
                "todo 1: status is one of pending, in_progress, completed, cancelled, got 'lost'",
                id="S-005 status",
            ),
            pytest.param({"metadata": ["a"]}, "metadata is a mapping, got", id="S-005 metadata"),
            pytest.param({"messages": "hi"}, "messages are a sequence of", id="S-005 messages"),
        ],
    )
    def test_wrong_values_are_refused_at_construction(self, given: dict[str, Any], told: str):
        with pytest.raises(Misconfigured, match=told):
            AgentState(**given)


@dataclass(frozen=True)
class MergeCase:
    id: str
    left: AgentState
    changes: dict[str, Any]
    merged: AgentState


NESTED = {"a": 1, "nested": {"x": 1, "y": 2}}
TODOS = (Todo(1, "old"), Todo(2, "older"))
MERGES = [
    MergeCase(
        "S-010 messages are appended, nothing deduplicated",
        AgentState((USER,)),
        {"messages": (ASSISTANT, USER)},
        AgentState((USER, ASSISTANT, USER)),
    ),
    MergeCase(
        "S-011 todos replace the whole list",
        AgentState(todos=TODOS),
        {"todos": [Todo(2, "new")]},
        AgentState(todos=(Todo(2, "new"),)),
    ),
    MergeCase(
        "S-012 an explicit empty list clears the todos",
        AgentState(todos=TODOS),
        {"todos": ()},
        AgentState(),
    ),
    MergeCase(
        "S-013 changes without todos leave them alone",
        AgentState(todos=TODOS),
        {"metadata": {"key": "value"}},
        AgentState(todos=TODOS, metadata={"key": "value"}),
    ),
    MergeCase(
        "S-014 metadata merges deeply and the right side wins on leaves",
        AgentState(metadata=NESTED),
        {"metadata": {"b": 2, "nested": {"y": 3, "z": 4}}},
        AgentState(metadata={"a": 1, "b": 2, "nested": {"x": 1, "y": 3, "z": 4}}),
    ),
    MergeCase(
        "S-015 a leaf replaces a mapping",
        AgentState(metadata=NESTED),
        {"metadata": {"nested": 5}},
        AgentState(metadata={"a": 1, "nested": 5}),
    ),
    MergeCase(
        "S-015 a mapping replaces a leaf",
        AgentState(metadata=NESTED),
        {"metadata": {"a": {"b": 1}}},
        AgentState(metadata={"a": {"b": 1}, "nested": {"x": 1, "y": 2}}),
    ),
    MergeCase(
        "S-019 a pause reason that is not named is kept",
        AgentState(pause_reason="draining"),
        {"metadata": {}},
        AgentState(pause_reason="draining"),
    ),
    MergeCase(
        "S-019 a named pause reason replaces",
        AgentState(pause_reason="draining"),
        {"pause_reason": "quota"},
        AgentState(pause_reason="quota"),
    ),
    MergeCase(
        "S-020 nothing that is not named is lost",
        AgentState((USER,), TODOS, {"a": 1}, Halt("stop"), "why", {"c1": Approve()}, {"c1": True}),
        {"runs_used": 3},
        AgentState(
            (USER,), TODOS, {"a": 1}, Halt("stop"), "why", {"c1": Approve()}, {"c1": True}, 3
        ),
    ),
    MergeCase(
        "S-021 metadata alone leaves the messages unchanged",
        AgentState((USER,)),
        {"metadata": {"key": "value"}},
        AgentState((USER,), metadata={"key": "value"}),
    ),
]


class TestMerge:
    @pytest.mark.parametrize("case", MERGES, ids=[case.id for case in MERGES])
    def test_merge_changes_what_is_named_and_nothing_else(self, case: MergeCase):
        before = replace(case.left)
        assert case.left.merge(case.changes) == case.merged
        assert case.left == before

    @pytest.mark.parametrize(
        ("changes", "told"),
        [
            ({"mesages": ()}, r"a state has no field \['mesages'\]; it has decisions, "),
            ({"todos": ["buy milk"]}, "a todo is a Todo or a mapping of its fields"),
            ({"todos": None}, "todos are a list, got None"),
            ({"metadata": "text"}, "metadata is a mapping, got 'text'"),
            ({"messages": ["hi"]}, "expected a Message, got 'hi'"),
        ],
    )
    def test_merge_refuses_what_no_state_can_hold(self, changes: dict[str, Any], told: str):
        """S-005: a change is checked like a construction."""
        with pytest.raises(Misconfigured, match=told):
            AgentState().merge(changes)

    def test_merge_removes_the_state_of_a_finished_sub_agent(self):
        inner = AgentState((USER,))
        state = AgentState(sub_agents={"c1": inner, "c2": inner})
        assert state.merge({"sub_agents": {"c1": None}}).sub_agents == {"c2": inner}


class TestMessages:
    def test_messages_are_added_in_order(self):
        """S-030: one message, then another, order kept; the first state is as it was."""
        one = AgentState().add_message(USER)
        two = one.add_message(ASSISTANT)
        assert list(one.messages) == [USER]
        assert list(two.messages) == [USER, ASSISTANT]

    def test_several_messages_are_added_at_once(self):
        """S-031: two appended in order."""
        state = AgentState((USER,)).add_message(ASSISTANT, USER)
        assert list(state.messages) == [USER, ASSISTANT, USER]

    @pytest.mark.parametrize("wrong", ["text", None, {"role": "user"}, 1])
    def test_adding_what_is_no_message_is_refused(self, wrong: Any):
        """S-032: a type error that shows the culprit."""
        with pytest.raises(Misconfigured, match="expected a Message, got"):
            AgentState().add_message(wrong)

    def test_messages_can_be_replaced_as_a_whole(self):
        """S-033: replaces all."""
        assert list(replace(AgentState((USER, USER)), messages=(ASSISTANT,)).messages) == [
            ASSISTANT
        ]

    def test_replaced_result_stays_in_its_message(self):
        """S-034: same tool message, the placeholder gone, message count unchanged."""
        waiting = result("c1", is_interrupt=True, interrupt=Halt("stop"))
        message = Message.tool(waiting, result("c2"))
        state = AgentState((USER, message)).replace_tool_result(result("c1", "answered"))
        assert len(state.messages) == 2
        assert state.messages[1].id == message.id
        assert state.messages[1].tool_results == (result("c1", "answered"), result("c2"))
        assert state.messages[1].tool_results[0].is_interrupt is False

    def test_replacing_an_unknown_id_changes_nothing(self):
        """S-035: state unchanged."""
        state = AgentState((USER, Message.tool(result("c1"))))
        assert state.replace_tool_result(result("c9", "lost")) == state

    def test_every_occurrence_of_an_id_is_replaced(self):
        """S-036: the same id in more than one tool message."""
        state = AgentState((Message.tool(result("c1")), USER, Message.tool(result("c1"))))
        new = state.replace_tool_result(result("c1", "new"))
        assert [message.tool_results for message in (new.messages[0], new.messages[2])] == [
            (result("c1", "new"),),
            (result("c1", "new"),),
        ]

    def test_results_need_a_batch_of_calls(self):
        """A result has its place right behind the message that called."""
        with pytest.raises(Misconfigured, match="the history does not end in a batch of tool"):
            AgentState((USER,)).put_results({"c1": result("c1")})

    @pytest.mark.parametrize(
        ("make", "told"),
        [
            (lambda: TextPart(5), "TextPart: text is a text, got 5"),  # type: ignore[arg-type]
            (lambda: TextPart(None), "TextPart: text is a text, got None"),  # type: ignore[arg-type]
            (lambda: Message.user({"a": 1}), "content is a string or message parts, got"),
            (lambda: Message.user(["a"]), "content is a string or message parts, got"),
            (lambda: Message.user(""), "a user message needs content, got ''"),
            (lambda: Message.tool(), "a tool message is made of tool results, got"),
            (lambda: Message.tool("x"), "a tool message is made of tool results, got"),
        ],
    )
    def test_wrong_content_is_refused_where_it_comes_in(self, make: Any, told: str):
        """S-032: the culprit is shown."""
        with pytest.raises(Misconfigured, match=told):
            make()


class TestMetadata:
    def test_metadata_is_put_and_overwritten(self):
        """S-040: latest value; the other keys stay."""
        state = AgentState(metadata={"other": 1}).put_metadata("key", 1).put_metadata("key", 2)
        assert state.metadata == {"other": 1, "key": 2}

    def test_missing_metadata_is_none_or_the_default(self):
        """S-041: the metadata are a mapping, read like one."""
        assert AgentState().metadata.get("key") is None
        assert AgentState().metadata.get("key", "default") == "default"


class TestTodos:
    def test_new_todo_is_appended(self):
        """S-050, S-052: insertion order, no sort by id."""
        state = AgentState()
        for todo_id in (3, 1, 2):
            state = state.put_todo(Todo(todo_id, f"todo {todo_id}"))
        assert [todo.id for todo in state.todos] == [3, 1, 2]

    @pytest.mark.parametrize("todo_id", [1, 2, 3])
    def test_known_todo_is_replaced_in_place(self, todo_id: int):
        """S-051: same index, list order kept whichever is updated."""
        state = AgentState(todos=tuple(Todo(known, "old") for known in (1, 2, 3)))
        updated = state.put_todo(Todo(todo_id, "new", "completed"))
        assert [todo.id for todo in updated.todos] == [1, 2, 3]
        assert updated.todos[todo_id - 1] == Todo(todo_id, "new", "completed")
        assert [todo.content for todo in updated.todos].count("new") == 1

    def test_todo_is_found_by_its_id(self):
        """S-053: that todo, or None."""
        state = AgentState(todos=(Todo(7, "other"), Todo(42, "answer"), Todo(50, "more")))
        assert state.get_todo(42) == Todo(42, "answer")
        assert [state.get_todo(missing) for missing in (1, 41, 43, 999)] == [None] * 4

    def test_deleting_a_todo_removes_only_that_one(self):
        """S-054: a missing id changes nothing."""
        state = AgentState(todos=(Todo(1, "a"), Todo(2, "b"), Todo(3, "c")))
        assert state.delete_todo(2).todos == (Todo(1, "a"), Todo(3, "c"))
        assert state.delete_todo(9) == state

    def test_todos_are_selected_by_status_in_order(self):
        """S-055: the two, in order; none match: empty."""
        todos = (Todo(2, "b"), Todo(9, "done", "completed"), Todo(1, "a"))
        state = AgentState(todos=todos)
        assert state.todos_by_status("pending") == (Todo(2, "b"), Todo(1, "a"))
        assert state.todos_by_status("cancelled") == ()

    def test_todos_can_be_replaced_as_a_whole(self):
        """S-056: replaces all; an empty list empties."""
        state = AgentState(todos=TODOS)
        assert state.merge({"todos": [Todo(7, "new")]}).todos == (Todo(7, "new"),)
        assert state.merge({"todos": []}).todos == ()

    @pytest.mark.parametrize("wrong", [0, -1, "1", True, None])
    def test_a_todo_has_a_positive_number(self, wrong: Any):
        """S-057: no text, no zero."""
        with pytest.raises(Misconfigured, match="a todo's id is a positive integer, got"):
            Todo(wrong, "a")

    def test_a_todo_is_open_until_it_is_done_or_cancelled(self):
        """S-055: what there is still to do."""
        todos = [Todo(1, "a", status) for status in ("pending", "in_progress", "completed")]
        assert [todo.is_open for todo in todos] == [True, True, False]
        assert Todo(1, "a", "cancelled").is_open is False

    @pytest.mark.parametrize("wrong", ["1", 1.0, True, None])
    def test_todo_ids_are_integers(self, wrong: Any):
        """S-057: anything else is a programmer's error, also where there are no todos."""
        for act in (AgentState().get_todo, AgentState().delete_todo):
            with pytest.raises(Misconfigured, match="a todo's id is an integer, got"):
                act(wrong)


def test_reset_empties_everything():
    """S-060, S-061: messages, todos, metadata, and whatever was waited for or counted."""
    state = AgentState(
        (USER, Message.assistant(tool_calls=[ToolCall("c1", "work")])),
        TODOS,
        {"key": 1},
        Halt("stop"),
        "draining",
        {"c1": Approve()},
        {"c1": True},
        7,
        100,
        {"c1": AgentState((USER,))},
    )
    assert state.reset() == AgentState()
