"""Google's Gemini API."""

from sagents_app.engine.chat_models.google.model import GoogleChat
from sagents_app.engine.chat_models.google.options import GeminiOptions

__all__ = ["GeminiOptions", "GoogleChat"]
