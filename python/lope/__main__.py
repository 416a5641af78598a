"""`python -m lope compile|worker`."""

from __future__ import annotations

import sys

_USAGE = """usage: python -m lope compile MODULE:NAME            print the definition of a workflow
       python -m lope worker --connect ADDRESS …    do actions for a runner"""


def main() -> int:
    words = sys.argv[1:]
    if words[:1] == ["worker"]:
        from .worker import main as worker

        return worker(words[1:])
    if words[:1] == ["compile"]:
        from .bundle import main as compile

        return compile(words[1:])
    print(_USAGE, file=sys.stderr)
    return 0 if words[:1] in (["--help"], ["-h"]) else 2


if __name__ == "__main__":
    sys.exit(main())
