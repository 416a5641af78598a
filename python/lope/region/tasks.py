"""Tasks: functions that run beside the code that started them, and what they wait for of each other.

The law runs a task as an element of the workflow's open loop and tells by a region how it ended. Whoever waits, for a
task or a lock, waits for a signal of the law's that a later region sends.
"""

from __future__ import annotations

import asyncio
import builtins
import collections
import functools
import types
from typing import TYPE_CHECKING, Any, Callable, Iterable, Optional

from ..values.encode import Encoded
from .awaiting import Awaitable, Gather, apart, check_call, check_gathered
from .heap import running

if TYPE_CHECKING:
    from .running import Region


class Turns:
    """What a region asks of the law about tasks."""

    def __init__(self) -> None:
        self.start: list[dict[str, Any]] = []
        self.wake: list[list[Any]] = []
        self.cancel: list[int] = []

    @property
    def are_asked(self) -> bool:
        return bool(self.start or self.wake or self.cancel)


def _name(number: int) -> str:
    return f"\0w{number}"


class Task(Awaitable):
    """As `asyncio.Task`, as far as a workflow needs one; whoever asks what it is hears that it is one."""

    _asyncio_future_blocking = False
    __class__ = property(lambda self: asyncio.Task)  # pyright: ignore[reportIncompatibleMethodOverride]

    def __init__(self, number: int, lane: int, name: str) -> None:
        self._number = number
        self._lane = lane
        self._name = name
        self._state = "pending"
        self._value: Any = None
        self._error: Optional[BaseException] = None
        # The call, until it has begun.
        self._call: Any = None
        self._waiters: list[int] = []
        # Those that wait for its end and not for what came of it.
        self._watchers: list[int] = []
        self._callbacks: list[Callable[["Task"], Any]] = []
        self._groups: list[Any] = []

    @classmethod
    def started_by(cls, region: "Region", call: Any, name: Any) -> "Task":
        check_call(call)
        heap = region.heap
        lane, heap.started = heap.started, heap.started + 1
        number = heap.number()
        made = cls(number, lane, str(name) if name is not None else f"Task-{lane + 2}")
        heap.put("tasks", made, number)
        made._call = call
        region.new_tasks.append(made)
        return made

    # What asyncio's have.

    def done(self) -> bool:
        return self._state in ("done", "failed", "cancelled")

    def cancelled(self) -> bool:
        return self._state == "cancelled"

    def result(self) -> Any:
        if self._state == "failed":
            assert self._error is not None
            raise self._error
        self._ended()
        return self._value

    def exception(self) -> Optional[BaseException]:
        if self._state != "failed":
            self._ended()
        return self._error

    def _ended(self) -> None:
        if self._state == "cancelled":
            raise asyncio.CancelledError()
        if not self.done():
            raise asyncio.InvalidStateError("Result is not set.")

    def get_name(self) -> str:
        return self._name

    def set_name(self, value: object) -> None:
        self._name = str(value)

    def add_done_callback(self, fn: Callable[["Task"], Any], *, context: Any = None) -> None:
        if self.done():
            # On the loop's next turn, which comes when the code waits.
            running.get().later.append(functools.partial(fn, self))
        else:
            self._callbacks.append(fn)

    def remove_done_callback(self, fn: Callable[["Task"], Any]) -> int:
        count = self._callbacks.count(fn)
        self._callbacks = [each for each in self._callbacks if each != fn]
        return count

    def cancel(self, msg: Any = None) -> bool:
        if self.done() or self._state in ("cancelling", "unbegun"):
            return not self.done()
        if self._call is not None:
            # It never begins.
            self._state, self._call = "unbegun", None
            return True
        self._state = "cancelling"
        running.get().turns.cancel.append(self._lane)
        return True

    # How it goes on.

    def start(self, region: "Region") -> dict[str, Any]:
        """What the law is to do. A call that cannot be made fails where it would have begun."""
        region.heap.touch(self)
        found: dict[str, Any] = {"flow": "next", "v": None}
        call, self._call = self._call, None
        if self._state != "unbegun":
            try:
                return {"task": self._number, "call": apart(call, region)}
            except Exception as error:
                found = {"flow": "raise", "v": Encoded(region.raised(error))}
        else:
            found["v"] = region.heap.put("kept", None)
        return {"task": self._number, "call": {"kind": "settled", "found": found}}

    def watched(self, region: "Region") -> Optional[str]:
        """What tells that it has ended, if it has not."""
        if self.done():
            return None
        self._watchers.append(region.heap.number())
        return _name(self._watchers[-1])

    def begin(self, region: "Region") -> dict[str, Any]:
        region.heap.touch(self)
        if self.done():
            return {"kind": "settled", "found": self.outcome(region)}
        number = region.heap.number()
        self._waiters.append(number)
        return {"kind": "task", "name": _name(number), "task": self._number}

    def outcome(self, region: "Region") -> dict[str, Any]:
        """As a step of the law takes it."""
        if self._state == "done":
            return {"flow": "next", "v": region.heap.put("kept", self._value)}
        error = asyncio.CancelledError() if self._state == "cancelled" else self._error
        assert error is not None
        return {"flow": "raise", "v": Encoded(region.raised(error))}

    def end(self, region: "Region", value: Any, failed: bool) -> None:
        if self._state == "unbegun":
            return self.gone(region)
        self._state = "failed" if failed else "done"
        self._value, self._error = (None, value) if failed else (value, None)
        self._tell(region)

    def gone(self, region: "Region") -> None:
        """It was cancelled, and has ended."""
        if not self.done():
            self._state = "cancelled"
            self._tell(region)

    def _tell(self, region: "Region") -> None:
        region.heap.touch(self)
        waiters, self._waiters = self._waiters, []
        for number in waiters:
            region.turns.wake.append([_name(number), self.outcome(region)])
        region.turns.wake += [[_name(number), None] for number in self._watchers]
        self._watchers = []
        callbacks, self._callbacks = self._callbacks, []
        for each in callbacks:
            each(self)
        groups, self._groups = self._groups, []
        for group in groups:
            group.ended(region, self)


class Gathered(Gather):
    """As what `asyncio.gather` returns: its tasks have been started."""

    def __init__(self, region: "Region", items: Iterable[Any], collect: bool) -> None:
        known: dict[int, Any] = {}
        super().__init__([], collect)
        for each in items:
            check_gathered(each)
            if id(each) not in known:
                known[id(each)] = each if isinstance(each, (Task, Gather)) else Task.started_by(region, each, None)
            self.items.append(known[id(each)])

    def done(self) -> bool:
        failed = (each.cancelled() or each.exception() is not None for each in self.items if each.done())
        return all(each.done() for each in self.items) or (not self.collect and any(failed))

    def cancelled(self) -> bool:
        return self.done() and not self.collect and any(each.cancelled() for each in self.items)

    def result(self) -> list[Any]:
        if not self.done():
            raise asyncio.InvalidStateError("Result is not set.")
        return [_outcome(each) if self.collect else each.result() for each in self.items]

    def exception(self) -> Optional[BaseException]:
        if not self.done():
            raise asyncio.InvalidStateError("Exception is not set.")
        failed = (each.exception() for each in self.items if each.done())
        return None if self.collect else next((each for each in failed if each is not None), None)

    def cancel(self, msg: Any = None) -> bool:
        return any([each.cancel() for each in self.items])


def _outcome(task: Any) -> Any:
    if task.cancelled():
        return asyncio.CancelledError("")
    return task.result() if task.exception() is None else task.exception()


# Where tasks are kept that wait to begin.
_UNBEGUN = -1


def start_tasks(region: "Region", holds: bool) -> None:
    """New tasks begin when the code that made them waits, or is over: not while it looks for a handler of an exception."""
    kept = region.heap.kept
    if not region.new_tasks and _UNBEGUN not in kept:
        return
    tasks = [*(region.heap.take("kept", _UNBEGUN) if _UNBEGUN in kept else ()), *region.new_tasks]
    region.new_tasks = []
    if holds:
        region.heap.put("kept", tasks, _UNBEGUN)
    else:
        region.turns.start += [each.start(region) for each in tasks]


class Group(Awaitable):
    """As `asyncio.TaskGroup`; awaited, it waits for the next of its tasks to end."""

    def __init__(self) -> None:
        self.open: list[Task] = []
        self.errors: list[BaseException] = []
        self.watcher: Optional[int] = None
        self.waiter: Optional[int] = None
        self.aborting = False
        self.over = False

    def create_task(self, coro: Any, *, name: Any = None, context: Any = None) -> Task:
        if self.over:
            raise RuntimeError(f"TaskGroup {self!r} is finished")
        if self.aborting:
            raise RuntimeError(f"TaskGroup {self!r} is shutting down")
        made = Task.started_by(running.get(), coro, name)
        made._groups.append(self)
        self.open.append(made)
        return made

    def watch(self, region: "Region") -> str:
        region.heap.touch(self)
        self.watcher = region.heap.number()
        return _name(self.watcher)

    def begin(self, region: "Region") -> dict[str, Any]:
        region.heap.touch(self)
        self.waiter = region.heap.number()
        return {"kind": "turn", "name": _name(self.waiter)}

    def ended(self, region: "Region", task: Task) -> None:
        region.heap.touch(self)
        self.open.remove(task)
        if task._error is not None:
            self.errors.append(task._error)
            self.abort()
            if self.watcher is not None:
                region.turns.wake.append([_name(self.watcher), None])
                self.watcher = None
        if self.waiter is not None:
            region.turns.wake.append([_name(self.waiter), {"flow": "next", "v": region.heap.put("kept", None)}])
            self.waiter = None

    def abort(self) -> None:
        self.aborting = True
        for each in self.open:
            each.cancel()

    def body_failed(self, region: "Region", error: BaseException) -> None:
        region.heap.touch(self)
        if not _is_abort(error):
            self.errors.append(error)
        self.abort()

    def finish(self, error: Optional[BaseException]) -> None:
        self.over = True
        if self.errors:
            kind: Any = vars(builtins)["BaseExceptionGroup"]
            raise kind("unhandled errors in a TaskGroup", self.errors)
        if error is not None and not _is_abort(error):
            raise error


# The failure that ends the block of a group one of whose tasks has failed.
ABORTED = "lope:group-aborted"


def _is_abort(error: BaseException) -> bool:
    return getattr(error, "kind", None) == ABORTED


class Completion(Awaitable):
    """The next task of several that ends."""

    def __init__(self, several: "Several") -> None:
        self.several = several

    def begin(self, region: "Region") -> dict[str, Any]:
        region.heap.touch(self)
        if self.several.ended_ones:
            return self.several.ended_ones.pop(0).begin(region)
        number = region.heap.number()
        self.several.waiters.append(number)
        return {"kind": "turn", "name": _name(number)}


class Several:
    def __init__(self) -> None:
        self.ended_ones: list[Task] = []
        self.waiters: list[int] = []

    def ended(self, region: "Region", task: Task) -> None:
        region.heap.touch(self)
        if self.waiters:
            region.turns.wake.append([_name(self.waiters.pop(0)), task.outcome(region)])
        else:
            self.ended_ones.append(task)


def as_completed(region: "Region", given: Iterable[Any], timeout: Any) -> list[Completion]:
    if timeout is not None:
        raise NotImplementedError("as_completed with a timeout: use asyncio.timeout around the loop")
    several = Several()
    tasks = [each if isinstance(each, Task) else Task.started_by(region, each, None) for each in list(given)]
    for each in tasks:
        if each.done():
            several.ended_ones.append(each)
        else:
            each._groups.append(several)
    return [Completion(several) for _ in tasks]


class Waiter:
    """Stands among those that wait for a lock of asyncio's, which tells it when it is its turn."""

    def __init__(self, number: int) -> None:
        self.number = number
        self.state = "waiting"

    def done(self) -> bool:
        return self.state != "waiting"

    def cancelled(self) -> bool:
        return self.state == "gone"

    def set_result(self, value: Any) -> None:
        self.state = "told"
        region = running.get()
        region.heap.touch(self)
        region.turns.wake.append([_name(self.number), None])

    def resume(self, owner: Any) -> bool:
        inside: Any = owner
        if self in owner._waiters:
            owner._waiters.remove(self)
        if isinstance(owner, asyncio.Lock):
            inside._locked = True
        elif isinstance(owner, asyncio.Semaphore) and not _hands_over():
            inside._value -= 1
        return True

    def give_up(self, owner: Any) -> None:
        """It was cancelled meanwhile; what it was given goes to the next."""
        inside: Any = owner
        told, self.state = self.state == "told", "gone"
        if self in owner._waiters:
            owner._waiters.remove(self)
        if isinstance(owner, asyncio.Lock):
            if not inside._locked:
                inside._wake_up_first()
        elif isinstance(owner, asyncio.Semaphore) and told:
            if _hands_over():
                inside._value += 1
            inside._wake_up_next()


@functools.lru_cache(maxsize=None)
def _hands_over() -> bool:
    """Does a semaphore take its place back for whoever it wakes? Some versions leave that to the one that wakes up."""
    probe: Any = asyncio.Semaphore(1)
    probe._waiters = collections.deque([types.SimpleNamespace(done=lambda: False, set_result=lambda value: None)])
    probe._wake_up_next()
    return bool(probe._value == 0)


def acquire(owner: Any, region: "Region") -> dict[str, Any]:
    region.heap.touch(owner)
    if _take(owner):
        return {"kind": "settled", "found": {"flow": "next", "v": region.heap.put("kept", True)}}
    if owner._waiters is None:
        owner._waiters = collections.deque()
    waiter = Waiter(region.heap.number())
    owner._waiters.append(waiter)
    kept = region.heap.put("kept", (owner, waiter))
    return {"kind": "lock", "name": _name(waiter.number), "kept": kept}


def _take(owner: Any) -> bool:
    if isinstance(owner, asyncio.Event):
        return owner.is_set()
    inside: Any = owner
    waits = any(not each.cancelled() for each in inside._waiters or ())
    if isinstance(owner, asyncio.Lock):
        if inside._locked or waits:
            return False
        inside._locked = True
        return True
    if owner._value <= 0 or waits:
        return False
    owner._value -= 1
    return True
