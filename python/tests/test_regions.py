"""Regions in one worker: they do not wait for each other, and one that is not wanted any more is left."""

from __future__ import annotations

import os
import subprocess
import sys
from pathlib import Path

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
