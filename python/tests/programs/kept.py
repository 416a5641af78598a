"""What is kept across awaits: what a region took out of a container, names of modules, objects with a `__new__` of their own,
and what cannot be kept but where nothing was awaited."""

import re
from collections import deque

from .actions import add, echo, program

MISSING = object()


class Money(int):
    def __new__(cls, amount, currency):
        made = super().__new__(cls, amount)
        made.currency = currency
        return made


class Node:
    def __init__(self):
        self.items = []


@program((1,))
async def taken_out_and_changed(x):
    account = {"balance": 10}
    box, log, seen = {"a": account}, [], [{"n": 1}]
    jobs = [{"state": "new"}, {"state": "new"}]
    queue, node, sets = deque(jobs), Node(), {"s": {1}}
    items, inner = node.items, sets["s"]
    holder = [log]
    await add(x)
    box.pop("a")["balance"] += 5
    holder.pop().append("x")
    while queue:
        queue.popleft()["state"] = "done"
    node.items.append(2)
    node.items = []
    sets["s"].add(2)
    sets.clear()
    first, seen = seen[0], []
    first["n"] += 1
    await add(x)
    return account, log, jobs, items, inner, first


@program((1,))
async def in_a_function(x):
    log = []

    def swap():
        nonlocal log
        before = log
        before.append(1)
        log = []
        return before

    await add(x)
    before = swap()
    await add(x)
    return before, log


@program((1,), (None,))
async def a_name_of_the_module(x):
    found = MISSING if x is None else x
    await add(1)
    return found is MISSING


@program((6,))
async def made_by_its_own_new(x):
    price = Money(x, "EUR")
    await add(1)
    return type(price).__name__, int(price), price.currency


@program(("axb",), ("ab",))
async def no_await_was_run(text):
    match = re.search("x(.)", text)
    if match is None:
        await echo(1)
        return "none"
    return match.group(1)


@program((3,))
async def bound_in_a_condition(x):
    found = []
    n = 0
    while (n := await add(len(found))) < x:
        found.append(n)
    if (m := await add(n)) > 1 and m < 100:
        found.append(m)
    return found, n, m, (z := await add(1)) + z


@program((2.5,))
async def text_before_an_await(x):
    a = f"total: {x:.2f} after {await add(1)} steps"
    b = f"{x!r:>8}|{x=}|{await add(2):>{await add(3)}}|{x:.1f}"
    return a, b


@program((1,))
async def handed_out(x):
    def pick(n):
        return add(n)

    later = lambda n: add(n)  # noqa: E731
    operations = {"l": lambda n: echo(n)}
    call = pick(x)
    return await call, await later(x), await operations["l"](x), await helper(x)


def helper(n):
    return add(n)
