"""Objects with async methods whose classes the module of the workflow does not name: they come from elsewhere."""

import asyncio

from lope import gather

from . import served
from .actions import program
from .served import MAILER, Builder, default, make


@program()
async def of_a_module():
    return await MAILER.mail(1), await MAILER.ping(), await served.MAILER.mail(2), await default().mail(3)


@program()
async def made_by_a_function():
    one = make("one")
    return await one.mail(1), await one.note(1), await one.note(2), one.sent, await Builder().build().mail(4)


@program()
async def of_the_class():
    one = make("one")
    return await served.Mailer.made(1), await served.Mailer.plain(2), await one.plain(3), await one.made(4), await one(5)


@program()
async def several():
    several = {"a": make("1"), "b": make("2")}
    task = asyncio.create_task(make("t").mail(1))
    return [await each.mail(name) for name, each in several.items()], await gather(*(each.ping() for each in several.values())), await task
