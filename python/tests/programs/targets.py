"""Awaits where something is assigned to: the value comes first, then each whole and its key."""

from .actions import add, echo, program


class Box:
    def __init__(self):
        self.held = 1


@program((1,))
async def keys_that_are_awaited(x):
    found, log = {}, []

    def noted(value):
        log.append(value)
        return value

    found[noted(await add(x))] = noted(await add(5))
    found[await add(x)] += await add(10)
    found[await add(7)] = found[noted(8) + await add(0)] = log
    return found, log


@program((1,))
async def wholes_that_are_awaited(x):
    boxes = [Box()]
    boxes[await echo(0)].held = await add(x)
    boxes[await echo(0)].held += await add(x)
    (await echo([1]))[0] = x
    return boxes[0].held


@program(([1, 2, 3],), ([],))
async def parts_of_lists(xs):
    xs[await add(0) :] = [await add(1)]
    xs[await echo(0)] -= 3
    xs[await add(4)] = await echo("too far")


@program(([1, 2, 3],))
async def slices_that_grow(xs):
    both = xs
    xs[1:2] += [await add(5)]
    xs[await add(2) :] *= await add(1)
    return xs, both is xs
