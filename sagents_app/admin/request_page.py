"""What the page of one request shows: facts of ours apart from words of others. Reads only."""

from __future__ import annotations

from collections.abc import Sequence
from dataclasses import dataclass, field
from datetime import datetime
from functools import cached_property
from typing import Any

from django.template.loader import select_template
from django.urls import NoReverseMatch, reverse
from django.utils.translation import gettext as _

from sagents_app import engine, hidden_characters
from sagents_app.admin import arguments, words
from sagents_app.admin.arguments import Argument
from sagents_app.engine import canonical
from sagents_app.models import DisplayMessage, Interrupt, InterruptDecision
from sagents_app.presenters import frames, values
from sagents_app.presenters.values import Shown
from sagents_app.services import agents, display, interrupts

MOST_TURNS = 8
TURNS = ("text", "halt", "notification", "error", "tool_call", "tool_result")


@dataclass(frozen=True, slots=True, kw_only=True)
class Fact:
    """One thing that this site knows, or a moment in time."""

    label: str
    shown: Shown | None = None
    at: datetime | None = None
    url: str = ""


@dataclass(frozen=True, slots=True, kw_only=True)
class Turn:
    """One row of the transcript before the request."""

    role: str
    kind: str
    who: str
    shown: Shown


@dataclass(frozen=True, slots=True, kw_only=True)
class Record:
    """One try to decide."""

    what: str
    who: str
    at: datetime
    refusal: str = ""
    note: Shown | None = None


@dataclass(frozen=True, slots=True, kw_only=True)
class Companion:
    """One request of the same batch."""

    title: str
    summary: str
    status: str
    status_label: str
    url: str
    is_current: bool


@dataclass
class RequestPage:
    """One request, as `user` may see it; each part is read when a template asks for it."""

    interrupt: Interrupt
    user: Any
    tool: engine.Tool | None = field(default=None)

    @property
    def title(self) -> str:
        """The request in a word or two."""
        return hidden_characters.escape(str(self.interrupt))

    @property
    def sentence(self) -> str:
        """The request in a sentence."""
        return words.sentence(self.interrupt)

    @property
    def words(self) -> words.Buttons:
        """What the buttons say for this kind."""
        return words.buttons(self.interrupt.kind)

    @property
    def url(self) -> str:
        """This page."""
        return page_url(self.interrupt)

    @property
    def decision_url(self) -> str:
        """Where a decision is posted."""
        return reverse("admin:sagents_app_interrupt_decision", args=[self.interrupt.pk])

    @property
    def live_url(self) -> str:
        """Where to ask whether it still waits; empty once it does not."""
        if not self.interrupt.is_pending:
            return ""
        return reverse("admin:sagents_app_interrupt_status", args=[self.interrupt.pk])

    @property
    def socket_url(self) -> str:
        """Where the conversation's news come from."""
        return f"/{frames.SOCKET_PATH}"

    @property
    def since(self) -> int:
        """The number of the conversation's last event that is in this page."""
        return self.interrupt.conversation.next_event_number - 1

    @property
    def transcript_url(self) -> str:
        """The conversation's transcript in the admin."""
        return reverse(
            "admin:sagents_app_conversation_change", args=[self.interrupt.conversation_id]
        )

    @cached_property
    def next_url(self) -> str:
        """The page of the request that waits longest, empty where none does."""
        waiting = Interrupt.objects.pending().reviewable_by(self.user)
        pk = waiting.exclude(pk=self.interrupt.pk).values_list("pk", flat=True).first()
        return reverse("admin:sagents_app_interrupt_change", args=[pk]) if pk else ""

    @property
    def card_template(self) -> Any:
        """The template of the kind's card; kinds without one are shown as JSON."""
        folder = "admin/sagents_app/interrupt/kinds"
        return select_template([f"{folder}/{self.interrupt.kind}.html", f"{folder}/unknown.html"])

    @property
    def can_edit(self) -> bool:
        """Whether its arguments may be changed."""
        return self.interrupt.is_pending and "edit" in self.interrupt.allowed_decisions

    @cached_property
    def facts(self) -> list[Fact]:
        """What this site knows of the request, in the order in which it is asked for."""
        interrupt, conversation = self.interrupt, self.interrupt.conversation
        facts = [
            Fact(label=_("Agent"), shown=values.show_text(words.agent_path(interrupt))),
            Fact(
                label=_("Asked for by"), shown=values.show_text(conversation.owner.get_username())
            ),
            Fact(
                label=_("Conversation"),
                shown=values.show_text(str(conversation)),
                url=conversation_url(conversation) or self.transcript_url,
            ),
            Fact(
                label=_("Waiting since") if interrupt.is_pending else _("Asked at"),
                at=interrupt.created_at,
            ),
        ]
        if interrupt.tool_name:
            facts.insert(0, Fact(label=_("Tool"), shown=values.show_text(interrupt.tool_name)))
        if interrupt.expires_at:
            facts.append(Fact(label=_("Expires"), at=interrupt.expires_at))
        return facts

    @cached_property
    def arguments(self) -> list[Argument]:
        """The arguments as proposed, decided and executed."""
        return arguments.side_by_side(
            self.interrupt.arguments,
            decided=self.decided_arguments,
            executed=self.interrupt.executed_arguments or None,
            schema=self.tool.parameters if self.tool else None,
        )

    @property
    def decided_arguments(self) -> str | None:
        """The arguments that were agreed to, as JSON; None where the call was not agreed to."""
        decision = self.interrupt.decision or {}
        match decision.get("type"):
            case "edit":
                return str(decision.get("arguments_json") or canonical.NOTHING)
            case "approve":
                return self.interrupt.arguments
            case _:
                return None

    @property
    def has_decided(self) -> bool:
        """Whether there are decided arguments."""
        return self.decided_arguments is not None

    @property
    def has_executed(self) -> bool:
        """Whether the call ran."""
        return bool(self.interrupt.executed_arguments)

    @property
    def raw(self) -> Shown:
        """The stored request as JSON, for kinds that today's code does not know."""
        return values.show_value(self.interrupt.payload)

    @property
    def known(self) -> Shown:
        """What is known of a call whose outcome nobody recorded."""
        return values.show_text(str(self.interrupt.payload.get("known") or ""))

    @property
    def outcome(self) -> str:
        """What became of the request, in a sentence."""
        return words.outcome(self.interrupt)

    @property
    def note(self) -> Shown | None:
        """What the reviewer wrote, or answered in the tool's place."""
        text = self.interrupt.note or str((self.interrupt.decision or {}).get("text") or "")
        return values.show_text(text) if text else None

    @cached_property
    def result(self) -> Shown | None:
        """What the call brought, None as long as it brought nothing."""
        row = DisplayMessage.objects.filter(
            conversation=self.interrupt.conversation_id,
            tool_call_id=self.interrupt.tool_call_id,
            content_type=DisplayMessage.Kind.TOOL_RESULT,
        ).first()
        return None if row is None else values.show_text(display.to_text(row))

    @cached_property
    def batch(self) -> Sequence[Companion]:
        """What was asked together with it, as far as the user may see it, itself included."""
        rows = Interrupt.objects.reviewable_by(self.user).filter(batch=self.interrupt.batch)
        return [
            Companion(
                title=hidden_characters.escape(str(row)),
                summary=arguments.summary(row.arguments),
                status=row.status,
                status_label=row.get_status_display(),
                url=page_url(row),
                is_current=row.pk == self.interrupt.pk,
            )
            for row in rows.order_by("position")[:50]
        ]

    @cached_property
    def turns(self) -> list[Turn]:
        """The last rows of the transcript before the request, oldest first."""
        rows = DisplayMessage.objects.filter(
            conversation=self.interrupt.conversation_id, content_type__in=TURNS
        )
        # A call inside a sub-agent has no row of its own: there the time tells what came before.
        call = rows.filter(content_type="tool_call", tool_call_id=self.interrupt.tool_call_id)
        number = call.values_list("number", flat=True).first()
        if number is None:
            rows = rows.filter(created_at__lte=self.interrupt.created_at)
        else:
            rows = rows.filter(number__lt=number)
        return [
            Turn(
                role=row.message_type,
                kind=row.content_type,
                who=words.author(row, self.interrupt.conversation),
                shown=values.show_text(display.to_text(row)),
            )
            for row in reversed(rows.order_by("-number")[:MOST_TURNS])
        ]

    @cached_property
    def records(self) -> list[Record]:
        """Every try to decide, oldest first."""
        rows = self.interrupt.decisions.select_related("actor")
        return [_record(row) for row in rows[:100]]


def page_url(interrupt: Interrupt) -> str:
    """Return the page of a request."""
    return reverse("admin:sagents_app_interrupt_change", args=[interrupt.pk])


def conversation_url(conversation: Any) -> str:
    """Return the live page of a conversation; empty in a project without the chat pages."""
    try:
        return str(conversation.get_absolute_url())
    except NoReverseMatch:
        return ""


def find_tool(interrupt: Interrupt) -> engine.Tool | None:
    """Return the tool as it is registered now; None where that cannot be told."""
    try:
        agent = agents.build(interrupt.conversation)
    except Exception:  # noqa: BLE001  # a builder is a project's own code; the page works without
        return None
    return interrupts.agent_inside(agent, interrupt.path).tools.get(interrupt.tool_name)


def named(interrupt: Interrupt) -> str:
    """Return a request's name in a message: what is asked, and in which conversation."""
    text = f"{interrupt} ({interrupt.conversation})"
    return hidden_characters.escape(text)


def _record(row: InterruptDecision) -> Record:
    refused = row.outcome == InterruptDecision.Outcome.REFUSED
    note = str(row.decision.get("note") or row.decision.get("text") or "")
    return Record(
        what=words.decision(str(row.decision.get("type") or "")),
        who=row.actor.get_username() if row.actor else _("nobody any more"),
        at=row.created_at,
        refusal=words.refusal(row.cause) if refused else "",
        note=values.show_text(note) if note else None,
    )
