"""What the functions of one workflow share while they are compiled to regions: routines, actions, and the awaiter."""

from __future__ import annotations

import ast
import copy
import functools
import inspect
import types
from dataclasses import dataclass, field
from typing import Any, Callable, Iterator, Optional

from ...decorators import Action, Workflow
from ...policy import policy_key
from ...region.trees import BARE, children
from ...values.names import module_name
from ..blocks import Block, Program
from ..code import listed, literal, name
from ..source import Unit, unit_of
from ..static import frame_knows

# The variable of a function's block that holds the number of its frame.
FRAME = "frame.n"


class Racing(ast.stmt):
    """The block of a group of tasks: it is left when one of them fails."""

    _fields = ("group", "body")

    def __init__(self, group: ast.expr, body: list[ast.stmt]) -> None:
        super().__init__()
        self.group = group
        self.body = body


@dataclass
class Routine:
    """An async function of the user's: a block that is called with a frame."""

    key: str
    unit: Unit
    block: Block
    klass: Optional[type]
    parent: Optional["Routine"]
    locals: set[str] = field(default_factory=set)
    # Those of them that functions inside it see: they are cells, which all regions and functions share.
    cells: set[str] = field(default_factory=set)
    # Those that comprehensions which await see, by the lines where they do, where comprehensions are functions.
    scoped: dict[str, list[int]] = field(default_factory=dict)

    @property
    def qualname(self) -> str:
        """Its name as Python has it."""
        owner = self.unit.owner if self.parent is None else None
        around = f"{self.parent.qualname}.<locals>." if self.parent is not None else f"{owner.__qualname__}." if owner else ""
        return f"{around}{self.unit.name}"

    @property
    def module(self) -> str:
        return str(self.unit.outside.get("__name__", ""))


@dataclass
class Whole:
    """One workflow while it is compiled."""

    program: Program
    workflow: Workflow[..., Any]
    action: str
    routines: dict[str, Routine] = field(default_factory=dict)
    waiting: list[Routine] = field(default_factory=list)
    # Functions by those names: calls say no more of one than its name.
    functions: dict[str, types.FunctionType] = field(default_factory=dict)
    # Actions that may be awaited, with their policies.
    actions: dict[str, tuple[str, dict[str, Any]]] = field(default_factory=dict)
    # Plain functions and classes whose names were looked at, by id.
    followed: set[int] = field(default_factory=set)
    # Classes that its functions lead to, and the attributes that it names: the async methods among these may be awaited.
    classes: list[type] = field(default_factory=list)
    attributes: set[str] = field(default_factory=set)
    # Does it start tasks? Known when it is compiled; until then, whether it is taken for one that does.
    tasks: bool = False
    hosted: bool = False
    # Does it start runs that nobody waits for?
    starts: bool = False
    awaiter: Optional[Block] = None
    write_awaiter: Optional[Callable[[], None]] = None

    def use_action(self, action: Action[..., Any], policy: dict[str, Any]) -> str:
        self.program.actions.add(action.name)
        key = f"{action.name}\n{policy_key(policy)}"
        self.actions[key] = (action.name, policy)
        return key

    def use_workflow(self, workflow: Workflow[..., Any]) -> None:
        self.program.children[workflow.name] = workflow

    def use_function(self, function: types.FunctionType, owner: Optional[type] = None) -> Optional[Routine]:
        """A module's function or a method that may be awaited."""
        key = f"{module_name(function)}:{function.__qualname__}"
        known = self.functions.setdefault(key, function)
        if key in self.routines and known.__code__ == function.__code__:
            return self.routines[key]
        if "<locals>" in key:
            return None
        try:
            unit = unit_of(function, owner)
        except (TypeError, OSError):
            return None
        if key in self.routines:
            unit.refuse(unit.node, f"another async function that is called '{function.__qualname__}', too", "give one of them another name")
        return self.add(Routine(key, unit, self.function_block(), owner, None))

    def use_class(self, cls: type) -> None:
        if cls not in self.classes:
            self.classes.append(cls)
            self._use_methods(cls, self.attributes)

    def use_attribute(self, name: str) -> None:
        if name not in self.attributes:
            self.attributes.add(name)
            for each in self.classes:
                self._use_methods(each, {name})

    def _use_methods(self, cls: type, names: set[str]) -> None:
        for owner in cls.__mro__[:-1]:
            for name, method in _own_methods(owner):
                if name in names and frame_knows(method):
                    self.use_function(method, owner)

    def add(self, routine: Routine) -> Routine:
        self.routines[routine.key] = routine
        self.waiting.append(routine)
        return routine

    def function_block(self) -> Block:
        block = self.program.block()
        block.parameters = [FRAME]
        block.collect = listed([literal("f"), name(FRAME)])
        return block

    def finish(self) -> None:
        if self.write_awaiter is not None:
            self.write_awaiter()
        self.program.prune()


def async_methods(outside: dict[str, Any]) -> dict[str, list[tuple[types.FunctionType, type]]]:
    """The async methods of the classes that a module knows, by their names."""
    found: dict[str, list[tuple[types.FunctionType, type]]] = {}
    for each in list(outside.values()):
        # Some objects answer for others when they are asked what they are.
        cls = each.target if type(each) is Workflow else each
        if issubclass(type(cls), type):
            for owner in cls.__mro__[:-1]:
                for name, method in _own_methods(owner):
                    if frame_knows(method):
                        found.setdefault(name, []).append((method, owner))
    return found


@functools.lru_cache(maxsize=4096)
def _own_methods(cls: type) -> list[tuple[str, types.FunctionType]]:
    # Static and class methods are wrapped.
    methods = [(name, getattr(each, "__func__", each)) for name, each in vars(cls).items()]
    return [(name, each) for name, each in methods if isinstance(each, types.FunctionType) and inspect.iscoroutinefunction(each)]


def has_await(node: ast.AST) -> bool:
    """Is there an await in it, apart from those of the functions inside it? Asked again and again, and kept in the node."""
    found: Optional[bool] = node.__dict__.get(_AWAITS)
    if found is None:
        found = node.__dict__[_AWAITS] = _has_await(node)
    return found


_AWAITS = "_lope_awaits"


def shallow(node: Any) -> Any:
    """A copy of a node whose parts will be others."""
    made = copy.copy(node)
    made.__dict__.pop(_AWAITS, None)
    return made


def copied(node: Any) -> Any:
    """A copy of a node and all in it."""
    if isinstance(node, ast.AST):
        made = node.__class__.__new__(node.__class__)
        inside = made.__dict__
        for name, each in node.__dict__.items():
            parted = (each.__class__ is list or isinstance(each, ast.AST)) and name not in BARE
            inside[name] = copied(each) if parted else each
        inside.pop(_AWAITS, None)
        return made
    return [copied(each) for each in node] if isinstance(node, list) else node


def _has_await(node: ast.AST) -> bool:
    if isinstance(node, (ast.Await, ast.AsyncFor, ast.AsyncWith, Racing)):
        return True
    if isinstance(node, (ast.FunctionDef, ast.AsyncFunctionDef, ast.Lambda, ast.ClassDef)):
        return any(map(has_await, _head(node)))
    if isinstance(node, ast.comprehension) and node.is_async:
        return True
    return any(has_await(child) for child in children(node))


def own_nodes(node: ast.AST) -> Iterator[ast.AST]:
    """The nodes of a function; of functions inside it only themselves."""
    for child in children(node):
        yield child
        if not isinstance(child, (ast.FunctionDef, ast.AsyncFunctionDef, ast.Lambda, ast.ClassDef)):
            yield from own_nodes(child)


def _head(node: Any) -> list[ast.AST]:
    """What of a function or a class belongs to the code around it."""
    if isinstance(node, ast.Lambda):
        return [node.args]
    if isinstance(node, ast.ClassDef):
        return [*node.decorator_list, *node.bases, *node.keywords]
    return [*node.decorator_list, node.args, *([node.returns] if node.returns is not None else [])]
