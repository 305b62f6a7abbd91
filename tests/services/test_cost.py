"""Cost grows with the work: a step writes what is new, however long the conversation is (P11)."""

from __future__ import annotations

import pytest
from django.db import connection
from django.test.utils import CaptureQueriesContext

from sagents_app.engine import tool
from sagents_app.engine.deltas import TextDelta
from sagents_app.models import AgentMessage, Conversation, Event, Run
from sagents_app.services import conversations, live
from tests.world import (
    begin,
    call,
    calls,
    chat,
    check_invariants,
    drive,
    eventually,
    person,
    register,
    together,
)


@tool
async def note(text: str) -> str:
    """Take a note."""
    return f"Noted {text}."


def statements_of(steps: int, owner) -> list[str]:
    """What a run of so many steps, each with one call, says to the database."""
    asks = [calls(call(f"c{n}", "note", text="x"), text="One moment.") for n in range(steps)]
    register("busy", *asks, "Done.", tools=[note])
    conversation = begin("busy", owner)
    with CaptureQueriesContext(connection) as captured:
        drive(conversation)
    assert conversation.status == "idle"
    said = [query["sql"] for query in captured.captured_queries]
    return [sql for sql in said if not sql.startswith(("SAVEPOINT", "RELEASE", "BEGIN", "COMMIT"))]


@pytest.mark.django_db
def test_a_step_takes_a_dozen_statements_however_many_came_before():
    owner = person()
    few, more, many = (len(statements_of(steps, owner)) for steps in (5, 15, 45))
    assert (more - few) / 10 <= 12
    assert (many - more) / 30 <= 12


@pytest.mark.django_db
def test_a_message_is_stored_once_and_never_written_again():
    owner = person()
    written = [sql for sql in statements_of(20, owner) if "agentmessage" in sql]
    inserted = [sql for sql in written if sql.startswith("INSERT")]
    assert AgentMessage.objects.count() == 42
    assert len(inserted) <= 43
    assert not [sql for sql in written if sql.startswith("UPDATE")]


@pytest.mark.django_db
def test_reading_a_long_conversation_takes_a_fixed_number_of_queries(django_assert_num_queries):
    owner = person()
    statements_of(3, owner)
    short = Conversation.objects.get()
    statements_of(30, owner)
    long = Conversation.objects.exclude(pk=short.pk).get()
    for conversation in (short, long):
        with django_assert_num_queries(4):
            live.snapshot(conversation)
        with django_assert_num_queries(2):
            live.events_since(conversation.pk, 0)


@pytest.mark.django_db(transaction=True)
def test_many_conversations_at_once_never_find_the_database_locked():
    """Eight workers and eight people at once; nothing fails and nothing is lost."""
    many = 8
    words = [TextDelta(f"word {n} ") for n in range(40)]
    owner = person()
    for n in range(many):
        asks = calls(call(f"c{n}", "note", text="x"))
        register(f"busy{n}", [*words], asks, "Done.", [*words], tools=[note])
    started = [begin(f"busy{n}", owner) for n in range(many)]

    def work(conversation: Conversation) -> None:
        drive(conversation)

    def write(conversation: Conversation) -> None:
        conversations.post_message(conversation=conversation, text="more", actor=owner)

    jobs = [(work, one) for one in started] + [(write, one) for one in started]
    results = together(*[lambda job=job, one=one: job(one) for job, one in jobs])
    assert results == [None] * len(jobs)
    for conversation in started:
        drive(conversation)
        assert conversation.status == "idle"
        check_invariants(conversation)
        said = AgentMessage.objects.filter(conversation=conversation, data__role="user")
        texts = [part["text"] for row in said for part in row.data["content"]]
        assert texts == ["hi", "more"]
    assert not Run.objects.live().exists()
    assert not Event.objects.filter(type="deltas").exists()


@pytest.mark.django_db(transaction=True)
def test_deltas_that_come_quickly_share_an_event():
    """SE-09, B062: some 25 a second, not one a word."""
    register("talker", [TextDelta("x") for _ in range(2_000)])
    conversation = chat("talker", person())
    eventually(lambda: conversation.status == "idle")
    assert conversation.next_event_number < 200
