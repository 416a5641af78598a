"""What the syntax alone tells: paths, names that are kept, types and variables of which nothing can be changed."""

from __future__ import annotations

import ast
from typing import Any, Iterator, Optional

from ..effects import own_nodes


def key_of(node: ast.Attribute | ast.Subscript) -> Any:
    """The first step into a value, if it is known."""
    if isinstance(node, ast.Attribute):
        return ("attr", node.attr)
    return ("item", node.slice.value) if isinstance(node.slice, ast.Constant) else None


def path_of(node: ast.expr) -> tuple[Optional[str], list[Any]]:
    keys: list[Any] = []
    while isinstance(node, (ast.Attribute, ast.Subscript)):
        keys.insert(0, key_of(node))
        node = node.value
    return (node.id if isinstance(node, ast.Name) else None), keys


def in_order(node: ast.AST) -> Iterator[ast.AST]:
    """The nodes of an expression, operands before what uses them."""
    for child in ast.iter_child_nodes(node):
        if not isinstance(child, (ast.Lambda, ast.FunctionDef, ast.AsyncFunctionDef)):
            yield from in_order(child)
    yield node


def kept_names(node: ast.AST) -> list[str]:
    return [each.id for each in kept_names_at(node)]


def kept_names_at(node: ast.AST) -> list[ast.Name]:
    """The names whose values, or parts of them, go into a value as they are."""
    if isinstance(node, ast.Name):
        return [node]
    if isinstance(node, (ast.Attribute, ast.Subscript)):
        inner: ast.expr = node
        while isinstance(inner, (ast.Attribute, ast.Subscript)):
            inner = inner.value
        return [inner] if isinstance(inner, ast.Name) else []
    if isinstance(node, (ast.List, ast.Tuple, ast.Set)):
        return [each for item in node.elts for each in kept_names_at(item)]
    if isinstance(node, ast.Dict):
        return [each for item in node.values for each in kept_names_at(item)]
    if isinstance(node, (ast.Starred, ast.Return, ast.Expr, ast.Assign, ast.Await, ast.AnnAssign)):
        return kept_names_at(node.value) if node.value is not None else []
    if isinstance(node, ast.IfExp):
        return [*kept_names_at(node.body), *kept_names_at(node.orelse)]
    if isinstance(node, ast.BoolOp):
        return [each for item in node.values for each in kept_names_at(item)]
    if isinstance(node, ast.Call):
        return [each for item in (*node.args, *(k.value for k in node.keywords)) for each in kept_names_at(item)]
    return []


def repeats(node: ast.expr) -> bool:
    """`[[]] * 3`: one part, several times."""
    if not isinstance(node, ast.BinOp) or not isinstance(node.op, ast.Mult):
        return False
    sides = [each for each in (node.left, node.right) if isinstance(each, ast.List)]
    return any(not isinstance(item, ast.Constant) for each in sides for item in each.elts)


def is_constant(node: ast.AST) -> bool:
    """A literal without anything in it that can be changed."""
    if isinstance(node, ast.Tuple):
        return all(is_constant(each) for each in node.elts)
    return isinstance(node, ast.Constant)


_PLAIN = ("int", "float", "str", "bool", "bytes", "None", "Decimal", "date", "datetime", "UUID")


def is_plain_type(node: Optional[ast.AST]) -> bool:
    if isinstance(node, ast.Constant):
        return node.value is None or node.value in _PLAIN
    if isinstance(node, ast.BinOp):
        return is_plain_type(node.left) and is_plain_type(node.right)
    if isinstance(node, ast.Subscript) and isinstance(node.value, ast.Name) and node.value.id == "Optional":
        return is_plain_type(node.slice)
    return isinstance(node, ast.Name) and node.id in _PLAIN


def is_flat_type(node: Optional[ast.AST]) -> bool:
    if not isinstance(node, ast.Subscript) or not isinstance(node.value, ast.Name):
        return False
    inner = node.slice.elts if isinstance(node.slice, ast.Tuple) else [node.slice]
    return node.value.id in ("list", "dict", "set", "tuple") and all(is_plain_type(each) for each in inner)


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
            if isinstance(node.left, ast.Name) and is_number(node.right):
                found.add(node.left.id)
        elif isinstance(node, ast.Compare) and isinstance(node.left, ast.Name):
            if isinstance(node.ops[0], (ast.Lt, ast.LtE, ast.Gt, ast.GtE)) and is_number(node.comparators[0]):
                found.add(node.left.id)
        elif isinstance(node, ast.AugAssign) and isinstance(node.target, ast.Name) and is_number(node.value):
            if isinstance(node.op, (ast.Add, ast.Sub)):
                found.add(node.target.id)
        elif isinstance(node, ast.Attribute) and isinstance(node.value, ast.Name):
            never.add(node.value.id)
        elif isinstance(node, (ast.For, ast.comprehension)) and isinstance(node.iter, ast.Name):
            never.add(node.iter.id)
    return found - never


def is_number(node: ast.AST) -> bool:
    return isinstance(node, ast.Constant) and isinstance(node.value, (int, float)) and not isinstance(node.value, bool)


def over_scalars(node: ast.expr) -> bool:
    if isinstance(node, (ast.List, ast.Tuple)) and all(is_constant(each) for each in node.elts):
        return True
    return isinstance(node, ast.Call) and isinstance(node.func, ast.Name) and node.func.id == "range"


def gone_over(node: ast.expr) -> list[ast.expr]:
    """The values that a loop goes over as they are, and not as copies."""
    if isinstance(node, (ast.Name, ast.Attribute, ast.Subscript)):
        return [node]
    if isinstance(node, ast.Call) and isinstance(node.func, ast.Name) and node.func.id in ("enumerate", "zip", "reversed"):
        return [each for argument in node.args for each in gone_over(argument)]
    if isinstance(node, ast.Call) and isinstance(node.func, ast.Attribute) and node.func.attr in ("items", "keys", "values"):
        return [node.func.value]
    return []
