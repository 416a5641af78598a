"""Context managers around awaits: `with` and `async with`, groups of tasks and timeouts."""

from __future__ import annotations

import ast
import asyncio
from typing import Any, Sequence

from ..code import Code
from ..static import quiet_static
from .awaiter import timer, watcher
from .lifting import Lifting
from .program import Racing
from .source import leaving, load, parsed, store

FOREIGN = {
    "AsyncFor": ("an async for", "await a list from an @action and go over that"),
    "TryStar": ("an await in a try with except*", "catch ExceptionGroup and look at its .exceptions"),
    "AsyncWith": ("an async with statement", "open and close what you need inside an @action"),
}
# How the blocks of `async with` are left; MANAGER, FINE and ERROR are variables of ours.
_MANAGER = """
try:
    try:
        pass
    except BaseException as ERROR:
        FINE = False
        if not await _lope.aexit(MANAGER, ERROR):
            raise
finally:
    if FINE:
        await _lope.aexit(MANAGER, None)
"""
_GROUP = """
try:
    try:
        pass
    except BaseException as ERROR:
        FINE = False
        _lope.group_failed(MANAGER, ERROR)
        while _lope.group_open(MANAGER):
            await MANAGER
        _lope.group_raise(MANAGER, ERROR)
finally:
    if FINE:
        while _lope.group_open(MANAGER):
            await MANAGER
        _lope.group_raise(MANAGER, None)
"""


class Contexts(Lifting):
    def branch(self, body: Sequence[ast.stmt]) -> int:
        raise NotImplementedError

    def value_of(self, out: Code) -> Code:
        raise NotImplementedError

    def _on_With(self, node: ast.With) -> None:
        """Entered and left by regions; the awaits are between."""
        first, *rest = node.items
        manager, fine = self.hidden(), self.hidden()
        made = self.lift(first.context_expr)
        self.pending.append(store(manager, made, node))
        entered = ast.Call(ast.Attribute(load("_lope"), "enter", ast.Load()), [load(manager)], [])
        if first.optional_vars is None:
            self.pending.append(ast.copy_location(ast.Expr(entered), node))
        else:
            self.pending.append(ast.copy_location(ast.Assign([first.optional_vars], entered), node))
        self.pending += parsed(f"{fine} = True", node)
        error = self.hidden()
        whole = parsed(
            f"try:\n    try:\n        pass\n    except BaseException as {error}:\n        {fine} = False\n"
            f"        if not _lope.exit({manager}, {error}):\n            raise\n"
            f"finally:\n    if {fine}:\n        _lope.exit({manager}, None)", node,
        )  # fmt: skip
        inner = ast.copy_location(ast.With(rest, node.body), node) if rest else None
        guarded = whole[0]
        assert isinstance(guarded, ast.Try) and isinstance(guarded.body[0], ast.Try)
        guarded.body[0].body = [inner] if inner is not None else node.body
        self.statements(whole)

    def _on_AsyncWith(self, node: ast.AsyncWith) -> None:
        first, *rest = node.items
        body: list[ast.stmt] = [ast.copy_location(ast.AsyncWith(rest, node.body), node)] if rest else node.body
        made = first.context_expr
        found = quiet_static(made.func, self) if isinstance(made, ast.Call) else None
        if found is not None and found is getattr(asyncio, "timeout", None):
            return self.timed(node, first, body)
        group = found is not None and found is getattr(asyncio, "TaskGroup", None)
        if not group and found is not None and not self.may_enter(found):
            reason, advice = FOREIGN["AsyncWith"]
            self.refuse(node, reason, advice)
        manager, fine, error = self.hidden(), self.hidden(), self.hidden()
        lifted = self.lift(made)
        self.pending.append(store(manager, lifted, node))
        value: ast.expr = load(manager)
        if not group:
            entered = self.hidden()
            self.statements(parsed(f"{entered} = await _lope.aenter({manager})", node))
            made_value = parsed(f"_lope.entered({manager}, {entered})", node)[0]
            assert isinstance(made_value, ast.Expr)
            value = made_value.value
        if first.optional_vars is not None:
            self.pending.append(ast.copy_location(ast.Assign([first.optional_vars], value), node))
        elif not group:
            self.pending.append(ast.copy_location(ast.Expr(value), node))
        self.pending += parsed(f"{fine} = True", node)
        text = _GROUP if group else _MANAGER
        whole = parsed(text.replace("MANAGER", manager).replace("FINE", fine).replace("ERROR", error), node)
        guarded = whole[0]
        assert isinstance(guarded, ast.Try) and isinstance(guarded.body[0], ast.Try)
        guarded.body[0].body = [ast.copy_location(Racing(group=load(manager), body=body), node)] if group else body
        self.statements(whole)

    def may_enter(self, found: Any) -> bool:
        """Is it a lock of asyncio's, or a class whose methods can be followed?"""
        if found in (asyncio.Semaphore, asyncio.BoundedSemaphore, asyncio.Lock):
            return True
        return isinstance(found, type) and any(owner in found.__mro__ for _, owner in self.async_methods.get("__aenter__", ()))

    def timed(self, node: ast.AsyncWith, item: ast.withitem, body: Sequence[ast.stmt]) -> None:
        """`async with asyncio.timeout(…)`: the block, or what its end in time is."""
        call = item.context_expr
        assert isinstance(call, ast.Call)
        given = [*call.args, *(each.value for each in call.keywords if each.arg == "delay")]
        if item.optional_vars is not None or len(given) != 1 or len(call.args) + len(call.keywords) != 1:
            self.refuse(node, "a timeout that is more than a number of seconds", "write async with asyncio.timeout(5):")
        seconds = self.lift(given[0])
        self.pending.append(ast.copy_location(leaving("span", seconds), node))
        span = self.value_of(self.region(node))
        timeout = {"name": "timeout", "block": timer(self, span)}
        work = {"name": "work", "block": self.branch(body)}
        self.emit({"race": {"branches": [work, timeout]}}, f"timeout-{node.lineno}", node)

    def _on_Racing(self, node: Racing) -> None:
        self.pending.append(ast.copy_location(leaving("group_watch", node.group), node))
        name = self.value_of(self.region(node))
        watch = {"name": "watch", "block": watcher(self, name)}
        work = {"name": "work", "block": self.branch(node.body)}
        self.emit({"race": {"branches": [work, watch]}}, f"group-{node.lineno}", node)
