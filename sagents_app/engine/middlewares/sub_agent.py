"""SubAgents: the `task` tool, with which a model hands bounded work to agents of their own."""

from __future__ import annotations

import re
from collections.abc import Iterable, Mapping
from dataclasses import replace

from sagents_app.engine.agent import Agent
from sagents_app.engine.errors import Misconfigured, ToolError
from sagents_app.engine.interrupts import Interrupt, SubAgentInterrupt
from sagents_app.engine.middleware import Middleware
from sagents_app.engine.sub_agents import MOST_PROMPT, SubAgent, general_purpose, run_task
from sagents_app.engine.tools import Tool, ToolContext, ToolOutput, tool
from sagents_app.engine.turn import Setup

GENERAL = "general-purpose"
GENERAL_PROMPT = "Do the task with the tools you have, and answer with its result."
PROMPT = """## Tasks
With the task tool you hand bounded work to a sub-agent and get its final answer. It knows only what
you tell it. Give tasks that do not depend on each other in one message: they run together."""
WHEN_TOLD = "Use the task tool when you are told to."
SMUGGLED = re.compile(
    r"(ignore|disregard|forget)\s+(all\s+)?previous\s+instructions|new\s+instructions:"
    r"|system:\s*you\s+are\s+now",
    re.IGNORECASE,
)


class SubAgents(Middleware):
    """The tools `task` and, where a kind has instructions, `get_task_instructions`.

    `kinds` are the sub-agents by name; with `general` there is also one that has the parent's own
    model, tools and middlewares (less `blocked`), but no sub-agents and no questions to the user.
    `list_kinds` says whether the prompt lists them.

    Raises:
        Misconfigured: two kinds of one name, or something that is no `SubAgent`.
    """

    def __init__(
        self,
        kinds: Iterable[SubAgent] = (),
        *,
        general: bool = True,
        blocked: tuple[type[Middleware], ...] = (),
        list_kinds: bool = True,
    ) -> None:
        self._kinds: dict[str, SubAgent] = {}
        for kind in kinds:
            if not isinstance(kind, SubAgent):
                raise Misconfigured(f"SubAgents takes SubAgent objects, got {kind!r:.200}")
            if kind.name in self._kinds or kind.name == GENERAL:
                raise Misconfigured(f"SubAgents: the name {kind.name!r} is taken")
            self._kinds[kind.name] = kind
        self._general = general
        self._blocked = blocked
        self._list = list_kinds
        self._parent: Setup | None = None
        self._agents: dict[str, Agent] = {}

    def system_prompt(self) -> str:
        """Tell the model of the task tool and of the kinds, sorted by name."""
        if not self._list:
            return f"{PROMPT}\n{WHEN_TOLD}"
        return "\n".join([PROMPT, "", *(self._line(name) for name in sorted(self._names()))])

    def tools(self) -> tuple[Tool, ...]:
        """Return `task`, and `get_task_instructions` where a kind has some."""
        guided = any(kind.instructions for kind in self._kinds.values())
        return (self._task(), self._instructions()) if guided else (self._task(),)

    def attach(self, setup: Setup) -> None:
        """Build every configured kind once, so that a mistake is found now."""
        self._parent = setup
        self._agents = {name: kind.build(setup) for name, kind in self._kinds.items()}

    def inherited(self, tools: Mapping[str, Tool]) -> None:
        """Leave a sub-agent without sub-agents of its own, so that tasks never nest unasked."""

    def restorable_interrupt(self, interrupt: Interrupt) -> bool:
        """Claim what sub-agents wait for: their states are stored inside the parent's."""
        return isinstance(interrupt, SubAgentInterrupt)

    def setup_inside(self, interrupt: Interrupt) -> Setup | None:
        """Return what the waiting sub-agent is made of; None where its kind is gone."""
        if not isinstance(interrupt, SubAgentInterrupt) or self._parent is None:
            return None
        if interrupt.task_name == GENERAL:
            return general_purpose(self._allowed(self._parent), GENERAL_PROMPT).setup
        agent = self._agents.get(interrupt.task_name)
        return None if agent is None else agent.setup

    def agent_named(self, name: str) -> Agent | None:
        """Return the sub-agent of that name."""
        return self._agents.get(name)

    def _names(self) -> tuple[str, ...]:
        return (*self._kinds, *((GENERAL,) if self._general else ()))

    def _line(self, name: str) -> str:
        kind = self._kinds.get(name)
        if kind is None:
            return f"- {name}: anything that your own tools can do."
        hint = " Read its get_task_instructions first." if kind.instructions else ""
        return f"- {name}: {kind.description}{hint}"

    def _task(self) -> Tool:
        @tool(parallel=True, retry_safe=True)
        async def task(
            instructions: str, task_name: str, ctx: ToolContext, system_prompt: str | None = None
        ) -> ToolOutput:
            """Hand a bounded task to a sub-agent and wait for its answer.

            Args:
                instructions: Everything that it needs to know, and what to answer.
                task_name: The kind of sub-agent.
                system_prompt: For a general-purpose task, who the sub-agent is.
            """
            if task_name == GENERAL and self._general and self._parent is not None:
                kind = SubAgent(name=GENERAL, description="anything", system_prompt=GENERAL_PROMPT)
                agent = general_purpose(self._allowed(self._parent), _checked(system_prompt))
            elif task_name in self._kinds:
                kind, agent = self._kinds[task_name], self._agents[task_name]
            else:
                raise ToolError(f"Unknown task {task_name!r}; known are {', '.join(self._names())}")
            return await run_task(agent, kind, instructions, ctx, ctx.emit)

        return task

    def _allowed(self, parent: Setup) -> Setup:
        kept = tuple(one for one in parent.middlewares if not isinstance(one, self._blocked))
        return replace(parent, middlewares=kept)

    def _instructions(self) -> Tool:
        @tool(read_only=True, parallel=True)
        def get_task_instructions(task_name: str) -> str:
            """Read how to use a kind of sub-agent.

            Args:
                task_name: The kind of sub-agent.
            """
            kind = self._kinds.get(task_name)
            if kind is None or not kind.instructions:
                raise ToolError(f"There are no instructions for {task_name!r}")
            return kind.instructions

        return get_task_instructions


def _checked(system_prompt: str | None) -> str:
    if system_prompt is None:
        return GENERAL_PROMPT
    if not system_prompt.strip():
        raise ToolError("system_prompt is empty")
    if len(system_prompt) > MOST_PROMPT:
        raise ToolError(
            f"system_prompt is too long: {len(system_prompt)} of {MOST_PROMPT} characters"
        )
    if SMUGGLED.search(system_prompt):
        raise ToolError("system_prompt is unsafe: it tries to override earlier instructions")
    return system_prompt
