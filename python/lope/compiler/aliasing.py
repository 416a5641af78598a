"""Aliasing: values have no identity in the law, so a change through one name must not be visible through another.

A walk over each function keeps which variables may share a value: `same` (one object), `holds` (one is part of the
other), `deep` (they share parts). A change that another variable in use would see is refused with advice; everything
else means the same with and without identity.
"""

from __future__ import annotations

import ast
from dataclasses import dataclass, field, replace
from typing import TYPE_CHECKING, Any, Iterator, Optional, Sequence

from .effects import is_self, is_super, own_nodes, quiet_static
from .table import METHODS

if TYPE_CHECKING:
    from .frame import Frame

# Nothing deeper than this is told apart.
DEPTH_MAX = 8

CALLER = "the caller"
RETURNED = "the returned value"

# (how, variable, key, depth): what a value may be (`same`), be part of, hold (`contain`), or share parts with; the key is
# the first step into the variable, the depth how far inside the value what they share begins.
Source = tuple[str, str, Any, int]
# (how, a, b, key, depth): a and b are the same, a holds b, or what lies so deep in a (`deep`) is also part of b.
Edge = tuple[str, str, str, Any, int]

_SCALAR_CALLS = {"len", "sum", "int", "float", "str", "bool", "abs", "round", "any", "all", "repr", "ord", "chr", "hex",
                 "oct", "bin", "isinstance", "hasattr", "format", "range", "divmod", "pow"}  # fmt: skip
_COPIES = {"list", "tuple", "set", "dict", "sorted", "reversed", "enumerate", "zip"}
_PARTS = {"get", "pop", "setdefault", "popitem"}
_SHARES = {"copy", "keys", "values", "items", "union", "intersection", "difference", "symmetric_difference"}
_CAPTURES = {"append", "insert", "add", "setdefault"}
_SPREADS = {"extend", "update"}


@dataclass
class State:
    edges: frozenset[Edge] = frozenset()
    # Variables of which nothing can be changed, and those of whose parts nothing can.
    scalars: frozenset[str] = frozenset()
    flats: frozenset[str] = frozenset()

    def join(self, other: "State") -> "State":
        return State(self.edges | other.edges, self.scalars & other.scalars, self.flats & other.flats)


@dataclass
class Walk:
    """The walk over one function."""

    frame: "Frame"
    state: State = field(default_factory=State)
    loops: list[ast.AST] = field(default_factory=list)
    iterated: list[str] = field(default_factory=list)
    returns: list[State] = field(default_factory=list)
    # How what is returned belongs to the caller: not at all, by its parts, or as it is.
    answer: str = "fresh"
    seen: set[Edge] = field(default_factory=set)

    def __post_init__(self) -> None:
        node = self.frame.unit.node
        self.loads: dict[str, list[tuple[int, int]]] = {}
        for each in ast.walk(node):
            if isinstance(each, ast.Name) and isinstance(each.ctx, ast.Load):
                self.loads.setdefault(each.id, []).append((each.lineno, each.col_offset))
        inner = [each for each in own_nodes(node) if isinstance(each, (ast.FunctionDef, ast.AsyncFunctionDef))]
        self.always = {each.id for one in inner for each in ast.walk(one) if isinstance(each, ast.Name)}
        self.plain = plain_names(node)

    # Edges.

    def add(self, *edges: Edge) -> None:
        found = set(self.state.edges)
        for how, a, b, key, depth in edges:
            if a == b and how != "deep":
                continue
            found.add((how, a, b, key, min(depth, DEPTH_MAX)))
            if how == "same":
                found.add((how, b, a, key, depth))
        self.seen |= found
        self.state = replace(self.state, edges=frozenset(found))

    def forget(self, name: str) -> None:
        kept = frozenset(edge for edge in self.state.edges if name not in (edge[1], edge[2]))
        self.state = State(kept, self.state.scalars - {name}, self.state.flats - {name})

    def bind(self, name: str, sources: Sequence[Source], scalar: bool = False, flat: bool = False) -> None:
        """A variable gets a value."""
        edges: list[Edge] = []
        for source in [] if scalar or name in self.plain else sources:
            edges += self.edges_of(name, source)
        self.forget(name)
        self.add(*edges)
        if scalar or name in self.plain:
            self.state = replace(self.state, scalars=self.state.scalars | {name})
        if flat:
            self.state = replace(self.state, flats=self.state.flats | {name})

    def edges_of(self, name: str, source: Source) -> list[Edge]:
        """What follows for a variable from one of the things that its value is made of."""
        how, other, _, _ = source
        if other in self.state.scalars or (other == name and how in ("same", "part")):
            return []
        if other in self.state.flats and how in ("part", "share"):
            return []
        near = [edge for edge in self.state.edges if other in (edge[1], edge[2])]
        if how == "same":
            renamed = [(k, name if a == other else a, name if b == other else b, at, d) for k, a, b, at, d in near]
            return [("same", name, other, None, 0), *renamed]
        follow = {"part": self.part_edges, "contain": self.contain_edges, "share": self.share_edges}[how]
        return follow(name, source, near)

    def part_edges(self, name: str, source: Source, near: list[Edge]) -> list[Edge]:
        _, other, key, depth = source
        found: list[Edge] = [("holds", other, name, key, depth)]
        for kind, a, b, at, d in near:
            if kind == "same" and a == other:
                found.append(("holds", b, name, key, depth))
            elif kind == "holds" and b == other:
                found.append(("holds", a, name, at, d + depth))
            elif kind == "holds" and a == other and _meet(at, key):
                found.append(("same", name, b, None, 0))
            elif kind == "deep" and a == other and _meet(at, key):
                # How deep in b what they share begins.
                there = min((e for k, x, y, _, e in near if (k, x, y) == ("deep", b, other)), default=1)
                found.append(("holds", b, name, None, there) if depth >= d else ("deep", name, b, None, d - depth))
        return found

    def contain_edges(self, name: str, source: Source, near: list[Edge]) -> list[Edge]:
        _, other, key, depth = source
        found: list[Edge] = [("holds", name, other, key, depth)]
        for kind, a, b, at, d in near:
            if kind == "same" and a == other:
                found.append(("holds", name, b, key, depth))
            elif kind == "holds" and b == other:
                found += [("deep", name, a, key, depth), ("deep", a, name, at, d)]
            elif kind in ("holds", "deep") and a == other:
                found.append((kind, name, b, key, depth + d))
        return found

    def share_edges(self, name: str, source: Source, near: list[Edge]) -> list[Edge]:
        _, other, key, depth = source
        found: list[Edge] = [("deep", name, other, None, depth), ("deep", other, name, key, 1)]
        for kind, a, b, at, d in near:
            if a == other and kind == "holds" and _meet(at, key):
                found.append(("holds", name, b, None, depth))
            elif a == other and kind == "same":
                found += [("deep", name, b, None, depth), ("deep", b, name, key, 1)]
            elif a == other and kind == "deep" and _meet(at, key):
                found.append(("deep", name, b, None, depth))
                if b != name:
                    found.append(("deep", b, name, None, 1))
            elif b == other and kind == "holds":
                found += [("deep", name, a, None, depth), ("deep", a, name, at, d)]
        return found

    def capture(self, name: str, sources: Sequence[Source], key: Any, base: int) -> None:
        """A variable's value gets another part, so deep inside."""
        for how, other, its_key, depth in sources:
            if other in self.state.scalars:
                continue
            if how == "same":
                if any(edge[:3] == ("holds", name, other) for edge in self.state.edges):
                    self.add(("deep", name, name, None, base))
                self.add(*self.edges_of(name, ("contain", other, key, base)))
            elif how == "contain":
                self.add(*self.edges_of(name, ("contain", other, key, base + depth)))
            else:
                self.add(*self.edges_of(name, ("share", other, its_key, base if how == "part" else base + depth)))

    # What values are made of.

    def sources(self, node: Optional[ast.AST]) -> list[Source]:
        if node is None or self.is_scalar(node):
            return []
        if isinstance(node, ast.Name):
            return [("same", node.id, None, 0)] if self.frame.is_local(node.id) or node.id in self.bound() else []
        if isinstance(node, (ast.Attribute, ast.Subscript)):
            return self.part_sources(node)
        if isinstance(node, (ast.List, ast.Tuple, ast.Set)):
            return [_inside(each) for item in node.elts for each in self.sources(item)]
        if isinstance(node, ast.Dict):
            return [_inside(each) for item in node.values for each in self.sources(item)]
        if isinstance(node, (ast.ListComp, ast.SetComp, ast.GeneratorExp, ast.DictComp)):
            return self.comprehension_sources(node)
        if isinstance(node, ast.IfExp):
            return [*self.sources(node.body), *self.sources(node.orelse)]
        if isinstance(node, ast.BoolOp):
            return [each for value in node.values for each in self.sources(value)]
        if isinstance(node, (ast.Starred, ast.Await, ast.NamedExpr, ast.FormattedValue)):
            return self.awaited_sources(node.value) if isinstance(node, ast.Await) else self.sources(node.value)
        if isinstance(node, ast.BinOp):
            return [_shared(each) for side in (node.left, node.right) for each in self.sources(side)]
        return self.call_sources(node) if isinstance(node, ast.Call) else []

    def bound(self) -> set[str]:
        return set(self.frame.bound)

    def part_sources(self, node: ast.Attribute | ast.Subscript) -> list[Source]:
        keys: list[Any] = []
        whole: ast.expr = node
        sliced = False
        while isinstance(whole, (ast.Attribute, ast.Subscript)):
            sliced = sliced or (isinstance(whole, ast.Subscript) and isinstance(whole.slice, ast.Slice))
            keys.append(_key(whole))
            whole = whole.value
        if sliced:
            return [_shared(each) for each in self.sources(whole)]
        return [
            ("part", each[1], keys[-1] if each[0] == "same" else each[2], len(keys) if each[0] == "same" else 1)
            for each in self.sources(whole)
        ]

    def comprehension_sources(self, node: Any) -> list[Source]:
        """The parts of what is gone over, if they are kept as they are."""
        targets = {each.id for one in node.generators for each in ast.walk(one.target) if isinstance(each, ast.Name)}
        values = [node.key, node.value] if isinstance(node, ast.DictComp) else [node.elt]
        kept = [each for value in values for each in _kept_names(value)]
        found: list[Source] = []
        wrapped = 2 if isinstance(values[-1], (ast.List, ast.Tuple, ast.Dict, ast.Set, ast.Call)) else 1
        if any(name in targets for name in kept):
            for one in node.generators:
                found += [("share", each[1], None, wrapped) for each in self.sources(one.iter)]
        return found + [("share", name, None, wrapped) for name in kept if name not in targets and self.frame.is_local(name)]

    def call_sources(self, node: ast.Call) -> list[Source]:
        function = node.func
        arguments = [*node.args, *(each.value for each in node.keywords)]
        mine = [each for argument in arguments for each in self.sources(argument)]
        if isinstance(function, ast.Attribute) and quiet_static(function, self.frame) is None:
            if is_self(function.value, self.frame) or is_super(function.value):
                return mine
            if function.attr in _PARTS:
                return [("part", each[1], None, 1) for each in self.sources(function.value)] + mine
            if function.attr in _SHARES:
                return [_shared(each) for each in (*self.sources(function.value), *mine)]
            return []
        if isinstance(function, ast.Name) and not self.frame.is_local(function.id):
            if function.id in _COPIES:
                return [_shared(each) for each in mine]
            if function.id in ("min", "max", "getattr"):
                return [("part", each[1], None, 1) for each in mine]
        found = quiet_static(function, self.frame)
        if isinstance(found, type):
            return [_inside(each) for each in mine]
        if (getattr(found, "__module__", None) or "").startswith(("lope", "asyncio")):
            return []
        answer = self.frame.answer_of(node)
        if answer == "fresh":
            return []
        if answer == "share":
            return [("share", each[1], None, 1) for each in mine]
        return [(how, each[1], None, 1) for each in mine for how in ("same", "part")]

    def awaited_sources(self, node: ast.AST) -> list[Source]:
        if isinstance(node, ast.Call):
            return self.call_sources(node) if self.frame.is_helper_call(node) else []
        return []

    def is_scalar(self, node: ast.AST) -> bool:
        """Can nothing of this value be changed?"""
        if isinstance(node, (ast.Constant, ast.Compare, ast.JoinedStr, ast.Lambda)):
            return True
        if isinstance(node, ast.UnaryOp):
            return True
        if isinstance(node, ast.Name):
            return node.id in self.state.scalars
        if isinstance(node, ast.BinOp):
            if isinstance(node.op, (ast.Div, ast.FloorDiv, ast.Mod, ast.Pow, ast.LShift, ast.RShift)):
                return True
            both = self.is_scalar(node.left) and self.is_scalar(node.right)
            either = self.is_scalar(node.left) or self.is_scalar(node.right)
            return both or (either and isinstance(node.op, (ast.Add, ast.Sub)))
        if isinstance(node, ast.Call):
            function = node.func
            if isinstance(function, ast.Name) and not self.frame.is_local(function.id):
                return function.id in _SCALAR_CALLS
            if isinstance(function, ast.Attribute) and quiet_static(function, self.frame) is None:
                known = METHODS.get(function.attr)
                return known is not None and known[0] == "M" and function.attr not in _PARTS | _SHARES
        return False

    def is_flat(self, node: ast.AST) -> bool:
        """Can nothing of its parts be changed?"""
        if isinstance(node, ast.Name):
            return node.id in self.state.flats or node.id in self.state.scalars
        if isinstance(node, (ast.List, ast.Tuple, ast.Set)):
            return all(self.is_scalar(each) or _is_constant(each) for each in node.elts)
        if isinstance(node, ast.Dict):
            return all(self.is_scalar(each) for each in node.values)
        if isinstance(node, (ast.ListComp, ast.SetComp, ast.GeneratorExp)):
            return self.is_scalar(node.elt)
        if isinstance(node, ast.DictComp):
            return self.is_scalar(node.value)
        if isinstance(node, ast.Subscript) and isinstance(node.slice, ast.Slice):
            return self.is_flat(node.value)
        if isinstance(node, ast.Call):
            function = node.func
            if isinstance(function, ast.Name) and function.id in ("range", *_COPIES):
                return all(self.is_flat(each) for each in node.args)
            if isinstance(function, ast.Attribute) and quiet_static(function, self.frame) is None:
                if function.attr in ("split", "rsplit", "splitlines", "partition", "rpartition"):
                    return True
                return function.attr in ("copy", "keys", "values", "items") and self.is_flat(function.value)
        return self.is_scalar(node)

    # Changes.

    def change(self, node: ast.AST, name: str, keys: Sequence[Any]) -> None:
        """The value of a variable is changed, so many parts down."""
        depth, key = len(keys), keys[0] if keys else None
        for kind, a, b, at, d in sorted(self.state.edges, key=str):
            if kind == "same" and a == name and self.live(b, node):
                self.clash(node, name, b, f"'{name}' and {_named(b)} may be the same value")
            if kind == "holds" and b == name and self.live(a, node):
                self.clash(node, name, a, f"'{name}' is part of {_named(a)}")
            if a != name or depth < d or not _meet(at, key):
                continue
            if kind == "holds" and self.live(b, node):
                self.clash(node, name, b, f"{_named(b)} is part of '{name}'")
            if kind == "deep" and (b == name or self.live(b, node)):
                other = "itself" if b == name else _named(b)
                self.clash(node, name, b, f"'{name}' shares parts with {other}")

    def clash(self, node: ast.AST, name: str, other: str, why: str) -> None:
        if other == CALLER:
            advice = f"change a copy and return it: {name} = list({name}), or {{**{name}}}"
        elif other == RETURNED:
            advice = "return after the change, or return a copy"
        else:
            advice = f"change it through one name only, or make a copy: list({name}), {{**{name}}}, {name}.copy()"
        self.frame.refuse(node, f"a change that another name would not see: {why}", advice)

    def live(self, name: str, node: ast.AST) -> bool:
        """May a variable still be read after this?"""
        if name in (CALLER, RETURNED) or name in self.always or name == self.frame.self_name:
            return True
        end = (getattr(node, "end_lineno", 0), getattr(node, "end_col_offset", 0))
        loads = self.loads.get(name, [])
        if any(place >= end for place in loads):
            return True
        if not self.loops:
            return False
        first, last = self.loops[0].lineno, self.loops[0].end_lineno  # type: ignore[attr-defined]
        return any(first <= line <= last for line, _ in loads)

    # Statements.

    def run(self) -> None:
        node = self.frame.unit.node
        arguments = [*node.args.posonlyargs, *node.args.args, *node.args.kwonlyargs]
        for each in arguments:
            if _is_plain_type(each.annotation) or each.arg in self.plain:
                self.state = replace(self.state, scalars=self.state.scalars | {each.arg})
            elif _is_flat_type(each.annotation):
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

    def effects(self, node: Optional[ast.AST]) -> None:
        """What the expressions of a statement change, in the order in which they do."""
        if node is None:
            return
        calls = [each for each in _in_order(node) if isinstance(each, ast.Call)]
        for each in calls:
            self.call(each, node)
        for named in _in_order(node):
            if isinstance(named, ast.NamedExpr):
                self.bind(named.target.id, self.sources(named.value), self.is_scalar(named.value))

    def call(self, node: ast.Call, whole: ast.AST) -> None:
        function = node.func
        if not isinstance(function, ast.Attribute):
            return
        own = self.frame.self_name
        if own is not None and (is_self(function.value, self.frame) or is_super(function.value)):
            if self.frame.method_changes_self(function):
                self.change(node, own, [None] * DEPTH_MAX)
                for argument in self.frame.kept_by_self(node, function):
                    self.capture(own, self.sources(argument), None, 1)
            return
        kind = METHODS.get(function.attr, ("M",))[0]
        if kind == "M" or quiet_static(function, self.frame) is not None:
            return
        root, keys = _path(function.value)
        if root is None or not self.frame.is_local(root):
            return
        self.kept_before(node, root, whole)
        self.not_iterated(function.value, node)
        self.change(node, root, keys)
        if function.attr in _CAPTURES:
            for argument in node.args[-1:]:
                self.not_itself(root, self.sources(argument), node)
                self.capture(root, self.sources(argument), keys[0] if keys else None, len(keys) + 1)
        elif function.attr in _SPREADS:
            for argument in node.args:
                shared = [_shared(each) for each in self.sources(argument)]
                self.capture(root, shared, None, len(keys))

    def kept_before(self, node: ast.Call, root: str, whole: ast.AST) -> None:
        """`(xs, xs.pop())`: the value stands on the left already, and Python would show the change there."""
        for each in _kept_names_at(whole):
            if each.id == root and (each.lineno, each.col_offset) < (node.lineno, node.col_offset):
                if isinstance(each.ctx, ast.Load):
                    self.clash(node, root, root, f"'{root}' was used before in the same statement")

    def not_itself(self, root: str, sources: Sequence[Source], node: ast.AST) -> None:
        for how, other, _, _ in sources:
            around = any(edge[0] in ("same", "holds") and edge[1:3] == (other, root) for edge in self.state.edges)
            if how in ("same", "contain") and (other == root or around) and root not in self.state.scalars:
                self.frame.refuse(node, f"'{root}' would hold itself", f"put a copy into it: list({root})")

    def not_iterated(self, target: ast.expr, node: ast.AST) -> None:
        if ast.unparse(target) in self.iterated:
            self.frame.refuse(
                node,
                f"'{ast.unparse(target)}' is changed while a loop goes over it",
                f"go over a copy: for … in list({ast.unparse(target)})",
            )

    def _Assign(self, node: ast.Assign) -> None:
        self.effects(node.value)
        sources, scalar, flat = self.sources(node.value), self.is_scalar(node.value), self.is_flat(node.value)
        doubled = _repeats(node.value)
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
            self.store(target.value, [_shared(each) for each in sources], False)
        elif isinstance(target, (ast.Tuple, ast.List)):
            for each in target.elts:
                self.store(each, [_taken(source) for source in sources], scalar)
        elif isinstance(target, (ast.Attribute, ast.Subscript)):
            root, keys = _path(target)
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
                self.capture(target.id, [_shared(each) for each in self.sources(node.value)], None, 0)
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
        scalar = _over_scalars(node.iter) or self.is_flat(node.iter)
        self.loops.append(node)
        self.iterated += (paths := [ast.unparse(each) for each in _gone_over(node.iter)])
        self.round(node, lambda: self.store(node.target, [_taken(each) for each in self.sources(node.iter)], scalar))
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


def _inside(source: Source) -> Source:
    """A source that is put into a container."""
    how, other, key, depth = source
    if how == "same":
        return ("contain", other, None, 1)
    if how == "part":
        return ("share", other, key, 1)
    return (how, other, key, depth + 1)


def _shared(source: Source) -> Source:
    """A source whose parts are copied into another container."""
    how, other, key, depth = source
    return ("share", other, key if how == "part" else None, depth if how in ("contain", "share") else 1)


def _taken(source: Source) -> Source:
    """A part of a source."""
    how, other, key, depth = source
    if how in ("same", "part"):
        return ("part", other, key, depth + 1)
    return ("part", other, None, 1) if depth > 1 or how == "share" else ("same", other, None, 0)


def _meet(a: Any, b: Any) -> bool:
    return a is None or b is None or a == b


def _named(name: str) -> str:
    return name if name in (CALLER, RETURNED) else f"'{name}'"


def _key(node: ast.Attribute | ast.Subscript) -> Any:
    """The first step into a value, if it is known."""
    if isinstance(node, ast.Attribute):
        return ("attr", node.attr)
    return ("item", node.slice.value) if isinstance(node.slice, ast.Constant) else None


def _path(node: ast.expr) -> tuple[Optional[str], list[Any]]:
    keys: list[Any] = []
    while isinstance(node, (ast.Attribute, ast.Subscript)):
        keys.insert(0, _key(node))
        node = node.value
    return (node.id if isinstance(node, ast.Name) else None), keys


def _in_order(node: ast.AST) -> Iterator[ast.AST]:
    """The nodes of an expression, operands before what uses them."""
    for child in ast.iter_child_nodes(node):
        if not isinstance(child, (ast.Lambda, ast.FunctionDef, ast.AsyncFunctionDef)):
            yield from _in_order(child)
    yield node


def _kept_names(node: ast.AST) -> list[str]:
    return [each.id for each in _kept_names_at(node)]


def _kept_names_at(node: ast.AST) -> list[ast.Name]:
    """The names whose values, or parts of them, go into a value as they are."""
    if isinstance(node, ast.Name):
        return [node]
    if isinstance(node, (ast.Attribute, ast.Subscript)):
        inner: ast.expr = node
        while isinstance(inner, (ast.Attribute, ast.Subscript)):
            inner = inner.value
        return [inner] if isinstance(inner, ast.Name) else []
    if isinstance(node, (ast.List, ast.Tuple, ast.Set)):
        return [each for item in node.elts for each in _kept_names_at(item)]
    if isinstance(node, ast.Dict):
        return [each for item in node.values for each in _kept_names_at(item)]
    if isinstance(node, (ast.Starred, ast.Return, ast.Expr, ast.Assign, ast.Await, ast.AnnAssign)):
        return _kept_names_at(node.value) if node.value is not None else []
    if isinstance(node, ast.IfExp):
        return [*_kept_names_at(node.body), *_kept_names_at(node.orelse)]
    if isinstance(node, ast.BoolOp):
        return [each for item in node.values for each in _kept_names_at(item)]
    if isinstance(node, ast.Call):
        return [each for item in (*node.args, *(k.value for k in node.keywords)) for each in _kept_names_at(item)]
    return []


def _repeats(node: ast.expr) -> bool:
    """`[[]] * 3`: one part, several times."""
    if not isinstance(node, ast.BinOp) or not isinstance(node.op, ast.Mult):
        return False
    sides = [each for each in (node.left, node.right) if isinstance(each, ast.List)]
    return any(not isinstance(item, ast.Constant) for each in sides for item in each.elts)


def _is_constant(node: ast.AST) -> bool:
    """A literal without anything in it that can be changed."""
    if isinstance(node, ast.Tuple):
        return all(_is_constant(each) for each in node.elts)
    return isinstance(node, ast.Constant)


_PLAIN = ("int", "float", "str", "bool", "bytes", "None", "Decimal", "date", "datetime", "UUID")


def _is_plain_type(node: Optional[ast.AST]) -> bool:
    if isinstance(node, ast.Constant):
        return node.value is None or node.value in _PLAIN
    if isinstance(node, ast.BinOp):
        return _is_plain_type(node.left) and _is_plain_type(node.right)
    if isinstance(node, ast.Subscript) and isinstance(node.value, ast.Name) and node.value.id == "Optional":
        return _is_plain_type(node.slice)
    return isinstance(node, ast.Name) and node.id in _PLAIN


def _is_flat_type(node: Optional[ast.AST]) -> bool:
    if not isinstance(node, ast.Subscript) or not isinstance(node.value, ast.Name):
        return False
    inner = node.slice.elts if isinstance(node.slice, ast.Tuple) else [node.slice]
    return node.value.id in ("list", "dict", "set", "tuple") and all(_is_plain_type(each) for each in inner)


def plain_names(function: ast.AST) -> set[str]:
    """Variables that are numbers, or hashable, by what is done with them: nothing of them can be changed."""
    found: set[str] = set()
    never: set[str] = set()
    for node in own_nodes(function):
        if isinstance(node, ast.Subscript):
            if isinstance(node.slice, ast.Name):
                found.add(node.slice.id)
            if isinstance(node.value, ast.Name):
                never.add(node.value.id)
        elif isinstance(node, ast.BinOp) and isinstance(node.op, (ast.Sub, ast.Mod, ast.Div, ast.FloorDiv, ast.Pow)):
            if isinstance(node.left, ast.Name) and _is_number(node.right):
                found.add(node.left.id)
        elif isinstance(node, ast.Compare) and isinstance(node.left, ast.Name):
            if isinstance(node.ops[0], (ast.Lt, ast.LtE, ast.Gt, ast.GtE)) and _is_number(node.comparators[0]):
                found.add(node.left.id)
        elif isinstance(node, ast.AugAssign) and isinstance(node.target, ast.Name) and _is_number(node.value):
            if isinstance(node.op, (ast.Add, ast.Sub)):
                found.add(node.target.id)
        elif isinstance(node, ast.Attribute) and isinstance(node.value, ast.Name):
            never.add(node.value.id)
        elif isinstance(node, (ast.For, ast.comprehension)) and isinstance(node.iter, ast.Name):
            never.add(node.iter.id)
    return found - never


def _is_number(node: ast.AST) -> bool:
    return isinstance(node, ast.Constant) and isinstance(node.value, (int, float)) and not isinstance(node.value, bool)


def _over_scalars(node: ast.expr) -> bool:
    if isinstance(node, (ast.List, ast.Tuple)) and all(_is_constant(each) for each in node.elts):
        return True
    return isinstance(node, ast.Call) and isinstance(node.func, ast.Name) and node.func.id == "range"


def _gone_over(node: ast.expr) -> list[ast.expr]:
    """The values that a loop goes over as they are, and not as copies."""
    if isinstance(node, (ast.Name, ast.Attribute, ast.Subscript)):
        return [node]
    if isinstance(node, ast.Call) and isinstance(node.func, ast.Name) and node.func.id in ("enumerate", "zip", "reversed"):
        return [each for argument in node.args for each in _gone_over(argument)]
    if isinstance(node, ast.Call) and isinstance(node.func, ast.Attribute) and node.func.attr in ("items", "keys", "values"):
        return [node.func.value]
    return []
