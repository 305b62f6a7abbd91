"""Interrupts: what a turn stops for. Data that can be stored, shown, decided and resumed.

The kinds are open: a subclass of `Interrupt` with a `type` registers itself, and storage goes
through that registry.
"""

from __future__ import annotations

from collections.abc import Container, Iterator, Mapping
from dataclasses import dataclass, field, replace
from typing import Any, ClassVar, Literal

from sagents_app.engine import canonical
from sagents_app.engine.errors import Misconfigured

DecisionType = Literal["approve", "edit", "reject", "respond"]
RepeatRule = Literal["refuse", "ask"]
REPEAT_RULES: tuple[RepeatRule, ...] = ("refuse", "ask")
DECISION_TYPES: tuple[DecisionType, ...] = ("approve", "edit", "reject", "respond")
DEFAULT_DECISIONS: tuple[DecisionType, ...] = ("approve", "edit", "reject")

_kinds: dict[str, type[Interrupt]] = {}


def kinds() -> Mapping[str, type[Interrupt]]:
    """Return every registered kind by its `type`."""
    return _kinds


@dataclass(frozen=True, slots=True, kw_only=True)
class Interrupt:
    """Something that a person, or the host, has to settle before the turn goes on."""

    type: ClassVar[str] = ""
    """The kind's stored name; each subclass sets its own."""
    tool_call_id: str | None = None
    """The call whose tool raised it; the engine fills it in."""

    def __init_subclass__(cls, **kwargs: Any) -> None:
        super(Interrupt, cls).__init_subclass__(**kwargs)
        known = _kinds.get(cls.type)
        # a dataclass with slots is made twice, and a module may be loaded again
        again = known and (known.__module__, known.__name__) == (cls.__module__, cls.__name__)
        if not cls.type or (known and not again):
            raise Misconfigured(
                f"interrupt {cls.__qualname__} needs a `type` of its own, got {cls.type!r}"
            )
        _kinds[cls.type] = cls

    @property
    def members(self) -> tuple[Interrupt, ...]:
        """The interrupts inside; empty for all but wrappers."""
        return ()


@dataclass(frozen=True, slots=True)
class ActionRequest:
    """A tool call that waits for a decision, as it is shown to the reviewer."""

    tool_call_id: str
    tool_name: str
    arguments_json: str = canonical.NOTHING
    """Canonical JSON text; the digest is taken over it."""
    display_text: str = ""

    @property
    def arguments(self) -> dict[str, Any]:
        """The arguments, parsed anew for each caller."""
        parsed: dict[str, Any] = canonical.parse(self.arguments_json)
        return parsed

    @property
    def digest(self) -> str:
        """What a decision is bound to: call id, tool name and arguments."""
        return canonical.digest(self.tool_call_id, self.tool_name, self.arguments_json)


@dataclass(frozen=True, slots=True)
class ReviewConfig:
    """Which decisions a gate allows for a tool, and what a rejection means for repetitions."""

    allowed_decisions: tuple[DecisionType, ...] = DEFAULT_DECISIONS
    repeat_after_reject: RepeatRule = "refuse"
    """Whether the same call in the same turn is refused unasked, or a person is asked again."""

    def narrowed(self, other: ReviewConfig) -> ReviewConfig:
        """Return the rule that allows what both do; to reject is always allowed."""
        both = tuple(one for one in self.allowed_decisions if one in other.allowed_decisions)
        same = self.repeat_after_reject == other.repeat_after_reject
        return ReviewConfig(both or ("reject",), self.repeat_after_reject if same else "refuse")


@dataclass(frozen=True, slots=True)
class ApprovalRequest(Interrupt):
    """Calls of one assistant message that wait for a decision each, in call order."""

    type = "approval"
    action_requests: tuple[ActionRequest, ...]
    review_configs: Mapping[str, ReviewConfig] = field(default_factory=dict)
    """By tool name; a tool that is missing here allows approve, edit and reject."""

    def review_config(self, tool_name: str) -> ReviewConfig:
        """Return the rule under which a call of that tool is decided."""
        return self.review_configs.get(tool_name, ReviewConfig())


@dataclass(frozen=True, slots=True)
class QuestionOption:
    """One of the answers that are offered; `value` goes to the model, `label` to the person."""

    label: str = field(metadata={"description": "What the person reads."})
    value: str = field(metadata={"description": "What you get back where it is chosen."})
    description: str | None = field(
        default=None, metadata={"description": "A sentence about it, for the person."}
    )


@dataclass(frozen=True, slots=True)
class Question(Interrupt):
    """A question to the conversation's owner."""

    type = "ask_user_question"
    question: str
    response_type: Literal["single_select", "multi_select", "freeform"] = field(
        default="freeform", kw_only=True
    )
    options: tuple[QuestionOption, ...] = field(default=(), kw_only=True)
    allow_other: bool = field(default=False, kw_only=True)
    """Whether a text beside the options is an answer too."""
    allow_cancel: bool = field(default=True, kw_only=True)
    context: str | None = field(default=None, kw_only=True)


@dataclass(frozen=True, slots=True)
class Halt(Interrupt):
    """A tool ends the workflow: no further model call; `message` is for the person."""

    type = "halt"
    message: str = ""
    source_tool: str | None = field(default=None, kw_only=True)
    """The tool that halted; the engine fills it in where neither source is named."""
    source: str | None = field(default=None, kw_only=True)
    """Who halted, where it was not a tool."""
    source_task: str | None = field(default=None, kw_only=True)
    """The sub-agent task inside which it happened."""


@dataclass(frozen=True, slots=True)
class SubAgentInterrupt(Interrupt):
    """A sub-agent waits for `inner`; `path` names the agents from the outermost in."""

    type = "subagent_hitl"
    task_name: str
    path: tuple[str, ...] = field(kw_only=True)
    inner: Interrupt = field(kw_only=True)

    @property
    def members(self) -> tuple[Interrupt, ...]:
        """What the sub-agent waits for."""
        return (self.inner,)


@dataclass(frozen=True, slots=True)
class MultipleInterrupts(Interrupt):
    """Several calls of one batch wait, in call order."""

    type = "multiple_interrupts"
    interrupts: tuple[Interrupt, ...]

    @property
    def members(self) -> tuple[Interrupt, ...]:
        """The interrupts of the batch."""
        return self.interrupts


@dataclass(frozen=True, slots=True)
class UnknownOutcome(Interrupt):
    """A started call whose outcome nobody recorded: was it done, or shall it be run again."""

    type = "unknown_outcome"
    call: ActionRequest
    known: str = field(default="", kw_only=True)
    """What is known, in words for the person."""


@dataclass(frozen=True, slots=True)
class BudgetRequest(Interrupt):
    """The turn's budget is used up, and the question is whether it may go on."""

    type = "budget"
    limit: int
    used: int = field(kw_only=True)
    budget: str = field(default="runs", kw_only=True)
    """What is counted: `runs` (model calls) or `tokens`."""


@dataclass(frozen=True, slots=True)
class UnknownInterrupt(Interrupt):
    """A stored interrupt of an unknown kind; it can be shown and cancelled."""

    type = "unknown"
    stored_type: str
    data: Mapping[str, Any] = field(default_factory=dict, kw_only=True)


def leaves(interrupt: Interrupt) -> Iterator[Interrupt]:
    """Yield what is to be settled: the interrupt, or those inside a wrapper, depth first."""
    members = interrupt.members
    if not members:
        if not isinstance(interrupt, MultipleInterrupts):
            yield interrupt
        return
    for member in members:
        yield from leaves(member)


def has_halt(interrupt: Interrupt) -> bool:
    """Whether a halt is among what is open; it wins over everything beside it."""
    return any(isinstance(leaf, Halt) for leaf in leaves(interrupt))


def undecided(interrupt: Interrupt, decided: Container[str]) -> Interrupt | None:
    """Return the interrupt without what is `decided`, by the names that replies use."""
    if isinstance(interrupt, ApprovalRequest):
        left = tuple(one for one in interrupt.action_requests if one.tool_call_id not in decided)
        return replace(interrupt, action_requests=left) if left else None
    if isinstance(interrupt, SubAgentInterrupt):
        inner = undecided(interrupt.inner, decided)
        return None if inner is None else replace(interrupt, inner=inner)
    if isinstance(interrupt, MultipleInterrupts):
        members = (undecided(member, decided) for member in interrupt.interrupts)
        return replace(interrupt, interrupts=tuple(one for one in members if one is not None))
    return None if (interrupt.tool_call_id or interrupt.type) in decided else interrupt


def open_call_ids(interrupt: Interrupt) -> tuple[str, ...]:
    """Return the names that replies use, in order: call ids, or kinds no call raised."""
    ids: list[str] = []
    for leaf in leaves(interrupt):
        if isinstance(leaf, ApprovalRequest):
            ids.extend(request.tool_call_id for request in leaf.action_requests)
        else:
            ids.append(leaf.tool_call_id or leaf.type)
    return tuple(ids)
