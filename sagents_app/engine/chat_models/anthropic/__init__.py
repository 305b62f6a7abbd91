"""Anthropic's Messages API."""

from sagents_app.engine.chat_models.anthropic.model import AnthropicChat
from sagents_app.engine.chat_models.anthropic.options import MessagesOptions

__all__ = ["AnthropicChat", "MessagesOptions"]
