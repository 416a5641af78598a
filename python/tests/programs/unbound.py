"""Variables without a value, and all variables at once: what CPython raises and shows, by type, text and order."""

# mypy: ignore-errors
from __future__ import annotations

from .actions import add, fail, program


def told(error):
    return type(error).__name__, str(error)


@program((1,), (101,))
async def read_before_assignment(a):
    if a > 100:
        kept = a
    await add(1)
    return kept


@program((1,), (101,))
async def deleted_and_read(a):
    if a < 100:
        del a
    await add(1)
    return a


@program()
async def loop_that_never_ran():
    for each in []:
        await add(each)
    return each


@program((1,), (101,))
async def shared_with_functions(a):
    """A variable that functions share, read by its own function, by a plain one and by one that awaits."""
    log = []

    async def inner():
        await add(1)
        return late

    def region():
        return late

    for read in (region, lambda: late):
        try:
            log.append(read())
        except NameError as error:
            log.append(told(error))
    try:
        log.append(await inner())
    except NameError as error:
        log.append(told(error))
    try:
        log.append(late)
    except NameError as error:
        log.append(told(error))
    try:
        await add(1)
        log.append(late)
    except UnboundLocalError as error:
        log.append(told(error))
    if a > 100:
        late = a
    return log, late


@program((1,), (101,))
async def in_comprehensions(a):
    log = []
    if a > 100:
        some = [1, 2]
    try:
        log.append([await add(each) for each in some])
    except NameError as error:
        log.append(told(error))
    try:
        log.append([await add(some[0]) for _ in "12"])
    except NameError as error:
        log.append(told(error))
    try:
        log.append([some[0] for _ in "12"])
    except NameError as error:
        log.append(told(error))
    return log


@program((0,), (1,), (2,))
async def variable_of_a_handler(way):
    """It has no value once the handler is over, however it was left."""
    log = []
    for _ in range(2):
        try:
            try:
                await fail("value")
            except Exception as error:
                log.append(str(error))
                await add(1)
                if way == 0:
                    continue
                if way == 1:
                    raise KeyError(1)
        except KeyError:
            log.append("again")
        try:
            log.append(str(error))
        except NameError as trouble:
            log.append(told(trouble))
    return log, error


@program()
async def added_to_nothing():
    count += await add(1)
    return count


@program((1, 2), ([], "b"))
async def all_variables(a, b):
    first = await add(1)
    shown = "{a} {b} {first}".format(**locals())
    names, more = dir(), list(vars())
    await add(1)
    c = 3
    return shown, names, more, list(locals().items()), eval("[a, b, c]"), exec("c = 4"), c


@program((1, 2))
async def all_variables_with_functions(a, b):
    def inner(c=1):
        d = a + c
        return sorted(locals()), d

    await add(1)
    if a > 5:
        late = 1
    return inner(), sorted(locals()), eval("inner() and a"), [eval("1 + 2") for _ in "12"]
