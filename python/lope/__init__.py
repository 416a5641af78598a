"""Lope: durable workflows in ordinary Python.

An `@action` does work in a worker process; a `@workflow` says in which order. Workflows are compiled from their source
and never executed by Lope; outside of it both are ordinary async functions.
"""

from asyncio import gather

from .compiler.refuse import CompileError
from .decorators import Action, Workflow, action, workflow
from .depends import Depends
from .policy import Retry
from .signals import wait_signal
from .spans import sleep
from .values import ValueProblem

__all__ = [
    "Action",
    "CompileError",
    "Depends",
    "Retry",
    "ValueProblem",
    "Workflow",
    "action",
    "gather",
    "sleep",
    "wait_signal",
    "workflow",
]
