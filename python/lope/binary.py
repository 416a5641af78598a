"""Where the command `lope` is."""

from __future__ import annotations

import os
import shutil
import sysconfig
from pathlib import Path


def find_binary() -> str:
    """The command `lope`: what LOPE_BIN names, the one installed with this package, or the one on the PATH."""
    beside = Path(sysconfig.get_path("scripts")) / "lope"
    found = os.environ.get("LOPE_BIN") or (str(beside) if beside.is_file() else shutil.which("lope"))
    if found is None:
        raise FileNotFoundError("the command 'lope' was not found: install it, or set LOPE_BIN to its path")
    return found
