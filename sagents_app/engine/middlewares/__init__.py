"""Capabilities for agents, one file or folder each."""

from sagents_app.engine.middlewares.ask_user_question import AskUserQuestion
from sagents_app.engine.middlewares.haltable import Haltable
from sagents_app.engine.middlewares.human_in_the_loop import HumanInTheLoop
from sagents_app.engine.middlewares.sub_agent import SubAgents
from sagents_app.engine.middlewares.todo_list import TodoList

__all__ = ["AskUserQuestion", "Haltable", "HumanInTheLoop", "SubAgents", "TodoList"]
