"""Hands events to observers; one that raises is reported to the others once and not called again."""

from __future__ import annotations

from collections.abc import Sequence

from envkit.backends.loop.events import Event, Fault, Observer
from envkit.failure import capture

__all__ = ["Watch"]


class Watch:
    def __init__(self, observers: Sequence[Observer]) -> None:
        self._observers = list(observers)

    def emit(self, event: Event) -> None:
        """Calls every observer, in order."""
        for observer in list(self._observers):
            try:
                observer(event)
            except Exception as error:  # noqa: BLE001 a capture point: watching never changes a run
                self._observers.remove(observer)
                self.emit(Fault(event.at_s, event.step, "observer", capture(error), "it is not called again"))
