"""HumanInTheLoop: tools that wait for a person before they run."""

from __future__ import annotations

import inspect
from collections.abc import Callable, Mapping
from dataclasses import dataclass
from typing import Any

from sagents_app.engine.errors import Misconfigured
from sagents_app.engine.interrupts import (
    DECISION_TYPES,
    REPEAT_RULES,
    ApprovalRequest,
    Interrupt,
    RepeatRule,
    ReviewConfig,
)
from sagents_app.engine.messages import ToolCall
from sagents_app.engine.middleware import Middleware
from sagents_app.engine.tools import Tool, ToolContext

Predicate = Callable[[Mapping[str, Any], ToolContext], bool]
Rule = bool | Mapping[str, Any]
RULE_KEYS = ("allowed_decisions", "when")


@dataclass(frozen=True, slots=True)
class _Gate:
    config: ReviewConfig
    when: Predicate | None = None


class HumanInTheLoop(Middleware):
    """Gates for tools, by name: True asks, False is free, a mapping is a rule.

    A tuple of names is a group of tools under one rule, `{("refund", "payout"): True}`.

    A rule may hold `allowed_decisions` (of approve, edit, reject and respond; without it the first
    three) and `when`, a predicate of the typed arguments and the context, asked once a call: a
    false answer lets the call run, raising means ask. `default` is the rule of tools that are not
    named; it does not cover tools that only ask a person. With `early_start` free and approved
    calls run while siblings still wait. `repeat_after_reject` says what becomes of a call that is
    identical to one rejected in the same turn: "refuse" answers it with reference to that decision,
    "ask" asks again.

        HumanInTheLoop({"delete": True, "refund": {"when": lambda arguments, ctx: True}})

    Raises:
        Misconfigured: an empty, misspelt or unknown entry; names tool and key.
    """

    def __init__(
        self,
        rules: Mapping[str | tuple[str, ...], Rule],
        *,
        default: Rule = False,
        early_start: bool = False,
        repeat_after_reject: RepeatRule = "refuse",
    ) -> None:
        if not isinstance(rules, Mapping):
            raise Misconfigured(
                f"HumanInTheLoop takes a mapping from tool to rule, got {rules!r:.200}"
            )
        if repeat_after_reject not in REPEAT_RULES:
            raise Misconfigured(
                f"HumanInTheLoop: repeat_after_reject is one of {', '.join(REPEAT_RULES)}, "
                f"got {repeat_after_reject!r:.200}"
            )
        self._gates = _gates(rules)
        self._default = _read("default", default)
        self._tools: Mapping[str, Tool] = {}
        self.early_start = early_start
        self._repeat = repeat_after_reject

    def check(self, tools: Mapping[str, Tool]) -> None:
        """Refuse a gate for a tool that the agent does not have."""
        for name in self._gates:
            if name not in tools:
                raise Misconfigured(
                    f"HumanInTheLoop: no tool {name!r}; the agent has {', '.join(tools) or 'none'}"
                )
        self._tools = tools

    def inherited(self, tools: Mapping[str, Tool]) -> HumanInTheLoop:
        """Return the same gates for the tools that a sub-agent has."""
        gates = HumanInTheLoop({}, early_start=self.early_start, repeat_after_reject=self._repeat)
        gates._gates = {name: gate for name, gate in self._gates.items() if name in tools}
        gates._default = self._default
        return gates

    def needs_approval(
        self, call: ToolCall, context: ToolContext | None = None
    ) -> ReviewConfig | None:
        """Return the tool's rule, unless its predicate lets this call run."""
        tool = self._tools[call.name]
        if call.name in self._gates:
            gate = self._gates[call.name]
        else:
            gate = None if tool.asks_person else self._default
        if gate is None:
            return None
        if gate.when and context and not gate.when(tool.validate(call), context):
            return None
        return ReviewConfig(gate.config.allowed_decisions, self._repeat)

    def restorable_interrupt(self, interrupt: Interrupt) -> bool:
        """Claim approvals: they are data alone."""
        return isinstance(interrupt, ApprovalRequest)


def _gates(rules: Mapping[Any, Any]) -> dict[str, _Gate | None]:
    """Return the gate of each tool, groups taken apart."""
    gates: dict[str, _Gate | None] = {}
    for key, rule in rules.items():
        names = key if isinstance(key, tuple) else (key,)
        if not names or not all(isinstance(name, str) for name in names):
            raise _wrong(key, "is no tool's name and no tuple of them")
        for name in names:
            if name in gates:
                raise _wrong(name, "has two rules")
            gates[name] = _read(name, rule)
    return gates


def _read(name: str, rule: Any) -> _Gate | None:
    if rule is False:
        return None
    if rule is True:
        return _Gate(ReviewConfig())
    if not isinstance(rule, Mapping) or not rule:
        raise _wrong(name, f"is True, False or a rule with {_keys()}, got {rule!r:.200}")
    if unknown := [repr(key) for key in rule if key not in RULE_KEYS]:
        raise _wrong(name, f"has the unknown key {', '.join(unknown)}; known are {_keys()}")
    when = rule.get("when")
    if "when" in rule and (not callable(when) or inspect.iscoroutinefunction(when)):
        raise _wrong(name, "'when' is a sync function of arguments and context")
    return _Gate(_config(name, rule), when)


def _config(name: str, rule: Mapping[str, Any]) -> ReviewConfig:
    if "allowed_decisions" not in rule:
        return ReviewConfig()
    allowed = rule["allowed_decisions"]
    known = (
        isinstance(allowed, (list, tuple))
        and allowed
        and all(one in DECISION_TYPES for one in allowed)
    )
    if not known or len(set(allowed)) != len(allowed):
        offered = ", ".join(DECISION_TYPES)
        raise _wrong(name, f"'allowed_decisions' is a list of {offered}, got {allowed!r:.200}")
    return ReviewConfig(tuple(allowed))


def _wrong(name: Any, problem: str) -> Misconfigured:
    return Misconfigured(f"HumanInTheLoop: {name!r} {problem}")


def _keys() -> str:
    return " and ".join(map(repr, RULE_KEYS))
