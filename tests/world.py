"""People, agents and short ways to drive them, for tests of rows and services.

An agent registered here keeps its model over all builds, so that a script goes on after an
interrupt, as a real model would.
"""

from __future__ import annotations

import asyncio
import threading
import time
from collections.abc import Callable, Iterable, Iterator
from concurrent.futures import Future, ThreadPoolExecutor
from contextlib import contextmanager
from typing import Any

from django.contrib.auth.models import Permission, User
from django.db import connection

from sagents_app.engine import Agent, Message, ScriptedModel, ToolCall
from sagents_app.models import (
    AgentMessage,
    Conversation,
    DisplayMessage,
    Event,
    Interrupt,
    Run,
    SavedState,
)
from sagents_app.services import agents, conversations, runs
from sagents_app.services.agents import ReviewRule


def person(name: str = "ann", *permissions: str, **fields: Any) -> User:
    user = User.objects.create_user(name, **fields)  # a hash would cost more than most tests
    for permission in permissions:
        user.user_permissions.add(Permission.objects.get(codename=permission))
    return user


def reviewer(name: str = "rita") -> User:
    return person(name, "decide_interrupt", is_staff=True)


def operator(name: str = "otto") -> User:
    return person(name, "operate_conversation", "view_conversation", is_staff=True)


def register(
    name: str, *replies: Any, review: Iterable[ReviewRule] = (), **configuration: Any
) -> ScriptedModel:
    """Register an agent whose model answers with `replies`; returns the model."""
    model = ScriptedModel(*replies)

    @agents.register(name, review=review)
    def build(conversation: Conversation) -> Agent:
        return Agent(name=name, model=model, **configuration)

    return model


def register_broken(name: str, error: Exception) -> None:
    """Register an agent that cannot be built any more."""

    @agents.register(name)
    def build(conversation: Conversation) -> Agent:
        raise error


def calls(*wanted: ToolCall, text: str | None = None) -> Message:
    return Message.assistant(text, tool_calls=wanted)


def call(call_id: str, name: str, **arguments: Any) -> ToolCall:
    return ToolCall(call_id, name, arguments)


def begin(agent: str, owner: User, text: str = "hi") -> Conversation:
    """Start a conversation with one message; nothing has been driven yet."""
    conversation = conversations.create_conversation(agent=agent, owner=owner)
    conversations.post_message(conversation=conversation, text=text, actor=owner)
    return conversation


def drive(conversation: Conversation) -> Conversation:
    """Do what a worker does when it gets the conversation's live run."""
    run = Run.objects.live().filter(conversation=conversation).first()
    if run is not None:
        runs.drive_run(run_id=run.pk)
    conversation.refresh_from_db()
    return conversation


def chat(agent: str, owner: User, text: str = "hi") -> Conversation:
    return drive(begin(agent, owner, text))


def transcript(conversation: Conversation) -> list[str]:
    """The transcript, a line a row: who, what kind, what it says, and where it stands."""
    return [_line(row) for row in DisplayMessage.objects.filter(conversation=conversation)]


def _line(row: DisplayMessage) -> str:
    said = row.content.get("text") or row.content.get("content") or row.content.get("name", "")
    status = "" if row.status == "completed" else f" [{row.status}]"
    return f"{row.message_type} {row.content_type}: {said}{status}"


def rows(conversation: Conversation, kind: str) -> list[DisplayMessage]:
    return list(DisplayMessage.objects.filter(conversation=conversation, content_type=kind))


def pending(conversation: Conversation) -> list[Interrupt]:
    return list(Interrupt.objects.filter(conversation=conversation).pending())


def history(conversation: Conversation) -> list[str]:
    """What the model will read, by role and call ids: U, A, A(c1), T(c1)."""
    return [_shape(row.data) for row in AgentMessage.objects.filter(conversation=conversation)]


def _shape(data: dict[str, Any]) -> str:
    ids = [one["call_id"] for one in data.get("tool_calls", ())]
    ids += [one["tool_call_id"] for one in data.get("tool_results", ())]
    return data["role"][0].upper() + (f"({','.join(ids)})" if ids else "")


def event_types(conversation: Conversation, *, without: Iterable[str] = ("deltas",)) -> list[str]:
    found = Event.objects.filter(conversation=conversation).exclude(type__in=without)
    return list(found.values_list("type", flat=True))


def statuses(conversation: Conversation) -> list[str]:
    """Every status that was told, in order."""
    found = Event.objects.filter(conversation=conversation, type="status_changed")
    return [payload["status"] for payload in found.values_list("payload", flat=True)]


def check_invariants(conversation: Conversation) -> None:
    """What holds of every conversation at every moment (server/08, I1 to I6)."""
    conversation.refresh_from_db()
    live = Run.objects.live().filter(conversation=conversation).count()
    assert live <= 1
    assert (conversation.status == "running") == (live == 1)
    numbers = list(Event.objects.filter(conversation=conversation).values_list("number", flat=True))
    assert numbers == sorted(set(numbers))
    assert not numbers or numbers[-1] < conversation.next_event_number
    positions = list(
        AgentMessage.objects.filter(conversation=conversation).values_list("position", flat=True)
    )
    assert positions == list(range(len(positions)))
    if told := statuses(conversation):
        assert told[-1] == conversation.status
    if live == 0 and conversation.status != "interrupted":
        assert not pending(conversation)
    _check_results(conversation)


def _check_results(conversation: Conversation) -> None:
    messages = [row.data for row in AgentMessage.objects.filter(conversation=conversation)]
    for index, message in enumerate(messages):
        wanted = [one["call_id"] for one in message.get("tool_calls", ())]
        behind = messages[index + 1] if index + 1 < len(messages) else {}
        given = [one["tool_call_id"] for one in behind.get("tool_results", ())]
        if wanted and (behind or not _may_wait(conversation)):
            assert given == wanted, (wanted, given)


def _may_wait(conversation: Conversation) -> bool:
    """Whether the last batch may be open: a turn goes on with it, or its end is to be demoted."""
    saved = SavedState.objects.filter(conversation=conversation).first()
    waits = saved is not None and saved.data.get("interrupt") is not None
    return waits or conversation.status in ("running", "interrupted", "paused")


class Gate:
    """Holds a model's reply back until the test opens it."""

    def __init__(self) -> None:
        self._reached, self._open = threading.Event(), threading.Event()

    def before(self, reply: Any) -> Callable[[Any], Any]:
        async def answer(request: Any) -> Any:
            self._reached.set()
            while not self._open.is_set():  # noqa: ASYNC110  # opened from another thread
                await asyncio.sleep(0.005)
            return reply

        return answer

    def wait(self) -> None:
        """Wait until the model is asked."""
        assert self._reached.wait(10), "the model was never asked"

    def open(self) -> None:
        self._open.set()


@contextmanager
def in_thread(function: Callable[..., Any], *args: Any, **kwargs: Any) -> Iterator[Future[Any]]:
    """Run `function` on a thread with a connection of its own, for as long as it takes."""

    def work() -> Any:
        try:
            return function(*args, **kwargs)
        finally:
            connection.close()

    with ThreadPoolExecutor(1) as pool:
        yield pool.submit(work)


def together(*functions: Callable[[], Any]) -> list[Any]:
    """Run functions at the same instant, each on a thread; return results, or what they raised."""
    barrier = threading.Barrier(len(functions))

    def work(function: Callable[[], Any]) -> Any:
        try:
            barrier.wait(10)
            return function()
        except Exception as error:  # noqa: BLE001  # for the test to look at
            return error
        finally:
            connection.close()

    with ThreadPoolExecutor(len(functions)) as pool:
        return list(pool.map(work, functions))


def eventually(check: Callable[[], Any], *, seconds: float = 10.0) -> Any:
    """Return what `check` returns once it neither raises an assertion error nor is false."""
    deadline = time.monotonic() + seconds
    while True:
        try:
            found = check()
            if found or time.monotonic() > deadline:
                assert found
                return found
        except AssertionError:
            if time.monotonic() > deadline:
                raise
        time.sleep(0.02)
