"""Runs programs twice, under plain asyncio and under the law, and compares what comes out.

A program is a function `test_…`-less: a workflow named `main` in a file of `programs/`, or any workflow given with
arguments. Results, and exceptions by type, message and bases, must be equal.
"""

from __future__ import annotations

import asyncio
import contextlib
import copy
import os
from dataclasses import dataclass
from pathlib import Path
from typing import Any, Iterator, Optional

from lope import signals
from lope.decorators import Workflow
from lope.testing import Law, Stage
from lope.values import RemoteError, ValueProblem, decode, encode

ROOT = Path(__file__).parents[2]


def binary() -> str:
    return os.environ.get("LOPE_BIN") or str(ROOT / "target" / "debug" / "lope")


@dataclass
class Ending:
    """How a program ended."""

    value: Any = None
    error: Optional[BaseException] = None

    def shown(self) -> Any:
        if self.error is None:
            return ("value", typed(self.value))
        names = [each.__name__ for each in type(self.error).__mro__ if each is not RemoteError]
        return ("error", names, str(self.error))


    def crossed(self) -> "Ending":
        """The same after its value has crossed a border, as results do."""
        try:
            return self if self.error is not None else Ending(crossed(self.value, "result"))
        except ValueProblem as problem:
            return Ending(error=problem)


def crossed(value: Any, place: str) -> Any:
    return decode(encode(value, place))


def typed(value: Any) -> Any:
    """A value with its types, so that 1, 1.0 and True are different; the order of dicts counts."""
    if isinstance(value, dict):
        return ("dict", [(typed(key), typed(each)) for key, each in value.items()])
    if isinstance(value, (list, tuple)):
        return (type(value).__name__, [typed(each) for each in value])
    if isinstance(value, (set, frozenset)):
        return (type(value).__name__, sorted((typed(each) for each in value), key=repr))
    if isinstance(value, BaseException):
        return Ending(error=value).shown()
    return (type(value).__name__, repr(value))


@contextlib.contextmanager
def sent(values: dict[str, list[Any]]) -> Iterator[None]:
    left = {name: list(each) for name, each in values.items()}

    def answer(name: str) -> Any:
        return left[name].pop(0) if left.get(name) else signals.MISSING

    token = signals.source.set(answer)
    try:
        yield
    finally:
        signals.source.reset(token)


def plainly(workflow: Workflow[..., Any], args: tuple[Any, ...], values: dict[str, list[Any]]) -> Ending:
    with sent(values):
        try:
            return Ending(asyncio.run(_run(workflow, copy.deepcopy(args))))
        except Exception as error:
            return Ending(error=error)


async def _run(workflow: Workflow[..., Any], args: tuple[Any, ...]) -> Any:
    return await workflow(*args)


def durably(law: Law, workflow: Workflow[..., Any], args: tuple[Any, ...], values: dict[str, list[Any]]) -> Ending:
    with Stage(law=law, signals=values) as stage:
        try:
            return Ending(stage.run(workflow, *args))
        except Exception as error:
            return Ending(error=error)
