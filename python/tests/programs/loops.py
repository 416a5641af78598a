"""Loops of every kind."""

from .actions import add, double, echo, maybe, program


@program(([1, 2, 3],), ([],), ((4, 5),), ("ab",), ({"k": 1, "l": 2},), ({7},))
async def over(values):
    found = []
    for value in values:
        found.append(value)
    return found


@program((5,), (None,))
async def over_no_iterable(value):
    for each in value:
        return each


@program((0,), (4,))
async def over_range(n):
    total = 0
    for i in range(n):
        total += i
    for i in range(10, 0, -3):
        total += i * 100
    for i in range(2, 4):
        total -= i
    return total


@program((["a", "b"],), ("xy",))
async def over_enumerate(words):
    found = {}
    for index, word in enumerate(words):
        found[word] = index
    for n, word in enumerate(words, start=10):
        found[n] = word
    return found


@program(([1, 2, 3], ["a", "b"]), ([], [1]))
async def over_zip(xs, ys):
    pairs = []
    for x, y in zip(xs, ys):
        pairs.append((x, y))
    return pairs


@program(([1, 2], [1]), ([1], [2]))
async def over_zip_strict(xs, ys):
    found = []
    for x, y in zip(xs, ys, strict=True):
        found.append(x + y)
    return found


@program(({"a": 1, "b": 2},), ({},), ({1: "x"},))
async def over_items(d):
    found = []
    for key, value in d.items():
        found.append([key, value])
    for key in d:
        found.append(key)
    for value in d.values():
        found.append(value)
    for key in d.keys():
        found.append(key)
    return found


@program(([1, 5, 2],), ([1, 2],), ([9],))
async def breaking(values):
    seen = []
    for value in values:
        if value > 4:
            break
        seen.append(value)
    return seen, value


@program(([1, 2, 3, 4],))
async def continuing(values):
    odd = []
    for value in values:
        if value % 2 == 0:
            continue
        odd.append(value)
    return odd


@program(([1, 2], 2), ([1, 2], 9), ([], 1))
async def for_else(values, wanted):
    for value in values:
        if value == wanted:
            found = "found"
            break
    else:
        found = "missing"
    return found


@program((5,), (50,))
async def while_loop(limit):
    n, rounds = 1, 0
    while n < limit:
        n *= 2
        rounds += 1
    return n, rounds


@program((3,), (-1,))
async def while_else(n):
    log = []
    while n > 0:
        n -= 1
        if n == 5:
            break
        log.append(n)
    else:
        log.append("else")
    return log


@program((10,), (2,))
async def while_true(n):
    while True:
        if n > 5:
            return "big", n
        n += 1
        if n == 4:
            break
    return "broke", n


@program((3,))
async def while_with_await(n):
    seen = []
    while (await add(n)) > 1:
        seen.append(n)
        n -= 1
    return seen


@program((2,), (0,))
async def while_await_else(n):
    while await add(n, -1) >= 0:
        n -= 1
    else:
        n = "done"
    return n


@program()
async def nested():
    found = []
    for i in range(4):
        for j in range(4):
            if j == i:
                continue
            if j > 2:
                break
            found.append((i, j))
        if i == 2:
            break
    return found


@program()
async def nested_else():
    found = []
    for i in range(3):
        for j in range(3):
            if i * j == 2:
                break
        else:
            found.append(("whole", i))
            continue
        found.append(("broken", i, j))
    else:
        found.append("all")
    return found


@program(([1, 2, 3],), ([],))
async def with_awaits(values):
    found = []
    for value in values:
        found.append(await add(value, 10))
    return found


@program(([2, 4, 5, 6],), ([2, 4],))
async def failing(values):
    total = 0
    for value in values:
        total += await maybe(value)
    return total


@program(([2, 4, 5, 6],))
async def returns_from_the_middle(values):
    for index, value in enumerate(values):
        doubled = await double(value)
        if doubled > 7:
            return index, doubled
    return None


@program(([[1, 2], [3, 4]],), ([[1]],))
async def unpacking_targets(pairs):
    found = 0
    for a, b in pairs:
        found += a * b
    return found


@program(([[1, 2, 3], [4, 5]],))
async def starred_targets(rows):
    found = []
    for head, *tail in rows:
        found.append((tail, head))
    return found


@program()
async def variable_after():
    for i in range(3):
        last = i * 10
    return i, last


@program()
async def rows_of_a_grid():
    grid = []
    for i in range(3):
        row = []
        for j in range(3):
            row.append(i * j)
        grid.append(row)
    return grid


@program()
async def item_targets():
    slots = [0, 0]
    for slots[0] in range(3):
        slots[1] += slots[0]
    return slots


@program(("banana",))
async def counting(word):
    counts = {}
    for letter in word:
        counts[letter] = counts.get(letter, 0) + 1
    best = ""
    for letter, count in sorted(counts.items()):
        if not best or count > counts[best]:
            best = letter
    return counts, best


@program(([3, 1, 2],))
async def bubble_sort(values):
    values = list(values)
    for i in range(len(values)):
        for j in range(len(values) - 1 - i):
            if values[j] > values[j + 1]:
                values[j], values[j + 1] = values[j + 1], values[j]
    return values


@program(([1, 2, 3],))
async def reversed_loop(values):
    found = []
    for value in reversed(values):
        found.append(await echo(value))
    return found


class Anew:
    """An iterator that begins anew whenever it is asked for one."""

    def __init__(self, count):
        self.count = count

    def __iter__(self):
        self.at = 0
        return self

    def __next__(self):
        self.at += 1
        if self.at > self.count:
            raise StopIteration
        return self.at


class Bare:
    """What goes over it is no more than an iterator must be."""

    def __iter__(self):
        return BareIterator()


class BareIterator:
    def __init__(self):
        self.at = 0

    def __next__(self):
        self.at += 1
        if self.at > 3:
            raise StopIteration
        return self.at


@program()
async def iterators_that_begin_anew():
    found = []
    for x in Anew(3):
        found.append(await add(x))
        if len(found) > 8:
            break
    for x in Bare():
        if x == 2:
            continue
        found.append(await add(x))
    else:
        found.append("else")
    return found, [await add(x) for x in Anew(2)], [await add(x) + y for x in Bare() for y in Anew(2)]


@program()
async def an_iterator_that_is_shared_begins_once():
    found, each = [], iter(Anew(6))
    for x in zip(each, [await add(1), 2]):
        found.append((x, await add(next(each))))
    for i, x in enumerate(Anew(2)):
        found.append((i, await add(x)))
    return found


@program((1,), (2,), (3,))
async def keys_that_change_in_a_loop(at):
    d, log = {1: 1, 2: 2, 3: 3}, []
    try:
        for key in d:
            log.append(await add(key))
            if key == at:
                del d[1]
                d[9] = 1
    except RuntimeError as error:
        log.append(str(error))
    return log
