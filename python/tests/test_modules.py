"""What belongs to a module is the worker's: a run that changes it through another name fails, and the module is as it was."""

from __future__ import annotations

import os
import subprocess
import sys
import traceback
from pathlib import Path
from typing import Iterator

import pytest
from differential import binary
from lope import action, workflow
from lope.testing import Law, Stage

NAMES = ["a"]
TABLE: dict[str, list[int]] = {"a": [1]}


class Known:
    seen: list[int] = []


@action
async def waits(x: int) -> int:
    return x


async def remembers(x: int, found: list[int] = []) -> list[int]:
    await waits(x)
    found.append(x)
    return found


@workflow
async def in_the_same_region() -> int:
    names = NAMES
    names.append("b")
    return await waits(1)


@workflow
async def after_an_await() -> int:
    part = TABLE["a"]
    await waits(1)
    part.append(2)
    return await waits(1)


@workflow
async def inside_of_what_is_held() -> int:
    table = TABLE
    await waits(1)
    table["a"].append(2)
    return await waits(1)


@workflow
async def of_a_class() -> int:
    Known().seen.append(1)
    return await waits(1)


@workflow
async def of_a_default() -> list[int]:
    return await remembers(1)


@pytest.fixture(scope="module")
def law() -> Iterator[Law]:
    made = Law(binary())
    yield made
    made.close()


@pytest.mark.parametrize(
    ("run", "name"),
    [(in_the_same_region, "NAMES"), (after_an_await, "TABLE['a']"), (inside_of_what_is_held, "TABLE['a']"), (of_a_class, "Known.seen"), (of_a_default, "remembers.__defaults__[0]")],
    ids=["region", "await", "inside", "class", "default"],
)
def test_what_belongs_to_a_module_is_not_changed_by_another_name(law: Law, run: object, name: str) -> None:
    with Stage(law=law) as stage, pytest.raises(TypeError) as raised:
        stage.run(run)  # type: ignore[arg-type]
    text = str(raised.value)
    assert text.startswith(f"'{name}' belongs to the module and was changed before line ") and text.endswith(": copy it first"), text
    # It is raised in the user's file, at the line that it names.
    line = text.partition("before line ")[2].partition(":")[0]
    told = "".join(traceback.format_exception(raised.value))
    assert f'test_modules.py", line {line}, in' in told and "running.py" not in told.partition("raise_at")[2], told
    assert (NAMES, TABLE, Known.seen, remembers.__defaults__) == (["a"], {"a": [1]}, [], ([],))


_LOST = '''
import os
from lope import Retry, action, attempt, workflow

@action(retry=Retry(3, base="1ms"))
async def dies(mark: str) -> int:
    if not os.path.exists(mark):
        open(mark, "w").close()
        os._exit(1)
    return os.getpid()

@workflow
async def same(mark: str) -> list[bool]:
    words = {f"word {n}" for n in range(200)}
    before, pid = list(words), os.getpid()
    return [await dies(mark) != pid, before == list(words), hash("a") == hash("a")]
'''


def test_a_set_of_text_has_its_order_in_another_worker(tmp_path: Path) -> None:
    (tmp_path / "app.py").write_text(_LOST)
    given = f'{{"mark": "{tmp_path / "mark"}"}}'
    command = [os.environ["LOPE_BIN"], "run", "app.py:same", "--input", given, "--processes", "1", "--python-bin", sys.executable]
    ended = subprocess.run(command, cwd=tmp_path, capture_output=True, text=True, timeout=120, env={**os.environ, "LOPE_HOME": str(tmp_path)})
    assert (ended.returncode, ended.stdout.split()) == (0, ["[true,true,true]"]), ended.stderr
