"""What people say: durable at once, delivered once, held only by an open approval (P5)."""

from __future__ import annotations

import pytest

from sagents_app.engine import Answer, Approve, Cancel, Halt, Paused, Question, modes, steps, tool
from sagents_app.engine.interrupts import QuestionOption
from sagents_app.engine.middlewares import AskUserQuestion, Haltable, HumanInTheLoop
from sagents_app.models import (
    AgentMessage,
    Conversation,
    DisplayMessage,
    InboxMessage,
    Interrupt,
    Run,
)
from sagents_app.services import conversations, interrupts, runs
from sagents_app.services.errors import (
    AlreadyDecided,
    InvalidDecision,
    MessageRejected,
    NotAllowed,
    NothingToDo,
    UnknownAgent,
)
from tests.world import (
    begin,
    call,
    calls,
    chat,
    check_invariants,
    drive,
    event_types,
    history,
    pending,
    person,
    register,
    reviewer,
    rows,
    statuses,
    transcript,
)

pytestmark = pytest.mark.django_db


@tool
async def pay(amount: int) -> str:
    """Pay."""
    return f"Paid {amount}."


@tool
async def stop(message: str) -> Halt:
    """Stop the workflow."""
    return Halt(message)


@tool(asks_person=True)
async def ask(kind: str) -> Question:
    """Ask the person."""
    options = (QuestionOption("Red", "r"), QuestionOption("Blue", "b"))
    match kind:
        case "free":
            return Question("Which colour?")
        case "other":
            return Question(
                "Which colour?", response_type="single_select", options=options, allow_other=True
            )
        case "forced":
            return Question(
                "Which colour?", response_type="single_select", options=options, allow_cancel=False
            )
        case _:
            return Question("Which colours?", response_type="multi_select", options=options)


def say(conversation: Conversation, text: str, **more) -> InboxMessage:
    return conversations.post_message(
        conversation=conversation, text=text, actor=conversation.owner, **more
    )


def user_texts() -> list[list[str]]:
    """What the model reads of the person, a list of parts a message."""
    data = AgentMessage.objects.filter(data__role="user").values_list("data", flat=True)
    return [[part["text"] for part in message["content"]] for message in data]


class TestAccepting:
    @pytest.mark.parametrize("text", ["", "   ", "\n\t", "x" * 100_001], ids=len)
    def test_an_empty_or_huge_message_is_refused_and_nothing_is_stored(self, text):
        register("plain", "Hello.")
        conversation = conversations.create_conversation(agent="plain", owner=person())
        with pytest.raises(MessageRejected):
            say(conversation, text)
        assert not DisplayMessage.objects.exists()
        assert not Run.objects.exists()

    def test_only_the_owner_writes(self):
        """B083: an operator or a reviewer may look, and no more."""
        register("plain", "Hello.")
        conversation = conversations.create_conversation(agent="plain", owner=person())
        with pytest.raises(NotAllowed):
            conversations.post_message(conversation=conversation, text="hi", actor=reviewer())

    def test_an_unknown_agent_is_named_with_the_known_ones(self):
        register("plain", "Hello.")
        with pytest.raises(UnknownAgent, match=r"no agent 'plan'; there are: .*plain"):
            conversations.create_conversation(agent="plan", owner=person())

    def test_a_repeated_client_id_is_the_same_message(self):
        """A double click, or a retry of a request whose answer was lost."""
        model = register("plain", "Hello.", "Again.")
        conversation = conversations.create_conversation(agent="plain", owner=person())
        first = say(conversation, "hi", client_id="a")
        assert say(conversation, "hi", client_id="a") == first
        drive(conversation)
        assert say(conversation, "hi", client_id="a") == first
        assert transcript(conversation) == ["user text: hi", "assistant text: Hello."]
        assert len(model.requests) == 1

    def test_a_client_id_of_another_size_is_refused(self):
        register("plain", "Hello.")
        conversation = conversations.create_conversation(agent="plain", owner=person())
        for wrong in ("", "x" * 65):
            with pytest.raises(MessageRejected):
                say(conversation, "hi", client_id=wrong)

    def test_what_no_database_stores_is_replaced(self):
        register("plain", "Hello.")
        conversation = conversations.create_conversation(agent="plain", owner=person())
        say(conversation, "a\x00b\ud800c")
        drive(conversation)
        assert conversation.status == "idle"

    def test_the_first_message_names_the_conversation(self):
        register("plain", "Hello.")
        conversation = begin("plain", person(), "  Where is my order?\nIt is late.")
        conversation.refresh_from_db()
        assert conversation.title == "Where is my order?"
        with pytest.raises(MessageRejected):
            conversations.rename_conversation(
                conversation=conversation, title=" ", actor=conversation.owner
            )
        conversations.rename_conversation(
            conversation=conversation, title="Late", actor=conversation.owner
        )
        conversation.refresh_from_db()
        assert conversation.title == "Late"


class TestTheInbox:
    def test_a_message_can_be_taken_back_before_the_model_has_it(self):
        register("gated", *GATED, tools=[pay], middlewares=[HumanInTheLoop({"pay": True})])
        conversation = chat("gated", person())
        message = say(conversation, "hurry")
        with pytest.raises(NotAllowed):
            conversations.withdraw_message(message=message, actor=person("eve"))
        conversations.withdraw_message(message=message, actor=conversation.owner)
        with pytest.raises(NothingToDo):
            conversations.withdraw_message(message=message, actor=conversation.owner)
        assert transcript(conversation)[-1] == "user text: hurry [withdrawn]"
        self.approve(conversation)
        assert user_texts() == [["hi"]]

    def test_an_open_approval_holds_a_message_until_the_decided_results_are_in(self):
        """B049: results first, then the person's words."""
        register("gated", *GATED, tools=[pay], middlewares=[HumanInTheLoop({"pay": True})])
        conversation = chat("gated", person())
        say(conversation, "never mind")
        conversation.refresh_from_db()
        assert conversation.status == "interrupted"
        assert transcript(conversation)[-1] == "user text: never mind [queued]"
        assert len(pending(conversation)) == 1
        self.approve(conversation)
        assert history(conversation) == ["U", "A(c1)", "T(c1)", "A", "U", "A"]
        assert statuses(conversation) == ["running", "interrupted", "running", "running", "idle"]
        check_invariants(conversation)

    def test_withdrawing_the_request_releases_the_message(self):
        register("gated", *GATED, tools=[pay], middlewares=[HumanInTheLoop({"pay": True})])
        conversation = chat("gated", person())
        say(conversation, "never mind")
        (row,) = pending(conversation)
        interrupts.withdraw_request(interrupt=row, actor=conversation.owner)
        drive(conversation)
        assert history(conversation) == ["U", "A(c1)", "T(c1)", "U", "A"]
        assert conversation.status == "idle"
        assert [one.status for one in rows(conversation, "tool_call")] == ["cancelled"]
        check_invariants(conversation)

    def approve(self, conversation):
        (row,) = pending(conversation)
        interrupts.decide_interrupt(
            interrupt=row, decision=Approve(), actor=reviewer(), digest=row.digest
        )
        drive(conversation)


GATED = (calls(call("c1", "pay", amount=5)), "Done.", "Read it.")


class TestHalts:
    def halted(self, message: str = "Stop here.") -> Conversation:
        asks = calls(call("c1", "stop", message=message))
        register("strict", asks, "Fine.", "More.", tools=[stop], middlewares=[Haltable()])
        return chat("strict", person())

    def test_its_text_is_one_row_before_the_status_and_outlives_everything(self):
        """HP-01, HP-06, HP-07, HP-16."""
        conversation = self.halted()
        assert conversation.status == "interrupted"
        assert transcript(conversation)[-1] == "assistant halt: Stop here."
        assert event_types(conversation)[-3:] == [
            "display_message_saved",
            "interrupt_opened",
            "status_changed",
        ]
        assert [row.status for row in rows(conversation, "tool_call")] == ["interrupted"]
        say(conversation, "ok")
        drive(conversation)
        assert transcript(conversation).count("assistant halt: Stop here.") == 1
        assert conversation.status == "idle"
        assert Interrupt.objects.get().status == "superseded"
        assert history(conversation) == ["U", "A(c1)", "T(c1)", "U", "A"]
        result = AgentMessage.objects.get(position=2).data["tool_results"][0]
        assert result["is_error"]
        assert "Stop here." in result["content"][0]["text"]
        check_invariants(conversation)

    def test_without_a_text_there_is_no_row(self):
        """HP-02."""
        conversation = self.halted("")
        assert rows(conversation, "halt") == []
        assert conversation.status == "interrupted"

    def test_dismissing_it_makes_the_conversation_idle_without_a_worker(self):
        """HP-11, HP-13, HP-14, HP-15."""
        conversation = self.halted()
        (row,) = pending(conversation)
        with pytest.raises(NotAllowed):
            interrupts.dismiss_halt(interrupt=row, actor=person("eve"))
        interrupts.dismiss_halt(interrupt=row, actor=conversation.owner)
        with pytest.raises(NothingToDo):
            interrupts.dismiss_halt(interrupt=row, actor=conversation.owner)
        conversation.refresh_from_db()
        row.refresh_from_db()
        assert (conversation.status, row.status) == ("idle", "dismissed")
        assert not Run.objects.live().exists()
        say(conversation, "next")
        drive(conversation)
        assert statuses(conversation) == ["running", "interrupted", "idle", "running", "idle"]
        assert transcript(conversation).count("assistant halt: Stop here.") == 1
        assert history(conversation) == ["U", "A(c1)", "T(c1)", "U", "A"]
        check_invariants(conversation)

    def test_halts_win_over_what_stands_beside_them(self):
        """HP-04, HP-09."""
        batch = calls(
            call("c1", "stop", message="A"),
            call("c2", "ask", kind="free"),
            call("c3", "stop", message="B"),
        )
        middlewares = [Haltable(), AskUserQuestion()]
        register("strict", batch, "Fine.", tools=[stop, ask], middlewares=middlewares)
        conversation = chat("strict", person())
        assert transcript(conversation)[-2:] == ["assistant halt: A", "assistant halt: B"]
        status = {row.tool_call_id: row.status for row in Interrupt.objects.all()}
        assert status == {"c1": "pending", "c2": "superseded", "c3": "pending"}
        question = Interrupt.objects.get(tool_call_id="c2")
        with pytest.raises(AlreadyDecided):
            interrupts.answer_question(
                interrupt=question, answer=Answer(other_text="x"), actor=conversation.owner
            )
        interrupts.dismiss_halt(interrupt=pending(conversation)[0], actor=conversation.owner)
        assert pending(conversation) == []
        say(conversation, "next")
        drive(conversation)
        assert history(conversation) == ["U", "A(c1,c2,c3)", "T(c1,c2,c3)", "U", "A"]
        check_invariants(conversation)

    def test_a_halt_is_not_decided(self):
        """HP-12."""
        conversation = self.halted()
        (row,) = pending(conversation)
        with pytest.raises(NotAllowed):
            interrupts.decide_interrupt(
                interrupt=row, decision=Approve(), actor=reviewer(), digest=row.digest
            )


class TestQuestions:
    def asked(self, *kinds: str) -> Conversation:
        batch = calls(*(call(f"c{n}", "ask", kind=kind) for n, kind in enumerate(kinds, 1)))
        register("curious", batch, "Thanks.", tools=[ask], middlewares=[AskUserQuestion()])
        return chat("curious", person())

    def answer(self, row: Interrupt, answer) -> Interrupt:
        owner = row.conversation.owner
        return interrupts.answer_question(interrupt=row, answer=answer, actor=owner)

    def test_the_answer_is_shown_in_the_words_of_its_label_and_the_model_goes_on(self):
        """IR-09: the call's row is settled before the model is called again."""
        conversation = self.asked("other")
        (row,) = pending(conversation)
        assert [one.status for one in rows(conversation, "tool_call")] == ["interrupted"]
        self.answer(row, Answer(("r",)))
        drive(conversation)
        assert "user text: Red" in transcript(conversation)
        assert [one.status for one in rows(conversation, "tool_call")] == ["completed"]
        assert len(rows(conversation, "tool_result")) == 1
        told = event_types(conversation)
        assert conversation.status == "idle"
        assert told.count("tool_execution_update") == 3
        check_invariants(conversation)

    def test_an_option_and_other_words_are_shown_both(self):
        conversation = self.asked("other")
        self.answer(pending(conversation)[0], Answer((), "Green"))
        assert transcript(conversation)[-1] == "user text: Green"

    def test_only_the_owner_answers(self):
        conversation = self.asked("free")
        (row,) = pending(conversation)
        for nobody in (reviewer(), person("root", is_superuser=True)):
            with pytest.raises(NotAllowed):
                interrupts.answer_question(
                    interrupt=row, answer=Answer(other_text="x"), actor=nobody
                )
            with pytest.raises(NotAllowed):
                interrupts.decide_interrupt(
                    interrupt=row,
                    decision=Answer(other_text="x"),
                    actor=nobody,
                    digest=row.digest,
                )
        assert row in pending(conversation)

    @pytest.mark.parametrize(
        "answer", [Answer(), Answer(("g",)), Answer(("r", "b")), None, Cancel()]
    )
    def test_an_answer_that_does_not_fit_changes_nothing(self, answer):
        conversation = self.asked("forced")
        with pytest.raises(InvalidDecision):
            self.answer(pending(conversation)[0], answer)
        assert len(pending(conversation)) == 1

    def test_several_questions_resume_once_with_all(self):
        """IR-15, IR-16."""
        conversation = self.asked("free", "many")
        first, second = pending(conversation)
        self.answer(second, Answer(("r", "b")))
        assert not Run.objects.live().exists()
        self.answer(first, Answer(other_text="0"))
        with pytest.raises(AlreadyDecided):
            self.answer(first, Answer(other_text="1"))
        drive(conversation)
        assert history(conversation) == ["U", "A(c1,c2)", "T(c1,c2)", "A"]
        results = AgentMessage.objects.get(position=2).data["tool_results"]
        assert "0" in results[0]["content"][0]["text"]
        check_invariants(conversation)

    def test_a_question_may_be_put_aside(self):
        conversation = self.asked("free")
        self.answer(pending(conversation)[0], Cancel())
        drive(conversation)
        assert conversation.status == "idle"
        assert "system notification: The question was put aside." in transcript(conversation)

    @pytest.mark.parametrize("kind", ["free", "other"])
    def test_a_message_answers_a_single_question_that_takes_a_text(self, kind):
        conversation = self.asked(kind)
        say(conversation, "Green")
        assert Interrupt.objects.get().status == "answered"
        drive(conversation)
        assert transcript(conversation).count("user text: Green") == 1
        assert history(conversation) == ["U", "A(c1)", "T(c1)", "A"]
        check_invariants(conversation)

    @pytest.mark.parametrize("kinds", [("many",), ("free", "free")])
    def test_a_message_moves_on_from_other_questions(self, kinds):
        """IR-20."""
        conversation = self.asked(*kinds)
        say(conversation, "never mind")
        drive(conversation)
        assert {row.status for row in Interrupt.objects.all()} == {"superseded"}
        assert history(conversation)[-2:] == ["U", "A"]
        assert conversation.status == "idle"
        check_invariants(conversation)


class TestPauses:
    @pytest.fixture
    def paused(self) -> Conversation:
        """A conversation whose mode asked to stop right behind the model's call."""

        quota = iter([Paused])

        async def rest(turn):
            out_of_quota = next(quota, None)
            return turn if out_of_quota is None else out_of_quota(turn.state, "quota")

        mode = modes.pipeline(steps.call_model, rest, steps.execute_tools, steps.continue_or_done)
        asks = calls(call("c1", "pay", amount=5))
        register("slow", asks, "Done.", "Read it.", tools=[pay], mode=mode)
        return chat("slow", person())

    def test_the_reason_is_told_and_kept(self, paused):
        """SM-11, CR-38."""
        assert paused.status == "paused"
        assert Run.objects.get().cause == "quota"
        assert paused.events.filter(type="status_changed").last().payload["reason"] == "quota"
        assert Run.objects.get().wake_at is not None

    def test_a_message_wakes_it_and_is_delivered_behind_the_results(self, paused):
        """SM-13."""
        say(paused, "go on")
        drive(paused)
        assert history(paused)[:3] == ["U", "A(c1)", "T(c1)"]
        assert user_texts() == [["hi"], ["go on"]]
        assert paused.status == "idle"
        check_invariants(paused)

    def test_an_operator_resumes_it(self, paused):
        runs.retry_run(conversation=paused, actor=paused.owner)
        drive(paused)
        assert paused.status == "idle"
        assert history(paused) == ["U", "A(c1)", "T(c1)", "A"]

    def test_it_can_be_cancelled(self, paused):
        runs.cancel_run(conversation=paused, actor=paused.owner)
        paused.refresh_from_db()
        assert paused.status == "cancelled"


def test_deleting_is_for_the_owner_and_takes_everything_along():
    register("plain", "Hello.")
    conversation = chat("plain", person())
    with pytest.raises(NotAllowed):
        conversations.delete_conversation(conversation=conversation, actor=person("eve"))
    conversations.delete_conversation(conversation=conversation, actor=conversation.owner)
    assert not DisplayMessage.objects.exists()
    assert not AgentMessage.objects.exists()
    assert not Run.objects.exists()
