"""Changes that another name would see in Python, and not in a workflow."""

# mypy: ignore-errors
from lope import gather
from programs.kit import Item, Order, add, echo

from . import refused


def grow(xs):
    xs.append(1)  #! 'xs' is part of the caller | change a copy and return it
    return xs


def same(xs):
    return xs


class Holder:
    pass


@refused
async def two_names(b):
    a = b
    a.append(1)  #! may be the same value | make a copy
    return b


@refused
async def other_direction():
    a = [1]
    b = a
    a.append(2)  #! may be the same value | through one name only
    return b


@refused
async def part_of_a_list():
    rows = [[1], [2]]
    row = rows[0]
    row.append(3)  #! 'row' is part of 'rows' | make a copy
    return rows


@refused
async def loop_variable(rows):
    for row in rows:
        row.append(0)  #! 'row' is part of 'rows' | make a copy
    return rows


@refused
async def loop_variable_item(users):
    for user in users:
        user["seen"] = True  #! 'user' is part of 'users' | make a copy
    return users


@refused
async def put_into_a_list():
    row = [1]
    grid = [row]
    row.append(2)  #! 'row' is part of 'grid' | make a copy
    return grid


@refused
async def appended():
    row, grid = [], []
    grid.append(row)
    row.append(1)  #! 'row' is part of 'grid' | make a copy
    return grid


@refused
async def value_of_a_dict():
    xs = [1]
    d = {"k": xs}
    d["k"].append(2)  #! 'xs' is part of 'd' | make a copy
    return xs, d


@refused
async def same_part_twice():
    row = [0]
    grid = []
    for _ in range(2):
        grid.append(row)
    grid[0].append(1)  #! a change that another name would not see | make a copy
    return grid


@refused
async def repeated_part():
    grid = [[0]] * 3
    grid[0].append(1)  #! 'grid' shares parts with itself | make a copy
    return grid


@refused
async def shallow_copy(rows):
    other = list(rows)
    other[0].append(1)  #! 'other' shares parts with 'rows' | make a copy
    return rows


@refused
async def in_one_branch(flag):
    a = [1]
    b = []
    if flag:
        b = a
    b.append(2)  #! may be the same value | make a copy
    return a


@refused
async def attribute_of_an_object():
    item = Item("a", 1.0)
    tags = item.tags
    tags.append("x")  #! 'tags' is part of 'item' | make a copy
    return item


@refused
async def object_by_two_names(order: Order):
    other = order
    other.note = "x"  #! may be the same value | make a copy
    return order


@refused
async def while_going_over(xs):
    for x in xs:
        if x:
            xs.remove(x)  #! 'xs' is changed while a loop goes over it | list(xs)
    return xs


@refused
async def while_going_over_items(d):
    for key, value in d.items():
        d[key] = value + 1  #! 'd' is changed while a loop goes over it | list(d)
    return d


@refused
async def while_enumerating(xs):
    for i, x in enumerate(xs):
        xs[i] = x * 2  #! 'xs' is changed while a loop goes over it | list(xs)
    return xs


@refused
async def in_one_expression(xs):
    return xs, xs.pop()  #! used before in the same statement | make a copy


@refused
async def after_the_return():
    log = []
    try:
        return log
    finally:
        log.append("late")  #! the returned value | return after the change


@refused
async def by_a_helper(x):
    values = [x]
    return grow(values)


@refused
async def answer_of_a_helper():
    a = [1]
    b = same(a)
    b.append(2)  #! may be the same value | make a copy
    return a


@refused
async def captured(x):
    found = []

    def inner(y):
        found.append(y)  #! 'found' is part of the caller | change a copy and return it

    inner(x)
    return found


@refused
async def augmented_list(xs):
    ys = xs
    ys += [1]  #! may be the same value | make a copy
    return xs


@refused
async def chosen(a, b, flag):
    c = a if flag else b
    c.append(1)  #! may be the same value | make a copy
    return a, b


@refused
async def unpacked(rows):
    first, second = rows
    first.append(1)  #! 'first' is part of 'rows' | make a copy
    return rows


@refused
class ChangedAtOnce:
    async def run(self, values):
        self.total = 0
        await gather(*[self.one(v) for v in values])  #! changes self and runs beside others | return the change
        return self.total

    async def one(self, v):
        self.total += await add(v)


@refused
class PartOfSelf:
    async def run(self, x):
        self.items = []
        items = self.items
        self.note(x)  #! 'items' is part of 'self' | make a copy
        return items

    def note(self, x):
        self.items.append(x)


@refused
class UnknownMethod:
    async def run(self, x):
        return self.nothing(x)  #! UnknownMethod has no method 'nothing' | spelling


@refused
async def kept(x):
    echoed = await echo([x])
    other = echoed
    echoed.append(1)  #! may be the same value | make a copy
    return other
