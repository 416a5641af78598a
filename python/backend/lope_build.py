"""Builds the wheel of this package: the modules, and the command `lope`.

The command is the one that LOPE_BIN names; else it is built from the checkout with cargo; else, where there is no cargo,
the one on the PATH; else the wheel goes without, and the command is looked for where it is used. Needs nothing but Python.
"""

from __future__ import annotations

import base64
import hashlib
import os
import re
import shutil
import subprocess
import sys
import sysconfig
import tarfile
import zipfile
from pathlib import Path
from typing import Any, Iterator, Optional, TextIO

HERE = Path(__file__).resolve().parent.parent
CRATE = HERE.parent / "crates" / "lope-cli" / "Cargo.toml"
# Every wheel has the same bytes if it holds the same files.
_MOMENT = (2020, 1, 1, 0, 0, 0)

Settings = Optional[dict[str, Any]]


def get_requires_for_build_wheel(config_settings: Settings = None) -> list[str]:
    return []


get_requires_for_build_editable = get_requires_for_build_sdist = get_requires_for_build_wheel


def build_wheel(wheel_directory: str, config_settings: Settings = None, metadata_directory: Optional[str] = None) -> str:
    files = ((f"lope/{path.relative_to(HERE / 'lope')}", path.read_bytes()) for path in sources())
    return write(Path(wheel_directory), files)


def build_editable(wheel_directory: str, config_settings: Settings = None, metadata_directory: Optional[str] = None) -> str:
    return write(Path(wheel_directory), iter([("lope.pth", f"{HERE}\n".encode())]))


def build_sdist(sdist_directory: str, config_settings: Settings = None) -> str:
    name = f"lope-{value('version')}"
    with tarfile.open(Path(sdist_directory) / f"{name}.tar.gz", "w:gz") as archive:
        for path in [HERE / "pyproject.toml", Path(__file__), *sources()]:
            archive.add(path, f"{name}/{path.relative_to(HERE)}")
    return f"{name}.tar.gz"


def sources() -> list[Path]:
    found = (HERE / "lope").rglob("*")
    return sorted(path for path in found if path.suffix in (".py", ".typed") and "__pycache__" not in path.parts)


def write(folder: Path, files: Iterator[tuple[str, bytes]]) -> str:
    version, binary = value("version"), command()
    tag = f"py3-none-{platform()}" if binary is not None else "py3-none-any"
    name = f"lope-{version}-{tag}.whl"
    info = f"lope-{version}.dist-info"
    pure = "true" if binary is None else "false"
    with zipfile.ZipFile(folder / name, "w", zipfile.ZIP_DEFLATED) as archive:
        record: list[str] = []

        def add(path: str, content: bytes, mode: int = 0o644) -> None:
            entry = zipfile.ZipInfo(path, _MOMENT)
            entry.external_attr = (0o100000 | mode) << 16
            entry.compress_type = zipfile.ZIP_DEFLATED
            archive.writestr(entry, content)
            digest = base64.urlsafe_b64encode(hashlib.sha256(content).digest()).rstrip(b"=").decode()
            record.append(f"{path},sha256={digest},{len(content)}\n")

        for path, content in files:
            add(path, content)
        if binary is not None:
            add(f"lope-{version}.data/scripts/lope", binary.read_bytes(), 0o755)
        add(f"{info}/METADATA", metadata(version).encode())
        add(f"{info}/WHEEL", f"Wheel-Version: 1.0\nGenerator: lope\nRoot-Is-Purelib: {pure}\nTag: {tag}\n".encode())
        archive.writestr(f"{info}/RECORD", "".join(record) + f"{info}/RECORD,,\n")
    return name


def command() -> Optional[Path]:
    named = os.environ.get("LOPE_BIN")
    if named:
        if not Path(named).is_file():
            raise SystemExit(f"LOPE_BIN names '{named}', which is not there")
        return Path(named)
    if CRATE.is_file() and shutil.which("cargo"):
        with terminal() as out:
            print("lope: building the command 'lope' with cargo; this takes some minutes, once.", file=out)
            print("      LOPE_BIN=PATH takes one that is built already; 'cargo xtask wheel' makes wheels.", file=out, flush=True)
            subprocess.run(["cargo", "build", "--release", "--manifest-path", str(CRATE)], check=True, stderr=out)
        target = Path(os.environ.get("CARGO_TARGET_DIR", CRATE.parent.parent.parent / "target"))
        return target / "release" / "lope"
    found = shutil.which("lope")
    if found is None:
        print("no cargo and no command 'lope': the package goes without it", file=sys.stderr)
    return Path(found) if found else None


def terminal() -> TextIO:
    """Where a person sees it: installers keep what is written to standard error to themselves."""
    try:
        return open("/dev/tty", "w")
    except OSError:
        return open(os.dup(sys.stderr.fileno()), "w")


def platform() -> str:
    return re.sub(r"[^a-zA-Z0-9]", "_", sysconfig.get_platform())


def metadata(version: str) -> str:
    needs = "".join(f"Requires-Dist: {each}\n" for each in texts("dependencies"))
    extras = "".join(f"Requires-Dist: {each}; extra == 'fast'\n" for each in texts("fast"))
    return (
        f"Metadata-Version: 2.1\nName: lope\nVersion: {version}\nSummary: {value('description')}\n"
        f"Requires-Python: {value('requires-python')}\nLicense: {value('license')}\n{needs}Provides-Extra: fast\n{extras}"
    )


def value(key: str) -> str:
    """One text of pyproject.toml; Python 3.10 has no reader of its own for it."""
    found = re.search(rf'^{key} = "(.*)"$', (HERE / "pyproject.toml").read_text(), re.MULTILINE)
    if found is None:
        raise SystemExit(f"pyproject.toml has no {key}")
    return found.group(1)


def texts(key: str) -> list[str]:
    found = re.search(rf"^{key} = \[(.*)\]$", (HERE / "pyproject.toml").read_text(), re.MULTILINE)
    return re.findall(r'"([^"]*)"', found.group(1)) if found else []
