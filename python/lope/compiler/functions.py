"""Functions of the user's: helpers of the module, functions inside the workflow, methods of its class.

Each becomes a block with parameters that `call` steps run in a frame of its own. What a function inside another sees of
it is passed along; what a method does to `self` comes back to its caller, however the method ends.
"""

from __future__ import annotations

import ast
import inspect
import types
from dataclasses import dataclass
from typing import Any, Optional

from . import code
from .blocks import Block, nothing
from .code import Code, call, listed, literal
from .aliasing import Walk
from .effects import assigned_names, frame_knows, is_self, is_super, own_nodes, quiet_static
from .expressions import Expressions
from .frame import MISSING, Frame, Nested
from .refuse import CompileError
from .signature import bind
from .source import Unit, unit_of
from .table import METHODS


@dataclass
class Function:
    """A function that steps may call."""

    title: str
    block: Block
    signature: inspect.Signature
    is_async: bool
    # Names of the function around it that it sees, passed as further arguments.
    captured: list[str]
    # Is its first parameter the object of the workflow, and does it change that?
    takes_self: bool = False
    changes_self: bool = False


class Functions(Expressions):
    def knows(self, function: types.FunctionType) -> bool:
        return frame_knows(function)

    def function(self, found: types.FunctionType, node: ast.Call) -> Function:
        """A function at the top of a module."""
        made = self.program.functions.get(found)
        if made is not None:
            return _as_function(made)
        unit = self.source(found, node)
        self.plain_function(unit, node)
        return self.compiled(found, unit, inspect.signature(found), node)

    def source(self, found: Any, node: ast.AST, owner: Optional[type] = None) -> Unit:
        try:
            return unit_of(found, owner)
        except (TypeError, OSError):
            title = getattr(found, "__qualname__", str(found))
            self.refuse(node, f"the source of '{title}' cannot be read", "make it an @action")

    def plain_function(self, unit: Unit, node: ast.AST) -> None:
        if unit.node.decorator_list and not all(_harmless(each) for each in unit.node.decorator_list):
            self.refuse(node, f"'{unit.name}' has a decorator", "call a function without one, or make it an @action")

    def compiled(
        self,
        key: Any,
        unit: Unit,
        signature: inspect.Signature,
        node: ast.AST,
        *,
        captured: tuple[str, ...] = (),
        klass: Optional[type] = None,
        parent: Optional[Frame] = None,
    ) -> Function:
        """Compiles a function, once; calls of itself inside it find what is made here."""
        block = self.program.block()
        block.collect = nothing()
        takes_self = klass is not None
        made = Function(unit.name, block, signature, unit.is_async, list(captured), takes_self)
        made.changes_self = takes_self and changes_self(unit, klass)
        self.program.functions[key] = made
        frame = type(self)(self.program, unit, block, klass, parent)
        if takes_self:
            frame.self_name = next(iter(signature.parameters))
        frame.locals |= set(captured)
        parameters = [*signature.parameters, *captured]
        frame.given = parameters[1:] if takes_self else parameters
        block.parameters = [frame.variable(each) for each in parameters]
        try:
            frame.body(unit.node)
        except CompileError as error:
            if parent is None:
                error.calls.append(f"{self.unit.file}:{getattr(node, 'lineno', 0)}")
            raise
        return made

    def body(self, node: ast.FunctionDef | ast.AsyncFunctionDef) -> None:
        raise NotImplementedError

    def is_helper_call(self, node: ast.Call) -> bool:
        function = node.func
        if isinstance(function, ast.Attribute) and (is_self(function.value, self) or is_super(function.value)):
            return True
        if isinstance(function, ast.Name) and self.defines(function.id):
            return True
        found = quiet_static(function, self)
        return isinstance(found, types.FunctionType) and self.knows(found)

    def defines(self, name: str) -> bool:
        inner = (ast.FunctionDef, ast.AsyncFunctionDef)
        return name in self.nested or any(isinstance(each, inner) and each.name == name for each in own_nodes(self.unit.node))

    def answer_of(self, node: ast.Call) -> str:
        """How what a function answers belongs to its arguments: `fresh` (not at all), `share` (by parts), `same`."""
        found = quiet_static(node.func, self)
        if not isinstance(found, types.FunctionType) or not self.knows(found):
            return "same"
        known = self.program.answers
        if found not in known:
            known[found] = "fresh"
            walk = self.walked(found, None)
            known[found] = "same" if walk is None else walk.answer
        return known[found]

    def walked(self, found: types.FunctionType, klass: Optional[type]) -> Optional[Walk]:
        """What is known of a function's sharing; nothing if it cannot be compiled anyway."""
        try:
            unit = unit_of(found)
            frame = type(self)(self.program, unit, self.block, klass, None)
            parameters = list(inspect.signature(found).parameters)
            if klass is not None:
                frame.self_name, parameters = parameters[0], parameters[1:]
            frame.given = parameters
            walk = Walk(frame)
            walk.run()
        except (CompileError, TypeError, OSError, IndexError):
            return None
        return walk

    def kept_by_self(self, node: ast.Call, function: ast.Attribute) -> list[ast.expr]:
        """The arguments of a method that its object may hold afterwards."""
        arguments = [*node.args, *(each.value for each in node.keywords)]
        found = self.find_method(self.klass, function, function)[1] if self.klass is not None else None
        if not isinstance(found, types.FunctionType):
            return arguments
        key = ("kept", found)
        if key not in self.program.answers:
            self.program.answers[key] = ""
            walk = self.walked(found, self.klass)
            own = None if walk is None else walk.frame.self_name
            ends = [] if walk is None else [{edge[1], edge[2]} for edge in walk.seen if own in (edge[1], edge[2])]
            names = () if walk is None else walk.frame.given_by_caller()
            keeps = walk is None or any(name in pair for pair in ends for name in names)
            self.program.answers[key] = "keeps" if keeps else ""
        return arguments if self.program.answers[key] else []

    def method_changes_self(self, function: ast.Attribute) -> bool:
        owner, found = self.find_method(self.klass, function, function) if self.klass is not None else (None, None)
        if not isinstance(found, types.FunctionType):
            return False
        return changes_self(unit_of(found, owner), self.klass)

    # Functions inside the workflow.

    def define(self, node: ast.FunctionDef | ast.AsyncFunctionDef) -> None:
        if node.decorator_list:
            self.refuse(node, f"'{node.name}' has a decorator", "define decorated functions at the top of the module")
        mine = assigned_names(node)
        loads = {each.id for each in ast.walk(node) if isinstance(each, ast.Name)}
        captured = sorted(name for name in loads - mine if name in self.locals or name in self.bound)
        self.nested[node.name] = Nested(node, captured, self)

    def nested_function(self, name: str, node: ast.Call) -> Function:
        nested = self.nested[name]
        made = self.program.functions.get(id(nested.node))
        if made is not None:
            return _as_function(made)
        unit = Unit(nested.node, self.unit.file, self.unit.outside, self.unit.owner)
        signature = self.signature_of(nested.node)
        made = Function(unit.name, self.program.block(), signature, unit.is_async, nested.captured)
        made.block.collect = nothing()
        self.program.functions[id(nested.node)] = made
        frame = type(self)(self.program, unit, made.block, None, self)
        frame.locals |= set(nested.captured)
        frame.nested = dict(self.nested)
        frame.given = [*signature.parameters, *nested.captured]
        made.block.parameters = [frame.variable(each) for each in (*signature.parameters, *nested.captured)]
        frame.body(nested.node)
        return made

    def signature_of(self, node: ast.FunctionDef | ast.AsyncFunctionDef) -> inspect.Signature:
        """The signature of a function that is not there yet; its defaults are constants."""
        arguments = node.args
        kinds = inspect.Parameter
        found: list[inspect.Parameter] = []
        in_order = [*arguments.posonlyargs, *arguments.args]
        defaults = [None] * (len(in_order) - len(arguments.defaults)) + list(arguments.defaults)
        for place, (each, default) in enumerate(zip(in_order, defaults)):
            kind = kinds.POSITIONAL_ONLY if place < len(arguments.posonlyargs) else kinds.POSITIONAL_OR_KEYWORD
            found.append(kinds(each.arg, kind, default=self.default_value(default)))
        if arguments.vararg is not None:
            found.append(kinds(arguments.vararg.arg, kinds.VAR_POSITIONAL))
        for each, default in zip(arguments.kwonlyargs, arguments.kw_defaults):
            found.append(kinds(each.arg, kinds.KEYWORD_ONLY, default=self.default_value(default)))
        if arguments.kwarg is not None:
            found.append(kinds(arguments.kwarg.arg, kinds.VAR_KEYWORD))
        return inspect.Signature(found)

    def default_value(self, node: Optional[ast.expr]) -> Any:
        if node is None:
            return inspect.Parameter.empty
        try:
            return ast.literal_eval(node)
        except ValueError:
            found = self.static(node)
            if found is MISSING:
                self.refuse(node, "a default that is only known when it runs", "use a constant, or None")
            return found

    # Methods.

    def method(self, function: ast.Attribute, node: ast.AST) -> Function:
        klass = self.klass
        assert klass is not None
        owner, found = self.find_method(klass, function, node)
        if isinstance(found, staticmethod):
            inner: Any = found.__func__
            return self.function(inner, node) if isinstance(node, ast.Call) else self.no_method(function, node)
        found = getattr(found, "fget", found)
        if not isinstance(found, types.FunctionType):
            self.no_method(function, node)
        key = (found, klass)
        made = self.program.functions.get(key)
        if made is not None:
            return _as_function(made)
        unit = self.source(found, node, owner)
        self.plain_function(unit, node)
        return self.compiled(key, unit, inspect.signature(found), node, klass=klass)

    def no_method(self, function: ast.Attribute, node: ast.AST) -> Any:
        self.refuse(
            node, f"'{function.attr}' is no method that a workflow can call", "make it a plain or async method, or an @action"
        )

    def find_method(self, klass: type, function: ast.Attribute, node: ast.AST) -> tuple[type, Any]:
        order = list(klass.__mro__)
        if is_super(function.value):
            if self.unit.owner is None:
                self.refuse(node, "super() outside of a method", "call the function by its name")
            order = order[order.index(self.unit.owner) + 1 :]
        for each in order:
            if function.attr in vars(each):
                return each, vars(each)[function.attr]
        self.refuse(node, f"{klass.__name__} has no method '{function.attr}'", "check the spelling")

    def property_value(self, node: ast.Attribute) -> Code:
        made = self.method(node, node)
        return self.call_step(made, [(made.block.parameters[0], self.expr(node.value))], node, None)  # type: ignore[index]

    # Calls.

    def function_call(self, made: Function, node: ast.Call, to: Optional[str] = None) -> Code:
        if made.is_async:
            return self.coroutine_of(made, node)
        return self.call_now(made, node, to)

    def coroutine_of(self, made: Function, node: ast.Call) -> Code:
        raise NotImplementedError

    def call_now(self, made: Function, node: ast.Call, to: Optional[str] = None) -> Code:
        return self.call_step(made, self.call_arguments(made, node), node, to)

    def call_arguments(self, made: Function, node: ast.Call) -> list[tuple[str, Code]]:
        """The arguments of a call, one for each parameter."""
        starred = any(isinstance(each, ast.Starred) for each in node.args) or any(each.arg is None for each in node.keywords)
        own = [self.own_object(node)] if made.takes_self else []
        names = [self.variable(each) for each in made.signature.parameters]
        if starred:
            values = self.bound_when_run(made, node, own)
        else:
            values = self.bound_now(made, node, own)
        captured = [(self.variable(each), self.expr(ast.copy_location(ast.Name(each, ast.Load()), node))) for each in made.captured]
        return [*zip(names, values), *captured]

    def own_object(self, node: ast.Call) -> Code:
        assert self.self_name is not None
        return code.name(self.variable(self.self_name), self.at(node))

    def bound_now(self, made: Function, node: ast.Call, own: list[Code]) -> list[Code]:
        values = self.operands([*node.args, *(each.value for each in node.keywords)])
        positional = [*own, *values[: len(node.args)]]
        keywords = dict(zip((str(each.arg) for each in node.keywords), values[len(node.args):]))
        found, problem = bind(made.signature, positional, keywords)
        if problem is not None:
            self.refuse(node, f"{made.title}() {problem}", f"its parameters are {made.signature}")
        return [self.argument(each, found, node) for each in made.signature.parameters.values()]

    def argument(self, parameter: inspect.Parameter, found: dict[str, Any], node: ast.AST) -> Code:
        if parameter.kind is parameter.VAR_POSITIONAL:
            return call("py.tuple_of", *found[parameter.name])
        if parameter.kind is parameter.VAR_KEYWORD:
            pairs = [part for key, value in found[parameter.name].items() for part in (literal(key), value)]
            return call("py.dict_of", *pairs)
        value = found.get(parameter.name)
        return value if value is not None else self.constant(parameter.default, node)

    def bound_when_run(self, made: Function, node: ast.Call, own: list[Code]) -> list[Code]:
        """`f(*xs, **ys)`: the law binds the arguments, with Python's complaints."""
        positional, keywords = self.spread(node)
        if own:
            positional = call("py.concat", listed(own), positional)
        kinds: dict[Any, str] = {
            inspect.Parameter.VAR_POSITIONAL: "rest", inspect.Parameter.KEYWORD_ONLY: "keyword",
            inspect.Parameter.VAR_KEYWORD: "more", inspect.Parameter.POSITIONAL_ONLY: "positional",
        }  # fmt: skip
        spec = []
        for each in made.signature.parameters.values():
            entry: list[Any] = [each.name, kinds.get(each.kind, "any")]
            spec.append(entry if each.default is each.empty else [*entry, each.default])
        bound = self.let(call("py.bind", literal(made.title), literal(spec), positional, keywords, at=self.at(node)), node)
        return [code.item(bound, place) for place in range(len(spec))]

    def spread(self, node: ast.Call) -> tuple[Code, Code]:
        raise NotImplementedError

    def call_step(self, made: Function, arguments: list[tuple[str, Code]], node: ast.AST, to: Optional[str]) -> Code:
        target = to or self.program.fresh("t")
        kind: dict[str, Any] = {
            "call": {"function": made.block.number, "with": [[name, value.to_json()] for name, value in arguments]}
        }
        if made.changes_self:
            if self.concurrent:
                self.refuse(
                    node, f"{made.title}() changes self and runs beside others", "return the change and apply it afterwards"
                )
            assert self.self_name is not None
            kind["call"]["back"] = [self.variable(self.self_name)]
        self.emit(kind, made.title, node, to=target)
        return code.name(target, self.at(node))


def _as_function(made: Any) -> Function:
    assert isinstance(made, Function)
    return made


def _harmless(node: ast.expr) -> bool:
    return isinstance(node, ast.Name) and node.id in ("staticmethod", "property", "override")


def changes_self(unit: Unit, klass: Optional[type], seen: Optional[set[Any]] = None) -> bool:
    """Does a method change its object, itself or through the methods it calls?"""
    seen = set() if seen is None else seen
    if unit.node in seen or not unit.node.args.args:
        return False
    seen.add(unit.node)
    own = unit.node.args.args[0].arg
    for node in own_nodes(unit.node):
        if isinstance(node, (ast.Attribute, ast.Subscript)) and isinstance(node.ctx, ast.Store) and _root(node) == own:
            return True
        if isinstance(node, ast.Call) and isinstance(node.func, ast.Attribute):
            if _changes_by_call(node.func, own, unit, klass, seen):
                return True
    return False


def _changes_by_call(function: ast.Attribute, own: str, unit: Unit, klass: Optional[type], seen: set[Any]) -> bool:
    called = isinstance(function.value, ast.Name) and function.value.id == own
    if called or is_super(function.value):
        found = getattr(klass, function.attr, None)
        if is_super(function.value) and klass is not None and unit.owner is not None:
            order = klass.__mro__[klass.__mro__.index(unit.owner) + 1 :]
            found = next((vars(each)[function.attr] for each in order if function.attr in vars(each)), None)
        if isinstance(found, types.FunctionType):
            return changes_self(unit_of(found), klass, seen)
        return False
    return METHODS.get(function.attr, ("M",))[0] != "M" and _root(function.value) == own


def _root(node: ast.AST) -> Optional[str]:
    while isinstance(node, (ast.Attribute, ast.Subscript)):
        node = node.value
    return node.id if isinstance(node, ast.Name) else None
