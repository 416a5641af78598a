"""Trees of Python source: their parts, and the lines of the statements in them."""

from __future__ import annotations

import ast
import threading
from typing import Any, Iterable, Iterator

# Fields that never hold a part: names, flags, contexts and operators.
BARE = frozenset({
    "ctx", "op", "ops", "id", "attr", "arg", "type_comment", "kind", "conversion", "simple", "is_async", "level", "asname",
})  # fmt: skip


def parse(text: str, file: str = "<unknown>", mode: str = "exec") -> Any:
    """As `ast.parse`, from any thread: CPython before 3.13 counts the depth of all threads together, and fails."""
    with _PARSING:
        for _ in range(_PARSES):
            try:
                return ast.parse(text, file, mode)
            except SystemError:  # a thread that is not ours parsed meanwhile
                continue
        return ast.parse(text, file, mode)


_PARSING = threading.RLock()
_PARSES = 100


def fields(cls: type[ast.AST]) -> tuple[str, ...]:
    """The fields of nodes of a class that may hold parts."""
    found = _FIELDS.get(cls)
    if found is None:
        found = _FIELDS[cls] = () if issubclass(cls, ast.Constant) else tuple(name for name in cls._fields if name not in BARE)
    return found


_FIELDS: dict[type[ast.AST], tuple[str, ...]] = {}


def children(node: ast.AST) -> list[ast.AST]:
    """As `ast.iter_child_nodes`, without contexts and operators; much of what a compiler does is this."""
    found: list[ast.AST] = []
    names = _FIELDS.get(node.__class__)
    if names is None:
        names = fields(node.__class__)
    if names:
        inside: dict[str, Any] = node.__dict__
        for name in names:
            value: Any = inside.get(name)
            if value.__class__ is list:
                found += [each for each in value if isinstance(each, ast.AST)]
            elif isinstance(value, ast.AST):
                found.append(value)
    return found


def walk(*nodes: ast.AST) -> Iterator[ast.AST]:
    """The nodes and all in them, in the order of the source."""
    waiting = [*reversed(nodes)]
    while waiting:
        node = waiting.pop()
        yield node
        if found := children(node):
            found.reverse()
            waiting += found


def place(node: ast.AST, lines: Iterator[int], line: int) -> None:
    """Gives each statement the line it has in its file, and what is inside it the same."""
    if isinstance(node, ast.stmt):
        line = next(lines, 0) or line
    if "lineno" in node._attributes:
        node.lineno = node.end_lineno = line  # type: ignore[attr-defined]
        node.col_offset = node.end_col_offset = 0  # type: ignore[attr-defined]
    for each in children(node):
        place(each, lines, line)


def places(nodes: Iterable[ast.AST]) -> list[int]:
    """The lines that `place` gives back. There are no statements in expressions."""
    found: list[int] = []
    for node in nodes:
        if not isinstance(node, ast.expr):
            if isinstance(node, ast.stmt):
                found.append(getattr(node, "lineno", 0))
            found += places(children(node))
    return found
