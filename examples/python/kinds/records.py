"""Records that are changed where they stand, and seen changed through every name that leads to them.

    lope run examples/python/kinds/records.py:update --input '{"names": ["ann", "bob"]}'
"""

from __future__ import annotations

from dataclasses import dataclass, field, replace
from typing import NamedTuple

from lope import action, workflow


class Place(NamedTuple):
    city: str
    floor: int = 0


@dataclass
class Person:
    name: str
    friends: list["Person"] = field(default_factory=list)
    tags: dict[str, int] = field(default_factory=dict)
    place: Place = Place("Rome")


@action
async def score(name: str) -> int:
    return len(name)


@workflow
async def update(names: list[str]) -> dict[str, object]:
    people = [Person(name) for name in names]
    by_name = {person.name: person for person in people}
    first = last = people[0]
    for person in people:
        person.tags["score"] = await score(person.name)
        by_name[person.name].friends.extend(each for each in people if each is not person)
        last = person
    last.place = last.place._replace(floor=2)
    moved = replace(first, name="copy")
    moved.tags["shared"] = 1
    first.tags |= {"own": await score("x")}
    return {
        "tags": [person.tags for person in people],
        "same": moved.tags is first.tags and last.friends[0] is first,
        "floors": [person.place.floor for person in people],
        "names": [friend.name for friend in first.friends],
    }
