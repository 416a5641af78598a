"""Statements and expressions that have no place in a workflow."""

# mypy: ignore-errors
import asyncio
import contextlib
import sys
import time

from lope import gather, sleep
from programs.actions import Colour, Item, add, double, echo

from . import refused

TABLE = {"a": 1}
LIST = [1, 2]


@refused
async def async_with(path):
    async with open(path):  #! an async with statement | inside an @action
        return 1


@refused
async def async_for(source):
    async for each in source:  #! an async for | await a list from an @action
        return each


@refused
async def async_comprehension(source):
    return [each async for each in source]  #! an async for | await a list


@refused
async def import_of_lope(x):
    from lope import gather as several  #! an import of lope inside a workflow | top of the module

    return await several(add(x), add(x))


@refused
async def global_statement():
    global TABLE  #! a global statement | return the value
    TABLE = {}


@refused
async def unknown_name(x):
    return nothing_of_that_name(x)  #! the name 'nothing_of_that_name' is not defined | define it


@refused
async def unknown_constant():
    return UNDEFINED  #! the name 'UNDEFINED' is not defined | define it


@refused
async def unknown_attribute_of_a_module():
    return time.no_such_thing  #! time has no attribute 'no_such_thing' | spelling


@refused
async def not_awaited(x):
    add(x)  #! 'add' is called and not awaited | await
    return x


@refused
async def not_awaited_return(x):
    return add(x)  #! 'add' is called and not awaited | return await


@refused
async def sleep_not_awaited():
    sleep("5s")  #! 'sleep' is called and not awaited | await


@refused
async def await_in_generator(xs):
    return sum(await double(x) for x in xs)  #! a generator that awaits | make a list


@refused
async def catching_cancel(x):
    try:
        return await add(x)
    except asyncio.CancelledError:  #! a handler of CancelledError that does not end with raise | nobody can stop a cancel
        return None


@refused
async def module_list_changed(x):
    LIST.append(x)  #! 'LIST' belongs to the module | copy it into a variable
    return LIST


@refused
async def module_dict_changed(x):
    TABLE["b"] = x  #! 'TABLE' belongs to the module | copy it into a variable


@refused
async def class_changed(x):
    Item.name = x  #! 'Item' belongs to the module | copy it


@refused
async def wrong_arguments(x):
    return await add(x, 1, 2)  #! add() takes 2 positional arguments, not 3 | its parameters are


@refused
async def missing_arguments():
    return await add()  #! add() lacks the argument 'a' | its parameters are


@refused
async def unknown_keyword(x):
    return await add(x, c=1)  #! add() has no parameter 'c' | its parameters are


@refused
async def twice_given(x):
    return await add(x, a=1)  #! add() gets two values for 'a' | its parameters are


@refused
async def options_computed(x, n):
    return await add.with_options(timeout=n)(x)  #! an option that is only known when it runs | use a constant


@refused
async def options_unknown(x):
    return await add.with_options(priority=3)(x)  #! with_options has no 'priority' | retry= and timeout=


@refused
async def options_wrong(x):
    return await add.with_options(timeout="soon")(x)  #! options that make no sense | timeout="20s"


@refused
async def generator_across_awaits(xs):
    for x in (y for y in xs):  #! a generator that is gone over with awaits between | make a list
        await add(x)


@refused
async def foreign_await(x):
    return await asyncio.to_thread(len, x)  #! an await of 'asyncio.to_thread' | await actions


@refused
async def shielded(x):
    return await asyncio.shield(add(x))  #! 'asyncio.shield' has no meaning in a workflow | use gather


@refused
async def await_in_a_target(xs):
    del xs[1:]
    xs[await add(0)], y = 1, 2  #! an await in the target of an assignment | await it before


@refused
async def await_in_a_guard(x):
    match x:
        case 1 if await add(x):  #! an await in the guard of a case | await it before
            return 1


@refused
async def foreign_context(x):
    async with asyncio.Condition():  #! an async with statement | inside an @action
        return x


@refused
async def yields(x):
    async def inner():
        yield x  #! a workflow cannot yield | collect the values

    return await inner()


@refused
async def decorated_async(x):
    @staticmethod
    async def inner(y):  #! 'inner' has a decorator | at the top of the module
        return await add(y)

    return await inner(x)


def numbers(n):
    yield from range(n)


@contextlib.contextmanager
def block():
    yield 1


def several(xs):
    return asyncio.gather(*map(add, xs))


async def listed(xs):
    return [await add(x) for x in xs]


@refused
async def generator_with_awaits(x):
    for each in numbers(x):  #! a generator that is gone over with awaits between | make a list
        await add(each)


@refused
async def generator_of_its_own(x):
    def found():
        yield x

    for each in found():  #! a generator that is gone over with awaits between | make a list
        await add(each)


@refused
async def generator_in_a_comprehension(x):
    return [await add(each) for each in numbers(x)]  #! a generator that is gone over with awaits between | make a list


@refused
async def generator_given(x):
    return await listed(each for each in [x])  #! a generator that is given to something that is awaited | make a list


@refused
async def block_that_is_a_generator(x):
    with contextlib.nullcontext(), block():  #! a context manager that is a generator, with awaits inside | __enter__ and __exit__
        return await add(x)


@refused
async def file_held_open(x):
    with open(x) as file:  #! 'open' with awaits inside | do it in an @action
        return await echo(file.read())


@refused
async def gather_by_another_name(x):
    together = asyncio.gather  #! 'asyncio.gather' is named and not called | call it where it is awaited
    return await together(add(x))


@refused
async def gather_in_a_plain_function(x):
    return await several([x])  #! 'several' calls asyncio.gather, and is no async function | write async def


async def group_without_a_block(x):
    group = asyncio.TaskGroup()  #! a TaskGroup outside of its block | async with asyncio.TaskGroup()
    return group, await add(x)


if sys.version_info >= (3, 11):
    refused(group_without_a_block)


@refused
async def queue(x):
    waiting = asyncio.Queue()  #! 'asyncio.Queue' has no meaning in a workflow | use gather
    return waiting, await add(x)


@refused
async def loop(x):
    return asyncio.get_running_loop(), await add(x)  #! 'asyncio.get_running_loop' has no meaning in a workflow | use gather


@refused
async def as_completed_with_a_timeout(x):
    for each in asyncio.as_completed([add(x)], timeout=1):  #! as_completed with a timeout | async with asyncio.timeout
        await each


@refused
async def a_name_of_ours(x):
    _lope_1 = await add(x)  #! a name that begins with _lope | choose another one
    return _lope_1


@refused
async def an_await_in_the_target_of_a_loop(xs):
    for xs[await add(0)] in [1]:  #! an await in the target of an assignment | await it before
        pass


@refused
async def an_await_in_an_except(x):
    try:
        await add(x)
    except (await echo(x)):  #! an await in this place | await it before
        pass


@refused
async def an_await_in_a_class(x):
    class Inner(await echo(x)):  #! an await in this place | await it before
        pass
