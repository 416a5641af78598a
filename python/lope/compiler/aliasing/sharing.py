"""Which variables may share a value: edges between names, and how they follow from what a value is made of."""

from __future__ import annotations

from dataclasses import dataclass, field, replace
from typing import Any, Sequence

# Nothing deeper than this is told apart.
DEPTH_MAX = 8

CALLER = "the caller"
RETURNED = "the returned value"

# (how, variable, key, depth): what a value may be (`same`), be part of, hold (`contain`), or share parts with; the key is
# the first step into the variable, the depth how far inside the value what they share begins.
Source = tuple[str, str, Any, int]
# (how, a, b, key, depth): a and b are the same, a holds b, or what lies so deep in a (`deep`) is also part of b.
Edge = tuple[str, str, str, Any, int]


@dataclass
class State:
    edges: frozenset[Edge] = frozenset()
    # Variables of which nothing can be changed, and those of whose parts nothing can.
    scalars: frozenset[str] = frozenset()
    flats: frozenset[str] = frozenset()

    def join(self, other: "State") -> "State":
        return State(self.edges | other.edges, self.scalars & other.scalars, self.flats & other.flats)


@dataclass
class Sharing:
    """The edges at one place of a function."""

    state: State = field(default_factory=State, init=False)
    seen: set[Edge] = field(default_factory=set, init=False)
    # Variables that are numbers, or hashable, by what is done with them.
    plain: set[str] = field(default_factory=set, init=False)

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
            elif kind == "holds" and a == other and meet(at, key):
                found.append(("same", name, b, None, 0))
            elif kind == "deep" and a == other and meet(at, key):
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
            if a == other and kind == "holds" and meet(at, key):
                found.append(("holds", name, b, None, depth))
            elif a == other and kind == "same":
                found += [("deep", name, b, None, depth), ("deep", b, name, key, 1)]
            elif a == other and kind == "deep" and meet(at, key):
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


def put_inside(source: Source) -> Source:
    """A source that is put into a container."""
    how, other, key, depth = source
    if how == "same":
        return ("contain", other, None, 1)
    if how == "part":
        return ("share", other, key, 1)
    return (how, other, key, depth + 1)


def copied(source: Source) -> Source:
    """A source whose parts are copied into another container."""
    how, other, key, depth = source
    return ("share", other, key if how == "part" else None, depth if how in ("contain", "share") else 1)


def taken_from(source: Source) -> Source:
    """A part of a source."""
    how, other, key, depth = source
    if how in ("same", "part"):
        return ("part", other, key, depth + 1)
    return ("part", other, None, 1) if depth > 1 or how == "share" else ("same", other, None, 0)


def meet(a: Any, b: Any) -> bool:
    return a is None or b is None or a == b
