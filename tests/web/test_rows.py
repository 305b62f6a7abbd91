import json

import pytest

from sagents_app.models import Conversation, DisplayMessage
from sagents_app.presenters import transcript
from sagents_app.services import live

pytestmark = pytest.mark.django_db
Kind = DisplayMessage.Kind


@pytest.fixture
def conversation(owner):
    return Conversation.objects.create(owner=owner, agent_name="any")


@pytest.fixture
def show(conversation):
    """Return the HTML of rows that are given as (author, kind, content, more fields)."""

    def render(*given):
        payloads = []
        for number, (author, kind, content, more) in enumerate(given, 1):
            row = DisplayMessage.objects.create(
                conversation=conversation,
                number=number,
                message_type=author,
                content_type=kind,
                content=content,
                **more,
            )
            payloads.append(live.row_payload(row))
        rows = transcript.present_rows(conversation, payloads, is_owner=True)
        return [transcript.render_row(row) for row in rows]

    return render


def call(arguments, **more):
    content = {"name": "pay", "display_text": "Pay", "arguments": arguments}
    return ("assistant", "tool_call", content, {"tool_call_id": "c1", **more})


def test_hostile_arguments_are_inert_and_what_hides_is_marked(show):
    evil = {"memo\u200b": "<script>x</script>\u202edecorer", "list": ["<img onerror=1>"]}
    (html,) = show(call(evil))
    assert "<script" not in html
    assert "<img" not in html
    assert "U+202E" in html
    assert "U+200B" in html
    assert "\u202e" not in html


def test_a_long_argument_is_folded(show):
    (html,) = show(call({"memo": "x" * 5_000}))
    assert "Show all" in html


def test_a_result_stands_in_its_calls_row(show):
    result = ("tool", "tool_result", {"name": "pay", "content": '{"a":1}'}, {"tool_call_id": "c1"})
    (html,) = show(call({}, status="completed"), result)
    assert "Done" in html
    assert "&quot;a&quot;: 1" in html


def test_a_result_without_its_call_stands_alone(show):
    content = {"name": "pay", "content": "<b>odd</b>", "is_error": True}
    (html,) = show(("tool", "tool_result", content, {"tool_call_id": "c1"}))
    assert "Result of pay" in html
    assert "&lt;b&gt;odd&lt;/b&gt;" in html


@pytest.mark.parametrize(
    ("decision", "words"),
    [
        ("approved", "Approved by rita"),
        ("edited", "Approved with changes by rita"),
        ("rejected", "Declined by rita"),
        ("answered", "Answered by rita"),
        ("expired", "Nobody decided in time"),
        ("superseded", "Withdrawn"),
        ("cancelled", "Cancelled"),
    ],
)
def test_what_a_person_said_stands_under_the_call(show, decision, words):
    mark = {"decision": decision, "decided_by": "rita", "note": "<i>why</i>"}
    (html,) = show(call({}, metadata=mark))
    assert words in html
    assert "&lt;i&gt;why&lt;/i&gt;" in html


@pytest.mark.parametrize(
    ("reason", "words"),
    [
        ("length", "longest length"),
        ("content_filtered", "filter"),
        ("stream_error", "connection to the model broke"),
        ("cancelled", "Stopped here"),
        ("odd", "odd"),
    ],
)
@pytest.mark.parametrize("kind", ["text", "thinking"])
def test_how_a_message_was_cut_off_stands_outside_of_what_is_folded(show, kind, reason, words):
    content = {"text": "so far", "stop_reason": reason}
    (html,) = show(("assistant", kind, content, {}))
    assert words in html.split("</details>")[-1]


def test_each_kind_has_its_words(show):
    html = show(
        ("user", "text", {"text": "<b>me</b>"}, {}),
        ("assistant", "thinking", {"text": "hm"}, {}),
        ("assistant", "halt", {"text": "no *more*"}, {"tool_call_id": "c9"}),
        ("system", "notification", {"text": "The agent was stopped."}, {}),
        ("system", "error", {"text": "Sorry <x>"}, {}),
        ("system", "text", {"text": "told"}, {}),
    )
    assert "&lt;b&gt;me&lt;/b&gt;" in html[0]
    assert "<details" in html[1]
    assert "<em>more</em>" in html[2]
    assert "The agent was stopped." in html[3]
    assert "Sorry &lt;x&gt;" in html[4]
    assert "notification" in html[5]


def test_a_kind_of_another_version_is_shown_as_what_it_holds(conversation):
    payload = {
        "id": "1",
        "number": 1,
        "message_type": "system",
        "content_type": "hologram",
        "content": {"beam": "<up>"},
        "status": "completed",
        "tool_call_id": "",
        "metadata": {},
        "created_at": "2026-01-01T00:00:00+00:00",
    }
    (row,) = transcript.present_rows(conversation, [payload], is_owner=False)
    assert "&lt;up&gt;" in transcript.render_row(row)


def test_a_row_looks_new_exactly_when_it_changed(conversation, show):
    show(call({"amount": 1}))
    row = DisplayMessage.objects.get()

    def version():
        payload = json.loads(json.dumps(live.row_payload(row)))
        (shown,) = transcript.present_rows(conversation, [payload], is_owner=True)
        return shown.version

    first = version()
    assert version() == first
    row.status = DisplayMessage.Status.EXECUTING
    assert version() != first


def test_only_the_owner_gets_a_way_to_take_back(show, conversation):
    (html,) = show(("user", "text", {"text": "later"}, {"status": "queued"}))
    assert "Take back" in html
    payload = live.row_payload(DisplayMessage.objects.get())
    (row,) = transcript.present_rows(conversation, [payload], is_owner=False)
    assert "Take back" not in transcript.render_row(row)


def test_only_what_is_finished_is_announced(show):
    text, thinking, user = show(
        ("assistant", "text", {"text": "x" * 1000}, {}),
        ("assistant", "thinking", {"text": "hm"}, {}),
        ("user", "text", {"text": "me"}, {}),
    )
    assert "data-announce" in text
    assert "data-announce" not in thinking + user
