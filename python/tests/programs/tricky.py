"""Corners: the order of evaluation, scopes, shadowing, control flow through finally."""

import asyncio

from lope import gather

from .actions import AppError, Item, Point, add, describe, double, echo, fail, maybe, program, total

LIMIT = 3
NAMES = ["a", "b"]
TABLE = {"x": {"y": [1, 2]}}


def help_default(values=(1, 2), *, extra={"k": 1}):
    return list(values), extra["k"]


def help_local_shadow(list):
    return [x for x in list]


def help_rebind(values):
    values = list(values)
    values.append(9)
    return values


def help_two_returns(x):
    try:
        if x:
            return "yes"
    finally:
        x = 5
    return "no"


def help_nested_loops(n):
    for i in range(n):
        for j in range(n):
            if i * j > 3:
                return i, j
    return None


@program((3,))
async def order_of_evaluation(x):
    log = []
    found = [x, await add(x), x + 1]
    pair = (log.append("first"), await echo("second"), log.append("third"))
    d = {await echo("k"): await echo("v"), "z": log.append("fourth")}
    return found, pair, d, log


@program((1,))
async def variable_before_change(x):
    y = x + await add(x)
    values = [x]
    z = len(values) + (values.append(2) or 10) + len(values)
    return y, z, values


@program((2,))
async def operand_before_rebinding(x):
    total_ = x + (x := x * 10) + x
    return total_, x


@program((4,))
async def short_circuit_with_changes(n):
    log = []
    a = n > 10 and log.append("no")
    b = n > 1 and (log.append("yes") or n)
    c = log.append("x") if n == 4 else log.append("y")
    return a, b, c, log


@program()
async def shadowed_builtins():
    list = [3, 1]
    len = 5
    sorted = "s"
    return list, len, sorted


@program(([1, 2],))
async def shadowed_in_helper(values):
    return help_local_shadow(values)


@program()
async def module_constants():
    return LIMIT + 1, NAMES[0], [n.upper() for n in NAMES], TABLE["x"]["y"][-1], "a" in NAMES, len(TABLE)


@program()
async def copies_of_constants():
    names = list(NAMES)
    names.append("c")
    return names, NAMES


@program()
async def helper_defaults():
    return help_default(), help_default([5]), help_default(extra={"k": 2})


@program(([1],))
async def helper_rebinds(values):
    return help_rebind(values), values


@program((True,), (False,))
async def helper_finally(x):
    return help_two_returns(x)


@program((2,), (5,))
async def helper_loops(n):
    return help_nested_loops(n)


@program()
async def comprehension_scopes():
    x = "outer"
    squares = [x * x for x in range(3)]
    pairs = {x: [y for y in range(x)] for x in range(3)}
    return x, squares, pairs, [[x for x in range(y)] for y in range(3)]


@program()
async def loop_variable_reused():
    found = []
    for i in range(2):
        for i in "ab":
            found.append(i)
        found.append(i)
    return found, i


@program((3,))
async def while_with_complex_exit(n):
    log = []
    while True:
        try:
            n -= 1
            if n == 1:
                continue
            if n < 0:
                break
            log.append(n)
        finally:
            log.append(f"f{n}")
    return log


@program()
async def finally_overrides_break():
    for i in range(3):
        try:
            break
        finally:
            if i < 2:
                continue
    return i


@program((0,), (1,), (2,), (3,))
async def finally_paths(x):
    log = []
    try:
        try:
            if x == 0:
                raise ValueError("v")
            if x == 1:
                return list(log), "early"
            if x == 2:
                await fail("key", "k")
            log.append("body")
        except ValueError:
            log.append("value")
        finally:
            log.append("inner")
    except KeyError as error:
        log.append(error.args)
    finally:
        log.append("outer")
    return log


@program()
async def exception_in_else_with_finally():
    log = []
    try:
        try:
            pass
        except ValueError:
            log.append("wrong")
        else:
            raise ValueError("else")
        finally:
            log.append("finally")
    except ValueError as error:
        log.append(str(error))
    return log


@program()
async def exception_inside_handler_keeps_finally():
    log = []
    try:
        try:
            raise ValueError("a")
        except ValueError as error:
            log.append(str(error))
            raise KeyError("b")
        finally:
            log.append("f")
    except KeyError as error:
        log.append(error.args[0])
    return log


@program()
async def same_handler_name():
    log = []
    for kind in ("value", "key"):
        try:
            await fail(kind, kind)
        except ValueError as e:
            log.append(("v", str(e)))
        except KeyError as e:
            log.append(("k", e.args))
    return log


@program((2,))
async def conditional_expression_chain(x):
    return "a" if x == 1 else await describe("b") if x == 2 else await describe("c")


@program(([3, 1, 2],))
async def sorted_stability(values):
    rows = [(v % 2, v) for v in values] + [(1, 0)]
    return sorted(rows, key=lambda r: r[0]), sorted(rows, key=lambda r: r[0], reverse=True)


@program()
async def unpack_in_calls():
    args = [1, 2]
    options = {"factor": 3}
    return await total(*args, *[5], **options), await total(*args, factor=2), max([*args, 7])


@program()
async def string_iteration():
    found = {}
    for index, letter in enumerate("abca"):
        found.setdefault(letter, [])
        found[letter].append(index)
    return found, [c for c in "xyz"], "".join(sorted("hello")), list("ab")


@program()
async def dict_order():
    d = {"b": 1, "a": 2}
    d["c"] = 3
    d.pop("b")
    d["b"] = 4
    d["a"] = 9
    return list(d), list(d.values()), d, {**d, "a": 0}


@program()
async def number_keys():
    d = {1: "int", 1.0: "float", True: "bool"}
    d[2] = "two"
    d["2"] = "text"
    return d, d[1], d[2], 2.0 in d


@program()
async def booleans_are_numbers():
    return True + True, sum([True, False, True]), [10, 20][True], True == 1, str(True), f"{True:d}", max(True, 0)


@program()
async def negative_steps():
    xs = [0, 1, 2, 3, 4]
    return xs[::-2], xs[3:0:-1], xs[-1:-3:-1], xs[10:2:-1], "abc"[::-1], xs[-100:2], xs[2:100]


@program((5,))
async def tuples_of_awaits(n):
    a, (b, c) = await add(n), (await double(n), await echo([n]))
    return a, b, c


@program()
async def long_strings():
    text = "line one\nline two\ttab \\ 'single' \"double\" \u00e9 \U0001f600 \x00"
    return text, repr(text), len(text), text.upper(), f"{text!r:.10}"


@program()
async def float_text():
    return [str(x) for x in [1e16, 1e15, 1.0, 0.1 + 0.2, 1e-5, 123456789.123, -0.0, 1e100, 2.5e-10]], repr(1e22), f"{1e10}"


@program()
async def int_division_signs():
    return [(-7 // 2, -7 % 2), (7 // -2, 7 % -2), (-7.5 // 2, -7.5 % 2), divmod(-7, -2), -(7 // 2), -7 // 2 * 2]


@program()
async def comparisons_of_kinds():
    return [1 == True, "1" == 1, None == 0, [] == (), [1, 2] < [1, 2, 0], "a" < "B", (1, "a") < (1, "b"), {1} < {1, 2}, 0.1 + 0.2 == 0.3]


@program((10,))
async def mutual_state(n):
    evens, odds = [], []
    for i in range(n):
        (evens if i % 2 == 0 else odds)
        if i % 2 == 0:
            evens.append(i)
        else:
            odds.append(i)
    return evens, odds


@program()
async def nested_functions_and_loops():
    def inner_scale(x):
        return x * factor

    found = []
    for factor in (1, 10):
        found.append(inner_scale(2))
    return found


@program()
async def equal_objects_in_lists():
    items = [Item("a", 1.0), Item("b", 2.0)]
    return Item("a", 1.0) in items, items.index(Item("b", 2.0)), items.count(Item("a", 1.0)), Point(1) != Point(2)


@program((3,))
async def gather_inside_conditions(n):
    if n > 2 and sum(await gather(*[add(i) for i in range(n)])) > 3:
        results = [len(await gather(add(1), add(2))) for _ in range(2)]
    else:
        results = []
    return results


@program(([1, 2, 3],))
async def gather_then_loop(values):
    total_ = 0
    for value, result in zip(values, await gather(*[double(v) for v in values])):
        total_ += value * result
    return total_


@program()
async def task_in_a_branch():
    task = asyncio.create_task(add(1))
    if await echo(True):
        found = await task
    else:
        found = None
    return found


@program((3,), (4,))
async def task_awaited_twice(x):
    task = asyncio.create_task(maybe(x))
    try:
        first = await task
    except ValueError:
        first = "failed"
    try:
        second = await task
    except ValueError:
        second = "failed again"
    return first, second


@program()
async def raise_with_formatting():
    code = 5
    raise AppError(f"code {code:03d}: {'x' * 3}")


@program(({"a": [1, 2]},))
async def deep_get(d):
    return d.get("a", [])[0], d.get("b", {}).get("c"), (d.get("z") or [7])[0], d["a"][-1]


@program()
async def empty_things():
    return [], {}, set(), (), "", [[]], {"a": {}}, list(), dict(), tuple(), str(), int(), bool(), float()


@program((7,))
async def percent_and_braces(n):
    return "100%", "{}", f"{n}%", "%d%%" % n, "{{}}".format(), f"{{}}{n}"


@program(([5, None, 0, "x"],))
async def none_handling(values):
    return [v or "default" for v in values], [v is None for v in values], [v if v is not None else -1 for v in values]


class HalfManager:
    def __enter__(self):
        return self


class AsyncManager:
    async def __aenter__(self):
        return self

    async def __aexit__(self, *_):
        return False


MANAGERS = {"half": HalfManager, "async": AsyncManager, "number": int}


@program(("half",), ("async",), ("number",))
async def entering_what_cannot_be_entered(kind):
    manager = MANAGERS[kind]()
    with manager:
        return await add(1)


@program(("half",), ("number",))
async def entering_what_cannot_be_entered_with_awaits(kind):
    manager = MANAGERS[kind]()
    async with manager:
        return await add(1)


@program((1,), (None,))
async def zipping_what_cannot_be_gone_over(x):
    for each, other in zip([1, 2], x):
        await add(each)
    return other
