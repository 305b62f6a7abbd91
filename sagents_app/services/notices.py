"""Notices: what the rest of the host hears once a change is committed.

Signals for its code, a poke for open pages. Nobody who hears of it can undo it.
"""

from __future__ import annotations

from django.db import transaction
from django.dispatch import Signal

from sagents_app import signals
from sagents_app.models import Interrupt, Run
from sagents_app.services import live


def tell_opened(interrupt: Interrupt) -> None:
    """Tell that something waits for a person, after the commit."""
    _after_commit(signals.interrupt_opened, Interrupt, interrupt=interrupt)
    transaction.on_commit(live.announce_reviews)


def tell_decided(interrupt: Interrupt) -> None:
    """Tell that a request is settled, after the commit."""
    _after_commit(signals.interrupt_decided, Interrupt, interrupt=interrupt)
    transaction.on_commit(live.announce_reviews)


def tell_ended(run: Run) -> None:
    """Tell that a run has ended, after the commit."""
    _after_commit(signals.run_ended, Run, run=run)


def _after_commit(signal: Signal, sender: type, **what: object) -> None:
    if signal.has_listeners(sender):
        transaction.on_commit(lambda: signal.send_robust(sender=sender, **what))
