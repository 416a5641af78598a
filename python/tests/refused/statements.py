"""Statements and expressions that have no place in a workflow."""

# mypy: ignore-errors
import asyncio
import random
import time
import uuid

from lope import gather, sleep
from programs.kit import Colour, Item, add, double, echo

from . import refused

TABLE = {"a": 1}
LIST = [1, 2]


@refused
async def with_statement(path):
    with open(path) as file:  #! a with statement | inside an @action
        return file.read()


@refused
async def async_with(lock):
    async with lock:  #! an async with statement | inside an @action
        return 1


@refused
async def async_for(source):
    async for each in source:  #! an async for | await a list from an @action
        return each


@refused
async def async_comprehension(source):
    return [each async for each in source]  #! an async for | await a list


@refused
async def global_statement():
    global TABLE  #! a global statement | return the value
    TABLE = {}


@refused
async def nonlocal_statement(x):
    count = 0

    def inner():
        nonlocal count  #! a nonlocal statement | return the value
        count = x

    inner()
    return count


@refused
async def del_item(d):
    del d["a"]  #! a del statement | pop()


@refused
async def del_name(x):
    del x  #! a del statement | make a new value


@refused
async def del_slice(xs):
    del xs[1:]  #! a del statement | make a new value
    return xs


@refused
async def import_inside():
    import json  #! an import inside a workflow | at the top of the module

    return json.dumps({})


@refused
async def import_from_inside():
    from json import dumps  #! an import inside a workflow | at the top of the module

    return dumps({})


@refused
async def class_inside():
    class Local:  #! a class inside a workflow | at the top of the module
        pass

    return Local()


@refused
async def match_statement(x):
    match x:  #! a match statement | if and elif
        case 1:
            return "one"
        case _:
            return "other"


@refused
async def lambda_value(x):
    f = lambda y: y + x  #! a lambda outside of key= | a function at the top of the module
    return f(1)


@refused
async def lambda_called(x):
    return (lambda y: y + 1)(x)  #! a lambda outside of key= | write the expression


@refused
async def lambda_in_map(xs):
    return list(map(lambda x: x + 1, xs))  #! 'map' has no place | write a comprehension


@refused
async def filtered(xs):
    return list(filter(None, xs))  #! 'filter' has no place | write a comprehension


@refused
async def printing(x):
    print(x)  #! 'print' has no place | log from an @action
    return x


@refused
async def reading_input():
    return input("?")  #! 'input' has no place | wait_signal


@refused
async def opening(path):
    return open(path)  #! 'open' has no place | I/O in an @action


@refused
async def next_item(xs):
    return next(x for x in xs if x)  #! 'next' has no place | take an item by its index


@refused
async def iterator(xs):
    it = iter(xs)  #! 'iter' has no place | go over the value itself
    return it


@refused
async def evaluating(text):
    return eval(text)  #! 'eval' has no place | @action


@refused
async def hashing(x):
    return hash(x)  #! 'hash' has no place | differ from process to process


@refused
async def identity(x):
    return id(x)  #! 'id' has no place | compare values with ==


@refused
async def frozen_set(xs):
    return frozenset(xs)  #! 'frozenset' has no place | use set or tuple


@refused
async def type_of(x):
    return type(x)  #! 'type' has no place | isinstance


@refused
async def set_attribute(x):
    setattr(x, "a", 1)  #! 'setattr' has no place | assign to the attribute


@refused
async def clock():
    return time.time()  #! a call of 'time.time' | read the clock in an @action


@refused
async def blocking_sleep():
    time.sleep(5)  #! a call of 'time.sleep' | @action


@refused
async def dice():
    return random.random()  #! a call of 'random.random' | make random values in an @action


@refused
async def shuffled(xs):
    return random.choice(xs)  #! a call of 'random.choice' | in an @action


@refused
async def new_id():
    return str(uuid.uuid4())  #! a call of 'uuid.uuid4' | make ids in an @action


@refused
async def unknown_function(x):
    return asyncio.iscoroutine(x)  #! a call of 'asyncio.iscoroutine' | make it an @action


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
async def unknown_method(x):
    return x.frobnicate()  #! a call of the method 'frobnicate' | make it an @action


@refused
async def function_as_value(x):
    f = add  #! the function 'add' is used as a value | call it here
    return await f(x)


@refused
async def builtin_as_value(xs):
    f = len  #! the function 'len' is used as a value | call it here
    return f(xs)


@refused
async def class_as_value():
    kind = Item  #! 'Item' is used as a value | classes are not values
    return kind


@refused
async def module_as_value():
    return time  #! 'time' is used as a value | modules and classes


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
async def gather_not_awaited(x):
    pending = gather(add(x))  #! 'gather' is called and not awaited | await
    return pending


@refused
async def generator_kept(xs):
    g = (x for x in xs)  #! a generator can be gone over only once | make a list
    return list(g)


@refused
async def await_in_generator(xs):
    return sum(await double(x) for x in xs)  #! an await inside a generator | make a list


@refused
async def range_kept(n):
    r = range(n)  #! what range() answers is no list | list(range(n))
    return r


@refused
async def zip_returned(xs):
    return zip(xs, xs)  #! what zip() answers is no list | list(zip(xs, xs))


@refused
async def enumerate_kept(xs):
    pairs = enumerate(xs)  #! what enumerate() answers is no list | list(


@refused
async def reversed_kept(xs):
    back = reversed(xs)  #! what reversed() answers is no list | list(reversed(xs))
    return back


@refused
async def keys_kept(d):
    keys = d.keys()  #! what .keys() answers is no list | list(d.keys())
    return keys


@refused
async def items_returned(d):
    return d.items()  #! what .items() answers is no list | list(d.items())


@refused
async def yielding(xs):
    def inner():
        for x in xs:
            yield x  #! a workflow cannot yield | collect the values in a list

    return list(inner())


@refused
async def yielding_from(xs):
    def inner():
        yield from xs  #! a workflow cannot yield | collect the values in a list

    return [x for x in inner()]


@refused
async def lambda_returned(xs):
    for x in xs:
        last = x
    return [(last), (await echo(1))] if xs else (lambda: 0)  #! a lambda outside of key= | function


@refused
async def identity_of_values(a, b):
    return a is b  #! 'is' between values | compare with ==


@refused
async def identity_of_numbers(a):
    return a is -a  #! 'is' between values | compare with ==


@refused
async def big_number():
    return 10000000000000000000000  #! an integer of more than 64 bits | use a float


@refused
async def complex_number():
    return 1j  #! the constant 1j is not supported | use numbers


@refused
async def ellipsis():
    return ...  #! the constant Ellipsis is not supported | use numbers


@refused
async def matrix_product(a, b):
    return a @ b  #! the operator MatMult is not supported | @action


@refused
async def many_dimensions(a):
    return a[1:2, 3]  #! a slice in several dimensions | @action


@refused
async def dunder(x):
    return x.__dict__  #! the attribute '__dict__' is not supported | ordinary attributes


@refused
async def ascii_conversion(x):
    return f"{x!a}"  #! !a in an f-string | use !r


@refused
async def bare_raise():
    raise  #! a bare raise outside of a handler | raise an exception


@refused
async def raising_base():
    raise KeyboardInterrupt()  #! KeyboardInterrupt is no ordinary exception | subclass of Exception


@refused
async def used_after_its_handler(x):
    try:
        return await add(x)
    except ValueError as error:
        x = 0
    return str(error)  #! 'error' is gone after its except block | under another name


@refused
async def catching_cancel(x):
    try:
        return await add(x)
    except asyncio.CancelledError:  #! a handler of CancelledError | use finally
        return None


@refused
async def catching_values(x, kinds):
    try:
        return await add(x)
    except kinds:  #! 'kinds' is no exception class | name the classes
        return None


@refused
async def catching_numbers(x):
    try:
        return await add(x)
    except Colour:  #! 'Colour' is no exception class | name the classes
        return None


@refused
async def isinstance_of_a_variable(x, kind):
    return isinstance(x, kind)  #! a type that is only known when it runs | name the types


@refused
async def isinstance_of_unknown(x):
    return isinstance(x, random.Random)  #! isinstance of Random | @action


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
async def wrong_dataclass():
    return Item("a")  #! Item(…) lacks the argument 'price' | its fields are


@refused
async def too_many_for_builtin(x):
    return len(x, 1)  #! 'len' takes at most 1 arguments | leave some out


@refused
async def keyword_for_builtin(x):
    return abs(x=x)  #! 'abs' takes no keyword 'x' here | by position


@refused
async def keyword_for_method(s):
    return s.find(sub="x")  #! 's.find' takes no keyword 'sub' here | by position


@refused
async def key_by_name(xs):
    return sorted(xs, key=add)  #! 'add' as a key | key=lambda


@refused
async def key_that_awaits(xs):
    return max(xs, key=lambda x: x.pop())  #! a key that calls or awaits | compute the keys before


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
async def gather_flag(xs, flag):
    return await gather(*[add(x) for x in xs], return_exceptions=flag)  #! gather takes return_exceptions | leave


@refused
async def gather_with_awaited_arguments(xs):
    return await gather(*[add(await double(x)) for x in xs])  #! an argument that awaits or calls | compute the arguments


@refused
async def sleep_of_two():
    await sleep("1s", "2s")  #! sleep takes one span | sleep("5m")


@refused
async def walrus_in_comprehension(xs):
    return [y for x in xs if (y := x + 1)]  #! ':=' inside a comprehension | for statement


@refused
async def star_args(*values):  #! the workflow takes *values | one by one
    return values


@refused
async def double_star_args(**options):  #! the workflow takes **options | one by one
    return options


@refused
async def enum_of_two():
    return Colour("red", 1)  #! Colour(…) takes one value | Colour(value)


@refused
async def spread_to_builtin(xs):
    return max(*xs)  #! max() of spread arguments | without the star


@refused
async def decorated_inside(x):
    @staticmethod
    def inner(y):  #! 'inner' has a decorator | at the top of the module
        return y

    return inner(x)


@refused
async def call_of_a_call(fs, x):
    return fs[0](x)  #! a call of something that is only known when it runs | by its name
