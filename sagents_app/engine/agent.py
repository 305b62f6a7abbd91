"""An agent: configuration, checked once, that drives states and holds no conversation."""

from __future__ import annotations

import asyncio
import copy
import functools
import logging
from collections.abc import Callable, Iterable, Mapping
from concurrent.futures import ThreadPoolExecutor
from dataclasses import replace
from typing import Any, TypeVar

from sagents_app.engine import halts, modes, resume
from sagents_app.engine.chat_model import ChatModel
from sagents_app.engine.decisions import Decision
from sagents_app.engine.errors import EngineError, Misconfigured, StepFailed, TurnError
from sagents_app.engine.events import Event
from sagents_app.engine.interrupts import Interrupt
from sagents_app.engine.messages import Message
from sagents_app.engine.middleware import Middleware, gate_of, overrides
from sagents_app.engine.outcomes import OUTCOMES, Cancelled, Failed, Interrupted, Outcome
from sagents_app.engine.state import AgentState, open_calls
from sagents_app.engine.steps.ending import continue_or_done, ended, needs_response
from sagents_app.engine.steps.results import propagate_state, stop_for
from sagents_app.engine.tools import RunSync, Tool
from sagents_app.engine.turn import (
    CutOff,
    Drive,
    Hooks,
    Journal,
    Mode,
    Options,
    Setup,
    Turn,
    call_hooks,
    settle,
    watch_cancel,
)

logger = logging.getLogger(__name__)
SYNC_THREADS = 32
T = TypeVar("T")


class Agent:
    """Model, prompt, tools and middlewares, with the mode that drives them.

    Args:
        model: answers the calls; `fallback_models` are asked in turn where it fails.
        system_prompt: the middlewares' prompts follow it, a blank line between them.
        tools: the agent's own; the middlewares' follow in stack order.
        middlewares: the whole stack, nothing hidden.
        max_runs: model calls in one turn, counted over interrupts and pauses.
        max_tool_failures: batches in a row that may bring nothing but errors; None is no limit.
        max_seconds: time that one drive of a turn may take; None is no limit.
        max_tokens: tokens that one turn may use, counted like `max_runs`; None is no limit.
        ask_when_over_budget: whether a person is asked for more calls or tokens (`BudgetRequest`)
            where they are used up, instead of the turn failing.
        mode: how a turn is driven; the default is `modes.agent_execution`.
        tool_context: the host's own values for its tools; never stored.
        scope: whatever the host's tools need to know of the tenant or user; never stored.
        run_sync: runs sync tools, `await run_sync(function, **arguments)`; default 32 threads.
        before_fallback: called with the next model and the request before a fallback is asked.

    Raises:
        Misconfigured: names the culprit.
    """

    def __init__(
        self,
        *,
        model: ChatModel,
        system_prompt: str = "",
        tools: Iterable[Tool] = (),
        middlewares: Iterable[Middleware] = (),
        fallback_models: Iterable[ChatModel] = (),
        before_fallback: Callable[..., Any] | None = None,
        max_runs: int = 50,
        max_tool_failures: int | None = 10,
        max_seconds: float | None = None,
        max_tokens: int | None = None,
        ask_when_over_budget: bool = False,
        name: str = "agent",
        mode: Mode | None = None,
        tool_context: Mapping[str, Any] | None = None,
        scope: Any = None,
        run_sync: RunSync | None = None,
    ) -> None:
        stack = _checked_stack(middlewares)
        named = _by_name([*tools, *(one for middleware in stack for one in middleware.tools())])
        for budget, value in (
            ("max_runs", max_runs),
            ("max_tool_failures", max_tool_failures),
            ("max_seconds", max_seconds),
            ("max_tokens", max_tokens),
        ):
            _check_budget(budget, value)
        if mode is not None and not callable(mode):
            raise Misconfigured(f"a mode is made with modes.pipeline, got {mode!r:.200}")
        self.mode: Mode = mode if mode is not None else modes.agent_execution
        self.max_runs = max_runs
        self.setup = Setup(
            name=name,
            models=_checked_models([model, *fallback_models]),
            system_prompt=_assembled(system_prompt, stack),
            tools=named,
            middlewares=stack,
            hooks=_hooks(stack),
            run_sync=run_sync or _run_in_thread,
            tool_context=dict(tool_context or {}),
            scope=scope,
            before_fallback=before_fallback,
            early_start=any(middleware.early_start for middleware in stack),
            ask_when_over_budget=ask_when_over_budget,
            max_tool_failures=max_tool_failures,
            max_seconds=max_seconds,
            max_tokens=max_tokens,
        )
        for middleware in stack:
            middleware.check(named)
            middleware.attach(self.setup)
        gates = [type(one).__name__ for one in stack if overrides(one, "needs_approval")]
        modes.check_gated(self.mode, gated=gates)

    def __repr__(self) -> str:
        model = self.setup.models[0].name
        return f"<Agent {self.setup.name!r} {len(self.setup.tools)} tools, {model}>"

    @property
    def name(self) -> str:
        """What pages and rows call the agent."""
        return self.setup.name

    @property
    def tools(self) -> Mapping[str, Tool]:
        """Every tool by name, the agent's own first."""
        return self.setup.tools

    @property
    def middlewares(self) -> tuple[Middleware, ...]:
        """The stack, in order."""
        return self.setup.middlewares

    @property
    def system_prompt(self) -> str:
        """The whole prompt, as the model gets it."""
        return self.setup.system_prompt

    def with_run_sync(self, run_sync: RunSync) -> Agent:
        """Return the agent with its sync tools run by `run_sync`, unless it has its own runner."""
        if self.setup.run_sync is not _run_in_thread:
            return self
        hosted = copy.copy(self)
        hosted.setup = replace(self.setup, run_sync=run_sync)
        for middleware in hosted.middlewares:
            middleware.attach(hosted.setup)
        return hosted

    def accept(self, state: AgentState, replies: Mapping[str, Decision]) -> AgentState:
        """Return the interrupted state with the replies in it, to be stored and executed.

        Raises:
            InvalidResume: the replies do not fit what is open.
        """
        resume.check_replies(self.setup, state, replies)
        return resume.accept(state, replies)

    async def execute(
        self,
        state: AgentState,
        *,
        until_tool: str | Iterable[str] | None = None,
        until_tool_success: str | Iterable[str] | None = None,
        max_runs: int | None = None,
        should_pause: Callable[[], Any] | None = None,
        should_cancel: Callable[[], bool] | None = None,
        journal: Journal | None = None,
        on_event: Callable[[Event], Any] | None = None,
        conversation_id: str | None = None,
        acting_user: Any = None,
        within: str | None = None,
    ) -> Outcome:
        """Drive a turn from `state` to its end.

        An interrupted state is answered at once, without a call. A state that ends in calls or
        results goes on from there. `until_tool` (or `until_tool_success`) names tools of which one
        has to be called (and to succeed).

        Args:
            should_pause: False to go on, True or a reason (JSON) to stop at the next boundary.
            should_cancel: asked between steps and deltas and while tools run.
            journal: the host's durable record of tool calls.
            on_event: told of every event in order, sync or async; raising ends the turn.
            within: the call of another agent inside which this turn runs; prefixes its call ids.

        Raises:
            Misconfigured: a mistake in the options or in the state; nothing has happened.
        """
        options = self._options(
            until_tool,
            until_tool_success,
            max_runs,
            should_pause=should_pause,
            should_cancel=should_cancel,
            journal=journal,
            on_event=on_event,
            conversation_id=conversation_id,
            acting_user=acting_user,
            within=within,
        )
        interrupt = state.interrupt
        if interrupt is not None and not resume.is_accepted(state):
            return Interrupted(state, interrupt)
        state = replace(state, interrupt=None, pause_reason=None)
        return await self._drive(state, options, interrupt)

    async def resume(
        self,
        state: AgentState,
        replies: Mapping[str, Decision],
        *,
        until_tool: str | Iterable[str] | None = None,
        until_tool_success: str | Iterable[str] | None = None,
        max_runs: int | None = None,
        should_pause: Callable[[], Any] | None = None,
        should_cancel: Callable[[], bool] | None = None,
        journal: Journal | None = None,
        on_event: Callable[[Event], Any] | None = None,
        conversation_id: str | None = None,
        acting_user: Any = None,
        within: str | None = None,
    ) -> Outcome:
        """Go on from an interrupted state as `replies`, by call id, decide.

        Raises:
            InvalidResume: the replies do not fit what is open; nothing has happened.
            Misconfigured: a mistake in the options; nothing has happened.
        """
        options = self._options(
            until_tool,
            until_tool_success,
            max_runs,
            should_pause=should_pause,
            should_cancel=should_cancel,
            journal=journal,
            on_event=on_event,
            conversation_id=conversation_id,
            acting_user=acting_user,
            within=within,
        )
        interrupt = state.interrupt
        state = replace(self.accept(state, replies), interrupt=None)
        return await self._drive(state, options, interrupt)

    def turn(
        self,
        state: AgentState,
        *,
        until_tool: str | Iterable[str] | None = None,
        until_tool_success: str | Iterable[str] | None = None,
        max_runs: int | None = None,
        **seams: Any,
    ) -> Turn:
        """Return a turn that has not begun, to try steps on it one by one, `await step(turn)`.

        The options are those of `execute`.

        Raises:
            Misconfigured: a mistake in the options or in the state.
        """
        return self._turn(state, self._options(until_tool, until_tool_success, max_runs, **seams))

    async def handle_message(self, key: str, payload: Any, state: AgentState) -> AgentState:
        """Return the state after a message from outside for the middleware of that key.

        Nobody of that key, and a hook that fails, are logged and leave the state as it is.
        """
        middleware = next((one for one in self.middlewares if one.key == key), None)
        if middleware is None:
            logger.warning("agent %r has no middleware %r for a message", self.name, key)
            return state
        answer = await _guarded(AgentState, middleware.handle_message, payload, state)
        return state if answer is None else answer

    async def display_message(self, message: Message) -> Message:
        """Return the message as the transcript should show it; the state keeps the original.

        The middlewares' changes build on one another in stack order; one that fails is logged and
        passed over.
        """
        for middleware in self.middlewares:
            if overrides(middleware, "transform_display_message"):
                shown = await _guarded(Message, middleware.transform_display_message, message)
                message = message if shown is None else shown
        return message

    def _options(
        self,
        until_tool: str | Iterable[str] | None,
        until_tool_success: str | Iterable[str] | None,
        max_runs: int | None,
        **seams: Any,
    ) -> Options:
        if until_tool is not None and until_tool_success is not None:
            raise Misconfigured("until_tool and until_tool_success are mutually exclusive")
        for option, value in (
            ("until_tool", until_tool),
            ("until_tool_success", until_tool_success),
        ):
            _check_targets(option, value, self.setup.tools)
        _check_budget("max_runs", max_runs)
        names, success = modes.collapse_until_tool(until_tool, until_tool_success)
        runs = max_runs if max_runs is not None else self.max_runs
        return Options(max_runs=runs, until_tool=names, require_tool_success=success, **seams)

    def _turn(self, state: AgentState, options: Options) -> Turn:
        state = replace(state, messages=state.history())
        if not state.messages:
            raise Misconfigured("a turn needs at least one message")
        if self.system_prompt and state.messages[0].role == "system":
            raise Misconfigured("only one system prompt: the agent has one, and so has the history")
        return Turn(self.setup, state, options, Drive(state))

    async def _drive(
        self, state: AgentState, options: Options, settled: Interrupt | None
    ) -> Outcome:
        turn = self._turn(state, options)
        watcher: asyncio.Task[None] | None = None
        if options.should_cancel is not None:
            signal = turn.drive.cancel_signal = asyncio.get_running_loop().create_future()
            watcher = asyncio.create_task(watch_cancel(options.should_cancel, signal))
        try:
            return await self._run(turn, settled)
        except CutOff:
            return Cancelled(ended(turn.drive.state))
        except TurnError as error:
            return Failed(ended(turn.drive.state), error)
        except EngineError as error:
            return Failed(ended(turn.drive.state), StepFailed(str(error)))
        except Exception as error:
            logger.exception("the turn of agent %r failed", self.name)
            return Failed(ended(turn.drive.state), StepFailed(f"{type(error).__name__}: {error}"))
        finally:
            if watcher is not None:
                watcher.cancel()

    async def _run(self, turn: Turn, settled: Interrupt | None) -> Outcome:
        begun = await self._begin(turn, settled)
        outcome = await self.mode(begun) if isinstance(begun, Turn) else begun
        if not isinstance(outcome, OUTCOMES):
            raise Misconfigured(f"a mode has to return an outcome, got {outcome!r:.200}")
        if isinstance(outcome, Interrupted) and turn.options.within is None:
            halts.report(self.name, turn.state, outcome.interrupt)  # a task's is its parent's
        return outcome

    async def _begin(self, turn: Turn, settled: Interrupt | None) -> Turn | Outcome:
        """Prepare a new turn, or give the accepted replies to whoever waits for them."""
        left = await propagate_state(turn)  # by a turn that was cancelled, or that crashed
        if settled is not None and resume.raised_by_no_call(settled):
            gone_on = await resume.settle_own(left, settled)
            if isinstance(gone_on, Turn) and not needs_response(gone_on.state):
                return await continue_or_done(gone_on)  # it was about the final reply
            return gone_on
        if left.state.decisions:
            return await resume.settle_interrupts(left)
        if settled is None and open_calls(left.state.messages) is None:
            begun = await call_hooks(left, self.setup.hooks.before_turn)
            return stop_for(left, begun) if isinstance(begun, Interrupt) else begun
        return left


async def _guarded(wanted: type[T], hook: Callable[..., Any], *arguments: Any) -> T | None:
    """Return what a hook answers; a failure, or anything else, is logged and gives None."""
    name = f"{type(getattr(hook, '__self__', hook)).__name__}.{hook.__name__}"
    try:
        answer = await settle(hook(*arguments))
    except Exception:
        logger.exception("%s failed", name)
        return None
    if not isinstance(answer, wanted):
        logger.error("%s has to return %s, got %.200r", name, wanted.__name__, answer)
        return None
    return answer


_pool: ThreadPoolExecutor | None = None


async def _run_in_thread(function: Callable[..., Any], /, **arguments: Any) -> Any:
    global _pool  # one pool a process, made when the first sync tool runs
    if _pool is None:
        _pool = ThreadPoolExecutor(SYNC_THREADS, thread_name_prefix="sagents-tool")
    return await asyncio.get_running_loop().run_in_executor(
        _pool, functools.partial(function, **arguments)
    )


def _checked_models(models: Iterable[ChatModel]) -> tuple[ChatModel, ...]:
    checked = tuple(models)
    for model in checked:
        if not isinstance(model, ChatModel):
            raise Misconfigured(f"a model has a name and a stream method, got {model!r:.200}")
    return checked


def _checked_stack(middlewares: Iterable[Middleware]) -> tuple[Middleware, ...]:
    stack = tuple(middlewares)
    for middleware in stack:
        if not isinstance(middleware, Middleware):
            raise Misconfigured(f"middlewares are Middleware objects, got {middleware!r:.200}")
    keys = [middleware.key for middleware in stack]
    if doubled := sorted({key for key in keys if keys.count(key) > 1}):
        raise Misconfigured(
            f"two middlewares have the key {', '.join(map(repr, doubled))}; give one another `key`"
        )
    return stack


def _by_name(tools: Iterable[Tool]) -> dict[str, Tool]:
    named: dict[str, Tool] = {}
    for one in tools:
        if not isinstance(one, Tool):
            raise Misconfigured(f"tools are made with @tool, got {one!r:.200}")
        if one.name in named:
            raise Misconfigured(f"two tools are named {one.name!r}")
        named[one.name] = one
    return named


def _assembled(system_prompt: str, stack: Iterable[Middleware]) -> str:
    if not isinstance(system_prompt, str):
        raise Misconfigured(f"system_prompt is a text, got {system_prompt!r:.200}")
    texts = [system_prompt]
    for middleware in stack:
        prompt = middleware.system_prompt()
        texts.extend([prompt] if isinstance(prompt, str) else prompt)
    return "\n\n".join(text for text in texts if text)


def _hooks(stack: tuple[Middleware, ...]) -> Hooks:
    def having(name: str, middlewares: Iterable[Middleware]) -> tuple[Callable[..., Any], ...]:
        return tuple(
            getattr(middleware, name) for middleware in middlewares if overrides(middleware, name)
        )

    return Hooks(
        before_turn=having("before_turn", stack),
        before_model=having("before_model", stack),
        after_model=having("after_model", reversed(stack)),
        needs_approval=tuple(gate_of(one) for one in stack if overrides(one, "needs_approval")),
        on_event=having("on_event", stack),
    )


def _check_budget(name: str, value: float | None) -> None:
    if value is not None and (
        isinstance(value, bool) or not isinstance(value, (int, float)) or value <= 0
    ):
        raise Misconfigured(f"{name} is a number above 0, got {value!r}")


def _check_targets(option: str, value: Any, tools: Mapping[str, Tool]) -> None:
    if value is None:
        return
    names = (
        (value,)
        if isinstance(value, str)
        else tuple(value)
        if isinstance(value, (list, tuple, set))
        else None
    )
    if names is None or not all(isinstance(name, str) for name in names):
        raise Misconfigured(f"{option} is a tool's name or a list of them, got {value!r:.200}")
    if missing := [repr(name) for name in names if name not in tools]:
        known = ", ".join(tools) or "none"
        raise Misconfigured(f"{option}: tool {', '.join(missing)} not found; known are {known}")
