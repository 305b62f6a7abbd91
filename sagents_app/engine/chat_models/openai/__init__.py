"""OpenAI's chat completions, which many servers speak."""

from sagents_app.engine.chat_models.openai.model import OpenAIChat
from sagents_app.engine.chat_models.openai.options import ChatOptions

__all__ = ["ChatOptions", "OpenAIChat"]
