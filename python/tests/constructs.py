"""Which constructs of the list of what must compile a program uses, found in its tree."""

from __future__ import annotations

import ast
from typing import Callable

Test = Callable[[ast.AST], bool]


def _is(*kinds: type[ast.AST]) -> Test:
    return lambda node: isinstance(node, kinds)


def _calls(*names: str) -> Test:
    return lambda node: isinstance(node, ast.Call) and _called(node) in names


def _called(node: ast.Call) -> str:
    function = node.func
    return function.id if isinstance(function, ast.Name) else function.attr if isinstance(function, ast.Attribute) else ""


def _method(*names: str) -> Test:
    return lambda node: isinstance(node, ast.Call) and isinstance(node.func, ast.Attribute) and node.func.attr in names


def _for_over(*names: str) -> Test:
    return lambda node: isinstance(node, ast.For) and isinstance(node.iter, ast.Call) and _called(node.iter) in names


def _awaits(*names: str) -> Test:
    return lambda node: isinstance(node, ast.Await) and isinstance(node.value, ast.Call) and _called(node.value) in names


def _operator(*kinds: type[ast.AST]) -> Test:
    return lambda node: isinstance(node, (ast.BinOp, ast.AugAssign)) and isinstance(node.op, kinds)


STR_METHODS = ("lower", "upper", "title", "strip", "split", "join", "replace", "startswith", "endswith", "find", "format",
               "zfill", "partition", "splitlines", "capitalize", "rjust", "ljust", "removeprefix", "isdigit")  # fmt: skip

_BASES = ("Exception", "LookupError", "ArithmeticError", "OSError")

CONSTRUCTS: dict[str, Test] = {
    "assignment": _is(ast.Assign),
    "tuple unpacking": lambda n: isinstance(n, ast.Assign) and isinstance(n.targets[0], (ast.Tuple, ast.List)),
    "starred assignment": lambda n: isinstance(n, ast.Starred) and isinstance(n.ctx, ast.Store),
    "annotated assignment": _is(ast.AnnAssign),
    "augmented name": lambda n: isinstance(n, ast.AugAssign) and isinstance(n.target, ast.Name),
    "augmented item": lambda n: isinstance(n, ast.AugAssign) and isinstance(n.target, ast.Subscript),
    "augmented attribute": lambda n: isinstance(n, ast.AugAssign) and isinstance(n.target, ast.Attribute),
    "item assignment": lambda n: isinstance(n, ast.Subscript) and isinstance(n.ctx, ast.Store),
    "attribute assignment": lambda n: isinstance(n, ast.Attribute) and isinstance(n.ctx, ast.Store),
    "if": _is(ast.If),
    "elif": lambda n: isinstance(n, ast.If) and len(n.orelse) == 1 and isinstance(n.orelse[0], ast.If),
    "else": lambda n: isinstance(n, ast.If) and bool(n.orelse),
    "chained comparison": lambda n: isinstance(n, ast.Compare) and len(n.ops) > 1,
    "and": lambda n: isinstance(n, ast.BoolOp) and isinstance(n.op, ast.And),
    "or": lambda n: isinstance(n, ast.BoolOp) and isinstance(n.op, ast.Or),
    "not": lambda n: isinstance(n, ast.UnaryOp) and isinstance(n.op, ast.Not),
    "ternary": _is(ast.IfExp),
    "for over a list": lambda n: isinstance(n, ast.For) and isinstance(n.iter, (ast.Name, ast.List, ast.Attribute)),
    "for over range": _for_over("range"),
    "for over enumerate": _for_over("enumerate"),
    "for over zip": _for_over("zip"),
    "for over dict items": _for_over("items"),
    "break": _is(ast.Break),
    "continue": _is(ast.Continue),
    "for else": lambda n: isinstance(n, ast.For) and bool(n.orelse),
    "while": _is(ast.While),
    "while else": lambda n: isinstance(n, ast.While) and bool(n.orelse),
    "try except": lambda n: isinstance(n, ast.Try) and bool(n.handlers),
    "except tuple": lambda n: isinstance(n, ast.ExceptHandler) and isinstance(n.type, ast.Tuple),
    "except base": lambda n: isinstance(n, ast.ExceptHandler) and isinstance(n.type, ast.Name) and n.type.id in _BASES,
    "except as": lambda n: isinstance(n, ast.ExceptHandler) and n.name is not None,
    "except dotted": lambda n: isinstance(n, ast.ExceptHandler) and isinstance(n.type, ast.Attribute),
    "try else": lambda n: isinstance(n, ast.Try) and bool(n.orelse),
    "finally": lambda n: isinstance(n, ast.Try) and bool(n.finalbody),
    "raise": lambda n: isinstance(n, ast.Raise) and n.exc is not None,
    "bare raise": lambda n: isinstance(n, ast.Raise) and n.exc is None,
    "raise from": lambda n: isinstance(n, ast.Raise) and n.cause is not None,
    "assert": _is(ast.Assert),
    "return in a loop": lambda n: isinstance(n, (ast.For, ast.While)) and any(isinstance(e, ast.Return) for e in ast.walk(n)),
    "list comprehension": _is(ast.ListComp),
    "dict comprehension": _is(ast.DictComp),
    "set comprehension": _is(ast.SetComp),
    "generator argument": _is(ast.GeneratorExp),
    "comprehension condition": lambda n: isinstance(n, ast.comprehension) and bool(n.ifs),
    "nested comprehension": lambda n: isinstance(n, (ast.ListComp, ast.SetComp, ast.DictComp)) and len(n.generators) > 1,
    "await in comprehension": lambda n: isinstance(n, ast.ListComp) and any(isinstance(e, ast.Await) for e in ast.walk(n.elt)),
    "f-string": _is(ast.JoinedStr),
    "format spec": lambda n: isinstance(n, ast.FormattedValue) and n.format_spec is not None,
    "slice": _is(ast.Slice),
    "negative index": lambda n: isinstance(n, ast.Subscript) and isinstance(n.slice, ast.UnaryOp),
    "in": lambda n: isinstance(n, ast.Compare) and isinstance(n.ops[0], (ast.In, ast.NotIn)),
    "is None": lambda n: isinstance(n, ast.Compare) and isinstance(n.ops[0], (ast.Is, ast.IsNot)),
    "arithmetic": _operator(ast.Add, ast.Sub, ast.Mult),
    "division": _operator(ast.Div),
    "floor division": _operator(ast.FloorDiv),
    "modulo": _operator(ast.Mod),
    "power": _operator(ast.Pow),
    "bits": _operator(ast.BitAnd, ast.BitOr, ast.BitXor, ast.LShift, ast.RShift),
    "walrus": _is(ast.NamedExpr),
    "len": _calls("len"),
    "min and max": _calls("min", "max"),
    "sum": _calls("sum"),
    "sorted": _calls("sorted"),
    "key function": lambda n: isinstance(n, ast.keyword) and n.arg == "key",
    "reversed": _calls("reversed"),
    "any and all": _calls("any", "all"),
    "abs and round": _calls("abs", "round"),
    "int, float, str, bool": _calls("int", "float", "str", "bool"),
    "list, dict, set, tuple": _calls("list", "dict", "set", "tuple"),
    "isinstance": _calls("isinstance"),
    "methods of str": _method(*STR_METHODS),
    "methods of list": _method("index", "count", "copy", "reverse", "remove"),
    "methods of dict": _method("get", "keys", "values", "items"),
    "append": _method("append"),
    "extend": _method("extend"),
    "insert": _method("insert"),
    "pop": _method("pop"),
    "update": _method("update"),
    "setdefault": _method("setdefault"),
    "sort": _method("sort"),
    "dataclass construction": _calls("Item", "Order", "Point"),
    "pydantic construction": _calls("Account"),
    "enum": lambda n: isinstance(n, ast.Name) and n.id in ("Colour", "Level"),
    "await action": _awaits("add", "echo", "double", "fail", "maybe", "price", "make_order", "total", "describe", "coded"),
    "gather": _calls("gather"),
    "gather starred": lambda n: isinstance(n, ast.Call) and _called(n) == "gather" and any(isinstance(a, ast.Starred) for a in n.args),
    "return_exceptions": lambda n: isinstance(n, ast.keyword) and n.arg == "return_exceptions",
    "sleep": _awaits("sleep"),
    "wait_signal": _awaits("wait_signal"),
    "wait_for": _calls("wait_for"),
    "create_task": _calls("create_task"),
    "coroutine as a value": lambda n: isinstance(n, ast.Await) and isinstance(n.value, ast.Name),
    "other workflow": _awaits("child", "child_default", "child_failing"),
    "helper": lambda n: isinstance(n, ast.Call) and _called(n).startswith("help_"),
    "recursion": lambda n: isinstance(n, ast.Call) and _called(n).startswith("help_re"),
    "nested function": lambda n: isinstance(n, (ast.FunctionDef, ast.AsyncFunctionDef)) and n.name.startswith("inner"),
    "method": lambda n: isinstance(n, ast.Call) and isinstance(n.func, ast.Attribute) and isinstance(n.func.value, ast.Name) and n.func.value.id == "self",
    "super": _calls("super"),
    "default argument": lambda n: isinstance(n, ast.arguments) and bool(n.defaults),
    "keyword-only argument": lambda n: isinstance(n, ast.arguments) and bool(n.kwonlyargs),
    "keyword call": lambda n: isinstance(n, ast.Call) and any(k.arg for k in n.keywords),
    "*args at a call": lambda n: isinstance(n, ast.Call) and _called(n) != "gather" and any(isinstance(a, ast.Starred) for a in n.args),
    "**kwargs at a call": lambda n: isinstance(n, ast.Call) and any(k.arg is None for k in n.keywords),
}  # fmt: skip


# What must compile, line by line, and the constructs whose programs hold the line.
LINES: dict[str, tuple[str, ...]] = {
    "Assignment, tuple unpacking, starred, annotated and augmented assignment (names, items, attributes)": (
        "assignment", "tuple unpacking", "starred assignment", "annotated assignment", "augmented name", "augmented item",
        "augmented attribute", "item assignment", "attribute assignment"),
    "if/elif/else": ("if", "elif", "else"),
    "chained comparisons": ("chained comparison",),
    "`and/or/not` with Python truth": ("and", "or", "not"),
    "ternary": ("ternary",),
    "for over list, range, enumerate, zip, dict items, with break, continue, else": (
        "for over a list", "for over range", "for over enumerate", "for over zip", "for over dict items", "break",
        "continue", "for else"),
    "while with else": ("while", "while else"),
    "try/except (tuples, `as e`, dotted names, bases)/else/finally": (
        "try except", "except tuple", "except as", "except dotted", "except base", "try else", "finally"),
    "raise (new, bare, from)": ("raise", "bare raise", "raise from"),
    "return anywhere": ("return in a loop",),
    "list, dict, set comprehensions and generator arguments with conditions and nesting": (
        "list comprehension", "dict comprehension", "set comprehension", "generator argument", "comprehension condition",
        "nested comprehension", "await in comprehension"),
    "f-strings with format specs": ("f-string", "format spec"),
    "slices, negative indexes": ("slice", "negative index"),
    "`in`, `is None`": ("in", "is None"),
    "arithmetic with Python's int, float, //, % and ** meaning": (
        "arithmetic", "division", "floor division", "modulo", "power"),
    "len, range, enumerate, zip, min, max, sum, sorted, reversed, any, all, abs, round, int, float, str, bool, list, dict, "
    "set, tuple, isinstance of known types": (
        "len", "min and max", "sum", "sorted", "key function", "reversed", "any and all", "abs and round",
        "int, float, str, bool", "list, dict, set, tuple", "isinstance"),
    "common pure methods of str, list, dict": ("methods of str", "methods of list", "methods of dict"),
    "append/extend/insert/pop/update/setdefault on local values": (
        "append", "extend", "insert", "pop", "update", "setdefault", "sort"),
    "dataclass, pydantic and enum construction and attribute access": (
        "dataclass construction", "pydantic construction", "enum", "attribute assignment"),
    "`await` of actions, of `gather` (fixed, starred, `return_exceptions`), of `sleep`, `wait_signal`, other workflows, local "
    "async and plain helper functions and methods (inheritance, recursion)": (
        "await action", "gather", "gather starred", "return_exceptions", "sleep", "wait_signal", "other workflow", "helper",
        "recursion", "nested function", "method", "super"),
    "`asyncio.wait_for` and `create_task` with later await": ("wait_for", "create_task", "coroutine as a value"),
    "default arguments, keyword-only arguments, `*args/**kwargs` at calls": (
        "default argument", "keyword-only argument", "keyword call", "*args at a call", "**kwargs at a call"),
}  # fmt: skip

# Beyond the list, because people write it.
BEYOND = {"assert", "bits", "walrus"}


def constructs_of(tree: ast.AST) -> set[str]:
    nodes = list(ast.walk(tree))
    return {name for name, test in CONSTRUCTS.items() if any(test(node) for node in nodes)}
