"""HumanInTheLoop: from its rules to what is asked, decided, run and told, case by case."""

from __future__ import annotations

import json
from typing import Any

import pytest

from sagents_app.engine import (
    ActionRequest,
    Agent,
    AgentState,
    Answer,
    ApprovalRequest,
    Approve,
    Cancel,
    Completed,
    Edit,
    Halt,
    Interrupted,
    InvalidResume,
    Message,
    Misconfigured,
    MultipleInterrupts,
    Question,
    Reject,
    Respond,
    ReviewConfig,
    ScriptedModel,
    ToolCall,
    ToolContext,
    ToolOutput,
    check_reply,
    serialize,
    tool,
)
from sagents_app.engine.interrupts import SubAgentInterrupt, open_call_ids
from sagents_app.engine.middlewares import AskUserQuestion, Haltable, HumanInTheLoop, SubAgents
from sagents_app.engine.sub_agents import SubAgent
from tests.engine.doubles import Notes, asked, call, calling, results, shape, told

DECLINED = "A person declined this call. Do not repeat it."
ALL = ("approve", "edit", "reject")


def stored(state: AgentState) -> AgentState:
    return serialize.load_state(json.loads(json.dumps(serialize.dump_state(state))))


def gated(*replies: Any, rules: Any = None, tools: Any = (), **options: Any) -> tuple[Agent, Notes]:
    notes, free = Notes(), Notes("look")
    gate = HumanInTheLoop({"note": True} if rules is None else rules, **options)
    agent = Agent(
        model=ScriptedModel(*replies),
        tools=[notes.tool, free.tool, *tools],
        middlewares=[gate, AskUserQuestion(), Haltable()],
    )
    return agent, notes


async def waiting(agent: Agent, state: AgentState | None = None) -> Interrupted:
    outcome = await agent.execute(state or asked())
    assert isinstance(outcome, Interrupted)
    return outcome


class TestRules:
    @pytest.mark.parametrize(
        ("rule", "allowed"),
        [
            pytest.param(True, ALL, id="H-001 true"),
            pytest.param(
                {"allowed_decisions": ["approve", "reject"]}, ("approve", "reject"), id="H-002"
            ),
            pytest.param({"when": lambda arguments, ctx: True}, ALL, id="H-004 defaults"),
        ],
    )
    async def test_a_rule_says_which_decisions_are_allowed(self, rule: Any, allowed: Any):
        agent, _ = gated(calling(call()), rules={"note": rule})
        waits = await waiting(agent)
        assert isinstance(waits.interrupt, ApprovalRequest)
        assert waits.interrupt.review_configs == {"note": ReviewConfig(allowed)}

    @pytest.mark.parametrize(
        "rules", [{"note": False}, {}, {"look": True}], ids=["H-001 false", "H-003", "H-021"]
    )
    async def test_a_tool_without_a_gate_runs(self, rules: Any):
        agent, notes = gated(calling(call(text="x")), "done", rules=rules)
        assert isinstance(await agent.execute(asked()), Completed)
        assert notes.taken == ["x"]

    async def test_a_reply_without_calls_asks_nobody(self):
        """H-020."""
        agent, _ = gated("hello")
        assert isinstance(await agent.execute(asked()), Completed)

    @pytest.mark.parametrize(
        "key", [("note", "look"), ("look", "note")], ids=["in order", "in another order"]
    )
    async def test_a_group_of_tools_has_one_rule(self, key: tuple[str, ...]):
        """B046: each of its tools asks, under the rule's decisions."""
        rule = {"allowed_decisions": ["approve", "respond"]}
        agent, _ = gated(calling(call("c1"), call("c2", "look")), rules={key: rule})
        waits = await waiting(agent)
        assert open_call_ids(waits.interrupt) == ("c1", "c2")
        config = ReviewConfig(("approve", "respond"))
        assert waits.interrupt.review_configs == {"note": config, "look": config}  # type: ignore[attr-defined]

    @pytest.mark.parametrize(
        ("rules", "problem"),
        [
            ({("note", "look"): True, "note": False}, "'note' has two rules"),
            ({("note", "note"): True}, "'note' has two rules"),
            ({(): True}, r"\(\) is no tool's name and no tuple of them"),
            ({("note", 5): True}, r"\('note', 5\) is no tool's name"),
            ({None: True}, "None is no tool's name"),
            ({("note", "lok"): True}, "no tool 'lok'; the agent has note, look, ask_user"),
            ({("look", "note"): {"wen": 1}}, "'look' has the unknown key 'wen'"),
            ({("note",): None}, "'note' is True, False or a rule"),
        ],
    )
    def test_a_wrong_group_stops_the_start_and_names_tool_and_key(self, rules: Any, problem: str):
        """H-005, P9."""
        with pytest.raises(Misconfigured, match=problem):
            gated(rules=rules)

    @pytest.mark.parametrize("default", [None, {}, "yes", {"alowed": []}])
    def test_a_wrong_default_is_named(self, default: Any):
        """H-005."""
        with pytest.raises(Misconfigured, match="'default'"):
            gated(default=default)

    @pytest.mark.parametrize(
        ("interrupt", "claimed"),
        [
            pytest.param(ApprovalRequest((ActionRequest("c1", "note"),)), True, id="H-010"),
            pytest.param(ApprovalRequest(()), True, id="H-010 empty"),
            pytest.param(Question("?"), False, id="H-011 question"),
            pytest.param(
                SubAgentInterrupt("a", path=("b", "a"), inner=Question("?")),
                False,
                id="H-011 sub-agent",
            ),
            pytest.param(Halt("x"), False, id="H-011 halt"),
        ],
    )
    def test_it_claims_approvals_alone(self, interrupt: Any, claimed: bool):
        assert HumanInTheLoop({}).restorable_interrupt(interrupt) is claimed


class TestAsking:
    async def test_the_request_shows_the_call_and_its_label(self):
        """H-022, H-029, H-108: nothing has run, and the history ends with the calls."""
        agent, notes = gated(calling(call("call_123", text="x")))
        waits = await waiting(agent)
        assert waits.interrupt == ApprovalRequest(
            (ActionRequest("call_123", "note", '{"text":"x"}', "Note"),),
            {"note": ReviewConfig(ALL)},
        )
        assert shape(waits.state) == ["U", "A(call_123)"]
        assert waits.state.interrupt == waits.interrupt
        assert notes.taken == []

    async def test_only_gated_calls_wait_in_call_order_and_the_others_have_not_run(self):
        """H-023, H-027, H-048, H-107: the same tool twice is two requests under one rule."""
        agent, notes = gated(
            calling(call("c1", text="a"), call("c2", "look"), call("c3", text="b")), "done"
        )
        waits = await waiting(agent)
        assert open_call_ids(waits.interrupt) == ("c1", "c3")
        assert list(waits.interrupt.review_configs) == ["note"]  # type: ignore[attr-defined]
        assert results(waits.state) == {}
        done = await agent.resume(waits.state, {"c1": Approve(), "c3": Approve()})
        assert told(done.state) == {"c1": "noted a", "c2": "noted", "c3": "noted b"}
        assert notes.taken == ["a", "b"]

    async def test_only_the_last_batch_is_asked_about(self):
        """H-025: an older one that was never answered is repaired, not asked about."""
        agent, _ = gated()
        waits = await waiting(agent, asked(calling(call("old")), calling(call("new"))))
        assert open_call_ids(waits.interrupt) == ("new",)

    async def test_calls_that_have_a_result_are_not_asked_about_again(self):
        """H-026: upstream lists the whole batch; here the open calls alone."""
        batch = calling(call("c1", text="a"), call("c2", text="b"))
        answered = Message.tool(results(asked(calling(), Message.tool(_result("c1"))))["c1"])
        agent, notes = gated("done")
        waits = await waiting(agent, asked(batch, answered))
        assert open_call_ids(waits.interrupt) == ("c2",)
        done = await agent.resume(waits.state, {"c2": Approve()})
        assert told(done.state) == {"c1": "known", "c2": "noted b"}
        assert notes.taken == ["b"]


def _result(call_id: str) -> Any:
    from sagents_app.engine import TextPart, ToolResult

    return ToolResult(call_id, "note", (TextPart("known"),))


class TestDeciding:
    @pytest.mark.parametrize(
        ("replies", "problem"),
        [
            pytest.param({"c1": Approve()}, "without a reply: 'c2'", id="H-041 H-062 too few"),
            pytest.param(
                {"c1": Approve(), "c2": Approve(), "c3": Approve()}, "not open: 'c3'", id="H-041"
            ),
            pytest.param([Approve(), Approve()], "replies are a mapping", id="H-061 H-144 a list"),
            pytest.param({"c1": "approve", "c2": Approve()}, "a reply is one of", id="H-045"),
            pytest.param({"c1": Respond("x"), "c2": Approve()}, "got respond", id="H-104"),
            pytest.param({"c1": Answer(("x",)), "c2": Approve()}, "got answer", id="H-047"),
            pytest.param({"c1": Cancel(), "c2": Approve()}, "got cancel", id="H-047 cancel"),
        ],
    )
    async def test_wrong_replies_change_nothing_and_right_ones_still_work(
        self, replies: Any, problem: str
    ):
        agent, notes = gated(calling(call("c1", text="a"), call("c2", text="b")), "done")
        waits = await waiting(agent)
        before = serialize.dump_state(waits.state)
        with pytest.raises(InvalidResume, match=problem):
            await agent.resume(waits.state, replies)
        assert serialize.dump_state(waits.state) == before
        assert notes.taken == []
        right = {"c1": Approve(), "c2": Reject()}
        assert isinstance(await agent.resume(waits.state, right), Completed)

    @pytest.mark.parametrize("arguments", [None, "{}", ["text"], 5, False])
    def test_an_edit_needs_an_object(self, arguments: Any):
        """H-044, H-084: no arguments at all are no edit; `{}` is one."""
        with pytest.raises(InvalidResume, match="edited arguments are an object"):
            Edit(arguments)
        assert Edit({}).arguments == {}

    def test_a_tool_without_a_stored_rule_allows_the_defaults(self):
        """H-047."""
        request = ApprovalRequest((ActionRequest("c1", "note"),))
        for decision in (Approve(), Edit({}), Reject()):
            check_reply(request, decision, call_id="c1")
        with pytest.raises(InvalidResume, match="allows approve, edit, reject, got respond"):
            check_reply(request, Respond("x"), call_id="c1")

    async def test_the_stored_rule_counts_and_not_todays(self):
        """H-049: what was shown is what may be decided, after a deploy too."""
        old, _ = gated(
            calling(call()), rules={"note": {"allowed_decisions": ["approve", "reject"]}}
        )
        waits = await waiting(old)
        new, _ = gated("done")
        with pytest.raises(InvalidResume, match="allows approve, reject, got edit"):
            await new.resume(stored(waits.state), {"c1": Edit({"text": "x"})})
        assert isinstance(await new.resume(stored(waits.state), {"c1": Approve()}), Completed)

    async def test_nothing_to_resume_is_an_error(self):
        """H-105."""
        agent, _ = gated()
        with pytest.raises(InvalidResume, match="nothing is open"):
            await agent.resume(asked(), {"c1": Approve()})

    @pytest.mark.parametrize(
        ("one", "other", "answers", "taken"),
        [
            pytest.param(Approve(), Approve(), ("noted a", "noted b"), ["a", "b"], id="H-040"),
            pytest.param(
                Approve(),
                Edit({"text": "z"}),
                (
                    "noted a",
                    'A person changed the arguments before the call ran, to {"text":"z"}.\nnoted z',
                ),
                ["a", "z"],
                id="H-080 H-081 H-106",
            ),
            pytest.param(Reject(), Approve(), (DECLINED, "noted b"), ["b"], id="H-040 H-103"),
            pytest.param(
                Edit({}),
                Reject("why"),
                (
                    "A person changed the arguments before the call ran, to {}.\nnoted",
                    f"{DECLINED} Their note: why",
                ),
                [""],
                id="H-040 edit and reject",
            ),
        ],
    )
    async def test_each_call_is_run_or_not_as_it_was_decided(
        self, one: Any, other: Any, answers: tuple[str, str], taken: list[str]
    ):
        """H-063 to H-066, H-143: one tool message, results in call order, whatever the order."""
        agent, notes = gated(calling(call("c1", text="a"), call("c2", text="b")), "done")
        waits = await waiting(agent)
        done = await agent.resume(stored(waits.state), {"c2": other, "c1": one})
        assert isinstance(done, Completed)
        assert shape(done.state) == ["U", "A(c1,c2)", "T(c1,c2)", "A"]
        assert tuple(told(done.state).values()) == answers
        assert notes.taken == taken
        # H-083: what the model proposed is kept as it was
        proposed = done.state.messages[1].tool_calls
        assert [dict(known.arguments) for known in proposed] == [{"text": "a"}, {"text": "b"}]

    async def test_a_rejected_call_is_an_error_that_says_so(self):
        """H-082: upstream calls it no error."""
        agent, _ = gated(calling(call()), "done")
        done = await agent.resume((await waiting(agent)).state, {"c1": Reject()})
        assert results(done.state)["c1"].is_error

    async def test_a_call_may_be_answered_in_the_tools_place(self):
        rule = {"allowed_decisions": ["respond", "reject"]}
        agent, notes = gated(calling(call()), "done", rules={"note": rule})
        done = await agent.resume((await waiting(agent)).state, {"c1": Respond("by hand")})
        result = results(done.state)["c1"]
        assert (result.text, result.is_error, result.decision) == ("by hand", False, "respond")
        assert notes.taken == []

    async def test_the_resumed_turn_may_ask_again(self):
        """H-109."""
        agent, notes = gated(calling(call("c1")), calling(call("c2")), "done")
        second = await agent.resume((await waiting(agent)).state, {"c1": Approve()})
        assert isinstance(second, Interrupted)
        assert open_call_ids(second.interrupt) == ("c2",)
        assert isinstance(await agent.resume(second.state, {"c2": Approve()}), Completed)
        assert notes.taken == ["", ""]

    async def test_an_approved_tool_may_wait_itself(self):
        """H-067, H-068: one that asks, and several that ask, are waited for with their calls."""

        @tool
        async def confirm(text: str = "") -> Question:
            """Confirm."""
            return Question(f"sure of {text}?")

        batch = calling(call("c1", "confirm", text="a"), call("c2", "confirm", text="b"))
        agent, _ = gated(batch, "done", rules={"confirm": True}, tools=[confirm])
        waits = await waiting(agent)
        second = await agent.resume(waits.state, {"c1": Approve(), "c2": Reject()})
        assert isinstance(second, Interrupted)
        assert second.interrupt == Question("sure of a?", tool_call_id="c1")
        both = await agent.resume(waits.state, {"c1": Approve(), "c2": Approve()})
        assert both.interrupt == MultipleInterrupts(  # type: ignore[union-attr]
            (Question("sure of a?", tool_call_id="c1"), Question("sure of b?", tool_call_id="c2"))
        )
        # the approval of the call is no answer to what it asks
        assert both.state.decisions == {}
        done = await agent.resume(stored(second.state), {"c1": Answer(other_text="yes")})
        assert told(done.state) == {"c1": 'User responded: "yes"', "c2": DECLINED}

    async def test_what_approved_tools_change_reaches_the_next_call(self):
        """H-069: in the state that the next batch's tools see."""
        seen: list[Any] = []

        @tool
        async def put(ctx: ToolContext) -> ToolOutput:
            """Put."""
            seen.append(ctx.state.metadata.get("count", 0))
            return ToolOutput("ok", state={"metadata": {"count": len(seen)}})

        agent, _ = gated(
            calling(call("c1", "put")), calling(call("c2", "put")), "done",
            rules={"put": {"when": lambda arguments, ctx: not seen}}, tools=[put],
        )  # fmt: skip
        done = await agent.resume((await waiting(agent)).state, {"c1": Approve()})
        assert isinstance(done, Completed)
        assert seen == [0, 1]
        assert done.state.metadata == {"count": 2}


def worker(*ids: str) -> tuple[SubAgent, Notes]:
    notes = Notes("send")
    inner = calling(*(ToolCall(one, "send", {"text": one}) for one in ids))
    kind = SubAgent(
        name="worker",
        description="w",
        system_prompt="p",
        model=ScriptedModel(inner, "sent"),
        tools=(notes.tool,),
        middlewares=(HumanInTheLoop({"send": True}),),
    )
    return kind, notes


class TestEarlyStart:
    def agent(self, *calls: ToolCall, kind: SubAgent, tools: Any = ()) -> tuple[Agent, Notes]:
        notes = Notes()
        middlewares = [
            HumanInTheLoop({"note": True}, early_start=True),
            SubAgents([kind], general=False),
            Haltable(),
        ]
        agent = Agent(
            model=ScriptedModel(calling(*calls), "done"),
            tools=[notes.tool, *tools],
            middlewares=middlewares,
        )
        return agent, notes

    TASK = ToolCall("t", "task", {"instructions": "go", "task_name": "worker"})

    @pytest.mark.parametrize(
        "order", [("c1", "t-a", "t-b"), ("t-b", "c1", "t-a"), ("t-a", "t-b", "c1")]
    )
    async def test_a_sub_agents_calls_may_be_decided_one_by_one_beside_the_parents(
        self, order: tuple[str, ...]
    ):
        """A decision about one of two calls inside waits for the other, and is never lost."""
        kind, sent = worker("a", "b")
        agent, notes = self.agent(call("c1", text="x"), self.TASK, kind=kind)
        outcome: Any = await agent.execute(asked())
        left = ["t-a", "t-b", "c1"]
        for one in order:
            assert list(open_call_ids(outcome.interrupt)) == left
            outcome = await agent.resume(stored(outcome.state), {one: Approve()})
            left.remove(one)
        assert isinstance(outcome, Completed)
        assert told(outcome.state) == {"c1": "noted x", "t": "sent"}
        assert (notes.taken, sent.taken) == (["x"], ["a", "b"])

    async def test_what_is_decided_cannot_be_decided_again(self):
        """P4: neither by another decision nor by the same one, while the rest is open."""
        kind, sent = worker("a", "b")
        agent, _ = self.agent(self.TASK, kind=kind)
        first = await agent.resume((await waiting(agent)).state, {"t-a": Reject()})
        assert isinstance(first, Interrupted)
        assert open_call_ids(first.interrupt) == ("t-b",)
        for again in (Approve(), Reject()):
            with pytest.raises(InvalidResume, match="not open: 't-a'"):
                await agent.resume(first.state, {"t-a": again, "t-b": Approve()})
        done = await agent.resume(stored(first.state), {"t-b": Approve()})
        assert isinstance(done, Completed)
        assert sent.taken == ["b"]

    async def test_a_halt_of_an_approved_call_ends_what_is_still_open(self):
        @tool
        async def stop() -> Halt:
            """Stop."""
            return Halt("no")

        kind, sent = worker("a")
        agent = Agent(
            model=ScriptedModel(calling(call("c1", "stop"), call("c2"), self.TASK), "next"),
            tools=[stop, Notes().tool],
            middlewares=[
                HumanInTheLoop({"stop": True, "note": True}, early_start=True),
                SubAgents([kind], general=False),
            ],
        )
        first = await waiting(agent)
        assert set(open_call_ids(first.interrupt)) == {"c1", "c2", "t-a"}
        halted = await agent.resume(first.state, {"c1": Approve()})
        assert isinstance(halted, Interrupted)
        for replies in ({"c2": Approve()}, {"t-a": Approve()}):
            with pytest.raises(InvalidResume, match="halted"):
                await agent.resume(halted.state, replies)
        moved = halted.state.cancel_pending_interrupts()
        assert [one.is_error for one in results(moved).values()] == [True] * 3
        assert (moved.sub_agents, moved.decisions, sent.taken) == ({}, {}, [])

    async def test_the_model_is_called_when_every_call_has_its_result(self):
        agent, notes = gated(
            calling(call("c1", text="a"), call("c2", "look"), call("c3", text="b")),
            "done",
            early_start=True,
        )
        first = await waiting(agent)
        assert told(first.state) == {"c2": "noted"}
        second = await agent.resume(first.state, {"c3": Approve()})
        assert told(second.state) == {"c2": "noted", "c3": "noted b"}
        assert len(agent.setup.models[0].requests) == 1  # type: ignore[attr-defined]
        done = await agent.resume(second.state, {"c1": Reject()})
        assert list(told(done.state)) == ["c1", "c2", "c3"]
        assert notes.taken == ["b"]
