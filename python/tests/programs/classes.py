"""Workflows that are classes: methods, state, inheritance, recursion."""

import asyncio
import contextlib
import sys

from lope import gather

from .actions import AppError, add, double, maybe, program


class Steps:
    limit = 3
    names = ("a", "b")

    def label(self, x):
        return f"{self.prefix()}{x}"

    def prefix(self):
        return "base-"

    async def work(self, x):
        return await add(x, self.limit)


@program((1,))
class Simple:
    async def run(self, x):
        return self.twice(x) + 1

    def twice(self, x):
        return x * 2


@program((2,))
class Async:
    async def run(self, x):
        first = await self.step(x)
        return await self.step(first, by=10)

    async def step(self, x, by=1):
        return await add(x, by)


@program((1,))
class State:
    async def run(self, x):
        self.total = 0
        self.log = []
        self.note(x)
        self.note(x + 1)
        await self.more(5)
        return self.total, self.log

    def note(self, x):
        self.total += x
        self.log.append(f"noted {x}")

    async def more(self, n):
        for i in range(n):
            self.note(await double(i))


@program((1,))
class Constants:
    rate = 5
    names = ("x", "y")

    async def run(self, x):
        self.rate += x
        return self.rate, self.names, len(self.names)


@program((3,))
class Inherited(Steps):
    async def run(self, x):
        return self.label(x), await self.work(x), self.names[0]

    def prefix(self):
        return "child-"


@program((3,))
class Super(Steps):
    limit = 10

    async def run(self, x):
        return self.prefix(), await self.work(x)

    def prefix(self):
        return "<" + super().prefix() + ">"

    async def work(self, x):
        return [await super().work(x), self.limit]


class Counting:
    def __init__(self):
        self.count = 0

    def up(self, by=1):
        self.count += by
        return self.count


@program((4,))
class Initialised(Counting):
    async def run(self, x):
        self.up()
        self.up(by=x)
        return self.count, self.up()


@program((4,))
class InitSuper(Counting):
    def __init__(self):
        super().__init__()
        self.other = "o"

    async def run(self, x):
        return self.up(x), self.other


@program((5,))
class Recursive:
    async def run(self, n):
        return self.help_rec(n), await self.help_retry(n)

    def help_rec(self, n):
        return 0 if n == 0 else n + self.help_rec(n - 1)

    async def help_retry(self, n):
        if n <= 0:
            return []
        return [await double(n), *(await self.help_retry(n - 2))]


@program((3,))
class KeptWhenFailing:
    async def run(self, x):
        self.seen = []
        try:
            await self.risky(x)
        except ValueError as error:
            self.seen.append(str(error))
        return self.seen

    async def risky(self, x):
        self.seen.append("before")
        await maybe(x)
        self.seen.append("after")


@program(([1, 2, 3],))
class AtOnce:
    async def run(self, values):
        return await gather(*[self.one(v) for v in values]), await gather(self.one(1), self.one(2))

    async def one(self, v):
        return await add(v, self.offset())

    def offset(self):
        return 100


@program((2,))
class Properties:
    base = 10

    @property
    def scaled(self):
        return self.base * 2

    async def run(self, x):
        return self.scaled + x


@program((2,))
class Statics:
    @staticmethod
    def triple(x):
        return x * 3

    async def run(self, x):
        return self.triple(x)


@program((1,), (20,))
class Raises:
    async def run(self, x):
        self.check(x)
        return "fine"

    def check(self, x):
        if x > 10:
            raise AppError(f"{x} is over")


@program()
class MissingAttribute:
    async def run(self):
        return self.nothing


@program((["pen", "cap"],))
class Inventory:
    async def run(self, names):
        self.stock = {}
        for index, name in enumerate(names):
            self.add_stock(name, index + 1)
        self.add_stock("pen", 5)
        removed = self.take("pen", 2)
        return self.stock, removed, self.report()

    def add_stock(self, name, count):
        self.stock.setdefault(name, 0)
        self.stock[name] += count

    def take(self, name, count):
        if self.stock[name] < count:
            raise AppError("not enough")
        self.stock[name] -= count
        return count

    def report(self):
        return ", ".join(f"{name}={count:02d}" for name, count in sorted(self.stock.items()))


@program((7,))
class ConditionalState:
    async def run(self, n):
        self.evens, self.odds = [], []
        while n > 0:
            if n % 2:
                self.odds.append(n)
            else:
                self.evens.append(n)
            n -= 1
        return {"evens": self.evens, "odds": self.odds, "total": sum(self.evens) + sum(self.odds)}


@program((1,))
class Tidies:
    async def run(self, x):
        self.log = []
        try:
            self.log.append(await add(x))
            return self.log
        finally:
            self.log.append(await add(x, 10))


@program((1,))
class Guards:
    async def run(self, x):
        async with asyncio.Semaphore(2), asyncio.Lock():
            with contextlib.suppress(ValueError):
                await maybe(x)
        return await add(x)


@program((1,))
class Tasks:
    async def run(self, x):
        self.task = asyncio.create_task(self.work(x))
        return await self.task, await asyncio.wait_for(self.work(x), 5)

    async def work(self, x):
        return await add(x)


if sys.version_info >= (3, 11):

    @program((1,))
    class Groups:
        async def run(self, x):
            async with asyncio.timeout(5):
                async with asyncio.TaskGroup() as group:
                    task = group.create_task(add(x))
            return task.result()


@program((1,))
async def run(x):
    task = asyncio.create_task(add(x))
    return await task


@program((1,))
async def input(x):
    try:
        return await add(x)
    finally:
        await double(x)


class Below(Steps):
    def prefix(self):
        return "below-"

    async def named(self):
        def inner():
            return super(__class__, self).prefix()

        await add(1)
        return __class__.__name__, inner(), [__class__ for _ in "1"][0] is Below

    async def private(self):
        self.__x = await add(1)

        class Other:
            def __init__(self):
                self.__x = 1

        return self._Below__x, vars(Other())


@program()
async def names_of_classes():
    return await Below().named(), await Below().private()


@program((2,))
class Stock:
    step = 1

    def __init__(self):
        self.log = []

    async def take(self, x):
        self.log.append(await add(x, self.step))

    async def run(self, x):
        await self.take(x)
        return self.log


@program((2,))
class Restock(Stock):
    step = 10

    async def take(self, x):
        await super().take(x)
        await super().take(x + 1)


@program((2,))
class Resell(Restock):
    async def run(self, x):
        return [await super().run(x), [each.__name__ for each in type(self).__mro__]]


class Doubling:
    times = 2

    async def run(self, x):
        return [type(self).__name__, await add(x) * self.times]


@program((1,))
class Twice(Doubling):
    pass


@program((1,))
class Thrice(Doubling):
    times = 3


@program((1,))
async def children_that_share_a_method(x):
    calls = [Thrice, Twice]
    return await gather(Thrice(x), Twice(x)), [await each(x) for each in calls], await Thrice(5)


@program((4,))
class Again:
    def __init__(self):
        self.seen = []

    async def run(self, n):
        self.seen.append(await add(n))
        return await self.run(n - 1) if n else self.seen


class Private:
    def __init__(self):
        self.seen = 0

    async def __step(self, x):
        self.seen += await add(x)
        return self.seen

    async def go(self, x):
        return [await self.__step(x), await gather(self.__step(1))]


class Secret(Private):
    async def __step(self, x):
        return "secret"

    async def go(self, x):
        return [*await super().go(x), await self.__step(x)]


@program((1,))
async def private_methods(x):
    return await Private().go(x), await Secret().go(x)
