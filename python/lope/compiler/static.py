"""What names lead to, as far as that is known before anything runs."""

from __future__ import annotations

import ast
import sys
import types
from typing import TYPE_CHECKING, Any

if TYPE_CHECKING:
    from .frame import Frame


def frame_knows(function: types.FunctionType) -> bool:
    """Is it a function of the user's, not one of a library's whose meaning is known?"""
    top = (function.__module__ or "").partition(".")[0]
    return top not in sys.stdlib_module_names and top not in ("lope", "pydantic")


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
