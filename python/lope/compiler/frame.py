"""A function while it is compiled: its variables, the block that is being written, and where names lead.

The mixins beside this file add what each construct becomes; those that are needed before they are written are declared
here.
"""

from __future__ import annotations

import ast
import types
from contextlib import contextmanager
from dataclasses import dataclass
from typing import Any, Iterator, NoReturn, Optional, Sequence

from ..decorators import Action, Workflow
from ..values.problem import ValueProblem
from .blocks import Block, Program, step
from .code import At, Code, literal, name, place
from .effects import assigned_names, has_effects
from .source import FunctionNode, Unit

TAKEN = frozenset({"input", "run", "env", "secrets"})


@dataclass
class Loop:
    """A loop around the current statement; `broke` is the variable that says it was left by `break`."""

    broke: Optional[str]


@dataclass
class Nested:
    """A function that is defined in the one being compiled."""

    node: FunctionNode
    captured: list[str]
    frame: "Frame"


@dataclass
class Missing:
    """Nothing static."""


MISSING = Missing()


class Frame:
    """One function."""

    def __init__(self, program: Program, unit: Unit, block: Block, klass: Optional[type], parent: Optional["Frame"]) -> None:
        self.program = program
        self.unit = unit
        self.block = block
        # The class whose workflow is compiled, if it is one, and the name of `self`.
        self.klass = klass
        self.self_name: Optional[str] = None
        self.parent = parent
        self.locals: set[str] = assigned_names(unit.node)
        self.nested: dict[str, Nested] = {}
        # Variables of comprehensions, by their names in the source.
        self.bound: dict[str, str] = {}
        self.loops: list[Loop] = []
        # Variables that hold the failures of the handlers around the current statement.
        self.failures: list[str] = []
        # Variables that hold tasks, from the statements that made them.
        self.tasks: set[str] = set()
        # The variables whose values the caller still holds.
        self.given: list[str] = []
        # Do others run beside this code? Then it may not change what it shares with them.
        self.concurrent = False

    # What the mixins bring.

    def expr(self, node: ast.expr, consumed: bool = False) -> Code:
        raise NotImplementedError

    def awaited(self, node: ast.expr, to: Optional[str] = None) -> Code:
        raise NotImplementedError

    def call_value(self, node: ast.Call, consumed: bool) -> Code:
        raise NotImplementedError

    def answer_of(self, node: ast.Call) -> str:
        raise NotImplementedError

    def kept_by_self(self, node: ast.Call, function: ast.Attribute) -> list[ast.expr]:
        raise NotImplementedError

    def is_helper_call(self, node: ast.Call) -> bool:
        raise NotImplementedError

    def method_changes_self(self, function: ast.Attribute) -> bool:
        raise NotImplementedError

    def given_by_caller(self) -> list[str]:
        return self.given

    def assign(self, target: ast.expr, value: Code, node: ast.AST) -> None:
        raise NotImplementedError

    def statements(self, body: Sequence[ast.stmt]) -> None:
        raise NotImplementedError

    # Places and refusals.

    def at(self, node: ast.AST) -> At:
        """Places are those of the workflow's own file."""
        return place(node) if self.unit.file == self.program.file else (0, 0)

    def refuse(self, node: ast.AST, reason: str, advice: str) -> NoReturn:
        self.unit.refuse(node, reason, advice)

    # Steps.

    def emit(self, kind: Any, wanted: str, node: Optional[ast.AST], to: Optional[str] = None, **options: Any) -> str:
        if to is None and (wanted in self.locals or wanted in TAKEN):
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

    @contextmanager
    def own_frame(self) -> Iterator[None]:
        """Code that runs beside other code."""
        before, self.concurrent = self.concurrent, True
        try:
            yield
        finally:
            self.concurrent = before

    # Names.

    def variable(self, text: str) -> str:
        """A variable of the source as the definition calls it."""
        return f"{text}.v" if text in TAKEN else text

    def is_local(self, text: str) -> bool:
        return text in self.bound or text in self.locals or text in self.nested

    def effects(self, node: ast.AST) -> bool:
        return has_effects(node, self)

    def static(self, node: ast.expr) -> Any:
        """What an expression means if that is known now: a module, class, function or constant; else MISSING."""
        if isinstance(node, ast.Name):
            if self.is_local(node.id):
                return MISSING
            found, value = self.unit.lookup(node.id)
            if not found:
                self.refuse(
                    node, f"the name '{node.id}' is not defined", "define it in this function or at the top of the module"
                )
            return value
        if isinstance(node, ast.Attribute):
            whole = self.static(node.value)
            if isinstance(whole, (types.ModuleType, type)):
                try:
                    return getattr(whole, node.attr)
                except AttributeError:
                    title = getattr(whole, "__name__", str(whole))
                    self.refuse(node, f"{title} has no attribute '{node.attr}'", "check the spelling")
        return MISSING

    def constant(self, value: Any, node: ast.AST) -> Code:
        """A value from outside of the function, taken as it is now."""
        if isinstance(value, (Action, Workflow, types.FunctionType, types.BuiltinFunctionType, types.MethodType)):
            title = getattr(value, "__name__", repr(value))
            self.refuse(node, f"the function '{title}' is used as a value", "call it here; functions are not values")
        if isinstance(value, (types.ModuleType, type)):
            self.refuse(node, f"'{value.__name__}' is used as a value", "modules and classes are not values in a workflow")
        try:
            return literal(value, self.at(node))
        except ValueProblem as problem:
            self.refuse(node, f"a constant that cannot be part of a definition: {problem}", "make it in an @action")
