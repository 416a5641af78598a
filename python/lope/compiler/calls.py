"""Calls that are no awaits: built-in functions, methods of values, constructors, functions of the user's."""

from __future__ import annotations

import ast
import builtins
import types
from typing import Any, Optional, Sequence

from ..decorators import Action, Workflow
from . import code
from .classes import Classes
from .code import Code, call, listed, literal, op
from .effects import is_self, is_super
from .expressions import is_view
from .frame import MISSING
from .paths import Path
from .signature import parse_parameters
from .table import (
    CONSUMES,
    FUNCTION_KEYWORDS,
    FUNCTIONS,
    ITERATORS,
    KEYWORDS,
    METHODS,
    REFUSED,
    REFUSED_MODULES,
)


class Calls(Classes):
    def call_value(self, node: ast.Call, consumed: bool) -> Code:
        function = node.func
        if isinstance(function, ast.Name) and function.id in self.nested:
            return self.function_call(self.nested_function(function.id, node), node)
        if isinstance(function, ast.Attribute):
            if is_self(function.value, self) or is_super(function.value):
                return self.function_call(self.method(function, node), node)
        found = self.static(function)
        if found is not MISSING:
            return self.static_call(found, node, consumed)
        if isinstance(function, ast.Attribute):
            return self.method_call(function, node, consumed)
        if isinstance(function, ast.Call):
            return self.coroutine(node)
        if isinstance(function, ast.Lambda):
            self.refuse(function, "a lambda outside of key=", "write the expression itself")
        self.refuse(node, "a call of something that is only known when it runs", "call a function by its name")

    def static_call(self, found: Any, node: ast.Call, consumed: bool) -> Code:
        """A call of something that is known now."""
        if isinstance(found, (Action, Workflow)):
            return self.coroutine(node)
        if isinstance(found, type) and getattr(builtins, found.__name__, None) is not found:
            return self.construct(found, node)
        if isinstance(found, type) and issubclass(found, BaseException):
            return self.construct(found, node)
        title = str(getattr(found, "__name__", ""))
        if getattr(builtins, title, None) is found:
            return self.builtin_call(title, node, consumed)
        owner = getattr(found, "__self__", None)
        if owner is dict and getattr(found, "__name__", "") == "fromkeys":
            self.no_keywords(node)
            arguments = [self.expr(each, consumed=place == 0) for place, each in enumerate(node.args)]
            return call("py.fromkeys", *arguments, at=self.at(node))
        if self.is_awaitable(found):
            self.refuse(node, f"'{self.title(node.func)}' is called and not awaited", "write await before it")
        if isinstance(found, types.FunctionType) and self.knows(found):
            return self.function_call(self.function(found, node), node)
        return self.unknown(found, node)

    def is_awaitable(self, found: Any) -> bool:
        raise NotImplementedError

    def coroutine(self, node: ast.Call) -> Code:
        raise NotImplementedError

    def unknown(self, found: Any, node: ast.Call) -> Code:
        title = self.title(node.func)
        module = (getattr(found, "__module__", None) or "").partition(".")[0]
        owner = getattr(found, "__self__", None)
        if owner is not None and not isinstance(owner, (types.ModuleType, type)):
            module = type(owner).__module__.partition(".")[0]
        elif owner is not None:
            module = (owner.__name__ if isinstance(owner, types.ModuleType) else owner.__module__).partition(".")[0]
        advice = REFUSED_MODULES.get(module, "make it an @action, or a function that a workflow can be compiled from")
        self.refuse(node, f"a call of '{title}', which a workflow cannot run", advice)

    def title(self, node: ast.expr) -> str:
        return ast.unparse(node)

    def no_keywords(self, node: ast.Call) -> None:
        for each in node.keywords:
            self.refuse(each.value, f"'{self.title(node.func)}' takes no keyword here", "pass it by position")

    # Built-in functions.

    def builtin_call(self, name: str, node: ast.Call, consumed: bool) -> Code:
        special = getattr(self, f"_call_{name}", None)
        if special is None and name not in FUNCTIONS:
            advice = REFUSED.get(name, "make it an @action")
            self.refuse(node, f"'{name}' has no place in a workflow", advice)
        if name in ITERATORS and not consumed:
            self.refuse(node, f"what {name}() answers is no list", f"write list({ast.unparse(node)})")
        if special is not None:
            found: Code = special(node)
            return found
        return self.table_call(name, node)

    def table_call(self, name: str, node: ast.Call) -> Code:
        parameters, first_consumed = FUNCTIONS[name]
        arguments = self.by_position(node, parameters, FUNCTION_KEYWORDS.get(name, ()))
        if any(self.effects(each) for each in arguments):
            values = self.operands(arguments, consumed=first_consumed and len(arguments) == 1)
        else:
            values = [self.expr(each, consumed=first_consumed and not place) for place, each in enumerate(arguments)]
        return call(f"py.{name}", *values, at=self.at(node))

    def by_position(self, node: ast.Call, parameters: str, keywords: Sequence[str]) -> list[ast.expr]:
        """The arguments of a call of a known function, in the order of its parameters."""
        known, rest = parse_parameters(parameters)
        for each in node.args:
            if isinstance(each, ast.Starred):
                self.refuse(each, "spread arguments of a built-in", "name the arguments one by one")
        found: list[Optional[ast.expr]] = list(node.args)
        if len(found) > len(known) and not rest:
            self.refuse(node, f"'{self.title(node.func)}' takes at most {len(known)} arguments", "leave some out")
        names = [name for name, _ in known]
        for keyword in node.keywords:
            if keyword.arg is None or keyword.arg not in keywords or keyword.arg not in names:
                self.refuse(
                    keyword.value, f"'{self.title(node.func)}' takes no keyword '{keyword.arg}' here", "pass it by position"
                )
            place = names.index(keyword.arg)
            found += [None] * (place + 1 - len(found))
            found[place] = keyword.value
        for place, (name, default) in enumerate(known):
            if place >= len(found):
                if default is None:
                    self.refuse(node, f"'{self.title(node.func)}' lacks the argument '{name}'", "add it")
                break
            if found[place] is None:
                found[place] = ast.copy_location(ast.parse(default or "None", mode="eval").body, node)
        return [each for each in found if each is not None]

    def _call_range(self, node: ast.Call) -> Code:
        self.no_keywords(node)
        if not 1 <= len(node.args) <= 3:
            self.refuse(node, f"range() takes 1 to 3 arguments, not {len(node.args)}", "write range(stop)")
        return call("py.range", *self.operands(node.args), at=self.at(node))

    def _call_enumerate(self, node: ast.Call) -> Code:
        arguments = self.by_position(node, "iterable, start=0", ("iterable", "start"))
        values = [self.expr(each, consumed=not place) for place, each in enumerate(arguments)]
        return call("py.enumerate", *values, at=self.at(node))

    def _call_zip(self, node: ast.Call) -> Code:
        strict = [each for each in node.keywords if each.arg == "strict"]
        if len(strict) != len(node.keywords) or any(isinstance(each, ast.Starred) for each in node.args):
            self.refuse(node, "zip() of what is only known when it runs", "name the iterables one by one")
        word = "py.zip"
        if strict:
            value = strict[0].value
            if not isinstance(value, ast.Constant) or not isinstance(value.value, bool):
                self.refuse(value, "strict= is True or False", "write strict=True")
            word = "py.zip_strict" if value.value else word
        return call(word, *[self.expr(each, consumed=True) for each in node.args], at=self.at(node))

    def _call_any(self, node: ast.Call) -> Code:
        return self.any_all(node, "py.any")

    def _call_all(self, node: ast.Call) -> Code:
        return self.any_all(node, "py.all")

    def any_all(self, node: ast.Call, word: str) -> Code:
        (argument,) = self.by_position(node, "iterable", ())
        if isinstance(argument, ast.GeneratorExp) and not self.effects(argument):
            return self.stops_at(word, argument)
        return call(word, self.expr(argument, consumed=True), at=self.at(node))

    def _call_sorted(self, node: ast.Call) -> Code:
        options = self.options(node, "key", "reverse")
        if len(node.args) != 1:
            self.refuse(node, "sorted() takes one iterable", "write sorted(items)")
        items = self.expr(node.args[0], consumed=True)
        return self.sorted_by(items, options, "py.sorted", node)

    def sorted_by(self, items: Code, options: dict[str, ast.expr], plain: str, node: ast.Call) -> Code:
        reverse = [self.expr(options["reverse"])] if "reverse" in options else []
        if "key" not in options:
            return call(plain, items, *reverse, at=self.at(node))
        items = self.let(call("py.iter", items), node) if not is_name(items) else items
        return call("py.sort_by", items, self.keys(options["key"], items, node), *reverse, at=self.at(node))

    def _call_min(self, node: ast.Call) -> Code:
        return self.extreme(node, "min")

    def _call_max(self, node: ast.Call) -> Code:
        return self.extreme(node, "max")

    def extreme(self, node: ast.Call, word: str) -> Code:
        options = self.options(node, "key", "default")
        if any(isinstance(each, ast.Starred) for each in node.args):
            self.refuse(node, f"{word}() of spread arguments", f"write {word}(items) without the star")
        default = [self.expr(options["default"])] if "default" in options else []
        values = self.operands(node.args, consumed=len(node.args) == 1)
        if not values:
            self.refuse(node, f"{word}() of nothing", "give it an iterable")
        if "key" not in options:
            return call(f"py.{word}_or" if default else f"py.{word}", *values, *default, at=self.at(node))
        items = self.let(call("py.iter", values[0]) if len(values) == 1 else listed(values), node)
        return call(f"py.{word}_by", items, self.keys(options["key"], items, node), *default, at=self.at(node))

    def options(self, node: ast.Call, *known: str) -> dict[str, ast.expr]:
        found: dict[str, ast.expr] = {}
        for each in node.keywords:
            if each.arg not in known:
                self.refuse(each.value, f"'{self.title(node.func)}' takes no keyword '{each.arg}'", "leave it out")
            found[str(each.arg)] = each.value
        if isinstance(key := found.get("key"), ast.Constant) and key.value is None:
            del found["key"]
        return found

    def keys(self, key: ast.expr, items: Code, node: ast.Call) -> Code:
        """A list with the key of each item."""
        before = dict(self.bound)
        item = self.program.fresh("x")
        if isinstance(key, ast.Lambda):
            arguments = key.args
            if len(arguments.args) != 1 or arguments.defaults or arguments.vararg or arguments.kwarg:
                self.refuse(key, "a key function takes one argument", "write key=lambda x: …")
            self.bound[arguments.args[0].arg] = item
            if self.effects(key.body):
                self.refuse(key, "a key that calls or awaits", "compute the keys before, in a loop")
            body = self.expr(key.body)
        else:
            body = self.key_function(key, code.name(item))
        self.bound = before
        return op(["each", "list", item, False], call("py.iter", items), body, at=self.at(node))

    def key_function(self, key: ast.expr, item: Code) -> Code:
        found = self.static(key)
        name = getattr(found, "__name__", "")
        if found is not MISSING and getattr(builtins, name, None) is found and name in FUNCTIONS:
            return call(f"py.{name}", item, at=self.at(key))
        owner = getattr(found, "__objclass__", None)
        if owner in (str, list, dict, set, tuple) and METHODS.get(name, ("", ""))[0] == "M":
            return call(f"py.m.{name}", item, at=self.at(key))
        self.refuse(key, f"'{self.title(key)}' as a key", "write key=lambda x: …")

    def _call_dict(self, node: ast.Call) -> Code:
        if len(node.args) > 1 or any(isinstance(each, ast.Starred) for each in node.args):
            self.refuse(node, "dict() takes at most one positional argument", "write {…}")
        parts = [call("py.dict", self.expr(each, consumed=True)) for each in node.args]
        for each, value in zip(node.keywords, self.operands([each.value for each in node.keywords])):
            parts.append(value if each.arg is None else call("py.dict_of", literal(each.arg), value))
        return call("py.merge", *parts, at=self.at(node)) if len(parts) != 1 else parts[0]

    def _call_isinstance(self, node: ast.Call) -> Code:
        self.no_keywords(node)
        if len(node.args) != 2:
            self.refuse(node, "isinstance() takes a value and types", "write isinstance(x, int)")
        names = self.type_names(node.args[1])
        return call("py.isinstance", self.expr(node.args[0]), literal(names), at=self.at(node))

    def _call_getattr(self, node: ast.Call) -> Code:
        self.no_keywords(node)
        if not 2 <= len(node.args) <= 3:
            self.refuse(node, "getattr() takes two or three arguments", "write getattr(x, \"name\", None)")
        return call("py.getattr", *self.operands(node.args), at=self.at(node))

    # Methods of values.

    def method_call(self, function: ast.Attribute, node: ast.Call, consumed: bool) -> Code:
        known = METHODS.get(function.attr)
        if known is None:
            self.refuse(
                node,
                f"a call of the method '{function.attr}', which a workflow cannot run",
                "make it an @action; known methods are those of str, list, dict and set",
            )
        if is_view(node) and not consumed:
            self.refuse(node, f"what .{function.attr}() answers is no list", f"write list({ast.unparse(node)})")
        if known[0] != "M":
            return self.change(function, node)
        if function.attr == "format":
            return self.format_method(function, node)
        arguments = self.method_arguments(function.attr, node)
        nodes = [function.value, *arguments]
        if any(self.effects(each) for each in nodes):
            values = self.operands(nodes)
        else:
            whole = self.expr(function.value)
            values = [whole, *(self.expr(each, consumed=function.attr in CONSUMES) for each in arguments)]
        return call(f"py.m.{function.attr}", *values, at=self.at(node))

    def method_arguments(self, name: str, node: ast.Call) -> list[ast.expr]:
        return self.by_position(node, METHODS[name][1], KEYWORDS.get(name, ()))

    def format_method(self, function: ast.Attribute, node: ast.Call) -> Code:
        whole = self.expr(function.value)
        positional, keywords = self.spread(node)
        return call("py.m.format", whole, positional, keywords, at=self.at(node))

    def spread(self, node: ast.Call) -> tuple[Code, Code]:
        """The arguments of any call as a list and a dict, for callees that sort them out when they run."""
        starred = [isinstance(each, ast.Starred) for each in node.args]
        inner = [each.value if isinstance(each, ast.Starred) else each for each in node.args]
        values = self.operands([*inner, *(each.value for each in node.keywords)])
        positional = self.concatenated(values[: len(inner)], starred, node) if any(starred) else listed(values[: len(inner)])
        parts = []
        for each, value in zip(node.keywords, values[len(inner):]):
            parts.append(value if each.arg is None else call("py.dict_of", literal(each.arg), value))
        return positional, call("py.merge", *parts) if parts else literal({})

    def change(self, function: ast.Attribute, node: ast.Call) -> Code:
        """A method that changes its object: the object is replaced by the changed one."""
        kind = METHODS[function.attr][0]
        path = self.path(function.value)
        if function.attr == "sort":
            options = self.options(node, "key", "reverse")
            changed = self.sorted_by(path.read(), options, "py.m.sort", node)
        else:
            arguments = self.method_arguments(function.attr, node)
            values = [self.expr(each, consumed=function.attr in CONSUMES) for each in arguments]
            if any(self.effects(each) for each in arguments):
                values = [self.let(each, node) for each in values]
            changed = call(f"py.m.{function.attr}", path.read(), *values, at=self.at(node))
        if kind == "C":
            self.replace(path, changed, node)
            return literal(None, self.at(node))
        both = self.let(changed, node)
        self.replace(path, code.item(both, 0), node)
        return code.item(both, 1, self.at(node))

    def path(self, node: ast.expr) -> Path:
        raise NotImplementedError

    def replace(self, path: Path, value: Code, node: ast.AST) -> None:
        raise NotImplementedError


def is_name(value: Code) -> bool:
    return len(value.instructions) == 1 and isinstance(value.instructions[0], list) and value.instructions[0][0] == "name"
