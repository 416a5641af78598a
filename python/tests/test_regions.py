"""Regions in one worker: they do not wait for each other, and one that is not wanted any more is left."""

from __future__ import annotations

import ast
import contextlib
import os
import subprocess
import sys
import threading
from pathlib import Path

from lope.decorators import workflow
from lope.region import run_region, trees

_MEET = '''
import asyncio, threading, time
from lope import action, workflow

arrived = threading.Barrier(3)

@workflow
async def waits(number: int) -> int:
    arrived.wait(60)
    return number

@workflow
async def meet() -> list[int]:
    return list(await asyncio.gather(waits(1), waits(2), waits(3)))
'''

_LEFT = '''
import asyncio, time
from lope import workflow

@workflow
async def busy() -> int:
    while True:
        time.sleep(0.01)

@workflow
async def short() -> int:
    await asyncio.sleep(0)
    return 7

@workflow
async def leaves() -> int:
    try:
        await asyncio.wait_for(busy(), 1)
    except TimeoutError:
        pass
    return await short()
'''


def _run(folder: Path, text: str, name: str) -> subprocess.CompletedProcess[str]:
    (folder / "app.py").write_text(text)
    command = [os.environ["LOPE_BIN"], "run", f"app.py:{name}", "--processes", "1", "--python-bin", sys.executable]
    return subprocess.run(command, cwd=folder, capture_output=True, text=True, timeout=120, env={**os.environ, "LOPE_HOME": str(folder)})


def test_regions_of_one_worker_do_not_wait_for_each_other(tmp_path: Path) -> None:
    ended = _run(tmp_path, _MEET, "meet")
    assert (ended.returncode, ended.stdout.split()) == (0, ["[1,2,3]"]), ended.stderr


def test_a_region_that_is_not_wanted_any_more_is_left_and_its_thread_goes_on(tmp_path: Path) -> None:
    ended = _run(tmp_path, _LEFT, "leaves")
    assert (ended.returncode, ended.stdout.strip()) == (0, "7"), ended.stderr


class _Dropped:
    """Garbage whose end is code: the collector runs it in the middle of whatever a thread does."""

    def __init__(self) -> None:
        self.me = self

    def __del__(self) -> None:
        for _ in range(50):
            pass


def test_threads_that_parse_at_once_do_not_fail() -> None:
    """Regions are compiled in the threads of a worker, beside code of the user's that parses."""
    text = "x = " + " + ".join(f"f({number}, [a for a in b if {{c: d}}])" for number in range(20))
    failed: list[SystemError] = []
    done: list[object] = []

    def parses() -> None:
        for _ in range(60):
            _ = [_Dropped() for _ in range(20)]
            try:
                done.append(trees.parse(text))
            except SystemError as error:
                failed.append(error)

    def parses_without_us() -> None:
        for _ in range(60):
            with contextlib.suppress(SystemError):
                ast.parse(text)

    before = sys.getswitchinterval()
    sys.setswitchinterval(1e-5)
    try:
        threads = [threading.Thread(target=each) for each in (parses, parses, parses, parses_without_us)]
        for thread in threads:
            thread.start()
        for thread in threads:
            thread.join()
    finally:
        sys.setswitchinterval(before)
    assert failed == []
    assert len(done) == 180


@workflow(name="regions.ends")
async def ends(number: int) -> int:
    return number


def test_what_nobody_reads_any_more_is_not_written() -> None:
    """The last code of a run leaves its value, and all other code the variables too."""
    request = {"lines": [1, 2], "module": __name__, "workflow": "regions.ends", "root": True, "input": {"number": 3}}
    left = run_region({**request, "code": "def region(_lope):\n    return _lope.returns(_lope.get('number') + 1)"}, None)
    assert left.value == {"flow": "return", "v": 4}
    left = run_region({**request, "code": "def region(_lope):\n    return _lope.next(1)"}, None)
    assert (left.value["flow"], left.value["v"], left.value["heap"][1]) == ("next", 1, False)
