"""Tasks, groups, timeouts and locks."""

from __future__ import annotations

import asyncio
import inspect
import sys
from typing import Any

from lope import gather, sleep

from .actions import add, echo, maybe, program


def recent(*cases: tuple[Any, ...]) -> Any:
    """A program with what asyncio has since 3.11."""
    return program(*cases) if sys.version_info >= (3, 11) else lambda target: target


async def slow(x, log):
    log.append(('begin', x))
    r = await add(x)
    log.append(('mid', x))
    await asyncio.sleep(0.01 * x)
    log.append(('end', x))
    return r


async def bad(x, log):
    await asyncio.sleep(0.005)
    raise KeyError(x)


@recent((3,))
async def group(n):
    log = []
    async with asyncio.TaskGroup() as tg:
        ts = [tg.create_task(slow(i, log)) for i in range(n)]
        x = await add(10)
    return ([t.result() for t in ts], x, sorted(log))


@recent()
async def a_group_of_which_one_fails():
    log = []
    try:
        async with asyncio.TaskGroup() as tg:
            a = tg.create_task(slow(10000, log))
            b = tg.create_task(bad(1, log))
            await asyncio.sleep(100)
            log.append('never')
    except ExceptionGroup as eg:
        log.append((str(eg), [repr(e) for e in eg.exceptions], a.cancelled(), b.done()))
    return log


@program((5,))
async def sems(n):
    sem = asyncio.Semaphore(2)
    inside = 0
    most = 0
    out = []

    async def one(i):
        nonlocal inside, most
        async with sem:
            inside += 1
            most = max(most, inside)
            await asyncio.sleep(0.01)
            out.append(await add(i))
            inside -= 1
        return i
    r = await asyncio.gather(*[one(i) for i in range(n)])
    return (r, most, out, inside, sem.locked())


@recent()
async def times():
    log = []
    try:
        async with asyncio.timeout(0.05):
            try:
                await asyncio.sleep(100)
            finally:
                log.append('finally')
    except TimeoutError:
        log.append('timeout')
    async with asyncio.timeout(5):
        log.append(await add(1))
    for i in range(3):
        async with asyncio.timeout(None):
            if i == 1:
                continue
            if i == 2:
                break
            log.append(await add(i))
    return log


@program()
async def completed():
    out = []

    async def one(i):
        await asyncio.sleep(0.05 * (4 - i))
        return i
    for c in asyncio.as_completed([one(i) for i in range(4)]):
        out.append(await c)
    return out


@program()
async def cancels():
    log = []

    async def forever():
        try:
            log.append('start')
            await asyncio.sleep(100)
        finally:
            log.append('cleaned')
            await add(1)
            log.append('cleaned2')
    t = asyncio.create_task(forever())
    await asyncio.sleep(0.01)
    t.cancel()
    try:
        await t
    except BaseException as e:
        log.append(type(e).__name__)
    return (log, t.cancelled(), t.done())


@program()
async def waits():

    async def f():
        await asyncio.sleep(100)
    t = asyncio.create_task(f())
    try:
        await asyncio.wait_for(t, 0.01)
    except TimeoutError as e:
        return 'timeout'


@program()
async def locks():
    lock = asyncio.Lock()
    ev = asyncio.Event()
    log = []

    async def a():
        async with lock:
            log.append('a')
            await asyncio.sleep(0.01)
            log.append('a2')
        ev.set()

    async def b():
        async with lock:
            log.append('b')
            await asyncio.sleep(0.01)
            log.append('b2')

    async def c():
        await ev.wait()
        log.append('c')
    await asyncio.gather(a(), b(), c())
    return log


class Res:

    def __init__(self, log):
        self.log = log

    async def __aenter__(self):
        self.log.append(await add(1))
        return self

    async def __aexit__(self, t, e, tb):
        self.log.append(('exit', t and t.__name__))
        await add(2)
        return t is KeyError


@program()
async def managers():
    log = []
    async with Res(log) as r, Res(log):
        log.append(await add(5))
    async with Res(log):
        raise KeyError('x')
    try:
        async with Res(log):
            raise ValueError('boom 1')
    except ValueError as e:
        log.append(str(e))
    return log


@recent()
async def acq():
    sem = asyncio.Semaphore(1)
    given_up = asyncio.Event()
    log = []

    async def holder():
        async with sem:
            await given_up.wait()
            log.append('h')

    async def impatient():
        try:
            async with asyncio.timeout(0.02):
                async with sem:
                    log.append('never')
        except TimeoutError:
            log.append('t')
            given_up.set()

    async def patient():
        await sem.acquire()
        log.append('p')
        sem.release()
    await asyncio.gather(holder(), impatient(), patient())
    return (log, sem._value)


@program()
async def cancelled_before_it_begins():
    log = []

    async def work(x):
        log.append(await add(x))

    task = asyncio.create_task(work(1))
    log.append((task.cancel(), task.cancel(), task.cancelled(), task.done()))
    found = await gather(task, return_exceptions=True)
    other = asyncio.create_task(work(2))
    kept = asyncio.create_task(work(3))
    other.cancel()
    await kept
    await gather(other, return_exceptions=True)
    return log, repr(found), task.cancelled(), other.cancelled(), task.cancel()


@recent()
async def a_group_that_fails_before_its_tasks_begin():
    log = []

    async def work(x):
        log.append(await add(x))

    try:
        async with asyncio.TaskGroup() as group:
            task = group.create_task(work(1))
            raise ValueError("at once")
    except ExceptionGroup as error:
        log.append([repr(each) for each in error.exceptions])
    return log, task.cancelled()


@program()
async def begins_with_what_its_arguments_are_then():
    xs = [1]
    task = asyncio.create_task(echo(xs))
    xs.append(2)
    return await task


@program()
async def waits_for_a_task_that_it_gave_up():
    log = []

    async def work():
        try:
            await sleep(10)
        finally:
            log.append(await add(1))

    task = asyncio.create_task(work())
    try:
        await asyncio.wait_for(task, 0.3)
    except asyncio.TimeoutError:
        log.append((task.done(), task.cancelled()))
    return log


@recent()
async def waits_for_a_task_in_a_block_that_is_over():
    log = []

    async def work(x):
        try:
            await sleep(10)
        finally:
            log.append(await add(x))

    first, second = asyncio.create_task(work(1)), asyncio.create_task(work(2))
    try:
        async with asyncio.timeout(0.3):
            await gather(first, second)
    except TimeoutError:
        log.sort()
        log.append((first.done(), first.cancelled(), second.done(), second.cancelled()))
    return log


@program()
async def a_gather_begins_where_it_is_called():
    log = []

    async def work(x):
        log.append(x)
        return await add(x)

    both = asyncio.gather(work(1), work(2))
    log.append(both.done())
    await sleep(0.05)
    log.append(("main", both.done()))
    found = await both
    coroutine = work(3)
    wrong = gather(maybe(1), coroutine, coroutine, return_exceptions=True)
    await sleep(0.05)
    return log, found, both.result(), both.exception(), repr(await wrong), repr(wrong.result()), await both


@program()
async def a_gather_that_is_cancelled_before_it_begins():
    log = []

    async def work(x):
        log.append(await add(x))

    both = gather(work(1), work(2), return_exceptions=True)
    log.append((both.cancel(), both.done()))
    await sleep(0.05)
    return log


@program()
async def gathers_that_are_awaited_where_they_are_called():
    together = lambda xs: asyncio.gather(*map(add, xs))
    return await together([1, 2]), await gather(gather(add(1), add(2)), add(3)), await asyncio.wait_for(gather(add(1)), 5)


@program()
async def what_a_task_is():
    task = asyncio.create_task(add(1))
    found = [isinstance(task, asyncio.Task), isinstance(task, asyncio.Future), asyncio.isfuture(task), inspect.isawaitable(task)]
    await task
    return found, isinstance(task, asyncio.Task), task.result()


@program()
async def called_when_it_is_done():
    log = []
    task = asyncio.create_task(add(1))
    await task
    task.add_done_callback(lambda done: log.append(("called", done.result())))
    log.append("after")
    await sleep(0.01)
    return log


@program()
async def gathers_what_cannot_be():
    log = []
    for each in (1, None, [1]):
        try:
            await gather(add(1), each)
        except TypeError as error:
            log.append(str(error))
    return log


@program((1,))
async def tasks_awaited_where_they_start(x):
    first = await asyncio.create_task(add(x))
    return first, await asyncio.ensure_future(add(first)), [await asyncio.create_task(add(n), name="n") for n in range(2)]


@program((1,))
async def sleeps_that_have_results(x):
    kept = [x]
    slept = asyncio.sleep(0.001, kept)
    found = await asyncio.gather(slept, asyncio.sleep(0.002), asyncio.sleep(0, result=0), asyncio.wait_for(asyncio.sleep(0.001, kept), 60))
    return await asyncio.sleep(0, kept) is kept, await asyncio.sleep(0.001, result="x"), found[0] is kept, found
