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
        [[await add(x) for x in range(2)] + [x] for x in range(3)],
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
