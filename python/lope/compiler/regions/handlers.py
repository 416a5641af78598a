"""Exceptions around awaits: handlers, `finally`, and what is the context of what. The law unwinds; which handler it is that
takes an exception a region says, by Python's rules.

A cancel is no exception to the law, and no handler stops one. A handler that lets it go on in the end, as those that tidy up
do, is run for it nevertheless.
"""

from __future__ import annotations

import ast
import asyncio
from typing import TYPE_CHECKING, Any, Optional, Sequence

from .. import code
from ..code import Code, listed, literal, op
from ..static import quiet_static
from ...region.trees import children, walk
from .loops import Loops
from .program import has_await, shallow
from .source import leaving, load, parsed, store

if TYPE_CHECKING:
    from ..frame import Frame

# The mark of a block whose handlers were made ready for a cancel.
_READY = "_lope_cancel"
_ON_CANCEL = """
if LEFT is None:
    try:
        raise _lope.cancelled()
    except BaseException:
        pass
"""


class Handlers(Loops):
    # The variables with the exceptions that are being handled, innermost last; and for each, with one before all, what the
    # law calls the numbers of those that `finally` blocks in it are run for.
    handling: list[str]
    flights: list[list[str]]
    # In how many blocks with handlers or a `finally` it stands.
    tries: int

    def _on_Try(self, node: ast.Try) -> None:
        handler = runs_on_cancel(node, self)
        if handler is not None:
            self.statements(self.with_cancel(node, handler))
            return
        self.ready(node)
        self.tries += 1
        self.tried(node)
        self.tries -= 1

    def tried(self, node: ast.Try) -> None:
        if node.finalbody:
            inner = ast.copy_location(ast.Try(node.body, node.handlers, node.orelse, []), node)
            self.finally_of([inner] if node.handlers or node.orelse else node.body, node)
            return
        passed = self.program.fresh("passed") if node.orelse else None
        if passed is not None:
            self.let(literal(False), node, passed)
        with self.inside(self.program.block()) as body:
            self.statements(node.body)
            if not body.left and (self.pending or self.answer is not None):
                self.region(node)
            self.pending, self.answer = [], None
            if passed is not None and not body.left:
                self.let(literal(True), node, passed)
        kind: dict[str, Any] = {"block": body.number}
        if node.handlers:
            kind["handlers"] = [self.handlers_of(node)]
        self.emit({"try": kind}, f"try-{node.lineno}", node)
        if passed is not None:
            self.emit({"if": {"when": code.name(passed).to_json(), "then": self.branch(node.orelse)}}, f"else-{node.lineno}", node)

    def handlers_of(self, node: ast.Try) -> dict[str, Any]:
        """One handler for all: which of them it is says a region, by Python's rules."""
        failure, held = self.program.fresh("failure"), self.hidden()
        with self.inside(self.program.block()) as block:
            self.answer = listed([literal("x"), code.name(failure)])
            self.pending += parsed(f"{held} = _lope.failure()", node)
            for place, each in enumerate(node.handlers):
                self.matching(place, each, held)
            self.pending.append(leaving("next", ast.Constant(-1)))
            out = self.region(node)
            self.handling.append(held)
            self.flights.append([])
            cases = []
            for place, each in enumerate(node.handlers):
                when = op(["eq"], self.value_of(out), literal(place))
                cases.append({"when": when.to_json(), "block": self.chaining(self.handler_body(each), each)})
            self.handling.pop()
            self.flights.pop()
            with self.inside(self.program.block()) as otherwise:
                self.emit({"raise": {"error": code.name(failure).to_json()}}, f"raise-{node.lineno}", node)
            self.emit({"switch": {"cases": cases, "otherwise": otherwise.number}}, f"except-{node.lineno}", node)
        return {"name": failure, "block": block.number}

    def finally_of(self, body: Sequence[ast.stmt], node: ast.Try) -> None:
        """What a `finally` is run for is being handled in it: it is put on the heap, where its regions find it by number."""
        flight, failure = self.program.fresh("flight"), self.program.fresh("failure")
        self.let(literal(None), node, flight)
        block = self.branch(body)
        with self.inside(self.program.block()) as handler:
            self.answer = listed([literal("x"), code.name(failure)])
            self.pending.append(leaving("flies"))
            out = self.value_of(self.region(node))
            self.let(op(["field", "number"], out), node, flight)
            self.emit({"raise": {"error": op(["field", "failure"], out).to_json()}}, f"raise-{node.lineno}", node)
        with self.inside(self.program.block()) as watched:
            self.emit({"try": {"block": block, "handlers": [{"name": failure, "block": handler.number}]}}, f"try-{node.lineno}", node)
        self.flights[-1].append(flight)
        final = self.chaining(node.finalbody, node)
        self.flights[-1].pop()
        self.emit({"try": {"block": watched.number, "finally": final}}, f"finally-{node.lineno}", node)

    def chaining(self, body: Sequence[ast.stmt], node: ast.AST) -> int:
        """A block in which an exception is handled: that is the context of whatever an await in it fails with."""
        block = self.branch(body)
        if not any(has_await(each) for each in body):
            return block
        failure = self.program.fresh("failure")
        with self.inside(self.program.block()) as handler:
            self.answer = listed([literal("x"), code.name(failure)])
            self.pending.append(leaving("chained"))
            self.region(node)
        with self.inside(self.program.block()) as found:
            line = getattr(node, "lineno", 0)
            self.emit({"try": {"block": block, "handlers": [{"name": failure, "block": handler.number}]}}, f"try-{line}", node)
        return found.number

    def handler_body(self, handler: ast.ExceptHandler) -> list[ast.stmt]:
        """Its variable has no value when it is over, however it is left; that is done at all costs where somebody would see it."""
        if not handler.name:
            return handler.body
        forget = parsed(f"{handler.name} = None\ndel {handler.name}", handler)
        if not _seen_outside(self.unit.node, handler):
            return [*handler.body, *forget]
        return [ast.copy_location(ast.Try(handler.body, [], [], forget), handler)]

    def matching(self, place: int, handler: ast.ExceptHandler, held: str) -> None:
        body: list[ast.stmt] = [store(handler.name, load(held), handler)] if handler.name else []
        body.append(leaving("next", ast.Constant(place)))
        if handler.type is None:
            self.pending += body
            return
        test = ast.Call(ast.Attribute(load("_lope"), "matches", ast.Load()), [load(held), handler.type], [])
        self.pending.append(ast.copy_location(ast.If(test, body, []), handler))

    def with_cancel(self, node: ast.Try, handler: ast.ExceptHandler) -> list[ast.stmt]:
        """A block with a handler that is run for a cancel, too: as a `finally`, if the block was left in no other way."""
        left = self.hidden()
        inner = shallow(node)
        setattr(inner, _READY, True)
        inner.body, inner.finalbody = self.marked(node.body, left), []
        inner.handlers = [shallow(each) for each in node.handlers]
        if all(each.type is not None for each in inner.handlers):
            inner.handlers.append(ast.copy_location(ast.ExceptHandler(None, None, parsed("raise", node)), node))
        for each in inner.handlers:
            each.body = [*parsed(f"{left} = False", each), *each.body]
        final = parsed(_ON_CANCEL.replace("LEFT", left), handler)
        assert isinstance(final[0], ast.If) and isinstance(final[0].body[0], ast.Try)
        copy = final[0].body[0].handlers[0]
        copy.name, copy.body = handler.name, handler.body[:-1] or copy.body
        found: ast.stmt = ast.copy_location(ast.Try([inner], [], [], final), node)
        if node.finalbody:
            found = ast.copy_location(ast.Try([found], [], [], node.finalbody), node)
        return [*parsed(f"{left} = None", node), ast.fix_missing_locations(found)]

    def catches_unbound(self, handler: ast.ExceptHandler) -> bool:
        """May it catch what is raised where a variable has no value?"""
        found = None if handler.type is None else quiet_static(handler.type, self)
        return not isinstance(found, type) or issubclass(found, NameError) or issubclass(NameError, found)


def catches_cancel(handler: ast.ExceptHandler, frame: "Frame") -> bool:
    if handler.type is None:
        return True
    kinds: Sequence[Any] = handler.type.elts if isinstance(handler.type, ast.Tuple) else [handler.type]
    return any(quiet_static(each, frame) in (BaseException, asyncio.CancelledError) for each in kinds)


def lets_go_on(handler: ast.ExceptHandler) -> bool:
    """Does it end with a bare `raise`, and in no other way?"""
    last = handler.body[-1]
    inside = [each for part in handler.body[:-1] for each in walk(part)]
    left = (ast.Raise, ast.Return, ast.Break, ast.Continue)
    return isinstance(last, ast.Raise) and last.exc is None and not any(isinstance(each, left) for each in inside)


def runs_on_cancel(node: ast.AST, frame: "Frame") -> Optional[ast.ExceptHandler]:
    """The handler of a block that a cancel of what it awaits reaches, if it lets that go on."""
    if not isinstance(node, ast.Try) or getattr(node, _READY, False) or not any(map(has_await, node.body)):
        return None
    found = next((each for each in node.handlers if catches_cancel(each, frame)), None)
    return found if found is not None and lets_go_on(found) else None


def _seen_outside(node: ast.AST, handler: ast.ExceptHandler) -> bool:
    """Is the variable of a handler looked at where that one or another has not just bound it?"""
    if node is handler:
        return False
    if isinstance(node, ast.ExceptHandler) and node.name == handler.name and all(each is not handler for each in walk(node)):
        return False
    if isinstance(node, ast.Name) and node.id == handler.name and not isinstance(node.ctx, ast.Store):
        return True
    return any(_seen_outside(child, handler) for child in children(node))
