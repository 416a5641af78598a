"""Loops with awaits over iterators that pickle does not know, and awaitables that stand twice in one gather."""

import asyncio
import csv
import io
import itertools
import re
from collections import ChainMap, UserDict, UserList

from lope import gather

from .actions import add, fail, program


@program(("a,b\n1,2\n3,4\n",), ('a,b\n1,"2\n"\n\n3,4',))
async def rows_of_a_table(text):
    found = []
    for row in csv.DictReader(io.StringIO(text)):
        found.append((row, await add(int(row["a"]))))
    return found


@program((["a;b", "c;d", "e;f", "g;h"],))
async def a_reader_that_others_read_from(lines):
    reader = csv.reader(lines, delimiter=";")
    same, found = [reader], []
    for row in reader:
        await add(1)
        lines += ["x;y"] if len(lines) < 7 else []
        found.append((row, reader.line_num, next(same[0], None), same[0] is reader))
        await add(1)
    return found, reader.line_num


class Loud:
    def __init__(self):
        self.got = []

    def write(self, text):
        self.got.append(text.upper())


@program((3,))
async def writers_of_tables(count):
    out, loud = io.StringIO(), Loud()
    writer, other = csv.DictWriter(out, ["n", "m"], quoting=csv.QUOTE_ALL), csv.writer(loud, lineterminator="\n")
    writer.writeheader()
    for n in range(count):
        writer.writerow({"n": n, "m": await add(n)})
        other.writerow(["a", await add(n)])
    return out.getvalue(), loud.got


@program(("a1b22c",), ("",))
async def what_a_pattern_finds(text):
    found = []
    for each in re.finditer(r"\d", text):
        found.append((each.group(), each.start(), await add(1)))
    for each in re.compile("[a-z]").finditer(text):
        found.append((each.span(), await add(2)))
        if len(found) > 4:
            break
    return found


@program(([],), ([1],), ([1, 2, 3],))
async def pairs(xs):
    found = []
    for one, other in itertools.pairwise(xs):
        found.append((one, await add(other)))
        if len(xs) < 5:
            xs.append(one)
    return found, [await add(one) for one, _ in itertools.pairwise(xs)]


@program(([3, 1, 2],))
async def containers_of_classes(xs):
    found, own = [], UserList(xs)
    for each in own:
        found.append(await add(each))
        if len(own) < 5:
            own.append(each)
    both = ChainMap({"a": 1}, {"b": 2})
    for key, value in both.items():
        found.append((key, await add(value)))
    for value in UserDict(z=5).values():
        found.append(await add(value))
    for key in both.keys():
        found.append((key, await add(0)))
    return found


async def noted(log, x):
    log.append(x)
    return await add(x)


@program((1,))
async def gathered_twice(x):
    log = []
    call, other = add(x), noted(log, x)
    first = await gather(call, other, call, other)
    calls = [noted(log, 5)] * 3
    return first, await asyncio.gather(*calls), log


@program((1,))
async def gathered_twice_with_failures(x):
    call = fail("value")
    found = await gather(call, add(x), call, return_exceptions=True)
    return [str(each) for each in found], found[0] is found[2]


async def down(n):
    return 0 if n == 0 else 1 + await down(n - 1)


@program((20,))
async def calls_of_calls(n):
    return await down(n), await gather(down(3), down(n))
