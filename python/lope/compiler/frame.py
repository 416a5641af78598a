"""A function while it is compiled: its variables, the block that is being written, and the steps in it."""

from __future__ import annotations

import ast
from contextlib import contextmanager
from typing import Any, Iterator, NoReturn, Optional

from .blocks import Block, Program, step
from .code import At, Code, name, place
from .source import Unit

TAKEN = frozenset({"input", "run", "env", "secrets"})


class Frame:
    """One function."""

    def __init__(self, program: Program, unit: Unit, block: Block, klass: Optional[type]) -> None:
        self.program = program
        self.unit = unit
        self.block = block
        # The class whose workflow is compiled, if it is one.
        self.klass = klass
        self.locals: set[str] = set()

    def at(self, node: ast.AST) -> At:
        """Places are those of the workflow's own file."""
        return place(node) if self.unit.file == self.program.file else (0, 0)

    def refuse(self, node: ast.AST, reason: str, advice: str) -> NoReturn:
        self.unit.refuse(node, reason, advice)

    def emit(self, kind: Any, wanted: str, node: Optional[ast.AST], to: Optional[str] = None, **options: Any) -> str:
        if wanted in TAKEN or (to is None and wanted in self.locals):
            wanted = f"{wanted}-call"
        mine = node if self.unit.file == self.program.file else None
        return step(self.block, wanted, kind, node=mine, to=to, **options)

    def let(self, value: Code, node: Optional[ast.AST], to: Optional[str] = None) -> Code:
        """Computes a value now and keeps it in a variable."""
        target = to or self.program.fresh("t")
        line = getattr(node, "lineno", 0)
        wanted = target if to is not None and "." not in target else f"let-{line}"
        self.emit({"let": {"value": value.to_json()}}, wanted, node, to=target)
        return name(target, self.at(node) if node is not None else (0, 0))

    @contextmanager
    def inside(self, block: Block) -> Iterator[Block]:
        """Writes into another block for a while."""
        before, self.block = self.block, block
        try:
            yield block
        finally:
            self.block = before

    def is_local(self, text: str) -> bool:
        return text in self.locals
