"""What an exception was raised in the middle of: `__context__`, `sys.exc_info` and bare `raise`."""

import asyncio
import sys

from .actions import add, fail, program


def chain(error):
    found = []
    while error is not None and len(found) < 9:
        found.append((type(error).__name__, str(error), repr(error.__cause__)))
        error = error.__context__
    return found


@program((1,))
async def caught_in_a_handler(x):
    try:
        await fail("value")
    except ValueError as error:
        last = error
        try:
            raise LookupError(x)
        except Exception as error:
            last = error
    return chain(last)


@program((1,))
async def an_action_fails_in_a_handler(x):
    try:
        await fail("value")
    except ValueError:
        try:
            await add(x)
            await fail("key")
        except KeyError as other:
            last = other
            await add(x)
    return chain(last)


@program((1,))
async def an_action_fails_out_of_a_handler(x):
    try:
        try:
            await fail("value")
        except ValueError:
            try:
                await fail("key")
            except KeyError:
                await fail("app")
    except Exception as error:
        last = error
    return chain(last)


@program((1,))
async def a_failure_that_no_inner_handler_takes(x):
    try:
        try:
            await fail("value")
        except ValueError:
            try:
                await fail("app")
            except KeyError:
                await add(x)
    except Exception as error:
        last = error
    return chain(last)


@program((1,))
async def a_function_raises_in_a_handler(x):
    async def inner(n):
        await add(n)
        raise KeyError(n)

    try:
        try:
            await fail("value")
        except ValueError:
            await inner(x)
    except KeyError as error:
        last = error
    return chain(last)


@program((1,))
async def a_gather_fails_in_a_handler(x):
    try:
        try:
            await fail("value")
        except ValueError:
            await asyncio.gather(add(x), fail("key"))
    except KeyError as error:
        last = error
    return chain(last)


@program((1,))
async def raised_in_finally(x):
    try:
        try:
            await fail("value")
        finally:
            await add(x)
            raise LookupError(x)
    except LookupError as error:
        last = error
    return chain(last)


@program((1,))
async def an_action_fails_in_finally(x):
    try:
        try:
            await fail("value")
        finally:
            await fail("key")
    except KeyError as error:
        last = error
    return chain(last)


@program((True,), (False,))
async def caught_in_finally(fails):
    last = None
    try:
        try:
            if fails:
                await fail("value")
        finally:
            try:
                raise LookupError
            except LookupError as error:
                last = error
            await add(1)
    except ValueError as error:
        return chain(last), chain(error)
    return chain(last)


@program((1,))
async def finally_without_a_failure_in_a_handler(x):
    try:
        await fail("value")
    except ValueError:
        try:
            await add(x)
        finally:
            try:
                raise LookupError(x)
            except LookupError as error:
                last = error
            await add(x)
    return chain(last)


@program((3,))
async def each_round_has_its_own(rounds):
    found = []
    for number in range(rounds):
        try:
            await fail("value" if number % 2 else "key")
        except Exception as error:
            try:
                raise AttributeError(number) from error
            except AttributeError as other:
                found.append(chain(other))
            await add(1)
    return found


@program((1,))
async def what_is_being_handled(x):
    before = sys.exc_info()[1]
    try:
        await fail("value")
    except ValueError:
        await add(x)
        within = repr(sys.exc_info()[1])
    return before, within, sys.exc_info()[1]


@program((1,))
async def raised_again(x):
    try:
        try:
            await fail("value")
        except ValueError:
            await add(x)
            raise
    except ValueError as error:
        last = error
    return chain(last)


@program((1,))
async def suppressed(x):
    try:
        try:
            await fail("value")
        except ValueError:
            await add(x)
            raise KeyError(x) from None
    except KeyError as error:
        return chain(error), error.__suppress_context__
