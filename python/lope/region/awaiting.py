"""What a region waits for, as the law can do it: calls of actions, workflows and functions, sleeps, signals, and several
of these at once.

A call that was not awaited yet is a coroutine that has not begun; its code says what it calls and its frame has the
arguments. Such a call may be kept in variables and lists across awaits.
"""

from __future__ import annotations

import asyncio
import inspect
import sys
import types
import weakref
from typing import TYPE_CHECKING, Any, Optional

from .. import client, signals, spans
from ..decorators import Action, Workflow, called, workflows
from ..policy import policy_key
from ..values.arguments import encode_arguments
from ..values.encode import Encoded
from ..values.names import module_name

if TYPE_CHECKING:
    from .running import Region

_ARGS, _KEYWORDS = 4, 8


class Pending:
    """A call that waits to be awaited."""

    def __init__(self, kind: str, name: str, given: dict[str, Any], used: bool = False) -> None:
        self.kind = kind
        self.name = name
        self.given = given
        self.used = used


class Gather:
    def __init__(self, items: list[Any], collect: bool) -> None:
        self.items = items
        self.collect = collect


class Awaitable:
    """Something of ours that may be awaited."""

    def begin(self, region: "Region") -> dict[str, Any]:
        raise NotImplementedError


class WaitFor:
    def __init__(self, item: Any, seconds: Any) -> None:
        self.item = item
        self.seconds = seconds


def pending(value: Any) -> Optional[Pending]:
    """The call that a coroutine stands for. It is closed: nobody else will await it."""
    if not isinstance(value, types.CoroutineType):
        return None
    made = _MADE.get(value)
    if made is None and inspect.getcoroutinestate(value) == inspect.CORO_CREATED:
        made = _MADE[value] = _read(value)
    return made


_MADE: weakref.WeakKeyDictionary[Any, Pending] = weakref.WeakKeyDictionary()


def _read(value: Any) -> Pending:
    code, given = value.cr_code, dict(value.cr_frame.f_locals)
    found = _KNOWN.get(code)
    home = value.cr_frame.f_globals.get("__name__", "")
    name = str(value.__qualname__)
    value.close()
    if found is not None:
        return Pending(found, name, given)
    arguments = {each: given[each] for each in _parameters(code) if each in given}
    if value in called:
        return Pending("workflow", called[value], arguments)
    for each in workflows.values():
        if getattr(each.function, "__code__", None) is code and not isinstance(each.target, type):
            return Pending("workflow", each.name, arguments)
    if "<locals>" in name:
        return Pending("nested", name.rpartition(".")[2], arguments)
    module = module_name(types.SimpleNamespace(__module__=home))
    return Pending("function", f"{module}:{name}", arguments)


def _parameters(code: types.CodeType) -> tuple[str, ...]:
    count = code.co_argcount + code.co_kwonlyargcount
    count += bool(code.co_flags & _ARGS) + bool(code.co_flags & _KEYWORDS)
    return code.co_varnames[:count]


_KNOWN: dict[types.CodeType, str] = {
    Action.invoke.__code__: "action",
    asyncio.sleep.__code__: "sleep",
    spans.sleep.__code__: "sleep",
    signals.wait_signal.__code__: "signal",
    client.start_async.__code__: "start",
    asyncio.Semaphore.acquire.__code__: "acquire",
    asyncio.Lock.acquire.__code__: "acquire",
    asyncio.Event.wait.__code__: "acquire",
}


def described(value: Any, region: "Region") -> dict[str, Any]:
    """Something that is awaited, as the law's steps take it."""
    if isinstance(value, Gather):
        return {"kind": "gather", "items": _items(value.items, region), "collect": value.collect}
    if isinstance(value, WaitFor):
        item = apart(value.item, region)
        if value.seconds is None:
            return item
        return {"kind": "wait_for", "item": item, "span": _span(value.seconds)}
    if isinstance(value, Awaitable):
        return value.begin(region)
    call = value if isinstance(value, Pending) else pending(value)
    if call is None:
        if not inspect.isawaitable(value):
            _wait_for(value).send(None)
        raise TypeError(f"a workflow cannot wait for an object of {type(value).__name__}: await it in an @action")
    if call.used:
        raise RuntimeError("cannot reuse already awaited coroutine")
    call.used = True
    region.heap.touch(value)
    found: dict[str, Any] = globals()[f"_{call.kind}"](call, region)
    # It may lead to the variable that holds it, and would never be let go.
    call.given = {}
    return found


def apart(value: Any, region: "Region") -> dict[str, Any]:
    """What asyncio makes a task of: it has a stack of its own."""
    depth, region.depth = region.depth, 0
    try:
        return described(value, region)
    finally:
        region.depth = depth


def _items(values: list[Any], region: "Region") -> list[dict[str, Any]]:
    """What a gather waits for; something that stands in it twice is awaited once."""
    places: dict[int, int] = {}
    found: list[dict[str, Any]] = []
    for at, each in enumerate(values):
        first = places.setdefault(id(each), at)
        found.append(apart(each, region) if first == at else {"kind": "same", "at": first})
    return found


def check_call(value: Any) -> None:
    """Fails if it is nothing that may be awaited at all."""
    call = value if isinstance(value, Pending) else pending(value)
    if call is None and not isinstance(value, (Gather, WaitFor, Awaitable)):
        raise TypeError(f"a coroutine was expected, got {value!r}")
    if call is not None and call.used:
        raise RuntimeError("cannot reuse already awaited coroutine")


def check_gathered(value: Any) -> None:
    """Fails as asyncio does, which looks among those that it has first."""
    hash(value)
    if not isinstance(value, (Pending, Gather, WaitFor, Awaitable)) and not inspect.isawaitable(value):
        raise TypeError("An asyncio.Future, a coroutine or an awaitable is required")


async def _wait_for(value: Any) -> None:
    """CPython says what is wrong with something that cannot be awaited."""
    await value


def _action(call: Pending, region: "Region") -> dict[str, Any]:
    action: Action[..., Any] = call.given["self"]
    _fits(action, call.given["args"], call.given["kwargs"])
    given = encode_arguments(action, call.given["args"], call.given["kwargs"])
    return {"kind": "action", "name": f"{action.name}\n{policy_key(action.policy)}", "with": Encoded(given)}


def _fits(action: Action[..., Any], args: tuple[Any, ...], kwargs: dict[str, Any]) -> None:
    """Fails as a call of the function does that gives it other arguments than it takes."""
    try:
        action.signature.bind(*args, **kwargs)
    except TypeError:
        _stub(action)(*args, **kwargs)
        raise


def _stub(action: Action[..., Any]) -> Any:
    """A function that takes what the action's takes, and does nothing."""
    empty = inspect.Parameter.empty
    plain = [
        each.replace(annotation=empty, default=empty if each.default is empty else None)
        for each in action.signature.parameters.values()
    ]
    made: dict[str, Any] = {}
    exec(f"def stub{inspect.Signature(plain)}: pass", made)
    made["stub"].__name__, made["stub"].__qualname__ = action.function.__name__, action.function.__qualname__
    return made["stub"]


def _workflow(call: Pending, region: "Region") -> dict[str, Any]:
    workflow = workflows[call.name]
    given = {name: each for name, each in call.given.items() if name in workflow.signature.parameters}
    return {"kind": "workflow", "name": workflow.name, "with": Encoded(encode_arguments(workflow, (), given))}


def _start(call: Pending, region: "Region") -> dict[str, Any]:
    workflow = call.given["workflow"]
    if not isinstance(workflow, Workflow):
        raise TypeError(f"start takes a workflow, not {type(workflow).__name__}")
    if workflow.options:
        raise ValueError("a child has no options of its own: it has its parent's queue and priority")
    given = encode_arguments(workflow, call.given["args"], call.given["kwargs"])
    return {"kind": "start", "name": workflow.name, "with": Encoded(given)}


def _sleep(call: Pending, region: "Region") -> dict[str, Any]:
    span = call.given["span"] if "span" in call.given else call.given["delay"]
    if call.given.get("result") is None:
        return {"kind": "sleep", "span": _span(span)}
    return {"kind": "sleep_result", "span": _span(span), "kept": region.heap.put("kept", call.given["result"])}


def _span(span: Any) -> str:
    return f"{max(spans.millis(span), 0)}ms"


def _signal(call: Pending, region: "Region") -> dict[str, Any]:
    given = call.given
    default = given["default"] if given["default"] is not signals.MISSING else None
    number = region.heap.put("kept", (default, given["type"]))
    found = {"kind": "signal", "name": given["name"], "kept": number}
    if given["timeout"] is not None:
        found["kind"] = "signal_timeout" if given["default"] is signals.MISSING else "signal_default"
        found["span"] = _span(given["timeout"])
    return found


def _acquire(call: Pending, region: "Region") -> dict[str, Any]:
    from .tasks import acquire

    return acquire(call.given["self"], region)


def _function(call: Pending, region: "Region") -> dict[str, Any]:
    return {"kind": "function", "name": call.name, "frame": _frame(call.given, region)}


def _frame(variables: dict[str, Any], region: "Region") -> int:
    """A frame for a call, unless too many wait for each other: then it fails as CPython does, which would have no stack left."""
    if region.depth + _OUTSIDE >= sys.getrecursionlimit():
        raise RecursionError("maximum recursion depth exceeded")
    return region.heap.frame({**variables, DEPTH: region.depth + 1})


def _nested(call: Pending, region: "Region") -> dict[str, Any]:
    given = dict(call.given)
    if HOME not in given:
        raise TypeError(f"the function '{call.name}' cannot be awaited here")
    home = given.pop(HOME)
    return {"kind": "function", "name": home.key, "frame": _frame({**given, UP: home}, region)}


# The parameter of a function inside a function that says where it was defined.
HOME = "_lope_home"
# The entry of a frame that says where its function was defined, and that which says how many wait for its function, each for
# the next.
UP, DEPTH = "\0up", "\0depth"
# So many calls stand around a workflow where asyncio runs it.
_OUTSIDE = 8
