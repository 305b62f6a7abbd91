"""AskUserQuestion: the `ask_user` tool, with which a model asks the owner and waits."""

from __future__ import annotations

from collections.abc import Mapping
from typing import Any

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


class AskUserQuestion(Middleware):
    """The tool `ask_user`.

    `response_types` restricts the kinds of answers. `allow_other` and `allow_cancel`, where given,
    hold for every question whatever the model says.

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
        return PROMPT.format(kinds=", ".join(self._kinds))

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
        kinds = self._kinds

        def ask_user(
            question: str,
            response_type: str,
            options: list[dict[str, str | None]] | None = None,
            context: str | None = None,
            allow_other: bool = False,
            allow_cancel: bool = True,
        ) -> Question:
            asked = Question(
                question,
                response_type=_kind(response_type, kinds),
                options=_options(response_type, options or []),
                allow_other=_flag(self._forced["allow_other"], allow_other),
                allow_cancel=_flag(self._forced["allow_cancel"], allow_cancel),
                context=context,
            )
            if not question.strip():
                raise ToolError("the question is empty")
            return asked

        return tool(
            asks_person=True, description="Ask the user a question and wait for the answer."
        )(ask_user)


def told(question: Question, answer: Answer) -> str:
    """Return an answer as the model reads it."""
    if question.response_type == "freeform":
        return f'User responded: "{answer.other_text or ""}"'
    lines = [f"User selected: {', '.join(answer.selected)}"] if answer.selected else []
    if answer.other_text:
        lines.append(f'Additional input: "{answer.other_text}"')
    return "\n".join(lines)


def _flag(forced: bool | None, asked: bool) -> bool:
    return asked if forced is None else forced


def _kind(kind: str, enabled: tuple[str, ...]) -> Any:
    if kind not in enabled:
        raise ToolError(f"response_type is one of {', '.join(enabled)}, got {kind!r}")
    return kind


def _options(kind: str, options: list[dict[str, str | None]]) -> tuple[QuestionOption, ...]:
    if kind == "freeform":
        if options:
            raise ToolError("a freeform question takes no options")
        return ()
    if not 2 <= len(options) <= MOST_OPTIONS:
        raise ToolError(f"a choice needs 2 to {MOST_OPTIONS} options, got {len(options)}")
    read = tuple(_option(option) for option in options)
    if len({option.value for option in read}) != len(read):
        raise ToolError("two options have the same value")
    return read


def _option(option: dict[str, str | None]) -> QuestionOption:
    label, value = option.get("label"), option.get("value")
    if not label or not value:
        raise ToolError(f"an option needs a label and a value, got {option!r:.200}")
    return QuestionOption(label, value, option.get("description"))
