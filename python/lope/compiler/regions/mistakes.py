"""What Python would take and nobody can mean in a workflow: refused where it is written."""

from __future__ import annotations

import ast
import asyncio
import builtins
import inspect
import types
from typing import TYPE_CHECKING, Any, Optional

from ...decorators import Action, Workflow
from ..options import AWAITABLE
from ..static import frame_knows, quiet_static
from ..signature import bind
from .handlers import lets_go_on
from .program import has_await

if TYPE_CHECKING:
    from .flow import Flow


_CHANGES = frozenset({
    "add", "append", "clear", "difference_update", "discard", "extend", "insert", "intersection_update", "pop", "popitem",
    "remove", "reverse", "setdefault", "sort", "update",
})  # fmt: skip


def check_node(node: ast.AST, flow: "Flow") -> None:
    if isinstance(node, ast.Expr):
        _not_awaited(node.value, flow, "write await before it")
    elif isinstance(node, ast.Return) and flow.root and node.value is not None:
        _not_awaited(node.value, flow, "write return await …")
    elif isinstance(node, ast.Attribute):
        _attribute(node, flow)
    elif isinstance(node, ast.Call):
        _call(node, flow)
    elif isinstance(node, ast.Try):
        _handlers(node, flow)
    if isinstance(node, (ast.Attribute, ast.Subscript)) and not isinstance(node.ctx, ast.Load):
        _belongs(node.value, flow)


def _not_awaited(node: ast.expr, flow: "Flow", advice: str) -> None:
    if not isinstance(node, ast.Call):
        return
    found: Any = quiet_static(node.func, flow)
    known = isinstance(found, (Action, Workflow)) or any(found is each for each in AWAITABLE)
    if not known and isinstance(found, types.FunctionType):
        known = asyncio.iscoroutinefunction(found) and frame_knows(found)
    if known:
        flow.refuse(node, f"'{ast.unparse(node.func)}' is called and not awaited", advice)


def check_uncalled(node: ast.AST, called: set[int], flow: "Flow") -> None:
    """What means something else in a workflow is called there, not passed on."""
    if not isinstance(node, (ast.Name, ast.Attribute)) or not isinstance(node.ctx, ast.Load) or id(node) in called:
        return
    found = quiet_static(node, flow)
    if isinstance(found, types.FunctionType) and found in _MEANT:
        flow.refuse(node, f"'{ast.unparse(node)}' is named and not called", "call it where it is awaited")


_MEANT = (asyncio.gather, asyncio.wait_for, asyncio.create_task, asyncio.ensure_future, asyncio.as_completed)


def check_plain(found: types.FunctionType, node: ast.AST, flow: "Flow") -> None:
    """A plain function runs in a region, where there is no loop of asyncio's."""
    if any(each is asyncio for each in _globals_of(found)):
        word = next((each for each in found.__code__.co_names if getattr(asyncio, each, None) in _MEANT), None)
        if word is not None:
            flow.refuse(node, f"'{found.__name__}' calls asyncio.{word}, and is no async function", "write async def, and await it")


def _globals_of(found: types.FunctionType) -> list[Any]:
    return [found.__globals__.get(each) for each in found.__code__.co_names]


def _attribute(node: ast.Attribute, flow: "Flow") -> None:
    whole = quiet_static(node.value, flow)
    if isinstance(whole, types.ModuleType) and isinstance(node.ctx, ast.Load) and not hasattr(whole, node.attr):
        flow.refuse(node, f"{whole.__name__} has no attribute '{node.attr}'", "check the spelling")


def _call(node: ast.Call, flow: "Flow") -> None:
    found = quiet_static(node.func, flow)
    if isinstance(found, (Action, Workflow)):
        if any(isinstance(each, ast.Starred) for each in node.args) or any(each.arg is None for each in node.keywords):
            return
        keywords = {str(each.arg): each.value for each in node.keywords}
        _, problem = bind(found.signature, list(node.args), keywords)
        if problem is not None:
            flow.refuse(node, f"{ast.unparse(node.func)}() {problem}", f"its parameters are {found.signature}")
    elif isinstance(node.func, ast.Attribute) and node.func.attr in _CHANGES:
        _belongs(node.func.value, flow)
    if isinstance(found, (Action, Workflow)) or (inspect.iscoroutinefunction(found) and found not in AWAITABLE):
        for each in (*node.args, *(keyword.value for keyword in node.keywords)):
            if isinstance(each, ast.GeneratorExp):
                flow.refuse(each, "a generator that is given to something that is awaited", "make a list: [… for … in …]")


def _handlers(node: ast.Try, flow: "Flow") -> None:
    for each in node.handlers if any(map(has_await, node.body)) else ():
        kinds = each.type.elts if isinstance(each.type, ast.Tuple) else [each.type] if each.type is not None else []
        if any(quiet_static(kind, flow) is asyncio.CancelledError for kind in kinds) and not lets_go_on(each):
            flow.refuse(
                each.type or each, "a handler of CancelledError that does not end with raise",
                "nobody can stop a cancel: end it with raise, or use finally",
            )  # fmt: skip


def _belongs(node: ast.expr, flow: "Flow") -> None:
    """Each worker has its own module: a change of what belongs to it would be seen by some and not by others."""
    root: Optional[ast.expr] = node
    while isinstance(root, (ast.Attribute, ast.Subscript)):
        root = root.value
    if not isinstance(root, ast.Name) or not isinstance(root.ctx, ast.Load) or flow.is_local(root.id):
        return
    if any(root.id in each.locals for each in flow.around()) or not flow.unit.lookup(root.id)[0]:
        return
    found = flow.unit.lookup(root.id)[1]
    if root is node and (isinstance(found, (types.ModuleType, types.FunctionType)) or found in vars(builtins).values()):
        return
    flow.refuse(node, f"'{ast.unparse(node)}' belongs to the module and would be changed", "copy it into a variable first")
