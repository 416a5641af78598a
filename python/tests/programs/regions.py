"""Programs as people write them: the standard library, methods of their own, shared objects, and awaits between."""

# mypy: ignore-errors
import contextlib
import dataclasses
import enum
import functools
import itertools
import json
import logging
import math
import re
import string
import sys
import traceback
from collections import Counter, OrderedDict, defaultdict, deque, namedtuple
from dataclasses import dataclass, field, replace
from datetime import date, datetime, timedelta, timezone
from decimal import ROUND_HALF_UP, Decimal
from fractions import Fraction
from typing import NamedTuple

from lope import action, gather, sleep, wait_signal
from pydantic import BaseModel, field_validator

from .actions import AppError, Coded, Item, Order, add, coded, double, echo, fail, maybe, program

log = logging.getLogger(__name__)


class Line(BaseModel):
    name: str
    price: Decimal
    count: int = 1

    @property
    def total(self):
        return self.price * self.count

    @field_validator("count")
    @classmethod
    def positive(cls, value):
        if value < 1:
            raise ValueError("too few")
        return value


@dataclass
class Account:
    balance: Decimal = Decimal("0.00")
    history: list = field(default_factory=list)

    def deposit(self, amount):
        self.history.append(amount)
        self.balance += amount
        return self

    def __bool__(self):
        return self.balance > 0

    def __eq__(self, other):
        return isinstance(other, Account) and self.balance == other.balance


class Pair(NamedTuple):
    left: int
    right: int = 0

    def swapped(self):
        return Pair(self.right, self.left)


class Mode(enum.IntEnum):
    OFF = 0
    ON = 1


class Flags(enum.Flag):
    A = enum.auto()
    B = enum.auto()


@action(name="regions.amount")
async def amount(text: str) -> Decimal:
    return Decimal(text)


@action(name="regions.account")
async def account(text: str) -> Account:
    return Account(Decimal(text))


@action(name="regions.moment")
async def moment(hours: int) -> datetime:
    return datetime(2024, 1, 1, 12, tzinfo=timezone(timedelta(hours=hours)))


def helper(*args, sep="-", **kwargs):
    return sep.join([*map(str, args), *(f"{key}={value}" for key, value in kwargs.items())])


def grouped(pairs):
    found = {}
    for key, value in pairs:
        found.setdefault(key, []).append(value)
    return found


async def collect(into, x):
    into.append(await double(x))
    return into


@program((["1.10", "2.20", "0.00"],), ([],))
async def invoice(texts):
    total = Decimal("0")
    for text in texts:
        total += await amount(text)
    tax = (total * Decimal("0.19")).quantize(Decimal("0.01"), ROUND_HALF_UP)
    if not total:
        return "nothing"
    return total, tax, str(total + tax)


@program(("0.00",), ("0.01",))
async def truth_of_a_decimal(text):
    balance = await amount(text)
    return "some" if balance else "none"


@program()
async def equal_decimals():
    a, b = await gather(amount("1.0"), amount("1.00"))
    return a == b, {a: 1}[b], a is b, hash(a) == hash(b)


@program()
async def equal_instants():
    a = await moment(0)
    b = (await moment(2)) + timedelta(hours=2)
    return a == b, a < b, sorted([b, a]) == [a, b], len({a, b})


@program(("0.00",), ("5",))
async def objects_with_dunders(text):
    mine = await account(text)
    other = mine.deposit(Decimal(1)) if mine else Account()
    return bool(mine), mine == other, mine is other, other.history


@program(([("a", 1), ("b", 2), ("a", 3)],))
async def grouping_by_setdefault(pairs):
    found = {}
    for key, value in pairs:
        found.setdefault(key, []).append(await add(value))
    return found


@program(([("a", 1), ("b", 2), ("a", 3)],))
async def grouping_by_defaultdict(pairs):
    found = defaultdict(list)
    for key, value in pairs:
        found[key].append(await add(value))
    return dict(found), [*grouped(pairs).items()]


@program(("mississippi",))
async def counting(text):
    counts = Counter(text)
    counts.update(await echo("ss"))
    return counts.most_common(2), sum(counts.values()), counts["z"]


@program((7, 3), (2, 5), (0, 1))
async def batches(n, size):
    items = iter(range(n))
    found = []
    while batch := list(itertools.islice(items, size)):
        found.append(await gather(*[double(x) for x in batch]))
    return found


@program()
async def chained_assignment():
    a = b = []
    a.append(await add(1))
    b.append(2)
    return a, b, a is b


@program()
async def repeated_rows():
    row = []
    rows = [row for _ in range(2)]
    rows[0].append(await add(1))
    by_key = dict.fromkeys("ab", row)
    by_key["a"].append(3)
    return rows, by_key


@program(([5, 4, 3, 2, 1],))
async def bins(sizes):
    found = [[], []]
    for size in sizes:
        min(found, key=sum).append(await echo(size))
    return found


@program((3,))
async def shared_by_helpers(n):
    into = []
    await gather(*[collect(into, x) for x in range(n)])
    first = await collect(into, 9)
    return sorted(into), first is into


@program(({"kind": "circle", "r": 2},), ({"kind": "box", "sides": [1, 2]},), ([1, 2, 3],), ("x",), (None,))
async def matching(shape):
    match shape:
        case {"kind": "circle", "r": r}:
            return math.pi * await double(r)
        case {"kind": "box", "sides": [a, b]}:
            area = await add(a, b)
        case [first, *rest] if len(rest) > 1:
            area = await double(first)
            rest.append(area)
            return rest
        case str() as text:
            return text * 2
        case _:
            area = None
    return area


@program()
async def matching_classes():
    found = []
    for each in (Item("a", 1.0), Pair(1, 2), Mode.ON, 5, Order(1, [])):
        match each:
            case Item(name=name):
                found.append(await echo(name))
            case Pair(left, right):
                found.append(left + right)
            case Mode.ON:
                found.append("on")
            case int(n):
                found.append(n)
            case _:
                found.append(type(each).__name__)
    return found


@contextlib.contextmanager
def noting(log, name):
    log.append(f"+{name}")
    try:
        yield name
    finally:
        log.append(f"-{name}")


@program((1,), (0,))
async def context_managers(x):
    log = []
    with noting(log, "a") as a, contextlib.suppress(ZeroDivisionError):
        log.append(a)
        log.append(1 // x)
    await add(x)
    return log


class Guarded:
    def __init__(self, log, swallow):
        self.log = log
        self.swallow = swallow

    def __enter__(self):
        self.log.append("in")
        return self

    def __exit__(self, kind, error, trace):
        self.log.append(kind.__name__ if kind else "out")
        return self.swallow


@program((2, False), (1, True), (1, False))
async def context_with_awaits(x, swallow):
    log = []
    try:
        with Guarded(log, swallow) as guarded:
            guarded.log.append(await maybe(x))
    except ValueError as error:
        log.append(str(error))
    return log


@program((2,), (1,))
async def return_from_a_context(x):
    log = []
    with Guarded(log, False):
        return [await maybe(x), log]


@program()
async def deleting():
    found = {"a": 1, "b": 2}
    del found["a"]
    xs = [1, 2, 3]
    del xs[0]
    await add(1)
    del xs[-1:]
    name = 1
    del name
    try:
        return name
    except UnboundLocalError as error:
        return found, xs, type(error).__name__


@program(("a1b22", r"\d+"),)
async def patterns(text, pattern):
    found = [int(each) for each in re.findall(pattern, text)]
    letter = re.match(r"(?P<letter>\w)", text).group("letter")
    total = sum(await gather(*[double(x) for x in found]))
    return found, letter, total


@program(({"b": [1, None], "a": 1.5},))
async def as_json(value):
    text = json.dumps(await echo(value), sort_keys=True)
    return text, json.loads(text) == value


@program(([3, 1, 2],))
async def sorted_by_functions(xs):
    def key(x):
        return -x

    first = sorted(xs, key=key)
    more = sorted(await echo(xs), key=functools.cmp_to_key(lambda a, b: a - b))
    return first, more, max(xs, key=key)


@program((1, 2),)
async def helpers_with_keywords(a, b):
    given = {"x": await add(a), "y": b}
    return helper(a, b, **given), helper(*[a, b], sep="+")


@program((3,))
async def logs(n):
    for i in range(n):
        log.debug("round %d", i)
        await add(i)
    return n


@program(("pen", "1.50", 2), ("pen", "x", 1), ("pen", "1", 0))
async def models(name, price, count):
    try:
        line = Line(name=name, price=price, count=count)
    except ValueError as error:
        return type(error).__name__, len(error.errors())
    line.count = await add(line.count)
    copy = line.model_copy(update={"name": "cap"})
    return line.total, copy.name, line.name, line == copy


@program()
async def records():
    order = Order(1, [Item("a", 1.0)])
    other = replace(order, id=2)
    other.items.append(Item("b", 2.0))
    await add(1)
    return order == other, len(order.items), dataclasses.asdict(order)["items"][1]["name"], other.items is order.items


@program((1,), (0,))
async def enums(x):
    mode = Mode(x)
    flags = Flags.A | Flags.B
    await add(x)
    return isinstance(mode, int), mode + 1, mode is Mode.ON, Flags.A in flags, f"{mode:d}", mode == x


@program()
async def named_tuples():
    pair = Pair(1)
    other = pair._replace(right=await add(4))
    point = namedtuple("point", "x y")(1, 2)
    return other.swapped().left, tuple(other), point.x


@program((4,))
async def generators_in_a_region(n):
    def squares():
        for i in range(n):
            yield i * i

    total = sum(squares())
    evens = [x for x in squares() if not x % 2]
    return await add(total), evens


@program((3,))
async def closures_and_late_binding(n):
    functions = [lambda x, i=i: x + i for i in range(n)]
    late = [lambda: i for i in range(n)]
    found = [each(10) for each in functions] + [each() for each in late]
    return await echo(found)


@program((3,))
async def nested_async_functions(n):
    log = []
    count = 0

    async def one(x, *, bonus=1):
        nonlocal count
        value = await double(x)
        count += bonus
        log.append(value)
        return value

    def shown():
        return ",".join(map(str, sorted(log)))

    values = await gather(*[one(x) for x in range(n)])
    await one(9, bonus=10)
    return values, count, shown()


@program((2,), (3,))
async def coroutine_kept_while_names_change(x):
    c = add(x)
    x = 100
    later = [double(x), c]
    await sleep(0)
    return [await each for each in later]


@program((1,), (2,))
async def coroutine_awaited_twice(x):
    c = add(x)
    await c
    try:
        return await c
    except RuntimeError as error:
        return str(error)


@program(("value",), ("key",), ("app",), ("runtime",))
async def handlers(kind):
    log = []
    try:
        try:
            await fail(kind)
        except (ValueError, KeyError) as error:
            log.append(type(error).__name__)
            raise AppError("again") from error
        except AppError:
            log.append("app")
            raise
        finally:
            log.append(await add(1))
    except AppError as error:
        return log, str(error), type(error.__cause__).__name__
    except Exception as error:
        return log, repr(error)


@program((3,))
async def exceptions_keep_their_attributes(x):
    try:
        await coded(x)
    except Coded as error:
        kept = error
        error.note = [x]
    await add(1)
    return kept.code, kept.note, str(kept), isinstance(kept, AppError)


@program()
async def what_finally_changes_is_returned():
    found = []
    try:
        return found
    finally:
        found.append(await add(1))


@program((3,))
async def loops_with_else(n):
    for i in deque(range(n)):
        if await maybe(i * 2) == 4:
            break
    else:
        return "none"
    while n:
        n -= await add(0)
    else:
        return i, n


@program(([1, 2, 3],))
async def changed_while_gone_over(xs):
    seen = []
    for x in xs:
        seen.append(await echo(x))
        if len(xs) < 5:
            xs.append(x * 10)
    return seen, xs


@program(({"a": 1, "b": 2},))
async def items_across_awaits(d):
    found = OrderedDict()
    for place, (key, value) in enumerate(d.items(), 1):
        found[key.upper()] = (place, await add(value))
    return list(found.items()), string.ascii_lowercase[:3]


@program()
async def sums_of_floats():
    xs = [0.1] * 10
    await add(1)
    return sum(xs), math.fsum(xs), 2**70, str(Fraction(1, 3) + 1), -7 // 2, round(2.5)


@program((5,))
async def big_numbers(n):
    return math.factorial(await add(n) + 20), (1 << 80) + n


@program(signals={"approved": [{"by": "ann", "amount": "3.50"}]})
async def typed_signals():
    class_free = await wait_signal("approved", type=dict)
    late = await wait_signal("more", timeout="1s", default=Pair(1, 2))
    return class_free["by"], late.right


@program((1,), (0,))
async def short_circuits(x):
    found = x and await double(x) or await add(100)
    chosen = await add(1) if x else await double(5)
    return found, chosen, 0 < await add(x) < 3 <= await add(2), x == 1 and not await add(-1)


@program((2,))
async def order_of_evaluation(x):
    log = []

    def note(value):
        log.append(value)
        return value

    found = {note("k"): note(1), note("l"): await add(x)}
    found["m"] = note(await add(note(5))) + note(7)
    xs = [note(0), *[note(1)], await add(note(2)), note(3)]
    return log, found, xs


@program(([1, 2, 3],))
async def augmented(xs):
    ys = xs
    xs += [await add(9)]
    table = {"n": 1}
    table["n"] += await add(1)
    total = 1
    total *= await double(3)
    return xs is ys, ys, table, total


@program((date(2024, 2, 28),))
async def dates(day):
    following = day + timedelta(days=await add(1))
    return following.isoformat(), following > day, (following - day).days, following.strftime("%d.%m.%Y")


class Box:
    limit = 2

    def __init__(self):
        self.__items = []

    @property
    def full(self):
        return len(self.__items) >= self.limit

    def put(self, x):
        self.__items.append(x)
        return self.__items


@program(([1, 2, 3],))
class Packing(Box):
    async def run(self, xs):
        self.boxes = 0
        for x in xs:
            items = self.put(await add(x))
            if self.full:
                self.boxes += 1
                items.clear()
        await gather(*[self.later(x) for x in xs])
        return self.boxes, items, self.total

    total = 0

    async def later(self, x):
        found = await add(x)
        self.total += found
        return super().put(x)


async def named():
    await add(1)
    return sys._getframe().f_code.co_name


@program((1,))
async def names_of_functions(x):
    """Tracebacks, frames and records of a log name the function that was written."""
    await add(x)
    try:
        1 / 0
    except ZeroDivisionError:
        lines = [line.partition("line")[2] for line in traceback.format_exc().splitlines() if "File" in line]

    def inner():
        return sys._getframe().f_code.co_name

    return lines, sys._getframe().f_code.co_name, inner(), await named()
