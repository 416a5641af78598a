"""Loops whose rounds await: the law goes round, and regions say what is next and when it is over.

The end of a round and the beginning of the next are one region where nothing leaves a round in the middle: the beginning of
the first round is moved before the loop.
"""

from __future__ import annotations

import ast
import asyncio
import functools
import inspect
import itertools
import sys
from dataclasses import dataclass, field
from typing import Any, Optional, Sequence

from .. import code
from ..blocks import Block
from ..code import Code, literal, op
from ..static import quiet_static
from ...region.trees import children
from .contexts import Contexts
from .program import has_await, own_nodes
from .source import DEFS, leaving, load, store


@dataclass
class Turning:
    """A loop whose rounds begin with what ends the round before."""

    block: Block
    outer: Block
    # How many pending statements there were before it.
    before: int
    # The loop around it that waits for its first region, too.
    around: Optional["Turning"]
    again: list[ast.stmt] = field(default_factory=list)
    node: ast.AST = field(default_factory=ast.Pass)
    out: Optional[Code] = None


# Iterators that are made for a loop, and with how many arguments the one that takes their place is made.
_CURSORS: dict[Any, Sequence[int]] = {enumerate: (1, 2), zip: range(100), itertools.pairwise: (1,)}
if sys.version_info >= (3, 12):
    _CURSORS[itertools.batched] = (2,)
# How a region says that a loop is over; each loop has its own word.
TURNED = "end"


def _leaves(body: Sequence[ast.stmt], word: type[ast.stmt]) -> bool:
    """Is there a break, or a continue, that belongs to the loop with this body?"""
    waiting: list[ast.AST] = list(body)
    while waiting:
        node = waiting.pop()
        if isinstance(node, word):
            return True
        if isinstance(node, (ast.For, ast.While, ast.AsyncFor)):
            waiting += node.orelse
        elif not isinstance(node, (*DEFS, ast.Lambda, ast.ClassDef)):
            waiting += children(node)
    return False


class Loops(Contexts):
    # The loops around: the variable that says whether one was left by a break, and the word that says that it is over.
    law_loops: list[tuple[Optional[str], str]]
    # A loop that waits for its first region, and the word that says that the loop being written is over.
    turning: Optional[Turning]
    ending: str

    @functools.cached_property
    def own(self) -> list[ast.AST]:
        return list(own_nodes(self.unit.node))

    def region_to(self, out: str, node: ast.AST, leaves: Optional[set[str]] = None) -> Code:
        raise NotImplementedError

    def ready(self, node: ast.AST) -> None:
        raise NotImplementedError

    def targets(self, nodes: Sequence[ast.expr]) -> list[ast.expr]:
        raise NotImplementedError

    def _on_While(self, node: ast.While) -> None:
        def head() -> None:
            over = ast.UnaryOp(ast.Not(), self.lift(node.test))
            self.pending.append(ast.copy_location(ast.If(over, [leaving("leave", ast.Constant(self.ending))], []), node))

        if not self.turns(node):
            self.ready(node)
        self.looped(node, head)

    def _on_For(self, node: ast.For) -> None:
        self.targets([node.target])
        iterator = self.hidden()
        found = quiet_static(node.iter.func, self) if isinstance(node.iter, ast.Call) else None
        generates = (inspect.isgeneratorfunction(found) and found is not asyncio.as_completed) or self.generates(node.iter)
        if isinstance(node.iter, ast.GeneratorExp) or generates:
            advice = "make a list: list(…), or [… for … in …]"
            self.refuse(node.iter, "a generator that is gone over with awaits between", advice)
        whole = self.lift(node.iter)
        self.pending.append(store(iterator, self.iterator(whole), node))
        if not self.turns(node):
            self.region(node)

        def head() -> None:
            over: list[ast.stmt] = [leaving("leave", ast.Constant(self.ending))]
            rest = ast.copy_location(ast.Call(ast.Attribute(load("_lope"), "rest", ast.Load()), [load(iterator)], []), node)
            found = ast.For(node.target, rest, [ast.copy_location(ast.Break(), node)], over, None)
            self.pending.append(ast.copy_location(found, node))

        self.looped(node, head)

    def generates(self, node: ast.expr) -> bool:
        """Does it call a generator inside this function?"""
        name = node.func.id if isinstance(node, ast.Call) and isinstance(node.func, ast.Name) else None
        inner = [each for each in self.own if isinstance(each, ast.FunctionDef) and each.name == name]
        return len(inner) == 1 and any(isinstance(each, (ast.Yield, ast.YieldFrom)) for each in own_nodes(inner[0]))

    def iterator(self, whole: ast.expr) -> ast.expr:
        """An iterator that is cheap to keep, where there is one."""
        word, given = "iterate_made" if isinstance(whole, ast.Call) else "iterate", [whole]
        if isinstance(whole, ast.Call) and not whole.keywords and not any(isinstance(each, ast.Starred) for each in whole.args):
            found = quiet_static(whole.func, self)
            counts = _CURSORS.get(found) if isinstance(found, type) else None
            if counts is not None and len(whole.args) in counts:
                word, given = found.__name__, whole.args
        return ast.copy_location(ast.Call(ast.Attribute(load("_lope"), word, ast.Load()), given, []), whole)

    def turns(self, node: ast.For | ast.While) -> bool:
        """Can the end of a round and the beginning of the next be one region? Not where a round may end in the middle."""
        early: list[ast.stmt] = []
        for each in node.body:
            if has_await(each):
                break
            early.append(each)
        awaits = len(early) < len(node.body) or has_await(getattr(node, "test", ast.Pass()))
        return awaits and not node.orelse and not _leaves(node.body, ast.Continue) and not _leaves(early, ast.Break)

    def turned_loop(self, node: ast.For | ast.While, head: Any) -> None:
        if _leaves(self.pending, ast.Break) or _leaves(self.pending, ast.Continue):
            self.ready(node)
        before, self.ending, outer = self.ending, self.program.fresh(TURNED), self.block
        ending = self.ending
        with self.inside(self.program.block()) as body:
            loop = self.turning = Turning(body, outer, len(self.pending), self.turning)
            self.law_loops.append((None, ending))
            head()
            self.ending = before
            self.statements(node.body)
            assert loop.out is not None and self.turning is not loop
            if not body.left:
                self.pending += loop.again
                self.region_to(str(loop.out.instructions[0][1]), loop.node)
            self.pending, self.answer = [], None
            self.law_loops.pop()
        over = op(["eq"], op(["field", "flow"], loop.out), literal(ending))
        kind = {"while": {"when": op(["not"], over).to_json(), "block": body.number}}
        self.emit(kind, f"{'for' if isinstance(node, ast.For) else 'while'}-{node.lineno}", node)

    def looped(self, node: ast.For | ast.While, head: Any) -> None:
        if self.turns(node):
            self.turned_loop(node, head)
            return
        broke = self.program.fresh("broke") if node.orelse else None
        if broke is not None:
            self.let(literal(False), node, broke)
        with self.inside(self.program.block()) as body:
            self.law_loops.append((broke, TURNED))
            head()
            self.statements(node.body)
            if not body.left and (self.pending or self.answer is not None):
                self.region(node)
            self.pending, self.answer = [], None
            self.law_loops.pop()
        kind = {"while": {"when": literal(True).to_json(), "block": body.number}}
        word = "for" if isinstance(node, ast.For) else "while"
        self.emit(kind, f"{word}-{node.lineno}", node)
        if broke is not None:
            when = op(["not"], code.name(broke))
            self.emit({"if": {"when": when.to_json(), "then": self.branch(node.orelse)}}, f"else-{node.lineno}", node)

    def turned(self, loop: Turning, node: ast.AST) -> Code:
        """The beginning of a loop's body runs before the loop, and then with the end of each round."""
        self.turning = loop.around
        loop.again, loop.node = self.pending[loop.before :], node
        loops, self.law_loops = self.law_loops, self.law_loops[:-1]
        with self.inside(loop.outer):
            loop.out = self.region(node)
        self.law_loops = loops
        return loop.out
