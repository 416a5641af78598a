"""Source of functions: where they were written, their trees, and the names they see from outside."""

from __future__ import annotations

import ast
import builtins
import functools
import inspect
import linecache
import textwrap
from pathlib import Path
from typing import Any, Callable, NoReturn, Optional

from ..region.trees import parse
from .refuse import CompileError

FunctionNode = ast.AsyncFunctionDef | ast.FunctionDef


class Unit:
    """A function that is compiled: its tree, its file and what its free names mean."""

    def __init__(self, node: FunctionNode, file: str, outside: dict[str, Any], owner: Optional[type] = None) -> None:
        self.node = node
        self.file = file
        self.outside = outside
        # The class that a method belongs to.
        self.owner = owner

    @property
    def name(self) -> str:
        return self.node.name

    def refuse(self, node: ast.AST, reason: str, advice: str) -> NoReturn:
        line = getattr(node, "lineno", self.node.lineno)
        text = linecache.getline(self.file, line).rstrip("\n")
        # Trees count bytes, people count characters.
        column = len(text.encode()[: getattr(node, "col_offset", 0)].decode(errors="ignore")) + 1
        raise CompileError(reason, advice, self.file, line, column, text)

    def lookup(self, name: str) -> tuple[bool, Any]:
        """What a name means outside of the function."""
        if name in self.outside:
            return True, self.outside[name]
        if hasattr(builtins, name):
            return True, getattr(builtins, name)
        return False, None


def unit_of(function: Callable[..., Any], owner: Optional[type] = None) -> Unit:
    """The source of a function that was imported."""
    function = inspect.unwrap(function)
    file = inspect.getsourcefile(function)
    code = function.__code__
    if file is None:
        raise TypeError(f"the source of {function.__qualname__} cannot be found")
    node = _functions(file, "".join(linecache.getlines(file))).get((code.co_name, code.co_firstlineno))
    if node is None:
        raise TypeError(f"the source of {function.__qualname__} cannot be found in {file}: did the file change?")
    outside = dict(function.__globals__)
    for name, cell in zip(code.co_freevars, function.__closure__ or ()):
        try:
            outside[name] = cell.cell_contents
        except ValueError:
            continue
    return Unit(node, file, outside, owner)


def shown_file(file: str, module: str) -> str:
    """`package/app.py` for the module `package.app`, wherever it lies."""
    parts = Path(file).parts
    kept = 1 if module == "__main__" else module.count(".") + (2 if parts[-1] == "__init__.py" else 1)
    return "/".join(parts[-kept:])


@functools.lru_cache(maxsize=256)
def _functions(file: str, text: str) -> dict[tuple[str, int], FunctionNode]:
    """The functions of a file, by name and first line."""
    tree = parse(textwrap.dedent(text) if text[:1].isspace() else text, file)
    found: dict[tuple[str, int], FunctionNode] = {}
    for node in ast.walk(tree):
        if isinstance(node, (ast.FunctionDef, ast.AsyncFunctionDef)):
            found[node.name, min([node.lineno, *(each.lineno for each in node.decorator_list)])] = node
    return found
