"""Life signs from a thread of its own: the runner hears them also while an action blocks the loop, and hears that it does."""

from __future__ import annotations

import asyncio
import sys
import threading
import time
import traceback
from typing import Optional

from .serving import Job, Serving
from .wire import Wire

# The loop counts as blocked from this long on.
BLOCKED_FROM = 1.0


class Beat:
    def __init__(self, wire: Wire, serving: Serving, interval: float) -> None:
        self._wire = wire
        self._serving = serving
        self._interval = interval
        self._loop = asyncio.get_running_loop()
        self._loop_thread = threading.get_ident()
        self._ticked = time.monotonic()
        self._told = False
        self._stop = threading.Event()
        self._tick()
        threading.Thread(target=self._run, name="lope-beat", daemon=True).start()

    def stop(self) -> None:
        self._stop.set()

    def _tick(self) -> None:
        self._ticked = time.monotonic()
        if not self._stop.is_set():
            self._loop.call_later(min(self._interval, 0.5), self._tick)

    def _run(self) -> None:
        while not self._stop.wait(self._interval):
            blocked = time.monotonic() - self._ticked - min(self._interval, 0.5)
            if blocked < BLOCKED_FROM:
                self._told = False
                self._wire.post(("beat", 0, None))
                continue
            job = self._culprit()
            if not self._told:
                self._told = True
                self._accuse(job, blocked)
            self._wire.post(("beat", int(blocked * 1000), job.attempt.action if job else None))
            # The loop cannot do it.
            self._wire.flush()

    def _culprit(self) -> Optional[Job]:
        try:
            task = asyncio.current_task(self._loop)
        except RuntimeError:
            return None
        return next((job for job in list(self._serving.jobs.values()) if job.task is task), None)

    def _accuse(self, job: Optional[Job], blocked: float) -> None:
        """Says into the attempt's log where the loop is stuck."""
        frame = sys._current_frames().get(self._loop_thread)
        where = "".join(traceback.format_stack(frame)[-5:]) if frame is not None else ""
        text = (
            f"this action has blocked its worker's event loop for {blocked:.1f} s; nothing else runs in this process "
            f"meanwhile. Await what it waits for, or make it a plain 'def', which runs in a thread.\n{where}"
        )
        if job is not None:
            self._wire.post(("log", job.id, "err", text))
