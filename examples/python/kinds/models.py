"""Pydantic models with validation: what comes in is checked, what is made is checked, and methods are the models' own.

    lope run examples/python/kinds/models.py:register --input '{"form": {"email": "Ann@Example.org", "age": 30}}'
"""

from __future__ import annotations

from pydantic import BaseModel, Field, ValidationError, field_validator

from lope import action, workflow


class Form(BaseModel):
    email: str
    age: int = Field(ge=0)

    @field_validator("email")
    @classmethod
    def lower(cls, value: str) -> str:
        if "@" not in value:
            raise ValueError("no address")
        return value.lower()

    @property
    def domain(self) -> str:
        return self.email.partition("@")[2]


class Account(BaseModel):
    number: int
    form: Form
    notes: list[str] = []


@action
async def open_account(form: Form) -> Account:
    return Account(number=len(form.email), form=form)


@workflow
async def register(form: Form) -> Account:
    account = await open_account(form)
    account.notes.append(f"from {account.form.domain}")
    younger = account.form.model_copy(update={"age": account.form.age - 1})
    try:
        Form(email="nobody", age=-1)
    except ValidationError as error:
        account.notes.append(f"{error.error_count()} mistakes")
    again = await open_account(younger)
    if again.form.age < account.form.age:
        account.notes.append("younger")
    return account
