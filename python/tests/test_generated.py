"""Generated programs mean what CPython means. LOPE_GENERATED says how many are tried, LOPE_GENERATED_SEED from which on."""

from __future__ import annotations

import os
from pathlib import Path

from generated import attempt

COUNT = int(os.environ.get("LOPE_GENERATED", "40"))


def test_generated_programs_mean_what_cpython_means(tmp_path: Path) -> None:
    first = int(os.environ.get("LOPE_GENERATED_SEED", "0"))
    tried = attempt(range(first, first + COUNT), tmp_path)
    assert not tried.differ, tried.differ[0][1]
    assert tried.same >= COUNT // 2, f"only {tried.same} of {COUNT} were compiled"
