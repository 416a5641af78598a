"""What the command prints of values in Python: plain JSON everywhere, tables and logs included, and their types if asked."""

from __future__ import annotations

import json
import os
import subprocess
import sys
from pathlib import Path
from typing import Any, Iterator

import pytest
from lope import client

APP = """
from dataclasses import dataclass
from datetime import datetime, timezone
from decimal import Decimal
from uuid import UUID
from lope import action, workflow


@dataclass
class Bill:
    total: Decimal
    at: datetime
    by: UUID


@action
def bill(n: int) -> tuple[Bill, set[int]]:
    made = Bill(Decimal("1.50") * n, datetime(2024, 2, 29, 12, tzinfo=timezone.utc), UUID(int=n))
    print("made", made.total)
    return made, {n}


@action
def refuse(found: Bill) -> None:
    raise ValueError(found.total, (1, 2))


@workflow
async def typed(n: int) -> dict:
    made, numbers = await bill(n)
    return {"bill": made, "numbers": numbers, "pair": (1, 2)}


@workflow
async def fails(n: int) -> None:
    made, _ = await bill(n)
    await refuse(made)
"""
PLAIN = {
    "bill": {"total": "4.50", "at": "2024-02-29T12:00:00+00:00", "by": "00000000-0000-0000-0000-000000000003"},
    "numbers": [3],
    "pair": [1, 2],
}


@pytest.fixture(autouse=True)
def home(tmp_path: Path, monkeypatch: pytest.MonkeyPatch) -> Iterator[Path]:
    if "LOPE_BIN" not in os.environ:
        pytest.fail("LOPE_BIN is not set: run this by `cargo xtask test`")
    monkeypatch.setenv("LOPE_HOME", str(tmp_path))
    monkeypatch.chdir(tmp_path)
    (tmp_path / "printed.py").write_text(APP, encoding="utf-8")
    yield tmp_path


def lope(*words: str) -> str:
    python = ["--python-bin", sys.executable] if words[0] == "run" else []
    command = [os.environ["LOPE_BIN"], *words, *python]
    return subprocess.run(command, capture_output=True, text=True, timeout=300, env=client._environment()).stdout


def ways(run: str) -> list[tuple[str, ...]]:
    """All that tells people of a run; what is exported keeps its types."""
    verbs = ["show", "why", "journal", "logs", "wait", "results", "graph"]
    return [("runs", "list"), *(("runs", verb, run) for verb in verbs)]


def test_values_are_printed_as_plain_json_in_tables_and_logs_too() -> None:
    ended = json.loads(lope("run", "printed.py:typed", "--input", "3", "--json"))
    assert ended["result"] == PLAIN
    for words in ways(ended["run_id"]):
        for more in ((), ("--json",)):
            said = lope(*words, *more)
            assert said and "$tag" not in said, (words, more, said)
    assert json.loads(lope("runs", "wait", ended["run_id"])) == PLAIN
    assert "made 4.50" in lope("runs", "logs", ended["run_id"])
    tagged: Any = json.loads(lope("runs", "wait", ended["run_id"], "--json", "--tagged"))["result"]
    name, fields = tagged["bill"]["$tag"]
    assert name == "printed:Bill" and fields["total"] == {"$tag": ["decimal", "4.50"]}
    assert fields["at"] == {"$tag": ["datetime", "2024-02-29T12:00:00+00:00"]}
    assert fields["by"] == {"$tag": ["uuid", "00000000-0000-0000-0000-000000000003"]}
    assert (tagged["numbers"], tagged["pair"]) == ({"$tag": ["set", [3]]}, {"$tag": ["tuple", [1, 2]]})


def test_a_failure_is_printed_without_tags_too() -> None:
    said = lope("run", "printed.py:fails", "--input", "3")
    assert "ValueError" in said and "$tag" not in said, said
    run = json.loads(lope("runs", "list", "--json"))[0]["run_id"]
    for words in ways(run):
        for more in ((), ("--json",)):
            assert "$tag" not in lope(*words, *more), (words, more)
