"""What the other files use too rarely, and constructs together."""

import asyncio

from lope import gather, sleep

from .actions import AppError, Colour, Item, NotFound, Point, add, describe, double, echo, fail, maybe, program, total


@program((3,), (30,), (300,))
async def grades(points: int):
    bonus: int = 5 if points % 2 else 0
    points += bonus
    if points < 10:
        grade: str = "low"
    elif 10 <= points < 100:
        grade = "middle"
    elif points == 300 or points > 1000:
        grade = "high"
    else:
        grade = "odd"
    return grade, points


@program(([1, 5, 9], 5), ([], 1), ([2], 2))
async def searching(values, wanted):
    low, high, rounds = 0, len(values) - 1, 0
    while low <= high:
        rounds += 1
        middle = (low + high) // 2
        if values[middle] == wanted:
            place: int = middle
            break
        elif values[middle] < wanted:
            low = middle + 1
        else:
            high = middle - 1
    else:
        place = -1
    return place, rounds


@program(({"a": 3, "b": -1},), ({},))
async def over_items_with_tests(stock):
    low, fine = [], {}
    for name, count in stock.items():
        if 0 <= count <= 5:
            fine[name] = count
        elif count < 0:
            low.append(name)
    else:
        low.sort()
    return low, fine


@program((["x", "y"], [1, 2], [True, False]))
async def three_lists(names, numbers, flags):
    found = []
    for name, number, flag in zip(names, numbers, flags):
        if not flag:
            continue
        found.append(f"{name}={number}")
    for index, (name, number) in enumerate(zip(names, numbers)):
        found.append((index, name * number))
    return found


@program(({"x": {"y": 1}, "z": {}},))
async def nested_items(data):
    flat = {}
    for outer, inner in data.items():
        for key, value in inner.items():
            flat[f"{outer}.{key}"] = value
        if not inner:
            flat[outer] = None
    return flat


@program((5,), (2,))
async def countdown(n):
    seen = []
    while n:
        n -= 1
        if n == 3:
            continue
        if n == 1:
            break
        seen.append(n)
    else:
        seen.append("never broken")
    return seen


@program((-3.7,), (2.5,), (-2,))
async def absolute(x):
    return abs(x), round(x), round(abs(x), 1), -abs(x), abs(round(x)) == round(abs(x))


@program(([-3, 1, 2],))
async def nearest_to_zero(values):
    best = min(values, key=lambda v: (abs(v), v))
    spread = max(values) - min(values)
    return best, round(spread / len(values), 2)


@program(("value",), ("notfound",), ("runtime",))
async def several_handlers(kind):
    try:
        await fail(kind, "reason")
    except (NotFound, KeyError) as error:
        outcome = ("gone", str(error))
    except (ValueError, TypeError) as error:
        outcome = ("bad", str(error))
    except Exception as error:
        outcome = (type(error).__name__, str(error))
    else:
        outcome = ("fine", "")
    finally:
        await echo("closed")
    return outcome


@program((2,))
async def patience(n):
    waited = 0
    for i in range(n):
        await sleep(f"{i}ms")
        waited += i
    await asyncio.sleep(0.001)
    return waited


@program((4,), (1,))
async def assigned_in_conditions(n):
    found = []
    while (square := n * n) > 3:
        found.append(square)
        n -= 1
    if (rest := len(found)) and rest > 1:
        return found, rest
    return found, square


@program(([("b", 2), ("a", 2), ("c", 1)],))
async def sorted_in_place(pairs):
    ranking = [*pairs]
    ranking.sort(key=lambda p: (-p[1], p[0]))
    names = [name for name, _ in ranking]
    names.sort(reverse=True)
    return ranking, names


@program((7,))
async def powers(n):
    return [n**k for k in range(4)], 2**10 // 3, (-n) ** 2, n**0.5 > 2.6, n**-1


@program((6, 3))
async def flags(a, b):
    mask = a | b
    mask ^= 1
    return mask & 4 == 4, mask << 1 | 1, ~mask, a & ~b


class Base:
    factor = 2

    def scale(self, x, *, plus=0):
        return x * self.factor + plus

    async def fetch(self, x):
        return await add(x)


@program((3,))
class Derived(Base):
    factor = 10

    async def run(self, x):
        return self.scale(x), self.scale(x, plus=1), await self.fetch(x)

    def scale(self, x, *, plus=0):
        return super().scale(x, plus=plus) + 1

    async def fetch(self, x):
        fetched = await super().fetch(x)
        return [fetched, self.factor]


def help_keyword_only(*, name, size=1):
    return name * size


async def help_pipeline(values, *, limit=3):
    kept = [v for v in values if v < limit]
    doubled = await gather(*[double(v) for v in kept])
    return dict(zip(kept, doubled))


@program(("ab",))
async def keyword_only_helpers(name):
    options = {"size": 3}
    return help_keyword_only(name=name), help_keyword_only(name=name, **options), await help_pipeline([1, 2, 5], limit=5)


@program(([1, 2, 3, 4],))
async def map_reduce(values):
    halves = [values[: len(values) // 2], values[len(values) // 2 :]]
    sums = await gather(*[total(*half) for half in halves])
    best, worst = max(sums), min(sums)
    return {"best": best, "worst": worst, "mean": sum(sums) / len(sums)}


@program(([3, 4, 5, 6],), ([2],))
async def partial_failures(values):
    results = await gather(*[maybe(v) for v in values], return_exceptions=True)
    good = {v: r for v, r in zip(values, results) if not isinstance(r, Exception)}
    bad = [str(r) for r in results if isinstance(r, ValueError)]
    if bad and not good:
        raise AppError("; ".join(bad))
    return good, bad


@program((["ann", "bob"],), ([],))
async def greetings(names):
    shown = []
    for index, name in enumerate(names, start=1):
        loud = index % 2 == 0
        text = await describe(name, loud=loud)
        shown.append(f"{index:02d}. {text:<5}|")
    return "\n".join(shown) or "nobody"


@program((3,))
async def saga(n):
    done, undone = [], []
    try:
        for i in range(n):
            done.append(await add(i))
            if i == 1:
                await fail("app", f"step {i}")
    except AppError as error:
        for step in reversed(done):
            undone.append(await echo(f"undo {step}"))
        return "rolled back", undone, str(error)
    return "done", done


@program(([5, 3, 9, 1],))
async def quick_sort(values):
    stack, result = [values], []
    while stack:
        part = stack.pop()
        if len(part) <= 1:
            result.extend(part)
            continue
        pivot, *rest = part
        stack.append([v for v in rest if v >= pivot])
        stack.append([pivot])
        stack.append([v for v in rest if v < pivot])
    return result


@program(("aab",), ("",))
async def run_length(text):
    runs: list = []
    for letter in text:
        if runs and runs[-1][0] == letter:
            runs[-1][1] += 1
        else:
            runs.append([letter, 1])
    return "".join(f"{letter}{count}" for letter, count in runs)


@program((Item("pen", 2.0, ["a"]), 3), (Item("cap", 0.0), 0))
async def invoice(item: Item, count: int):
    lines = [(item.name, count, item.price * count)]
    if not count:
        lines = []
    total_price = sum(price for _, _, price in lines)
    item.tags.append("billed")
    item.price *= 1.5
    return lines, f"{total_price:.2f}", item, Point(count, int(total_price))


@program((Colour.RED, 3), (Colour.GREEN, 0))
async def lights(colour, seconds):
    log = []
    while True:
        log.append(f"{colour.name}:{seconds}")
        if seconds <= 0 and colour == Colour.GREEN:
            break
        elif seconds <= 0:
            colour = Colour.GREEN
        seconds = seconds - 1 if seconds > 0 else 0
    return log, colour


@program(([[1, 2], [3, 4]],))
async def determinant(m):
    (a, b), (c, d) = m
    *_, last = m[-1]
    return a * d - b * c, last, [list(row) for row in zip(m[0], m[1])]


@program(({"items": [{"id": 1, "tags": ["a", "b"]}, {"id": 2}]},))
async def reshaping(doc):
    tags = {}
    for item in doc["items"]:
        for tag in item.get("tags", []):
            tags.setdefault(tag, [])
            tags[tag].append(item["id"])
    ids = [item["id"] for item in doc["items"]]
    return {"tags": tags, "ids": ids, "has": {i: any(i in v for v in tags.values()) for i in ids}}
