"""Programs made by dice, with their runner killed at random rows of the journal: they end as CPython ends them.

`python tests/killed.py FIRST COUNT [KILLS]` tries many, a hundred in one module, one store and one runner: all are compiled
and started, and end in workers, through the journal. Rows are chosen by dice; when the journal of all runs together has
that many, the runner and its workers are killed, and another takes over. Without kills it is the whole way without them.
Where something is odd, the programs of the batch are tried again one by one.
"""

from __future__ import annotations

import contextlib
import io
import os
import random
import resource
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
from generated import BATCH, CASES, written  # noqa: E402
from lope import CompileError, client, conversation  # noqa: E402

# Longest wait for anything at all.
PATIENCE = 600.0
# Kills of the runner of a batch.
KILLS = 6


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
    client._DEFINITIONS.clear()
    sources, module = written(seeds, folder, "killed")
    before = dict(os.environ)
    os.environ.update({"LOPE_HOME": str(folder), "LOPE_BIN": binary()})
    sys.path.insert(0, str(folder))
    try:
        started: list[tuple[int, tuple[Any, ...], client.Handle[Any]]] = []
        for seed in seeds:
            workflow = getattr(module, f"program_{seed}")
            with contextlib.suppress(CompileError):
                started += [(seed, case, client.Starter(workflow).start(*case)) for case in CASES]
        killing = Killing(folder, module.__name__, dice)
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
    with contextlib.redirect_stdout(io.StringIO()):
        expected = plainly(getattr(module, f"program_{seed}"), case, {}).crossed().shown()
    try:
        found = Ending(handle.result(PATIENCE)).shown()
    except Exception as error:
        found = Ending(error=error).shown()
    if found == expected:
        return None
    return f"seed {seed} {case} run {handle.id}\n{sources[seed]}\nCPython: {expected}\nLope:    {found}"


def tried(seeds: range, kills: int) -> tuple[int, list[int], list[str]]:
    """A batch; one by one if something is odd."""
    with tempfile.TemporaryDirectory() as folder:
        try:
            same, rows, different = survive(seeds, kills, Path(folder))
        except (RuntimeError, TimeoutError, client.LopeError) as error:
            same, rows, different = 0, [], [f"seeds {seeds.start} to {seeds.stop - 1}: {error}"]
    if not different or len(seeds) == 1:
        return same, rows, different
    print(f"odd: {different[0]}", flush=True)
    alone = [tried(range(seed, seed + 1), min(kills, 2)) for seed in seeds]
    again = [text for _, _, texts in alone for text in texts]
    return sum(each[0] for each in alone), rows, again or [f"once, and not again: {text}" for text in different]


def main() -> int:
    first, count = int(sys.argv[1]), int(sys.argv[2])
    kills = int(sys.argv[3]) if len(sys.argv) > 3 else KILLS
    same, killed, different = 0, 0, 0
    for start in range(first, first + count, BATCH):
        seeds = range(start, min(start + BATCH, first + count))
        found, rows, texts = tried(seeds, kills)
        same, killed, different = same + found, killed + len(rows), different + len(texts)
        used = [resource.getrusage(who) for who in (resource.RUSAGE_SELF, resource.RUSAGE_CHILDREN)]
        took = [each.ru_utime + each.ru_stime for each in used]
        done = f"{seeds.stop - first} programs: {same} runs the same, {different} different; killed {killed} times"
        print(f"{done}, last at rows {rows}; {took[0]:.0f} + {took[1]:.0f} CPU s", flush=True)
        for each in texts[:3]:
            print(each, flush=True)
    return 1 if different else 0


if __name__ == "__main__":
    sys.exit(main())
