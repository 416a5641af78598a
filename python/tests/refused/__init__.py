"""Programs that are refused. In each, the line that is refused ends with `#! reason | advice`."""

from __future__ import annotations

from typing import Any

from lope.decorators import Workflow, workflow

REFUSED: list[Workflow[..., Any]] = []


def refused(target: Any) -> Any:
    made: Workflow[..., Any] = workflow(name=f"{target.__module__}.{target.__name__}")(target)
    REFUSED.append(made)
    return made
