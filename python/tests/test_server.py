"""The client over HTTP, against a real `lope up`."""

import asyncio
import os
import re
import subprocess
import time
from pathlib import Path
from typing import Any, Iterator

import pytest

from lope.binary import find_binary
from lope.server import Server, ServerError, ServerRun, connect, connect_async

PLAIN = "name: plain\nsteps: { a: { let: '${{ input.n * 2 }}' }, done: { return: '${{ a }}' } }\n"
APPROVE = "name: approve\nsteps: { go: { wait: approved }, done: { return: '${{ go }}' } }\n"
FAILING = "name: failing\nsteps: { a: { raise: { type: Broken, message: it broke } } }\n"


class Up:
    """A `lope up` in a home of its own."""

    def __init__(self, home: Path, address: str = "127.0.0.1:0") -> None:
        environment = {**os.environ, "LOPE_HOME": str(home), "LOPE_STORE": f"sqlite:{home}/lope.db"}
        words = [find_binary(), "up", "--http", address]
        self.process = subprocess.Popen(words, env=environment, stderr=subprocess.PIPE, text=True)
        assert self.process.stderr is not None
        for line in self.process.stderr:
            found = re.search(r"http://([0-9.:]+)/", line)
            if found:
                self.address = found.group(1)
                break

    def kill(self) -> None:
        self.process.kill()
        self.process.wait()
        assert self.process.stderr is not None
        self.process.stderr.close()


@pytest.fixture
def up(tmp_path: Path) -> Iterator[Up]:
    running = Up(tmp_path)
    yield running
    running.kill()


def server_of(up: Up) -> Server:
    server = connect(f"http://{up.address}")
    for text in (PLAIN, APPROVE, FAILING):
        server.deploy(text)
    return server


def test_runs_are_started_signalled_and_waited_for(up: Up) -> None:
    server = server_of(up)
    assert server.start("plain", {"n": 21}).result("60s") == 42
    waiting = server.start("approve", key="order-17", tags={"plan": "pro"})
    again = server.start("approve", key="order-17")
    assert again.id == waiting.id
    with pytest.raises(TimeoutError):
        waiting.result("100ms")
    waiting.signal("approved", {"by": "Ada"})
    assert server.run("order-17").result("60s") == {"by": "Ada"}
    failing = server.start("failing")
    with pytest.raises(Exception, match="it broke"):
        failing.result("60s")
    assert failing.status() == "failed"
    assert [run["run_id"] for run in server.runs(status="failed")] == [failing.id]
    with pytest.raises(ServerError) as refused:
        server.run("nobody").show()
    assert (refused.value.status, refused.value.kind) == (404, "not_found")


def until(run: ServerRun[Any], status: str) -> None:
    """Ask until a run is in a state."""
    end = time.monotonic() + 60
    while (now := run.status()) != status:
        assert time.monotonic() < end, f"it is {now}"


def test_runs_are_paused_resumed_cancelled_and_retried(up: Up) -> None:
    server = server_of(up)
    run = server.start("approve")
    until(run, "waiting")
    run.pause()
    until(run, "paused")
    run.resume()
    until(run, "waiting")
    run.signal("approved", 1)
    assert run.result("60s") == 1
    unwanted = server.start("approve")
    unwanted.cancel()
    until(unwanted, "cancelled")
    failing = server.start("failing")
    until(failing, "failed")
    rows = failing.show()["head"]
    failing.retry()
    with pytest.raises(Exception, match="it broke"):
        failing.result("60s")
    assert failing.show()["head"] > rows
    for refused in (unwanted.pause, unwanted.resume, unwanted.retry, unwanted.cancel):
        with pytest.raises(ServerError) as told:
            refused()
        assert (told.value.status, told.value.kind) == (409, "conflict")


def test_a_token_is_shown_to_a_server_that_others_reach(tmp_path: Path) -> None:
    environment = {**os.environ, "LOPE_HOME": str(tmp_path), "LOPE_STORE": f"sqlite:{tmp_path}/lope.db"}

    def token(name: str, right: str) -> str:
        words = [find_binary(), "tokens", "add", name, "--right", right]
        return subprocess.run(words, env=environment, check=True, capture_output=True, text=True).stdout.strip()

    reader, admin = token("reader", "read"), token("admin", "admin")
    running = Up(tmp_path, "0.0.0.0:0")
    try:
        url = f"http://127.0.0.1:{running.address.rsplit(':', 1)[1]}"
        with pytest.raises(ServerError) as stranger:
            connect(url).runs()
        assert stranger.value.status == 401
        assert connect(url, reader).runs() == []
        with pytest.raises(ServerError) as forbidden:
            connect(url, reader).deploy(PLAIN)
        assert forbidden.value.status == 403
        server = connect(url, admin)
        server.deploy(PLAIN)
        assert server.start("plain", {"n": 4}).result("60s") == 8
    finally:
        running.kill()


def test_schedules_are_added_paused_and_run(up: Up) -> None:
    server = server_of(up)
    server.schedule("nightly", "plain", cron="30 6 * * *", zone="Europe/Berlin", input={"n": 1})
    assert [each["name"] for each in server.schedules()] == ["nightly"]
    assert server.pause_schedule("nightly")["status"] == "paused"
    assert server.resume_schedule("nightly")["status"] == "active"
    assert server.run_schedule("nightly").result("60s") == 2
    server.remove_schedule("nightly")
    assert server.schedules() == []


def test_a_loop_awaits_results(up: Up) -> None:
    server_of(up)

    async def work() -> list[int]:
        server = connect_async(f"http://{up.address}")
        handles = await asyncio.gather(*[server.start("plain", {"n": n}) for n in range(5)])
        return list(await asyncio.gather(*[handle.result("60s") for handle in handles]))

    assert asyncio.run(work()) == [0, 2, 4, 6, 8]


def test_a_result_is_waited_for_while_the_server_is_killed_and_started_again(tmp_path: Path) -> None:
    first = Up(tmp_path)
    server = server_of(first)
    handle = server.start("approve")
    handle.signal("approved", 7)
    first.kill()
    with pytest.raises(ServerError) as away:
        server.runs()
    assert away.value.kind == "unreachable"
    second = Up(tmp_path, first.address)
    try:
        assert handle.result("60s") == 7
    finally:
        second.kill()


def test_many_waits_at_once_leave_room_for_what_ends_them(up: Up) -> None:
    server_of(up)

    async def work() -> list[object]:
        server = connect_async(f"http://{up.address}")
        handles = [await server.start("approve") for _ in range(40)]
        waits = [asyncio.create_task(each.result("120s")) for each in handles]
        given_up = asyncio.create_task(handles[0].result())
        await asyncio.sleep(0)
        given_up.cancel()
        with pytest.raises(asyncio.CancelledError):
            await given_up
        for number, each in enumerate(handles):
            await each.signal("approved", number)
        return list(await asyncio.gather(*waits))

    assert asyncio.run(work()) == list(range(40))
