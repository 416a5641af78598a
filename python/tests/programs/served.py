"""What the programs of `services` use."""

from .actions import echo


class Base:
    async def ping(self):
        return await echo("ping")


class Mailer(Base):
    def __init__(self, name):
        self.name = name
        self.sent = []

    async def mail(self, text):
        return self.name, await echo(text)

    async def note(self, text):
        self.sent.append(await echo(text))
        return len(self.sent)

    async def unused(self):
        """Nobody names it, so that what it does is not looked at."""
        async with open("x") as file:
            return file

    async def __call__(self, text):
        return await echo(text)

    @classmethod
    async def made(cls, text):
        return cls.__name__, await echo(text)

    @staticmethod
    async def plain(text):
        return await echo(text)


class Builder:
    def build(self):
        return Mailer("built")


MAILER = Mailer("module")


def make(name):
    return Mailer(name)


def default():
    return MAILER
