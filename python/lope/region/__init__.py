"""Regions: code of a workflow between two awaits, run by CPython in a worker.

A region gets the heap of its run (`heap`), runs its source in the frame that it belongs to (`running`), and says where the
run goes on: with the next step, by leaving a loop or a function, by raising, or by waiting for something (`awaiting`).
What it changed is journalled with its outcome, so that it is never run again.
"""

from .running import run_region

__all__ = ["run_region"]
