"""What another worker finds as it was: the order of sets and of attributes, numbers that are none, what belongs to a module,
views, iterators and matches, containers with methods of their own; and names of functions inside functions."""

import asyncio
import collections
import math
import re
import types
import typing
from collections import Counter, OrderedDict, defaultdict

from lope import action, gather, workflow
from pydantic import BaseModel, ValidationError

from .actions import add, echo, fail, program

SETTINGS = {"limits": {"low": [1]}, "names": ["a"]}


class Config:
    def __init__(self):
        self.level = 1


DEFAULT = Config()


class Shared:
    known = {"a": 1}


async def with_default(x, found=SETTINGS["names"]):
    await add(x)
    return found is SETTINGS["names"]


@program()
async def sets_in_their_order():
    sets = [set(range(50)) - set(range(0, 50, 3)), {100, 9, 16, 33}, {100, 9} | {16, 33}, {f"k{n}" for n in range(30)}]
    for each in sets[:2]:
        each.discard(16)
    before = [list(each) for each in sets]
    found = await gather(*(echo(each) for each in sets[3]))
    same = [list(each) == order for each, order in zip(sets, before)]
    return same, list(sets[3]) == found, sets[0].pop(), sets[1].pop()


@program()
async def frozensets_in_their_order():
    """Some lie in another table than one that is made of their elements, one after the other."""
    made = [frozenset(set(range(0, n * 16, 16)) | {1, 2, 3}) for n in range(1, 30)] + [frozenset("abcdefghijklmn"[:n]) for n in range(14)]
    whole = [frozenset({8, 0, 16, 24, 32}), frozenset({(1, frozenset({40, 0, 8, 16, 24})), frozenset({8, 0, 16, 24, 32})})]
    before = [list(each) for each in [*made, *whole]]
    held = {whole[0]: "first", "it": whole[0]}
    await add(1)
    same = [list(each) == order for each, order in zip([*made, *whole], before)]
    later = [frozenset(set(range(0, n * 8, 8))) for n in range(9, 1, -1)]
    orders = [list(each) for each in later]
    await add(1)
    inner = [each for each in whole[1] if isinstance(each, frozenset)][0]
    return same, [list(each) for each in later] == orders, held["it"] is whole[0] is next(iter(held)), list(inner), inner is whole[0]


@program()
async def patterns_that_re_keeps():
    held = [re.compile("a+"), re.compile("a", re.I), re.compile("(?x)b "), re.compile(b"x"), re.compile("z", re.U | re.I), re.compile("q", re.A)]
    await add(1)
    asked = [re.compile("a+"), re.compile("a", re.I), re.compile("(?x)b "), re.compile(b"x"), re.compile("z", re.U | re.I), re.compile("q", re.A)]
    found = [one is other for one, other in zip(held, asked)]
    await add(1)
    return found, held[4] is re.compile("z", re.I), [each.flags for each in held], held[2].search("abc").span()


@program((), ("",), ("stop",))
async def a_cancel_among_results(*words):
    async def stops():
        await add(1)
        raise asyncio.CancelledError(*words)

    found = await gather(stops(), add(1), return_exceptions=True)
    await add(1)
    return repr(found)


@action
async def raises(words: list[str]) -> None:
    raise ValueError(*words)


@program(([],), ([""],), (["x"],), (["", ""],))
async def the_arguments_of_a_failure(words):
    try:
        await raises(words)
    except ValueError as error:
        await add(1)
        return repr(error)


@program()
async def sets_that_change():
    numbers, same = set(), []
    for n in range(40):
        numbers.add(n * 7919 % 1009)
        if n % 4 == 0:
            numbers.pop()
        before = list(numbers)
        await add(1)
        same.append(before == list(numbers))
    return all(same), before


@program()
async def attributes_in_their_order():
    thing = Config()
    thing.b, thing.a = 1, 2
    await add(1)
    del thing.b
    thing.c, thing.b = 3, 4
    await add(1)
    return list(vars(thing))


@program()
async def numbers_that_are_none():
    one, other, known = float("nan"), float("nan"), math.nan
    found = [one, other]
    await add(1)
    found.append(known)
    await add(1)
    return one in found[:1], other in found[:1], one is other, found == [one, other, known], found[2] is math.nan, {one: 1}.get(one)


@program()
async def what_belongs_to_the_module():
    limits, low, default, known = SETTINGS["limits"], SETTINGS["limits"]["low"], DEFAULT, Shared.known
    await add(1)
    held = [limits, default]
    await add(1)
    same = limits is SETTINGS["limits"], low is held[0]["low"], default is DEFAULT, held[1] is DEFAULT, known is Shared.known
    return same, await with_default(1)


@program()
async def views_and_iterators():
    whole = {"a": 1, "b": 2, "c": 3}
    keys, values, items, proxy = whole.keys(), whole.values(), whole.items(), types.MappingProxyType(whole)
    names, pairs, numbers = iter(whole), iter(whole.items()), iter({3, 1, 2})
    next(names), next(pairs), next(numbers)
    await add(1)
    rest = list(names), next(pairs), list(numbers)
    whole["d"] = 4
    await add(1)
    try:
        next(pairs)
    except RuntimeError as error:
        return rest, list(keys), list(values), list(items), dict(proxy), str(error)


@program()
async def found_by_an_expression():
    first, second, whole = re.match(r"(\d+)-(?P<n>\w+)", "12-abc"), re.search("b", "abcb"), re.fullmatch("a|ab", "ab")
    several = list(re.finditer(r"(?<=x)\d", "x1x2x3"))
    await add(1)
    return first.groups(), first["n"], second.span(), whole.group(), [each.span() for each in several]


@program()
async def kinds_of_types():
    kinds = [int | None, typing.Optional[int], type(None), list[int], typing.Callable[[int], str]]
    await add(1)
    return [str(each) for each in kinds]


class Asks:
    def __init__(self, inner):
        self.inner = inner

    def __getattr__(self, name):
        return getattr(self.inner, name)


@program()
async def answers_for_others():
    asks = Asks([1, 2])
    await add(1)
    asks.inner.append(2)
    await add(1)
    return asks.count(2)


class Vector(tuple):
    def __new__(cls, x, y):
        return super().__new__(cls, (x, y))


class Tags(set):
    def __init__(self, name, items=()):
        super().__init__(items)
        self.name = name


class Bag(Counter):
    def __init__(self, name):
        super().__init__()
        self.name = name


class Row(dict):
    def __setitem__(self, key, value):
        super().__setitem__(key, ("set", value))


class Last(collections.deque):
    def __init__(self, most):
        super().__init__(maxlen=most)


class Front(OrderedDict):
    def __setitem__(self, key, value):
        super().__setitem__(key, value)
        self.move_to_end(key, last=False)


class Listed(list):
    def __init__(self, name):
        super().__init__()
        self.name = name

    def append(self, value):
        super().append((self.name, value))


@program()
async def containers_of_their_own():
    vector, tags, bag, row, last, front, listed = Vector(1, 2), Tags("t", "a"), Bag("b"), Row(), Last(2), Front(), Listed("l")
    for _ in range(2):
        tags.add("x")
        bag["k"] += 1
        row["r"] = 1
        last.extend([1, 2])
        front["a"] = front["b"] = 1
        listed.append(3)
        await add(1)
    return tuple(vector), type(vector).__name__, sorted(tags), tags.name, dict(bag), bag.name, dict(row), list(last), last.maxlen, list(front), list(listed)


class Model(BaseModel):
    number: int


@program()
async def what_pydantic_found():
    try:
        Model(number="x")
    except ValidationError as error:
        await add(1)
        return error.error_count(), error.errors()[0]["type"], error.errors()[0]["loc"], error.title


@program()
async def no_exception_of_the_usual_kind():
    try:
        await add(1)
        raise SystemExit(4)
    except SystemExit as error:
        await add(1)
        return error.code


@program()
async def functions_and_their_names():
    seen = 1

    def plain(a: int, b: str = "x") -> float:
        return seen

    class Inner:
        def method(self):
            pass

    names = plain.__qualname__, Inner.__qualname__, Inner.method.__qualname__, (lambda: 0).__qualname__
    await add(1)
    return names, plain.__annotations__["a"] is int, plain.__qualname__


@program()
class Named:
    async def run(self):
        def inner():
            pass

        await add(1)
        return inner.__qualname__


@action
async def counted(text: str) -> Counter[str]:
    return Counter(text)


@action
async def grouped(text: str) -> defaultdict[str, list[str]]:
    found = defaultdict(list)
    found[text[0]].append(text)
    return found


@action
async def both(text: str) -> tuple[Counter[str], bytearray]:
    return Counter(text), bytearray(b"x")


@action
async def otherwise(text: str) -> Counter[str]:
    return None


@workflow
async def counting(text: str) -> Counter[str]:
    return Counter(text)


@program(("aab",))
async def results_by_their_hints(text):
    count, groups = await counted(text), await grouped(text)
    groups["z"].append(count["z"])
    several = await gather(counted("x"), both("yy"), counting("zz"))
    task = asyncio.create_task(counted("aa"))
    return count.most_common(1), dict(groups), repr(several), repr(await task), await otherwise(text), type(await counting("b")).__name__


@program()
async def tidied_up_on_a_cancel():
    log = []

    async def sleeps(n):
        try:
            await asyncio.sleep(100)
        except asyncio.CancelledError as error:
            log.append((n, type(error).__name__))
            await add(1)
            log.append((n, "tidy"))
            raise
        except BaseException:
            log.append("no")
            raise
        finally:
            log.append((n, "finally"))

    async def around():
        try:
            await sleeps(2)
        except:
            log.append("around")
            raise

    task = asyncio.create_task(sleeps(1))
    await asyncio.sleep(0.01)
    task.cancel()
    found = await gather(task, return_exceptions=True)
    try:
        await asyncio.wait_for(around(), 0.01)
    except asyncio.TimeoutError:
        log.append("late")
    return log, type(found[0]).__name__


@program((0,), (1,), (2,), (3,))
async def no_cancel_came(n):
    log = []
    try:
        for each in range(3):
            try:
                if n == 0:
                    return await add(each)
                if n == 1:
                    await fail("value", "x")
                if n == 2:
                    break
                await add(each)
            except BaseException as error:
                log.append(type(error).__name__)
                await add(1)
                raise
            else:
                log.append("else")
    except ValueError as error:
        log.append(str(error))
    return log
