"""What a middleware adds to an agent, and when each of its hooks is called."""

from __future__ import annotations

import logging
from collections.abc import Callable
from dataclasses import replace
from typing import Any

import pytest

from sagents_app.engine import (
    Agent,
    AgentState,
    Answer,
    Approve,
    Cancelled,
    Completed,
    Failed,
    FunctionModel,
    Halt,
    Interrupt,
    Interrupted,
    InvalidResume,
    Message,
    Middleware,
    Misconfigured,
    Question,
    ScriptedModel,
    TextPart,
    ToolCall,
    ToolContext,
    ToolResult,
    tool,
)
from sagents_app.engine.errors import BudgetExceeded
from sagents_app.engine.events import (
    Event,
    MessageAdded,
    ToolFinished,
    ToolStarted,
    UsageReported,
)
from sagents_app.engine.middlewares import AskUserQuestion, Haltable, HumanInTheLoop
from sagents_app.engine.usage import TokenUsage

HI = Message.user("hi")


@tool
async def look(what: str) -> str:
    """Look at something."""
    return f"saw {what}"


class Named(Middleware):
    """Notes in `log` each hook that is called, and can be told to answer otherwise."""

    def __init__(self, name: str, log: list[str] | None = None, **answers: Any) -> None:
        self.name = name
        self.log = [] if log is None else log
        self.answers = answers

    @property
    def key(self) -> str:
        return self.name

    def _answer(self, hook: str, state: AgentState) -> Any:
        self.log.append(f"{hook} {self.name}")
        answer = self.answers.get(hook, state)
        if isinstance(answer, Exception):
            raise answer
        return answer(state) if callable(answer) else answer

    def before_turn(self, state: AgentState) -> AgentState:
        return self._answer("before_turn", state)

    def before_model(self, state: AgentState) -> AgentState:
        return self._answer("before_model", state)

    def after_model(self, state: AgentState) -> AgentState | Interrupt:
        return self._answer("after_model", state)


class Dutiful(Middleware):
    """Has every hook, and leaves each to the empty one."""

    def before_turn(self, state: AgentState) -> Any:
        return super().before_turn(state)

    def before_model(self, state: AgentState) -> Any:
        return super().before_model(state)

    def after_model(self, state: AgentState) -> Any:
        return super().after_model(state)

    def needs_approval(self, call: ToolCall) -> Any:
        return super().needs_approval(call)

    def handle_resume(self, interrupt: Interrupt, reply: Any, state: AgentState) -> Any:
        return super().handle_resume(interrupt, reply, state)

    def on_event(self, event: Event) -> Any:
        return super().on_event(event)

    def transform_display_message(self, message: Message) -> Any:
        return super().transform_display_message(message)

    def handle_message(self, payload: Any, state: AgentState) -> Any:
        return super().handle_message(payload, state)


class Prompting(Middleware):
    """Adds a prompt and tools."""

    def __init__(self, prompt: Any = "", tools: Any = (), key: str = "prompting") -> None:
        self._prompt, self._tools, self._key = prompt, tools, key

    @property
    def key(self) -> str:
        return self._key

    def system_prompt(self) -> Any:
        return self._prompt

    def tools(self) -> Any:
        return self._tools


def calling(call_id: str = "c1", **arguments: Any) -> Message:
    return Message.assistant(tool_calls=[ToolCall(call_id, "look", {"what": "x", **arguments})])


async def run(agent: Agent, **options: Any) -> Any:
    return await agent.execute(AgentState((HI,)), **options)


class TestStack:
    @pytest.mark.parametrize("wrong", ["invalid", Middleware, None, ("module", [])])
    def test_what_is_no_middleware_is_refused(self, wrong: Any):
        """M-004: naming the expected shape and the culprit."""
        with pytest.raises(Misconfigured, match="middlewares are Middleware objects, got"):
            Agent(model=ScriptedModel(), middlewares=[wrong])

    def test_own_configuration_is_the_constructors(self):
        """M-006, M-008: options are arguments, defaults are Python's."""
        assert "single_select, multi_select, freeform." in AskUserQuestion().system_prompt()
        assert (
            "Kinds of answers: freeform.\n"
            in AskUserQuestion(response_types=("freeform",)).system_prompt()
        )

    def test_wrong_configuration_is_refused_by_name(self):
        """M-007: the middleware's own refusal reaches whoever builds it."""
        with pytest.raises(Misconfigured, match="AskUserQuestion: allow_other is True, False or"):
            AskUserQuestion(allow_other="yes")  # type: ignore[arg-type]

    def test_failed_check_names_the_middleware(self):
        """M-007: also what can only be checked against the agent's tools."""
        with pytest.raises(Misconfigured, match="HumanInTheLoop: no tool 'lok'; the agent has lo"):
            Agent(model=ScriptedModel(), tools=[look], middlewares=[HumanInTheLoop({"lok": True})])

    def test_key_is_the_class_unless_another_is_given(self):
        """M-009, M-060: the address of a middleware."""
        assert Haltable().key == "Haltable"
        assert Named("mine").key == "mine"

    def test_two_of_one_key_are_refused(self):
        """M-061, M-105: several of one class need keys of their own."""
        with pytest.raises(Misconfigured, match="two middlewares have the key 'Haltable'"):
            Agent(model=ScriptedModel(), middlewares=[Haltable(), Haltable()])
        agent = Agent(model=ScriptedModel(), middlewares=[Named("a"), Named("b")])
        assert [middleware.key for middleware in agent.middlewares] == ["a", "b"]


class TestPromptAndTools:
    async def test_a_middleware_without_hooks_changes_nothing(self):
        """M-020, M-032, M-090: no prompt, no tools, the same state."""
        model = ScriptedModel("hello")
        agent = Agent(model=model, system_prompt="Be brief.", middlewares=[Middleware()])
        outcome = await run(agent)
        assert model.requests[0].system == "Be brief."
        assert model.requests[0].tools == ()
        assert [message.text for message in outcome.state.messages] == ["hi", "hello"]

    @pytest.mark.parametrize(
        ("prompts", "whole"),
        [
            pytest.param(["One."], "Base.\n\nOne.", id="M-021 a string"),
            pytest.param([["First", "Second"]], "Base.\n\nFirst\n\nSecond", id="M-021 a list"),
            pytest.param(["One.", "", ["Two."]], "Base.\n\nOne.\n\nTwo.", id="M-023 in order"),
        ],
    )
    async def test_prompts_are_joined_in_stack_order(self, prompts: list[Any], whole: str):
        stack = [Prompting(prompt, key=str(index)) for index, prompt in enumerate(prompts)]
        model = ScriptedModel("hello")
        agent = Agent(model=model, system_prompt="Base.", middlewares=stack)
        await run(agent)
        assert agent.system_prompt == whole
        assert model.requests[0].system == whole

    def test_tools_follow_the_agents_own_in_stack_order(self):
        def named(name: str) -> Any:
            return tool(name=name, description="x")(look.function)

        stack = [
            Prompting(tools=[named("b"), named("a")], key="1"),
            Prompting(tools=(named("c"),), key="2"),
        ]
        agent = Agent(model=ScriptedModel(), tools=[look], middlewares=stack)
        assert list(agent.tools) == ["look", "b", "a", "c"]

    def test_a_tool_of_a_middleware_may_not_hide_another(self):
        with pytest.raises(Misconfigured, match="two tools are named 'look'"):
            Agent(model=ScriptedModel(), tools=[look], middlewares=[Prompting(tools=[look])])


class TestModelHooks:
    async def test_hooks_run_forwards_before_and_backwards_after(self):
        """M-030, M-031, M-036: and the history is the user's message and the reply."""
        log: list[str] = []
        agent = Agent(
            model=ScriptedModel("hello"), middlewares=[Named("mw1", log), Named("mw2", log)]
        )
        outcome = await run(agent)
        assert log == [
            "before_turn mw1",
            "before_turn mw2",
            "before_model mw1",
            "before_model mw2",
            "after_model mw2",
            "after_model mw1",
        ]
        assert isinstance(outcome, Completed)
        assert [(one.role, one.text) for one in outcome.state.messages] == [
            ("user", "hi"),
            ("assistant", "hello"),
        ]
        assert outcome.state.messages[0] == HI

    async def test_model_hooks_run_at_each_call_and_turn_hooks_once(self):
        """M-030: `before_model` is of the call, `before_turn` of the turn."""
        one = Named("mw1")
        agent = Agent(model=ScriptedModel(calling(), "done"), tools=[look], middlewares=[one])
        await run(agent)
        assert one.log == [
            "before_turn mw1",
            "before_model mw1",
            "after_model mw1",
            "before_model mw1",
            "after_model mw1",
        ]

    async def test_what_a_hook_changes_is_kept_and_sent(self):
        """M-030: each hook gets the state that the one before it left."""
        stack = [
            Named("mw1", before_model=lambda state: state.put_metadata("a", 1)),
            Named(
                "mw2",
                before_model=lambda state: state.put_metadata("b", state.metadata["a"] + 1),
                after_model=lambda state: state.put_metadata("c", len(state.messages)),
            ),
        ]
        outcome = await run(Agent(model=ScriptedModel("hello"), middlewares=stack))
        assert outcome.state.metadata == {"a": 1, "b": 2, "c": 2}

    async def test_hooks_may_be_async(self):
        class Slow(Middleware):
            async def before_model(self, state: AgentState) -> AgentState:
                return state.put_metadata("before", True)

            async def after_model(self, state: AgentState) -> AgentState:
                return state.put_metadata("after", True)

        outcome = await run(Agent(model=ScriptedModel("hello"), middlewares=[Slow()]))
        assert outcome.state.metadata == {"before": True, "after": True}

    @pytest.mark.parametrize("hook", ["before_turn", "before_model"])
    async def test_a_failing_hook_before_the_call_ends_the_turn(self, hook: str):
        """M-033: no model call, later hooks not run."""
        model = ScriptedModel("hello")
        log: list[str] = []
        agent = Agent(
            model=model,
            middlewares=[Named("mw1", log, **{hook: ValueError("x")}), Named("mw2", log)],
        )
        outcome = await run(agent)
        assert isinstance(outcome, Failed)
        assert (outcome.error.type, str(outcome.error)) == (
            "hook_failed",
            f"Named.{hook} failed: x",
        )
        assert isinstance(outcome.error.__cause__, ValueError)
        assert model.requests == []
        assert f"{hook} mw2" not in log
        assert list(outcome.state.messages) == [HI]

    async def test_an_error_of_the_turn_that_a_hook_raises_keeps_its_kind(self):
        broken = Named("mw1", before_model=BudgetExceeded("too dear", limit=1, used=2))
        outcome = await run(Agent(model=ScriptedModel("hello"), middlewares=[broken]))
        assert isinstance(outcome, Failed)
        assert (outcome.error.type, str(outcome.error)) == ("exceeded_max_runs", "too dear")

    async def test_hooks_that_call_the_empty_ones_change_nothing(self):
        """A subclass may end each hook in that of the class it is made from."""
        model = ScriptedModel(calling(), "hello")
        agent = Agent(model=model, tools=[look], middlewares=[Dutiful()])
        events: list[Event] = []
        outcome = await run(agent, on_event=events.append)
        assert isinstance(outcome, Completed)
        assert told(outcome) == ["saw x"]
        assert outcome.state.metadata == {}
        assert await agent.display_message(HI) == HI
        assert await agent.handle_message("Dutiful", "news", outcome.state) == outcome.state
        outcome = await resumed([Dutiful(), AskUserQuestion()])
        assert told(outcome) == ['User responded: "this"']

    async def test_an_error_inside_a_hook_is_not_taken_for_a_missing_hook(self):
        """M-010: an AttributeError in a hook surfaces."""
        broken = Named("mw1", before_model=lambda state: state.no_such_thing)
        outcome = await run(Agent(model=ScriptedModel("hello"), middlewares=[broken]))
        assert isinstance(outcome, Failed)
        assert outcome.error.type == "hook_failed"
        assert "no_such_thing" in str(outcome.error)

    @pytest.mark.parametrize("hook", ["before_turn", "before_model", "after_model"])
    @pytest.mark.parametrize("answer", [None, "state", {}, True])
    async def test_a_hook_that_answers_no_state_is_named(self, hook: str, answer: Any):
        """M-033: an answer of another shape is the hook's failure, not a crash."""
        broken = Named("mw1", **{hook: lambda state: answer})
        outcome = await run(Agent(model=ScriptedModel("hello"), middlewares=[broken]))
        assert isinstance(outcome, Failed)
        assert str(outcome.error) == f"Named.{hook} has to return an AgentState, got {answer!r}"

    @pytest.mark.parametrize("hook", ["before_turn", "before_model", "after_model"])
    async def test_an_interrupt_of_a_hook_stops_the_chain_and_the_turn(self, hook: str):
        """M-034: the state waits for it too, so that it can be resumed."""
        log: list[str] = []
        question = Question("Go on?")
        stack = [Named("mw1", log), Named("mw2", log)]
        first = stack[-1] if hook == "after_model" else stack[0]
        first.answers[hook] = lambda state: question
        model = ScriptedModel("hello")
        outcome = await run(Agent(model=model, middlewares=stack))
        assert isinstance(outcome, Interrupted)
        assert outcome.interrupt == question
        assert outcome.state.interrupt == question
        assert log[-1] == f"{hook} {first.name}"
        assert len(model.requests) == (1 if hook == "after_model" else 0)

    async def test_an_interrupt_of_a_hook_is_resumed_by_its_middleware(self):
        """M-034, M-091: the reply reaches `handle_resume`, whose state the turn goes on with."""

        class Asks(Middleware):
            def before_model(self, state: AgentState) -> Any:
                return state if "reply" in state.metadata else Question("Go on?")

            def restorable_interrupt(self, interrupt: Interrupt) -> bool:
                return isinstance(interrupt, Question)

            def handle_resume(
                self, interrupt: Interrupt, reply: Any, state: AgentState
            ) -> AgentState:
                return state.put_metadata("reply", reply.other_text)

        model = ScriptedModel("hello")
        agent = Agent(model=model, middlewares=[Asks()])
        waits = await run(agent)
        outcome = await agent.resume(waits.state, {"ask_user_question": Answer((), "yes")})
        assert isinstance(outcome, Completed)
        assert outcome.state.metadata == {"reply": "yes"}
        assert outcome.state.decisions == {}
        assert len(model.requests) == 1

    async def test_a_failing_hook_after_the_call_keeps_the_reply(self):
        """M-035: a failure throws nothing finished away."""
        broken = Named("mw1", after_model=ValueError("x"))
        outcome = await run(Agent(model=ScriptedModel("hello"), middlewares=[broken]))
        assert isinstance(outcome, Failed)
        assert str(outcome.error) == "Named.after_model failed: x"
        assert outcome.state.messages[-1].text == "hello"

    async def test_calls_of_a_reply_that_a_hook_refused_are_never_run(self):
        """M-035: a retry does not run past the hook that failed."""
        ran = []

        @tool
        async def act() -> str:
            """Act."""
            ran.append(1)
            return "acted"

        reply = Message.assistant(tool_calls=[ToolCall("c1", "act"), ToolCall("c2", "act")])
        broken = Named("mw1", after_model=ValueError("x"))
        agent = Agent(model=ScriptedModel(reply, "fine"), tools=[act], middlewares=[broken])
        failed = await run(agent)
        assert isinstance(failed, Failed)
        assert [
            (result.tool_call_id, result.text, result.is_error)
            for result in failed.state.messages[-1].tool_results
        ] == [
            ("c1", "The turn failed before this call was run.", True),
            ("c2", "The turn failed before this call was run.", True),
        ]
        broken.answers.clear()
        assert isinstance(await agent.execute(failed.state), Completed)
        assert ran == []

    async def test_a_state_change_before_the_failing_hook_is_kept(self):
        """M-035: also what another hook did to the state before."""
        stack = [
            Named("mw1", after_model=ValueError("x")),
            Named("mw2", after_model=lambda state: state.put_metadata("seen", True)),
        ]
        agent = Agent(model=ScriptedModel(calling()), tools=[look], middlewares=stack)
        outcome = await run(agent)
        assert isinstance(outcome, Failed)
        assert outcome.state.metadata == {"seen": True}
        assert len(outcome.state.messages) == 3


class Observer(Named):
    """Notes every event."""

    def on_event(self, event: Event) -> None:
        self.log.append(f"{self.name} {type(event).__name__}")


class TestEvents:
    async def test_events_reach_middlewares_in_stack_order_and_then_the_host(self):
        """M-042, M-044, M-045, M-050: everyone who listens hears each event, in one order."""
        log: list[str] = []
        agent = Agent(
            model=ScriptedModel(Message.assistant("hello")),
            middlewares=[Observer("mw1", log), Middleware(), Observer("mw2", log)],
        )
        await run(agent, on_event=lambda event: log.append(f"host {type(event).__name__}"))
        heard = [entry for entry in log if "model" not in entry and "turn" not in entry]
        assert heard == ["mw1 MessageAdded", "mw2 MessageAdded", "host MessageAdded"]

    async def test_middlewares_hear_events_without_a_listening_host(self):
        """M-049: no callbacks option, and still told."""
        log: list[str] = []
        usage = TokenUsage(input_tokens=3)
        reply = replace(Message.assistant("hello"), usage=usage)
        await run(Agent(model=ScriptedModel(reply), middlewares=[Observer("mw1", log)]))
        assert log[-3:] == ["mw1 UsageReported", "mw1 MessageAdded", "after_model mw1"]

    async def test_a_failing_observer_is_logged_and_the_others_are_told(
        self, caplog: pytest.LogCaptureFixture
    ):
        """One failing observer never breaks a turn."""

        class Broken(Middleware):
            async def on_event(self, event: Event) -> None:
                raise RuntimeError("deaf")

        log: list[str] = []
        agent = Agent(model=ScriptedModel("hello"), middlewares=[Broken(), Observer("mw2", log)])
        with caplog.at_level(logging.ERROR):
            outcome = await run(agent)
        assert isinstance(outcome, Completed)
        assert "mw2 MessageAdded" in log
        assert "a middleware's on_event failed on MessageAdded" in caplog.text

    async def test_middlewares_hear_of_a_tool_that_runs_after_an_approval(self):
        """M-054: the approved call's start and end reach the middlewares too."""
        heard: list[Event] = []

        class Listens(Middleware):
            def on_event(self, event: Event) -> None:
                heard.append(event)

        agent = Agent(
            model=ScriptedModel(calling(), "done"),
            tools=[look],
            middlewares=[HumanInTheLoop({"look": True}), Listens()],
        )
        waits = await run(agent)
        heard.clear()
        await agent.resume(waits.state, {"c1": Approve()})
        kinds = [type(event) for event in heard]
        assert kinds[:3] == [ToolStarted, ToolFinished, MessageAdded]
        assert isinstance(heard[0], ToolStarted)
        assert heard[0].call.call_id == "c1"

    async def test_nothing_is_told_of_a_turn_that_never_began(self):
        """M-053: a failing first hook, or a mistake in the options, is before any event."""
        heard: list[Event] = []
        broken = Named("mw1", before_model=ValueError("x"))
        agent = Agent(model=ScriptedModel("hello"), middlewares=[broken])
        await run(agent, on_event=heard.append)
        with pytest.raises(Misconfigured):
            await run(agent, on_event=heard.append, until_tool="nothing")
        assert heard == []


class Counter(Named):
    """Counts the messages that reach it under its own key in the metadata."""

    def handle_message(self, payload: Any, state: AgentState) -> AgentState:
        if isinstance(payload, Exception):
            raise payload
        known = state.metadata.get(self.key, [])
        return (
            payload(state) if callable(payload) else state.put_metadata(self.key, [*known, payload])
        )


class TestMessagesFromOutside:
    async def test_message_reaches_only_the_middleware_of_its_key(self):
        """M-060, M-061: also among several of one class."""
        agent = Agent(model=ScriptedModel(), middlewares=[Counter("a"), Counter("b"), Haltable()])
        state = await agent.handle_message("b", {"n": 1}, AgentState((HI,)))
        state = await agent.handle_message("b", {"n": 2}, state)
        assert state.metadata == {"b": [{"n": 1}, {"n": 2}]}
        assert list(state.messages) == [HI]

    async def test_class_is_the_default_address(self):
        """M-060: default id is the class."""

        class Notes(Middleware):
            async def handle_message(self, payload: Any, state: AgentState) -> AgentState:
                return state.put_metadata(self.key, payload)

        agent = Agent(model=ScriptedModel(), middlewares=[Notes()])
        state = await agent.handle_message("Notes", "x", AgentState())
        assert state.metadata == {"Notes": "x"}

    async def test_unknown_address_is_logged_and_changes_nothing(
        self, caplog: pytest.LogCaptureFixture
    ):
        """M-062: nothing crashes, state unchanged."""
        state = AgentState((HI,))
        agent = Agent(model=ScriptedModel(), name="support", middlewares=[Counter("a")])
        assert await agent.handle_message("z", 1, state) is state
        assert caplog.messages == ["agent 'support' has no middleware 'z' for a message"]

    async def test_a_middleware_without_the_hook_leaves_the_state_as_it_is(self):
        """M-060: the default is the same state."""
        state = AgentState((HI,))
        agent = Agent(model=ScriptedModel(), middlewares=[Haltable()])
        assert await agent.handle_message("Haltable", 1, state) is state

    @pytest.mark.parametrize(
        ("payload", "told"),
        [
            (RuntimeError("x"), "Counter.handle_message failed"),
            (lambda state: None, "Counter.handle_message has to return AgentState, got None"),
        ],
    )
    async def test_a_failing_hook_is_logged_and_changes_nothing(
        self, payload: Any, told: str, caplog: pytest.LogCaptureFixture
    ):
        """M-062: errors are logged only."""
        state = AgentState((HI,))
        agent = Agent(model=ScriptedModel(), middlewares=[Counter("a")])
        assert await agent.handle_message("a", payload, state) is state
        assert caplog.messages == [told]


class Marks(Named):
    """Adds its name to what an assistant says."""

    def transform_display_message(self, message: Message) -> Message:
        if message.role != "assistant":
            return message
        return replace(message, content=(*message.content, TextPart(self.name)))


class TestDisplayMessages:
    async def test_transcript_shows_the_change_and_the_state_keeps_the_original(self):
        """M-070, M-072, M-074: changes build on one another in stack order; users' are theirs."""
        agent = Agent(model=ScriptedModel("hello"), middlewares=[Marks("mw1"), Marks("mw2")])
        outcome = await run(agent)
        shown = [await agent.display_message(message) for message in outcome.state.messages]
        assert [message.text for message in shown] == ["hi", "hello\nmw1\nmw2"]
        assert [message.text for message in outcome.state.messages] == ["hi", "hello"]
        assert shown[0] is outcome.state.messages[0]

    async def test_message_is_unchanged_without_such_a_middleware(self):
        """M-073: the very same message."""
        agent = Agent(model=ScriptedModel(), middlewares=[Haltable()])
        assert await agent.display_message(HI) is HI

    @pytest.mark.parametrize(
        ("broken", "told"),
        [
            (RuntimeError("x"), "Broken.transform_display_message failed"),
            (None, "Broken.transform_display_message has to return Message, got None"),
            ("text", "Broken.transform_display_message has to return Message, got 'text'"),
        ],
    )
    async def test_a_failing_change_is_logged_and_passed_over(
        self, broken: Any, told: str, caplog: pytest.LogCaptureFixture
    ):
        """M-074: the others still apply."""

        class Broken(Middleware):
            def transform_display_message(self, message: Message) -> Message:
                if isinstance(broken, Exception):
                    raise broken
                return broken

        agent = Agent(model=ScriptedModel(), middlewares=[Marks("mw1"), Broken(), Marks("mw2")])
        shown = await agent.display_message(Message.assistant("hello"))
        assert shown.text == "hello\nmw1\nmw2"
        assert caplog.messages == [told]

    async def test_a_change_may_be_async(self):
        class Slow(Middleware):
            async def transform_display_message(self, message: Message) -> Message:
                return replace(message, content=(TextPart("other"),))

        agent = Agent(model=ScriptedModel(), middlewares=[Slow()])
        assert (await agent.display_message(HI)).text == "other"


def asking(reply: Callable[..., Any]) -> Middleware:
    class Asks(Middleware):
        def restorable_interrupt(self, interrupt: Interrupt) -> bool:
            return isinstance(interrupt, Question)

        def handle_resume(self, interrupt: Interrupt, reply_: Any, state: AgentState) -> Any:
            return reply(interrupt, reply_, state)

    return Asks()


@tool
async def ask() -> Question:
    """Ask."""
    return Question("Which?")


async def resumed(middlewares: list[Middleware]) -> Any:
    agent = Agent(
        model=ScriptedModel(Message.assistant(tool_calls=[ToolCall("c1", "ask")]), "done"),
        tools=[ask],
        middlewares=middlewares,
    )
    waits = await run(agent)
    return await agent.resume(waits.state, {"c1": Answer((), "this")})


def told(outcome: Any) -> list[str]:
    return [result.text for message in outcome.state.messages for result in message.tool_results]


class TestHandleResume:
    async def test_a_middleware_that_does_not_answer_lets_the_next_one(self):
        """M-090: None is "not mine"."""
        outcome = await resumed([asking(lambda interrupt, reply, state: None), AskUserQuestion()])
        assert isinstance(outcome, Completed)
        assert told(outcome) == ['User responded: "this"']

    async def test_the_hook_gets_interrupt_reply_and_state(self):
        """M-091: three arguments, no options."""
        seen: list[Any] = []

        def settle(interrupt: Interrupt, reply: Any, state: AgentState) -> Any:
            seen.extend((interrupt, reply, len(state.messages)))
            return ToolResult("c1", "ask", (TextPart("settled"),))

        outcome = await resumed([asking(settle)])
        assert seen == [Question("Which?", tool_call_id="c1"), Answer((), "this"), 3]
        assert told(outcome) == ["settled"]

    async def test_the_hook_may_be_async(self):
        async def settle(*_: Any) -> Any:
            return ToolResult("c1", "ask", (TextPart("settled"),))

        assert told(await resumed([asking(settle)])) == ["settled"]

    async def test_the_hook_may_ask_again(self):
        """A further interrupt takes the first one's place; the turn waits again."""
        outcome = await resumed([asking(lambda *_: Halt("no more"))])
        assert isinstance(outcome, Interrupted)
        assert outcome.interrupt == Halt("no more", tool_call_id="c1", source_tool="ask")
        assert told(outcome) == ["no more"]

    @pytest.mark.parametrize(
        ("answer", "error"),
        [
            (ValueError("x"), "Asks.handle_resume failed: x"),
            ("text", "Asks.handle_resume has to return ToolResult, got 'text'"),
        ],
    )
    async def test_a_failing_hook_is_named(self, answer: Any, error: str):
        """A failure after the first step is an outcome, with the culprit's name."""

        def settle(*_: Any) -> Any:
            if isinstance(answer, Exception):
                raise answer
            return answer

        outcome = await resumed([asking(settle)])
        assert isinstance(outcome, Failed)
        assert (outcome.error.type, str(outcome.error)) == ("hook_failed", error)

    async def test_a_claim_that_raises_is_no_claim(self):
        """M-082: never propagates, also when a reply is checked."""

        class Broken(Middleware):
            def restorable_interrupt(self, interrupt: Interrupt) -> bool:
                raise RuntimeError("no idea")

        outcome = await resumed([Broken(), AskUserQuestion()])
        assert told(outcome) == ['User responded: "this"']
        with pytest.raises(InvalidResume, match="No middleware handled the resume"):
            await resumed([Broken()])


class TestContext:
    async def test_a_gate_may_be_async_and_sees_the_call_and_its_context(self):
        """Hooks are sync or async; the gate is asked once a call."""
        seen: list[tuple[str, Any]] = []

        class Gate(Middleware):
            async def needs_approval(self, call: ToolCall, context: ToolContext) -> None:
                seen.append((call.call_id, context.scope))

        agent = Agent(
            model=ScriptedModel(calling(), "done"),
            tools=[look],
            middlewares=[Gate()],
            scope="tenant",
        )
        outcome = await run(agent)
        assert isinstance(outcome, Completed)
        assert seen == [("c1", "tenant")]

    async def test_a_turn_that_is_cancelled_between_hooks_and_call_keeps_the_state(self):
        model = FunctionModel(lambda request: "never")
        agent = Agent(model=model, middlewares=[Named("mw1")])
        outcome = await run(agent, should_cancel=lambda: True)
        assert isinstance(outcome, Cancelled)
        assert list(outcome.state.messages) == [HI]


async def test_usage_is_told_with_the_models_name():
    """M-050: usage reaches whoever listens."""
    heard: list[Event] = []
    usage = TokenUsage(input_tokens=3, output_tokens=2)
    reply = replace(Message.assistant("hello"), usage=usage)
    await run(Agent(model=ScriptedModel(reply)), on_event=heard.append)
    assert heard[0] == UsageReported(usage, "scripted")
