"""Values cross both ways by type hint; what cannot is a clear error that names its place.

"JSON types, dataclasses, pydantic models, enums, datetime, date, timedelta, Decimal, UUID, bytes, Path, set, tuple;
exceptions cross with type, message, traceback and bases."
"""

from __future__ import annotations

import enum
import socket
from dataclasses import dataclass, field
from datetime import date, datetime, time, timedelta, timezone
from decimal import Decimal
from pathlib import Path
from typing import Any, Literal, NamedTuple, Optional, TypedDict, Union
from uuid import UUID

import pytest
from lope.region import heap as heaps
from lope.region.heap import Heap, load

from lope import values
from lope.values import ValueProblem, decode, encode


class Colour(enum.Enum):
    RED = 1
    BLUE = "blue"


class Level(enum.IntEnum):
    LOW = 1


class Word(str, enum.Enum):
    YES = "yes"


@dataclass
class Address:
    street: str
    number: int = 1


@dataclass(frozen=True)
class Point:
    x: float
    y: float


@dataclass
class User:
    name: str
    addresses: list[Address] = field(default_factory=list)
    tags: set[str] = field(default_factory=set)
    born: Optional[date] = None
    best: Union[Point, Colour, None] = None


class Pair(NamedTuple):
    left: int
    right: str


class Entry(TypedDict):
    key: str
    price: Decimal


class OrderError(ValueError):
    def __init__(self, code: int) -> None:
        super().__init__(f"order {code} is wrong")
        self.code = code


BOTH_WAYS: list[tuple[Any, Any]] = [
    (None, None),
    (True, bool),
    (-5, int),
    (2**80, int),
    (1.5, float),
    (float("inf"), float),
    ("ä", str),
    (b"\x00\xff", bytes),
    ([1, [2, "x"]], list[Any]),
    ({"a": {"b": None}}, dict[str, Any]),
    ({1: "x", (2, 3): "y"}, dict),
    ({"$tag": 1}, dict),
    ({"$bytes": "x", "b": 1}, dict),
    ((1, "x"), tuple[int, str]),
    ((), tuple[int, ...]),
    ({1, 2}, set[int]),
    (frozenset({"a"}), frozenset[str]),
    (Decimal("1.10"), Decimal),
    (datetime(2024, 2, 29, 12, 30, 1, 5, timezone.utc), datetime),
    (datetime(2024, 2, 29), datetime),
    (date(2024, 2, 29), date),
    (time(1, 2, 3), time),
    (timedelta(days=-1, seconds=3, microseconds=7), timedelta),
    (UUID(int=7), UUID),
    (Path("/tmp/x"), Path),
    (Colour.RED, Colour),
    (Colour.BLUE, Colour),
    (Level.LOW, Level),
    (Word.YES, Word),
    (Point(1.0, 2.0), Point),
    (User("a", [Address("s", 2)], {"t"}, date(2000, 1, 1), Point(0.0, 1.0)), User),
    ([User("a", best=Colour.RED)], list[User]),
    ({"k": (Address("x"), None)}, dict[str, tuple[Address, Optional[int]]]),
    ({UUID(int=1): [Decimal(1)]}, dict[UUID, list[Decimal]]),
    (Pair(1, "x"), Pair),
]


@pytest.mark.parametrize("value, hint", BOTH_WAYS, ids=repr)
def test_values_come_back_as_they_were(value: Any, hint: Any) -> None:
    encoded = encode(value)
    for text in (values.from_json(values.to_json(encoded)), values.from_msgpack(values.to_msgpack(encoded))):
        assert decode(text, hint) == value and type(decode(text, hint)) is type(value)
        if hint is not Pair:
            assert decode(text) == value, "without a hint too"


PLAIN: list[tuple[Any, Any, Any]] = [
    ({"name": "a", "addresses": [{"street": "s"}]}, User, User("a", [Address("s")])),
    ({"name": "a", "best": {"x": 1, "y": 2}}, User, User("a", best=Point(1.0, 2.0))),
    ("2024-02-29T00:00:00Z", datetime, datetime(2024, 2, 29, tzinfo=timezone.utc)),
    ("1.50", Decimal, Decimal("1.50")),
    (3, Decimal, Decimal(3)),
    ("00000000-0000-0000-0000-000000000007", UUID, UUID(int=7)),
    ("a/b", Path, Path("a/b")),
    ([1, 2, 2], set[int], {1, 2}),
    ([1, "x"], tuple[int, str], (1, "x")),
    ("blue", Colour, Colour.BLUE),
    (3, float, 3.0),
    ("30s", timedelta, timedelta(seconds=30)),
    ({"1": "x"}, dict[int, str], {1: "x"}),
    ({"key": "k", "price": "1"}, Entry, {"key": "k", "price": Decimal(1)}),
    ("b", Literal["a", "b"], "b"),
    ("aGk=", bytes, b"hi"),
]


@pytest.mark.parametrize("given, hint, expected", PLAIN, ids=repr)
def test_plain_json_becomes_what_the_hint_asks_for(given: Any, hint: Any, expected: Any) -> None:
    assert decode(given, hint) == expected


def test_what_cannot_be_sent_names_its_place() -> None:
    with socket.socket() as open_socket:
        users = {"users": [1, 2, 3, {"socket": open_socket}]}
        with pytest.raises(ValueProblem, match=r"^result\.users\[3\]\.socket: a socket.socket cannot be sent"):
            encode(users, "result")
        with pytest.raises(ValueProblem, match=r"^result\.addresses\[0\]\.street: "):
            encode(User("a", [Address(open_socket)]), "result")  # type: ignore[arg-type]


def test_a_value_that_holds_itself_is_refused() -> None:
    loop: list[Any] = []
    loop.append(loop)
    with pytest.raises(ValueProblem, match="nested deeper than 128 levels"):
        encode(loop)


@pytest.mark.parametrize(
    "given, hint, message",
    [
        ([{"name": 3}], list[User], r"^users\[0\]\.name: str expected, not int \(3\)"),
        ([{"nme": "x"}], list[User], r"^users\[0\]: User lacks name"),
        ([{"name": "x", "age": 3}], list[User], r"^users\[0\]: User has no field age"),
        (True, int, "^users: int expected, not bool"),
        ("x", Optional[int], "^users: int expected, not str"),
        ("x", Union[int, float], "^users: int or float expected, not str"),
        ([1], tuple[int, int], "^users: tuple of 2 items expected, not 1"),
        ("purple", Colour, "^users: 'purple' is not a valid Colour"),
        ({"$tag": ["no.such:Class", {}]}, Any, "the class 'no.such:Class' cannot be found here"),
    ],
)
def test_what_does_not_fit_the_hint_names_its_place(given: Any, hint: Any, message: str) -> None:
    with pytest.raises(ValueProblem, match=message):
        decode(given, hint, "users")


def test_exceptions_keep_type_bases_message_and_attributes() -> None:
    try:
        raise OrderError(7)
    except OrderError as error:
        failure = values.encode_failure(error)
    assert failure["type"] == "OrderError" and failure["message"] == "order 7 is wrong"
    assert failure["bases"][:2] == ["ValueError", "Exception"] and f"{__name__}:OrderError" in failure["bases"]
    assert "raise OrderError(7)" in failure["traceback"]
    back = values.decode_failure(values.from_msgpack(values.to_msgpack(failure)))
    assert isinstance(back, OrderError) and back.code == 7 and str(back) == "order 7 is wrong"


def test_exceptions_keep_several_arguments() -> None:
    back = values.decode_failure(values.encode_failure(KeyError("a", 2)))
    assert isinstance(back, KeyError) and back.args == ("a", 2)
    assert values.decode_failure(values.encode_failure(KeyError("a"))).args == ("a",)


def test_an_exception_that_cannot_be_pickled_crosses_all_the_same() -> None:
    with socket.socket() as open_socket:
        failure = values.encode_failure(ValueError("bad", open_socket))
    assert "socket" in failure["detail"]["args"][1]


def test_an_unknown_exception_is_a_remote_error() -> None:
    error = values.decode_failure({"type": "HttpStatus", "message": "503"})
    assert isinstance(error, values.RemoteError) and error.kind == "HttpStatus" and str(error) == "503"
    assert isinstance(values.decode_failure({"type": "Timeout", "message": "late"}), TimeoutError)


def test_pydantic_models_cross() -> None:
    pydantic = pytest.importorskip("pydantic")
    from lope_test_models import Account

    account = Account(owner="ann", limits={"day": 3})
    assert decode(values.from_json(values.to_json(encode(account))), Account) == account
    assert decode({"owner": "ann", "limits": {"day": "3"}}, Account) == account, "plain input is validated"
    with pytest.raises(ValueProblem, match="owner"):
        decode({}, Account)
    assert pydantic.VERSION


def test_a_heap_that_grows_changes_by_what_is_new() -> None:
    """What is written follows what a region changed, not what is there, and leads to the same objects."""
    heap, sizes = Heap(), []
    heap.frame({"found": [], "same": None, "n": 0})
    log: list[bytes] = []
    for n in range(3000):
        frame = heap.frames[1]
        heap.touch_frame(frame)
        heap.touch(frame["found"])
        frame["found"].append(Decimal(n))
        frame["same"] = frame["found"]
        frame["n"] = n
        version, adds, new = heap.write(1)
        log = [*log, new] if adds else [new]
        sizes.append(len(new))
        assert load({"version": version}) is heap
    read = Heap()
    read.read(b"".join(log))
    assert read.frames[1] == {"found": [Decimal(n) for n in range(3000)], "same": read.frames[1]["found"], "n": 2999}
    assert read.frames[1]["same"] is read.frames[1]["found"]
    usual = sorted(sizes)[len(sizes) // 2]
    assert usual < 200 and sum(sizes) < 3000 * 2 * usual, "written anew now and then, and seldom"


def test_a_heap_that_is_not_there_is_asked_for() -> None:
    with pytest.raises(heaps.Forgotten):
        load({"version": "unheard of"})
