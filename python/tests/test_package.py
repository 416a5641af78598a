"""The wheel: package and command, installed as a user would."""

from __future__ import annotations

import os
import subprocess
import sys
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
