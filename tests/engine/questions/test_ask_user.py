"""The `ask_user` tool: what a model may ask, which answers fit, and in whose words they arrive."""

from __future__ import annotations

import json
from typing import Any

import pytest

from sagents_app.engine import (
    Agent,
    AgentState,
    Answer,
    Approve,
    Cancel,
    Completed,
    Interrupted,
    InvalidResume,
    Message,
    Misconfigured,
    MultipleInterrupts,
    Question,
    QuestionOption,
    ScriptedModel,
    Tool,
    ToolCall,
    check_reply,
    interrupt_restorable,
    serialize,
    session,
)
from sagents_app.engine.interrupts import Interrupt, SubAgentInterrupt, open_call_ids
from sagents_app.engine.middlewares import AskUserQuestion
from tests.engine.doubles import Notes, asked, calling, results, shape, told

UNANSWERED = "The user cancelled the question. Do not proceed with it; wait for their instructions."
TWO = [{"label": "Red", "value": "r"}, {"label": "Blue", "value": "b", "description": "Calm."}]


def ask(call_id: str = "q1", **arguments: Any) -> ToolCall:
    given = {"question": "Which?", "response_type": "single_select", "options": TWO, **arguments}
    return ToolCall(call_id, "ask_user", {k: v for k, v in given.items() if v != "left out"})


def freeform(call_id: str = "q1", **arguments: Any) -> ToolCall:
    return ask(call_id, response_type="freeform", options="left out", **arguments)


def agent(*replies: Any, tools: Any = (), **options: Any) -> Agent:
    return Agent(
        model=ScriptedModel(*replies), tools=tools, middlewares=[AskUserQuestion(**options)]
    )


def schema(**options: Any) -> dict[str, Any]:
    (one,) = AskUserQuestion(**options).tools()
    return one.parameters


def stored(state: AgentState) -> AgentState:
    return serialize.load_state(json.loads(json.dumps(serialize.dump_state(state))))


async def interrupted(one: Agent) -> Interrupted:
    outcome = await one.execute(asked())
    assert isinstance(outcome, Interrupted)
    return outcome


class TestConfiguration:
    @pytest.mark.parametrize(
        ("options", "problem"),
        [
            ({"response_types": ("single", "freeform")}, "Invalid response types"),
            ({"response_types": ()}, "Invalid response types"),
            ({"allow_other": "yes"}, "allow_other is True, False or None, got 'yes'"),
            ({"allow_cancel": 0}, "allow_cancel is True, False or None, got 0"),
        ],
        ids=["I-040 unknown", "I-040 none", "I-041 other", "I-041 cancel"],
    )
    def test_a_wrong_option_is_refused_by_name(self, options: dict[str, Any], problem: str):
        with pytest.raises(Misconfigured, match=problem):
            AskUserQuestion(**options)

    def test_there_is_one_tool_and_it_only_asks(self):
        """I-043."""
        (one,) = AskUserQuestion().tools()
        assert isinstance(one, Tool)
        assert (one.name, one.asks_person) == ("ask_user", True)
        assert one.description == "Ask the user a question and wait for the answer."

    def test_the_schema_describes_an_option(self):
        """I-043: label and value are required, the description is not, nothing else is taken."""
        option = schema()["$defs"]["QuestionOption"]
        assert list(option["properties"]) == ["label", "value", "description"]
        assert option["required"] == ["label", "value"]
        assert option["additionalProperties"] is False
        assert all(field["description"] for field in option["properties"].values())

    @pytest.mark.parametrize(
        ("options", "kinds"),
        [
            ({}, ["single_select", "multi_select", "freeform"]),
            ({"response_types": ("freeform", "multi_select")}, ["freeform", "multi_select"]),
        ],
    )
    def test_the_schema_names_the_enabled_kinds_in_order(
        self, options: dict[str, Any], kinds: list[str]
    ):
        """I-040, I-043: so does the prompt."""
        assert schema(**options)["properties"]["response_type"]["enum"] == kinds
        prompt = AskUserQuestion(**options).system_prompt()
        assert f"Kinds of answers: {', '.join(kinds)}." in prompt

    @pytest.mark.parametrize("other", [None, True, False])
    @pytest.mark.parametrize("cancel", [None, True, False])
    def test_a_forced_flag_is_neither_in_the_schema_nor_in_the_prompt(
        self, other: bool | None, cancel: bool | None
    ):
        """I-041, I-042, I-043."""
        options = {"allow_other": other, "allow_cancel": cancel}
        prompt = AskUserQuestion(**options).system_prompt()
        for flag, forced in options.items():
            assert (flag in schema(**options)["properties"]) is (forced is None)
            assert (flag in prompt) is (forced is None)
        assert schema(**options)["required"] == ["question", "response_type"]


class TestAsking:
    async def test_a_question_waits_with_everything_that_a_page_needs(self):
        """I-050, I-051."""
        waits = await interrupted(agent(calling(ask(context="For the door."))))
        assert waits.interrupt == Question(
            "Which?",
            response_type="single_select",
            options=(QuestionOption("Red", "r"), QuestionOption("Blue", "b", "Calm.")),
            allow_other=False,
            allow_cancel=True,
            context="For the door.",
            tool_call_id="q1",
        )
        result = results(waits.state)["q1"]
        assert (result.text, result.is_interrupt) == ("Waiting for user response...", True)
        assert result.interrupt == waits.interrupt

    @pytest.mark.parametrize("options", ["left out", None, []])
    async def test_a_freeform_question_has_no_options(self, options: Any):
        """I-051, I-054: none, null and an empty list."""
        call = ask(response_type="freeform", options=options)
        question = (await interrupted(agent(calling(call)))).interrupt
        assert question == Question("Which?", tool_call_id="q1")

    @pytest.mark.parametrize("cancel", [True, False])
    @pytest.mark.parametrize("other", [True, False])
    async def test_the_models_flags_hold_where_none_is_forced(self, other: bool, cancel: bool):
        """I-052."""
        call = ask(allow_other=other, allow_cancel=cancel)
        question = (await interrupted(agent(calling(call)))).interrupt
        assert isinstance(question, Question)
        assert (question.allow_other, question.allow_cancel) == (other, cancel)

    @pytest.mark.parametrize("forced", [True, False])
    async def test_a_forced_flag_holds_and_one_that_is_sent_all_the_same_is_refused(
        self, forced: bool
    ):
        """I-052: the model's value never wins."""
        one = agent(
            calling(ask("q1", allow_cancel=not forced)), calling(ask("q2")), allow_cancel=forced
        )
        waits = await interrupted(one)
        assert results(waits.state)["q1"].is_error
        assert "allow_cancel: Extra inputs are not permitted" in told(waits.state)["q1"]
        assert isinstance(waits.interrupt, Question)
        assert (waits.interrupt.tool_call_id, waits.interrupt.allow_cancel) == ("q2", forced)

    @pytest.mark.parametrize(
        ("arguments", "problem"),
        [
            pytest.param({"question": "left out"}, "question: Field required", id="I-053 missing"),
            pytest.param({"question": " "}, "the question is empty", id="I-053 empty"),
            pytest.param({"question": 5}, "question: Input should be a valid string", id="I-054"),
            pytest.param(
                {"response_type": "yes_no"},
                "response_type: Input should be 'single_select' or 'multi_select'",
                id="I-053 unknown kind",
            ),
            pytest.param(
                {"response_type": "freeform", "options": []},
                "response_type: Input should be 'single_select' or 'multi_select'",
                id="I-053 disabled kind",
            ),
            pytest.param(
                {"response_type": "left out"}, "response_type: Field required", id="I-054 no kind"
            ),
            pytest.param({"response_type": 1}, "response_type: Input should be", id="I-054 kind"),
            pytest.param({"options": TWO[:1]}, "needs 2 to 10 options, got 1", id="I-053 one"),
            pytest.param({"options": None}, "needs 2 to 10 options, got 0", id="I-053 none"),
            pytest.param(
                {"options": [{"label": str(n), "value": str(n)} for n in range(11)]},
                "needs 2 to 10 options, got 11",
                id="I-053 eleven",
            ),
            pytest.param(
                {"options": [TWO[0], {"label": "Rot", "value": "r"}]},
                "two options have the same value",
                id="I-053 doubled",
            ),
            pytest.param(
                {"options": [TWO[0], {"label": " ", "value": "x"}]},
                "an option needs a label and a value",
                id="I-053 label",
            ),
            pytest.param(
                {"options": [TWO[0], {"label": "x", "value": ""}]},
                "an option needs a label and a value",
                id="I-054 value",
            ),
            pytest.param(
                {"options": [TWO[0], {"label": "x"}]},
                "options.1.value: Field required",
                id="I-054 no value",
            ),
            pytest.param({"options": {}}, "options: Input should be a valid", id="I-054 no list"),
            pytest.param({"options": ["r", "b"]}, "options.0: Input should be", id="I-054 texts"),
            pytest.param(
                {"allow_other": "yes"}, "allow_other: Input should be a valid boolean", id="I-054"
            ),
        ],
    )
    async def test_a_question_that_cannot_be_asked_is_an_error_result(
        self, arguments: dict[str, Any], problem: str
    ):
        """Nobody is asked; the model reads why and goes on."""
        one = agent(
            calling(ask(**arguments)), "sorry", response_types=("single_select", "multi_select")
        )
        outcome = await one.execute(asked())
        assert isinstance(outcome, Completed)
        result = results(outcome.state)["q1"]
        assert (result.is_error, result.is_interrupt) == (True, False)
        assert problem in result.text

    async def test_options_of_a_freeform_question_are_an_error(self):
        """I-053."""
        one = agent(calling(ask(response_type="freeform")), "sorry")
        outcome = await one.execute(asked())
        assert told(outcome.state) == {"q1": "a freeform question takes no options"}


SINGLE = Question(
    "Which?",
    response_type="single_select",
    options=(QuestionOption("Red", "r"), QuestionOption("Blue", "b")),
)


def like(question: Question, **changes: Any) -> Question:
    fields = {
        "response_type": question.response_type,
        "options": question.options,
        "allow_other": question.allow_other,
        "allow_cancel": question.allow_cancel,
    }
    return Question(question.question, **{**fields, **changes})


MULTI = like(SINGLE, response_type="multi_select")
FREE = Question("Why?")


class TestAnswers:
    @pytest.mark.parametrize(
        ("call", "reply", "text"),
        [
            pytest.param(ask(), Answer(("r",)), "User selected: r", id="I-060 I-080 single"),
            pytest.param(
                ask(allow_other=True),
                Answer(("r",), "dark"),
                'User selected: r\nAdditional input: "dark"',
                id="I-060 other beside",
            ),
            pytest.param(
                ask(allow_other=True),
                Answer((), "green"),
                'Additional input: "green"',
                id="I-060 other instead",
            ),
            pytest.param(ask(), Answer(("r",), ""), "User selected: r", id="I-060 empty other"),
            pytest.param(
                ask(response_type="multi_select"),
                Answer(("r", "b")),
                "User selected: r, b",
                id="I-061 multi",
            ),
            pytest.param(
                freeform(), Answer(other_text="why not"), 'User responded: "why not"', id="I-062"
            ),
            pytest.param(freeform(), Answer(other_text="0"), 'User responded: "0"', id="B003 0"),
            pytest.param(
                freeform(), Answer(other_text="false"), 'User responded: "false"', id="B003 false"
            ),
            pytest.param(
                ask(options=[{"label": "No", "value": "0"}, {"label": "Yes", "value": "1"}]),
                Answer(("0",)),
                "User selected: 0",
                id="B003 a falsy option",
            ),
            pytest.param(freeform(), Cancel(), UNANSWERED, id="I-063 cancel"),
        ],
    )
    async def test_the_answer_takes_the_questions_place_in_the_options_values(
        self, call: ToolCall, reply: Any, text: str
    ):
        """I-080: replaced in place, after a restart too; the model reads it next."""
        one = agent(calling(call), "thanks")
        waits = await interrupted(one)
        outcome = await one.resume(stored(waits.state), {"q1": reply})
        assert isinstance(outcome, Completed)
        assert shape(outcome.state) == ["U", "A(q1)", "T(q1)", "A"]
        result = results(outcome.state)["q1"]
        assert (result.text, result.name) == (text, "ask_user")
        assert (result.is_interrupt, result.is_error) == (False, False)
        assert result.decision == reply.type
        sent = one.setup.models[0].requests[1].messages  # type: ignore[attr-defined]
        assert sent[-1].tool_results[0].text == text

    @pytest.mark.parametrize(
        ("question", "reply", "problem"),
        [
            pytest.param(SINGLE, Answer(("r", "b")), "exactly one option, got 2", id="I-064 two"),
            pytest.param(SINGLE, Answer(), "exactly one option, got 0", id="I-064 none"),
            pytest.param(SINGLE, Answer(("x",)), "not among the options: 'x'", id="I-064 other"),
            pytest.param(SINGLE, Answer(("Red",)), "not among the options", id="I-064 a label"),
            pytest.param(MULTI, Answer(), "at least one option", id="I-064 multi none"),
            pytest.param(MULTI, Answer(("r", "r")), "chosen twice", id="I-064 doubled"),
            pytest.param(SINGLE, Answer((), "x"), "no other text", id="I-121 other_not_allowed"),
            pytest.param(MULTI, Answer(("r",), "x"), "no other text", id="I-122 not allowed"),
            pytest.param(FREE, Answer(other_text=""), "takes a text", id="I-064 empty"),
            pytest.param(FREE, Answer(), "takes a text", id="I-066 missing"),
            pytest.param(FREE, Answer(("r",), "x"), "not among the options", id="I-064 select"),
            pytest.param(FREE, Approve(), "takes an answer or cancel, got approve", id="I-064"),
            pytest.param(
                like(FREE, allow_cancel=False), Cancel(), "has to be answered", id="I-063 I-124"
            ),
        ],
    )
    def test_an_answer_that_does_not_fit_is_refused(
        self, question: Question, reply: Any, problem: str
    ):
        with pytest.raises(InvalidResume, match=problem):
            check_reply(question, reply)

    @pytest.mark.parametrize("text", [0, 5, False, ["x"], {"type": "x"}])
    def test_typed_text_is_a_text(self, text: Any):
        """I-066, B003: a number or a boolean is neither lost nor taken for a text."""
        with pytest.raises(InvalidResume, match="other_text is a text or None, got"):
            Answer(other_text=text)

    @pytest.mark.parametrize("selected", ["r", [1], [None], [True]])
    def test_chosen_values_are_texts(self, selected: Any):
        """I-064."""
        with pytest.raises(InvalidResume, match="selected values are a list of texts"):
            Answer(selected)

    async def test_a_refused_answer_leaves_the_question_open(self):
        """I-105, V-072: the caller's state is the original, and a right answer still works."""
        one = agent(calling(ask()), "thanks")
        waits = await interrupted(one)
        before = serialize.dump_state(waits.state)
        with pytest.raises(InvalidResume):
            await one.resume(waits.state, {"q1": Answer(("x",))})
        assert serialize.dump_state(waits.state) == before
        assert isinstance(await one.resume(waits.state, {"q1": Answer(("r",))}), Completed)

    async def test_a_cold_start_shows_the_same_question(self):
        """I-084, I-085, V-090."""
        one = agent(calling(ask()))
        waits = await interrupted(one)
        cold = stored(waits.state).clean_stale_interrupts(one.middlewares)
        assert await one.execute(cold) == Interrupted(waits.state, waits.interrupt)
        assert len(one.setup.models[0].requests) == 1  # type: ignore[attr-defined]

    @pytest.mark.parametrize(
        ("interrupt", "claimed"),
        [
            (Question("?"), True),
            (SubAgentInterrupt("a", path=("b", "a"), inner=Question("?")), False),
            (MultipleInterrupts((Question("?"), Question("?"))), False),
        ],
        ids=["a question", "a sub-agent's", "a batch"],
    )
    def test_it_claims_questions_alone(self, interrupt: Interrupt, claimed: bool):
        """I-085: a batch is restorable because each of its members is."""
        assert AskUserQuestion().restorable_interrupt(interrupt) is claimed
        alone = isinstance(interrupt, SubAgentInterrupt)
        assert interrupt_restorable(interrupt, [AskUserQuestion()]) is not alone


class TestSeveralQuestions:
    @pytest.fixture
    def one(self) -> Agent:
        batch = calling(ask("q1"), ToolCall("n", "note", {"text": "x"}), freeform("q2"))
        return agent(batch, "thanks", tools=[Notes().tool])

    @pytest.mark.parametrize("order", [("q1", "q2"), ("q2", "q1")])
    async def test_one_mapping_answers_all_in_any_order(self, one: Agent, order: tuple[str, str]):
        """I-103, I-109: placeholders are replaced, the finished result stays."""
        waits = await interrupted(one)
        assert open_call_ids(waits.interrupt) == ("q1", "q2")
        replies = {"q1": Answer(("b",)), "q2": Answer(other_text="since")}
        outcome = await one.resume(stored(waits.state), {key: replies[key] for key in order})
        assert shape(outcome.state) == ["U", "A(q1,n,q2)", "T(q1,n,q2)", "A"]
        assert told(outcome.state) == {
            "q1": "User selected: b",
            "n": "noted x",
            "q2": 'User responded: "since"',
        }

    async def test_one_may_be_cancelled_beside_an_answer(self, one: Agent):
        """I-104."""
        waits = await interrupted(one)
        outcome = await one.resume(waits.state, {"q1": Cancel(), "q2": Answer(other_text="x")})
        assert told(outcome.state)["q1"] == UNANSWERED
        assert told(outcome.state)["q2"] == 'User responded: "x"'

    @pytest.mark.parametrize(
        ("replies", "problem"),
        [
            ({"q1": Answer(("b",))}, "without a reply: 'q2'"),
            ({"q1": Answer(("b",)), "q2": Answer()}, "this question takes a text"),
        ],
        ids=["one is missing", "one does not fit"],
    )
    async def test_all_answers_count_or_none(self, one: Agent, replies: Any, problem: str):
        """I-104, I-105, I-111, B013: nothing goes on with a placeholder left."""
        waits = await interrupted(one)
        before = serialize.dump_state(waits.state)
        with pytest.raises(InvalidResume, match=problem):
            await one.resume(waits.state, replies)
        assert serialize.dump_state(waits.state) == before


class TestTheTranscript:
    @pytest.mark.parametrize(
        ("question", "reply", "text"),
        [
            pytest.param(SINGLE, Answer(("r",)), "Red", id="I-120"),
            pytest.param(
                like(SINGLE, allow_other=True), Answer((), "green"), "Other:  \ngreen", id="I-121"
            ),
            pytest.param(
                like(SINGLE, options=(QuestionOption("Something else", "other"), *SINGLE.options)),
                Answer(("other",)),
                "Something else",
                id="I-121 an option valued other",
            ),
            pytest.param(MULTI, Answer(("r", "b")), "Red, Blue", id="I-122"),
            pytest.param(MULTI, Answer(("b", "r")), "Blue, Red", id="I-122 as chosen"),
            pytest.param(
                like(MULTI, allow_other=True),
                Answer(("r", "b"), "and green"),
                "Red, Blue\nOther:  \nand green",
                id="I-122 with other",
            ),
            pytest.param(
                like(MULTI, allow_other=True),
                Answer((), "green"),
                "Other:  \ngreen",
                id="I-122 other alone",
            ),
            pytest.param(FREE, Answer(other_text="0"), "0", id="freeform"),
            pytest.param(FREE, Cancel(), "User cancelled", id="I-124"),
        ],
    )
    def test_an_answer_reads_in_the_words_of_its_labels(
        self, question: Question, reply: Any, text: str
    ):
        assert session.label_text(question, reply) == text

    @pytest.mark.parametrize(
        ("question", "reply"),
        [(SINGLE, Answer((), "x")), (like(FREE, allow_cancel=False), Cancel())],
        ids=["I-121 I-122 not allowed", "I-124 not allowed"],
    )
    def test_a_reply_that_does_not_fit_has_no_text(self, question: Question, reply: Any):
        with pytest.raises(InvalidResume):
            session.label_text(question, reply)


async def test_moving_on_leaves_an_error_in_the_questions_place() -> None:
    """V-056: the new message comes last, and the model is not asked the old question again."""
    one = agent(calling(freeform()), "fine")
    waits = await interrupted(one)
    state = waits.state.cancel_pending_interrupts().add_message(Message.user("never mind"))
    outcome = await one.execute(state)
    assert shape(outcome.state) == ["U", "A(q1)", "T(q1)", "U", "A"]
    assert results(outcome.state)["q1"].is_error
