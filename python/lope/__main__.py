"""`python -m lope compile|worker`."""

from __future__ import annotations

import os
import sys

# Sets of text go in the order of their hashes, and a run may go on in another worker: all have one seed.
_SEED = "PYTHONHASHSEED"
_USAGE = """usage: python -m lope compile MODULE:NAME            print the definition of a workflow
       python -m lope worker --connect ADDRESS …    do actions for a runner"""


def main() -> int:
    words = sys.argv[1:]
    if words[:1] == ["worker"]:
        if os.environ.get(_SEED, "random") in ("", "random") and sys.executable:
            os.environ[_SEED] = "0"
            os.execv(sys.executable, sys.orig_argv)
        from .worker import main as worker

        return worker(words[1:])
    if words[:1] == ["compile"]:
        from .bundle import main as compile

        return compile(words[1:])
    print(_USAGE, file=sys.stderr)
    return 0 if words[:1] in (["--help"], ["-h"]) else 2


if __name__ == "__main__":
    sys.exit(main())
