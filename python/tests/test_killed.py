"""A sample of programs whose runner is killed at random rows of the journal. LOPE_KILLED says how many programs."""

from __future__ import annotations

import os
from pathlib import Path

from killed import survive

COUNT = int(os.environ.get("LOPE_KILLED", "6"))


def test_programs_whose_runner_is_killed_end_as_cpython_ends_them(tmp_path: Path) -> None:
    first = int(os.environ.get("LOPE_GENERATED_SEED", "0"))
    same, rows, different = survive(range(first, first + COUNT), max(COUNT // 3, 2), tmp_path)
    assert not different, different[0]
    assert same > 0 and rows, "no runner was killed"
