"""A set that is filled again by its recipe goes through its elements as the one that it was made for."""

from __future__ import annotations

import random
from typing import Any

import pytest
from lope.region.sets import EXACT_MAX, fill, frozen, frozen_recipe, recipe


def grown(rng: random.Random, size: int, kind: str) -> set[Any]:
    made: list[Any] = [rng.randrange(10**6) for _ in range(size)]
    if kind == "text":
        made = [f"k{each}" for each in made]
    elif kind == "tuples":
        made = [(each, 1) for each in made]
    found = set(made)
    way = rng.randrange(4)
    if way == 1:
        found = found | set(made[: size // 2])
    elif way == 2:
        for each in made[: size // 2]:
            found.discard(each)
    elif way == 3:
        for _ in range(40):
            if found:
                found.pop()
            found.add(rng.randrange(1000))
    return found


def again(value: set[Any]) -> set[Any]:
    """As a reader makes it: by its elements in their order, then by the recipe if there is one."""
    made = set(list(value))
    found = recipe(value)
    if found is not None:
        fill(made, *found)
    return made


@pytest.mark.parametrize("kind", ["numbers", "text", "tuples"])
@pytest.mark.parametrize("size", [0, 1, 2, 4, 5, 10, 18, 19, 50, 77, 200, EXACT_MAX])
def test_a_set_has_its_order_again(kind: str, size: int) -> None:
    rng = random.Random(size)
    rounds, others = 100 if size < 200 else 10, 0
    for _ in range(rounds):
        value = grown(rng, size, kind)
        made = again(value)
        assert made == value
        others += list(made) != list(value)
    # Of sets from which much was taken some have no order of coming: see the documentation.
    assert others <= rounds // 25


def test_pop_goes_on_where_it_was() -> None:
    for size in (5, 12, 40, 100):
        value = set(range(0, size * 7, 7))
        taken = [value.pop() for _ in range(size // 2)]
        value.update(taken[:2])
        made = again(value)
        assert [made.pop() for _ in range(len(made))] == [value.pop() for _ in range(len(value))]


def test_a_set_that_is_filled_twice_is_as_its_last_recipe_says() -> None:
    value, made = set(range(0, 70, 7)), set[int]()
    for _ in range(6):
        value.pop()
        value.add(1000 + len(made))
        found = recipe(value)
        if found is not None:
            fill(made, *found)
        else:
            made = set(list(value))
        assert list(made) == list(value)


def frozen_from(rng: random.Random, value: set[Any]) -> frozenset[Any]:
    """As programs make them: of a set, of a list, by adding and by taking away."""
    made = list(value)
    way = rng.randrange(5)
    if way == 0:
        return frozenset(value)
    if way == 1:
        return frozenset(made)
    if way == 2:
        return frozenset(made[: len(made) // 2]) | value
    if way == 3:
        return frozenset(made) - set(made[::3])
    return frozenset(value) & set(made[len(made) // 4 :])


@pytest.mark.parametrize("kind", ["numbers", "text", "tuples", "eights"])
@pytest.mark.parametrize("size", [0, 1, 4, 5, 10, 16, 19, 50, 77, 200, EXACT_MAX])
def test_a_frozenset_has_its_order_again(kind: str, size: int) -> None:
    rng = random.Random(size)
    for _ in range(100 if size < 200 else 10):
        grew = {8 * each for each in grown(rng, size, "numbers")} if kind == "eights" else grown(rng, size, kind)
        value = frozen_from(rng, grew)
        found = frozen_recipe(value)
        made = frozenset(list(value)) if found is None else frozen(*found)
        assert made == value
        assert list(made) == list(value)


def test_a_frozenset_that_lost_elements_keeps_the_others() -> None:
    rng = random.Random(1)
    for _ in range(300):
        made = [rng.randrange(100) for _ in range(rng.choice([3, 5, 9, 19, 40, 80]))]
        value = frozenset(made) ^ frozenset([*made[::2], 77, 5])
        found = frozen_recipe(value)
        again = frozenset(list(value)) if found is None else frozen(*found)
        assert again == value
