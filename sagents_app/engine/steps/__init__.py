"""The steps of a turn, from a `Turn` to a `Turn` or an outcome; none knows its neighbours.

expand_tool_results    first, so that a tool's material is there on the very next call
check_pause            between two units of work, never inside one
check_max_runs()       before the call that would be one too many
call_model             repairs what is sent, streams, appends the reply
check_approval         before anything runs
execute_tools          runs what may run, answers what may not
propagate_state        before anybody looks at the state
check_tool_interrupts  before the target is looked for: a batch that waits is not done
check_until_tool       before the loop goes on
continue_or_done       last: another round, or the end
"""

from sagents_app.engine.steps.approval import check_approval
from sagents_app.engine.steps.budget import check_max_runs
from sagents_app.engine.steps.ending import check_pause, check_until_tool, continue_or_done
from sagents_app.engine.steps.expansion import expand_tool_results
from sagents_app.engine.steps.model import call_model
from sagents_app.engine.steps.results import check_tool_interrupts, propagate_state
from sagents_app.engine.steps.tool_calls import execute_tools

__all__ = [
    "call_model",
    "check_approval",
    "check_max_runs",
    "check_pause",
    "check_tool_interrupts",
    "check_until_tool",
    "continue_or_done",
    "execute_tools",
    "expand_tool_results",
    "propagate_state",
]
