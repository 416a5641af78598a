"""Which names a function binds, and which expressions are more than a value: they await, change something, or call."""

from __future__ import annotations

import ast
import sys
import types
from typing import TYPE_CHECKING, Any, Iterator

from .table import METHODS

if TYPE_CHECKING:
    from .frame import Frame

_SCOPES = (ast.FunctionDef, ast.AsyncFunctionDef, ast.Lambda, ast.ClassDef)
_COMPREHENSIONS = (ast.ListComp, ast.SetComp, ast.DictComp, ast.GeneratorExp)


def own_nodes(node: ast.AST) -> Iterator[ast.AST]:
    """The nodes of a function without those of the functions inside it."""
    for child in ast.iter_child_nodes(node):
        yield child
        if not isinstance(child, _SCOPES):
            yield from own_nodes(child)


def assigned_names(function: ast.FunctionDef | ast.AsyncFunctionDef) -> set[str]:
    """The local variables of a function, its parameters included; those of comprehensions are theirs."""
    arguments = function.args
    found = {each.arg for each in (*arguments.posonlyargs, *arguments.args, *arguments.kwonlyargs)}
    found |= {each.arg for each in (arguments.vararg, arguments.kwarg) if each is not None}
    for statement in function.body:
        found |= _stored(statement)
    return found


def _stored(node: ast.AST) -> set[str]:
    if isinstance(node, _COMPREHENSIONS):
        return {each.target.id for each in ast.walk(node) if isinstance(each, ast.NamedExpr)}
    if isinstance(node, _SCOPES):
        return set()
    if isinstance(node, ast.Name):
        return {node.id} if isinstance(node.ctx, ast.Store) else set()
    found: set[str] = set()
    if isinstance(node, ast.ExceptHandler) and node.name is not None:
        found.add(node.name)
    for child in ast.iter_child_nodes(node):
        found |= _stored(child)
    return found


def has_effects(node: ast.AST, frame: "Frame") -> bool:
    """Must some of this become steps of its own?"""
    if isinstance(node, (ast.Await, ast.NamedExpr)):
        return True
    if isinstance(node, ast.Call) and is_step(node, frame):
        return True
    if isinstance(node, ast.Attribute) and is_property(node, frame):
        return True
    if isinstance(node, ast.Lambda):
        return False
    return any(has_effects(child, frame) for child in ast.iter_child_nodes(node))


def is_step(node: ast.Call, frame: "Frame") -> bool:
    """Does this call become a step: a function of the user's, a method that changes its object, a constructor?"""
    function = node.func
    if isinstance(function, ast.Name) and function.id in frame.nested:
        return not isinstance(frame.nested[function.id].node, ast.AsyncFunctionDef)
    if isinstance(function, ast.Attribute):
        if is_self(function.value, frame) or is_super(function.value):
            return True
        if quiet_static(function, frame) is None and function.attr in METHODS:
            return METHODS[function.attr][0] != "M"
    found = quiet_static(function, frame)
    if isinstance(found, types.FunctionType):
        return frame_knows(found)
    from .classes import constructs_by_steps

    return isinstance(found, type) and constructs_by_steps(found, node)


def is_property(node: ast.Attribute, frame: "Frame") -> bool:
    return (
        isinstance(node.ctx, ast.Load)
        and is_self(node.value, frame)
        and isinstance(getattr(frame.klass, node.attr, None), property)
    )


def frame_knows(function: types.FunctionType) -> bool:
    """Is it a function of the user's, not one of a library's whose meaning is known?"""
    top = (function.__module__ or "").partition(".")[0]
    return top not in sys.stdlib_module_names and top not in ("lope", "pydantic")


def is_self(node: ast.AST, frame: "Frame") -> bool:
    return isinstance(node, ast.Name) and frame.self_name is not None and node.id == frame.self_name


def is_super(node: ast.AST) -> bool:
    return isinstance(node, ast.Call) and isinstance(node.func, ast.Name) and node.func.id == "super"


def quiet_static(node: ast.expr, frame: "Frame") -> Any:
    """As `static`, but nothing where that would refuse."""
    if isinstance(node, ast.Name):
        if frame.is_local(node.id):
            return None
        return frame.unit.lookup(node.id)[1]
    if isinstance(node, ast.Attribute):
        whole = quiet_static(node.value, frame)
        return getattr(whole, node.attr, None) if isinstance(whole, (types.ModuleType, type)) else None
    return None
