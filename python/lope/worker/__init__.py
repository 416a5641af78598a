"""`python -m lope worker`: loads modules, connects to a runner, does the actions it is given.

docs/worker-protocol.md is the contract with the runner. `wire` carries frames, `serving` does the actions, `capture`
takes what they print, `children` ends what they start, `beat` shows life from a thread of its own, `session` puts them together.
"""

from .session import main

__all__ = ["main"]
