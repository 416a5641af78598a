"""Branches, truth and comparisons."""

from .actions import add, echo, maybe, program


@program((5,), (0,), (-5,))
async def sign(x):
    if x > 0:
        return "positive"
    elif x < 0:
        return "negative"
    else:
        return "zero"


@program((1,), (2,), (3,), (4,))
async def without_else(x):
    found = "none"
    if x == 1:
        found = "one"
    elif x == 2:
        found = "two"
    elif x == 3:
        found = "three"
    return found


@program((0,), (1,), ("",), ("a",), ([],), ([0],), ({},), (None,), (0.0,), (False,), ((),), (set(),))
async def truth(value):
    return "true" if value else "false", not value, bool(value)


@program((1, 2), (0, 2), ("", []), (None, 0), ([], "x"))
async def and_or(a, b):
    return a and b, a or b, a and b or "neither", not a and not b


@program((1, 5, 10), (5, 1, 10), (1, 1, 1), (1, 10, 5))
async def chained(a, b, c):
    return a < b < c, a <= b <= c, a < b > c, a == b != c, 0 < a


@program((3,), (12,))
async def ternary(x):
    kind = "small" if x < 5 else "medium" if x < 10 else "large"
    return kind, (x if x else -1)


@program((2,), (3,))
async def await_in_condition(x):
    if await add(x) > 3:
        return "big"
    return "small"


@program((1,), (0,))
async def await_in_and(x):
    a = x and await add(x, 5)
    b = x or await add(x, 7)
    return a, b, (x and await echo("x") and await echo("y"))


@program((1,), (5,))
async def await_in_ternary(x):
    return await add(x) if x > 2 else await add(x, 100)


@program((1, 2), (5, 2))
async def await_in_chain(a, b):
    return a < await echo(b) < await echo(b + 1)


@program(([1, 2], 1), ("abc", "b"), ({"k": 1}, "k"), ({1, 2}, 3), ((1,), 1), ([1], "x"))
async def membership(where, what):
    return what in where, what not in where


@program((5, 1),)
async def membership_of_int(where, what):
    return what in where


@program((None,), (0,), ("",))
async def is_none(x):
    if x is None:
        return "none"
    return x is not None, x is True


@program((1, 1.0), (1, True), ("1", 1), ([1, 2], [1, 2]), ((1,), [1]), ({"a": 1}, {"a": 1.0}), (None, 0))
async def equality(a, b):
    return a == b, a != b


@program((1, "a"), ([1], (1,)), (None, 1), ({}, {}))
async def unordered(a, b):
    return a < b


@program(([1, 2], [1, 3]), ("a", "b"), ((1, "x"), (1, "y")), ({1}, {1, 2}))
async def ordered(a, b):
    return a < b, a >= b, max(1, 2) > min(3, 4)


@program((4,), (7,))
async def nested(x):
    if x > 3:
        if x % 2:
            label = "odd"
        else:
            label = "even"
        label += "!"
    else:
        label = "small"
    return label


@program((2,), (3,))
async def effects_once(x):
    log = []
    if x > 2 and log.append("seen") is None:
        log.append("then")
    return log


@program((0, 0), (0, 3), (2, 0), (2, 3))
async def mixed(a, b):
    if not a and not b:
        return "none"
    if (a or b) and not (a and b):
        return "one"
    return "both"


@program((1,), (2,))
async def fails_in_a_branch(x):
    if x == 1:
        return await maybe(x)
    return await maybe(x)


@program((1, 0),)
async def not_evaluated(a, b):
    return a or a / b, (b and a / b), a if b == 0 else a / b
