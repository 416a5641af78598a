"""Dataclasses, models, enums, isinstance, attribute access."""

import datetime
import decimal
import uuid

from .actions import AppError, Colour, Item, Level, Order, Point, echo, make_order, price, program

try:
    from lope_test_models import Account
except ImportError:  # pydantic is not installed
    Account = None


@program()
async def constructing():
    item = Item("pen", 1.5)
    other = Item(name="cap", price=2.0, tags=["x"])
    return item, other, item == other, item == Item("pen", 1.5, [])


@program()
async def nested():
    order = Order(1, [Item("a", 1.0), Item("b", 2.0)], note="n")
    return order, order.items[1].name, [i.price for i in order.items], order.colour


@program()
async def frozen():
    p = Point(1, 2)
    seen = {p: "first", Point(3): "second"}
    return p, seen[Point(1, 2)], p == Point(1, 2), Point(5) in seen, len({Point(1), Point(1)})


@program()
async def frozen_changed():
    p = Point(1, 2)
    p.x = 5
    return p


@program()
async def unhashable():
    return {Item("a", 1.0)}


@program((3,))
async def from_actions(id):
    order = await make_order(id)
    total = sum([await price(item) for item in order.items])
    return order.id, total, isinstance(order, Order), isinstance(order.items[0], Item), order


@program((Order(7, [Item("x", 3.0)], Colour.GREEN),))
async def as_argument(order: Order):
    order.note = f"order {order.id}"
    order.items.append(Item("y", 4.0))
    return order, len(order.items), order.colour.value, order.colour is Colour.GREEN


@program((Colour.RED,), (Colour.GREEN,))
async def enums(colour):
    if colour == Colour.RED:
        label = "stop"
    else:
        label = "go"
    return label, colour.name, colour.value, colour, str(colour), repr(colour), f"{colour.name:>6}"


@program(("red",), ("blue",))
async def enum_by_value(text):
    colour = Colour(text)
    return colour, colour is Colour.RED


@program(("RED",), ("BLUE",))
async def enum_by_name(name):
    return Colour[name]


@program((Colour.GREEN,))
async def enum_keys(colour):
    prices = {Colour.RED: 1, Colour.GREEN: 2}
    return prices[colour], colour in prices, colour in (Colour.RED,), [c.value for c in [Colour.RED, colour]]


@program((Level.LOW,), (Level.HIGH,))
async def int_enums(level):
    return level == 1, level < Level.HIGH, level.value, level.name, level in (1, 5)


@program((1,), ("a",), (None,), (1.5,), ([],), ({},), (True,), ((1,),), (b"x",), ({1},))
async def isinstances(value):
    return (
        isinstance(value, int), isinstance(value, (str, bytes)), isinstance(value, list | dict), isinstance(value, type(None)),
        isinstance(value, float), isinstance(value, bool), isinstance(value, (tuple, set)), type(value).__name__,
    )  # fmt: skip


@program((Item("a", 1.0),), (Point(1),), (Colour.RED,), (5,))
async def isinstances_of_classes(value):
    if isinstance(value, Item):
        return "item", value.name
    if isinstance(value, (Point, Order)):
        return "point or order"
    return isinstance(value, Colour)


@program((0,), (1,))
async def exceptions_as_objects(x):
    error = AppError("a") if x else ValueError("b", 3)
    return isinstance(error, AppError), error.args, str(error), repr(error)


@program((datetime.date(2024, 2, 29), decimal.Decimal("1.10"), uuid.UUID(int=5)))
async def passed_through(day, amount, id):
    kept = {"day": day, "amounts": [amount], "id": id}
    back = await echo(kept)
    return kept, back, isinstance(day, datetime.date), isinstance(amount, decimal.Decimal), amount == amount, id == id


@program()
async def defaults_are_not_shared():
    a = Item("a", 1.0)
    b = Item("b", 1.0)
    a.tags.append("x")
    b.tags.append("y")
    b.tags.append("z")
    return a, b


@program()
async def attribute_functions():
    item = Item("a", 1.0)
    return getattr(item, "name"), getattr(item, "zip", "none"), hasattr(item, "price"), hasattr(item, "zip")


@program()
async def attribute_missing():
    return getattr(Item("a", 1.0), "zip")


@program()
async def sorting_objects():
    items = [Item("b", 2.0), Item("a", 3.0), Item("c", 1.0)]
    cheapest = min(items, key=lambda i: i.price)
    return [i.name for i in sorted(items, key=lambda i: i.name)], cheapest, max(items, key=lambda i: (len(i.tags), i.name))


@program()
async def object_text():
    order = Order(1, [Item("a", 1.0)])
    return str(order.items), f"{Point(1, 2)}", repr(Point(3)), str([Point(1)]), f"{order.note!r}"


@program()
async def building_up():
    catalogue = {}
    for name, cost in [("a", 1.0), ("b", 2.0)]:
        catalogue[name] = Item(name, cost)
        catalogue[name].tags.append(name * 2)
        catalogue[name].price *= 10
    return catalogue, sorted(catalogue), sum(i.price for i in catalogue.values())


if Account is not None:

    @program(("ann",))
    async def models(owner):
        account = Account(owner=owner, limits={"day": 3})
        return account, account.owner, account.limits["day"], account == Account(owner=owner, limits={"day": 3})

    @program((5,))
    async def models_validate(owner):
        account = Account(owner=owner)
        return account

    @program(("ann",))
    async def models_coerce(owner):
        account = Account(owner=owner, limits={"day": "7"})
        return account.limits, isinstance(account, Account), f"{account}", repr(account)

    @program(("ann",))
    async def models_changed(owner):
        account = Account(owner=owner)
        account.owner = owner.upper()
        account.limits["week"] = 1
        return account

    @program((7,))
    async def models_caught(owner):
        try:
            Account(owner=owner)
        except ValueError as error:
            return "bad", type(error).__name__
