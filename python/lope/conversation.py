"""A process `lope converse` that lives as long as this one: requests and answers are lines of JSON, in any order.

It spares a client a process for every call. It ends with this process, and is started again if it has ended.
"""

from __future__ import annotations

import atexit
import itertools
import json
import os
import subprocess
import threading
from concurrent.futures import Future
from typing import Any, Optional

from .binary import find_binary


class Refusal(Exception):
    """The command could not do what was asked. `code` is its exit code."""

    def __init__(self, message: str, code: int) -> None:
        super().__init__(message)
        self.code = code


class Conversation:
    """One process, and what was asked of it."""

    def __init__(self, environment: dict[str, str]) -> None:
        command = [find_binary(), "converse"]
        self._process = subprocess.Popen(command, stdin=subprocess.PIPE, stdout=subprocess.PIPE, env=environment)
        self._lock = threading.Lock()
        self._numbers = itertools.count(1)
        self._asked: dict[int, "Future[Any]"] = {}
        # Workflows that it knows, by name: their definitions and its number for them.
        self.plans: dict[str, tuple[str, int]] = {}
        threading.Thread(target=self._listen, name="lope-client", daemon=True).start()

    @property
    def alive(self) -> bool:
        return self._process.poll() is None

    def ask(self, op: str, **request: Any) -> "Future[Any]":
        """The answer, when it comes."""
        future: "Future[Any]" = Future()
        number = next(self._numbers)
        line = json.dumps({"id": number, "op": op, **request}, ensure_ascii=False) + "\n"
        with self._lock:
            self._asked[number] = future
            try:
                assert self._process.stdin is not None
                self._process.stdin.write(line.encode())
                self._process.stdin.flush()
            except OSError as error:
                self._asked.pop(number, None)
                future.set_exception(Refusal(f"'lope converse' has ended: {error}", 4))
        return future

    def _listen(self) -> None:
        assert self._process.stdout is not None
        for line in self._process.stdout:
            answer = json.loads(line)
            future = self._asked.pop(answer["id"], None)
            if future is None or future.cancelled():
                continue
            if "error" in answer:
                future.set_exception(Refusal(answer["error"], answer["code"]))
            else:
                future.set_result(answer["answer"])
        with self._lock:
            left, self._asked = list(self._asked.values()), {}
        for future in left:
            future.set_exception(Refusal("'lope converse' has ended", 4))

    def close(self) -> None:
        if self._process.stdin is not None:
            try:
                self._process.stdin.close()
            except OSError:
                pass
        try:
            self._process.wait(10)
        except subprocess.TimeoutExpired:
            self._process.kill()
            self._process.wait()


_current: Optional[tuple[Any, Conversation]] = None
_lock = threading.Lock()


def conversation(environment: dict[str, str]) -> Conversation:
    """The conversation of this process with the store that the environment names."""
    global _current
    # One that a parent process has is not ours.
    about = (os.getpid(), *(environment.get(name) for name in ("LOPE_BIN", "LOPE_HOME", "LOPE_STORE", "HOME")))
    with _lock:
        if _current is not None and (_current[0] != about or not _current[1].alive):
            if _current[0][0] == about[0]:
                _current[1].close()
            _current = None
        if _current is None:
            _current = about, Conversation(environment)
        return _current[1]


@atexit.register
def end() -> None:
    global _current
    with _lock:
        ours = _current is not None and _current[0][0] == os.getpid()
        if _current is not None and ours:
            _current[1].close()
        _current = None
