"""`python -m lope compile|worker`."""

from __future__ import annotations

import sys


def main() -> int:
    words = sys.argv[1:]
    if words[:1] == ["worker"]:
        from .worker import main as worker

        return worker(words[1:])
    print("usage: python -m lope worker --connect ADDRESS --module NAME", file=sys.stderr)
    return 2


if __name__ == "__main__":
    sys.exit(main())
