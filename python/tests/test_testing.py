"""`lope.testing`, `python -m lope compile`, and the compiler's table against the law's."""

from __future__ import annotations

import gc
import json
import subprocess
import sys
import types
from pathlib import Path
from typing import Any, Iterator

import pytest
from differential import binary
from lope import Retry, action, gather, sleep, wait_signal, workflow
from lope.compiler.source import shown_file
from lope.region import awaiting
from lope.region import heap as heaps
from lope.testing import Law, Stage, Stuck

KINDS = {"M": "PyMethod", "C": "PyChange", "T": "PyTake"}


@pytest.fixture(scope="module")
def law() -> Iterator[Law]:
    made = Law(binary())
    yield made
    made.close()


@action(name="testing.fetch", retry=Retry(2, backoff="exponential", base="10s"))
async def fetch(key: str) -> str:
    return key.upper()


@workflow(name="testing.patient")
async def patient(key: str) -> list[str]:
    await sleep("7d")
    return await gather(fetch(key), fetch.with_options(retry=Retry(0))("b"))


@workflow(name="testing.waiting")
async def waiting() -> Any:
    return await wait_signal("go")


@workflow
async def cubed(n: int) -> str:
    try:
        return str(n * n * n)
    except OverflowError:
        return "too large"


def test_integers_have_no_bounds() -> None:
    with Stage() as stage:
        assert stage.run(cubed, 2**20) == str(2**60)
        assert stage.run(cubed, 2**40) == str(2**120)


def test_sleeps_are_skipped_and_failures_retried(law: Law) -> None:
    stage = Stage(law=law, failures={"testing.fetch": [OSError("one")]})
    assert stage.run(patient, "a") == ["A", "B"]
    assert [(call.action, call.attempt) for call in stage.calls] == [
        ("testing.fetch", 1), ("testing.fetch", 1), ("testing.fetch", 2),
    ]  # fmt: skip
    assert stage.slept == 7 * 86_400 + 10


def test_spent_retries_raise_the_last_failure(law: Law) -> None:
    stage = Stage(law=law, failures={"testing.fetch": [OSError("one"), OSError("no retry for this")]})
    with pytest.raises(OSError, match="no retry for this"):
        stage.run(patient, "a")


def test_actions_can_be_played_by_others(law: Law) -> None:
    stage = Stage(law=law, actions={"testing.fetch": lambda key: f"double of {key}"})
    assert stage.run(patient, "a") == ["double of a", "double of b"]


def test_a_run_that_waits_for_nothing_that_comes_is_stuck(law: Law) -> None:
    with pytest.raises(Stuck, match="go"):
        Stage(law=law).run(waiting)
    assert Stage(law=law, signals={"go": [{"a": (1, 2)}]}).run(waiting) == {"a": (1, 2)}


def compile_command(*words: str, folder: Path) -> subprocess.CompletedProcess[str]:
    path = str(Path(__file__).parents[1])
    command = [sys.executable, "-m", "lope", "compile", *words]
    return subprocess.run(command, cwd=folder, env={"PYTHONPATH": path}, capture_output=True, text=True)


APP = """
from lope import action, workflow

@action
async def send(to: str) -> str:
    return to

@workflow
async def good(to: str) -> str:
    return await send(to)

@workflow
async def bad(to: str) -> str:
    send(to)
    return to
"""


def test_the_definition_is_printed_as_json(tmp_path: Path, law: Law) -> None:
    (tmp_path / "app.py").write_text(APP)
    for target in ("app:good", "app.py:good"):
        found = compile_command(target, folder=tmp_path)
        assert found.returncode == 0, found.stderr
        definition = json.loads(found.stdout)
        assert definition["name"] == "good" and law.plan(definition) >= 0
        step = next(each for each in definition["blocks"][0]["steps"] if each["name"] == "send")
        assert step["at"][0] == 10, "steps keep their place in the source"


def test_what_cannot_be_compiled_says_why(tmp_path: Path) -> None:
    (tmp_path / "app.py").write_text(APP)
    bad = compile_command("app:bad", folder=tmp_path)
    assert bad.returncode == 2 and "app.py:14:5: 'send' is called and not awaited" in bad.stderr
    missing = compile_command("app:nothing", folder=tmp_path)
    assert missing.returncode == 2 and "there are: bad, good" in missing.stderr
    assert compile_command("nothing:x", folder=tmp_path).returncode == 2
    assert compile_command("nonsense", folder=tmp_path).returncode == 2


def test_definitions_name_their_file_and_lines() -> None:
    """“Definitions keep source positions”: the file without the folders of this machine, and a place a step."""
    found = patient.compile()
    assert found["file"] == "test_testing.py"
    lines = Path(__file__).read_text(encoding="utf-8").splitlines()
    (slept,) = [step for step in found["blocks"][0]["steps"] if step["kind"] == "sleep" or "sleep" in step["kind"]]
    assert 'sleep("7d")' in lines[slept["at"][0] - 1]


def test_a_module_in_a_package_has_its_folders() -> None:
    assert shown_file("/a/b/shop/orders.py", "shop.orders") == "shop/orders.py"
    assert shown_file("/a/b/shop/__init__.py", "shop") == "shop/__init__.py"
    assert shown_file("/a/app.py", "__main__") == "app.py"


def test_a_stage_refuses_actions_that_do_not_exist(law: Law) -> None:
    with pytest.raises(ValueError, match="there is no action 'testing.fetsch'; there are: .*testing.fetch"):
        Stage(law=law, failures={"testing.fetsch": [OSError()]})
    with pytest.raises(ValueError, match="there is no action 'nothing'"):
        Stage(law=law, actions={"nothing": lambda: 1})


@action(name="testing.limited", rate="10/1s", concurrency=3)
async def limited(x: int) -> int:
    return x


@workflow(name="testing.uses_limited")
async def uses_limited(x: int) -> int:
    return await limited(x)


def test_rate_and_concurrency_are_part_of_the_policy(law: Law) -> None:
    (step,) = [each for each in uses_limited.compile()["blocks"][0]["steps"] if each["name"] == "testing.limited"]
    assert step["policy"]["rate_limit"] == {"count": 10, "per": "1000ms"}
    assert step["policy"]["concurrency"] == {"limit": 3}
    assert Stage(law=law).run(uses_limited, 4) == 4
    for wrong in ({"rate": "fast"}, {"rate": "0/1s"}, {"concurrency": 0}):
        with pytest.raises(ValueError):
            action(name="testing.wrong", **wrong)(lambda: 1)  # type: ignore[call-overload]


async def for_ever(n: int) -> int:
    return await for_ever(n + 1)


@workflow(name="testing.endless")
async def endless(caught: bool) -> str:
    async def inner(n: int) -> int:
        return await inner(n + 1)

    try:
        await (inner(0) if caught else for_ever(0))
    except RecursionError as error:
        if not caught:
            raise
        return str(error)
    return "ended"


def test_calls_that_never_end_fail_as_cpython_s_do(law: Law, monkeypatch: pytest.MonkeyPatch) -> None:
    """CPython has room for about a thousand; here it is forty, so that it does not take long."""
    monkeypatch.setattr(awaiting, "_OUTSIDE", sys.getrecursionlimit() - 40)
    assert Stage(law=law).run(endless, True) == "maximum recursion depth exceeded"
    with pytest.raises(RecursionError) as failed:
        Stage(law=law).run(endless, False)
    assert str(failed.value) == "maximum recursion depth exceeded"


async def chained(n: int) -> list[Any]:
    return [n] if n == 0 else [n, *(await gather(chained(n - 1)))[0]]


@workflow(name="testing.apart")
async def apart() -> list[Any]:
    return await chained(60)


def test_what_is_gathered_has_a_stack_of_its_own(law: Law, monkeypatch: pytest.MonkeyPatch) -> None:
    monkeypatch.setattr(awaiting, "_OUTSIDE", sys.getrecursionlimit() - 40)
    assert Stage(law=law).run(apart) == [*range(60, -1, -1)]


@workflow(name="testing.keeps_calls")
async def keeps_calls() -> list[int]:
    found = []

    async def inner(n: int) -> int:
        return len(found) + n

    for n in range(3):
        call = inner(n)
        await sleep(1)
        found.append(await call)
    return found


def test_calls_that_were_awaited_are_let_go(law: Law) -> None:
    """A worker lives long, and a call leads to the variables of the function around it, and so to itself."""
    heaps._KEPT.clear()
    gc.collect()
    before = len(awaiting._MADE)
    assert Stage(law=law).run(keeps_calls) == [0, 2, 4]
    heaps._KEPT.clear()
    gc.collect()
    assert len(awaiting._MADE) == before


def test_a_workflow_that_is_a_function_is_no_base() -> None:
    with pytest.raises(TypeError) as caught:
        types.new_class("Sub", (apart,))
    assert str(caught.value) == "testing.apart is a workflow and no class: only a class may be a base of another"
