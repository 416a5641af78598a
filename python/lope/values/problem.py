"""A value that cannot cross, and where in it the trouble is: `result.users[3].socket: …`."""

from __future__ import annotations

DEPTH_MAX = 128


class ValueProblem(TypeError):
    """A value that does not cross, with its place."""

    def __init__(self, message: str) -> None:
        super().__init__(message)
        self.message = message
        self.path: list[str] = []

    def inside(self, part: str) -> "ValueProblem":
        self.path.append(part)
        return self

    @property
    def place(self) -> str:
        return "".join(reversed(self.path)).lstrip(".")

    def __str__(self) -> str:
        return f"{self.place}: {self.message}" if self.path else self.message


def item(key: object) -> str:
    return f".{key}" if isinstance(key, str) and key.isidentifier() else f"[{key!r}]"


def field(name: str) -> str:
    return f".{name}"
