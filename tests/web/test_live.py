from importlib import import_module

import pytest
from channels.db import database_sync_to_async
from django.conf import settings
from django.db.models import F

from sagents_app.models import Conversation, Event
from sagents_app.services import conversations, interrupts
from sagents_app.web import following
from sagents_app.web.asgi import get_application
from sagents_app.web.consumers import LONGEST_FRAME, MOST_FOLLOWED
from tests import world
from tests.web.conftest import login
from tests.web.sockets import Socket

pytestmark = pytest.mark.django_db(transaction=True)
MISSING = "00000000-0000-0000-0000-000000000000"


@pytest.fixture(scope="module")
def application():
    return get_application()


@pytest.fixture
async def opened(application):
    """`opened(user)` is a socket of that user, accepted."""
    sockets = []

    async def connect(user=None):
        client = await database_sync_to_async(login)(user) if user is not None else None
        sockets.append(Socket(application, client))
        await sockets[-1].open()
        return sockets[-1]

    yield connect
    for socket in sockets:
        await socket.close()


@database_sync_to_async
def say(conversation, text):
    conversations.post_message(conversation=conversation, text=text, actor=conversation.owner)


async def until(socket, wanted, cursor):
    """Receive frames until one has an event of that type; they are without gap or duplicate."""
    frames = []
    while True:
        frame = await socket.receive()
        frames.append(frame)
        if frame["type"] != "events":
            continue
        assert frame["from"] == cursor + 1
        cursor = frame["to"]
        numbers = [event["number"] for event in frame["events"]]
        assert numbers == sorted(set(numbers))
        assert all(frame["from"] <= number <= frame["to"] for number in numbers)
        if any(event["type"] == wanted for event in frame["events"]):
            return frames, cursor


async def test_a_stranger_to_the_site_is_told_why(opened):
    socket = await opened()
    assert await socket.closing_code() == 4401


async def test_a_page_starts_from_a_snapshot(opened, owner, waiting):
    socket = await opened(owner)
    frame = await socket.follow(waiting)
    assert (frame["type"], frame["state"]["phase"]) == ("snapshot", "waiting")
    assert "pay ten" in frame["rows"][0]["html"]
    assert "Waiting for a reviewer: Pay" in frame["state"]["panel"]
    assert frame["number"] == await Event.objects.filter(conversation=waiting).acount()


async def test_a_page_that_brings_its_number_gets_what_came_since(opened, owner, scripted):
    conversation = await database_sync_to_async(world.chat)(scripted("one", "two"), owner)
    socket = await opened(owner)
    start = conversation.next_event_number - 1
    frame = await socket.follow(conversation, since=start)
    assert (frame["type"], frame["number"]) == ("following", start)

    await say(conversation, "go on")
    frames, cursor = await until(socket, "display_message_saved", start)
    assert "go on" in frames[-1]["rows"][0]["html"]
    assert frames[-1]["state"]["phase"] in ("starting", "working")

    await database_sync_to_async(world.drive)(conversation)
    rows = []
    while True:
        frames, cursor = await until(socket, "status_changed", cursor)
        rows += [row["html"] for frame in frames for row in frame.get("rows", ())]
        if frames[-1]["state"]["phase"] == "idle":
            break
    assert any("two" in html for html in rows)


async def test_a_reviewer_follows_with_the_card_and_sees_the_decision(opened, reviewer, waiting):
    socket = await opened(reviewer)
    frame = await socket.follow(waiting)
    assert 'value="approve"' in frame["state"]["panel"]
    row = (await database_sync_to_async(world.pending)(waiting))[0]
    await database_sync_to_async(socket.client.post)(
        f"/interrupts/{row.pk}/decision/", {"decision": "approve", "digest": row.digest}
    )
    frames, cursor = await until(socket, "interrupt_decided", frame["number"])
    assert any("Approved by rita" in row["html"] for row in frames[-1]["rows"])
    assert 'value="approve"' not in frames[-1]["state"]["panel"]

    await database_sync_to_async(world.drive)(waiting)
    frames, cursor = await until(socket, "tool_execution_update", cursor)


async def test_a_number_that_is_ahead_gets_a_snapshot(opened, owner, waiting):
    socket = await opened(owner)
    assert (await socket.follow(waiting, since=10_000))["type"] == "snapshot"


@pytest.mark.parametrize("since", [-1, True, "5", 1.5, [], 2**60])
async def test_a_number_that_is_none_gets_a_snapshot(opened, owner, waiting, since):
    socket = await opened(owner)
    assert (await socket.follow(waiting, since=since))["type"] == "snapshot"


@pytest.mark.parametrize("language", ["de", "xx", 5, None, "x" * 100, "../../etc"])
async def test_any_language_is_taken(opened, owner, waiting, language):
    socket = await opened(owner)
    assert (await socket.follow(waiting, language=language))["type"] == "snapshot"


@pytest.mark.parametrize(
    "frame",
    [
        "",
        "nonsense",
        "[]",
        "5",
        "null",
        "[" * 4_000,
        '{"type": "decide"}',
        '{"type": "follow"}',
        '{"type": "follow", "conversation": 5}',
        '{"type": ["follow"]}',
        "x" * (LONGEST_FRAME + 1),
    ],
)
async def test_a_frame_without_sense_is_answered_and_the_socket_stays_open(opened, owner, frame):
    socket = await opened(owner)
    await socket.send(text=frame)
    answer = await socket.receive()
    assert answer["type"] == "error"
    assert answer["error"]["text"]
    assert await socket.is_open()


async def test_a_binary_frame_is_answered_and_the_socket_stays_open(opened, owner):
    socket = await opened(owner)
    await socket.send(data=b"\x00\xff")
    assert (await socket.receive())["error"]["code"] == "bad_frame"
    assert await socket.is_open()


async def test_foreign_missing_and_malformed_names_look_alike(opened, stranger, waiting):
    socket = await opened(stranger)
    answers = []
    for name in (waiting.pk, MISSING, "nonsense"):
        answer = await socket.follow(name)
        assert answer.pop("conversation") == str(name)
        answers.append(answer)
    assert answers[0] == answers[1] == answers[2]
    assert answers[0]["error"]["code"] == "not_found"
    assert await socket.is_open()


async def test_an_unfollowed_conversation_is_silent(opened, owner, scripted):
    conversation = await database_sync_to_async(world.chat)(scripted("one", "two"), owner)
    socket = await opened(owner)
    await socket.follow(conversation)
    await socket.send({"type": "unfollow", "conversation": str(conversation.pk)})
    await socket.send({"type": "unfollow", "conversation": "nonsense"})
    assert await socket.is_open()
    await say(conversation, "anybody there?")
    assert await socket.receive_nothing()


async def test_one_socket_follows_several_conversations(opened, owner, scripted):
    name = scripted("one", "two")
    both = [await database_sync_to_async(world.chat)(name, owner) for _ in range(2)]
    socket = await opened(owner)
    for conversation in both:
        await socket.follow(conversation)
    await say(both[1], "only here")
    frame = await socket.receive()
    assert frame["conversation"] == str(both[1].pk)


async def test_a_socket_follows_so_many_and_no_more(opened, owner, scripted):
    create = database_sync_to_async(conversations.create_conversation)
    name = scripted("hi")
    socket = await opened(owner)
    for _ in range(MOST_FOLLOWED):
        assert (await socket.follow(await create(agent=name, owner=owner)))["type"] == "snapshot"
    last = await create(agent=name, owner=owner)
    assert (await socket.follow(last))["error"]["code"] == "too_many"


@pytest.fixture
def quick(monkeypatch):
    monkeypatch.setattr(following, "POLL_SECONDS", 0.1)


async def test_a_lost_poke_is_healed(opened, owner, waiting, quick):
    socket = await opened(owner)
    frame = await socket.follow(waiting)
    number = frame["number"] + 1
    await Event.objects.acreate(conversation=waiting, number=number, type="custom", payload={})
    await Conversation.objects.filter(pk=waiting.pk).aupdate(
        next_event_number=F("next_event_number") + 1
    )
    frame = await socket.receive()
    assert (frame["from"], frame["to"]) == (number, number)


async def test_logging_out_elsewhere_closes_with_a_code(opened, owner, waiting, quick):
    socket = await opened(owner)
    await socket.follow(waiting)
    await database_sync_to_async(socket.client.logout)()
    assert await socket.closing_code() == 4401


async def test_a_password_change_closes_with_a_code(opened, owner, waiting, quick):
    socket = await opened(owner)
    await socket.follow(waiting)
    owner.set_password("another")
    await owner.asave()
    assert await socket.closing_code() == 4401


async def test_a_user_who_was_deactivated_gets_nothing_more(opened, owner, waiting, quick):
    socket = await opened(owner)
    await socket.follow(waiting)
    owner.is_active = False
    await owner.asave()
    assert await socket.closing_code() == 4401


async def test_a_lost_permission_ends_the_view(opened, reviewer, waiting, quick):
    socket = await opened(reviewer)
    await socket.follow(waiting)
    await database_sync_to_async(reviewer.user_permissions.clear)()
    assert (await socket.receive())["error"]["code"] == "not_found"
    assert await socket.is_open()


async def test_following_asks_the_session_anew(opened, owner, waiting):
    socket = await opened(owner)
    key = socket.client.cookies["sessionid"].value
    session = import_module(settings.SESSION_ENGINE).SessionStore(key)
    await database_sync_to_async(session.delete)()
    await socket.send({"type": "follow", "conversation": str(waiting.pk), "since": None})
    assert await socket.closing_code() == 4401


async def test_a_deleted_conversation_is_gone(opened, owner, waiting, quick):
    socket = await opened(owner)
    await socket.follow(waiting)
    await database_sync_to_async(waiting.delete)()
    assert (await socket.receive())["error"]["code"] == "not_found"


async def test_waiting_for_a_worker_is_said_without_an_event(
    opened, owner, scripted, quick, monkeypatch
):
    from datetime import timedelta

    from sagents_app.presenters import state

    conversation = await database_sync_to_async(world.begin)(scripted("hi"), owner)
    socket = await opened(owner)
    frame = await socket.follow(conversation)
    assert frame["state"]["phase"] == "starting"
    monkeypatch.setattr(state, "STARTING", timedelta(0))
    frame = await socket.receive()
    assert (frame["type"], frame["state"]["phase"]) == ("state", "no_worker")


async def test_a_page_of_the_review_queue_is_told_of_changes(opened, reviewer, owner, waiting):
    socket = await opened(reviewer)
    await socket.send({"type": "watch_reviews"})
    assert await socket.is_open()
    (row,) = await database_sync_to_async(world.pending)(waiting)
    await database_sync_to_async(interrupts.withdraw_request)(interrupt=row, actor=owner)
    assert await socket.receive() == {"type": "reviews_changed"}


async def test_the_review_queue_is_silent_after_a_log_out(opened, reviewer, owner, waiting):
    socket = await opened(reviewer)
    await socket.send({"type": "watch_reviews"})
    assert await socket.is_open()
    await database_sync_to_async(socket.client.logout)()
    (row,) = await database_sync_to_async(world.pending)(waiting)
    await database_sync_to_async(interrupts.withdraw_request)(interrupt=row, actor=owner)
    assert await socket.closing_code() == 4401
