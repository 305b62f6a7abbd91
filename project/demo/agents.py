"""The support agent of a small shop. Twenty lines are all that an agent needs."""

from __future__ import annotations

from project.demo import tools
from project.demo.scripted import demo_model
from sagents_app import conf
from sagents_app.engine import Agent
from sagents_app.engine.middlewares import Haltable, HumanInTheLoop
from sagents_app.models import Conversation
from sagents_app.services import agents
from sagents_app.services.agents import ReviewRule

PROMPT = """You are the support agent of a small coffee shop. Look orders up before you talk about
them. If the customer mentions a charge, a dispute or their bank, check the dispute first."""


@agents.register(
    "support",
    version="1",
    review=[ReviewRule(tools=("refund", "delete_order"), owner_may_decide=False)],
)
def build(conversation: Conversation) -> Agent:
    """Return the agent: lookups are free, money and deletion wait for a reviewer."""
    model, *fallbacks = conf.models() or [demo_model()]
    return Agent(
        name="support",
        model=model,
        fallback_models=fallbacks,
        system_prompt=PROMPT,
        tools=[tools.look_up_order, tools.refund, tools.delete_order, tools.check_dispute],
        middlewares=[
            HumanInTheLoop(
                {"refund": True, "delete_order": {"allowed_decisions": ["approve", "reject"]}}
            ),
            Haltable(),
        ],
    )
