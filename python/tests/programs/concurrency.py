"""gather, tasks, sleeps, signals, timeouts, coroutines as values."""

import asyncio
from asyncio import create_task, wait_for

from lope import gather, sleep, wait_signal

from .actions import AppError, add, describe, double, echo, fail, maybe, program, total


@program((1, 2))
async def fixed(a, b):
    return await gather(add(a), add(b, 10), echo("x"))


@program()
async def of_nothing():
    return await gather()


@program((3,))
async def unpacked(n):
    a, b = await gather(add(n), double(n))
    return a + b


@program(([1, 2, 3],), ([],))
async def starred(values):
    return await gather(*[add(v, 100) for v in values])


@program(([1, 2, 3, 4],))
async def starred_with_condition(values):
    return await asyncio.gather(*[double(v) for v in values if v % 2 == 0])


@program(([1, 2],))
async def starred_generator(values):
    return await gather(*(add(v, b=v) for v in values))


@program(([1, 2], 5))
async def mixed(values, x):
    return await gather(echo("first"), *[add(v) for v in values], double(x), *[echo(v) for v in values])


@program((2,))
async def nested_loops(n):
    return await gather(*[add(i, j) for i in range(n) for j in range(n)])


@program(([2, 3, 4],), ([2, 4],))
async def failing(values):
    return await gather(*[maybe(v) for v in values])


@program(([2, 3, 4, 5],))
async def with_exceptions(values):
    results = await gather(*[maybe(v) for v in values], return_exceptions=True)
    return [r if isinstance(r, int) else str(r) for r in results]


@program(([2, 3],))
async def exceptions_as_values(values):
    results = await gather(maybe(values[0]), maybe(values[1]), fail("app", "x"), return_exceptions=True)
    return results, [isinstance(r, Exception) for r in results], isinstance(results[2], AppError)


@program((True,), (False,))
async def caught_around(flag):
    try:
        await gather(add(1), maybe(3 if flag else 2))
    except ValueError as error:
        return f"caught {error}"
    return "fine"


@program((True,), (False,))
async def caught_exceptions_counted(flag):
    outcomes = await gather(*[maybe(i) for i in range(4)], return_exceptions=True) if flag else []
    good = [o for o in outcomes if not isinstance(o, BaseException)]
    return len(outcomes), good


@program(([1, 2, 3],))
async def coroutines_in_a_list(values):
    calls = [add(v) for v in values]
    calls.append(double(10))
    results = await gather(*calls)
    return results, len(calls)


@program(([1, 2],))
async def coroutines_appended(values):
    pending = []
    for value in values:
        if value > 1:
            pending.append(double(value))
        else:
            pending.append(add(value, 50))
    return await gather(*pending)


@program((3,))
async def coroutine_in_a_variable(x):
    later = add(x, 7)
    first = await double(x)
    return first, await later


@program((1,), (2,))
async def coroutine_chosen(x):
    if x == 1:
        call = add(x)
    else:
        call = describe("two", loud=True)
    return await call


@program((4,))
async def coroutines_in_order(n):
    calls = [double(i) for i in range(n)]
    found = []
    for call in calls:
        found.append(await call)
    return found


@program()
async def awaiting_a_number():
    x = 5
    return await x


@program((5,))
async def a_task(x):
    task = asyncio.create_task(add(x, 1))
    other = await double(x)
    return await task, other


@program((5,))
async def two_tasks(x):
    a = create_task(add(x))
    b = create_task(double(x))
    first = await b
    second = await a
    return first, second


@program((3,), (4,))
async def failing_task(x):
    task = create_task(maybe(x))
    seen = await echo("before")
    try:
        return await task
    except ValueError as error:
        return seen, str(error)


@program((3,))
async def uncaught_task(x):
    task = create_task(maybe(x))
    await echo("before")
    return await task


@program(([1, 2, 3],))
async def tasks_in_a_list(values):
    tasks = [create_task(add(v)) for v in values]
    marker = await echo("started")
    found = []
    for task in tasks:
        found.append(await task)
    return marker, found


@program(([1, 2, 3],))
async def tasks_gathered(values):
    tasks = [asyncio.create_task(double(v)) for v in values]
    return await asyncio.gather(*tasks)


@program(([1, 3],))
async def tasks_gathered_with_exceptions(values):
    tasks = [create_task(maybe(v)) for v in values]
    results = await gather(*tasks, return_exceptions=True)
    return [str(r) for r in results]


@program((2,))
async def named_tasks_gathered(x):
    a = create_task(add(x))
    b = create_task(double(x))
    return await gather(a, b)


@program((2,))
async def task_with_changes_after(x):
    values = [x]
    task = create_task(echo(list(values)))
    values.append(99)
    x = 50
    return await task, values, x


@program((1,))
async def sleeping(x):
    await sleep("5ms")
    await asyncio.sleep(0)
    await sleep(0.001)
    return x


@program(([1, 2],))
async def sleeping_in_a_loop(values):
    found = []
    for value in values:
        await asyncio.sleep(0.001 * value)
        found.append(value)
    return found


@program()
async def sleeping_at_once():
    return await gather(sleep("1ms"), asyncio.sleep(0.002), add(1))


@program((1,))
async def within_time(x):
    return await wait_for(add(x), timeout=5)


@program((1,))
async def within_no_time(x):
    return await asyncio.wait_for(add(x), None)


@program()
async def too_late():
    try:
        await wait_for(asyncio.sleep(30), 0.01)
    except asyncio.TimeoutError:
        return "late"
    return "in time"


@program()
async def too_late_uncaught():
    await wait_for(sleep("30s"), timeout=0.01)


@program((3,))
async def failing_within_time(x):
    try:
        return await wait_for(maybe(x), 5)
    except ValueError as error:
        return str(error)


@program(signals={"go": [5]})
async def a_signal():
    value = await wait_signal("go")
    return value + 1


@program(signals={"answer": ["yes", "no"]})
async def several_signals():
    found = [await wait_signal("answer"), await wait_signal("answer")]
    return found


@program(signals={"a": [1], "b": [2]})
async def signals_at_once():
    return await gather(wait_signal("b"), wait_signal("a"))


@program()
async def signal_with_default():
    return await wait_signal("never", timeout="1ms", default="none"), await wait_signal("no", timeout=0.001, default=None)


@program()
async def signal_timeout():
    try:
        await wait_signal("never", timeout="1ms")
    except TimeoutError as error:
        return "timeout", str(error)


@program(([1, 2, 3], 2))
async def in_batches(values, size):
    found = []
    for start in range(0, len(values), size):
        batch = values[start : start + size]
        found.extend(await gather(*[double(v) for v in batch]))
    return found


@program(([3, 1, 2],))
async def fan_out_and_in(values):
    doubled = await gather(*[double(v) for v in values])
    summed = await total(*doubled)
    return {"doubled": sorted(doubled), "sum": summed, "pairs": list(zip(values, doubled))}


@program(([1, 2],))
async def gather_of_gathers(values):
    return await gather(gather(*[add(v) for v in values]), gather(double(1), echo("x")))


@program((2,))
async def elements_that_sleep(n):
    return await gather(*[wait_for(add(i), timeout=i + 1) for i in range(n)])
