"""From Python source to a definition."""

from __future__ import annotations

from typing import Any


def compile_workflow(workflow: Any) -> dict[str, Any]:
    """The definition of a workflow, as JSON holds it."""
    raise NotImplementedError
