"""Functions that are kept across awaits, and the variables that they share with the code around them."""

# mypy: ignore-errors
from __future__ import annotations

import functools

from lope import gather

from .actions import Item, add, echo, fail, program


@program((3,))
async def counter(n):
    count = 0

    def up(by=1):
        nonlocal count
        count += by
        return count

    seen = []
    for i in range(n):
        seen.append(up())
        await add(i)
        seen.append(up(by=await add(i)))
    return seen, count


@program((3,))
async def late_binding(n):
    fs, gs = [], []
    for i in range(n):
        fs.append(lambda: i)
        gs.append(lambda i=i: i)
        await add(i)
    n = 10
    hs = [lambda: n]
    await add(1)
    n = 20
    return [f() for f in fs], [g() for g in gs], hs[0]()


@program((4,))
async def recursive(n):
    def fact(k):
        return 1 if k < 2 else k * fact(k - 1)

    first = fact(n)
    await add(1)
    other = fact
    fact = lambda k: -k  # noqa: E731
    await add(1)
    return first, other(3), fact(3)


@program((2,))
async def shared_by_two(n):
    box = []

    def put(x):
        box.append(x)

    def size():
        return len(box)

    both = {"put": put, "size": size}
    await add(n)
    both["put"](n)
    same = both["put"] is put
    box = [*box, 5, 6]
    await add(n)
    put(7)
    return both["size"](), box, same, put is both["put"]


@program((2,))
async def defaults_and_attributes(n):
    def hoard(x, kept=[]):
        kept.append(x)
        return list(kept)

    hoard.calls = 0
    hoard(n)
    await add(n)
    hoard.calls += 1
    await add(n)
    return hoard(n + 1), hoard.calls, hoard.__name__, hoard.__defaults__


def maker(n):
    past = []

    def step(by):
        nonlocal n
        n += by
        past.append(n)
        return past

    return step


@program((2,))
async def from_a_helper(n):
    one, two = maker(n), maker(n * 10)
    one(1)
    await add(n)
    two(1)
    past = one(5)
    await add(n)
    return past, one(1) is past, two(2)


@program((3,))
async def as_values(n):
    double = functools.partial(lambda a, b: a * b, 2)
    by = {"len": len, "neg": lambda x: -x, "item": Item("a", 1.5).__eq__}
    order = [lambda item: item.price, lambda item: item.name]
    items = [Item("b", 1.0), Item("a", 2.0)]
    await add(n)
    found = [[item.name for item in sorted(items, key=each)] for each in order]
    return double(n), by["neg"](n), by["len"]([1]), by["item"](Item("a", 1.5)), found


@program((1,), (0,))
async def unbound(n):
    def value():
        return found

    await add(n)
    if n:
        found = 5
    await add(n)
    try:
        return value(), found
    except NameError as error:
        return type(error).__name__, str(error)


@program((0,))
async def unbound_here(n):
    read = lambda: later  # noqa: E731
    await add(n)
    later = 1
    await add(n)
    del later
    await add(n)
    try:
        read()
    except NameError as error:
        return str(error)


@program((0,))
async def unbound_and_uncaught(n):
    read = lambda: later  # noqa: E731
    await add(n)
    if n:
        later = 1
    return later, read


@program((3,))
async def handlers(n):
    told = []

    def tell():
        told.append(str(problem))

    for i in range(n):
        try:
            await fail("value", f"no {i}")
        except ValueError as error:
            problem = error
            await add(i)
            tell()
    return told


@program(([3, 1, 2],))
async def decorated(xs):
    def twice(function):
        @functools.wraps(function)
        def inner(*args):
            return function(*args), function(*args)

        return inner

    @twice
    def put(x):
        log.append(x)
        return len(log)

    log = []
    for x in xs:
        put(x)
        await add(x)
    return log, put(9), put.__name__, put.__wrapped__(1)


async def each_of(function, xs):
    return [await function(x) for x in xs]


@program(([1, 2, 3],))
async def async_as_values(xs):
    total = 0

    async def put(x):
        nonlocal total
        total += await add(x)
        return total

    async def twice(x):
        return await put(x), await put(x)

    table = {"put": put, "twice": twice}
    first = await each_of(put, xs)
    await add(1)
    second = await table["twice"](10)
    third = await gather(*[table["put"](x) for x in xs[:1]])
    return first, second, third, total


@program((3,))
async def closures_in_helpers(n):
    seen = []

    async def visit(tree, depth):
        def note(text):
            seen.append(f"{depth}:{text}")

        note(await echo("in"))
        for child in tree:
            await visit(child, depth + 1)
            note(len(child))
        return note

    last = await visit([[[]], []], 0)
    await add(n)
    last("end")
    return seen


@program((2,))
async def comprehension_scopes(n):
    fs = [lambda v=v: (v, n) for v in range(2)] + [lambda: v for v in range(3)]
    n = await add(n)
    gen = [f() for f in fs]
    await add(n)
    return gen, [f() for f in fs], any((lambda q: q > n)(q) for q in range(9))


@program((5,))
async def state_machine(n):
    state, log = "idle", []

    def go(to):
        def act():
            nonlocal state
            log.append((state, to))
            state = to

        return act

    table = {("idle", 0): go("run"), ("run", 1): go("rest"), ("rest", 0): go("idle"), ("run", 0): go("run")}
    for i in range(n):
        key = (state, await echo(i % 2))
        act = table.get(key)
        if act is None:
            log.append(key)
            continue
        act()
    return state, log


@program((4,))
async def loops_of_every_kind(n):
    log = []
    for i in range(n):
        if i == 1:
            continue
        for j in range(n):
            if j > i:
                break
            log.append(await add(i * 10 + j))
        else:
            log.append("else")
    k = 0
    while True:
        k += 1
        log.append(await add(k))
        if k > 2:
            break
    while k:
        k -= await add(0)
    else:
        log.append("over")
    for i in range(2):
        while await add(k) < 3:
            k += 1
        for _ in range(0):
            await add(1)
        log.append(k)
        try:
            for i in range(3):
                await fail("key", "x") if i else await add(i)
        except KeyError:
            log.append(i)
    return log


@program((2,))
async def loops_that_return(n):
    for i in range(3):
        for j in range(3):
            if await add(j) == n:
                return i, j
    return None


@program(({"a": 1, "b": 2},))
async def loops_over_what_changes(d):
    xs, log = [1, 2], []
    for x in xs:
        log.append(await add(x))
        if len(xs) < 4:
            xs.append(x + 10)
    try:
        for key in d:
            await add(1)
            d[key + "x"] = 1
    except RuntimeError as error:
        log.append(str(error))
    return log, xs, d


async def stepper(n):
    async def step(by):
        nonlocal n
        n += await add(by)
        return n

    return step


@program((2,))
async def function_of_a_function_that_has_returned(n):
    """Its variables live as long as it does, each maker's own."""
    steps = [await stepper(n) for _ in range(2)]
    await add(1)
    found = [await steps[0](1), await steps[0](2), await steps[1](1)]

    async def outer(k):
        async def middle(v):
            async def low(w):
                nonlocal k
                k += w + await add(v)
                return k

            return low

        return middle

    low = await (await outer(n))(3)
    return found, await low(1), await low(2), await (await (await outer(5))(1))(1)


@program((2,))
async def function_beside_what_cannot_be_kept(n):
    """A variable that no await keeps does not take the functions of its frame with it."""
    lines = (each for each in "ab")

    async def step(by):
        return n + await add(by)

    found = [next(lines), await step(1)]
    return found, await step(2)
