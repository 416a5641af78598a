"""What another worker makes of objects is what they were, whatever their classes do with attributes."""

# mypy: ignore-errors
import functools
from dataclasses import dataclass, field

from .actions import add, program


class Checked:
    """A descriptor that keeps its value in the object, under its own name."""

    def __set_name__(self, owner, name):
        self.name = name

    def __get__(self, owner, kind):
        return owner.__dict__[self.name]

    def __set__(self, owner, value):
        owner.__dict__[self.name] = value * 10


class Has:
    x = Checked()

    def __init__(self):
        self.x = 1


class Bumped:
    def __init__(self):
        self.__dict__["v"] = 0

    @property
    def v(self):
        return self.__dict__["v"]

    def bump(self):
        self.__dict__["v"] += 1


class Refusing:
    """Its attributes are not set as others are."""

    def __init__(self):
        self.__dict__["seen"] = []

    def __getattr__(self, name):
        return f"no {name}"

    def __setattr__(self, name, value):
        self.seen.append(name)
        self.__dict__[name] = value

    def __delattr__(self, name):
        raise AttributeError(name)


class Slotted(Has):
    __slots__ = ("a", "b")


@program()
async def descriptors_are_not_asked_again():
    has, bumped, refusing, slotted = Has(), Bumped(), Refusing(), Slotted()
    for i in range(3):
        await add(i)
        has.x = i
        bumped.bump()
        refusing.y = i
        slotted.x = slotted.a = i
    await add(1)
    refusing.__dict__.pop("y")
    del slotted.a
    await add(1)
    return has.x, bumped.v, refusing.y, refusing.seen, slotted.x, hasattr(slotted, "a")


class Attributes(dict):
    def __init__(self, *args, **kwargs):
        super().__init__(*args, **kwargs)
        self.__dict__ = self


class Shared:
    def __init__(self, inside):
        self.__dict__ = inside


@program()
async def dicts_that_are_attributes():
    d = Attributes(a=1)
    await add(1)
    d.b = 2
    await add(1)
    d["c"] = 3
    await add(1)
    return dict(d), d.b, d.c, d.__dict__ is d


@program()
async def a_dict_of_two_objects():
    inside = {}
    one, other = Shared(inside), Shared(inside)
    one.x = 1
    await add(1)
    other.y = 2
    await add(1)
    inside["z"] = 3
    await add(1)
    return one.y, other.x, one.z, inside, vars(one) is inside, vars(one) is vars(other)


@program()
async def a_dict_that_is_asked_for():
    one = Has()
    await add(1)
    inside = vars(one)
    await add(1)
    inside["y"] = 2
    await add(1)
    one.z = 3
    await add(1)
    return one.y, inside, inside is vars(one)


@program()
async def what_exceptions_hold():
    try:
        open("/there/is/no/such/file")
    except OSError as error:
        kept = error
    stop, leaving = StopIteration(1), SystemExit(2)
    await add(1)
    kept.filename, kept.errno, stop.value, leaving.code = "other", 5, [1], "why"
    await add(1)
    stop.value.append(2)
    kept.strerror = None
    await add(1)
    return kept.filename, kept.errno, kept.strerror, stop.value, leaving.code, kept.args


def wrapped(function):
    @functools.wraps(function)
    def inner(*args):
        return function(*args)

    return inner


@program()
async def what_functions_are_called():
    @wrapped
    def named(x):
        """Its own words."""
        return x + 1

    await add(1)
    found = [named(1), named.__doc__, named.__name__, named.__qualname__.rpartition(".")[2]]
    plain = lambda x, y=1: x + y
    await add(1)
    plain.__doc__, plain.__name__, plain.__defaults__ = "words", "called", (5,)
    await add(1)
    return found, plain.__doc__, plain.__name__, plain(1), named.__wrapped__(2)


class Node:
    def __init__(self, name):
        self.links = set()
        self.by = {}
        self.name = name

    def __hash__(self):
        return hash(self.name)

    def __eq__(self, other):
        return isinstance(other, Node) and self.name == other.name


@dataclass(unsafe_hash=True)
class Keyed:
    key: tuple
    links: dict = field(default_factory=dict, hash=False, compare=False)


@program()
async def nodes_that_lead_to_each_other():
    a, b = Node("a"), Node("b")
    a.links.add(b)
    b.links.add(a)
    a.by[b], b.by[a] = 1, 2
    one, other = Keyed((1, "x")), Keyed((2, "y"))
    one.links[other], other.links[one], one.links[one] = 1, 2, 3
    await add(1)
    c = Node("c")
    c.links |= {a, b, c}
    a.links.add(c)
    await add(1)
    return a in b.links, b.by[a], c in a.links, c in c.links, list(vars(c)), one.links[other], one.links[one], list(vars(one))
