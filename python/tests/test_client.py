"""`run` and `start` from a program, with the real command and an empty home."""

from __future__ import annotations

import asyncio
import json
import os
import signal
import subprocess
import sys
import time
from datetime import datetime
from decimal import Decimal
from pathlib import Path
from typing import Iterator

import pytest

import lope_test_client_app as app
from lope import client


@pytest.fixture(autouse=True)
def home(tmp_path: Path, monkeypatch: pytest.MonkeyPatch) -> Iterator[Path]:
    if "LOPE_BIN" not in os.environ:
        pytest.fail("LOPE_BIN is not set: run this by `cargo xtask test`")
    monkeypatch.setenv("LOPE_HOME", str(tmp_path))
    yield tmp_path
    client._stop_runners()
    client._runners.clear()


def test_a_run_returns_its_result_with_its_types() -> None:
    users = [app.User("a", datetime(2026, 1, 1)), app.User("b", datetime(2026, 1, 2))]
    assert client.run(app.hello, users) == [("A", datetime(2026, 1, 2)), ("B", datetime(2026, 1, 3))]


def test_a_run_raises_what_it_raised() -> None:
    with pytest.raises(app.NotLiked, match="not me"):
        client.run(app.fails, "me")


def test_a_started_run_can_be_asked_signalled_and_cancelled() -> None:
    handle = client.start(app.waits, 5)
    assert handle.status() in ("queued", "running", "waiting")
    with pytest.raises(TimeoutError):
        handle.result("100ms")
    handle.signal("go", 7)
    assert handle.result("60s") == 12
    assert handle.status() == "completed"
    other = client.start(app.waits, 5)
    other.cancel()
    with pytest.raises(client.Cancelled):
        other.result("60s")


def test_the_loop_is_not_blocked() -> None:
    async def both() -> list[object]:
        handle = await client.start_async(app.waits, 1)
        await handle.signal_async("go", 1)
        return list(await asyncio.gather(handle.result_async("60s"), asyncio.sleep(0)))

    assert asyncio.run(both()) == [2, None]


def test_a_key_names_a_run() -> None:
    first = client.Starter(app.waits, key="k", tags={"a": "b"}).start(1)
    assert client.Starter(app.waits, key="k").start(2).id == first.id


def test_what_the_command_refuses_is_an_error_with_its_words() -> None:
    with pytest.raises(client.LopeError, match="no run"):
        client.Handle[object]("01890a5d-ac96-774b-bcce-b302099a8057").status()


def test_a_run_is_started_with_options() -> None:
    """Key, queue, priority, tags and time go with the run; a timeout ends the wait, not the run."""
    later = app.waits.with_options(key="once", priority=7, tags={"a": "b"}, at="0s", timeout="100ms")
    with pytest.raises(TimeoutError):
        client.run(later, 1)
    handle = client.start(later, 2)
    shown = client._lope(["runs", "show", handle.id])
    assert (shown["key"], shown["priority"], shown["tags"]) == ("once", 7, {"a": "b"})
    handle.signal("go", 5)
    assert handle.result("60s") == 6
    aside = client.start(app.waits.with_options(queue="aside", at="1h"), 3)
    shown = client._lope(["runs", "show", aside.id])
    assert (shown["queue"], shown["status"]) == ("aside", "queued")
    assert [each["why"] for each in client._lope(["runs", "why", aside.id])["reasons"]] == ["not_due"]


def test_what_users_catch_is_exported() -> None:
    """"`Cancelled` and what else users catch are exported" """
    import lope

    for name in ("Cancelled", "LopeError", "CompileError", "RemoteError", "ValueProblem"):
        assert name in lope.__all__ and issubclass(getattr(lope, name), Exception), name
    handle = client.start(app.waits, 1)
    handle.cancel()
    with pytest.raises(lope.Cancelled):
        handle.result("60s")
    with pytest.raises(lope.ValueProblem):
        client.run(app.waits, object())  # type: ignore[arg-type]


CARELESS = """
import asyncio, os
from lope import run, run_async, start, start_async, workflow

with open("loaded", "a") as file:
    file.write(f"{os.getpid()}\\n")


@workflow
async def w() -> int:
    return 1


ASKS
"""


@pytest.mark.parametrize("asks", ["run(w)", "start(w)", "asyncio.run(run_async(w))", "asyncio.run(start_async(w))", "run(w.with_options(key='k'))"])
def test_a_run_while_a_module_is_loaded_is_refused(tmp_path: Path, asks: str) -> None:
    """"`run`/`start` reached while a module is imported for compiling: a clear error, not 110 processes." """
    (tmp_path / "careless.py").write_text(CARELESS.replace("ASKS", asks))
    command = [os.environ["LOPE_BIN"], "run", "careless.py:w", "--python-bin", sys.executable]
    ended = subprocess.run(command, cwd=tmp_path, capture_output=True, text=True, timeout=120)
    assert ended.returncode == 2
    assert "while the module 'careless' is loaded to be compiled" in ended.stderr and "__main__" in ended.stderr
    assert len((tmp_path / "loaded").read_text().splitlines()) == 1
    up = [os.environ["LOPE_BIN"], "up", "--python", "careless.py", "--processes", "1", "--http", "off", "--python-bin", sys.executable]
    ended = subprocess.run(up, cwd=tmp_path, capture_output=True, text=True, timeout=120)
    assert ended.returncode == 2 and "while a worker loads the module 'careless'" in ended.stderr, ended.stderr
    assert len((tmp_path / "loaded").read_text().splitlines()) == 2
    listed = subprocess.run([os.environ["LOPE_BIN"], "runs", "list", "--json"], capture_output=True, text=True, timeout=120)
    assert json.loads(listed.stdout) == []


def test_stop_iteration_fails_an_action() -> None:
    with pytest.raises(RuntimeError, match="raised StopIteration"):
        client.run(app.stops)


def test_a_region_runs_in_a_worker_and_is_recorded() -> None:
    """A clock, dice and ids in the workflow itself; what they gave is what every later region sees."""
    first, second, made = client.run(app.dicey)
    assert first == second and len(made) == 36


def test_a_run_with_regions_survives_its_runner(tmp_path: Path) -> None:
    """The runner is killed in the middle; another goes on with the same objects, and nothing is done twice but what was
    under way."""
    path, rounds = tmp_path / "noted", 30
    handle = client.Starter(app.shared).start(str(path), rounds)
    words = [os.environ["LOPE_BIN"], "up", "--quiet", "--python", "lope_test_client_app", "--python-bin", sys.executable]
    for stop in (7, 19):
        runner = subprocess.Popen(words, env=client._environment())
        until = time.monotonic() + 120
        while not path.exists() or len(path.read_text(encoding="utf-8").splitlines()) < stop:
            assert runner.poll() is None and time.monotonic() < until
            time.sleep(0.01)
        runner.kill()
        runner.wait()
    client.ensure_runner(app.shared)
    numbers = [Decimal(n) / 10 for n in range(rounds)]
    even, odd = numbers[::2], numbers[1::2]
    assert handle.result("120s") == ({"even": even, "odd": odd}, True, sum(even))
    done = [int(line) for line in path.read_text(encoding="utf-8").splitlines()]
    assert sorted(set(done)) == list(range(rounds)) and len(done) <= rounds + 2


def test_a_worker_that_crashes_counts_attempts(tmp_path: Path) -> None:
    """"A crash of the worker counts as the docs say": three more attempts, then the run fails."""
    path = tmp_path / "tried"
    with pytest.raises(Exception) as caught:
        client.run(app.crashing, str(path))
    assert getattr(caught.value, "kind", "") == "WorkerLost", repr(caught.value)
    assert path.read_text(encoding="utf-8").count("tried") == 4


def test_a_child_that_is_started_gives_a_handle() -> None:
    first, last, others = client.start(app.parent, 5).result("120s")
    assert len({first, last, *others}) == 4
    for id, n in ((first, 5), (last, 6), (others[0], 0), (others[1], 1)):
        handle = client.Handle(id, app.waits)
        handle.signal("go", 10)
        assert handle.result("120s") == 10 + n


def test_a_signal_has_the_type_that_is_asked_for() -> None:
    handle = client.start(app.approving)
    handle.signal("approved", {"by": "Ann", "approved": True})
    assert handle.result("120s") == app.Approval("Ann", True)
    wrong = client.start(app.approving)
    wrong.signal("approved", {"by": "Ann", "approved": "perhaps"})
    with pytest.raises(Exception, match="approved"):
        wrong.result("120s")


def test_an_action_has_its_own_rate_and_concurrency(tmp_path: Path) -> None:
    path = tmp_path / "marks"
    numbers, times = client.start(app.limited, str(path)).result("120s")
    assert numbers == [0, 1, 2, 3] and path.read_text(encoding="utf-8") == "+-+-+-+-"
    times.sort()
    # Five of them at two a span take at least two spans.
    assert times[-1] - times[0] >= 0.5, times


def test_many_calls_take_one_process() -> None:
    """"an async client without a process per call": one process answers, however many ask at once."""

    async def many() -> list[int]:
        handles = await asyncio.gather(*[client.start_async(app.waits, n) for n in range(20)])
        await asyncio.gather(*[handle.signal_async("go", 1) for handle in handles])
        return list(await asyncio.gather(*[handle.result_async("120s") for handle in handles]))

    before = client._talk()
    assert asyncio.run(many()) == [n + 1 for n in range(20)]
    assert client._talk() is before


def test_a_conversation_that_ended_is_begun_again() -> None:
    handle = client.start(app.waits, 1)
    talk = client._talk()
    talk._process.kill()
    talk._process.wait()
    handle.signal("go", 1)
    assert handle.result("120s") == 2


def test_a_class_is_started_like_a_function() -> None:
    assert client.start(app.Tally, [1, 2, 3]).result("120s") == 6
    assert asyncio.run(client.run_async(app.Tally, [4])) == 4


EDITED = """
from lope import action, wait_signal, workflow

@action
def greet(NAMES) -> str:
    RAISES
    return "hello " + name

@workflow
async def waits(name: str) -> str:
    await wait_signal("go")
    return await greet(name)
"""


def edited(names: str, raises: str = "") -> str:
    return EDITED.replace("NAMES", names).replace("RAISES", raises)


def test_an_action_that_was_edited_says_how_to_go_on(tmp_path: Path) -> None:
    """A run failed in an action; meanwhile it takes other arguments than the run gives it."""

    def lope(*words: str) -> "subprocess.CompletedProcess[str]":
        python = [] if words[0] == "runs" else ["--python-bin", sys.executable]
        command = [os.environ["LOPE_BIN"], *words, *python]
        return subprocess.run(command, cwd=tmp_path, capture_output=True, text=True, timeout=300, env=client._environment())

    app_file = tmp_path / "edited.py"
    app_file.write_text(edited("name: str", "raise OSError('no mail')"), encoding="utf-8")
    run = lope("start", "edited.py:waits", "--input", '"Ann"', "--quiet", "--json")
    id = json.loads(run.stdout)["run_id"]
    lope("runs", "signal", id, "go")
    failed = lope("run", "edited.py:waits", "--resume", id)
    assert failed.returncode == 1 and "OSError: no mail" in failed.stdout, failed
    assert "mend the cause, then go on from there: " in failed.stderr and f"lope runs retry {id}" in failed.stderr, failed.stderr
    app_file.write_text(edited("name: str, title: str"), encoding="utf-8")
    assert lope("runs", "retry", id).returncode == 0
    failed = lope("run", "edited.py:waits", "--resume", id)
    assert failed.returncode == 1 and "missing a required argument: 'title'" in failed.stdout, failed
    assert "Was it edited since?" in failed.stdout and "lope runs retry" in failed.stdout, failed.stdout
    app_file.write_text(edited("name: str, title: str = ''"), encoding="utf-8")
    assert lope("runs", "retry", id).returncode == 0
    assert lope("run", "edited.py:waits", "--resume", id).stdout.strip() == "hello Ann"


def test_one_sigterm_stops_a_run(tmp_path: Path) -> None:
    """"One SIGTERM stops `lope run`", and the run goes on later."""
    (tmp_path / "long.py").write_text(edited("name: str"), encoding="utf-8")
    command = [os.environ["LOPE_BIN"], "run", "long.py:waits", "--input", '"Bo"', "--python-bin", sys.executable]
    running = subprocess.Popen(command, cwd=tmp_path, stderr=subprocess.PIPE, stdout=subprocess.DEVNULL, text=True, env=client._environment())
    assert running.stderr is not None
    first = running.stderr.readline()
    assert "started" in first, first
    running.send_signal(signal.SIGTERM)
    said = running.communicate(timeout=120)[1]
    assert running.returncode == 1 and "nothing is lost" in said, said
    id = first.split()[1]
    client.Handle[str](id).signal("go")
    again = subprocess.run([*command[:3], "--resume", id, *command[-2:]], cwd=tmp_path, capture_output=True, text=True, timeout=300, env=client._environment())
    assert again.stdout.strip() == "hello Bo", again.stderr
