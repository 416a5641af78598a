"""Exceptions as failures and back: type, message, bases, traceback, arguments, attributes, notes and causes."""

from __future__ import annotations

import builtins
import functools
import traceback as tracebacks
import types
from typing import Any, cast

from .encode import _encode
from .names import failure_bases, find_class, is_own
from .problem import DEPTH_MAX, ValueProblem

TRACEBACK_MAX = 32 * 1024
# So many causes of causes cross.
CAUSES_MAX = 4
# What could not be decoded or encoded crosses with its error up to this size.
OBJECT_MAX = 16 * 1024

# Failures that Lope itself produces, as the exceptions that Python code expects.
_LOPE_S_OWN: dict[str, type[BaseException]] = {"Timeout": TimeoutError, "Deadline": TimeoutError}


class RemoteError(Exception):
    """A failure whose type is not known here. `kind` is the name it had, `bases` those of its bases."""

    def __init__(self, message: str, kind: str = "Error", bases: tuple[str, ...] = ()) -> None:
        super().__init__(message)
        self.kind = kind
        self.bases = bases


def native_fields(error: BaseException) -> dict[str, Any]:
    """What an exception holds outside of its arguments and its `__dict__`: `OSError.filename`, `SyntaxError.lineno`, slots.

    What its arguments say already is left out."""
    try:
        bare = remade(type(error), error.args, {})
    except Exception:
        bare = None
    found: dict[str, Any] = {}
    for name, field in _native(cast(Any, type(error))).items():
        value = _held(field, error)
        if value is _MISSING:
            continue
        before = _held(field, bare) if bare is not None else None
        equal = type(value) is type(before) and type(value) in (int, str, bytes) and value == before
        if value is not before and not equal:
            found[name] = value
    return found


def remade(kind: type[BaseException], args: tuple[Any, ...], native: dict[str, Any]) -> BaseException:
    """An exception of this class as it was: Python's own part is made by Python's constructor, that of a user is not run."""
    own: Any = kind
    while not is_own(own):
        own = own.__base__
    error = _new(kind, own, args)
    try:
        own.__init__(error, *args)
    except Exception:
        # It was made of something else, or has got other arguments since.
        pass
    error.args = args
    fields = _native(cast(Any, kind))
    for name, value in native.items():
        try:
            fields[name].__set__(error, value)
        except (KeyError, AttributeError, TypeError, ValueError):
            # It cannot be set, or is of another version of Python.
            pass
    return error


def _new(kind: type[BaseException], own: Any, args: tuple[Any, ...]) -> BaseException:
    try:
        made = own.__new__(kind, *args)
    except TypeError:
        made = kind.__new__(kind, *args)
    # `OSError(2, …)` is a FileNotFoundError.
    found: BaseException = made if type(made) is kind else own.__new__(kind)
    return found


class _Missing:
    """Stands for a field without a value."""

    def __reduce__(self) -> str:
        return "_MISSING"


_MISSING = _Missing()


def _held(field: Any, error: BaseException) -> Any:
    try:
        return field.__get__(error)
    except (AttributeError, TypeError):
        return _MISSING


def native_values(error: BaseException) -> list[Any]:
    return [_held(field, error) for field in _native(cast(Any, type(error))).values()]


def put_native(error: BaseException, values: list[Any]) -> None:
    """Gives an exception the native fields that it had."""
    for field, value in zip(_native(cast(Any, type(error))).values(), values):
        if value is not _MISSING and _held(field, error) is not value:
            field.__set__(error, value)


@functools.lru_cache(maxsize=1024)
def _native(kind: Any) -> dict[str, Any]:
    """The fields that are no entries of `__dict__`: those of Python's own classes, and slots."""
    found: dict[str, Any] = {}
    for each in reversed(kind.__mro__[: kind.__mro__.index(BaseException)]):
        wanted: Any = types.MemberDescriptorType
        if is_own(each):
            wanted = types.MemberDescriptorType, types.GetSetDescriptorType
        found.update({name: field for name, field in vars(each).items() if isinstance(field, wanted)})
    if issubclass(kind, AttributeError):
        # The object that has no such attribute may be anything.
        found.pop("obj", None)
    found.pop("__dict__", None)
    found.pop("__weakref__", None)
    return found


def encode_failure(error: BaseException, traceback: bool = True, causes: int = CAUSES_MAX) -> dict[str, Any]:
    """An exception as a failure. What of it cannot cross is left as text."""
    if isinstance(error, RemoteError):
        return {"type": error.kind, "message": str(error), "bases": [*error.bases, "Exception", "BaseException"]}
    kind = type(error)
    found: dict[str, Any] = {"type": kind.__name__, "message": _text(error), "bases": failure_bases(kind)}
    if traceback and error.__traceback__ is not None:
        lines = "".join(tracebacks.format_exception(kind, error, error.__traceback__))
        found["traceback"] = _unicode(lines[-TRACEBACK_MAX:])
    detail: dict[str, Any] = {}
    args, native = _bounded(error)
    if args and (args != (found["message"],) or not found["message"]):
        detail["args"] = [_lenient(each) for each in args]
    elif not args and found["message"]:
        detail["args"] = []
    if native:
        detail["native"] = {name: _lenient(each) for name, each in native.items()}
    attributes = {name: each for name, each in vars(error).items() if name != "__notes__"}
    if attributes:
        detail["attributes"] = {name: _lenient(each) for name, each in attributes.items()}
    if notes := _notes(error):
        detail["notes"] = notes
    if error.__cause__ is not None and causes > 0:
        detail["cause"] = encode_failure(error.__cause__, False, causes - 1)
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
        error = remade(kind, args, {key: decode(each) for key, each in (detail.get("native") or {}).items()})
        vars(error).update({key: decode(each) for key, each in (detail.get("attributes") or {}).items()})
    except Exception:
        return _remote(message, name, bases)
    if detail.get("notes"):
        vars(error)["__notes__"] = list(detail["notes"])
    if isinstance(detail.get("cause"), dict):
        error.__cause__ = decode_failure(detail["cause"])
    text = failure.get("traceback")
    add_note = getattr(error, "add_note", None)
    if text and add_note is not None:
        add_note(str(text).rstrip())
    return error


def _bounded(error: BaseException) -> tuple[tuple[Any, ...], dict[str, Any]]:
    """Arguments and native fields; a long text that could not be encoded or decoded is left out."""
    args, native = error.args, native_fields(error)
    if isinstance(error, UnicodeError) and len(args) > 2 and isinstance(args[1], (str, bytes)) and len(args[1]) > OBJECT_MAX:
        args = (args[0], args[1][:0], *args[2:])
    return args, native


def _notes(error: BaseException) -> list[str]:
    """The user's notes; that with the traceback of another process is in the traceback."""
    notes = getattr(error, "__notes__", None)
    found = [each for each in notes if isinstance(each, str)] if isinstance(notes, (list, tuple)) else []
    return [_unicode(each) for each in found if "Traceback (most recent call last):" not in each]


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
        return _unicode(str(error))
    except Exception:
        return f"<{type(error).__name__} whose text cannot be had>"


def _unicode(text: str) -> str:
    return text if text.isascii() else text.encode("utf-8", "backslashreplace").decode()


def _lenient(value: Any) -> Any:
    try:
        return _encode(value, DEPTH_MAX // 2)
    except ValueProblem:
        try:
            return repr(value)
        except Exception:
            return f"<{type(value).__name__}>"
