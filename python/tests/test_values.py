"""Values cross both ways by type hint; what cannot is a clear error that names its place.

"JSON types, dataclasses, pydantic models, enums, datetime, date, timedelta, Decimal, UUID, bytes, Path, set, tuple;
exceptions cross with type, message, traceback and bases."
"""

from __future__ import annotations

import enum
import socket
from collections import Counter, OrderedDict, defaultdict
from collections.abc import Iterable, Mapping, Sequence
from dataclasses import InitVar, dataclass, field
from datetime import date, datetime, time, timedelta, timezone
from decimal import Decimal
from pathlib import Path
from typing import Any, Literal, NamedTuple, Optional, TypedDict, Union
from uuid import UUID
from zoneinfo import ZoneInfo

import pytest
from lope.region import heap as heaps
from lope.region.heap import Heap, load

from lope import values, workflow
from lope.values import ValueProblem, decode, encode, encode_input
from lope.values.failures import native_fields, remade


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


BERLIN = ZoneInfo("Europe/Berlin")


@dataclass
class Sized:
    side: int
    unit: InitVar[int] = 1

    def __post_init__(self, unit: int) -> None:
        self.area = self.side * self.side * unit


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
    ([Pair(1, "x")], list[Pair]),
    (Pair(1, "x"), tuple),
    (Pair(1, "x"), Sequence),
    (datetime(2024, 10, 26, 12, tzinfo=BERLIN), datetime),
    ((1, 2), Sequence[int]),
    ([1, 2], Sequence[int]),
    ({1, 2}, Iterable[int]),
    ({1: 2}, Mapping[int, int]),
    (Sized(2, 3), Sized),
]

# These are plain on the wire, and what the hint says again.
BY_HINT: list[tuple[Any, Any]] = [
    (Counter("aab"), Counter),
    (Counter({1: 2}), Counter[int]),
    (OrderedDict(a=1), OrderedDict[str, int]),
    (defaultdict(list, a=[1]), defaultdict[str, list[int]]),
    (bytearray(b"x"), bytearray),
]


@pytest.mark.parametrize("value, hint", BOTH_WAYS, ids=repr)
def test_values_come_back_as_they_were(value: Any, hint: Any) -> None:
    encoded = encode(value)
    for text in (values.from_json(values.to_json(encoded)), values.from_msgpack(values.to_msgpack(encoded))):
        assert decode(text, hint) == value and type(decode(text, hint)) is type(value)
        assert decode(text) == value and type(decode(text)) is type(value), "without a hint too"


@pytest.mark.parametrize("value, hint", BY_HINT, ids=repr)
def test_values_become_what_the_hint_says(value: Any, hint: Any) -> None:
    text = values.from_json(values.to_json(encode(value)))
    assert decode(text, hint) == value and type(decode(text, hint)) is type(value)
    assert decode(text, Optional[hint]) == value


def test_a_defaultdict_makes_what_its_hint_says() -> None:
    assert decode({}, defaultdict[str, list[int]])["new"] == []
    assert decode({}, defaultdict[str, defaultdict[str, int]])["new"]["newer"] == 0
    with pytest.raises(KeyError):
        decode({}, defaultdict)["new"]


def test_a_zone_stands_behind_the_offset() -> None:
    when = datetime(2024, 10, 26, 12, tzinfo=BERLIN)
    assert encode(when) == {"$tag": ["datetime", "2024-10-26T12:00:00+02:00[Europe/Berlin]"]}
    assert decode(encode(when)).tzinfo is BERLIN
    for month, day, fold in ((10, 27, 0), (10, 27, 1), (3, 31, 0), (3, 31, 1)):
        when = datetime(2024, month, day, 2, 30, tzinfo=BERLIN, fold=fold)
        back = decode(encode(when))
        assert back.replace(tzinfo=None) == when.replace(tzinfo=None)
        assert (back.fold, back.utcoffset()) == (fold, when.utcoffset())


@pytest.mark.parametrize(
    "given, expected",
    [
        ("2024-07-01T12:00:00[Europe/Berlin]", "2024-07-01T12:00:00+02:00"),
        ("2024-07-01T12:00:00Z[Europe/Berlin]", "2024-07-01T14:00:00+02:00"),
        ("2024-07-01T12:00:00+12:00[NZ]", "2024-07-01T12:00:00+12:00"),
        ("2024-07-01T12:00:00Z", "2024-07-01T12:00:00+00:00"),
    ],
)
def test_plain_text_may_name_a_zone(given: str, expected: str) -> None:
    assert decode(given, datetime).isoformat() == expected


def test_a_zone_that_is_not_known_here_is_named() -> None:
    with pytest.raises(ValueProblem, match="^at: the time zone 'No/Where' is not known here"):
        decode({"$tag": ["datetime", "2024-07-01T12:00:00+02:00[No/Where]"]}, place="at")


def test_a_named_tuple_whose_class_is_not_known_is_a_tuple() -> None:
    class Inside(NamedTuple):
        a: int

    assert encode(Inside(1)) == {"$tag": ["tuple", [1]]}
    unknown = {"$tag": ["no.such:Pair", [1, "x"]]}
    assert decode(unknown) == decode(unknown, tuple[int, str]) == (1, "x")
    assert type(decode(unknown, Pair)) is Pair, "the hint knows it"
    with pytest.raises(ValueProblem, match=r"^users\[0\]: int expected"):
        decode({"$tag": [f"{__name__}:Pair", ["x", "x"]]}, Pair, "users")


def test_what_a_constructor_made_of_its_own_variables_stays() -> None:
    assert decode(encode(Sized(2, 3))).area == 12
    assert decode({"side": 2, "unit": 3}, Sized).area == 12, "plain input gives them"


@pytest.mark.parametrize(
    "value, place",
    [("\ud800", "result"), ({"a": ["é", "x\udfff"]}, r"result\.a\[1\]"), ({"\ud800": 1}, r"result\['.ud800'\]"),
     (Address("\ud800"), r"result\.street")],
)  # fmt: skip
def test_a_lone_surrogate_is_refused_with_its_place(value: Any, place: str) -> None:
    with pytest.raises(ValueProblem, match=rf"^{place}: text with a lone surrogate \('.ud[8f]..' at [01]\)"):
        encode(value, "result")


@workflow
async def with_defaults(x: Optional[int] = 5, *rest: int, y: int = 6) -> Any:
    return x, rest, y


@workflow
async def with_one(x: Optional[int]) -> Any:
    return x


@workflow
async def with_none() -> None:
    pass


def test_no_input_leaves_all_to_the_defaults() -> None:
    assert values.call_arguments(with_defaults, encode_input(with_defaults, None)) == ((), {})
    assert encode_input(with_one, None) == {"x": None} and encode_input(with_none, None) == {}
    with pytest.raises(ValueProblem):
        encode_input(workflow(name="with_two")(two_needed), None)


async def two_needed(x: int, y: int) -> None:
    pass


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


class Refused(OSError):
    __slots__ = ("code",)

    def __init__(self, code: int) -> None:
        super().__init__(13, "refused", "/file", None, "/other")
        self.code = code


def over(error: BaseException) -> Any:
    return values.decode_failure(values.from_msgpack(values.to_msgpack(values.encode_failure(error))))


def raised(source: str) -> BaseException:
    try:
        exec(source)
    except BaseException as error:
        return error
    raise AssertionError


@pytest.mark.parametrize(
    "error, fields",
    [
        (raised(r"b'a\xff'.decode()"), ("encoding", "object", "start", "end", "reason")),
        (raised("'é'.encode('ascii')"), ("encoding", "object", "start", "end", "reason")),
        (raised("open('/no/such/file')"), ("errno", "strerror", "filename", "filename2")),
        (OSError(2, "no", "/a", None, "/b"), ("errno", "strerror", "filename", "filename2")),
        (OSError("just text"), ("errno", "strerror", "filename")),
        (SystemExit(3), ("code",)),
        (StopIteration([1]), ("value",)),
        (raised("a = = 1"), ("msg", "filename", "lineno", "offset", "text", "end_lineno", "end_offset")),
        (ImportError("no", name="a", path="b"), ("msg", "name", "path")),
        (raised("missing"), ("name",)),
        (raised("(3).missing"), ("name",)),
        (KeyError("a", (1, 2)), ()),
        (Refused(7), ("code", "errno", "strerror", "filename", "filename2")),
    ],
    ids=repr,
)
def test_pythons_own_fields_of_an_exception_cross(error: BaseException, fields: tuple[str, ...]) -> None:
    again = remade(type(error), error.args, native_fields(error))
    for back in (over(error), again):
        assert type(back) is type(error) and str(back) == str(error) and back.args == error.args
        assert {name: getattr(back, name) for name in fields} == {name: getattr(error, name) for name in fields}


def test_what_could_not_be_decoded_may_be_long() -> None:
    error = raised(r"(b'a' * 100_000 + b'\xff').decode()")
    assert len(values.to_msgpack(values.encode_failure(error))) < 4096
    back = over(error)
    assert isinstance(back, UnicodeDecodeError) and "invalid start byte" in str(back)


def test_an_exception_is_made_again_without_the_users_constructor() -> None:
    calls: list[Any] = []

    class Strict(OSError):
        def __new__(cls, *, code: int) -> "Strict":
            calls.append(code)
            return super().__new__(cls, 2, "gone", "/x")

        def __init__(self, *, code: int) -> None:
            calls.append(code)
            super().__init__(2, "gone")

    error = Strict(code=3)
    calls.clear()
    back: Any = remade(Strict, error.args, native_fields(error))
    assert type(back) is Strict and back.filename == "/x" and back.errno == 2 and not calls
    assert type(remade(OSError, (2, "gone"), {})) is OSError


def test_notes_and_causes_cross() -> None:
    error = raised("raise ValueError('outer') from KeyError('inner')")
    vars(error)["__notes__"] = ["mine"]
    back = over(error)
    assert back.__notes__[0] == "mine" and "raise" not in back.__notes__[0]
    assert repr(back.__cause__) == "KeyError('inner')" and back.__suppress_context__
    again = over(back)
    assert again.__notes__ == ["mine"], "the traceback of another process is no note of the user's"
    error.__cause__ = error
    assert over(error).__cause__.__cause__.__cause__.__cause__.__cause__ is None


def test_a_failure_with_a_lone_surrogate_crosses() -> None:
    back = over(ValueError("\ud800", "\ud800"))
    assert isinstance(back, ValueError) and "ud800" in str(back)


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


def test_models_keep_what_they_were_given_and_no_more() -> None:
    pydantic = pytest.importorskip("pydantic")
    from lope_test_models import Account

    Open = pydantic.create_model("Open", __config__=pydantic.ConfigDict(extra="allow"), a=(int, 5))
    for account in (Account(owner="ann"), Account(owner="ann", limits={}), Open(a=1, more=(1, 2), copy=3), Open(a=1), Open()):
        back = decode(values.from_json(values.to_json(encode(account))), type(account))
        assert back == account and back.model_fields_set == account.model_fields_set
        assert back.model_extra == account.model_extra


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
