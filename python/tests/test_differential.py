"""The same programs under plain asyncio and under the law: "A differential test runs hundreds of programs both under plain
asyncio and under Lope and compares results, exceptions included."
"""

from __future__ import annotations

import ast
import importlib
import inspect
import pkgutil
from collections import Counter
from typing import Any, Iterator

import programs
import pytest
from constructs import BEYOND, CONSTRUCTS, LINES, constructs_of
from differential import binary, durably, plainly
from lope.compiler.source import unit_of
from lope.testing import Law
from lope.region import heap as heaps
from lope.region import running
from programs import actions

for module in pkgutil.iter_modules(programs.__path__):
    importlib.import_module(f"programs.{module.name}")


@pytest.fixture(scope="module")
def law() -> Iterator[Law]:
    made = Law(binary())
    yield made
    made.close()


@pytest.mark.parametrize("program", actions.PROGRAMS, ids=lambda each: each.name)
def test_means_what_python_means(law: Law, program: actions.Program) -> None:
    for case in program.cases:
        expected = plainly(program.workflow, case, program.signals).shown()
        found = durably(law, program.workflow, case, program.signals).shown()
        assert found == expected, f"{program.name}{case!r}"


# Variables of these hold what only the worker has that made it.
ONLY_IN_MEMORY = ("kept.no_await_was_run",)


@pytest.mark.parametrize("program", actions.PROGRAMS, ids=lambda each: each.name)
def test_means_the_same_to_a_worker_that_has_the_journal_alone(
    law: Law, program: actions.Program, monkeypatch: pytest.MonkeyPatch
) -> None:
    if program.name in ONLY_IN_MEMORY:
        pytest.skip("needs the worker that made it")

    def load(given: Any) -> Any:
        heaps._KEPT.clear()
        return heaps.load(given)

    monkeypatch.setattr(running, "load", load)
    test_means_what_python_means(law, program)


def source(program: actions.Program) -> ast.AST:
    """The tree of a program, with its methods and the helpers of its module."""
    target = program.workflow.target
    trees: list[ast.AST] = []
    if isinstance(target, type):
        for each in target.__mro__[:-1]:
            trees += [unit_of(method).node for method in vars(each).values() if inspect.isfunction(method)]
    else:
        trees.append(unit_of(target).node)
    return ast.Module(body=trees, type_ignores=[])  # type: ignore[arg-type]


def test_every_construct_is_covered(capsys: Any) -> None:
    counts: Counter[str] = Counter()
    combined = 0
    for program in actions.PROGRAMS:
        found = constructs_of(source(program))
        counts.update(found)
        combined += len(found) >= 3
    with capsys.disabled():
        print(f"\n{len(actions.PROGRAMS)} programs, {combined} with three constructs or more")
        for name in CONSTRUCTS:
            print(f"  {name:<28} {counts[name]:>4}")
    assert len(actions.PROGRAMS) >= 300
    assert combined >= 100
    assert not [name for name in CONSTRUCTS if counts[name] < 3]


def test_every_line_of_what_must_compile_has_its_constructs() -> None:
    named = {name for constructs in LINES.values() for name in constructs}
    assert named | BEYOND == set(CONSTRUCTS)
