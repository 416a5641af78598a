"""Runs a region: its source becomes a function whose variables are those of the frame, and what it did is said to the law."""

from __future__ import annotations

import __future__
import asyncio
import functools
import inspect
import os
import re
import sys
import types
from typing import Any, Callable, Optional, Sequence, cast

from .. import client
from ..attempt import Stopped
from ..decorators import Workflow, actions, workflows
from ..values import decode
from ..values.arguments import PlainParameters, call_arguments
from ..values.decode import decode_result
from ..values.encode import Encoded, encode
from ..values.failures import decode_failure, encode_failure
from ..values.names import find_module
from .awaiting import DEPTH, UP, Gather, WaitFor, _span, check_gathered, described
from .code import compiled
from .cursors import BatchedCursor, EnumerateCursor, PairwiseCursor, ZipCursor, made, over, rest
from .heap import CURRENT, Heap, Unkept, found_class, load, running, scopes
from .made import left, merged, raise_at
from .named import KNOWN, title, watch_of
from .tasks import Gathered, Group, Task, Turns, as_completed, start_tasks
from .tracking import Home

# The entry of a frame that holds what its function returned.
RETURNED = "\0returned"
ROOT = 1
_PACKAGE = os.path.dirname(os.path.dirname(os.path.abspath(__file__)))
_UNBOUND = object()
_FOREVER = 100 * 365 * 86_400


def run_region(request: dict[str, Any], given: Optional[dict[str, Any]]) -> Encoded:
    """What a region led to: `flow` says how it was left, `v` with what, `heap` what it changed, `tasks` whom it started,
    woke and cancelled."""
    module = find_module(request["module"])
    KNOWN.learn(request["module"], module)
    scope = _globals(module, request)
    token = scopes.set({request["module"]: scope})
    try:
        region = Region(request, load(given))
        return _run(region, module, scope)
    finally:
        scopes.reset(token)


def _run(region: "Region", module: Any, scope: dict[str, Any]) -> Encoded:
    request = region.request
    flow, value = "next", None
    fatal: Optional[BaseException] = None
    token, working = running.set(region), client.working.set(True)
    watch = None
    try:
        function = region.function(module, scope)
        watch = watch_of(module, region.names, region.heap.named)
        handled = region.being_handled()
        found = function(CURRENT) if handled is None else _while_handling(handled, function)
        flow, value = found or (flow, value)
        for each in region.later:
            each()
        if flow == "return" and request.get("root"):
            value = Encoded(encode(value, "result"))
    except (KeyboardInterrupt, Stopped):
        raise
    except BaseException as error:
        told = region.told(error)
        if request.get("fatal"):
            fatal = told
        else:
            flow, value = "raise", Encoded(region.raised(told))
    finally:
        running.reset(token)
        client.working.reset(working)
    if watch is not None and (changed := watch.changed()) is not None:
        line = request.get("line", 0)
        refusal = TypeError(f"'{title(changed)}' belongs to the module and was changed before line {line}: copy it first")
        raise_at(getattr(module, "__file__", None) or request["module"], line, refusal)
    if fatal is not None:
        # Nobody catches it, so it is the region that fails, and that is tried again.
        raise fatal
    start_tasks(region, flow == "raise" and "leaves" not in request and "frame" in request)
    left: dict[str, Any] = {"flow": flow, "v": encode(value, "result")}
    if flow != "return" or not request.get("root"):
        # After the end of the run nobody asks for its variables.
        left["heap"] = region.heap.write(int(request.get("line", 0)))
    if region.turns.are_asked:
        left["tasks"] = {word: encode(each) for word, each in vars(region.turns).items() if each}
    return Encoded(left)


class Region:
    """What the code of a region sees of the run, under the name `_lope`."""

    def __init__(self, request: dict[str, Any], heap: Heap) -> None:
        self.request = request
        self.heap = heap
        if "input" in request:
            heap.frame(_arguments(workflows[request["workflow"]], request["input"]))
        self.frame = int(request.get("frame") or ROOT)
        self.f = heap.frames[self.frame]
        # How many functions wait for that of the region, each for the next.
        self.depth = int(self.f.get(DEPTH, 0))
        self.unkept: dict[str, Unkept] = {}
        # What its code may take from the module.
        self.names: frozenset[str] = frozenset()
        self.turns = Turns()
        self.new_tasks: list[Task] = []
        # What is called when the code is left.
        self.later: list[Callable[[], Any]] = []
        # The exception for which a handler is sought, with its number if it is on the heap.
        self.sought: Optional[tuple[Optional[int], BaseException]] = None
        if _has_awaited(request.get("given")):
            heap.awaited(self.f)
        heap.touch_frame(self.f)

    def function(self, module: Any, scope: dict[str, Any]) -> Any:
        request = self.request
        known = vars(module)
        file = known.get("__file__") or request["module"]
        postponed = known.get("annotations") is __future__.annotations
        code, self.names = compiled(request["code"], tuple(request["lines"]), file, postponed, request.get("name", "region"))
        cells: dict[str, int] = request.get("cells") or {}
        bound = tuple(self.cell(name, cells[name]) for name in code.co_freevars)
        return types.FunctionType(code, scope, "region", None, bound)

    # Variables.

    def has(self, name: str) -> bool:
        if name not in self.f:
            return False
        value = self.f[name]
        if isinstance(value, Unkept):
            self.unkept[name] = value
            return False
        return True

    def get(self, name: str) -> Any:
        self.heap.touch(self.f[name])
        return self.f[name]

    def cell(self, name: str, depth: int) -> types.CellType:
        """A variable that functions share, of this frame or of one around it."""
        frame = self.f
        for _ in range(depth):
            frame = frame[UP].frame
        self.heap.touch_frame(frame)
        found = frame.get(name, _UNBOUND)
        if isinstance(found, Unkept):
            self.unkept[name] = found
        if not isinstance(found, types.CellType):
            bound = found is not _UNBOUND and not isinstance(found, Unkept)
            found = frame[name] = types.CellType(found) if bound else types.CellType()
        self.heap.touch(found)
        return found

    def home(self, key: str) -> Home:
        return Home(self.f, key)

    # What a loop with awaits in it goes over.
    iterate = staticmethod(over)
    iterate_made = staticmethod(made)
    rest = staticmethod(rest)
    merged = staticmethod(merged)
    enumerate = EnumerateCursor
    zip = ZipCursor
    pairwise = PairwiseCursor
    batched = BatchedCursor

    def save(self, found: dict[str, Any], names: Sequence[str]) -> None:
        for name in names:
            if name in found:
                self.f[name] = found[name]
            elif name not in self.unkept:
                self.f.pop(name, None)

    def visible(self, found: dict[str, Any]) -> dict[str, Any]:
        """All variables of the function that are the user's, in their order where it is known."""
        workflow = workflows.get(self.request.get("workflow", ""))
        code = getattr(workflow.function, "__code__", None) if workflow is not None else None
        order = (*code.co_varnames, *code.co_cellvars) if code is not None else ()
        known = [name for name in (*order, *found) if name in found and not name.startswith("_lope")]
        return {name: found[name] for name in known}

    def class_of(self, name: str) -> type:
        return found_class(name)

    # How a region is left.

    def next(self, value: Any = None) -> tuple[str, Any]:
        number, error = self.sought or (None, None)
        if value == -1 and number is not None:
            # No handler takes it: it goes on as the object that it is.
            self.heap.put("failures", error, number)
        return "next", value

    def test(self, value: Any) -> tuple[str, Any]:
        return "next", bool(value)

    def leave(self, flow: str) -> tuple[str, Any]:
        return flow, None

    def returns(self, value: Any) -> tuple[str, Any]:
        """A function's value stays on the heap; the run's is encoded."""
        if self.request.get("root"):
            return "return", value
        self.f[RETURNED] = value
        return "return", None

    def result(self, answer: int) -> tuple[str, Any]:
        return "return", self.f.get(RETURNED)

    def awaits(self, value: Any) -> tuple[str, Any]:
        return "next", described(value, self)

    def gather(self, *items: Any, return_exceptions: bool = False) -> Gather:
        for each in items:
            check_gathered(each)
        return Gather(list(items), bool(return_exceptions))

    def gather_now(self, *items: Any, return_exceptions: bool = False) -> Gathered:
        return Gathered(self, items, bool(return_exceptions))

    # What `start` is in a workflow.
    def start_async(self, *args: Any, **kwargs: Any) -> Any:
        return client.start_async(*args, **kwargs)

    def wait_for(self, fut: Any, timeout: Any) -> WaitFor:
        return WaitFor(fut, timeout)

    # Tasks.

    def create_task(self, coro: Any, *, name: Any = None, **_: Any) -> Task:
        return Task.started_by(self, coro, name)

    def ensure_future(self, coro_or_future: Any, **_: Any) -> Any:
        if isinstance(coro_or_future, Task):
            return coro_or_future
        return Task.started_by(self, coro_or_future, None)

    def as_completed(self, fs: Any, *, timeout: Any = None) -> Any:
        return as_completed(self, fs, timeout)

    def TaskGroup(self) -> Group:
        return Group()

    def task_ended(self) -> tuple[str, Any]:
        """The region after a task: what it answered or failed with, and whom that wakes."""
        answer = self.request.get("given")
        task: Task = self.heap.take("tasks", self.request["task"])
        try:
            value = self._answer(answer)
        except BaseException as error:
            value, answer = error, ["e"]
        task.end(self, value, answer is not None and answer[0] == "e")
        return "next", None

    def task_gone(self) -> tuple[str, Any]:
        """The region after a task that was cancelled has ended."""
        if self.request["task"] in self.heap.tasks:
            self.heap.take("tasks", self.request["task"]).gone(self)
        return "next", None

    def await_gone(self) -> tuple[str, Any]:
        """Whoever waited for a task was cancelled, and so is the task, whose end is waited for."""
        task = self.heap.tasks.get(self.request["task"])
        if task is None:
            return "next", None
        self.heap.touch(task)
        task.cancel()
        return "next", task.watched(self)

    def group_failed(self, group: Any, error: BaseException) -> None:
        group.body_failed(self, error)

    def group_open(self, group: Any) -> bool:
        return bool(group.open)

    def group_raise(self, group: Any, error: Optional[BaseException]) -> None:
        group.finish(error)

    def group_watch(self, group: Any) -> tuple[str, Any]:
        """What wakes the group's block when one of its tasks fails."""
        return "next", group.watch(self)

    def span(self, seconds: Any) -> tuple[str, Any]:
        return "next", _span(_FOREVER if seconds is None else seconds)

    def aenter(self, manager: Any) -> Any:
        if isinstance(manager, (asyncio.Semaphore, asyncio.Lock)):
            return manager.acquire()
        kind = type(manager)
        if not hasattr(kind, "__aenter__") or not hasattr(kind, "__aexit__"):
            _enter(manager).send(None)
        return kind.__aenter__(manager)

    def entered(self, manager: Any, value: Any) -> Any:
        return None if isinstance(manager, (asyncio.Semaphore, asyncio.Lock)) else value

    def aexit(self, manager: Any, error: Optional[BaseException]) -> Any:
        if isinstance(manager, (asyncio.Semaphore, asyncio.Lock)):
            manager.release()
            return Gather([], False)
        kind = type(manager)
        if error is None:
            return kind.__aexit__(manager, None, None, None)
        return kind.__aexit__(manager, type(error), error, error.__traceback__)

    def waiter_gone(self) -> tuple[str, Any]:
        """Somebody was cancelled while it waited for a lock."""
        owner, waiter = self.heap.take("kept", self.request["given"])
        waiter.give_up(owner)
        return "next", None

    def told(self, error: BaseException) -> BaseException:
        """An exception as CPython has it, with the user's lines alone."""
        traceback = error.__traceback__
        error = _unbound(self._named(error), self.request)
        if self.sought is not None and self.sought[1] is not error:
            # What a handler catches could not be computed.
            error.__context__ = self.sought[1]
        error = left(error) if self.request.get("leaves") else error
        error.__traceback__ = _own(error.__traceback__ or traceback)
        return error

    def raised(self, error: BaseException) -> dict[str, Any]:
        """An exception as the law's failure; the object itself stays on the heap."""
        failure = encode_failure(error)
        number = self.heap.put("failures", error)
        failure["detail"] = {**failure.get("detail", {}), "heap": number, "frame": self.frame}
        return failure

    def unbound(self) -> BaseException:
        """The exception that is being handled, as CPython has it."""
        error = cast(BaseException, sys.exc_info()[1])
        return _unbound(error, self.request)

    def _named(self, error: BaseException) -> BaseException:
        """A variable that could not be kept is not just unbound."""
        names = re.findall(r"'(\w+)'", str(error)) if isinstance(error, NameError) else []
        lost = next((name for name in names if name in self.unkept), None)
        if lost is None:
            return error
        known = self.unkept[lost]
        await_ = f"cannot be kept across the await in line {known.line}"
        if lost.startswith("_lope_"):
            return TypeError(f"a {known.kind} {await_}: make a list of what is gone over, or await into a variable before")
        return TypeError(f"'{lost}' held a {known.kind}, which {await_}: use it up before, or make it in an @action")

    # What the law answered.

    def given(self) -> Any:
        return self._answer(self.request.get("given"))

    def _answer(self, answer: Any) -> Any:
        if answer is None:
            return None
        kind, value = answer[0], answer[1]
        if kind == "f":
            return self.heap.take("frames", value).get(RETURNED)
        if kind == "g":
            return self._gathered(value)
        if kind == "e":
            return self._exception(value)
        if kind == "s":
            default, hint = self.heap.take("kept", answer[2])
            return default if value == "\0default" else decode(value, hint, "signal")
        if kind == "k":
            return self.heap.take("kept", value)
        if kind == "h":
            return client.Handle(value, workflows[answer[2]])
        if kind == "q":
            owner, waiter = self.heap.take("kept", value)
            return waiter.resume(owner)
        if len(answer) == 2:
            return decode(value)
        return decode_result(value, (actions if kind == "v" else workflows)[answer[2]].function)

    def _gathered(self, answers: Sequence[Any]) -> list[Any]:
        found: list[Any] = []
        for each in answers:
            if each is not None and each[0] == "=":
                found.append(found[each[1]])
            else:
                value = self._answer(each)
                found.append(_as_gathered(value) if each is not None and each[0] == "e" else value)
        return found

    def failure(self) -> BaseException:
        failure = self.request["given"][1]
        error = self._exception(failure)
        _link(error, self.being_handled())
        self.sought = _number(failure), error
        return error

    def being_handled(self) -> Optional[BaseException]:
        """The exception in whose handler, or in a `finally` for which, the code stands."""
        if "flights" not in self.request and "handling" not in self.request:
            return None
        numbers = (number for number in self.request.get("flights") or () if number is not None)
        found = next(numbers, None)
        held = self.heap.failures.get(found) if found is not None else self.f.get(self.request.get("handling", ""))
        return held if isinstance(held, BaseException) else None

    def chained(self) -> tuple[str, Any]:
        """A failure goes on; what is being handled is its context."""
        error = self._exception(self.request["given"][1])
        _link(error, self.being_handled())
        return "raise", Encoded(self._kept(error)["failure"])

    def flies(self) -> tuple[str, Any]:
        """A failure that a `finally` is run for."""
        return "next", Encoded(self._kept(self._exception(self.request["given"][1])))

    def _kept(self, error: BaseException) -> dict[str, Any]:
        """The failure that was given, with its exception on the heap from now on."""
        failure = self.request["given"][1]
        number = self.heap.put("failures", error, _number(failure) or 0)
        failure = failure if failure["type"] == type(error).__name__ or type(error) is not RuntimeError else encode_failure(error)
        detail = failure.get("detail")
        detail = detail if isinstance(detail, dict) else {}
        return {"number": number, "failure": {**failure, "detail": {**detail, "heap": number}}}

    def _exception(self, failure: dict[str, Any]) -> BaseException:
        number = _number(failure)
        if number is None or number not in self.heap.failures:
            return decode_failure(failure)
        found: BaseException = self.heap.take("failures", number)
        return found if failure["detail"].get("frame") in (None, self.frame) else left(found)

    def matches(self, error: BaseException, kinds: Any) -> bool:
        for each in kinds if isinstance(kinds, tuple) else (kinds,):
            if not isinstance(each, type) or not issubclass(each, BaseException):
                raise TypeError("catching classes that do not inherit from BaseException is not allowed")
        return isinstance(error, kinds)

    # Context managers.

    def cancelled(self) -> BaseException:
        """What a block that was cancelled is left with."""
        return asyncio.CancelledError()

    def enter(self, manager: Any) -> Any:
        kind = type(manager)
        if not hasattr(kind, "__enter__") or not hasattr(kind, "__exit__"):
            # CPython says what is missing.
            with manager:
                pass
        return kind.__enter__(manager)

    def exit(self, manager: Any, error: Optional[BaseException]) -> bool:
        if error is None:
            return bool(type(manager).__exit__(manager, None, None, None))
        return bool(type(manager).__exit__(manager, type(error), error, error.__traceback__))


def _number(failure: dict[str, Any]) -> Optional[int]:
    """The number of a failure's exception on the heap."""
    detail = failure.get("detail")
    number = detail.get("heap") if isinstance(detail, dict) else None
    return number if isinstance(number, int) else None


def _as_gathered(error: BaseException) -> BaseException:
    """A cancel among the results of `asyncio.gather`, which has no words of its own there."""
    return asyncio.CancelledError("") if type(error) is asyncio.CancelledError else error


def _has_awaited(answer: Any) -> bool:
    """Was something awaited before the region? Not if its own code raised what it is to handle."""
    return isinstance(answer, list) and not (answer[0] == "x" and _number(answer[1]) is not None)


def _while_handling(error: BaseException, function: Any) -> Any:
    """Calls the code of a region where it stands: in the handler of an exception."""
    traceback = error.__traceback__
    try:
        raise error
    except BaseException:
        error.__traceback__ = traceback
        return function(CURRENT)


def _link(error: BaseException, handled: Optional[BaseException]) -> None:
    """What began while an exception was handled has it as its context, unless that leads in a circle."""
    chain, last = set(), handled
    while last is not None and id(last) not in chain:
        chain.add(id(last))
        last = last.__context__
    last = error
    while id(last) not in chain:
        if last.__context__ is None:
            last.__context__ = handled
            return
        chain.add(id(last))
        last = last.__context__


async def _enter(manager: Any) -> None:
    """CPython says what is missing."""
    async with manager:
        pass


def _arguments(workflow: Workflow[..., Any], given: Any) -> dict[str, Any]:
    """The variables that a run starts with."""
    if not isinstance(workflow.target, type) and (plain := _parameters(workflow).all_decoded(given)) is not None:
        return plain
    args, kwargs = call_arguments(workflow, given)
    bound = workflow.signature.bind(*args, **kwargs)
    bound.apply_defaults()
    found = dict(bound.arguments)
    if isinstance(workflow.target, type):
        own = next(iter(inspect.signature(workflow.function).parameters))
        found = {own: workflow.target(), **found}
    return found


@functools.lru_cache(maxsize=1024)
def _parameters(workflow: Workflow[..., Any]) -> PlainParameters:
    return PlainParameters(workflow.function, workflow.signature)


def _globals(module: Any, request: dict[str, Any]) -> dict[str, Any]:
    found: dict[str, Any] = vars(module)
    workflow = workflows.get(request.get("workflow", ""))
    function: Any = workflow.function if workflow is not None and request.get("root") else None
    if function is None or not function.__closure__:
        return found
    inner = {name: cell.cell_contents for name, cell in zip(function.__code__.co_freevars, function.__closure__)}
    return {**function.__globals__, **inner}


def _unbound(error: BaseException, request: dict[str, Any]) -> BaseException:
    """As CPython says that a variable has no value. A function's own may be free in a region, where functions share it; and a
    comprehension that awaits is a loop in a region, but before Python 3.12 a function with variables of its own."""
    last = error.__traceback__
    while last is not None and last.tb_next is not None:
        last = last.tb_next
    found = re.search(r"(?:local|free) variable '(\w+)'", str(error))
    if not isinstance(error, NameError) or found is None or last is None or last.tb_frame.f_code.co_varnames[:1] != ("_lope",):
        return error
    name = found[1]
    scoped = last.tb_lineno in (request.get("scoped") or {}).get(name, ())
    if scoped == (type(error) is NameError) or (not scoped and (request.get("cells") or {}).get(name)):
        return error
    kind, text = (NameError, _FREE) if scoped else (UnboundLocalError, _LOCAL)
    made = kind(text.format(name))
    made.__traceback__, made.__context__ = error.__traceback__, error.__context__
    return made


_LOCAL = "cannot access local variable '{}' where it is not associated with a value"
_FREE = "cannot access free variable '{}' where it is not associated with a value in enclosing scope"
if sys.version_info < (3, 11):
    _LOCAL = "local variable '{}' referenced before assignment"
    _FREE = "free variable '{}' referenced before assignment in enclosing scope"


def _own(traceback: Optional[types.TracebackType]) -> Optional[types.TracebackType]:
    """A traceback of the user's lines alone."""
    frames, each = [], traceback
    while each is not None:
        if not each.tb_frame.f_code.co_filename.startswith(_PACKAGE):
            frames.append(each)
        each = each.tb_next
    made: Optional[types.TracebackType] = None
    for each in reversed(frames):
        made = types.TracebackType(made, each.tb_frame, each.tb_lasti, each.tb_lineno)
    return made or traceback
