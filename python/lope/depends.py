"""Injection: parameters of an action that are provided where it runs, and never cross the wire.

A provider is a function, an async function, a generator or an async generator (what follows its `yield` runs when the
action has ended); it may have such parameters itself. Each provider is called once per call of the action.
"""

from __future__ import annotations

import inspect
from contextlib import AsyncExitStack, asynccontextmanager, contextmanager
from dataclasses import dataclass
from typing import Annotated, Any, Callable, get_args, get_origin, get_type_hints


@dataclass(frozen=True)
class Provided:
    provider: Callable[..., Any]


def Depends(provider: Callable[..., Any]) -> Any:  # noqa: N802 - reads like a type where it is used
    """`def act(db: Database = Depends(open_database))`, or `db: Annotated[Database, Depends(open_database)]`."""
    if not callable(provider):
        raise TypeError(f"Depends() takes a function, not {type(provider).__name__}")
    return Provided(provider)


def provided(function: Callable[..., Any]) -> dict[str, Provided]:
    """The parameters of a function that are provided to it."""
    found: dict[str, Provided] = {}
    try:
        hints = get_type_hints(function, include_extras=True)
    except Exception:
        hints = {}
    for name, parameter in inspect.signature(function).parameters.items():
        if isinstance(parameter.default, Provided):
            found[name] = parameter.default
            continue
        hint = hints.get(name)
        if get_origin(hint) is Annotated:
            for extra in get_args(hint)[1:]:
                if isinstance(extra, Provided):
                    found[name] = extra
    return found


class Provision:
    """What is provided for one call; leaving it ends the generators, last first."""

    def __init__(self) -> None:
        self._stack = AsyncExitStack()
        self._made: dict[Callable[..., Any], Any] = {}

    async def __aenter__(self) -> "Provision":
        await self._stack.__aenter__()
        return self

    async def __aexit__(self, *failure: Any) -> Any:
        return await self._stack.__aexit__(*failure)

    async def arguments(self, needs: dict[str, Provided]) -> dict[str, Any]:
        return {name: await self._provide(each.provider) for name, each in needs.items()}

    async def _provide(self, provider: Callable[..., Any]) -> Any:
        if provider in self._made:
            return self._made[provider]
        given = await self.arguments(provided(provider))
        if inspect.isasyncgenfunction(provider):
            value = await self._stack.enter_async_context(asynccontextmanager(provider)(**given))
        elif inspect.isgeneratorfunction(provider):
            value = self._stack.enter_context(contextmanager(provider)(**given))
        else:
            value = provider(**given)
            if inspect.isawaitable(value):
                value = await value
        self._made[provider] = value
        return value
