"""Programs as people write them (`examples/python/kinds`): each ends under Lope as under plain asyncio, where its actions
are plain coroutines; first under the law in this process, then through the command with a runner and its workers.
"""

from __future__ import annotations

import importlib
import os
import sys
from pathlib import Path
from typing import Any, Iterator, Optional

import pytest
from differential import Ending, binary, durably, plainly
from lope import client
from lope.decorators import Workflow
from lope.testing import Law

KINDS = Path(__file__).parents[2] / "examples" / "python" / "kinds"
sys.path.insert(0, str(KINDS))

APPROVED = {"approved": [{"by": "Ann", "approved": True}]}
# Module, workflow, arguments, signals.
CASES: list[tuple[str, str, tuple[Any, ...], dict[str, list[Any]]]] = [
    ("models", "register", ({"email": "Ann@Example.org", "age": 30},), {}),
    ("invoices", "bill", ("Ann",), {}),
    ("grouping", "by_customer", ([("ann", 3), ("bob", 5), ("ann", 4)],), {}),
    ("saga", "book", ("rome", ""), {}),
    ("saga", "book", ("rome", "car"), {}),
    ("matching", "door", ([{"kind": "open"}, {"kind": "lock", "code": 7}, {"kind": "unlock", "code": 1}, {"kind": "knock", "by": 1},
                           {"kind": "unlock", "code": 7}, {"kind": "fly"}],), {}),
    ("polling", "until_ready", ("j", 3), {}),
    ("polling", "until_ready", ("j", 9, 3), {}),
    ("deadlines", "quickest", ([0.001, 30],), {}),
    ("gathering", "checked", (["a", "bad", "bb", "bad2"],), {}),
    ("sets", "reachable", ("a",), {}),
    ("helpers", "letters", (["ann", "bob"],), {}),
    ("logs", "noisy", (3,), {}),
    ("classes", "Stock", ([("pen", 5), ("pen", -2), ("cap", -1)],), {}),
    ("children", "quarter", ([[1, 2], [3], [4, 5]],), {}),
    ("records", "update", (["ann", "bob"],), {}),
    ("enums", "states", (["PAY", "SHIP"],), {}),
    ("semaphores", "crawl", (["a", "b", "c", "d"],), {}),
    ("batches", "load_all", ([1, 2, 3, 4, 5], 2), {}),
    ("retries", "stubborn", (3,), {}),
    ("retries", "stubborn", (9,), {}),
    ("timeouts", "race", ([0.2, 0.001, 60],), {}),
    ("managers", "nested", (False,), {}),
    ("managers", "nested", (True,), {}),
    ("counters", "words", (["a b a", "b c"],), {}),
    ("methods", "shop", (["pen", "cap", "pen"],), {}),
    ("generators", "report", (["a=1", "b=2", "# no", "a=5"],), {}),
    ("signals", "expense", (500,), APPROVED),
    ("signals", "expense", (50,), {}),
    ("closures", "rules", ([1, 5, 12],), {}),
]  # fmt: skip
# Where it matters how long an action takes; on a stage none takes any time.
TIMED = {"deadlines", "timeouts"}
# What asyncio has from 3.11 on.
NEW = {"timeouts"}


def found(module: str, name: str) -> Workflow[..., Any]:
    if module in NEW and sys.version_info < (3, 11):
        pytest.skip("needs Python 3.11")
    return getattr(importlib.import_module(module), name)  # type: ignore[no-any-return]


def arguments(module: str, args: tuple[Any, ...]) -> tuple[Any, ...]:
    """A plain program gets what the hints promise."""
    if module == "models":
        return (importlib.import_module("models").Form(**args[0]),)
    return args


def expected(module: str, name: str, args: tuple[Any, ...], signals: dict[str, list[Any]]) -> Any:
    if signals:
        kind = importlib.import_module(module).Approval
        signals = {each: [kind(**value) for value in values] for each, values in signals.items()}
    return plainly(found(module, name), args, signals).crossed().shown()


@pytest.mark.parametrize("module,name,args,signals", [each for each in CASES if each[0] not in TIMED], ids=lambda each: each if isinstance(each, str) else "")
def test_a_kind_of_program_means_what_it_means(module: str, name: str, args: Any, signals: Any) -> None:
    workflow = found(module, name)
    args = arguments(module, args)
    law = Law(binary())
    try:
        ended = durably(law, workflow, args, signals)
    finally:
        law.close()
    assert ended.crossed().shown() == expected(module, name, args, signals)


def test_every_kind_is_tried() -> None:
    assert {each[0] for each in CASES} == {path.stem for path in KINDS.glob("*.py")}
    assert len({each[0] for each in CASES}) >= 25


@pytest.fixture
def runner(tmp_path: Path, monkeypatch: pytest.MonkeyPatch) -> Iterator[None]:
    if "LOPE_BIN" not in os.environ:
        pytest.fail("LOPE_BIN is not set: run this by `cargo xtask test`")
    monkeypatch.setenv("LOPE_HOME", str(tmp_path))
    monkeypatch.setenv("LOPE_EMBEDDED", "0")
    modules = [path.stem for path in sorted(KINDS.glob("*.py")) if path.stem not in NEW or sys.version_info >= (3, 11)]
    client.serve(modules)
    yield
    client._stop_runners()
    client._runners.clear()


def test_the_kinds_run_as_they_stand(runner: None) -> None:
    """All of them at once, by one runner with two processes."""
    started: list[tuple[str, str, tuple[Any, ...], Any, Optional[client.Handle[Any]]]] = []
    for module, name, args, signals in CASES:
        if module in NEW and sys.version_info < (3, 11):
            continue
        args = arguments(module, args)
        handle = client.start(found(module, name), *args)
        for signal, values in signals.items():
            for value in values:
                handle.signal(signal, value)
        started.append((module, name, args, signals, handle))
    for module, name, args, signals, handle in started:
        assert handle is not None
        try:
            ended = Ending(handle.result("300s"))
        except Exception as error:
            ended = Ending(error=error)
        assert ended.crossed().shown() == expected(module, name, args, signals), (module, name)
