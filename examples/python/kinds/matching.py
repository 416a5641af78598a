"""A state machine over events, with `match`: shapes, classes, guards, and awaits in the cases.

    lope run examples/python/kinds/matching.py:door --input '{"events": [{"kind": "open"}, {"kind": "lock", "code": 7}]}'
"""

from __future__ import annotations

from dataclasses import dataclass
from typing import Any

from lope import action, workflow


@dataclass(frozen=True)
class Locked:
    code: int


@action
async def ring(times: int) -> str:
    return "ring " * times


@workflow
async def door(events: list[dict[str, Any]]) -> dict[str, Any]:
    state: Any = "closed"
    log: list[str] = []
    for event in events:
        match state, event:
            case "closed", {"kind": "open"}:
                state = "open"
            case "open" | "closed", {"kind": "lock", "code": int(code)}:
                state = Locked(code)
            case Locked(code=right), {"kind": "unlock", "code": given} if given == right:
                state = "closed"
            case Locked(), {"kind": "unlock"}:
                log.append((await ring(2)).strip())
            case _, {"kind": "knock", **rest}:
                log.append(f"{await ring(1)}{sorted(rest)}")
            case _:
                log.append(f"ignored {event['kind']}")
    return {"state": str(state), "log": log}
