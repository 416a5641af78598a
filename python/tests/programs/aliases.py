"""Changes that are seen through every name."""

# mypy: ignore-errors
from lope import gather
from .actions import program, Item, Order, add, echo




def grow(xs):
    xs.append(1)
    return xs


def same(xs):
    return xs


class Holder:
    pass


@program(([1],))
async def two_names(b):
    a = b
    a.append(1)
    return b


@program()
async def other_direction():
    a = [1]
    b = a
    a.append(2)
    return b


@program()
async def part_of_a_list():
    rows = [[1], [2]]
    row = rows[0]
    row.append(3)
    return rows


@program(([[1], [2]],))
async def loop_variable(rows):
    for row in rows:
        row.append(0)
    return rows


@program(([{"a": 1}],))
async def loop_variable_item(users):
    for user in users:
        user["seen"] = True
    return users


@program()
async def put_into_a_list():
    row = [1]
    grid = [row]
    row.append(2)
    return grid


@program()
async def appended():
    row, grid = [], []
    grid.append(row)
    row.append(1)
    return grid


@program()
async def value_of_a_dict():
    xs = [1]
    d = {"k": xs}
    d["k"].append(2)
    return xs, d


@program()
async def same_part_twice():
    row = [0]
    grid = []
    for _ in range(2):
        grid.append(row)
    grid[0].append(1)
    return grid


@program()
async def repeated_part():
    grid = [[0]] * 3
    grid[0].append(1)
    return grid


@program(([[1], [2]],))
async def shallow_copy(rows):
    other = list(rows)
    other[0].append(1)
    return rows


@program((True,), (False,))
async def in_one_branch(flag):
    a = [1]
    b = []
    if flag:
        b = a
    b.append(2)
    return a


@program()
async def attribute_of_an_object():
    item = Item("a", 1.0)
    tags = item.tags
    tags.append("x")
    return item


@program((Order(1, []),))
async def object_by_two_names(order: Order):
    other = order
    other.note = "x"
    return order


@program(([1, 2, 3, 4],))
async def while_going_over(xs):
    for x in xs:
        if x:
            xs.remove(x)
    return xs


@program(({"a": 1},))
async def while_going_over_items(d):
    for key, value in d.items():
        d[key] = value + 1
    return d


@program(([1, 2],))
async def while_enumerating(xs):
    for i, x in enumerate(xs):
        xs[i] = x * 2
    return xs


@program(([1, 2],))
async def in_one_expression(xs):
    return xs, xs.pop()


@program()
async def after_the_return():
    log = []
    try:
        return log
    finally:
        log.append("late")


@program((1,))
async def by_a_helper(x):
    values = [x]
    return grow(values)


@program()
async def answer_of_a_helper():
    a = [1]
    b = same(a)
    b.append(2)
    return a


@program((1,))
async def captured(x):
    found = []

    def inner(y):
        found.append(y)

    inner(x)
    return found


@program(([1],))
async def augmented_list(xs):
    ys = xs
    ys += [1]
    return xs


@program(([1], [2], True), ([1], [2], False))
async def chosen(a, b, flag):
    c = a if flag else b
    c.append(1)
    return a, b


@program(([[1], [2]],))
async def unpacked(rows):
    first, second = rows
    first.append(1)
    return rows


@program(([1, 2, 3],))
class ChangedAtOnce:
    async def run(self, values):
        self.total = 0
        await gather(*[self.one(v) for v in values])
        return self.total

    async def one(self, v):
        found = await add(v)
        self.total += found


@program((5,))
class PartOfSelf:
    async def run(self, x):
        self.items = []
        items = self.items
        self.note(x)
        return items

    def note(self, x):
        self.items.append(x)


@program((1,))
class UnknownMethod:
    async def run(self, x):
        return self.nothing(x)


@program((1,))
async def kept(x):
    echoed = await echo([x])
    other = echoed
    echoed.append(1)
    return other
