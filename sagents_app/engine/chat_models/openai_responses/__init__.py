"""OpenAI's Responses API."""

from sagents_app.engine.chat_models.openai_responses.model import OpenAIResponses
from sagents_app.engine.chat_models.openai_responses.options import ResponsesOptions

__all__ = ["OpenAIResponses", "ResponsesOptions"]
