import re

import pytest
from django.db import OperationalError
from django.test import Client, RequestFactory
from django.urls import reverse

from sagents_app.engine.interrupts import Halt
from sagents_app.models import Conversation
from sagents_app.services import conversations
from sagents_app.web.access import members_only
from tests import world
from tests.web.conftest import login

pytestmark = pytest.mark.django_db


def text(response):
    return response.content.decode()


def without_token(response):
    return re.sub(r'name="csrfmiddlewaretoken" value="\w+"', "", text(response))


def test_a_newcomer_sees_what_this_is_and_the_agents(owner, scripted):
    name = scripted("hi")
    page = text(login(owner).get("/"))
    assert "Agents that people oversee" in page
    assert f'value="{name}"' in page


def test_pages_ask_for_a_login_and_come_back(owner, waiting):
    url = waiting.get_absolute_url()
    for path in ("/", url):
        assert Client().get(path).url == f"/accounts/login/?next={path}"
    answer = Client().get(url, headers={"Accept": "application/json"})
    assert (answer.status_code, answer.json()["error"]["code"]) == (401, "logged_out")


def test_without_a_login_page_the_admins_is_asked(settings):
    settings.LOGIN_URL = "/nowhere/login/"
    assert Client().get("/").url == "/admin/login/?next=/"


def test_the_list_names_what_each_conversation_waits_for(owner, waiting):
    page = text(login(owner).get("/"))
    assert "pay ten" in page
    assert "Waiting for a reviewer" in page


def test_the_list_shows_a_reviewer_what_waits_for_them(reviewer, waiting):
    page = text(login(reviewer).get("/"))
    assert "Waiting for your decision" in page
    assert "amount: 10" in page
    assert waiting.get_absolute_url() in page


def test_the_list_finds_titles_and_says_when_there_are_none(owner, waiting):
    client = login(owner)
    assert "pay ten" in text(client.get("/", {"q": "TEN"}))
    assert "No title has" in text(client.get("/", {"q": "<b>"}))
    assert "<b>" not in text(client.get("/", {"q": "<b>"}))


def test_the_list_costs_the_same_however_long_it_is(
    owner, scripted, django_assert_num_queries, django_assert_max_num_queries
):
    client, name = login(owner), scripted("hi")
    conversations.create_conversation(agent=name, owner=owner)
    with django_assert_max_num_queries(8) as few:
        client.get("/")
    for _ in range(10):
        world.chat(scripted("hi"), owner)
    with django_assert_num_queries(len(few)):
        client.get("/")


def test_a_page_costs_the_same_however_much_was_said(
    owner, scripted, django_assert_num_queries, django_assert_max_num_queries
):
    client = login(owner)
    conversation = world.chat(scripted(*["yes"] * 12), owner)
    with django_assert_max_num_queries(11) as few:
        client.get(conversation.get_absolute_url())
    for _ in range(10):
        conversations.post_message(conversation=conversation, text="more", actor=owner)
        world.drive(conversation)
    with django_assert_num_queries(len(few)):
        client.get(conversation.get_absolute_url())


def test_the_owner_reads_writes_and_sees_what_is_awaited(owner, waiting):
    page = text(login(owner).get(waiting.get_absolute_url()))
    assert 'id="composer"' in page
    assert "Waiting for a reviewer: Pay" in page
    assert "Withdraw the request" in page
    assert 'value="approve"' not in page


def test_a_reviewer_reads_and_decides_without_a_composer(reviewer, waiting):
    page = text(login(reviewer).get(waiting.get_absolute_url()))
    assert "pay ten" in page
    assert 'id="composer"' not in page
    assert "May the agent do this: Pay?" in page
    assert 'value="approve"' in page
    assert "Withdraw the request" not in page


def test_foreign_and_missing_look_alike(stranger, waiting, settings):
    settings.DEBUG = False
    client = login(stranger)
    missing = "00000000-0000-0000-0000-000000000000"
    for name, args in (("conversation", ()), ("earlier", (5,))):
        foreign = client.get(reverse(f"sagents:{name}", args=[waiting.pk, *args]))
        absent = client.get(reverse(f"sagents:{name}", args=[missing, *args]))
        assert (foreign.status_code, absent.status_code) == (404, 404)
        assert without_token(foreign) == without_token(absent)


def test_a_page_has_nothing_inline_but_data(owner, waiting):
    page = text(login(owner).get(waiting.get_absolute_url()))
    scripts = [part.split(">")[0] for part in page.split("<script")[1:]]
    assert all("src=" in one or 'type="application/json"' in one for one in scripts)
    assert "<style" not in page
    assert " style=" not in page
    assert "javascript:" not in page


def test_a_halt_is_shown_with_its_message_and_a_way_out(owner, scripted):
    from sagents_app.engine import tool

    @tool
    def stop() -> Halt:
        """Stop."""
        return Halt("The **bank** said no.")

    name = scripted(world.calls(world.call("c1", "stop")), tools=[stop])
    page = text(login(owner).get(world.chat(name, owner).get_absolute_url()))
    assert "The <strong>bank</strong> said no." in page
    assert "/dismissal/" in page
    assert "Stopped here" in page


def test_earlier_rows_are_a_page_of_their_own_and_a_part_for_scripts(owner, scripted, monkeypatch):
    from sagents_app.presenters import pages

    monkeypatch.setattr(pages, "ROWS", 2)
    conversation = world.chat(scripted("one", "two", "three"), owner, "first")
    for words in ("second", "third"):
        conversations.post_message(conversation=conversation, text=words, actor=owner)
        world.drive(conversation)
    client = login(owner)
    page = text(client.get(conversation.get_absolute_url()))
    assert "third" in page
    assert "second" not in page

    url = reverse("sagents:earlier", args=[conversation.pk, 5])
    assert url in page
    assert "second" in text(client.get(url))
    part = text(client.get(url, headers={"X-Requested-With": "fetch"}))
    assert "second" in part
    assert "<html" not in part
    assert reverse("sagents:earlier", args=[conversation.pk, 3]) in part


def test_a_database_out_of_reach_is_a_503_and_never_an_empty_page(owner):
    @members_only
    def view(request):
        raise OperationalError("gone")

    request = RequestFactory().get("/")
    request.user = owner
    answer = view(request)
    assert answer.status_code == 503
    assert "The database does not answer" in text(answer)

    request = RequestFactory().get("/", headers={"Accept": "application/json"})
    request.user = owner
    assert b"database_unreachable" in view(request).content


def test_a_queued_run_that_nobody_takes_says_so(owner, scripted, monkeypatch):
    from datetime import timedelta

    from sagents_app.presenters import state

    conversation = world.begin(scripted("hi"), owner)
    client = login(owner)
    assert "Starting…" in text(client.get(conversation.get_absolute_url()))
    monkeypatch.setattr(state, "STARTING", timedelta(0))
    assert "Waiting for a worker" in text(client.get(conversation.get_absolute_url()))


@pytest.mark.parametrize(
    ("status", "words"),
    [("error", "could not go on"), ("cancelled", "was stopped"), ("paused", "Paused;")],
)
def test_what_went_wrong_can_be_tried_again(owner, scripted, status, words):
    conversation = conversations.create_conversation(agent=scripted("hi"), owner=owner)
    Conversation.objects.filter(pk=conversation.pk).update(status=status)
    page = text(login(owner).get(conversation.get_absolute_url()))
    assert words in page
    assert "Try again" in page


def test_a_conversation_of_an_agent_that_is_gone_can_still_be_read(owner, scripted):
    conversation = world.chat(scripted("hi"), owner)
    Conversation.objects.filter(pk=conversation.pk).update(agent_name="gone")
    assert login(owner).get(conversation.get_absolute_url()).status_code == 200


def test_an_operator_may_stop_and_retry_but_not_write(owner, scripted):
    conversation = world.begin(scripted("hi"), owner)
    client = login(world.operator())
    page = text(client.get(conversation.get_absolute_url()))
    assert "/cancellation/" in page
    assert 'id="composer"' not in page
    assert "/cancellation/" not in text(
        login(world.person("eve", "view_conversation")).get(conversation.get_absolute_url())
    )
