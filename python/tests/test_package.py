"""The wheel: package and command, installed as a user would."""

from __future__ import annotations

import fcntl
import os
import pty
import shutil
import subprocess
import sys
import termios
import zipfile
from pathlib import Path

PACKAGE = Path(__file__).parent.parent


def test_the_wheel_has_modules_types_and_the_command(tmp_path: Path) -> None:
    binary = tmp_path / "lope"
    binary.write_text("#!/bin/sh\necho the command\n")
    command = [sys.executable, "-m", "pip", "wheel", "--quiet", "--no-deps", "--no-build-isolation", "--wheel-dir", str(tmp_path)]
    subprocess.run([*command, str(PACKAGE)], check=True, env={**os.environ, "LOPE_BIN": str(binary)})
    (wheel,) = tmp_path.glob("lope-*.whl")
    names = set(zipfile.ZipFile(wheel).namelist())
    assert {"lope/__init__.py", "lope/py.typed", "lope/worker/session.py", "lope/compiler/__init__.py"} <= names
    home = tmp_path / "home"
    install = [sys.executable, "-m", "pip", "install", "--quiet", "--no-deps", "--no-index", "--prefix", str(home), str(wheel)]
    subprocess.run(install, check=True)
    said = subprocess.run([str(home / "bin" / "lope")], capture_output=True, text=True, check=True).stdout
    assert said == "the command\n"


CARGO = """#!/bin/sh
echo "   Compiling lope-cli v0.1.0" >&2
mkdir -p "$CARGO_TARGET_DIR/release"
printf '#!/bin/sh\\necho built\\n' > "$CARGO_TARGET_DIR/release/lope"
"""


def test_an_install_from_the_checkout_says_what_it_builds_and_shows_progress(tmp_path: Path) -> None:
    """"`pip install ./python` says what it builds and shows progress", on the terminal, which pip keeps from others."""
    checkout, tools = tmp_path / "checkout", tmp_path / "tools"
    for each in ("lope", "backend"):
        shutil.copytree(PACKAGE / each, checkout / "python" / each, ignore=shutil.ignore_patterns("__pycache__"))
    shutil.copy(PACKAGE / "pyproject.toml", checkout / "python")
    (checkout / "crates" / "lope-cli").mkdir(parents=True)
    (checkout / "crates" / "lope-cli" / "Cargo.toml").touch()
    tools.mkdir()
    (tools / "cargo").write_text(CARGO)
    (tools / "cargo").chmod(0o755)
    environment = {**os.environ, "PATH": f"{tools}{os.pathsep}{os.environ['PATH']}", "CARGO_TARGET_DIR": str(tmp_path / "target")}
    environment.pop("LOPE_BIN", None)
    ours, theirs = pty.openpty()

    def takes_the_terminal() -> None:
        os.setsid()
        fcntl.ioctl(theirs, termios.TIOCSCTTY, 0)

    home = tmp_path / "home"
    command = [sys.executable, "-m", "pip", "install", "--quiet", "--no-deps", "--no-build-isolation", "--prefix", str(home), "./python"]
    subprocess.run(command, check=True, cwd=checkout, env=environment, stdout=theirs, stderr=theirs, preexec_fn=takes_the_terminal, pass_fds=(theirs,))
    seen = os.read(ours, 65536).decode()
    os.close(ours)
    os.close(theirs)
    assert "building the command 'lope' with cargo; this takes some minutes" in seen and "LOPE_BIN=PATH" in seen, seen
    assert "Compiling lope-cli" in seen, seen
    assert subprocess.run([str(home / "bin" / "lope")], capture_output=True, text=True, check=True).stdout == "built\n"
