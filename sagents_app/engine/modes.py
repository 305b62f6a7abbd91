"""Modes: how a turn is driven, round after round, until a step ends it."""

from __future__ import annotations

from collections.abc import Iterable, Sequence
from dataclasses import dataclass

from sagents_app.engine import steps
from sagents_app.engine.errors import Misconfigured
from sagents_app.engine.outcomes import OUTCOMES, Cancelled, Outcome
from sagents_app.engine.state import open_calls
from sagents_app.engine.steps.ending import ended
from sagents_app.engine.steps.tool_calls import CANCELLED_BEFORE
from sagents_app.engine.tools import error_result
from sagents_app.engine.turn import Mode, Step, Turn


@dataclass(frozen=True, slots=True)
class Pipeline:
    """Steps in order, round after round. Make one with `pipeline`."""

    steps: tuple[Step, ...]

    async def __call__(self, turn: Turn) -> Outcome:
        """Drive the turn to its end."""
        start = self._entry(turn)
        while True:
            for step in self.steps[start:]:
                if turn.cancelled:
                    return await _cancelled(turn)
                result = await step(turn)
                if not isinstance(result, Turn):
                    if not isinstance(result, OUTCOMES):
                        problem = f"has to return a Turn or an outcome, got {result!r:.200}"
                        raise Misconfigured(f"step {_name(step)} {problem}")
                    return result
                turn = result
                turn.drive.state = turn.state  # also of a step that did not go by `with_state`
            start = 0

    def _entry(self, turn: Turn) -> int:
        """Return where the turn begins: behind the call, or the tools, that it waits behind."""
        messages = turn.state.messages
        batch = open_calls(messages)
        if batch is None or batch[1].status != "complete":
            return 0
        _, assistant, results = batch
        whole = all(call.call_id in results for call in assistant.tool_calls)
        behind = steps.execute_tools if whole else steps.call_model
        return self.steps.index(behind) + 1 if behind in self.steps else 0


def pipeline(*parts: Step) -> Pipeline:
    """Compose steps, the engine's and your own, to a mode.

    Raises:
        Misconfigured: no `call_model`, or no `continue_or_done` to end the turn.
    """
    if not all(callable(part) for part in parts):
        raise Misconfigured(
            "a pipeline is made of steps, async functions from a Turn to a Turn or an outcome"
        )
    if steps.call_model not in parts:
        raise Misconfigured("a pipeline needs call_model")
    if steps.continue_or_done not in parts:
        raise Misconfigured("a pipeline needs continue_or_done, or it would never end")
    return Pipeline(tuple(parts))


def check_gated(mode: Mode, *, gated: Sequence[str]) -> None:
    """Refuse a mode that would let calls past the gates named `gated`.

    Raises:
        Misconfigured: the mode is no pipeline, or runs tools that no `check_approval` precedes.
    """
    gates = f"a gate is configured ({', '.join(gated)})"
    if not gated:
        return
    if not isinstance(mode, Pipeline):
        raise Misconfigured(f"{gates}, so the mode has to be a pipeline, which can be inspected")
    approved = False
    for part in mode.steps:
        approved = approved or part is steps.check_approval
        if part is steps.execute_tools and not approved:
            raise Misconfigured(f"{gates}, but no check_approval precedes execute_tools")
    if not approved:
        raise Misconfigured(f"{gates}, but the mode has no check_approval")


def collapse_until_tool(
    until_tool: str | Iterable[str] | None, until_tool_success: str | Iterable[str] | None
) -> tuple[tuple[str, ...], bool]:
    """Return the demanded tools and whether they have to succeed, from the callers' two options."""
    if until_tool_success is not None:
        return _names(until_tool_success), True
    return _names(until_tool), False


def _names(value: str | Iterable[str] | None) -> tuple[str, ...]:
    return (value,) if isinstance(value, str) else tuple(value or ())


async def _cancelled(turn: Turn) -> Cancelled:
    """End a turn between two steps, with its open calls answered."""
    batch = open_calls(turn.state.messages)
    if batch is not None:
        _, assistant, results = batch
        rest = {call.call_id: error_result(call, CANCELLED_BEFORE) for call in assistant.tool_calls}
        turn = await turn.put_results({**rest, **results})
    return Cancelled(ended(turn.state))


def _name(step: Step) -> str:
    return getattr(step, "__name__", repr(step))


agent_execution = pipeline(
    steps.expand_tool_results,
    steps.check_pause,
    steps.check_max_runs(),
    steps.call_model,
    steps.check_pause,
    steps.check_approval,
    steps.execute_tools,
    steps.propagate_state,
    steps.check_tool_interrupts,
    steps.check_until_tool,
    steps.continue_or_done,
)
"""The default mode."""
