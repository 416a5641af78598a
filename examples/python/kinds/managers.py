"""Context managers around awaits: what is entered is left again, whatever happens between.

    lope run examples/python/kinds/managers.py:nested --input '{"fails": true}'
"""

from __future__ import annotations

from types import TracebackType
from typing import Optional, Type

from lope import action, workflow


@action
async def work(n: int, fails: bool) -> int:
    if fails:
        raise KeyError(n)
    return n


class Section:
    def __init__(self, name: str, log: list[str], quiet: bool = False) -> None:
        self.name, self.log, self.quiet = name, log, quiet

    def __enter__(self) -> "Section":
        self.log.append(f"+{self.name}")
        return self

    def __exit__(self, kind: Optional[Type[BaseException]], error: Optional[BaseException], _: Optional[TracebackType]) -> bool:
        self.log.append(f"-{self.name} {kind.__name__ if kind else 'fine'}")
        return self.quiet


@workflow
async def nested(fails: bool = False) -> dict[str, object]:
    log: list[str] = []
    done: list[int] = []
    with Section("outer", log):
        with Section("first", log) as first, Section("quiet", log, quiet=True):
            done.append(await work(1, False))
            done.append(await work(2, fails))
            log.append(first.name)
        done.append(await work(3, False))
    return {"log": log, "done": done}
