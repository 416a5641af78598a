"""What is refused: file, line, column, the line itself with a caret, the reason and what to do instead."""

from __future__ import annotations

import unicodedata


class CompileError(Exception):
    """A workflow that Lope does not take, with its place, reason and advice."""

    def __init__(self, reason: str, advice: str, file: str, line: int, column: int, source: str) -> None:
        super().__init__(reason)
        self.reason = reason
        self.advice = advice
        self.file = file
        self.line = line
        self.column = column
        self.source = source
        self.calls: list[str] = []

    def __str__(self) -> str:
        caret = "".join(map(_room, self.source[: self.column - 1])) + "^"
        shown = [f"{self.file}:{self.line}:{self.column}: {self.reason}", f"    {self.source}", f"    {caret}"]
        shown += [f"  called from {place}" for place in self.calls]
        return "\n".join([*shown, f"  advice: {self.advice}"])


def _room(character: str) -> str:
    """What takes as much room as a character in a line."""
    if character == "\t":
        return character
    return "" if unicodedata.combining(character) else "  " if unicodedata.east_asian_width(character) in "WF" else " "
