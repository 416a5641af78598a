"""Workflows as regions: the law follows the awaits, CPython does everything between them.

Every statement that awaits becomes steps of the law; what lies between two awaits becomes the source of a region, which
a worker runs on the heap of the run. So whatever Python means is what happens; only what cannot be followed is refused.
`source` writes regions, `lifting` takes awaits out of expressions, `flow` compiles statements, `awaiter` starts what is
only known when it runs.
"""

from __future__ import annotations

from typing import Any

from ...decorators import Workflow, region_action
from ..blocks import Program, nothing
from ..source import shown_file, unit_of
from .flow import Flow
from .lifting import TASKS
from .program import Routine, Whole

__all__ = ["compile_regions"]


def compile_regions(workflow: Workflow[..., Any]) -> Program:
    """The definition of a workflow, with its code as regions."""
    guess = _names_tasks(workflow)
    whole = _compiled(workflow, guess)
    return (whole if whole.tasks == guess else _compiled(workflow, not guess)).program


def _names_tasks(workflow: Workflow[..., Any]) -> bool:
    """Does it name what starts tasks? A guess, which saves compiling it twice."""
    names = getattr(workflow.function, "__code__", None)
    return names is not None and any(word in names.co_names for word in TASKS)


def _compiled(workflow: Workflow[..., Any], hosted: bool) -> Whole:
    klass = workflow.target if isinstance(workflow.target, type) else None
    owner = None if klass is None else next(each for each in klass.__mro__ if "run" in vars(each))
    unit = unit_of(workflow.function, owner)
    program = Program(workflow.name, unit.file, shown_file(unit.file, workflow.function.__module__))
    whole = Whole(program, workflow, region_action(workflow), hosted=hosted)
    root = Routine("", unit, program.block(), klass, None)
    root.block.collect = nothing()
    Flow(whole, root, root=True).whole()
    while whole.waiting:
        routine = whole.waiting.pop()
        Flow(whole, routine, root=False).whole()
    whole.finish()
    return whole
