"""What workflows may await of libraries, and the options of a single call of an action."""

from __future__ import annotations

import ast
import asyncio
from dataclasses import dataclass
from typing import Any, Optional

import lope.client
import lope.signals
import lope.spans

from ..decorators import Action
from ..policy import Retry, policy
from .frame import Frame
from .static import quiet_static

GATHER = (asyncio.gather,)
SLEEP = (asyncio.sleep, lope.spans.sleep)
WAIT_FOR = (asyncio.wait_for,)
SIGNAL = (lope.signals.wait_signal,)
START = (lope.client.start_async,)
AWAITABLE = (*GATHER, *SLEEP, *WAIT_FOR, *SIGNAL, *START)
# What starts a task, which may be awaited where it stands, too, and need not be.
STARTING = (asyncio.create_task, asyncio.ensure_future)


@dataclass
class Options:
    """An action with options of its own: `act.with_options(…)`."""

    action: Action[..., Any]
    policy: dict[str, Any]


def call_options(node: ast.Call, frame: Frame) -> Optional[Options]:
    """The options of `act.with_options(…)`, if they are known now."""
    function = node.func
    if not isinstance(function, ast.Attribute) or function.attr != "with_options":
        return None
    found = quiet_static(function.value, frame)
    if not isinstance(found, Action):
        return None
    given: dict[str, Any] = {}
    for each in node.keywords:
        if each.arg not in ("retry", "timeout"):
            frame.refuse(each.value, f"with_options has no '{each.arg}'", "use retry= and timeout=")
        given[str(each.arg)] = _option(each.value, frame)
    retry, timeout = given.get("retry", found.retry), given.get("timeout", found.timeout)
    try:
        return Options(found, {**policy(retry, timeout), **found.limits})
    except (TypeError, ValueError, AttributeError) as error:
        frame.refuse(node, f"options that make no sense: {error}", 'use retry=Retry(3) and timeout="20s"')


def _option(node: ast.expr, frame: Frame) -> Any:
    """An option is known now: a constant, or a Retry of constants."""
    if isinstance(node, ast.Call) and quiet_static(node.func, frame) is Retry:
        try:
            arguments = [_option(each, frame) for each in node.args]
            return Retry(*arguments, **{str(each.arg): _option(each.value, frame) for each in node.keywords})
        except (TypeError, ValueError) as error:
            frame.refuse(node, f"not a Retry: {error}", 'write Retry(3, backoff="exponential", base="500ms")')
    try:
        return ast.literal_eval(node)
    except ValueError:
        pass
    if isinstance(node, ast.Tuple):
        return tuple(_option(each, frame) for each in node.elts)
    found = quiet_static(node, frame)
    if found is None:
        frame.refuse(node, "an option that is only known when it runs", "use a constant")
    return found
