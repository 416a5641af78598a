"""Names inside expressions that await: each scope has its own, and what is computed first is computed first."""

# mypy: ignore-errors
from .actions import add, echo, program


@program()
async def lambda_with_the_name_of_a_comprehension():
    return [sorted(await echo([x, x + 5, x + 2]), key=lambda x: -x) for x in range(3)]


@program()
async def lambdas_own_everything():
    return [
        ((lambda x: x + 1)(await add(x)), (lambda *x, **k: (x, k))(x, a=x), (lambda y=x, *, x=x: (y, x))(), (lambda: (x := 5))()) for x in range(3)
    ]


@program()
async def comprehensions_in_comprehensions():
    return (
        [[await add(x) for x in range(2)] + [x, await add(x)] for x in range(3)],
        [(await add(x), [x for x in "ab"], {x: x for x in [x]}, x) for x in range(2)],
        [(await add(x), sum(x for x in range(x)), (lambda ys: [x for x in ys])("cd")) for x in range(3)],
        [x for y in range(3) for x in [await add(y)] if x for y in [x]],
    )


@program()
async def awaits_what_it_goes_over_first():
    made = [lambda: i for i in await echo([1, 2])]
    found = sum(x for x in [await add(1)]), all(x for x in await echo([1, 0]))
    lazy = (x * 10 for x in [await add(1), await add(2)])
    return found, [each() for each in made], list(lazy)


@program()
async def awaits_the_key():
    return {await add(x): await add(x, 10) for x in range(3)}


@program()
async def keys_come_before_values():
    log = []

    def note(x):
        log.append(("key", x))
        return x

    async def value(x):
        log.append(("value", x))
        return await add(x)

    return {note(x): await value(x) for x in range(2)}, log


@program(("set",))
async def a_set_whatever_is_called_so(set):
    return sorted({await add(x) for x in range(3)}), set


def shown(*args, **kwargs):
    return args, kwargs


class Noted:
    """Notes when it is unpacked or formatted."""

    def __init__(self, log, name):
        self.log = log
        self.name = name

    def __iter__(self):
        self.log.append(("iter", self.name))
        return iter([self.name])

    def keys(self):
        self.log.append(("keys", self.name))
        return [self.name]

    def __getitem__(self, key):
        return 1

    def __format__(self, spec):
        self.log.append(("format", self.name))
        return spec

    def __repr__(self):
        return self.name


@program()
async def unpacked_before_an_await():
    d, xs, log = {"a": 1}, [1], []

    async def change():
        await add(1)
        d["a"] += 1
        d["z"] = 1
        xs.append(2)
        return len(xs)

    log.append({**d, "k": await change()})
    log.append({"b": await change(), **d, "k": await change(), **d})
    log.append(shown(**d, k=await change()))
    log.append(shown(0, *xs, **d, k=await change()))
    log.append(shown(*xs, k=await change()))
    log.append(shown(*xs, await change(), *xs, k=await change(), **d))
    log.append(shown(*xs, *xs, k=await change()))
    log.append(([*xs, await change()], (*xs, await change(), *xs), {*xs, await change(), *xs, 0}))
    log.append([await change(), *xs, 5, await change(), xs[0], *xs])
    return log


@program()
async def noted_before_an_await():
    log = []

    async def change(x):
        log.append(await add(x))
        return x

    a, b = Noted(log, "a"), Noted(log, "b")
    found = [
        sorted({*a, "c", str(await change(1)), *b}), {"a": a, await change(2): b}, {**a, 3: await change(3), **b}, shown(*a, await change(4), *b),
        shown(*a, k=await change(5)), shown(**a, k=await change(6), **b), [*a, await change(7), *b], f"{a:x}{await change(8)}{b:y}",
    ]  # fmt: skip
    return repr(found), log


@program()
async def badly_unpacked_before_an_await():
    log = []

    async def change(x):
        log.append(await add(x))
        return x

    try:
        shown(**5, k=await change(1))
    except TypeError as error:
        log.append(str(error))
    try:
        shown(**{"a": 1}, **{"a": 2}, k=await change(2))
    except TypeError as error:
        log.append(str(error))
    try:
        shown(a=1, **{"a": 2}, k=await change(3))
    except TypeError as error:
        log.append(str(error))
    try:
        shown(**{"k": 1}, k=await change(4))
    except TypeError as error:
        log.append(str(error))
    try:
        shown(*5, k=await change(5))
    except TypeError as error:
        log.append(str(error))
    try:
        shown(0, *5, k=await change(6))
    except TypeError as error:
        log.append(str(error))
    try:
        log.append([*5, await change(7)])
    except TypeError as error:
        log.append(str(error))
    try:
        log.append({*[[]], await change(8)})
    except TypeError as error:
        log.append(str(error))
    try:
        log.append({**5, 1: await change(9)})
    except TypeError as error:
        log.append(str(error))
    return log


@program()
async def awaits_in_heads_of_functions():
    log = []

    def plain(x=await add(1), *, y=await add(2)):
        return x, y

    async def later(x=await add(3)):
        return await add(x)

    small = lambda x, y=await add(4): (x, y)
    for i in range(2):
        log.append((lambda x=await add(i): x)())
    return plain(), await later(), small(1), log


@program()
async def awaits_in_del_and_after_from():
    xs, d, log = [1, 2, 3, 4, 5], {"a": {2: 1, 3: 1}}, []
    del xs[await add(0)], xs[await add(0) : await add(1)], d["a"][await add(1)]
    try:
        raise KeyError(await add(1)) from await echo(ValueError("cause"))
    except KeyError as error:
        log.append((repr(error), repr(error.__cause__)))
    return xs, d, log
