"""What names lead to, as far as that is known before anything runs."""

from __future__ import annotations

import ast
import inspect
import sys
import types
from typing import TYPE_CHECKING, Any

from ..decorators import Action, Workflow

if TYPE_CHECKING:
    from .frame import Frame


def frame_knows(function: Any) -> bool:
    """Is it a function of the user's, not one of a library's whose meaning is known?"""
    top = (function.__module__ or "").partition(".")[0]
    return top not in sys.stdlib_module_names and top not in ("lope", "pydantic")


def named_by(found: Any) -> list[Any]:
    """Actions, workflows, async functions and classes that a plain function or a class of the user's names, and those that it
    calls do; of an object its class."""
    waiting, seen, named = [found], set(), []
    while waiting:
        each = waiting.pop()
        if id(each) in seen:
            continue
        seen.add(id(each))
        if isinstance(each, (Action, Workflow)) or inspect.iscoroutinefunction(each):
            named.append(each)
            continue
        if isinstance(each, type):
            named.append(each)
        functions = [each] if isinstance(each, types.FunctionType) else [
            getattr(part, "__func__", part) for part in vars(each).values()
        ]  # fmt: skip
        for function in functions:
            function = inspect.unwrap(function)
            if isinstance(function, types.FunctionType) and not inspect.iscoroutinefunction(function):
                known = inspect.getclosurevars(function).globals.values()
                waiting += [part for part in known if _may_lead_on(part)]
                waiting += [type(part) for part in known if is_users(type(part))]
    return named


def is_users(cls: type) -> bool:
    """Is it a class of the user's, whose objects have async methods perhaps?"""
    return issubclass(cls, object) and not issubclass(cls, (type, Action, Workflow)) and frame_knows(cls)


def _may_lead_on(part: Any) -> bool:
    if isinstance(part, (Action, Workflow)):
        return True
    return isinstance(part, (types.FunctionType, type)) and frame_knows(part)


def quiet_static(node: ast.expr, frame: "Frame") -> Any:
    """What an expression means if that is known now; else nothing."""
    if isinstance(node, ast.Name):
        if frame.is_local(node.id):
            return None
        return frame.unit.lookup(node.id)[1]
    if isinstance(node, ast.Attribute):
        whole = quiet_static(node.value, frame)
        return getattr(whole, node.attr, None) if isinstance(whole, (types.ModuleType, type)) else None
    return None
