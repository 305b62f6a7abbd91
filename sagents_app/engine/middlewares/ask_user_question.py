"""AskUserQuestion: the `ask_user` tool, with which a model asks the owner and waits."""

from __future__ import annotations

import inspect
from collections.abc import Mapping, Sequence
from typing import Any, Literal

from sagents_app.engine.decisions import Answer, Cancel
from sagents_app.engine.errors import Misconfigured, ToolError
from sagents_app.engine.interrupts import Interrupt, Question, QuestionOption
from sagents_app.engine.messages import TextPart, ToolResult
from sagents_app.engine.middleware import Middleware, Reply
from sagents_app.engine.state import AgentState
from sagents_app.engine.tools import Tool, tool

RESPONSE_TYPES = ("single_select", "multi_select", "freeform")
MOST_OPTIONS = 10
DECLINED = "The user cancelled the question. Do not proceed with it; wait for their instructions."

PROMPT = """You can ask the user a question with the ask_user tool, and wait for the answer.
Ask when you cannot go on without their choice. Kinds of answers: {kinds}."""
GUIDANCE = {
    "allow_other": "Set allow_other where a text of their own is an answer beside the options.",
    "allow_cancel": "Set allow_cancel to false only where you cannot go on without an answer.",
}


class AskUserQuestion(Middleware):
    """The tool `ask_user`.

    `response_types` restricts the kinds of answers. `allow_other` and `allow_cancel`, where given,
    hold for every question, and the model is not asked about them.

    Raises:
        Misconfigured: an unknown kind, or a flag that is no boolean.
    """

    def __init__(
        self,
        *,
        response_types: tuple[str, ...] = RESPONSE_TYPES,
        allow_other: bool | None = None,
        allow_cancel: bool | None = None,
    ) -> None:
        if not response_types or any(kind not in RESPONSE_TYPES for kind in response_types):
            raise Misconfigured(
                f"Invalid response types {response_types!r}; known are {', '.join(RESPONSE_TYPES)}"
            )
        for flag, value in (("allow_other", allow_other), ("allow_cancel", allow_cancel)):
            if value is not None and not isinstance(value, bool):
                raise Misconfigured(
                    f"AskUserQuestion: {flag} is True, False or None, got {value!r}"
                )
        self._kinds = tuple(response_types)
        self._forced = {"allow_other": allow_other, "allow_cancel": allow_cancel}

    def system_prompt(self) -> str:
        """Tell the model of the tool and of the kinds of answers."""
        told = [text for flag, text in GUIDANCE.items() if self._forced[flag] is None]
        return "\n".join([PROMPT.format(kinds=", ".join(self._kinds)), *told])

    def tools(self) -> tuple[Tool, ...]:
        """Return `ask_user`."""
        return (self._tool(),)

    def inherited(self, tools: Mapping[str, Tool]) -> None:
        """Keep questions to the agent that speaks with the user."""

    def restorable_interrupt(self, interrupt: Interrupt) -> bool:
        """Claim questions: they are data alone."""
        return isinstance(interrupt, Question)

    def handle_resume(
        self, interrupt: Interrupt, reply: Reply, state: AgentState
    ) -> ToolResult | None:
        """Put the answer in the question's place, in the words of its option values."""
        if not isinstance(interrupt, Question) or interrupt.tool_call_id is None:
            return None
        answered = isinstance(reply, Answer)
        text = told(interrupt, reply) if isinstance(reply, Answer) else DECLINED
        return ToolResult(
            interrupt.tool_call_id,
            "ask_user",
            (TextPart(text),),
            decision=Answer.type if answered else Cancel.type,
        )

    def _tool(self) -> Tool:
        """Return the tool, whose schema has the enabled kinds and the flags that are not forced."""

        async def ask_user(
            question: str,
            response_type: str,
            options: list[QuestionOption] | None = None,
            context: str | None = None,
            allow_other: bool = self._forced["allow_other"] is True,
            allow_cancel: bool = self._forced["allow_cancel"] is not False,
        ) -> Question:
            """Ask the user a question and wait for the answer.

            Args:
                question: What to ask, complete in itself.
                response_type: How it is answered.
                options: 2 to 10 answers to choose from; none for a freeform question.
                context: What the user has to know to answer.
                allow_other: Whether the user may answer with a text beside the options.
                allow_cancel: Whether the user may leave the question unanswered.
            """
            if not question.strip():
                raise ToolError("the question is empty")
            kind: Any = response_type
            return Question(
                question,
                response_type=kind,
                options=_options(response_type, options or []),
                allow_other=allow_other,
                allow_cancel=allow_cancel,
                context=context,
            )

        shown = [
            parameter
            for name, parameter in inspect.signature(ask_user).parameters.items()
            if self._forced.get(name) is None
        ]
        ask_user.__annotations__["response_type"] = Literal[self._kinds]
        vars(ask_user)["__signature__"] = inspect.Signature(shown)
        return tool(asks_person=True)(ask_user)


def told(question: Question, answer: Answer) -> str:
    """Return an answer as the model reads it."""
    if question.response_type == "freeform":
        return f'User responded: "{answer.other_text or ""}"'
    lines = [f"User selected: {', '.join(answer.selected)}"] if answer.selected else []
    if answer.other_text:
        lines.append(f'Additional input: "{answer.other_text}"')
    return "\n".join(lines)


def _options(kind: str, options: Sequence[QuestionOption]) -> tuple[QuestionOption, ...]:
    if kind == "freeform":
        if options:
            raise ToolError("a freeform question takes no options")
        return ()
    if not 2 <= len(options) <= MOST_OPTIONS:
        raise ToolError(f"a choice needs 2 to {MOST_OPTIONS} options, got {len(options)}")
    if blank := [option for option in options if not (option.label.strip() and option.value)]:
        raise ToolError(f"an option needs a label and a value, got {blank[0]!r:.200}")
    if len({option.value for option in options}) != len(options):
        raise ToolError("two options have the same value")
    return tuple(options)
