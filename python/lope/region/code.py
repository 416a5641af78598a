"""The code of a region's function: its source compiled, with the lines and names of what the user wrote."""

from __future__ import annotations

import __future__
import functools
import re
import sys
import types
from typing import Any, cast

from .named import names_of
from .trees import parse, place


@functools.lru_cache(maxsize=4096)
def compiled(text: str, lines: tuple[int, ...], file: str, postponed: bool, name: str) -> tuple[types.CodeType, frozenset[str]]:
    """The code of the region's function, and the names in it; what is around it names its cells."""
    tree = parse(text)
    place(tree, iter(lines), 1)
    flags = __future__.annotations.compiler_flag if postponed else 0
    found: types.CodeType = compile(tree, file, "exec", flags, dont_inherit=True)
    while found.co_name != "region":
        found = next(each for each in found.co_consts if isinstance(each, types.CodeType))
    return _named_as(found, name), names_of(found)


def _named_as(code: types.CodeType, name: str) -> types.CodeType:
    """Tracebacks, logs and functions inside it name the function that the user wrote."""
    names = {"co_name": name.rpartition(".")[2], "co_qualname": name}
    if sys.version_info < (3, 11):
        del names["co_qualname"]
    made: types.CodeType = cast(Any, _renamed(code, name)).replace(**names)
    return made


def _renamed(code: types.CodeType, name: str) -> types.CodeType:
    # The full name of a class is a constant of its code; before Python 3.11 that of a function is one, too.
    consts = tuple(_renamed(each, name) if isinstance(each, types.CodeType) else _full(each, name) for each in code.co_consts)
    if sys.version_info < (3, 11):
        return cast(types.CodeType, cast(Any, code).replace(co_consts=consts))
    made: types.CodeType = cast(Any, code).replace(co_consts=consts, co_qualname=_full(code.co_qualname, name))
    return made


def _full(known: Any, name: str) -> Any:
    """The full name of something inside a region, with that of the user's function."""
    return _INSIDE.sub(lambda _: f"{name}.<locals>.", known) if isinstance(known, str) else known


_INSIDE = re.compile(r"^(around\.<locals>\.)?region\.<locals>\.")
