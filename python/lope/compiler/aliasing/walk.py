"""The walk over the statements of one function, branch by branch, loops until nothing new is learnt."""

from __future__ import annotations

import ast
from dataclasses import dataclass, field, replace
from typing import Any, Sequence

from .changes import Changes
from .shapes import gone_over, is_flat_type, is_plain_type, over_scalars, path_of, repeats
from .sharing import CALLER, RETURNED, Source, State, copied, taken_from


@dataclass
class Walk(Changes):
    """The walk over one function."""

    returns: list[State] = field(default_factory=list)
    # How what is returned belongs to the caller: not at all, by its parts, or as it is.
    answer: str = "fresh"

    def run(self) -> None:
        node = self.frame.unit.node
        arguments = [*node.args.posonlyargs, *node.args.args, *node.args.kwonlyargs]
        for each in arguments:
            if is_plain_type(each.annotation) or each.arg in self.plain:
                self.state = replace(self.state, scalars=self.state.scalars | {each.arg})
            elif is_flat_type(each.annotation):
                self.state = replace(self.state, flats=self.state.flats | {each.arg})
        for name in self.frame.given_by_caller():
            if name not in self.state.scalars:
                self.add(("holds", CALLER, name, None, 1))
        self.block(node.body)

    def block(self, body: Sequence[ast.stmt]) -> None:
        for node in body:
            handle = getattr(self, f"_{type(node).__name__}", None)
            if handle is not None:
                handle(node)
            else:
                self.effects(node)

    def _Assign(self, node: ast.Assign) -> None:
        self.effects(node.value)
        sources, scalar, flat = self.sources(node.value), self.is_scalar(node.value), self.is_flat(node.value)
        doubled = repeats(node.value)
        for target in node.targets:
            if isinstance(target, (ast.Tuple, ast.List)) and isinstance(node.value, (ast.Tuple, ast.List)):
                self.bind_pairwise(target, node.value)
            else:
                self.store(target, sources, scalar, flat)
            if doubled and isinstance(target, ast.Name):
                self.add(("deep", target.id, target.id, None, 1))

    def bind_pairwise(self, target: ast.Tuple | ast.List, value: ast.Tuple | ast.List) -> None:
        if len(target.elts) != len(value.elts) or any(isinstance(each, ast.Starred) for each in (*target.elts, *value.elts)):
            return self.store(target, self.sources(value), False)
        # All values are there before the first name is bound.
        found = [(self.sources(each), self.is_scalar(each), self.is_flat(each)) for each in value.elts]
        held = [f"#{place}" for place in range(len(found))]
        for name, (sources, scalar, flat) in zip(held, found):
            self.bind(name, sources, scalar, flat)
        for each, name, (_, scalar, flat) in zip(target.elts, held, found):
            self.store(each, [("same", name, None, 0)], scalar, flat)
        for name in held:
            self.forget(name)

    def store(self, target: ast.expr, sources: Sequence[Source], scalar: bool, flat: bool = False) -> None:
        if isinstance(target, ast.Name):
            self.bind(target.id, sources, scalar, flat)
        elif isinstance(target, ast.Starred):
            self.store(target.value, [copied(each) for each in sources], False)
        elif isinstance(target, (ast.Tuple, ast.List)):
            for each in target.elts:
                self.store(each, [taken_from(source) for source in sources], scalar)
        elif isinstance(target, (ast.Attribute, ast.Subscript)):
            root, keys = path_of(target)
            if root is None or not self.frame.is_local(root):
                return
            self.not_iterated(target.value, target)
            self.change(target, root, keys[:-1])
            self.not_itself(root, sources, target)
            self.capture(root, sources, keys[0], len(keys))

    def _AnnAssign(self, node: ast.AnnAssign) -> None:
        if node.value is not None:
            self.effects(node.value)
            known = isinstance(node.annotation, ast.Name) and node.annotation.id in ("int", "float", "str", "bool")
            self.store(node.target, self.sources(node.value), known or self.is_scalar(node.value))

    def _AugAssign(self, node: ast.AugAssign) -> None:
        self.effects(node.value)
        target = node.target
        if isinstance(target, ast.Name):
            if self.is_scalar(node.value) and isinstance(node.op, (ast.Sub, ast.Add)) and not isinstance(node.value, ast.JoinedStr):
                if isinstance(node.value, ast.Constant) and isinstance(node.value.value, (int, float)):
                    self.bind(target.id, [], True)
            elif target.id not in self.state.scalars and not self.is_scalar(node.value):
                self.change(node, target.id, [])
                self.capture(target.id, [copied(each) for each in self.sources(node.value)], None, 0)
            return
        self.store(target, [], True)

    def _Return(self, node: ast.Return) -> None:
        self.effects(node.value)
        sources = self.sources(node.value)
        self.bind(RETURNED, sources)
        self.note_answer()
        self.returns.append(self.state)
        self.forget(RETURNED)

    def note_answer(self) -> None:
        given = {CALLER, self.frame.self_name, *self.frame.given_by_caller()}
        for kind, a, b, _, _ in self.state.edges:
            if RETURNED not in (a, b) or not given & {a, b}:
                continue
            is_part = kind == "same" or (kind == "holds" and b == RETURNED)
            if is_part:
                self.answer = "same"
            elif self.answer == "fresh":
                self.answer = "share"

    def _If(self, node: ast.If) -> None:
        self.effects(node.test)
        before = self.state
        self.block(node.body)
        then, self.state = self.state, before
        self.block(node.orelse)
        self.state = then.join(self.state)

    def _For(self, node: ast.For) -> None:
        self.effects(node.iter)
        scalar = over_scalars(node.iter) or self.is_flat(node.iter)
        self.loops.append(node)
        self.iterated += (paths := [ast.unparse(each) for each in gone_over(node.iter)])
        self.round(node, lambda: self.store(node.target, [taken_from(each) for each in self.sources(node.iter)], scalar))
        del self.iterated[len(self.iterated) - len(paths):]
        self.loops.pop()
        self.block(node.orelse)

    def _While(self, node: ast.While) -> None:
        self.loops.append(node)
        self.round(node, lambda: self.effects(node.test))
        self.loops.pop()
        self.block(node.orelse)

    def round(self, node: ast.For | ast.While, start: Any) -> None:
        """A loop's body, again until nothing new is learnt."""
        for _ in range(8):
            before = self.state
            start()
            self.block(node.body)
            self.state = before.join(self.state)
            if self.state == before:
                break

    def _Try(self, node: ast.Try) -> None:
        before, mark = self.state, len(self.returns)
        seen = before
        for each in node.body:
            self.block([each])
            seen = seen.join(self.state)
        self.block(node.orelse)
        after = self.state
        for handler in node.handlers:
            self.state = seen
            if handler.name is not None:
                self.bind(handler.name, [])
            self.block(handler.body)
            after = after.join(self.state)
            seen = seen.join(self.state)
        if node.finalbody:
            self.state = after.join(seen)
            for returned in self.returns[mark:]:
                self.state = self.state.join(returned)
            self.block(node.finalbody)
            self.forget(RETURNED)
        else:
            self.state = after

    def _FunctionDef(self, node: ast.stmt) -> None:
        pass

    _AsyncFunctionDef = _FunctionDef
