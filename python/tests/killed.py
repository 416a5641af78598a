"""Programs made by dice, with their runner killed at random rows of the journal: they end as CPython ends them.

`python tests/killed.py SEED COUNT KILLS` tries many. A row is chosen by dice; when the journal of all runs together has
that many, the runner and its workers are killed, and another takes over.
"""

from __future__ import annotations

import os
import random
import signal
import sqlite3
import subprocess
import sys
import tempfile
import time
from pathlib import Path
from typing import Any, Optional

HERE = Path(__file__).parent
sys.path[:0] = [str(HERE), str(HERE.parent)]

from differential import Ending, binary, plainly  # noqa: E402
from generated import CASES, HEAD, Writer, load  # noqa: E402
from lope import CompileError, client, conversation  # noqa: E402
from lope.testing import _compiled  # noqa: E402

# Longest wait for anything at all.
PATIENCE = 600.0


class Killing:
    """A store with runs, and runners that do not live long."""

    def __init__(self, folder: Path, module: str, dice: random.Random) -> None:
        self.folder = folder
        self.module = module
        self.dice = dice
        self.killed_at: list[int] = []
        short = {"LOPE_ENGINE_LEASE": "2s", "LOPE_ENGINE_HEARTBEAT": "500ms", "LOPE_ENGINE_SWEEP": "200ms"}
        self.environment = {**client._environment(), **short}

    def runner(self) -> "subprocess.Popen[bytes]":
        words = [binary(), "up", "--quiet", "--http", "off", "--python", self.module, "--python-bin", sys.executable]
        log = open(self.folder / "runner.log", "ab")
        return subprocess.Popen(words, env=self.environment, stdin=subprocess.DEVNULL, stdout=log, stderr=log, start_new_session=True)

    def rows(self) -> int:
        with sqlite3.connect(f"file:{self.folder / 'lope.db'}?mode=ro", uri=True, timeout=60) as store:
            return int(store.execute("SELECT count(*) FROM journal").fetchone()[0])

    def live(self) -> int:
        with sqlite3.connect(f"file:{self.folder / 'lope.db'}?mode=ro", uri=True, timeout=60) as store:
            return int(store.execute("SELECT count(*) FROM queue").fetchone()[0])

    def kill_at(self, row: int) -> bool:
        """Lets a runner work until the journal has so many rows. False: everything was done before."""
        runner = self.runner()
        until = time.monotonic() + PATIENCE
        try:
            while self.rows() < row:
                if self.live() == 0:
                    return False
                if runner.poll() is not None or time.monotonic() > until:
                    raise RuntimeError((self.folder / "runner.log").read_text(errors="replace")[-2000:])
                time.sleep(0.002)
            self.killed_at.append(self.rows())
            return True
        finally:
            # Its workers are in sessions of their own, and end when their connection does.
            os.killpg(runner.pid, signal.SIGKILL)
            runner.wait()


def survive(seeds: range, kills: int, folder: Path) -> tuple[int, list[int], list[str]]:
    """How many programs ended the same, at which rows runners were killed, and what differed."""
    dice = random.Random(seeds.start)
    name = f"killed_programs_{seeds.start}"
    sources = {seed: Writer(seed).source(f"program_{seed}") for seed in seeds}
    text = "\n\n".join(f'@workflow(name="killed.program_{seed}")\n{source}' for seed, source in sources.items())
    module = load(folder / f"{name}.py", HEAD.replace('name="generated.', 'name="killed.') + text)
    before = dict(os.environ)
    os.environ.update({"LOPE_HOME": str(folder), "LOPE_BIN": binary()})
    sys.path.insert(0, str(folder))
    try:
        started: list[tuple[int, tuple[Any, ...], client.Handle[Any]]] = []
        for seed in seeds:
            workflow = getattr(module, f"program_{seed}")
            try:
                _compiled(workflow)
            except CompileError:
                continue
            started += [(seed, case, client.Starter(workflow).start(*case)) for case in CASES]
        killing = Killing(folder, name, dice)
        for _ in range(kills):
            if not killing.kill_at(killing.rows() + dice.randint(1, max(2 * 20 * len(started) // (kills + 1), 2))):
                break
        last = killing.runner()
        try:
            different = [said for each in started if (said := _compared(module, sources, *each)) is not None]
        finally:
            last.terminate()
            last.wait()
        return len(started) - len(different), killing.killed_at, different
    finally:
        conversation.end()
        os.environ.clear()
        os.environ.update(before)
        sys.path.remove(str(folder))


def _compared(module: Any, sources: dict[int, str], seed: int, case: tuple[Any, ...], handle: client.Handle[Any]) -> Optional[str]:
    expected = plainly(getattr(module, f"program_{seed}"), case, {}).crossed().shown()
    try:
        found = Ending(handle.result(PATIENCE)).shown()
    except Exception as error:
        found = Ending(error=error).shown()
    if found == expected:
        return None
    return f"seed {seed} {case} run {handle.id}\n{sources[seed]}\nCPython: {expected}\nLope:    {found}"


def main() -> int:
    first, count, kills = (int(word) for word in sys.argv[1:4])
    with tempfile.TemporaryDirectory() as folder:
        same, rows, different = survive(range(first, first + count), kills, Path(folder))
    print(f"{same} runs the same, {len(different)} differ; killed {len(rows)} times, at rows {rows}")
    for each in different[:3]:
        print(each)
    return 1 if different else 0


if __name__ == "__main__":
    sys.exit(main())
