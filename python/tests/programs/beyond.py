"""What the law's own expressions do not have: it runs in CPython, and means the same."""

# mypy: ignore-errors
import asyncio
import random
import time
import uuid

from lope import gather, sleep
from .actions import program, Colour, Item, add, double, echo



TABLE = {"a": 1}
LIST = [1, 2]


@program((3,))
async def nonlocal_statement(x):
    count = 0

    def inner():
        nonlocal count
        count = x

    inner()
    return count


@program(({"a": 1, "b": 2},), ({},))
async def del_item(d):
    del d["a"]


@program((1,))
async def del_name(x):
    del x


@program(([1, 2, 3],))
async def del_slice(xs):
    del xs[1:]
    return xs


@program()
async def import_inside():
    import json

    return json.dumps({})


@program()
async def import_from_inside():
    from json import dumps

    return dumps({})


@program((1,), ("x",))
async def match_statement(x):
    match x:
        case 1:
            return "one"
        case _:
            return "other"


@program((3,))
async def lambda_value(x):
    f = lambda y: y + x
    return f(1)


@program((3,))
async def lambda_called(x):
    return (lambda y: y + 1)(x)


@program(([1, 2],))
async def lambda_in_map(xs):
    return list(map(lambda x: x + 1, xs))


@program(([0, 1, 2],))
async def filtered(xs):
    return list(filter(None, xs))


@program((1,))
async def printing(x):
    print(x)
    return x


@program(([0, 2],), ([],))
async def next_item(xs):
    return next(x for x in xs if x)


@program(("1 + 2",), ("1 / 0",))
async def evaluating(text):
    return eval(text)


@program(([1, 2, 1],))
async def frozen_set(xs):
    return frozenset(xs)


@program((1,))
async def unknown_function(x):
    return asyncio.iscoroutine(x)


@program((1,))
async def unknown_method(x):
    return x.frobnicate()


@program((3,))
async def function_as_value(x):
    f = add
    return await f(x)


@program(([1],))
async def builtin_as_value(xs):
    f = len
    return f(xs)


@program(([1, 2],))
async def generator_kept(xs):
    g = (x for x in xs)
    return list(g)


@program(([1, 2],))
async def yielding(xs):
    def inner():
        for x in xs:
            yield x

    return list(inner())


@program(([1, 2],))
async def yielding_from(xs):
    def inner():
        yield from xs

    return [x for x in inner()]


@program(([1, 2],))
async def lambda_returned(xs):
    for x in xs:
        last = x
    return [(last), (await echo(1))] if xs else (lambda: 0)


@program(([1], [1]))
async def identity_of_values(a, b):
    return a is b


@program((0,))
async def identity_of_numbers(a):
    return a is -a


@program()
async def big_number():
    return 10000000000000000000000


@program(("ä",))
async def ascii_conversion(x):
    return f"{x!a}"


@program()
async def bare_raise():
    raise


@program((1,))
async def used_after_its_handler(x):
    try:
        return await add(x)
    except ValueError as error:
        x = 0
    return str(error)


@program((1,))
async def catching_numbers(x):
    try:
        return await add(x)
    except Colour:
        return None


@program((1,))
async def isinstance_of_unknown(x):
    return isinstance(x, random.Random)


@program()
async def wrong_dataclass():
    return Item("a")


@program(([1],))
async def too_many_for_builtin(x):
    return len(x, 1)


@program((1,))
async def keyword_for_builtin(x):
    return abs(x=x)


@program(("axb",))
async def keyword_for_method(s):
    return s.find(sub="x")


@program(([2],))
async def key_by_name(xs):
    return sorted(xs, key=add)


@program(([[1, 2], [3]],))
async def key_that_awaits(xs):
    return max(xs, key=lambda x: x.pop())


@program(([1, 2], True), ([1], False))
async def gather_flag(xs, flag):
    return await gather(*[add(x) for x in xs], return_exceptions=flag)


@program(([1, 2],))
async def gather_with_awaited_arguments(xs):
    return await gather(*[add(await double(x)) for x in xs])


@program(([1, 2],))
async def walrus_in_comprehension(xs):
    return [y for x in xs if (y := x + 1)]


@program((1, 2))
async def star_args(*values):
    return values


@program()
async def double_star_args(**options):
    return options


@program()
async def enum_of_two():
    return Colour("red", 1)


@program(([1, 3, 2],))
async def spread_to_builtin(xs):
    return max(*xs)


@program((3,))
async def decorated_inside(x):
    @staticmethod
    def inner(y):
        return y

    return inner(x)


@program(([], 3))
async def call_of_a_call(fs, x):
    return fs[0](x)
