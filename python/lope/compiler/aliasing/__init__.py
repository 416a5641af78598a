"""Aliasing: values have no identity in the law, so a change through one name must not be visible through another.

A walk over each function keeps which variables may share a value: `same` (one object), `holds` (one is part of the
other), `deep` (they share parts). A change that another variable in use would see is refused with advice; everything
else means the same with and without identity.

`shapes` reads syntax, `sharing` keeps the edges, `origins` says what values are made of, `changes` refuses, `walk` goes over
statements.
"""

from .walk import Walk

__all__ = ["Walk"]
