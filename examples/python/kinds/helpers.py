"""Helpers with defaults, *args and **kwargs, called from a workflow, with awaits in them or without.

    lope run examples/python/kinds/helpers.py:letters --input '{"names": ["ann", "bob"]}'
"""

from __future__ import annotations

from typing import Any

from lope import action, workflow


@action
async def render(template: str, **values: Any) -> str:
    return template.format(**values)


def options(*names: str, sep: str = ", ", **more: Any) -> dict[str, Any]:
    return {"who": sep.join(names), "count": len(names), **more}


async def letter(*names: str, greeting: str = "Dear", **more: Any) -> str:
    text: str = await render("{greeting} {who} ({count}){end}", greeting=greeting, **options(*names, **more))
    return text.strip()


@workflow
async def letters(names: list[str]) -> list[str]:
    common = {"end": "!"}
    found = [await letter(*names, **common)]
    found.append(await letter(*names[:1], greeting="Hi", **{**common, "sep": "+"}))
    common["end"] = "?"
    found.append(await letter(*reversed(names), **common, sep=" and "))
    return found
