"""Refused programs: the exact line, the reason and the advice.

What cannot be followed is refused with file, line, caret and advice.
"""

from __future__ import annotations

import asyncio
import importlib
import inspect
import linecache
from pathlib import Path
from typing import Any

import pytest
import refused
from generated import load
from lope import CompileError, action, workflow
from lope.decorators import Workflow

for name in ("statements",):
    importlib.import_module(f"refused.{name}")


def marked(target: Any) -> tuple[int, str, str]:
    """The line that ends with a mark, its reason and its advice; a helper's if the program has none."""
    lines, first = inspect.getsourcelines(target)
    whole = list(enumerate(linecache.getlines(inspect.getsourcefile(target) or ""), 1))
    own = [(number, line) for number, line in whole[first - 1 : first - 1 + len(lines)] if "#!" in line]
    (number, line), *others = own or [(number, line) for number, line in whole if "#!" in line][:1]
    assert not others, "one line is marked"
    reason, _, advice = line.partition("#!")[2].partition("|")
    return number, reason.strip(), advice.strip()


@pytest.mark.parametrize("program", refused.REFUSED, ids=lambda each: each.name)
def test_is_refused_with_line_and_advice(program: Workflow[..., Any]) -> None:
    line, reason, advice = marked(program.target)
    with pytest.raises(CompileError) as caught:
        program.compile()
    error = caught.value
    assert (error.line, Path(error.file).parent.name) == (line, "refused"), str(error)
    assert reason in error.reason and advice in error.advice, str(error)
    assert error.source == linecache.getline(error.file, line).rstrip("\n")


@workflow(name="refused.shown")
async def shown(path: str) -> str:
    async with open(path) as file:  # type: ignore[attr-defined]
        return str(file.read())


def test_the_message_shows_place_caret_reason_and_advice() -> None:
    with pytest.raises(CompileError) as caught:
        shown.compile()
    first, source, caret, advice = str(caught.value).splitlines()
    assert first.endswith(": an async with statement") and f"{Path(__file__).name}:" in first
    assert source.strip() == "async with open(path) as file:  # type: ignore[attr-defined]" and caret.index("^") == source.index("async")
    assert advice.startswith("  advice: ")


@workflow(name="refused.wide")
async def wide(x: int) -> int:
    text = "äöü€"; tall = "日本"; return text, tall, await asyncio.shield(x)  # fmt: skip


def test_the_caret_stands_below_the_character_not_the_byte() -> None:
    with pytest.raises(CompileError) as caught:
        wide.compile()
    _, source, caret, _ = str(caught.value).splitlines()
    assert caught.value.column == caught.value.source.index("asyncio.shield") + 1
    # Each of two characters takes the room of two.
    assert caret.index("^") == source.index("asyncio.shield") + 2


def test_the_caret_keeps_tabs() -> None:
    assert str(CompileError("reason", "advice", "app.py", 1, 4, "\t\tx y")).splitlines()[2] == "    \t\t ^"


@pytest.mark.parametrize("text", ["async def work(x):\n    yield x", "def work(x):\n    yield x"])
def test_actions_and_workflows_do_not_yield(text: str) -> None:
    made: dict[str, Any] = {}
    exec(text, made)
    for decorator, said in ((action, "a function that returns: work yields"), (workflow, "an async function or a class with an async run: it yields")):
        with pytest.raises(TypeError) as caught:
            decorator(made["work"])
        assert str(caught.value) == f"@{decorator.__name__} goes before {said}; collect the values in a list and return it"


SAME = """
from lope import workflow

async def f(x): return x

first = f

async def f(x): return await first(x) + 1

@workflow(name="refused.same_names")
async def both(x): return await first(x), await f(x)
"""


def test_two_functions_of_one_name_are_refused(tmp_path: Path) -> None:
    with pytest.raises(CompileError) as caught:
        load(tmp_path / "same_names.py", SAME).both.compile()
    assert (caught.value.line, caught.value.reason) == (8, "another async function that is called 'f', too")
