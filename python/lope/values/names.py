"""The names that classes have on the wire: `module:Qualified.Name`, and how they are found again."""

from __future__ import annotations

import builtins
import functools
import importlib
import sys
from pathlib import PurePath
from typing import Any, Optional


def module_name(thing: Any) -> str:
    """The module that something is defined in; a program that was started is known by its file's name."""
    name = getattr(thing, "__module__", None) or "builtins"
    return main_name() if name == "__main__" else str(name)


def main_name() -> str:
    return _name_of(sys.modules.get("__main__"))


@functools.lru_cache(maxsize=8)
def _name_of(main: Any) -> str:
    spec = getattr(main, "__spec__", None)
    if spec is not None:
        parent = spec.name.rpartition(".")[0]
        return parent if spec.name.endswith(".__main__") else str(spec.name)
    return PurePath(getattr(main, "__file__", None) or "__main__").stem


def class_name(cls: type) -> str:
    return f"{module_name(cls)}:{cls.__qualname__}"


def find_module(name: str) -> Any:
    """The module of that name; a program that was started is found by its file's name."""
    found = sys.modules.get("__main__") if name == main_name() else sys.modules.get(name)
    return found if found is not None else importlib.import_module(name)


def find_class(name: str) -> Optional[type]:
    """The class of that name, if its module can be imported."""
    module, _, path = name.partition(":")
    if not path or "<locals>" in path:
        return None
    found: Any = sys.modules.get("__main__") if module == main_name() else sys.modules.get(module)
    if found is None:
        try:
            found = importlib.import_module(module)
        except ImportError:
            return None
    for part in path.split("."):
        found = getattr(found, part, None)
    target = getattr(found, "target", None)
    found = target if isinstance(target, type) else found
    return found if isinstance(found, type) else None


def failure_name(cls: type[BaseException]) -> str:
    """What handlers and retry rules match: the plain name of Python's own exceptions, the full name of others."""
    return cls.__name__ if is_own(cls) else class_name(cls)


def is_own(cls: type) -> bool:
    return getattr(builtins, cls.__name__, None) is cls


def failure_bases(cls: type[BaseException]) -> list[str]:
    """The names of all bases, nearest first, then the full names of what is not Python's own."""
    mro = [each for each in cls.__mro__ if each is not object]
    return [each.__name__ for each in mro[1:]] + [class_name(each) for each in mro if not is_own(each)]
