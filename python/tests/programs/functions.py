"""Helpers, nested functions, recursion, arguments of every kind, other workflows."""

from lope import gather, workflow

from .actions import AppError, Item, Point, add, describe, double, echo, maybe, program, total


def help_square(x):
    return x * x


def help_classify(n, limit=10, *, strict=False):
    if n > limit or (strict and n == limit):
        return "high"
    return "low"


def help_recurse(n):
    return 1 if n <= 1 else n * help_recurse(n - 1)


def help_rec_even(n):
    return True if n == 0 else help_rec_odd(n - 1)


def help_rec_odd(n):
    return False if n == 0 else help_rec_even(n - 1)


async def help_twice(x):
    first = await add(x)
    return await add(first)


async def help_recount(n):
    if n == 0:
        return []
    rest = await help_recount(n - 1)
    return [await double(n), *rest]


def help_nothing(x):
    x += 1


def help_spread(first, *rest, **more):
    return first, rest, more


def help_fail(x):
    if x > 2:
        raise AppError(f"{x} is too much")
    return x


def help_find(values, wanted):
    for index, value in enumerate(values):
        if value == wanted:
            return index
    return -1


def help_flatten(values):
    found = []
    for value in values:
        if isinstance(value, list):
            found.extend(help_flatten(value))
        else:
            found.append(value)
    return found


async def help_safe(x):
    try:
        return await maybe(x)
    except ValueError:
        return None
    finally:
        await echo("done")


@workflow(name="programs.child")
async def child(x: int, factor: int = 2):
    return (await add(x)) * factor


@workflow(name="programs.child_default")
async def child_default(name: str = "nobody", *, item: Item = Item("none", 0.0)):
    return f"{name}:{item.name}"


@workflow(name="programs.child_failing")
async def child_failing(kind: str):
    raise AppError(f"child says {kind}")


@program((4,), (-3,))
async def plain(x):
    return help_square(x) + help_square(x + 1)


@program((5,), (10,), (11,))
async def defaults(n):
    return help_classify(n), help_classify(n, 3), help_classify(n, strict=True), help_classify(limit=n, n=10)


@program((5,), (0,))
async def recursion(n):
    return help_recurse(n)


@program((7,), (4,))
async def mutual_recursion(n):
    return help_rec_even(n), help_rec_odd(n)


@program((1,))
async def async_helper(x):
    return await help_twice(x), await help_twice(await help_twice(x))


@program((3,))
async def async_recursion(n):
    return await help_recount(n)


@program((1,))
async def returns_nothing(x):
    result = help_nothing(x)
    return result, x


@program(([1, 2, 3],), ([1],))
async def spread_arguments(values):
    return help_spread(*values), help_spread(0, *values, 9), help_spread(*values, **{"k": 1}), help_spread(1, a=2, b=3)


@program(([],), ([1, 2, 3],))
async def spread_wrong(values):
    return help_classify(*values)


@program(({"limit": 3},), ({"wrong": 1},), ({"n": 2},))
async def spread_keywords(options):
    return help_classify(5, **options)


@program(({},), ({"strict": True},))
async def spread_keywords_missing(options):
    return help_classify(**options)


@program((1,), (5,))
async def raising_helper(x):
    return help_fail(x)


@program((5,))
async def caught_around_helper(x):
    try:
        help_fail(x)
    except AppError as error:
        return str(error)


@program(([4, 5], 5), ([], 1))
async def early_return(values, wanted):
    return help_find(values, wanted)


@program(([1, [2, [3, []]], 4],))
async def recursive_lists(values):
    return help_flatten(values)


@program(([2, 3, 4],))
async def helpers_at_once(values):
    return await gather(*[help_safe(v) for v in values]), await gather(help_twice(1), help_safe(3))


@program((2,), (3,))
async def helper_in_conditions(x):
    if help_square(x) > 5 and help_square(x) < 10:
        return "middle", help_classify(help_square(x))
    return "other" if help_square(x) == 4 else "none"


@program(([1, 2, 3],))
async def helper_in_comprehension(values):
    return [help_square(v) for v in values if help_square(v) > 1], {v: help_square(v) for v in values}


@program((3,))
async def nested_function(n):
    def inner(x):
        return x * 10

    return inner(n) + inner(1)


@program((3,))
async def nested_with_capture(n):
    offset = 100

    def inner_shift(x, scale=2):
        return x * scale + offset + n

    offset = 200
    return inner_shift(1), inner_shift(1, scale=5), offset


@program(([1, 2],))
async def nested_async(values):
    async def inner_work(v):
        doubled = await double(v)
        return doubled + len(values)

    return await gather(*[inner_work(v) for v in values]), await inner_work(10)


@program((5,))
async def nested_recursion(n):
    def inner_sum(k):
        return 0 if k == 0 else k + inner_sum(k - 1)

    return inner_sum(n)


@program((2,))
async def nested_calls_nested(n):
    def inner_one(x):
        return x + 1

    def inner_two(x):
        return inner_one(x) * 2

    return inner_two(n)


@program((3,))
async def spread_to_actions(n):
    numbers = list(range(n))
    options = {"factor": 10}
    return await total(*numbers), await total(1, *numbers, **options), await describe(**{"name": "x", "loud": True})


@program(("ann",))
async def keyword_only(name):
    return await describe(name, loud=True), await describe(name=name), await add(b=5, a=1)


@program((4,))
async def other_workflow(x):
    return await child(x), await child(x, factor=10), await child_default()


@program(("bob",))
async def other_workflow_values(name):
    return await child_default(name, item=Item("pen", 2.0)), await child_default(item=Item("cap", 1.0))


@program(("no",))
async def other_workflow_fails(kind):
    try:
        await child_failing(kind)
    except AppError as error:
        return str(error)


@program(("no",))
async def other_workflow_fails_through(kind):
    await child_failing(kind)


@program(([1, 2],))
async def other_workflows_at_once(values):
    return await gather(*[child(v) for v in values])


@program((3,), ())
async def default_of_the_workflow(x=7, *, label="n"):
    return x, label


@program((1, 2))
async def annotated_workflow(a: int, b: int = 5, *, c: Point = Point(1, 2)) -> int:
    return a + b + c.x


@program((10,))
async def power_set(n):
    values = [i for i in range(n) if i % 4 == 1]
    subsets = [[]]
    for value in values:
        subsets = subsets + [[*subset, value] for subset in subsets]
    return sorted(subsets, key=lambda s: (len(s), s))


@program(([[3, 1], [2]],))
async def helper_answers_are_fresh(rows):
    flat = help_flatten(rows)
    flat.append(9)
    flat.sort()
    return flat, rows


@program()
async def stop_iteration_leaves_a_function():
    log = []

    async def first(xs):
        await add(1)
        return next(x for x in xs if x > 5)

    async def tidy(xs):
        try:
            return await first(xs) if len(xs) > 1 else next(iter(xs))
        finally:
            log.append(await add(2))

    async def mine(xs):
        try:
            return next(iter(xs))
        except StopIteration:
            return await add(3)

    async def again(xs):
        try:
            await add(1)
            next(iter(xs))
        except StopIteration:
            log.append("again")
            raise

    log.append(await mine([]))
    for each in (first, tidy, again):
        try:
            await each([])
        except RuntimeError as error:
            log.append((str(error), repr(error.__cause__), error.__context__ is error.__cause__))
        except StopIteration:
            log.append("StopIteration")
    found = await gather(first([]), tidy([]), tidy([1, 2]), return_exceptions=True)
    return log, [repr(each) for each in found]


@program()
async def stop_iteration_that_nobody_catches():
    async def first(xs):
        await add(1)
        return next(iter(xs))

    return await first([])
