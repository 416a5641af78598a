"""Loops with break, continue and else."""

from __future__ import annotations

import ast
from typing import Optional, Sequence

from . import code
from .awaits import Awaits
from .code import Code, call, literal, op, truth
from .frame import Loop


class Loops(Awaits):
    def within(self, body: Sequence[ast.stmt]) -> int:
        raise NotImplementedError

    def _do_For(self, node: ast.For) -> None:
        over = call("py.iter", self.expr(node.iter, consumed=True), at=self.at(node.iter))
        broke = self.before_loop(node)
        item = self.program.fresh("item")
        self.loops.append(Loop(broke))
        with self.inside(self.program.block()) as body:
            self.assign(node.target, code.name(item), node.target)
            self.statements(node.body)
        self.loops.pop()
        kind = {"each": {"over": over.to_json(), "item": item, "block": body.number}}
        self.emit(kind, f"for-{node.lineno}", node)
        self.after_loop(node, broke)

    def _do_While(self, node: ast.While) -> None:
        broke = self.before_loop(node)
        self.loops.append(Loop(broke))
        with self.inside(self.program.block()) as body:
            when = self.condition(node)
            self.statements(node.body)
        self.loops.pop()
        self.emit({"while": {"when": when.to_json(), "block": body.number}}, f"while-{node.lineno}", node)
        self.after_loop(node, broke)

    def condition(self, node: ast.While) -> Code:
        """The condition; one that awaits or calls is computed at the start of each round."""
        if not self.effects(node.test):
            return truth(self.expr(node.test), self.at(node.test))
        over = op(["py.not"], self.expr(node.test), at=self.at(node.test))
        with self.inside(self.program.block()) as then:
            self.emit("break", f"break-{node.lineno}", node)
        self.emit({"if": {"when": over.to_json(), "then": then.number}}, f"if-{node.lineno}", node)
        return literal(True)

    def before_loop(self, node: ast.For | ast.While) -> Optional[str]:
        if not node.orelse:
            return None
        broke = self.program.fresh("broke")
        self.let(literal(False), node, broke)
        return broke

    def after_loop(self, node: ast.For | ast.While, broke: Optional[str]) -> None:
        if broke is None:
            return
        when = op(["py.not"], code.name(broke))
        kind = {"when": when.to_json(), "then": self.within(node.orelse)}
        self.emit({"if": kind}, f"else-{node.lineno}", node)

    def _do_Break(self, node: ast.Break) -> None:
        if self.loops and (broke := self.loops[-1].broke) is not None:
            self.let(literal(True), node, broke)
        self.emit("break", f"break-{node.lineno}", node)

    def _do_Continue(self, node: ast.Continue) -> None:
        self.emit("continue", f"continue-{node.lineno}", node)
