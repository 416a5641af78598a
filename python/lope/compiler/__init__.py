"""From Python source to a definition: workflows are parsed, never executed.

`Frame` and its mixins walk the tree of a function once; expressions become trees of the law's expressions, everything
that awaits, changes or calls becomes a step. What has no meaning in the law is refused with its place and advice.
"""

from __future__ import annotations

import inspect
from typing import Any

from ..decorators import Workflow
from ..values.names import class_name
from . import code
from .blocks import Program, nothing
from .code import call, literal, op, text_map
from .refuse import CompileError
from .source import shown_file, unit_of
from .statements import Statements

__all__ = ["CompileError", "Compiled", "compile_all", "compile_workflow"]


class Compiled:
    """A definition, and what it needs beside it."""

    def __init__(self, program: Program) -> None:
        self.definition = program.to_json()
        self.children: dict[str, Workflow[..., Any]] = dict(program.children)
        self.actions = sorted(program.actions)


def compile_workflow(workflow: Workflow[..., Any]) -> dict[str, Any]:
    """The definition of a workflow, as JSON holds it."""
    return compiled(workflow).definition


def compile_all(workflow: Workflow[..., Any]) -> list[dict[str, Any]]:
    """The definitions of a workflow and of those that it starts, itself first."""
    found: dict[str, dict[str, Any]] = {}
    waiting = [workflow]
    while waiting:
        each = waiting.pop()
        if each.name not in found:
            made = compiled(each)
            found[each.name] = made.definition
            waiting += made.children.values()
    return list(found.values())


def compiled(workflow: Workflow[..., Any]) -> Compiled:
    klass = workflow.target if isinstance(workflow.target, type) else None
    unit = unit_of(workflow.function, _owner(klass))
    program = Program(workflow.name, unit.file, shown_file(unit.file, workflow.function.__module__))
    frame = Statements(program, unit, program.block(), klass, None)
    frame.block.collect = nothing()
    _parameters(frame, workflow, klass)
    frame.body(unit.node)
    while program.awaits:
        # A call that stands as a value may be awaited anywhere; what awaits adds may itself await.
        waiting, program.awaits = program.awaits, []
        for each, concurrent, cases, held, target, _ in waiting:
            each.finish_await(cases, held, target, concurrent)
    return Compiled(program)


def _owner(klass: Any) -> Any:
    if klass is None:
        return None
    return next(each for each in klass.__mro__ if "run" in vars(each))


def _parameters(frame: Statements, workflow: Workflow[..., Any], klass: Any) -> None:
    """The variables that a run starts with: its input by parameter, and the object if there is one."""
    node = frame.unit.node
    whole = code.name("input")
    for name, parameter in workflow.signature.parameters.items():
        if parameter.kind in (parameter.VAR_POSITIONAL, parameter.VAR_KEYWORD):
            frame.refuse(node, f"the workflow takes {parameter}", "name the parameters of a workflow one by one")
        value = op(["field", name], whole)
        if parameter.default is not inspect.Parameter.empty:
            value = op(["if"], op(["has", name], whole), value, frame.constant(parameter.default, node))
        frame.let(value, node, frame.variable(name))
    if klass is not None:
        _object(frame, klass)


def _object(frame: Statements, klass: Any) -> None:
    """`self`: an object with the constants of its class, after its `__init__`."""
    node = frame.unit.node
    frame.self_name = node.args.args[0].arg
    fields = [(name, frame.constant(value, node)) for name, value in _constants(klass).items()]
    made = call("py.object", literal(class_name(klass)), text_map(fields))
    frame.let(made, node, frame.variable(frame.self_name))
    init = next((vars(each)["__init__"] for each in klass.__mro__[:-1] if "__init__" in vars(each)), None)
    if init is not None:
        import ast

        target = ast.copy_location(ast.Attribute(ast.Name(frame.self_name, ast.Load()), "__init__", ast.Load()), node)
        frame.call_now(frame.method(target, node), ast.copy_location(ast.Call(target, [], []), node))


def _constants(klass: type) -> dict[str, Any]:
    found: dict[str, Any] = {}
    for each in reversed(klass.__mro__[:-1]):
        for name, value in vars(each).items():
            if not name.startswith("__") and name != "_abc_impl":
                found[name] = value
    return {name: value for name, value in found.items() if _is_data(value)}


def _is_data(value: Any) -> bool:
    from ..values import ValueProblem, encode

    try:
        encode(value)
    except ValueProblem:
        return False
    return True


