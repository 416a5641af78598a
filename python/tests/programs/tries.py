"""try, except, else, finally, raise, assert."""

import builtins
import errno

from . import actions
from .actions import AppError, Coded, NotFound, add, coded, echo, fail, maybe, program


@program(("value",), ("key",), ("app",))
async def by_type(kind):
    try:
        await fail(kind)
    except ValueError:
        return "value"
    except KeyError:
        return "key"
    return "nothing"


@program(("notfound",), ("app",), ("key",))
async def by_base(kind):
    try:
        await fail(kind, "gone")
    except AppError as error:
        return "app", str(error), type(error).__name__
    except LookupError as error:
        return "lookup", str(error), error.args


@program(("value",), ("zero",), ("runtime",))
async def by_tuple(kind):
    try:
        await fail(kind)
    except (ValueError, ArithmeticError) as error:
        return type(error).__name__, str(error)
    return "unreachable"


@program(("notfound",), ("value",))
async def by_dotted_name(kind):
    try:
        await fail(kind)
    except actions.NotFound:
        return "not found"
    except builtins.ValueError:
        return "value"


@program(("notfound",), ("app",))
async def dotted_base(kind):
    try:
        await fail(kind)
    except actions.AppError as error:
        return str(error)


@program(("app",), ("value",))
async def dotted_in_a_tuple(kind):
    try:
        await fail(kind)
    except (actions.NotFound, builtins.ValueError):
        return "caught"


@program(("value",))
async def uncaught(kind):
    try:
        await fail(kind, "through")
    except KeyError:
        return "no"


@program((1,), (2,))
async def bare_except(x):
    try:
        return await maybe(x)
    except:
        return "any"


@program((1,), (2,))
async def with_else(x):
    log = []
    try:
        await maybe(x)
    except ValueError:
        log.append("except")
    else:
        log.append("else")
    log.append("after")
    return log


@program((1,), (2,))
async def else_is_not_guarded(x):
    try:
        x = x + 1
    except ValueError:
        return "never"
    else:
        await maybe(x)
    return "even"


@program((1,), (2,))
async def with_finally(x):
    log = []
    try:
        log.append(await maybe(x))
    except ValueError as error:
        log.append(str(error))
    finally:
        log.append("finally")
    return log


@program((1,), (2,))
async def everything(x):
    log = []
    try:
        log.append("try")
        await maybe(x)
    except ValueError:
        log.append("except")
    else:
        log.append("else")
    finally:
        log.append("finally")
    return log


@program((1,), (2,))
async def finally_only(x):
    log = []
    try:
        try:
            await maybe(x)
        finally:
            log.append("cleaned")
    except ValueError:
        log.append("caught")
    return log


@program()
async def return_through_finally():
    log = []
    for i in range(3):
        try:
            log.append(i)
            if i == 1:
                return list(log)
        finally:
            log.append("f")


@program()
async def return_in_finally():
    try:
        return "try"
    finally:
        return "finally"


@program()
async def finally_swallows():
    try:
        raise ValueError("lost")
    finally:
        return "swallowed"


@program()
async def break_through_finally():
    log = []
    for i in range(5):
        try:
            if i == 1:
                continue
            if i == 3:
                break
            log.append(i)
        finally:
            log.append(f"f{i}")
    return log


@program((0,), (1,), (2,))
async def raised_here(x):
    try:
        if x == 0:
            raise ValueError("zero")
        if x == 1:
            raise NotFound
        raise KeyError("k")
    except ValueError as error:
        return "value", str(error), error.args
    except AppError as error:
        return "app", str(error), error.args
    except KeyError as error:
        return "key", str(error), error.args


@program((0,), (1,), (2,), (3,))
async def raised_out(x):
    if x == 0:
        raise ValueError("a", 2)
    if x == 1:
        raise NotFound(f"no {x}")
    if x == 2:
        raise KeyError(("a", 1))
    raise RuntimeError


@program(("value",), ("app",))
async def raised_again(kind):
    try:
        await fail(kind, "first")
    except ValueError:
        raise
    except AppError as error:
        raise RuntimeError(f"wrapped: {error}") from error


@program()
async def raised_again_by_name():
    try:
        raise ValueError("x")
    except ValueError as error:
        kept = error
    raise kept


@program()
async def bare_raise_after_work():
    log = []
    try:
        try:
            await fail("zero", "deep")
        except ZeroDivisionError:
            log.append(await echo("noted"))
            raise
    except ArithmeticError as error:
        log.append(str(error))
    return log


@program((2,), (0,))
async def raise_from_none(x):
    try:
        return 10 // x
    except ZeroDivisionError:
        raise ValueError("not zero") from None


@program()
async def raise_from_class():
    try:
        raise ValueError("outer") from KeyError
    except ValueError as error:
        return str(error)


@program()
async def raise_in_handler():
    try:
        try:
            raise ValueError("one")
        except ValueError:
            raise KeyError("two")
    except LookupError as error:
        return str(error)


@program()
async def raise_in_finally():
    try:
        try:
            raise ValueError("one")
        finally:
            raise RuntimeError("two")
    except RuntimeError as error:
        return str(error)


@program()
async def nested():
    log = []
    try:
        try:
            try:
                await fail("notfound")
            except KeyError:
                log.append("wrong")
            finally:
                log.append(1)
        except ValueError:
            log.append("wrong")
        finally:
            log.append(2)
    except AppError:
        log.append(3)
    return log


@program((5,), (404,))
async def with_attributes(code):
    try:
        await coded(code)
    except Coded as error:
        return error.code, str(error), error.args


@program((7,))
async def custom_init(code):
    try:
        raise Coded(code)
    except AppError as error:
        return str(error), isinstance(error, Coded), isinstance(error, NotFound)


@program((7,))
async def custom_init_out(code):
    raise Coded(code + 1)


@program(([2, 3, 4, 5],))
async def collected(values):
    good, bad = [], {}
    for value in values:
        try:
            good.append(await maybe(value))
        except ValueError as error:
            bad[value] = str(error)
    return good, bad


@program((0,), (2,))
async def retried_by_hand(successes):
    attempts = 0
    while True:
        attempts += 1
        try:
            return await maybe(attempts + 1 if attempts > successes else 3), attempts
        except ValueError:
            if attempts >= 5:
                raise


@program((1, 0), (4, 2))
async def operators(a, b):
    try:
        return a / b
    except ZeroDivisionError as error:
        return str(error)


@program(({"a": 1}, "b"), ([1], 5), ("abc", 9), (5, 0))
async def lookups(value, key):
    try:
        return value[key]
    except LookupError as error:
        return "lookup", type(error).__name__, str(error), error.args
    except TypeError as error:
        return "type", str(error)


@program((1,), (-1,))
async def asserting(x):
    assert x > 0, f"{x} is not positive"
    return x


@program((1,), (0,))
async def asserting_bare(x):
    assert x
    return "fine"


@program(([1],), ([],))
async def asserting_caught(xs):
    try:
        assert len(xs) == 1, "one expected"
    except AssertionError as error:
        return str(error)
    return "ok"


@program()
async def exception_values():
    errors = [ValueError("a"), NotFound("b")]
    shown = [str(error) for error in errors]
    return shown, repr(errors[0]), isinstance(errors[1], AppError), errors[0].args


@program((3,))
async def loops_and_tries(n):
    log = []
    for i in range(n):
        try:
            if i == 0:
                continue
            log.append(await add(i))
            if i == 2:
                break
        except ValueError:
            log.append("no")
        else:
            log.append("else")
        finally:
            log.append("end")
    return log


@program()
async def finally_sees_changes():
    total = 0
    try:
        total += 1
        raise ValueError("x")
    except ValueError:
        total += 10
    finally:
        total += 100
    return total


@program((errno.ENOENT,))
async def os_error(number):
    try:
        raise OSError(f"number {number}")
    except OSError as error:
        return str(error)


@program(("x",), ("5",))
async def conversion(text):
    try:
        return int(text)
    except ValueError as error:
        return str(error)


@program((1,), (2,))
async def an_unhandled_exception_stays_the_object_it_is(x):
    error = LookupError(x)
    try:
        try:
            await add(x)
            raise error from KeyError("k")
        except (TypeError, IndexError):
            await add(1)
    except LookupError as found:
        return found is error, repr(found.__cause__)
