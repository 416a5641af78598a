"""What the code of regions calls where it cannot say itself what the user wrote."""

from __future__ import annotations

from typing import Any, NoReturn


def merged(function: Any, *given: Any) -> dict[Any, Any]:
    """The keywords of a call so far; it fails as a call of the function fails, which is then not called."""
    whole: dict[Any, Any] = {}
    for each in given:
        if not hasattr(each, "keys"):
            function(**each)
        found = {**each}
        if any(key in whole for key in found):
            function(**whole, **found)
        whole |= found
    return whole


def left(error: BaseException) -> BaseException:
    """What a function that was awaited fails with, if this leaves it."""
    if not isinstance(error, StopIteration):
        return error
    made = RuntimeError("coroutine raised StopIteration")
    made.__cause__ = made.__context__ = error
    return made


def raise_at(file: str, line: int, error: BaseException) -> NoReturn:
    """Raises an exception of ours where the user's code has led to it."""
    exec(compile("\n" * max(line - 1, 0) + "raise error", file, "exec"), {"error": error})
    raise error
