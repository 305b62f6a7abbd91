"""The project with a crew of agents whose work a test can hold up, and with short patience."""

from project.settings import *  # noqa: F403  # settings of settings
from project.settings import INSTALLED_APPS

INSTALLED_APPS = [*INSTALLED_APPS, "tests.faults.crew"]
SAGENTS_LEASE_SECONDS = 2.0
SAGENTS_HEARTBEAT_SECONDS = 0.5
SAGENTS_SWEEP_SECONDS = 0.5
SAGENTS_CANCEL_GRACE_SECONDS = 2.0
