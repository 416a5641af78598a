"""A pydantic model, in a module of its own since pydantic may be missing."""

from pydantic import BaseModel


class Account(BaseModel):
    owner: str
    limits: dict[str, int] = {}
