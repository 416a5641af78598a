"""Our own worker against docs/worker-protocol.md, by the script that others use for theirs."""

from __future__ import annotations

import subprocess
import sys
from pathlib import Path

CONFORMANCE = Path(__file__).parent.parent / "conformance"


def check(*worker: str) -> subprocess.CompletedProcess[str]:
    command = [sys.executable, str(CONFORMANCE / "check.py"), "--", *worker]
    return subprocess.run(command, stdout=subprocess.PIPE, text=True, timeout=300)


def test_our_worker_conforms() -> None:
    ended = check(sys.executable, "-m", "lope", "worker", "--connect", "{socket}", "--worker", "{worker}", "--slots", "4",
                  "--path", str(CONFORMANCE), "--module", "actions")  # fmt: skip
    assert ended.returncode == 0, ended.stdout
    assert ended.stdout.endswith("conforms\n")
    assert ended.stdout.count("holds") == 12


def test_a_bad_worker_is_found_out() -> None:
    says_nothing = (
        "import socket, struct, sys, time\n"
        "import msgpack\n"
        "s = socket.socket(socket.AF_UNIX); s.connect(sys.argv[1])\n"
        "b = msgpack.packb([['hello', {'protocol': 2, 'slots': 0, 'actions': []}]])\n"
        "s.sendall(struct.pack('>I', len(b)) + b); s.recv(100)\n"
    )
    ended = check(sys.executable, "-c", says_nothing, "{socket}")
    assert ended.returncode == 1
    assert "BROKEN  it says hello: protocol is 2, not 1" in ended.stdout
