"""What comes back from actions, children and signals is what it was."""

from __future__ import annotations

import builtins
import datetime
import json
from collections import Counter, OrderedDict, defaultdict
from collections.abc import Collection, Iterable, Mapping, Sequence, Set
from dataclasses import InitVar, dataclass
from typing import Any, NamedTuple
from zoneinfo import ZoneInfo

from lope import action, gather, wait_signal
from lope.policy import Retry

from programs.actions import program

BERLIN = ZoneInfo("Europe/Berlin")


class Span(NamedTuple):
    first: int
    last: int = 9

    def width(self) -> int:
        return self.last - self.first


@dataclass
class Sized:
    side: int
    unit: InitVar[int] = 1

    def __post_init__(self, unit: int) -> None:
        self.area = self.side * self.side * unit


@action
async def carried(value: Any) -> Any:
    return value


@action
async def later(when: datetime.datetime) -> datetime.datetime:
    return when + datetime.timedelta(days=1)


@action
async def wider(span: Span) -> Span:
    return span._replace(last=span.last + 1)


@action
async def widths(spans: list[Span]) -> dict[str, Span]:
    return {str(each.width()): each for each in spans}


@action
async def commonest(counts: Counter[str]) -> list[Any]:
    return [counts.most_common(1), counts["never"], type(counts).__name__]


@action
async def filled(groups: defaultdict[str, list[int]], order: OrderedDict[str, int]) -> list[Any]:
    groups["new"].append(1)
    order.move_to_end("a")
    return [dict(groups), list(order)]


@action
async def read(items: Iterable[int], row: Sequence[int], some: Collection[int], by: Mapping[str, int], of: Set[int]) -> str:
    return repr((items, row, some, by, of))


@action(retry=Retry(0))
async def breaks(how: str) -> None:
    if how == "decode":
        b"ab\xff".decode()
    if how == "encode":
        "aé".encode("ascii")
    if how == "file":
        open("/no/such/file")
    if how == "rename":
        raise PermissionError(13, "no", "/a", None, "/b")
    if how == "import":
        raise ImportError("no such thing", name="thing", path="/thing.py")
    if how == "syntax":
        compile("a = = 1", "a.py", "exec")
    if how == "name":
        eval("missing")
    if how == "attribute":
        getattr(3, "missing")
    if how == "json":
        json.loads("{")
    error = LookupError("outer")
    vars(error)["__notes__"] = ["look twice"]
    raise error from KeyError("inner")


@program(("2024-10-26T12:00:00",), ("2024-03-30T12:00:00",), ("2024-07-01T00:00:00",))
async def zones_go_through_actions(text: str) -> list[Any]:
    when = datetime.datetime.fromisoformat(text).replace(tzinfo=BERLIN)
    found = await later(when)
    back = await carried([when])
    after = back[0] + datetime.timedelta(days=1)
    return [found.isoformat(), str(found.tzinfo), after.isoformat(), back[0].tzinfo is BERLIN]


@program((0,), (1,))
async def the_hour_that_comes_twice(fold: int) -> list[Any]:
    when = datetime.datetime(2024, 10, 27, 2, 30, tzinfo=BERLIN, fold=fold)
    back = await carried(when)
    return [back.fold, back.utcoffset(), back.astimezone(datetime.timezone.utc).isoformat()]


@program((datetime.datetime(2024, 10, 26, 12, tzinfo=BERLIN),), (datetime.datetime(2024, 10, 26, 12),))
async def zones_of_inputs(when: datetime.datetime) -> datetime.datetime:
    return when + datetime.timedelta(days=1)


@program(signals={"at": [datetime.datetime(2024, 10, 26, 12, tzinfo=BERLIN)]})
async def zones_of_signals() -> str:
    when = await wait_signal("at")
    return (when + datetime.timedelta(days=1)).isoformat()


@program((1,), (5,))
async def named_tuples_stay_what_they_are(first: int) -> list[Any]:
    span = await wider(Span(first))
    found = await widths([span, Span(0, first)])
    unhinted = await carried((Span(1, 2), [Span(3, 4)]))
    return [span, span.width(), {key: each.width() for key, each in found.items()}, unhinted, unhinted[1][0].width()]


@program((2,))
async def a_child_that_gives_a_named_tuple(first: int) -> Span:
    return Span(first, await carried(7))


@program((2,))
async def named_tuples_of_children(first: int) -> list[Any]:
    one = await a_child_that_gives_a_named_tuple(first)
    both = await gather(a_child_that_gives_a_named_tuple(0), a_child_that_gives_a_named_tuple(1))
    return [one.width(), one, [each.last for each in both]]


@program((Span(1, 4),))
async def named_tuples_of_inputs(span: Span) -> list[Any]:
    return [span.width(), span]


@program(("abca",), ("",))
async def dicts_of_other_kinds(text: str) -> list[Any]:
    return [
        await commonest(Counter(text)),
        await filled(defaultdict(list, {"a": [2]}), OrderedDict(a=1, b=2)),
    ]


@program((Counter("aab"),))
async def counters_of_inputs(counts: Counter[str]) -> list[Any]:
    return [counts["zz"], counts.most_common(1)]


@program()
async def what_is_only_read_stays_what_it_was() -> list[str]:
    return [
        await read((1, 2), (3,), {4}, {"a": 5}, frozenset({6})),
        await read([1, 2], [3], (4,), {}, {6}),
        await read({1: 2}, Span(1), frozenset({4}), Counter("aa") and {"a": 2}, set()),
    ]


@program()
async def dataclasses_with_initial_variables() -> list[Any]:
    back = await carried(Sized(3, 2))
    return [back.side, back.area, back == Sized(3)]


FIELDS = (
    "encoding", "object", "start", "end", "reason", "errno", "strerror", "filename", "filename2", "name", "path", "msg",
    "lineno", "offset", "text", "pos", "colno",
)  # fmt: skip


@program(*[(each,) for each in ("decode", "encode", "file", "rename", "import", "syntax", "name", "attribute", "json", "")])
async def pythons_own_failures_keep_their_fields(how: str) -> list[Any]:
    try:
        await breaks(how)
    except Exception as error:
        notes = [each for each in getattr(error, "__notes__", []) if "Traceback" not in each]
        fields = {name: getattr(error, name) for name in FIELDS if hasattr(error, name)}
        return [type(error).__name__, str(error), error.args, fields, notes, repr(error.__cause__)]
    return []


@program(("ValueError",), ("StopIteration",), ("SystemExit",), ("KeyError",))
async def failures_as_values(name: str) -> list[Any]:
    error = await carried(getattr(builtins, name)(3))
    return [repr(error), getattr(error, "value", None), getattr(error, "code", None)]
