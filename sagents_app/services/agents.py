"""The registry of agents: what installed apps offer, under which rules their calls are reviewed."""

from __future__ import annotations

from collections.abc import Callable, Iterable, Mapping
from dataclasses import asdict, dataclass, field
from datetime import timedelta
from typing import Any, Literal

from sagents_app.engine import Agent, Misconfigured
from sagents_app.models import Conversation
from sagents_app.services.errors import UnknownAgent

Builder = Callable[[Conversation], Agent]
DECIDE = "sagents_app.decide_interrupt"
EXPIRY = ("reject", "halt", "wait")


@dataclass(frozen=True, slots=True, kw_only=True)
class ReviewRule:
    """Who decides about calls of which tools.

    Raises:
        Misconfigured: a value that cannot work; names the key.
    """

    tools: tuple[str, ...]
    """Names of tools; `("*",)` is every tool without a rule of its own."""
    permission: str = DECIDE
    group: str = ""
    """A group that reviewers have to be in beside the permission; empty: any."""
    owner_may_decide: bool = False
    approvals: int = 1
    """How many people have to approve; more than one is refused rather than not enforced."""
    deadline: timedelta | None = None
    """How long a request waits before `on_expiry` decides; None: for ever."""
    escalate_to: str | None = None
    """Whom a request goes to next; anything but None is refused rather than not done."""
    on_expiry: Literal["reject", "halt", "wait"] = "reject"

    def __post_init__(self) -> None:
        if isinstance(self.tools, str) or not self.tools:
            raise Misconfigured(f"ReviewRule: tools is a tuple of names, got {self.tools!r}")
        if self.permission.count(".") != 1:
            problem = f"'app.codename', got {self.permission!r}"
            raise Misconfigured(f"ReviewRule for {self.tools}: permission is {problem}")
        if self.approvals != 1:
            raise Misconfigured(f"ReviewRule for {self.tools}: approvals can only be 1")
        if self.escalate_to is not None:
            raise Misconfigured(f"ReviewRule for {self.tools}: escalate_to can only be None")
        if self.deadline is not None and self.deadline <= timedelta(0):
            raise Misconfigured(f"ReviewRule for {self.tools}: deadline is a time above 0")
        if self.on_expiry not in EXPIRY:
            raise Misconfigured(f"ReviewRule for {self.tools}: on_expiry is one of {EXPIRY}")

    def snapshot(self) -> dict[str, Any]:
        """Return the rule as JSON, as it is kept on each interrupt."""
        seconds = None if self.deadline is None else self.deadline.total_seconds()
        return {**asdict(self), "tools": list(self.tools), "deadline": seconds}


DEFAULT_RULE = ReviewRule(tools=("*",))


@dataclass(frozen=True, slots=True, kw_only=True)
class Registration:
    """One registered agent."""

    name: str
    version: str
    build: Builder
    label: str = ""
    review: tuple[ReviewRule, ...] = field(default=())

    def rule_for(self, tool_name: str) -> ReviewRule:
        """Return the rule of a tool: its own, else the one for every tool, else the default."""
        for rule in self.review:
            if tool_name in rule.tools:
                return rule
        return next((rule for rule in self.review if "*" in rule.tools), DEFAULT_RULE)


_registered: dict[str, Registration] = {}


def register(
    name: str, *, version: str = "1", label: str = "", review: Iterable[ReviewRule] = ()
) -> Callable[[Builder], Builder]:
    """Register the decorated function as the builder of agent `name`.

    It gets the conversation, which may be unsaved: at start-up every agent is built once.

    Raises:
        Misconfigured: the name is empty or taken by another function.
    """

    def decorate(build: Builder) -> Builder:
        known = _registered.get(name)
        if not name or (known is not None and known.build.__module__ != build.__module__):
            raise Misconfigured(f"agents.register: the name {name!r} is empty or taken")
        _registered[name] = Registration(
            name=name, version=version, build=build, label=label or name, review=tuple(review)
        )
        return build

    return decorate


def registered() -> Mapping[str, Registration]:
    """Return every registered agent by name."""
    return dict(_registered)


def get(name: str) -> Registration:
    """Return a registered agent.

    Raises:
        UnknownAgent: names the known ones.
    """
    try:
        return _registered[name]
    except KeyError:
        known = ", ".join(sorted(_registered)) or "none"
        raise UnknownAgent(f"There is no agent {name!r}; there are: {known}.") from None


def build(conversation: Conversation) -> Agent:
    """Return the conversation's agent, built anew and checked against its review rules.

    Raises:
        UnknownAgent: nobody registers it any more.
        Misconfigured: what its builder made cannot work; nothing runs ungated.
    """
    registration = get(conversation.agent_name)
    agent = registration.build(conversation)
    if not isinstance(agent, Agent):
        raise Misconfigured(f"agent {registration.name!r}: its builder returned {agent!r:.200}")
    for rule in registration.review:
        for tool_name in rule.tools:
            if tool_name != "*" and tool_name not in agent.tools:
                known = ", ".join(agent.tools) or "none"
                problem = f"no tool {tool_name!r} for a review rule; it has {known}"
                raise Misconfigured(f"agent {registration.name!r}: {problem}")
    return agent
