"""Where a conversation stands, in words for one viewer: the badge, and what waits for whom."""

from __future__ import annotations

from collections.abc import Mapping
from dataclasses import dataclass
from datetime import timedelta
from typing import Any

from django.template.loader import render_to_string
from django.utils import timezone
from django.utils.translation import gettext as _

from sagents_app.forms import DecisionForm
from sagents_app.models import Conversation, Interrupt, Run
from sagents_app.presenters import requests
from sagents_app.presenters.requests import Request

Status = Conversation.Status
STARTING = timedelta(seconds=5)
"""How long a queued run may take to start before the page says that no worker takes it."""


@dataclass(frozen=True, slots=True, kw_only=True)
class State:
    """What `chat/panel.html` and `chat/badge.html` show."""

    conversation: Conversation
    phase: str
    """idle, starting, no_worker, working, stopping, waiting, halted, paused, cancelled or error."""
    label: str
    is_owner: bool
    may_steer: bool = False
    """Whether the viewer may stop it, or let it try again: the owner, or an operator."""
    requests: tuple[Request, ...] = ()
    reason: str = ""
    """Why it is paused."""

    @property
    def tone(self) -> str:
        """The colour of the badge: quiet, busy, waiting or bad."""
        match self.phase:
            case "starting" | "working" | "stopping":
                return "busy"
            case "waiting" | "halted" | "paused" | "no_worker":
                return "waiting"
            case "error":
                return "bad"
            case _:
                return "quiet"

    @property
    def is_live(self) -> bool:
        """Whether a run is queued or driven."""
        return self.phase in ("starting", "no_worker", "working", "stopping")


def present_state(
    conversation: Conversation, user: Any, *, refused: Mapping[str, DecisionForm] | None = None
) -> State:
    """Return where a conversation, just read, stands for `user`."""
    is_owner = conversation.owner_id == user.pk
    asked = tuple(requests.present_requests(conversation, user, refused=refused))
    run = _last_run(conversation)
    phase = _phase(conversation, run, asked)
    return State(
        conversation=conversation,
        phase=phase,
        label=_label(phase, asked, is_owner=is_owner),
        is_owner=is_owner,
        may_steer=is_owner or user.has_perm("sagents_app.operate_conversation"),
        requests=asked,
        reason=run.cause if run is not None and phase == "paused" else "",
    )


def state_parts(state: State) -> dict[str, Any]:
    """Return a state as it goes over a socket, with the HTML that a page puts in place."""
    return {
        "status": state.conversation.status,
        "phase": state.phase,
        "title": str(state.conversation),
        "badge": render_to_string("sagents_app/chat/badge.html", {"state": state}),
        "panel": render_to_string("sagents_app/chat/panel.html", {"state": state}),
    }


def _last_run(conversation: Conversation) -> Run | None:
    if conversation.status not in (Status.RUNNING, Status.PAUSED):
        return None
    return Run.objects.filter(conversation=conversation).order_by("-created_at").first()


def _phase(conversation: Conversation, run: Run | None, asked: tuple[Request, ...]) -> str:
    match conversation.status:
        case Status.RUNNING:
            return _live_phase(run)
        case Status.INTERRUPTED:
            halted = any(one.interrupt.kind == Interrupt.Kind.HALT for one in asked)
            return "halted" if halted else "waiting"
        case status:
            return str(status)


def _live_phase(run: Run | None) -> str:
    if run is None or run.status != Run.Status.QUEUED:
        stopping = run is not None and run.cancel_requested_at is not None
        return "stopping" if stopping else "working"
    return "starting" if timezone.now() - run.created_at < STARTING else "no_worker"


def _label(phase: str, asked: tuple[Request, ...], *, is_owner: bool) -> str:
    match phase:
        case "starting":
            return _("Starting")
        case "no_worker":
            return _("Waiting for a worker")
        case "working":
            return _("Working")
        case "stopping":
            return _("Stopping")
        case "halted":
            return _("Stopped")
        case "waiting":
            return _waiting_label(asked, is_owner=is_owner)
        case "paused":
            return _("Paused")
        case "cancelled":
            return _("Cancelled")
        case "error":
            return _("Something went wrong")
        case _:
            return _("Ready")


def _waiting_label(asked: tuple[Request, ...], *, is_owner: bool) -> str:
    if any(one.form is not None for one in asked):
        return _("Waiting for your decision")
    if any(one.kind != Interrupt.Kind.QUESTION for one in asked):
        return _("Waiting for a reviewer")
    return _("Waiting for your answer") if is_owner else _("Waiting for its owner")
