"""Lists, dicts, sets, tuples and the functions over them."""

from .actions import add, echo, program


@program()
async def list_changes():
    xs = [3, 1, 2]
    xs.append(5)
    xs.extend([7, 8])
    xs.insert(0, 9)
    xs.insert(-1, 6)
    xs.remove(1)
    last = xs.pop()
    first = xs.pop(0)
    xs.reverse()
    return xs, last, first, xs.index(5), xs.count(3)


@program()
async def sorting():
    xs = [3, 1, 2]
    xs.sort()
    ys = ["b", "A", "c"]
    ys.sort(key=str.lower, reverse=True)
    zs = [(1, "b"), (0, "a")]
    zs.sort(key=lambda pair: pair[1])
    return xs, ys, zs, sorted(ys), sorted(xs, reverse=True), sorted(zs, key=lambda p: -p[0])


@program(([3, "a"],))
async def sorting_wrong(xs):
    return sorted(xs)


@program(([1],), ([],))
async def popping(xs):
    return xs.pop(), xs


@program(([1, 2], 3), ([1, 2], 1))
async def removing(xs, x):
    xs.remove(x)
    return xs


@program()
async def dict_changes():
    d = {"a": 1}
    d["b"] = 2
    d.update({"c": 3})
    d.setdefault("a", 9)
    got = d.setdefault("e", 5)
    gone = d.pop("b")
    default = d.pop("zz", "none")
    return d, got, gone, default, d.get("a"), d.get("q"), d.get("q", 1), len(d)


@program()
async def updating():
    d = {"a": 1}
    d.update({"b": 2})
    s = {1}
    s.update([2, 3])
    d.update([("c", 3)])
    return d, s


@program()
async def updating_in_a_loop():
    found = {}
    for i in range(3):
        found.update({i: i * i})
    return found


@program()
async def setdefaults():
    groups = {}
    for word in ["apple", "avocado", "bean"]:
        groups.setdefault(word[0], [])
        groups[word[0]].append(word)
    return groups


@program()
async def setdefault_answers():
    d = {}
    a = d.setdefault("x", 1)
    b = d.setdefault("x", 2)
    c = d.setdefault("y")
    return a, b, c, d


@program(({"a": 1}, "b"))
async def pop_missing(d, key):
    return d.pop(key)


@program(({"a": 1, "b": 2},), ({},))
async def dict_views(d):
    return list(d.keys()), list(d.values()), list(d.items()), sorted(d), "a" in d, "a" in d.keys(), len(d.items()), max(d.values(), default=0)


@program()
async def dict_forms():
    a = dict(x=1, y=2)
    b = dict([("k", 1)])
    c = dict(a, z=3)
    d = {**a, "x": 9, **b}
    e = dict(zip("ab", [1, 2]))
    return a, b, c, d, e, dict.fromkeys("ab", 0), {1: "int", "1": "text", None: "none", (1, 2): "tuple"}


@program()
async def merging():
    a = {"x": 1}
    b = {"y": 2}
    return a | b, {**b, **a}, [*[1, 2], *(3,)], (*"ab", 1), {*[1, 1], 2}


@program()
async def set_changes():
    s = {1, 2}
    s.add(3)
    s.add(1)
    s.discard(9)
    s.remove(2)
    return s, s | {7}, s & {1}, s - {1}, s ^ {1, 8}, s <= {1, 3, 4}, 3 in s, len(s)


@program()
async def set_methods():
    a = {1, 2, 3}
    return a.union([4]), a.intersection({2}), a.difference([1]), a.issubset({1, 2, 3, 4}), a.isdisjoint({9}), set() == set([])


@program(([1, [2]],))
async def unhashable(values):
    return {v for v in values}


@program(([1, 2, 3, 4, 5],), ([],))
async def slicing(xs):
    return xs[1:3], xs[:-1], xs[::-1], xs[::2], xs[-2:], xs[5:], xs[:], xs[3:1]


@program(([1, 2, 3], -1), ([1, 2, 3], -4), ((1,), 0), ({"a": 1}, "a"))
async def indexing(xs, i):
    return xs[i], xs[-1] if isinstance(xs, list) else None


@program(([3, 1, 2],), ((5,),))
async def functions(xs):
    return (
        len(xs), sum(xs), min(xs), max(xs), sorted(xs), list(reversed(xs)), any(xs), all(xs), list(enumerate(xs)),
        list(zip(xs, xs)), tuple(xs), set(xs), list(range(len(xs))), bool(xs), list(xs), max(xs, key=lambda x: -x),
    )  # fmt: skip


@program((["bb", "a", "ccc"],))
async def keys(words):
    return min(words, key=len), max(words, key=lambda w: w), sorted(words, key=len), sorted(words, key=lambda w: (-len(w), w))


@program()
async def tuples():
    t = (1, "a", None)
    a, b, c = t
    return t, t[0], t[-1], t + (2,), t * 2, len(t), (1,), (), t == (1, "a", None), t.index("a"), t.count(None)


@program((5,))
async def tuple_assignment(x):
    t = (1, 2)
    t[0] = x
    return t


@program(([1, 2],))
async def copies(xs):
    ys = list(xs)
    ys.append(3)
    zs = xs.copy()
    zs.append(4)
    ws = xs[:]
    ws.append(5)
    vs = [*xs]
    vs.append(6)
    return xs, ys, zs, ws, vs


@program()
async def stack_and_queue():
    stack, queue = [], []
    for i in range(4):
        stack.append(i)
        queue.append(i)
    order = []
    while stack:
        order.append(stack.pop())
        order.append(queue.pop(0))
    return order


@program((["a", "b", "a"],))
async def histogram(words):
    counts = {}
    for word in words:
        if word in counts:
            counts[word] += 1
        else:
            counts[word] = 1
    return sorted(counts.items(), key=lambda kv: (-kv[1], kv[0]))


@program(([1, 2, 3],))
async def values_from_calls(xs):
    found = [await add(x) for x in xs]
    found.append(await echo("end"))
    found.insert(0, await add(len(found)))
    last = found.pop()
    return found, last


@program()
async def matrix():
    a = [[1, 2], [3, 4]]
    b = [[0, 1], [1, 0]]
    product = [[sum(a[i][k] * b[k][j] for k in range(2)) for j in range(2)] for i in range(2)]
    transposed = [[row[i] for row in a] for i in range(2)]
    return product, transposed


@program()
async def grid_changes():
    grid = [[0 for _ in range(3)] for _ in range(2)]
    grid[0][1] = 5
    grid[1][2] += 7
    grid[1].append(8)
    return grid


@program(([1, 2, 3, 4],))
async def comparing(xs):
    return xs == [1, 2, 3, 4], xs < [1, 3], [] < xs, xs != list(reversed(xs)), xs[0] in xs[1:]


@program((3,))
async def tree(depth):
    node = {"value": 0, "children": []}
    for i in range(depth):
        node = {"value": i + 1, "children": [node]}
    values = []
    while node["children"]:
        values.append(node["value"])
        node = node["children"][0]
    return values


@program(([5, 1, 4],))
async def insert_sorted(values):
    result = []
    for value in values:
        place = 0
        while place < len(result) and result[place] < value:
            place += 1
        result.insert(place, value)
    return result


@program()
async def clearing():
    xs = [1, 2]
    xs.clear()
    d = {"a": 1}
    d.clear()
    return xs, d, len(xs)


@program()
async def extend_by_generators():
    xs = []
    xs.extend(i * i for i in range(4))
    xs.extend("ab")
    xs.extend({"k": 1})
    return xs
