"""`run` and `start` from a program, with the real command and an empty home."""

from __future__ import annotations

import asyncio
import os
from datetime import datetime
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
