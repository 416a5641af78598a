"""Classes: dataclasses, models, enums and exceptions that a workflow makes, and the types that it asks about."""

from __future__ import annotations

import ast
import dataclasses
import enum
import inspect
import types
import typing
from datetime import date, datetime, time, timedelta
from decimal import Decimal
from pathlib import PurePath
from typing import Any, Optional
from uuid import UUID

from ..values.encode import is_model, object_form
from ..values.names import class_name, failure_bases, failure_name, is_own
from . import code
from .code import Code, call, literal, op, text_map
from .frame import MISSING
from .functions import Functions
from .signature import bind

# The action that makes what only Python can make: it validates, or runs code of the user's.
CONSTRUCT = "lope.construct"

_PLAIN = {int: "int", float: "float", str: "str", bool: "bool", bytes: "bytes", list: "list", tuple: "tuple",
          set: "set", frozenset: "frozenset", dict: "dict", type(None): "NoneType", object: "object",
          Decimal: "decimal", datetime: "datetime", time: "time", timedelta: "timedelta", UUID: "uuid"}  # fmt: skip
_EMPTY: dict[Any, Any] = {list: [], dict: {}, set: set(), tuple: (), str: "", int: 0, float: 0.0, bool: False}
_BEHAVIOUR = ("__eq__", "__hash__", "__repr__", "__str__", "__bool__", "__len__", "__lt__", "__getattr__",
              "__getattribute__", "__setattr__", "__getitem__", "__contains__", "__iter__", "__format__")  # fmt: skip


def constructs_by_steps(cls: type, node: ast.Call) -> bool:
    """Is a call of this class more than an expression?"""
    if issubclass(cls, BaseException):
        return not is_own(cls) and _own_code(cls)
    if issubclass(cls, enum.Enum):
        return True
    return is_model(cls) or (dataclasses.is_dataclass(cls) and _needs_python(cls, node))


def _own_code(cls: type) -> bool:
    """Does making one run code of the user's?"""
    mine = [each for each in cls.__mro__ if not is_own(each) and each.__module__ != "builtins"]
    return any(name in vars(each) for each in mine for name in ("__init__", "__new__", "__str__"))


def _needs_python(cls: Any, node: ast.Call) -> bool:
    if hasattr(cls, "__post_init__") or any(isinstance(each, ast.Starred) for each in node.args):
        return True
    if any(each.arg is None for each in node.keywords) or not cls.__dataclass_params__.init:
        return True
    fields = cls.__dataclass_fields__.values()
    if any("ClassVar" not in str(each._field_type) and "FIELD_INITVAR" in str(each._field_type) for each in fields):
        return True
    if any("__init__" in vars(each) and not hasattr(each, "__dataclass_fields__") for each in cls.__mro__[:-1]):
        return True
    factories = [each.default_factory for each in fields]
    return any(each is not dataclasses.MISSING and each not in _EMPTY for each in factories)


class Classes(Functions):
    def construct(self, cls: type, node: ast.Call) -> Code:
        if issubclass(cls, BaseException):
            return self.make_exception(cls, node)
        if issubclass(cls, enum.Enum):
            return self.make_member(cls, node)
        if dataclasses.is_dataclass(cls):
            self.check_behaviour(cls, node)
            return self.by_worker(cls, node) if _needs_python(cls, node) else self.make_dataclass(cls, node)
        if is_model(cls):
            return self.by_worker(cls, node)
        return self.unknown(cls, node)

    def unknown(self, found: Any, node: ast.Call) -> Code:
        raise NotImplementedError

    def spread(self, node: ast.Call) -> tuple[Code, Code]:
        raise NotImplementedError

    def check_behaviour(self, cls: Any, node: ast.Call) -> None:
        """A class that says itself what == or str() mean would be something else in a workflow."""
        for each in cls.__mro__[:-1]:
            for name in _BEHAVIOUR:
                if isinstance(method := vars(each).get(name), types.FunctionType) and _written(method, each):
                    self.refuse(
                        node,
                        f"{cls.__name__} defines {name}, which a workflow cannot run",
                        "make and use such objects in an @action",
                    )
        parameters = cls.__dataclass_params__
        if parameters.order or not parameters.eq:
            self.refuse(node, f"{cls.__name__} has an order or an equality of its own", "use key= with a field to sort by")

    def by_worker(self, cls: type, node: ast.Call) -> Code:
        """What only Python can make is made by a worker, in a step."""
        positional, keywords = self.spread(node)
        self.program.actions.add(CONSTRUCT)
        given = text_map([("cls", literal(class_name(cls))), ("args", positional), ("kwargs", keywords)])
        target = self.program.fresh("t")
        kind = {"dispatch": {"executor": "action", "action": CONSTRUCT, "with": given.to_json()}}
        self.emit(kind, cls.__name__, node, to=target)
        return code.name(target, self.at(node))

    def make_dataclass(self, cls: Any, node: ast.Call) -> Code:
        nodes = [*node.args, *(each.value for each in node.keywords)]
        values = self.operands(nodes)
        names = [str(each.arg) for each in node.keywords]
        found, problem = bind(inspect.signature(cls), values[: len(node.args)], dict(zip(names, values[len(node.args):])))
        if problem is not None:
            self.refuse(node, f"{cls.__name__}(…) {problem}", f"its fields are {inspect.signature(cls)}")
        entries = [(each.name, found.get(each.name) or self.default(each, node)) for each in dataclasses.fields(cls)]
        form = object_form(cls)
        extra = [] if form is None else [literal(form)]
        return call("py.object", literal(class_name(cls)), text_map(entries), *extra, at=self.at(node))

    def default(self, field: Any, node: ast.Call) -> Code:
        if field.default is not dataclasses.MISSING:
            return self.constant(field.default, node)
        return literal(_EMPTY[field.default_factory])

    def make_member(self, cls: type[enum.Enum], node: ast.Call) -> Code:
        """`Colour("red")`: the member of that value, or Python's complaint."""
        if len(node.args) != 1 or node.keywords:
            self.refuse(node, f"{cls.__name__}(…) takes one value", f"write {cls.__name__}(value)")
        value = self.let(self.expr(node.args[0]), node)
        values = literal([member.value for member in cls])
        whole = code.name(self.program.fresh("t"))
        target = str(whole.instructions[0][1])
        members = literal(list(cls))
        place = call("py.m.index", values, value)
        with self.inside(self.program.block()) as then:
            self.let(op(["py.index"], members, place), node, target)
        with self.inside(self.program.block()) as otherwise:
            shown = op(["text", 2], call("py.repr", value), literal(f" is not a valid {cls.__qualname__}"))
            error = text_map([("type", literal("ValueError")), ("message", shown), ("bases", literal(["Exception"]))])
            self.emit({"raise": {"error": error.to_json()}}, f"raise-{node.lineno}", node)
        when = op(["py.in"], value, values)
        kind = {"if": {"when": when.to_json(), "then": then.number, "otherwise": otherwise.number}}
        self.emit(kind, f"if-{node.lineno}", node)
        return code.name(target, self.at(node))

    def make_exception(self, cls: type[BaseException], node: ast.Call) -> Code:
        if not issubclass(cls, Exception):
            self.refuse(node, f"{cls.__name__} is no ordinary exception", "raise a subclass of Exception")
        if node.keywords or any(isinstance(each, ast.Starred) for each in node.args) or constructs_by_steps(cls, node):
            return self.by_worker(cls, node)
        if issubclass(cls, (OSError, UnicodeError, SyntaxError, ImportError)) and len(node.args) > 1:
            self.refuse(node, f"{cls.__name__} with several arguments", "raise it with one text, or in an @action")
        values = self.operands(node.args)
        if any(len(value.instructions) > 1 for value in values):
            values = [self.let(value, node) if len(value.instructions) > 3 else value for value in values]
        return self.exception_value(cls, values, node)

    def exception_value(self, cls: type[BaseException], values: list[Code], node: ast.AST) -> Code:
        """An exception as a value: its message is the text of its arguments."""
        if not values:
            message = literal("")
        elif len(values) == 1:
            message = call("py.repr" if issubclass(cls, KeyError) else "py.str", values[0])
        else:
            message = call("py.repr", call("py.tuple_of", *values))
        entries = [("type", literal(cls.__name__)), ("message", message), ("bases", literal(failure_bases(cls)))]
        if values:
            detail = text_map([("args", code.listed(values))])
            entries.append(("detail", detail))
        return call("py.exception", text_map(entries), at=self.at(node))

    # Types.

    def type_names(self, node: ast.expr) -> list[str]:
        """The names under which the law knows the types of an isinstance()."""
        if isinstance(node, ast.Tuple):
            return [name for each in node.elts for name in self.type_names(each)]
        if isinstance(node, ast.BinOp) and isinstance(node.op, ast.BitOr):
            return [*self.type_names(node.left), *self.type_names(node.right)]
        if isinstance(node, ast.Constant) and node.value is None:
            return ["NoneType"]
        if isinstance(node, ast.Call) and ast.unparse(node) == "type(None)":
            return ["NoneType"]
        found = self.static(node)
        if isinstance(found, tuple):
            return [name for each in found for name in self.names_of(each, node)]
        if found is MISSING:
            self.refuse(node, "a type that is only known when it runs", "name the types: isinstance(x, (int, str))")
        return self.names_of(found, node)

    def names_of(self, cls: Any, node: ast.expr) -> list[str]:
        if isinstance(cls, types.UnionType):
            return [name for each in typing.get_args(cls) for name in self.names_of(each, node)]
        if not isinstance(cls, type):
            self.refuse(node, f"'{ast.unparse(node)}' is no type", "name a class")
        if cls in _PLAIN:
            return [_PLAIN[cls]]
        if cls is date:
            return ["date", "datetime"]
        if issubclass(cls, PurePath):
            return ["path"]
        if issubclass(cls, BaseException):
            return failure_names(cls)
        if dataclasses.is_dataclass(cls) or is_model(cls) or issubclass(cls, enum.Enum):
            return [class_name(each) for each in with_subclasses(cls)]
        self.refuse(node, f"isinstance of {cls.__name__}, which is not known here", "ask for it in an @action")


def failure_names(cls: type[BaseException]) -> list[str]:
    """What a handler of this exception matches; Lope's own timeouts are Python's."""
    if cls is TimeoutError:
        return ["TimeoutError", "Timeout", "Deadline"]
    if cls is OSError:
        return ["OSError", "Timeout", "Deadline"]
    return [failure_name(cls)]


def with_subclasses(cls: type) -> list[type]:
    found = [cls]
    inner: list[type] = cls.__subclasses__()
    for each in inner:
        found += with_subclasses(each)
    return found


def _written(method: types.FunctionType, cls: type) -> bool:
    """Was a method written by hand? Those of dataclasses and models are made."""
    inner = inspect.unwrap(method)
    file: Optional[str] = inner.__code__.co_filename
    return not (file or "").startswith("<") and method.__module__ == cls.__module__
