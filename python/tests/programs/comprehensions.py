"""Comprehensions and generator arguments."""

from .actions import Item, Point, add, double, echo, maybe, program


@program(([1, 2, 3],), ([],), ((4,),), ("ab",))
async def lists(values):
    return [value * 2 for value in values]


@program(([1, 2, 3, 4, 5, 6],))
async def conditions(values):
    return [v for v in values if v % 2 == 0], [v for v in values if v > 1 if v < 5]


@program((3,))
async def nesting(n):
    return [(i, j) for i in range(n) for j in range(i)]


@program(([[1, 2], [3], []],))
async def flattening(rows):
    return [x for row in rows for x in row if x != 2], [[x + 1 for x in row] for row in rows]


@program(({"a": 1, "b": 2},))
async def dicts(d):
    return {v: k for k, v in d.items()}, {k: v * 2 for k, v in d.items() if v > 1}


@program((["x", "yy", "zz"],))
async def sets(words):
    return {len(w) for w in words}, {w[0] for w in words if len(w) == 2}


@program(([(1, "a"), (2, "b")],))
async def unpacking(pairs):
    return [f"{n}{c}" for n, c in pairs], {c: n for n, c in pairs}


@program(([[1, 2, 3], [4, 5]],))
async def starred(rows):
    return [tail for head, *tail in rows]


@program(([1, 2, 3],), ([],), ([0, 0],))
async def generators(values):
    return (
        sum(v * v for v in values), any(v > 2 for v in values), all(v > 0 for v in values),
        max((v for v in values), default=-1), min((-v for v in values), default=9),
        sorted(v % 2 for v in values), list(v + 1 for v in values), tuple(v for v in values if v),
        set(v // 2 for v in values), dict((v, v) for v in values), ",".join(str(v) for v in values),
    )  # fmt: skip


@program(([1, 0, 2],))
async def short_circuit(values):
    return any(v == 1 or 1 / v > 5 for v in values)


@program(([0, 1],))
async def short_circuit_all(values):
    return all(v > 0 and 1 / v for v in values)


@program(([1, 0],))
async def failing(values):
    return [1 / v for v in values]


@program(([1, 2, 3],))
async def awaits(values):
    return [await double(v) for v in values]


@program(([1, 2, 3, 4],))
async def awaits_with_conditions(values):
    return [await add(v, 10) for v in values if v > 1], {v: await double(v) for v in values if v != 2}


@program(([2, 3],), ([2, 4],))
async def awaits_failing(values):
    return [await maybe(v) for v in values]


@program((2,))
async def awaits_nested(n):
    return [await add(i, j * 10) for i in range(n) for j in range(n)]


@program(([1, 2, 3],))
async def await_in_the_condition(values):
    return [v for v in values if await double(v) > 2]


@program(([3],))
async def await_in_the_iterable(values):
    return [v + 1 for v in await echo(values)]


@program(([1, 2],))
async def set_of_awaits(values):
    return {await double(v) for v in values}


@program((5,))
async def own_variables(x):
    values = [x for x in range(3)]
    return x, values


@program((2,))
async def outer_variables(k):
    offset = 10
    return [i * k + offset for i in range(3)], {i: [j for j in range(i)] for i in range(k + 1)}


@program(([1, 2, 3],))
async def inside_each_other(values):
    return [sum(x for x in values if x <= v) for v in values], sum(len([y for y in values if y < x]) for x in values)


@program()
async def of_objects():
    items = [Item("a", 3.0), Item("b", 1.0, ["t"])]
    points = {p: p.x for p in [Point(1), Point(2, 3)]}
    return [i.name for i in items if i.tags], sum(i.price for i in items), points


@program((["b", "a"], [2, 1]))
async def over_functions(names, numbers):
    return (
        [f"{i}:{n}" for i, n in enumerate(names)], {n: k for n, k in zip(names, numbers)},
        [n for n in reversed(names)], [n for n in sorted(names)], [i for i in range(0, 6, 2)],
    )  # fmt: skip


@program(({"x": {"y": [1, 2]}},))
async def deep(data):
    return {k: {i: [z + 1 for z in zs] for i, zs in inner.items()} for k, inner in data.items()}


@program(([5, 3, 8],))
async def ternary_inside(values):
    return ["big" if v > 4 else "small" for v in values], [v if v % 2 else -v for v in values]


@program(([1, "a", None, 2.5],))
async def types_inside(values):
    return [v for v in values if isinstance(v, (int, float))], [type(v).__name__ for v in values]
