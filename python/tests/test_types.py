"""Programs are checked by their types: functions and classes alike, where they are run, started and awaited."""

from __future__ import annotations

import os
import subprocess
import sys
from pathlib import Path

PACKAGE = Path(__file__).parent.parent
APP = """
from lope import Starter, action, run, run_async, start, workflow
from lope.testing import Stage


@action
async def add(n: int) -> int:
    return n + 1


@workflow
class Tally:
    def __init__(self) -> None:
        self.total = 0

    async def run(self, numbers: list[int]) -> int:
        for number in numbers:
            self.total += await add(number)
        return self.total


@workflow
async def double(n: int) -> str:
    return str(n * 2)


@workflow
async def both(n: int) -> str:
    reveal_type(await double(n))
    return await double(n)


reveal_type(run(Tally, [1]))
reveal_type(start(Tally, [1]))
reveal_type(run(double, 1))
reveal_type(Starter(Tally, key="k").start([1]))
with Stage() as stage:
    reveal_type(stage.run(Tally, [1]))


async def waits() -> None:
    reveal_type(await run_async(Tally, [1]))
"""
WRONG = """
run(Tally, "no numbers")
start(double)
Starter(Tally, key="k").start(5)
"""
REVEALED = ["str", "int", "Handle[int]", "str", "Handle[int]", "int", "int"]


def test_class_workflows_type_check(tmp_path: Path) -> None:
    """"class workflows type-check": what they take and give is known, and what does not fit is found."""
    (tmp_path / "typed.py").write_text(APP, encoding="utf-8")
    (tmp_path / "wrong.py").write_text(APP.replace("reveal_type", "str") + WRONG, encoding="utf-8")
    command = [sys.executable, "-m", "mypy", "--strict", "--config-file", os.devnull, "--no-error-summary", "--cache-dir", str(tmp_path / "cache")]
    environment = {**os.environ, "MYPYPATH": str(PACKAGE), "PYTHONPATH": str(PACKAGE)}
    ended = subprocess.run([*command, "typed.py", "wrong.py"], cwd=tmp_path, capture_output=True, text=True, env=environment)
    lines = [line for line in ended.stdout.splitlines() if line.startswith(("typed.py", "wrong.py"))]
    found = [line.split("Revealed type is ")[1].strip('"') for line in lines if "Revealed type" in line]
    assert [each.replace("builtins.", "").replace("lope.client.", "") for each in found] == REVEALED, ended.stdout
    assert not [line for line in lines if line.startswith("typed.py") and ": error:" in line], ended.stdout
    at = len(APP.splitlines())
    wrong = {int(line.split(":")[1]) - at for line in lines if line.startswith("wrong.py") and ": error:" in line}
    assert wrong == {2, 3, 4}, ended.stdout
