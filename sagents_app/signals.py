"""Signals for hosts. Receivers run after the commit; what they raise is logged."""

from __future__ import annotations

from django.dispatch import Signal

interrupt_opened = Signal()
"""Something waits for a person: `interrupt`, its row."""
interrupt_decided = Signal()
"""A person, or time, settled it: `interrupt`, its row."""
run_ended = Signal()
"""A run ended: `run`, its row."""
