"""Actions for the tests of the worker pool: good ones and every bad habit."""

import asyncio
import contextvars
import logging
import os
import signal
import subprocess
import sys
import threading
import time
from typing import Any, AsyncIterator, Iterator

from lope import Depends, action
from lope.attempt import current_attempt, heartbeat


@action
async def double(n: int) -> int:
    return n * 2


@action
def plain(n: int) -> dict[str, Any]:
    return {"n": n, "main": threading.current_thread() is threading.main_thread()}


@action
async def who() -> int:
    return os.getpid()


@action
async def context() -> dict[str, Any]:
    attempt = current_attempt()
    assert attempt is not None
    return {"run": attempt.run_id, "execution": attempt.execution, "attempt": attempt.attempt, "step": attempt.step,
            "workflow": attempt.workflow, "key": attempt.idempotency_key}  # fmt: skip


@action
async def speaks() -> None:
    print("to standard output")
    print("to standard error", file=sys.stderr)
    logging.getLogger("app").warning("to the log")
    await asyncio.to_thread(print, "from a thread")
    print("no newline", end="")


@action
async def beats(times: int) -> None:
    for _ in range(times):
        heartbeat()
        await asyncio.sleep(0.01)


@action
async def fails(message: str) -> None:
    raise KeyError(message)


class Unpicklable(Exception):
    def __init__(self) -> None:
        super().__init__(threading.Lock(), lambda: None)
        self.lock = threading.Lock()

    def __str__(self) -> str:
        raise RuntimeError("no text either")

    def __reduce__(self) -> Any:
        raise TypeError("cannot be pickled")


@action
async def unpicklable() -> None:
    raise Unpicklable()


@action
async def unencodable() -> Any:
    return {"lock": threading.Lock()}


@action
async def exits() -> None:
    sys.exit(3)


@action
async def large(size: int) -> bytes:
    return bytes(size)


@action
async def kills() -> None:
    os.kill(os.getpid(), signal.SIGKILL)


@action
async def blocks(seconds: float) -> str:
    time.sleep(seconds)
    return "done"


@action
async def naps(seconds: float) -> None:
    await asyncio.sleep(seconds)


@action
async def waits(path: str = "") -> None:
    try:
        await asyncio.sleep(3600)
    except asyncio.CancelledError:
        if path:
            with open(path, "w") as file:
                file.write("cancelled")
        raise


@action
async def ignores() -> None:
    while True:
        try:
            await asyncio.sleep(3600)
        except asyncio.CancelledError:
            pass


@action
def spins() -> None:
    while True:
        sum(range(1000))


@action
def sleeps_in_c(seconds: float) -> None:
    time.sleep(seconds)


opened: list[str] = []


def number() -> int:
    opened.append("number")
    return 20


def generator(n: int = Depends(number)) -> Iterator[int]:
    opened.append("open")
    yield n + 1
    opened.append("close")


async def async_generator(n: int = Depends(number)) -> AsyncIterator[int]:
    opened.append("async open")
    yield n + 2
    opened.append("async close")


@action
async def injected(n: int, a: int = Depends(generator), b: int = Depends(async_generator)) -> int:
    return n + a + b


@action
def injected_plain(n: int, a: int = Depends(generator)) -> int:
    return n + a


@action
async def what_was_opened() -> list[str]:
    found = list(opened)
    opened.clear()
    return found


@action
async def touches(path: str, line: str) -> None:
    with open(path, "a") as file:
        file.write(line + "\n")


@action
async def tells(secret: str) -> None:
    print("telling", secret)
    print("x" * (64 * 1024 - 3) + secret[:5], end="")
    print(secret[5:])
    raise RuntimeError(f"told {secret!r}")


@action
def starts(seconds: str) -> int:
    """A process that is nobody's child, without this one's group, and the worker's: no attempt is known where it is started."""
    contextvars.Context().run(subprocess.run, ["setsid", "-f", "sleep", seconds], check=True)
    return os.getpid()


@action
def inherits() -> dict[str, str]:
    return dict(os.environ)


@action
async def echo(value: Any) -> Any:
    return value
