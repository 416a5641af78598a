"""Assignments of every kind."""

from .actions import Item, Order, add, echo, program


@program((1,), (-4,))
async def simple(x):
    y = x + 1
    z = y
    return [x, y, z]


@program()
async def several_targets():
    a = b = c = 7
    a += 1
    return (a, b, c)


@program(([1, 2],), ((3, 4),), ("xy",), ([1],), ([1, 2, 3],))
async def unpacking(pair):
    a, b = pair
    return {"a": a, "b": b}


@program(([1, [2, 3]],), ([1, 2],))
async def nested_unpacking(value):
    a, (b, c) = value
    return a, b, c


@program(([1, 2, 3, 4],), ([1, 2],), ([1],))
async def starred_unpacking(values):
    first, *middle, last = values
    return first, middle, last


@program()
async def swapping():
    a, b = 1, 2
    a, b = b, a
    [c, d] = [a + 1, b + 1]
    return a, b, c, d


@program((5,))
async def annotated(x: int):
    y: int = x * 2
    z: list[int] = [y]
    w: str
    w = "set"
    return y, z, w


@program((3,), (2.5,))
async def augmented(x):
    x += 1
    x -= 2
    x *= 5
    x //= 2
    x **= 2
    x %= 7
    return x


@program()
async def augmented_items():
    counts = {"a": 1}
    counts["a"] += 5
    numbers = [1, 2, 3]
    numbers[-1] *= 10
    numbers[0] -= 1
    grid = [[1, 2], [3, 4]]
    grid[1][0] += 100
    return counts, numbers, grid


@program()
async def augmented_missing():
    counts = {}
    counts["a"] += 1
    return counts


@program()
async def augmented_lists():
    xs = [1]
    xs += [2, 3]
    xs += (4,)
    xs += "ab"
    s = "x"
    s += "y"
    t = (1,)
    t += (2,)
    return xs, s, t


@program()
async def augmented_attributes():
    item = Item("a", 2.0)
    item.price += 1.5
    item.price *= 2
    item.name += "!"
    return item


@program()
async def items():
    xs = [0, 0, 0]
    xs[0] = 1
    xs[-1] = 3
    d = {}
    d["x"] = xs[0]
    d[2] = "two"
    d[(1, 2)] = "pair"
    return xs, d


@program()
async def item_out_of_range():
    xs = [1]
    xs[3] = 2
    return xs


@program()
async def nested_items():
    data = {"users": [{"name": "a", "tags": []}]}
    data["users"][0]["name"] = "b"
    data["users"][0]["tags"] = ["x"]
    data["n"] = len(data["users"])
    return data


@program()
async def slices_assigned():
    xs = [1, 2, 3, 4, 5]
    xs[1:3] = [20, 30, 35]
    xs[:1] = []
    xs[-1:] = [99, 100]
    return xs


@program()
async def attributes():
    order = Order(1, [Item("a", 1.0)])
    order.note = "hello"
    order.items[0].price = 9.5
    order.items[0].tags = ["t"]
    return order, order.items[0].name


@program()
async def unknown_attribute():
    item = Item("a", 1.0)
    return item.colour


@program()
async def dict_attribute():
    d = {"a": 1}
    return d.a


@program((4,))
async def from_await(x):
    a = await add(x)
    b = c = await add(a, 10)
    d, e = await echo([b, c])
    return a, b, d + e


@program((3,), (0,))
async def walrus(x):
    if (y := x * 2) > 3:
        return "big", y
    return "small", y


@program(([3, 1],))
async def walrus_in_call(xs):
    total = sum([(n := len(xs)), n * 10])
    return total, n


@program((True,), (False,))
async def unbound(flag):
    if flag:
        x = 1
    return x


@program()
async def unbound_loop_variable():
    for i in []:
        pass
    return i


@program()
async def names_of_the_law():
    input = 1
    run = 2
    env = [3]
    secrets = {"a": 4}
    env.append(5)
    return input, run, env, secrets
