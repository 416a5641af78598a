"""The pages of docs/ that show Python: their code is run, their sessions are compared, their refusals are refused."""

from __future__ import annotations

import doctest
import importlib.util
import re
import shlex
import subprocess
import sys
from pathlib import Path
from types import ModuleType
from typing import Iterator

import pytest
from differential import binary
from lope import CompileError, client
from lope.decorators import Workflow, actions, workflows

PAGE = Path(__file__).parents[2] / "docs" / "python.md"
FENCE = re.compile(r"^```(\w+)( refused)?\n(.*?)^```$", re.MULTILINE | re.DOTALL)


def blocks(kind: str, refused: bool = False) -> list[str]:
    found = FENCE.finditer(PAGE.read_text(encoding="utf-8"))
    return [each[3] for each in found if each[1] == kind and bool(each[2]) == refused]


def imported(path: Path, source: str) -> ModuleType:
    path.write_text(source, encoding="utf-8")
    spec = importlib.util.spec_from_file_location(path.stem, path)
    assert spec is not None and spec.loader is not None
    module = importlib.util.module_from_spec(spec)
    sys.modules[path.stem] = module
    spec.loader.exec_module(module)
    return module


@pytest.fixture
def _own_names() -> Iterator[None]:
    before = dict(actions), dict(workflows)
    for table in (actions, workflows):
        for name in [each for each in table if not each.startswith("lope.")]:
            del table[name]
    yield
    for table, kept in zip((actions, workflows), before):
        table.clear()
        table.update(kept)


@pytest.mark.usefixtures("_own_names")
def test_the_tutorial_runs(tmp_path: Path, monkeypatch: pytest.MonkeyPatch) -> None:
    _ready(tmp_path, monkeypatch)
    module = imported(tmp_path / "tutorial.py", "\n".join(blocks("python")))
    names = vars(module)
    for number, session in enumerate(blocks("pycon")):
        test = doctest.DocTestParser().get_doctest(session, names, f"session {number}", str(PAGE), 0)
        shown: list[str] = []
        doctest.DocTestRunner().run(test, out=shown.append, clear_globs=False)
        assert not shown, "".join(shown)
        names.update(test.globs)
    client._stop_runners()
    client._runners.clear()
    assert len(blocks("pycon")) >= 5


def _ready(folder: Path, monkeypatch: pytest.MonkeyPatch) -> None:
    """The command, an empty home, and the folder as a place of modules."""
    monkeypatch.setenv("LOPE_BIN", binary())
    monkeypatch.setenv("LOPE_HOME", str(folder / "home"))
    monkeypatch.syspath_prepend(str(folder))


def test_the_commands_say_what_the_page_says(tmp_path: Path, monkeypatch: pytest.MonkeyPatch) -> None:
    _ready(tmp_path, monkeypatch)
    (tmp_path / "app.py").write_text("\n".join(blocks("python")), encoding="utf-8")
    monkeypatch.setenv("PYTHONPATH", str(Path(__file__).parents[1]))
    (session,) = blocks("console")
    for part in session.split("$ ")[1:]:
        line, _, expected = part.partition("\n")
        command = [binary() if word == "lope" else word for word in shlex.split(line)]
        ended = subprocess.run([*command, "--python-bin", sys.executable], cwd=tmp_path, capture_output=True, text=True, timeout=120)
        assert ended.stdout == expected, line + ended.stderr


@pytest.mark.usefixtures("_own_names")
def test_what_the_page_says_is_refused_is(tmp_path: Path) -> None:
    sources, answers = blocks("python", refused=True), blocks("text")
    assert len(sources) == len(answers) >= 3
    for number, (source, answer) in enumerate(zip(sources, answers)):
        module = imported(tmp_path / f"refused_{number}.py", f"from lope import workflow\n{source}")
        (found,) = [each for each in vars(module).values() if isinstance(each, Workflow)]
        with pytest.raises(CompileError) as caught:
            found.compile()
        reason, advice = answer.splitlines()
        assert caught.value.reason == reason and caught.value.advice.startswith(advice.removeprefix("advice: "))
