"""Refused programs: the exact line, the reason and the advice.

"Refused with file, line, caret and advice: anything else … Nothing is ever compiled to something that means less."
"""

from __future__ import annotations

import importlib
import inspect
import linecache
from pathlib import Path
from typing import Any

import pytest
import refused
from lope import CompileError, workflow
from lope.decorators import Workflow

for name in ("statements", "aliases"):
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


# "anything else — with/async with, yield, global/nonlocal, lambda outside key functions, del, match if not supported, import,
# calls to unknown functions (advice: make it an `@action`), time, random, uuid, I/O"
NAMED = {
    "a with statement": "@action", "an async with statement": "@action", "yield": "", "a global statement": "",
    "a nonlocal statement": "", "a lambda outside of key=": "", "a del statement": "", "a match statement": "",
    "an import inside a workflow": "", "a call of the method 'frobnicate'": "make it an @action",
    "a call of 'time.time'": "@action", "a call of 'random.random'": "@action", "a call of 'uuid.uuid4'": "@action",
    "'open' has no place": "I/O in an @action",
}  # fmt: skip


def test_everything_that_is_named_is_refused() -> None:
    found = [marked(program.target) for program in refused.REFUSED]
    for reason, advice in NAMED.items():
        assert any(reason in said and advice in advised for _, said, advised in found), reason


def test_there_are_a_hundred() -> None:
    assert len(refused.REFUSED) >= 100


@workflow(name="refused.shown")
async def shown(path: str) -> str:
    with open(path) as file:
        return file.read()


def test_the_message_shows_place_caret_reason_and_advice() -> None:
    with pytest.raises(CompileError) as caught:
        shown.compile()
    first, source, caret, advice = str(caught.value).splitlines()
    assert first.endswith(": a with statement") and f"{Path(__file__).name}:" in first
    assert source.strip() == "with open(path) as file:" and caret.index("^") == source.index("with")
    assert advice.startswith("  advice: ")
