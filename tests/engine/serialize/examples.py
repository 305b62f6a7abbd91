"""One state with everything in it, as `fixtures/state-v3.json` holds it."""

from __future__ import annotations

from dataclasses import replace

from sagents_app.engine import (
    ActionRequest,
    AgentState,
    Answer,
    ApprovalRequest,
    Approve,
    BudgetRequest,
    Cancel,
    Edit,
    FilePart,
    Halt,
    ImagePart,
    Message,
    MultipleInterrupts,
    Question,
    QuestionOption,
    Reject,
    Respond,
    ReviewConfig,
    SubAgentInterrupt,
    TextPart,
    ThinkingPart,
    Todo,
    TokenUsage,
    ToolCall,
    ToolResult,
    UnknownInterrupt,
    UnknownOutcome,
)
from sagents_app.engine.messages import Expansion, StreamFailure

QUESTION = Question(
    "Which one?",
    tool_call_id="call_2",
    response_type="multi_select",
    options=(QuestionOption("One", "1", "the first"), QuestionOption("Two", "2")),
    allow_other=True,
    allow_cancel=False,
    context="as you asked",
)
APPROVAL = ApprovalRequest(
    action_requests=(ActionRequest("call_1", "refund", '{"amount":12,"id":"A1"}', "Refund"),),
    review_configs={"refund": ReviewConfig(("approve", "reject"))},
)
TASK = SubAgentInterrupt(
    "mailer", path=("support", "mailer"), inner=APPROVAL, tool_call_id="call_3"
)
INTERRUPT = MultipleInterrupts(
    (
        QUESTION,
        TASK,
        Halt("Stop", tool_call_id="call_4", source_tool="guard", source_task="mailer"),
        UnknownOutcome(ActionRequest("call_5", "pay"), known="It began.", tool_call_id="call_5"),
        BudgetRequest(50, used=50),
        UnknownInterrupt("legacy", data={"reason": "x"}, tool_call_id="call_6"),
    )
)


def message(message_id: str, made: Message) -> Message:
    return replace(made, id=message_id)


def calls() -> Message:
    thinking = ThinkingPart("Let me see.", signature="c2ln", provider="anthropic")
    redacted = ThinkingPart("", redacted="b3BhcXVl", provider="anthropic")
    names = ("refund", "ask_user", "task", "guard")
    made = Message.assistant(
        [thinking, redacted, TextPart("Working.")],
        tool_calls=[
            *(ToolCall(f"call_{at}", name, {"n": at}) for at, name in enumerate(names, 1)),
            ToolCall("call_5", "pay", '{"n":', "provider-5"),
            ToolCall("call_6", "count", '{"n": 123456789012345678901234567890}'),
        ],
    )
    usage = TokenUsage(input_tokens=10, output_tokens=5, cached_tokens=2, reasoning_tokens=1)
    return message("m3", replace(made, usage=usage))


def results() -> Message:
    text = (TextPart("done"),)
    expansion = Expansion((message("m9", Message.user("material")),), (TextPart("see below"),))
    update = {
        "todos": (Todo(9, "from a tool"),),
        "metadata": {"seen": True},
        "messages": (message("m8", Message.user("from a tool")),),
        "sub_agents": {"call_3": None, "call_9": AgentState((message("m7", Message.user("x")),))},
    }
    return message(
        "m4",
        Message.tool(
            ToolResult("call_1", "refund", text, decision="approve", expansion=expansion),
            ToolResult("call_2", "ask_user", text, is_interrupt=True, interrupt=QUESTION),
            ToolResult("call_3", "task", text, is_interrupt=True, interrupt=TASK),
            ToolResult("call_4", "guard", text, state_update=update),
            ToolResult("call_5", "pay", text, is_error=True, decision="reject"),
            ToolResult("call_6", "count", (), expansion=replace(expansion, result_content=None)),
        ),
    )


def everything() -> AgentState:
    died = message("m5", Message.assistant("It brok", status="stream_error"))
    return AgentState(
        (
            message("m1", Message.system("Be brief.")),
            message(
                "m2",
                Message.user(
                    [
                        TextPart("Look"),
                        ImagePart(data="aW1n", mime_type="image/png"),
                        FilePart(name="a.pdf", url="https://example.com/a.pdf"),
                    ]
                ),
            ),
            calls(),
            results(),
            replace(
                died,
                stream_failure=StreamFailure("overloaded", "try later"),
                stop_details={"code": 529},
            ),
        ),
        (Todo(2, "second", "in_progress"), Todo(1, "first")),
        {"title": "Everything", "nested": {"list": [1, 2.5, None, True, "x"]}},
        INTERRUPT,
        {"reason": "draining", "until": 5},
        {
            "call_1": Approve("fine"),
            "call_2": Answer(("1", "2"), "and this"),
            "call_3": Edit({"amount": None}, note="less"),
            "call_4": Reject("no"),
            "call_5": Respond("it was done"),
            "call_6": Cancel(),
        },
        {"call_1": True, "call_2": False},
        7,
        1234,
        {"call_3": AgentState((message("i1", Message.user("inner")),), interrupt=APPROVAL)},
        2,
        {"runs": 10, "tokens": 5},
        {"f" * 64: "call_0"},
    )
