"""`@action` and `@workflow`: they register a function under its name and leave it callable as what it is.

What they register is found by the compiler and by the worker; nothing here talks to a runner.
"""

from __future__ import annotations

import asyncio
import functools
import inspect
import weakref
from datetime import datetime
from typing import Any, Awaitable, Callable, Coroutine, Generic, Optional, TypeVar, Union, cast, overload

from typing import TYPE_CHECKING

if TYPE_CHECKING:
    from typing_extensions import ParamSpec, Protocol

    P = ParamSpec("P")
else:
    from typing import ParamSpec, Protocol

    P = ParamSpec("P")

from . import spans
from .depends import Provision, provided
from .policy import Retry, limits, policy
from .spans import Span
from .values.encode import Encoded
from .values.names import find_class, module_name

R = TypeVar("R")

# What the names of the actions begin with that run regions.
REGION = "lope.region:"
R_co = TypeVar("R_co", covariant=True)

actions: dict[str, "Action[..., Any]"] = {}
workflows: dict[str, "Workflow[..., Any]"] = {}
# Calls of workflows that are classes, and the names of these: to look at they are calls of methods, which others may share.
called: weakref.WeakKeyDictionary[Any, str] = weakref.WeakKeyDictionary()


class Action(Generic[P, R]):
    """An action: called with `await`, in a workflow or on its own."""

    def __init__(
        self,
        function: Callable[..., Any],
        name: str,
        retry: Optional[Retry],
        timeout: Optional[Span],
        limits: Optional[dict[str, Any]] = None,
    ) -> None:
        self.function = function
        # Its rate and its concurrency, as policies hold them.
        self.limits = limits or {}
        self.name = name
        self.retry = retry
        self.timeout = timeout
        if timeout is not None:
            spans.millis(timeout)
        self.is_async = inspect.iscoroutinefunction(function)
        functools.update_wrapper(self, function)

    def __call__(self, *args: P.args, **kwargs: P.kwargs) -> Coroutine[Any, Any, R]:
        return self.invoke(args, kwargs)

    async def invoke(self, args: tuple[Any, ...], kwargs: dict[str, Any]) -> R:
        """Calls the function, with what it depends on; a plain function runs in a thread."""
        needs = {name: each for name, each in self.provided.items() if name not in kwargs}
        if not needs:
            return cast(R, await self._call(args, kwargs))
        async with Provision() as provision:
            return cast(R, await self._call(args, {**kwargs, **await provision.arguments(needs)}))

    async def _call(self, args: tuple[Any, ...], kwargs: dict[str, Any]) -> Any:
        if self.is_async:
            return await self.function(*args, **kwargs)
        return await asyncio.to_thread(self._work, args, kwargs)

    def _work(self, args: tuple[Any, ...], kwargs: dict[str, Any]) -> Any:
        try:
            return self.function(*args, **kwargs)
        except StopIteration as error:
            # No future holds one, and no coroutine lets one out.
            raise RuntimeError("the action raised StopIteration") from error

    def with_options(self, *, retry: Optional[Retry] = None, timeout: Optional[Span] = None) -> "Action[P, R]":
        """The same action, tried in another way."""
        chosen = self.timeout if timeout is None else timeout
        return Action(self.function, self.name, retry or self.retry, chosen, self.limits)

    def __reduce__(self) -> Any:
        return _same_action, (self.name, self.retry, self.timeout)

    @functools.cached_property
    def provided(self) -> dict[str, Any]:
        return provided(self.function)

    @functools.cached_property
    def signature(self) -> inspect.Signature:
        """The parameters that callers give: those that are provided are left out."""
        whole = inspect.signature(self.function)
        kept = [each for name, each in whole.parameters.items() if name not in self.provided]
        return whole.replace(parameters=kept)

    @property
    def policy(self) -> dict[str, Any]:
        return {**policy(self.retry, self.timeout), **self.limits}

    def __repr__(self) -> str:
        return f"<action {self.name}>"


def _same_action(name: str, retry: Optional[Retry], timeout: Optional[Span]) -> Action[..., Any]:
    known = actions[name]
    same = (known.retry, known.timeout) == (retry, timeout)
    return known if same else Action(known.function, name, retry, timeout, known.limits)


class Workflow(Generic[P, R]):
    """A workflow: a function, or a class with a method `run`."""

    def __init__(self, target: Any, name: str) -> None:
        self.target = target
        self.name = name
        self.function: Callable[..., Any] = getattr(target, "run") if isinstance(target, type) else target
        # How `run` and `start` start it.
        self.options: dict[str, Any] = {}
        functools.update_wrapper(self, target, updated=())

    def __call__(self, *args: P.args, **kwargs: P.kwargs) -> Coroutine[Any, Any, R]:
        if isinstance(self.target, type):
            made = cast("Coroutine[Any, Any, R]", self.target().run(*args, **kwargs))
            called[made] = self.name
            return made
        return cast("Coroutine[Any, Any, R]", self.target(*args, **kwargs))

    @functools.cached_property
    def signature(self) -> inspect.Signature:
        """The parameters of a start: without `self`."""
        whole = inspect.signature(self.function)
        kept = list(whole.parameters.values())
        return whole.replace(parameters=kept[1:] if isinstance(self.target, type) else kept)

    def with_options(
        self,
        *,
        key: Optional[str] = None,
        queue: Optional[str] = None,
        priority: Optional[int] = None,
        tags: Optional[dict[str, str]] = None,
        at: Union[str, datetime, None] = None,
        timeout: Optional[Span] = None,
    ) -> "Workflow[P, R]":
        """The same workflow, started in another way by `run` and `start`; `timeout` is how long they wait for its result."""
        given = {"key": key, "queue": queue, "priority": priority, "tags": tags, "at": at, "timeout": timeout}
        made: Workflow[P, R] = Workflow(self.target, self.name)
        made.options = {**self.options, **{name: each for name, each in given.items() if each is not None}}
        return made

    def __mro_entries__(self, bases: tuple[Any, ...]) -> tuple[Any, ...]:
        """Classes may have one among their bases, if it is a class."""
        if not isinstance(self.target, type):
            raise TypeError(f"{self.name} is a workflow and no class: only a class may be a base of another")
        return (self.target,)

    def __reduce__(self) -> Any:
        return _same_workflow, (self.name,)

    def compile(self) -> dict[str, Any]:
        """The definition, as JSON holds it."""
        from .compiler import compile_workflow

        return compile_workflow(self)

    def __repr__(self) -> str:
        return f"<workflow {self.name}>"


def _same_workflow(name: str) -> Workflow[..., Any]:
    return workflows[name]


class _Runs(Protocol[P, R_co]):
    def run(self, *args: P.args, **kwargs: P.kwargs) -> Coroutine[Any, Any, R_co]: ...


# What can be run. Type checkers that overlook decorators of classes take a workflow for the class that it is.
Startable = Union[Workflow[P, R], type[_Runs[P, R]]]


def known(given: Startable[P, R]) -> Workflow[P, R]:
    if not isinstance(given, Workflow):
        raise TypeError(f"{getattr(given, '__name__', given)!r} is no workflow: put @workflow before it")
    return given


class _MakesAction(Protocol):
    @overload
    def __call__(self, function: Callable[P, Awaitable[R]]) -> Action[P, R]: ...
    @overload
    def __call__(self, function: Callable[P, R]) -> Action[P, R]: ...


class _MakesWorkflow(Protocol):
    @overload
    def __call__(self, target: Callable[P, Awaitable[R]]) -> Workflow[P, R]: ...
    @overload
    def __call__(self, target: type[_Runs[P, R]]) -> Workflow[P, R]: ...


@overload
def action(function: Callable[P, Awaitable[R]], /) -> Action[P, R]: ...
@overload
def action(function: Callable[P, R], /) -> Action[P, R]: ...
@overload
def action(
    *,
    name: Optional[str] = None,
    retry: Optional[Retry] = None,
    timeout: Optional[Span] = None,
    rate: Optional[str] = None,
    concurrency: Optional[int] = None,
) -> _MakesAction: ...


def action(
    function: Optional[Callable[..., Any]] = None,
    /,
    *,
    name: Optional[str] = None,
    retry: Optional[Retry] = None,
    timeout: Optional[Span] = None,
    rate: Optional[str] = None,
    concurrency: Optional[int] = None,
) -> Any:
    """Makes a function an action: work that is done in a worker, tried again if it fails, and recorded when it is done.

    `rate="10/1s"` starts no more attempts of it in a span, `concurrency=4` has no more of them at once, over all runs."""
    limited = limits(rate, concurrency)
    # What is wrong with these is said here, where they stand.
    policy(retry, timeout)

    def make(function: Callable[..., Any]) -> Action[..., Any]:
        if not callable(function) or isinstance(function, (type, Action, Workflow)):
            raise TypeError("@action goes before a function")
        if inspect.isgeneratorfunction(function) or inspect.isasyncgenfunction(function):
            raise TypeError(f"@action goes before a function that returns: {function.__name__} yields; collect the values in a list and return it")
        made: Action[..., Any] = Action(function, name or function.__name__, retry, timeout, limited)
        register(actions, made.name, made)
        return made

    return make if function is None else make(function)


@overload
def workflow(target: Callable[P, Awaitable[R]], /) -> Workflow[P, R]: ...
@overload
def workflow(target: type[_Runs[P, R]], /) -> Workflow[P, R]: ...
@overload
def workflow(*, name: Optional[str] = None) -> _MakesWorkflow: ...


def workflow(target: Any = None, /, *, name: Optional[str] = None) -> Any:
    """Makes an async function, or a class with an async method `run`, a workflow."""

    def make(target: Any) -> Workflow[..., Any]:
        function = getattr(target, "run", None) if isinstance(target, type) else target
        if not inspect.iscoroutinefunction(function):
            what = f"class {target.__name__} has no 'async def run'" if isinstance(target, type) else "it is not one"
            if inspect.isasyncgenfunction(function) or inspect.isgeneratorfunction(function):
                what = "it yields; collect the values in a list and return it"
            raise TypeError(f"@workflow goes before an async function or a class with an async run: {what}")
        made: Workflow[..., Any] = Workflow(target, name or target.__name__)
        register(workflows, made.name, made)
        where = region_action(made)
        actions.setdefault(where, Action(_region, where, None, None))
        return made

    return make if target is None else make(target)


def register(table: dict[str, Any], name: str, made: Union[Action[..., Any], Workflow[..., Any]]) -> None:
    """Enters an action or workflow by name; two of one name are a mistake, the same one imported again is not."""
    before = table.get(name)
    if before is not None and _home(before) != _home(made):
        raise ValueError(
            f"'{name}' is defined twice, in {_home(before)} and in {_home(made)}: give one of them name=\"…\""
        )
    table[name] = made


def _home(made: Any) -> str:
    function = made.function
    return f"{module_name(function)}:{function.__qualname__}"


def region_action(made: Workflow[..., Any]) -> str:
    """The action that runs the regions of a workflow; only who has loaded its module serves it."""
    return f"{REGION}{module_name(made.function)}"


def _region(request: Encoded, heap: Any = None) -> Any:
    return _runner_of_regions()(cast(Any, request), heap)


@functools.lru_cache(maxsize=1)
def _runner_of_regions() -> Callable[[Any, Any], Any]:
    from .region import run_region

    return run_region


@action(name="lope.construct")
async def construct(cls: str, args: list[Any], kwargs: dict[str, Any]) -> Any:
    """Makes an object that only Python can make: one whose class validates, or runs code of its own."""
    found = find_class(cls)
    if found is None:
        raise LookupError(f"the class '{cls}' cannot be found here")
    return found(*args, **kwargs)
