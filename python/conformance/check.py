"""Tests an implementation of a worker against docs/worker-protocol.md.

    python check.py -- COMMAND ARGUMENT…

`{socket}` in the arguments is replaced by the path of a socket, `{worker}` by a number. Plays the runner; prints a line
for each rule; exit status 1 if one is broken.
"""

from __future__ import annotations

import os
import select
import socket
import struct
import subprocess
import sys
import tempfile
import time
from typing import Any, Callable, Optional

import msgpack

HEARTBEAT_MS = 200
PAYLOAD_MAX = 1_000_000
PATIENCE = 15.0


class Broken(Exception):
    """A rule that does not hold."""


class Runner:
    """A connection to a worker, as a runner has it."""

    def __init__(self, command: list[str], protocol_answer: str = "welcome") -> None:
        self.folder = tempfile.TemporaryDirectory(prefix="lope-conformance-")
        path = os.path.join(self.folder.name, "socket")
        listener = socket.socket(socket.AF_UNIX, socket.SOCK_STREAM)
        listener.bind(path)
        listener.listen(1)
        listener.settimeout(PATIENCE)
        words = [word.replace("{socket}", path).replace("{worker}", "7") for word in command]
        self.process = subprocess.Popen(words, stdin=subprocess.DEVNULL, stdout=sys.stderr)
        try:
            self.sock, _ = listener.accept()
        except TimeoutError:
            self.process.kill()
            raise Broken(f"it did not connect within {PATIENCE:.0f} s") from None
        self.incoming = bytearray()
        self.said: list[list[Any]] = []
        self.born = 0
        self.hello = self.next("hello")
        if protocol_answer == "welcome":
            settings = {"protocol": 1, "worker": 7, "heartbeat_ms": HEARTBEAT_MS, "payload_max": PAYLOAD_MAX,
                        "frame_max": PAYLOAD_MAX * 2}  # fmt: skip
            self.send(["welcome", settings])
        else:
            self.send(["refused", "this is a test"])

    def send(self, *messages: list[Any]) -> None:
        body: bytes = msgpack.packb(list(messages), use_bin_type=True) or b""
        self.sock.sendall(struct.pack(">I", len(body)) + body)

    def task(self, action: str, arguments: Any) -> int:
        (id,) = self.tasks(action, [arguments])
        return id

    def tasks(self, action: str, many: list[Any]) -> list[int]:
        """Several tasks in one frame."""
        messages = []
        for arguments in many:
            self.born += 1
            packed = msgpack.packb(arguments, use_bin_type=True)
            messages.append(["task", self.born, action, packed, "run-1", "step/1", 1, "flow", "step", None, None])
        self.send(*messages)
        return [message[1] for message in messages]

    def read(self, timeout: float) -> bool:
        """Takes in what comes; False at the end of the connection."""
        ready, _, _ = select.select([self.sock], [], [], timeout)
        if not ready:
            return True
        got = self.sock.recv(1 << 20)
        if not got:
            return False
        self.incoming += got
        while len(self.incoming) >= 4:
            (length,) = struct.unpack_from(">I", self.incoming)
            if length > PAYLOAD_MAX * 2:
                raise Broken(f"a frame of {length} bytes is more than frame_max")
            if len(self.incoming) < 4 + length:
                break
            frame = msgpack.unpackb(bytes(self.incoming[4 : 4 + length]), raw=False)
            del self.incoming[: 4 + length]
            if not isinstance(frame, list) or not all(isinstance(each, list) and each for each in frame):
                raise Broken("a frame is no list of messages")
            self.said.extend(frame)
        return True

    def next(self, name: str, want: Optional[Callable[[list[Any]], bool]] = None) -> list[Any]:
        """The first message of that name that has not been looked at."""
        until = time.monotonic() + PATIENCE
        while True:
            for place, message in enumerate(self.said):
                if message[0] == name and (want is None or want(message)):
                    return self.said.pop(place)
            if time.monotonic() > until or not self.read(0.1):
                raise Broken(f"no '{name}' came; what came: {[message[:2] for message in self.said][:5]}")

    def answer(self, id: int) -> list[Any]:
        until = time.monotonic() + PATIENCE
        while time.monotonic() < until:
            for place, message in enumerate(self.said):
                if message[0] in ("done", "failed") and message[1] == id:
                    del self.said[place]
                    if not isinstance(message[2], bytes):
                        raise Broken(f"the value of '{message[0]}' is not binary")
                    return [message[0], msgpack.unpackb(message[2], raw=False)]
            if not self.read(0.1):
                break
        raise Broken(f"task {id} was not answered")

    def ended(self) -> None:
        """The connection and the process end."""
        until = time.monotonic() + PATIENCE
        while self.read(0.1):
            if time.monotonic() > until:
                raise Broken("the connection did not end")
        try:
            self.process.wait(PATIENCE)
        except subprocess.TimeoutExpired:
            raise Broken("the process did not end") from None

    def close(self) -> None:
        self.sock.close()
        if self.process.poll() is None:
            self.process.kill()
            self.process.wait()
        self.folder.cleanup()


def hello(runner: Runner) -> None:
    words = runner.hello[1]
    expect(words.get("protocol") == 1, f"protocol is {words.get('protocol')!r}, not 1")
    expect(words.get("worker") == 7, "the number from --worker is not in hello")
    expect(isinstance(words.get("slots"), int) and words["slots"] >= 1, "slots is no positive integer")
    missing = {"echo", "fail", "nap", "say", "big"} - set(words.get("actions", ()))
    expect(not missing, f"it does not serve {sorted(missing)}")


def values(runner: Runner) -> None:
    many: list[Any] = [None, True, -(2**63), 2**63 - 1, 1.5, "text", "ü€𝄞", b"\x00\xff", [1, [2]], {"a": {"b": []}}, "x" * 100_000]
    for value in many:
        answer = runner.answer(runner.task("echo", {"value": value}))
        expect(answer == ["done", value], f"echo of {str(value)[:40]!r} gave {str(answer)[:80]!r}")


def batches(runner: Runner) -> None:
    ids = runner.tasks("echo", [{"value": n} for n in range(runner.hello[1]["slots"])])
    answers = [runner.answer(id) for id in ids]
    expect(answers == [["done", n] for n in range(len(ids))], "tasks of one frame are not all answered with their own value")


def concurrency(runner: Runner) -> None:
    if runner.hello[1]["slots"] < 2:
        return
    slow = runner.task("nap", {"seconds": 2.0})
    quick = runner.answer(runner.task("echo", {"value": 1}))
    expect(quick == ["done", 1], "a quick task waits for a slow one")
    expect(runner.answer(slow) == ["done", None], "the slow one is not answered")


def failures(runner: Runner) -> None:
    name, failure = runner.answer(runner.task("fail", {"message": "as told"}))
    expect(name == "failed", "a failing action is answered with 'done'")
    expect(failure.get("type") == "ValueError" and failure.get("message") == "as told", f"its failure is {failure}")
    name, failure = runner.answer(runner.task("no such action", {}))
    expect(name == "failed" and isinstance(failure.get("message"), str), "an unknown action is not answered with 'failed'")
    name, failure = runner.answer(runner.task("nap", {"wrong": 1}))
    expect(name == "failed", "wrong arguments are not answered with 'failed'")


def logs(runner: Runner) -> None:
    id = runner.task("say", {"text": "heard"})
    line = runner.next("log", lambda message: message[1] == id)
    expect(line[2] in ("out", "err") and "heard" in line[3], f"its log is {line}")
    expect(runner.answer(id) == ["done", None], "it is not answered after its log")


def cancels(runner: Runner) -> None:
    id = runner.task("nap", {"seconds": 3600})
    other = runner.task("nap", {"seconds": 1})
    runner.send(["cancel", id])
    runner.answer(id)
    expect(runner.answer(other) == ["done", None], "the cancel hit another task")
    runner.send(["cancel", id], ["cancel", 4711])
    expect(runner.answer(runner.task("echo", {"value": 2})) == ["done", 2], "a cancel of what it does not have upset it")


def large(runner: Runner) -> None:
    name, failure = runner.answer(runner.task("big", {"size": PAYLOAD_MAX * 3}))
    expect(name == "failed" and failure.get("type") == "Limit", "a result above payload_max is not failed as Limit")
    fits = runner.answer(runner.task("big", {"size": PAYLOAD_MAX // 2}))
    expect(fits == ["done", bytes(PAYLOAD_MAX // 2)], "a result below payload_max does not come")


def beats(runner: Runner) -> None:
    runner.said.clear()
    for _ in range(3):
        started = time.monotonic()
        beat = runner.next("beat")
        expect(isinstance(beat[1], int) and beat[1] >= 0, f"a beat says {beat}")
        expect(time.monotonic() - started < 10 * HEARTBEAT_MS / 1000, "beats come too seldom")


def drains(runner: Runner) -> None:
    id = runner.task("nap", {"seconds": 1})
    runner.send(["drain"])
    expect(runner.answer(id) == ["done", None], "what it had when it was drained is not finished")
    runner.next("bye")
    runner.ended()


def hangs_up(runner: Runner) -> None:
    runner.task("nap", {"seconds": 3600})
    runner.sock.shutdown(socket.SHUT_RDWR)
    try:
        runner.process.wait(PATIENCE)
    except subprocess.TimeoutExpired:
        raise Broken("it lives on when its runner has gone") from None


def is_refused(runner: Runner) -> None:
    runner.ended()


def expect(holds: bool, otherwise: str) -> None:
    if not holds:
        raise Broken(otherwise)


IN_ONE_LIFE: list[tuple[str, Callable[[Runner], None]]] = [
    ("it says hello", hello),
    ("values cross unchanged", values),
    ("a frame may hold many tasks", batches),
    ("slots work at the same time", concurrency),
    ("failures have type and message", failures),
    ("logs come before the answer", logs),
    ("a cancel is heard and answered", cancels),
    ("too large is a failure", large),
    ("it shows life", beats),
    ("drained, it finishes and says bye", drains),
]


def main(words: list[str]) -> int:
    command = words[1:] if words[:1] == ["--"] else words
    if not command:
        print(__doc__, file=sys.stderr)
        return 2
    bad = 0
    rounds: list[tuple[list[tuple[str, Callable[[Runner], None]]], str]] = [
        (IN_ONE_LIFE, "welcome"),
        ([("without a runner it ends", hangs_up)], "welcome"),
        ([("refused, it ends", is_refused)], "refused"),
    ]
    for checks, answer in rounds:
        try:
            runner = Runner(command, answer)
        except Broken as problem:
            print(f"BROKEN  it connects: {problem}")
            return 1
        try:
            for title, check in checks:
                try:
                    check(runner)
                    print(f"holds   {title}")
                except Broken as problem:
                    bad += 1
                    print(f"BROKEN  {title}: {problem}")
        finally:
            runner.close()
    print("conforms" if not bad else f"{bad} rules are broken")
    return 1 if bad else 0


if __name__ == "__main__":
    sys.exit(main(sys.argv[1:]))
