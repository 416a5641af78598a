"""Lope: durable workflows in ordinary Python.

An `@action` does work in a worker process; a `@workflow` says in which order. Workflows are compiled from their source
and never executed by Lope; outside of it both are ordinary async functions.
"""

from asyncio import gather

from .attempt import Attempt, current_attempt, heartbeat
from .client import Cancelled, Handle, LopeError, Starter, run, run_async, start, start_async
from .compiler.refuse import CompileError
from .decorators import Action, Workflow, action, workflow
from .depends import Depends
from .policy import Retry
from .signals import wait_signal
from .spans import sleep
from .values import RemoteError, ValueProblem

__all__ = [
    "Action",
    "Attempt",
    "Cancelled",
    "CompileError",
    "Depends",
    "Handle",
    "LopeError",
    "RemoteError",
    "Retry",
    "Starter",
    "ValueProblem",
    "Workflow",
    "action",
    "current_attempt",
    "gather",
    "heartbeat",
    "run",
    "run_async",
    "sleep",
    "start",
    "start_async",
    "wait_signal",
    "workflow",
]
