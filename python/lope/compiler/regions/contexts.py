"""Context managers around awaits: `with` and `async with`, groups of tasks and timeouts."""

from __future__ import annotations

import ast
import asyncio
import contextlib
import decimal
import types
from typing import Any, Sequence

from ..code import Code
from ..static import quiet_static
from .awaiter import timer, watcher
from .lifting import GROUP, Lifting
from .program import Racing, has_await, shallow
from .source import SCOPES, leaving, load, parsed, store

FOREIGN = {
    "AsyncFor": ("an async for", "await a list from an @action and go over that"),
    "TryStar": ("an await in a try with except*", "catch ExceptionGroup and look at its .exceptions"),
    "AsyncWith": ("an async with statement", "open and close what you need inside an @action"),
}
NOT_HERE = ("an await in this place", "await it before, into a variable")
# What `contextmanager` makes of a generator, and what else a block holds open.
_GENERATOR = contextlib.contextmanager(lambda: iter(())).__code__
_OPEN: tuple[Any, ...] = (open, decimal.localcontext, contextlib.redirect_stdout, contextlib.redirect_stderr)
# How the blocks of `with` and `async with` are left; MANAGER, LEFT and ERROR are variables of ours. A block that was
# cancelled was left neither well nor by an exception that handlers see.
_PLAIN = """
try:
    try:
        pass
    except BaseException as ERROR:
        LEFT = False
        if not _lope.exit(MANAGER, ERROR):
            raise
finally:
    if LEFT is None:
        _lope.exit(MANAGER, _lope.cancelled())
    elif LEFT:
        _lope.exit(MANAGER, None)
"""
_MANAGER = """
try:
    try:
        pass
    except BaseException as ERROR:
        LEFT = False
        if not await _lope.aexit(MANAGER, ERROR):
            raise
finally:
    if LEFT is not False:
        await _lope.aexit(MANAGER, None if LEFT else _lope.cancelled())
"""
_GROUP = """
try:
    try:
        pass
    except BaseException as ERROR:
        LEFT = False
        _lope.group_failed(MANAGER, ERROR)
        while _lope.group_open(MANAGER):
            await MANAGER
        _lope.group_raise(MANAGER, ERROR)
finally:
    if LEFT:
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
        self.check_context(first.context_expr)
        if first.optional_vars is not None and has_await(first.optional_vars):
            self.refuse(first.optional_vars, *NOT_HERE)
        manager, left, error = self.hidden(), self.hidden(), self.hidden()
        made = self.lift(first.context_expr)
        self.pending.append(store(manager, made, node))
        entered = ast.Call(ast.Attribute(load("_lope"), "enter", ast.Load()), [load(manager)], [])
        if first.optional_vars is None:
            self.pending.append(ast.copy_location(ast.Expr(entered), node))
        else:
            self.pending.append(ast.copy_location(ast.Assign([first.optional_vars], entered), node))
        self.pending += parsed(f"{left} = None", node)
        body: list[ast.stmt] = [ast.copy_location(ast.With(rest, node.body), node)] if rest else node.body
        self.statements(self.guarded(_PLAIN, (manager, left, error), self.marked(body, left), node))

    def check_context(self, node: ast.expr) -> None:
        """Refuses what holds something open that cannot be kept while the block waits."""
        found = quiet_static(node.func, self) if isinstance(node, ast.Call) else None
        if isinstance(found, types.FunctionType) and found.__code__ is _GENERATOR:
            advice = "write a class with __enter__ and __exit__, or leave the block before"
            self.refuse(node, "a context manager that is a generator, with awaits inside", advice)
        if any(found is each for each in _OPEN):
            title = ast.unparse(node).partition("(")[0]
            self.refuse(node, f"'{title}' with awaits inside", "leave the block before, or do it in an @action")

    def guarded(self, text: str, names: tuple[str, str, str], body: list[ast.stmt], node: ast.AST) -> list[ast.stmt]:
        """A block with what happens when it is left."""
        for word, name in zip(("MANAGER", "LEFT", "ERROR"), names):
            text = text.replace(word, name)
        whole = parsed(text, node)
        guarded = whole[0]
        assert isinstance(guarded, ast.Try) and isinstance(guarded.body[0], ast.Try)
        guarded.body[0].body = body
        return whole

    def marked(self, body: Sequence[ast.stmt], left: str) -> list[ast.stmt]:
        """Statements that note that they leave the block, however they do."""
        found = self.noting(body, left, 0)
        if not isinstance(found[-1], (ast.Return, ast.Break, ast.Continue, ast.Raise)):
            found += parsed(f"{left} = True", body[-1])
        return found

    def noting(self, body: Sequence[ast.stmt], left: str, loops: int) -> list[ast.stmt]:
        found: list[ast.stmt] = []
        for each in body:
            if isinstance(each, ast.Return):
                if each.value is not None:
                    value = self.hidden()
                    found.append(store(value, each.value, each))
                    each = ast.copy_location(ast.Return(load(value)), each)
                found += parsed(f"{left} = True", each)
            elif isinstance(each, (ast.Break, ast.Continue)) and not loops:
                found += parsed(f"{left} = True", each)
            elif not isinstance(each, SCOPES):
                each = self.noting_inside(each, left, loops)
            found.append(each)
        return found

    def noting_inside(self, node: ast.stmt, left: str, loops: int) -> ast.stmt:
        made: ast.stmt = shallow(node)
        for name, value in ast.iter_fields(made):
            if name in ("body", "orelse", "finalbody") and value:
                deeper = loops + (name == "body" and isinstance(node, (ast.For, ast.While, ast.AsyncFor)))
                setattr(made, name, self.noting(value, left, deeper))
            elif name in ("handlers", "cases"):
                parts = [shallow(each) for each in value]
                for part in parts:
                    part.body = self.noting(part.body, left, loops)
                setattr(made, name, parts)
        return made

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
        manager, left, error = self.hidden(), self.hidden(), self.hidden()
        if group:
            setattr(made, GROUP, True)
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
        self.pending += parsed(f"{left} = {group or None}", node)
        racing: list[ast.stmt] = [ast.copy_location(Racing(group=load(manager), body=body), node)]
        inside = racing if group else self.marked(body, left)
        self.statements(self.guarded(_GROUP if group else _MANAGER, (manager, left, error), inside, node))

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
