"""Threads that run regions. Regions are many and short, so one thread does them one after the other, and the loop has no part
in it; another thread is begun only when those there are do not come to what waits."""

from __future__ import annotations

import asyncio
import queue
import threading
from typing import Callable, Generic, TypeVar

T = TypeVar("T")

# What waits so long while no thread takes anything gets a thread more.
_STUCK = 0.005


class RegionThreads(Generic[T]):
    """At most so many at once; `work` is called with each item and does not raise."""

    def __init__(self, most: int, work: Callable[[T], None]) -> None:
        self._most = most
        self._work = work
        self._waiting: queue.SimpleQueue[T] = queue.SimpleQueue()
        self._loop = asyncio.get_running_loop()
        self._threads = 0
        # How many were taken; written by the threads, and read as a sign that they go on.
        self._taken = 0
        self._watching = False

    @property
    def is_crowded(self) -> bool:
        """Does anything wait?"""
        return not self._waiting.empty()

    def submit(self, item: T) -> None:
        """From the loop's thread."""
        self._waiting.put(item)
        if self._threads == 0:
            self._begin()
        elif not self._watching:
            self._watching = True
            self._loop.call_later(_STUCK, self._watch, self._taken)

    def _watch(self, before: int) -> None:
        self._watching = False
        if self._waiting.empty():
            return
        if self._taken == before and self._threads < self._most:
            self._begin()
        self._watching = True
        self._loop.call_later(_STUCK, self._watch, self._taken)

    def _begin(self) -> None:
        self._threads += 1
        threading.Thread(target=self._run, name=f"lope-region-{self._threads}", daemon=True).start()

    def _run(self) -> None:
        while True:
            item = self._waiting.get()
            self._taken += 1
            self._work(item)
