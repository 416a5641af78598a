"""Exceptions as failures and back: type, message, bases, traceback, arguments and attributes."""

from __future__ import annotations

import builtins
import traceback as tracebacks
from typing import Any

from .encode import _encode
from .names import failure_bases, find_class
from .problem import DEPTH_MAX, ValueProblem

TRACEBACK_MAX = 32 * 1024

# Failures that Lope itself produces, as the exceptions that Python code expects.
_LOPE_S_OWN: dict[str, type[BaseException]] = {"Timeout": TimeoutError, "Deadline": TimeoutError}


class RemoteError(Exception):
    """A failure whose type is not known here. `kind` is the name it had, `bases` those of its bases."""

    def __init__(self, message: str, kind: str = "Error", bases: tuple[str, ...] = ()) -> None:
        super().__init__(message)
        self.kind = kind
        self.bases = bases


def encode_failure(error: BaseException, traceback: bool = True) -> dict[str, Any]:
    """An exception as a failure. What of it cannot cross is left as text."""
    if isinstance(error, RemoteError):
        return {"type": error.kind, "message": str(error), "bases": [*error.bases, "Exception", "BaseException"]}
    kind = type(error)
    found: dict[str, Any] = {"type": kind.__name__, "message": _text(error), "bases": failure_bases(kind)}
    if traceback and error.__traceback__ is not None:
        lines = "".join(tracebacks.format_exception(kind, error, error.__traceback__))
        found["traceback"] = lines[-TRACEBACK_MAX:]
    detail: dict[str, Any] = {}
    if error.args != (found["message"],) and error.args:
        detail["args"] = [_lenient(each) for each in error.args]
    elif not error.args and found["message"]:
        detail["args"] = []
    attributes = {name: each for name, each in vars(error).items() if name != "__notes__"}
    if attributes:
        detail["attributes"] = {name: _lenient(each) for name, each in attributes.items()}
    if detail:
        found["detail"] = detail
    return found


def decode_failure(failure: dict[str, Any]) -> BaseException:
    """The exception that a failure was, or a `RemoteError` if its type is not known here."""
    from .decode import decode

    message = str(failure.get("message", ""))
    bases: list[str] = list(failure.get("bases") or ())
    name = str(failure.get("type", "Error"))
    kind = _class(name, bases)
    if kind is None:
        return _remote(message, name, bases)
    detail = failure.get("detail")
    detail = detail if isinstance(detail, dict) else {}
    args = tuple(decode(each) for each in detail["args"]) if "args" in detail else ((message,) if message else ())
    try:
        error = kind.__new__(kind, *args)
        error.args = args
        vars(error).update({key: decode(each) for key, each in (detail.get("attributes") or {}).items()})
    except Exception:
        return _remote(message, name, bases)
    text = failure.get("traceback")
    add_note = getattr(error, "add_note", None)
    if text and add_note is not None:
        add_note(str(text).rstrip())
    return error


def _remote(message: str, name: str, bases: list[str]) -> RemoteError:
    """An exception that handlers of its nearest base of Python's own catch too."""
    own = (getattr(builtins, each, None) for each in bases)
    known = [each for each in own if isinstance(each, type) and issubclass(each, Exception) and each is not Exception]
    if not known or not name.isidentifier():
        return RemoteError(message, name, tuple(bases))
    try:
        made: type[RemoteError] = type(name, (RemoteError, known[0]), {})
        return made(message, name, tuple(bases))
    except TypeError:
        return RemoteError(message, name, tuple(bases))


def _class(name: str, bases: list[str]) -> type[BaseException] | None:
    found: Any = _LOPE_S_OWN.get(name)
    full = next((each for each in bases if ":" in each), None)
    if full is not None:
        found = find_class(full)
    elif found is None:
        found = getattr(builtins, name, None)
    return found if isinstance(found, type) and issubclass(found, BaseException) else None


def _text(error: BaseException) -> str:
    try:
        return str(error)
    except Exception:
        return f"<{type(error).__name__} whose text cannot be had>"


def _lenient(value: Any) -> Any:
    try:
        return _encode(value, DEPTH_MAX // 2)
    except ValueProblem:
        try:
            return repr(value)
        except Exception:
            return f"<{type(value).__name__}>"


def native_fields(error: BaseException) -> dict[str, Any]:
    return {}


def remade(kind: type[BaseException], args: tuple[Any, ...], native: dict[str, Any]) -> BaseException:
    error = kind.__new__(kind, *args)
    error.args = args
    return error
