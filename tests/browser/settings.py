"""The project's settings with agents that do what a test wants to see."""

from project.settings import *  # noqa: F403
from project.settings import INSTALLED_APPS as PROJECT_APPS

INSTALLED_APPS = [*PROJECT_APPS, "tests.browser.playground"]
