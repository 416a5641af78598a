"""Doing actions: arguments decoded by hint, coroutines as tasks, plain functions in threads, results and failures encoded."""

from __future__ import annotations

import asyncio
import contextvars
import ctypes
import inspect
import os
import threading
from concurrent.futures import ThreadPoolExecutor
from types import TracebackType
from typing import Any, Callable, Optional, Protocol

from ..attempt import Attempt, _current, Stopped
from ..decorators import REGION, Action
from ..depends import Provision
from ..region import run_region
from ..region.heap import Forgotten
from ..values import ValueProblem, call_arguments, encode, encode_failure, to_msgpack
from ..values.arguments import PlainParameters
from ..values.wire import packer, unpacker
from . import protocol
from .capture import Output, output
from .children import Children, OwnedThreads, owner
from .regions import RegionThreads

_unpack = unpacker()
_PACKAGE = os.path.dirname(os.path.dirname(os.path.abspath(__file__)))


class _Own(threading.local):
    """What each thread has for itself."""

    def __init__(self) -> None:
        self.pack = packer()


_own = _Own()


class Limit(Exception):
    """More than Lope carries."""


class Post(Protocol):
    """Sends a message soon, or at once; from any thread."""

    def __call__(self, message: tuple[Any, ...], now: bool = False) -> None: ...


class Served:
    """An action, with what it takes to call it made ready."""

    def __init__(self, action: Action[..., Any]) -> None:
        self.action = action
        self.function = action.function
        self.needs = action.provided
        self.is_async = action.is_async
        self._plain = PlainParameters(action.function, action.signature)

    def arguments(self, packed: bytes) -> tuple[tuple[Any, ...], dict[str, Any]]:
        given = _unpack(packed)
        found = self._plain.decoded(given)
        if found is not None:
            return (), found
        args, kwargs = call_arguments(self.action, given)
        try:
            self.action.signature.bind(*args, **kwargs)
        except TypeError as error:
            name, signature = self.action.name, self.action.signature
            raise TypeError(
                f"{name}(): {error}: the run calls it in another way than {name}{signature} allows. Was it edited since? "
                "Mend it so that both ways work, then go on where the run failed: lope runs retry RUN"
            ) from None
        return args, kwargs


class Job:
    """An attempt under way."""

    __slots__ = ("attempt", "cancelled", "id", "lock", "output", "started", "task", "thread")

    def __init__(self, id: int, attempt: Attempt, out: Output) -> None:
        self.id = id
        self.attempt = attempt
        self.output = out
        self.task: Optional[asyncio.Task[None]] = None
        self.thread: Optional[int] = None
        self.lock = threading.Lock()
        self.started = False
        self.cancelled = False


class Serving:
    """The actions of this process and the attempts it has."""

    def __init__(self, actions: dict[str, Action[..., Any]], slots: int, post: Post) -> None:
        self.served = {name: Served(action) for name, action in actions.items()}
        self.jobs: dict[int, Job] = {}
        self.payload_max = protocol.PAYLOAD_MAX
        self.on_idle: Callable[[], None] = lambda: None
        # No more attempts come; whoever waits for the end of those there are is told by `on_idle`.
        self.draining = False
        self._post = post
        # Results are packed in the loop's thread alone.
        self._pack = packer()
        self._regions: RegionThreads[tuple[Job, bytes]] = RegionThreads(slots, self._region)
        self._threads = OwnedThreads(max_workers=slots, thread_name_prefix="lope-action")
        # Threads of their own: what ends an attempt does not wait for those at work.
        self._enders = ThreadPoolExecutor(max_workers=4, thread_name_prefix="lope-end")
        self._loop = asyncio.get_running_loop()
        # Whatever asks for a thread by asyncio.to_thread gets one of ours.
        self._loop.set_default_executor(self._threads)

    def begin(self, words: list[Any]) -> None:
        _, id, name, packed, run, execution, number, workflow, step, key, timeout = words[:11]
        trace = words[11] if len(words) > 11 else None
        attempt = Attempt(name, run, execution, number, workflow, step, key, timeout, self._alive(id), trace)
        job = Job(id, attempt, Output(id, self._post))
        self.jobs[id] = job
        if name.startswith(REGION):
            self._regions.submit((job, packed))
            return
        job.task = self._loop.create_task(self._attempt(job, packed))

    def _alive(self, id: int) -> Callable[[], None]:
        return lambda: self._post(("alive", id))

    def cancel(self, id: int) -> None:
        job = self.jobs.get(id)
        if job is None:
            return
        job.cancelled = True
        with job.lock:
            if job.thread is not None:
                # It is heard when the thread next runs Python code.
                _interrupt(job.thread, ctypes.py_object(Stopped))
                return
        # A task that is cancelled before its first step would never come to its answer; it looks by itself.
        if job.started and job.task is not None:
            job.task.cancel()

    def cancel_all(self) -> None:
        for id in list(self.jobs):
            self.cancel(id)

    async def _attempt(self, job: Job, packed: bytes) -> None:
        job.started = True
        _current.set(job.attempt)
        output.set(job.output)
        children = Children()
        owner.set(children)
        try:
            if job.cancelled:
                raise asyncio.CancelledError()
            served = self._served(job)
            args, kwargs = served.arguments(packed)
            if served.needs:
                async with Provision() as provision:
                    result = await self._call(job, served, args, {**kwargs, **await provision.arguments(served.needs)})
            elif served.is_async:
                result = await served.function(*args, **kwargs)
            else:
                result = await self._call(job, served, args, kwargs)
            answer: tuple[Any, ...] = ("done", job.id, self._packed(result, self._pack))
        except BaseException as error:
            answer = ("failed", job.id, self._failure(job, error))
        if children.has_begun:
            await self._end(job, children)
        job.output.finish()
        self._post(answer)
        del self.jobs[job.id]
        if not self.jobs:
            self.on_idle()

    def _served(self, job: Job) -> Served:
        served = self.served.get(job.attempt.action)
        if served is None:
            raise LookupError(f"this worker does not serve the action '{job.attempt.action}'")
        return served

    def _region(self, work: tuple[Job, bytes]) -> None:
        """All of a region's attempt, in a thread for regions."""
        job, packed = work
        children = Children()
        answer: tuple[Any, ...]
        try:
            result = contextvars.Context().run(self._run_region, job, packed, children)
            answer = ("done", job.id, self._packed(result, _own.pack))
        except Forgotten:
            # It is given again, with its heap.
            answer = ("forgotten", job.id)
        except BaseException as error:
            answer = ("failed", job.id, self._failure(job, error))
        if children.has_begun:
            self._tell_left(job, children.end())
        job.output.finish()
        self._post(answer, now=not self._regions.is_crowded)
        del self.jobs[job.id]
        if self.draining and not self.jobs:
            self._loop.call_soon_threadsafe(self.on_idle)

    def _run_region(self, job: Job, packed: bytes, children: Children) -> Any:
        _current.set(job.attempt)
        output.set(job.output)
        owner.set(children)
        self._served(job)
        given = _unpack(packed)
        thread = threading.get_ident()
        try:
            job.thread = thread
            if job.cancelled:
                raise Stopped()
            return run_region(given["request"], given.get("heap"))
        finally:
            _leave(job, thread)

    async def _end(self, job: Job, children: Children) -> None:
        """What the action started ends before its answer; a cancel does not end the wait for that."""
        ending = self._loop.run_in_executor(self._enders, children.end)
        while not ending.done():
            try:
                await asyncio.wait([ending])
            except asyncio.CancelledError:
                continue
        self._tell_left(job, ending.result())

    def _tell_left(self, job: Job, left: list[int]) -> None:
        if left:
            job.output.write("err", f"processes that this action started cannot be ended: {', '.join(map(str, left))}\n")

    async def _call(self, job: Job, served: Served, args: tuple[Any, ...], kwargs: dict[str, Any]) -> Any:
        if served.is_async:
            return await served.function(*args, **kwargs)
        context = contextvars.copy_context()

        def work() -> Any:
            job.thread = threading.get_ident()
            try:
                if job.cancelled:
                    raise Stopped()
                return context.run(served.function, *args, **kwargs)
            except StopIteration as error:
                # No future holds one, and no coroutine lets one out.
                raise RuntimeError("the action raised StopIteration") from error
            finally:
                with job.lock:
                    job.thread = None

        future = self._loop.run_in_executor(self._threads, work)
        while True:
            try:
                # The slot is busy until the thread is done, so a cancel does not end the wait for it.
                result = await asyncio.shield(future)
                break
            except asyncio.CancelledError:
                if future.done() or future.cancel():
                    raise
        if inspect.isawaitable(result):
            return await result
        return result

    def _packed(self, result: Any, pack: Callable[[Any], bytes]) -> bytes:
        encoded = encode(result, "result")
        try:
            packed = pack(encoded)
        except (ValueError, TypeError, OverflowError, UnicodeError) as error:
            raise ValueProblem(f"the result cannot be encoded: {error}") from None
        if len(packed) > self.payload_max:
            raise Limit(f"its result has {len(packed)} bytes, more than {self.payload_max} are allowed")
        return packed

    def _failure(self, job: Job, error: BaseException) -> bytes:
        if isinstance(error, (asyncio.CancelledError, Stopped)) and job.cancelled:
            return to_msgpack({"type": "Cancelled", "message": "the action was cancelled"})
        found: dict[str, Any]
        try:
            error.__traceback__ = _users(error.__traceback__)
            found = encode_failure(error)
        except BaseException as trouble:
            message = f"it failed, and its exception cannot be told: {type(trouble).__name__}"
            found = {"type": type(error).__name__, "message": message, "bases": ["Exception", "BaseException"]}
        if len(found["message"]) > protocol.MESSAGE_MAX:
            found["message"] = found["message"][: protocol.MESSAGE_MAX] + "…"
        if isinstance(error, Limit):
            found = {"type": "Limit", "message": str(error)}
        job.output.write("err", found.get("traceback") or f"{found['type']}: {found['message']}\n")
        return _bounded(found)


def _interrupt(thread: int, error: Any) -> None:
    ctypes.pythonapi.PyThreadState_SetAsyncExc(ctypes.c_ulong(thread), error)


def _leave(job: Job, thread: int) -> None:
    """The thread does something else from now on: nothing that was meant for the job reaches it any more."""
    while True:
        try:
            with job.lock:
                job.thread = None
            if job.cancelled:
                _interrupt(thread, None)
            return
        except Stopped:
            continue


def _bounded(found: dict[str, Any]) -> bytes:
    for leave_out in ((), ("detail",), ("detail", "traceback")):
        kept = {name: each for name, each in found.items() if name not in leave_out}
        try:
            packed = to_msgpack(kept)
        except (ValueError, TypeError, OverflowError, UnicodeError):
            continue
        if len(packed) <= protocol.FAILURE_MAX:
            return packed
    plain = str(found["message"]).encode("utf-8", "backslashreplace").decode()
    return to_msgpack({"type": str(found["type"]), "message": plain})


def _users(traceback: Optional[TracebackType]) -> Optional[TracebackType]:
    """A traceback without the frames of this package at its beginning."""
    found = traceback
    while found is not None and found.tb_frame.f_code.co_filename.startswith(_PACKAGE):
        found = found.tb_next
    return found or traceback
