import pytest
from django.test import Client
from django.urls import reverse

from sagents_app.models import Conversation, InboxMessage, Interrupt
from tests import world
from tests.web.conftest import as_script, login

pytestmark = pytest.mark.django_db
MISSING = "00000000-0000-0000-0000-000000000000"


def path(name, target):
    return reverse(f"sagents:{name}", args=[getattr(target, "pk", target)])


@pytest.fixture
def quiet(owner, scripted):
    """A conversation in which one message was answered."""
    return world.chat(scripted("hello", "again"), owner)


def test_a_conversation_begins_with_a_press(owner, scripted):
    name = scripted("hi")
    answer = login(owner).post("/conversations/", {"agent": name})
    made = Conversation.objects.get(agent_name=name)
    assert (made.owner, answer.url) == (owner, made.get_absolute_url())


def test_an_unknown_agent_is_told_where_the_person_is(owner):
    client = login(owner)
    page = client.post("/conversations/", {"agent": "nobody"}, follow=True)
    assert "There is no agent" in page.content.decode()
    answer = as_script(client, "/conversations/", agent="nobody")
    assert (answer.status_code, answer.json()["error"]["code"]) == (422, "unknown_agent")


def test_a_message_is_taken_by_script_and_by_form(owner, quiet):
    client = login(owner)
    answer = as_script(client, path("new-message", quiet), text="one", client_id="a")
    assert answer.status_code == 201
    row = InboxMessage.objects.get(client_id="a").display_message
    assert answer.json() == {"conversation": str(quiet.pk), "message": str(row.pk)}
    answer = client.post(path("new-message", quiet), {"text": "two"})
    assert answer.url == quiet.get_absolute_url()


def test_a_repeated_post_is_one_message(owner, quiet):
    client = login(owner)
    first, second = (
        as_script(client, path("new-message", quiet), text="once", client_id="same").json()
        for _ in range(2)
    )
    assert first == second
    assert InboxMessage.objects.filter(text="once").count() == 1


@pytest.mark.parametrize(
    ("text", "words"),
    [("", "Write something"), ("  \n ", "Write something"), ("x" * 100_001, "at")],
)
def test_an_empty_or_huge_message_comes_back_with_a_reason(owner, quiet, text, words):
    client = login(owner)
    answer = as_script(client, path("new-message", quiet), text=text)
    assert answer.status_code == 422
    assert words in answer.json()["error"]["text"]
    page = client.post(path("new-message", quiet), {"text": text})
    assert page.status_code == 422
    assert words in page.content.decode()
    assert page.context["draft"] == text
    assert InboxMessage.objects.count() == 1


def test_a_huge_message_that_is_allowed_is_folded(owner, quiet):
    client = login(owner)
    as_script(client, path("new-message", quiet), text="x" * 100_000)
    page = client.get(quiet.get_absolute_url()).content.decode()
    assert "Show all 100000 characters" in page or "Show all 100,000 characters" in page


def test_a_reviewer_cannot_write(reviewer, waiting):
    answer = as_script(login(reviewer), path("new-message", waiting), text="hi")
    assert (answer.status_code, answer.json()["error"]["code"]) == (403, "not_allowed")


def test_a_queued_message_can_be_taken_back_once(owner, waiting):
    client = login(owner)
    row = as_script(client, path("new-message", waiting), text="later").json()["message"]
    page = client.get(waiting.get_absolute_url()).content.decode()
    assert "Queued" in page
    assert as_script(client, path("withdraw-message", waiting), message=row).status_code == 200
    assert "Taken back" in client.get(waiting.get_absolute_url()).content.decode()
    again = as_script(client, path("withdraw-message", waiting), message=row)
    assert (again.status_code, again.json()["error"]["code"]) == (409, "nothing_to_do")


@pytest.mark.parametrize("message", ["", "nonsense", MISSING])
def test_a_message_that_is_not_there_cannot_be_taken_back(owner, waiting, message):
    answer = as_script(login(owner), path("withdraw-message", waiting), message=message)
    assert answer.status_code == 404


def test_stopping_what_waits_and_what_is_over(owner, waiting):
    client = login(owner)
    assert as_script(client, path("cancel", waiting)).status_code == 200
    waiting.refresh_from_db()
    assert waiting.status == "cancelled"
    again = as_script(client, path("cancel", waiting))
    assert (again.status_code, again.json()["error"]["code"]) == (409, "nothing_to_do")
    page = client.post(path("cancel", waiting), follow=True)
    assert "Nothing to stop" in page.content.decode()


def test_renaming_and_deleting(owner, quiet):
    client = login(owner)
    as_script(client, path("rename", quiet), title="Better")
    quiet.refresh_from_db()
    assert quiet.title == "Better"
    assert as_script(client, path("rename", quiet), title=" ").status_code == 422
    assert client.post(path("delete", quiet)).url == "/"
    assert not Conversation.objects.filter(pk=quiet.pk).exists()


COMMANDS = ["new-message", "withdraw-message", "cancel", "retry", "rename", "delete"]
DECISIONS = ["decide", "answer", "dismiss", "withdraw-request"]


@pytest.mark.parametrize("name", COMMANDS)
def test_commands_on_foreign_and_missing_conversations_look_alike(stranger, waiting, name):
    client = login(stranger)
    foreign = as_script(client, path(name, waiting), text="x", title="x")
    missing = as_script(client, path(name, MISSING), text="x", title="x")
    assert (foreign.status_code, missing.status_code) == (404, 404)
    waiting.refresh_from_db()
    assert waiting.status == "interrupted"


@pytest.mark.parametrize("name", DECISIONS)
def test_decisions_on_foreign_and_missing_requests_look_alike(stranger, waiting, name):
    client, row = login(stranger), world.pending(waiting)[0]
    foreign = as_script(client, path(name, row), decision="approve", digest=row.digest)
    missing = as_script(client, path(name, MISSING), decision="approve", digest=row.digest)
    assert (foreign.status_code, missing.status_code) == (404, 404)
    assert world.pending(waiting) == [row]


@pytest.mark.parametrize("name", [*COMMANDS, *DECISIONS])
def test_commands_are_posts_with_a_token_of_somebody_logged_in(owner, waiting, name):
    target = world.pending(waiting)[0] if name in DECISIONS else waiting
    assert login(owner).get(path(name, target)).status_code == 405
    assert as_script(Client(), path(name, target)).status_code == 401
    checked = login(owner, enforce_csrf_checks=True)
    assert as_script(checked, path(name, target), text="x").status_code == 403


def test_a_reviewer_approves(reviewer, waiting):
    row = world.pending(waiting)[0]
    posted = {"decision": "approve", "digest": row.digest, "note": "fine"}
    assert as_script(login(reviewer), path("decide", row), **posted).status_code == 200
    world.drive(waiting)
    assert world.transcript(waiting)[-1] == "assistant text: Done."
    row.refresh_from_db()
    assert (row.status, row.note, row.decided_by) == ("approved", "fine", reviewer)


def test_a_reviewer_edits_as_json(reviewer, waiting):
    row = world.pending(waiting)[0]
    posted = {"decision": "edit", "digest": row.digest, "arguments": '{"amount": 7}'}
    assert as_script(login(reviewer), path("decide", row), **posted).status_code == 200
    world.drive(waiting)
    row.refresh_from_db()
    assert (row.status, row.executed_arguments) == ("edited", '{"amount":7}')


@pytest.mark.parametrize(
    ("posted", "status"),
    [
        ({"decision": "edit", "arguments": "{"}, 422),
        ({"decision": "edit", "arguments": "[1]"}, 422),
        ({"decision": "edit", "arguments": '{"amount": "much"}'}, 422),
        ({"decision": "edit", "arguments": '{"amount": 1, "other": 2}'}, 422),
        ({"decision": "approve", "arguments": '{"amount": 1}'}, 422),
        ({"decision": "edit"}, 422),
        ({"decision": "cancel"}, 422),
        ({"decision": "nonsense"}, 422),
        ({}, 422),
        ({"decision": "approve", "digest": "another"}, 409),
    ],
)
def test_a_decision_that_does_not_fit_changes_nothing(reviewer, waiting, posted, status):
    row = world.pending(waiting)[0]
    client = login(reviewer)
    answer = as_script(client, path("decide", row), **{"digest": row.digest, **posted})
    assert answer.status_code == status
    assert answer.json()["error"]["text"]
    page = client.post(path("decide", row), {"digest": row.digest, **posted}, follow=True)
    assert page.status_code in (200, 422)
    assert posted.get("arguments", "").replace('"', "&quot;") in page.content.decode()
    assert world.pending(waiting) == [row]


def test_a_decision_on_a_decided_request_says_who_was_faster(reviewer, waiting):
    row, client = world.pending(waiting)[0], login(reviewer)
    posted = {"decision": "reject", "digest": row.digest}
    assert as_script(client, path("decide", row), **posted).status_code == 200
    again = as_script(client, path("decide", row), **{**posted, "decision": "approve"})
    assert (again.status_code, again.json()["error"]["code"]) == (409, "already_decided")
    assert "rita" in again.json()["error"]["text"]


def test_the_owner_withdraws_but_does_not_decide(owner, waiting):
    row, client = world.pending(waiting)[0], login(owner)
    answer = as_script(client, path("decide", row), decision="approve", digest=row.digest)
    assert answer.status_code == 403
    assert as_script(client, path("withdraw-request", row)).status_code == 200
    assert Interrupt.objects.get(pk=row.pk).status == "superseded"
