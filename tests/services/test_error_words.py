"""What a person reads when a run fails: plain words, nothing that a provider or a host wrote."""

from __future__ import annotations

import logging

import pytest

from sagents_app.engine.errors import (
    AuthenticationFailed,
    BadRequest,
    BudgetExceeded,
    RateLimited,
    StepFailed,
    TurnError,
)
from sagents_app.models import DisplayMessage, Event, Run
from sagents_app.services import conversations, display, runs
from tests.world import person, register

SECRET = "Incorrect API key provided: sk-secret"


@pytest.mark.parametrize(
    ("error", "told"),
    [
        (AuthenticationFailed(SECRET), display.UNTOLD),
        (BadRequest(SECRET), display.UNTOLD),
        (StepFailed(f"RuntimeError: {SECRET}"), display.UNTOLD),
        (RateLimited(SECRET), display.WORDS["rate_limited"]),
        (BudgetExceeded("(3/3)", limit=3, used=3), "(3/3)"),
        (BudgetExceeded("9/9", limit=9, used=9, budget="tokens"), "9/9"),
        (TurnError("the workers were lost"), "the workers were lost"),
    ],
)
def test_only_our_own_words_are_told(error: TurnError, told: str) -> None:
    assert display.words_for(error) == told


@pytest.mark.django_db(transaction=True)
def test_a_providers_words_stay_on_the_run_and_in_the_log(caplog: pytest.LogCaptureFixture) -> None:
    register("plain", AuthenticationFailed(SECRET))
    owner = person()
    conversation = conversations.create_conversation(agent="plain", owner=owner)
    conversations.post_message(conversation=conversation, text="hi", actor=owner)
    run = Run.objects.get()
    with caplog.at_level(logging.WARNING, logger="sagents_app"):
        runs.drive_run(run_id=run.pk)
    run.refresh_from_db()
    assert (run.cause, run.error_type) == (SECRET, "authentication_failed")
    [record] = [one for one in caplog.records if "failed" in one.getMessage()]
    assert str(run.pk) in record.getMessage()
    row = DisplayMessage.objects.get(content_type="error")
    assert row.content == {
        "text": f"Sorry, something went wrong: {display.UNTOLD}",
        "error_type": "authentication_failed",
    }
    payloads = Event.objects.filter(conversation=conversation).values_list("payload", flat=True)
    assert "sk-secret" not in str(list(payloads))
