"""The admin: the review queue, and read-only views of what agents do. Doors, no business."""

from sagents_app.admin import conversations, interrupts, runs

__all__ = ["conversations", "interrupts", "runs"]
