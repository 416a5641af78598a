"""From Python source to a definition: workflows are parsed, never executed.

The law follows the awaits; everything between them is a region, whose source travels in the definition and which CPython
runs. What cannot be followed is refused with its place and advice.
"""

from __future__ import annotations

from typing import Any

from ..decorators import Workflow
from .blocks import Program
from .refuse import CompileError

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
    from .regions import compile_regions

    return Compiled(compile_regions(workflow))
