"""Programs made by dice: what people write between awaits, in all orders, over a few shared variables.

What runs at once shares nothing that it changes, since an action takes its time. A program is refused, or ends under the law as under asyncio, with the same value or the same exception. `python
tests/generated.py SEED COUNT` tries many; workers forget heaps at random meanwhile, so that what is kept in the journal is
what programs go on from.
"""

from __future__ import annotations

import importlib.util
import random
import re
import sys
import tempfile
from collections import Counter
from pathlib import Path
from typing import Any, Callable, Optional

HERE = Path(__file__).parent
sys.path[:0] = [str(HERE), str(HERE.parent)]

from differential import binary, durably, plainly  # noqa: E402
from lope import CompileError  # noqa: E402
from lope.decorators import actions, workflows  # noqa: E402
from lope.region import heap as heaps  # noqa: E402
from lope.testing import Law, _compiled  # noqa: E402

HEAD = '''
import asyncio, collections, copy, dataclasses, datetime, decimal, enum, functools, itertools, json, math, operator, re, string
from collections import Counter, OrderedDict, defaultdict, deque, namedtuple
from dataclasses import dataclass, field
from decimal import Decimal
from typing import NamedTuple
from zoneinfo import ZoneInfo
from pydantic import BaseModel, Field, ValidationError, field_validator
from differential import crossed
from lope import action, gather, workflow

UTC = datetime.timezone.utc
ROME = ZoneInfo("Europe/Rome")

class Colour(enum.Enum):
    RED = 1
    BLUE = 2
    CRIMSON = 1
    @property
    def warm(self): return self is Colour.RED

class Level(enum.IntEnum):
    LOW = 1
    HIGH = 5

class Flag(enum.Flag):
    A = enum.auto()
    B = enum.auto()

class Word(str, enum.Enum):
    YES = "yes"
    NO = "no"

class Point(NamedTuple):
    x: int
    y: int = 0
    def moved(self, by): return self._replace(x=self.x + by)

@dataclass
class Account:
    owner: str
    items: list = field(default_factory=list)
    balance: Decimal = Decimal("0.00")
    def __bool__(self): return bool(self.items)
    def __len__(self): return len(self.items)
    def __eq__(self, other): return isinstance(other, Account) and self.owner.lower() == other.owner.lower()
    def __hash__(self): return hash(self.owner.lower())
    @property
    def total(self): return sum(self.items, Decimal(0))
    def add(self, x):
        self.items.append(x)
        return self
    def same(self): return self.items

@dataclass(order=True, frozen=True)
class Version:
    major: int
    minor: int = 0

@dataclass(slots=True)
class Slim:
    n: int
    parts: list = field(default_factory=list)

class Plain:
    shared = []
    def __init__(self, n): self.n = n; self.log = []
    def __repr__(self): return f"Plain({self.n}, {self.log})"
    def __lt__(self, other): return self.n < other.n
    def __add__(self, other): return Plain(self.n + (other.n if isinstance(other, Plain) else other))
    def __iadd__(self, other): self.n += other if isinstance(other, int) else other.n; self.log.append(other if isinstance(other, int) else other.n); return self
    def __contains__(self, x): return x in self.log
    def __getitem__(self, i): return self.log[i]
    def __enter__(self): self.log.append("in"); return self
    def __exit__(self, kind, error, tb): self.log.append(kind and kind.__name__); return kind is LookupError

class Mine(Exception):
    def __init__(self, code, *rest): super().__init__(code, *rest); self.code = code

class Worse(Mine): pass

@action(name="generated.add")
async def add(x):
    return x + 1

@action(name="generated.echo")
async def echo(value):
    return crossed(value, "value")

@action(name="generated.fail")
async def fail(x):
    if x % 2: raise ValueError(f"odd {x}")
    return x

def keep(x): return x
def fresh(xs): return list(xs)
def grow(xs, seen=None):
    seen = xs if seen is None else seen
    seen.append(len(seen))
    return seen
def flat(xs): return [x for x in xs if isinstance(x, int) and not isinstance(x, bool)]
async def held(xs, n):
    xs.append(n)
    m = await add(n)
    xs.append(m)
    return xs
async def risky(xs, n):
    try:
        xs.append(await fail(n))
    except ValueError as error:
        xs.append(str(error))
        if n > 4: raise Worse(n) from error
    finally:
        xs.append("f")
    return n
async def deep(n, found):
    if n <= 0: return found
    found.append(await add(n))
    return await deep(n - 1, found)

class Model(BaseModel):
    n: int = Field(default=1, ge=-10**30)
    parts: list = []
    when: datetime.date = datetime.date(2024, 2, 29)
    @field_validator("n")
    @classmethod
    def whole(cls, value): return value
    @property
    def double(self): return self.n * 2
    def grow(self, x):
        self.parts.append(x)
        return self.parts
def maker(n):
    past = []
    def step(v=1):
        nonlocal n
        n += v
        past.append(n)
        return n
    return step, past

def shown(value, depth=0):
    if depth > 6: return "..."
    if isinstance(value, (str, int, float, type(None), Decimal, datetime.datetime, datetime.date, datetime.timedelta)) and not isinstance(value, enum.Enum):
        return [type(value).__name__, repr(value)]
    if isinstance(value, (dict,)):
        return [type(value).__name__, [[shown(k, depth + 1), shown(v, depth + 1)] for k, v in value.items()]]
    if isinstance(value, (set, frozenset)):
        return [type(value).__name__, sorted(str(shown(v, depth + 1)) for v in value)]
    if isinstance(value, (list, tuple, deque)):
        return [type(value).__name__, [shown(v, depth + 1) for v in value]]
    if isinstance(value, BaseException):
        return [type(value).__name__, str(value), shown(value.__cause__, depth + 1)]
    if isinstance(value, BaseModel): return ["Model", shown(vars(value), depth + 1), sorted(value.model_fields_set)]
    if isinstance(value, Slim): return ["Slim", value.n, shown(value.parts, depth + 1)]
    if dataclasses.is_dataclass(value): return [type(value).__name__, shown(vars(value), depth + 1)]
    return [type(value).__name__, repr(value) if not callable(value) else "callable"]
'''

LISTS, NUMBERS, DICTS, OBJECTS = ("xs", "ys", "zs"), ("a", "b", "c"), ("d", "e"), ("p", "q")

# What a token of a form stands for, by the method that writes it.
TOKENS = {
    "n": "n", "l": "x", "k": "k", "o": "o", "N": "number", "V": "value", "A": "any", "T": "test", "C": "change",
}  # fmt: skip
TOKEN = re.compile("@([a-zA-Z])")

NUMBER_FORMS = (
    "@n", "@i", "len(@l)", "@n % 3", "@n // @h", "sum(flat(@l))", "await add(@n)", "@n + @n", "@n * @n % 10007", "2 ** abs(@n % 90)",
    "max(@n, @i)", "int(Decimal('@i.5'))", "round(@n / 3, 2)", "@n if @T else @i", "(await echo([@n]))[0]", "len(@k)", "@o.n",
    "Level.HIGH + @i", "abs(@n)", "hash(@i) % 7", "@l.count(@i)", "divmod(@n, 4)[1]", "math.gcd(abs(@n), 12)", "(lambda v: v + @i)(@n)",
    "await fail(@n)",
)  # fmt: skip

LIST_FORMS = (
    "[]", "[@N]", "[@x]", "@x", "list(@x)", "@x + @y", "@x[1:]", "[v for v in @x]", "[@x, @y]", "[*@x, 7]", "@x if @T else @y",
    "await echo(@x)", "keep(@x)", "fresh(@x)", "@x or @y", "[@x] * 2", "@x.copy()", "(@x[0] if @x and isinstance(@x[0], list) else [])",
    "grow(@x)", "await held(@x, @n)", "[@x for _ in range(2)]", "copy.deepcopy(@x)", "sorted(flat(@x), reverse=True)",
    "await deep(2, @x)", "@o.log", "[await add(v) for v in flat(@x)[:3]]", "list(itertools.chain(@x, @y))", "@k.setdefault(@n, @x)",
    "list(@k.values())", "Plain.shared[:]", "[f() for f in [lambda: @n] * 2]",
)  # fmt: skip

ANY_FORMS = (
    "@N", "@V", "Decimal(@n) / 4", "Decimal('0.00')", "Point(@n).moved(1)", "Colour.CRIMSON", "Level.LOW", "Word.YES", "Flag.A | Flag.B",
    "Version(@n)", "f'{@n:>4}|{@l!r}'", "Counter(@l[:0] or 'abca')", "datetime.datetime(2024, 3, 31, 1, 30, tzinfo=UTC).astimezone(ROME)",
    "datetime.date(2024, 1, 1) + datetime.timedelta(days=abs(@n) % 400)", "{@n: @l}", "(@n, @l)", "'@w'.split('-')", "frozenset([@n, 1])",
    "0.1 + 0.2", "await echo(Decimal(@n))", "await echo(Point(@n, 2))", "await echo(Colour.BLUE)", "None", "True",
    "json.loads(json.dumps(flat(@l)))", "Slim(@n, @l)", "model.double", "await echo(model)", "model.model_copy(update={'n': 3})",
    "Model(parts=[@n], when='2024-01-02').model_dump()", "[f(@n) for f in fs]", "[g() for g in gs]", "step(@i)", "past", "hoard(@n)",
)  # fmt: skip

TESTS = (
    "@n > @j", "@l", "not @n", "@l == @l", "@l is @l", "@n in @l", "isinstance(@n, int) and @l", "Decimal('0.00')",
    "Decimal('1.0') == Decimal('1.00')", "acc", "acc == Account('ANN')", "@n in @k", "isinstance(Level.LOW, int)",
    "Colour.RED is Colour.CRIMSON", "Word.YES == 'yes'", "Version(1, 2) < Version(@n)", "sum([0.1] * 10) == 1.0", "any(@l)", "@o is @o",
    "(m := len(log)) % 2", "await add(@n) > 3", "0 < @n <= 5", "@k is @k",
)  # fmt: skip

CHANGES = (
    "@x.append(@N)", "@x.append(@l[:2])", "@x.extend(@l[:3])", "@x += [@N]", "@x.insert(0, @N)", "@x.reverse()", "@x[0] = @N",
    "@x[-1] = @l[:]", "@x.clear()", "a = @x.pop() if @x else 0", "@x[:1] = [@N]", "@k[@n] = @A", "@k.setdefault(@n, []).append(@N)",
    "@k.pop(@n, None)", "@k.update({'z': @n})", "@o += @n", "@o.log.append(@N)", "@o.n = @N", "@o = @o", "@o = Plain(@N)", "acc.add(@N)",
    "acc.same().append(@n)", "@x = acc.items", "acc.balance += Decimal('0.10')", "del @x[0]", "@k = @k", "@k = dict.fromkeys([1, 2], @x)",
    "min([@x, [9] * 50], key=len).append(1)", "groups[@n % 3].append(@n)", "counts[str(@n)] += 1", "queue.append(@n)",
    "a = queue.popleft() if queue else @n", "seen.add(@n)", "seen -= {@n}", "@x.sort(key=str)", "slim.parts = @x",
    "slim.parts.append(@n)", "slim.n += @n", "@x = slim.parts",
    "od.move_to_end('k', last=False) if 'k' in od else od.__setitem__('k', @n)",
    "od[@n] = @x", "model.parts.append(@N)", "model.n = @N", "@x = model.grow(@n)", "model = model.model_copy()", "model.parts = @x",
    "fs.append(lambda v: (v, @n))", "fs.append(lambda v, w=@n: w)", "fs.append(closure)", "fs.append(bump)", "gs.append(lambda: @x)",
    "gs = [lambda: (i, @n) for i in range(2)]", "step, past = maker(@n)", "gs.append(functools.partial(bump, @n))", "other = bump",
    "gs.append(@x.copy)", "bump(@n)", "hoard.seen = @x", "gs.append(lambda: hoard(1))", "del fs[1:]",
)  # fmt: skip

STATEMENTS = (
    "@n = @N", "@n += @N", "@x = @V", "@x = @y = @V", "@C", "@C", "@C", "@C", "@x, @y = @y, @x", "log.append(@A)",
    "log.append(shown(@A))", "await add(@n)", "@x[0:0] = [await add(@n)]", "log.append(await gather(held(@x[:1], 1), held(@y[:], 2)))",
    "log.append([type(r).__name__ for r in await gather(risky([], @n), risky(@y[:], 7), return_exceptions=True)])",
    "@n, *rest = [*flat(@x), 1, 2]; log.append(rest)", "log.append(@x is @y)", "log.append([f() for f in [lambda: @n, lambda v=@n: v]])",
    "log.append([f() for f in [lambda: i for i in range(3)]])", "call = add(@n); @n = 0; log.append(await call)",
    "log.append(closure(@n))", "log.append(await inner(@n))", "log.append(await pick(inner)(@n))", "log.append(fs[-1](@n))",
    "log.append([shown(f(1)) for f in fs])", "log.append(step() + len(past))", "log.append([fs[0] is f for f in fs])",
    "log.append(getattr(hoard, 'seen', None))", "hs.append(inner); await add(1); log.append(await hs[0](@n))", "@x = [await echo(@n), await add(@n)]", "log.append(@o.log is @x)",
    "log.append(min(@x, default=0, key=str))", "log.append(' '.join(map(str, flat(@x))))",
    "log.append({k: len(str(v)) for k, v in @k.items()})", "log.append(list(zip(@x, @y)))",
    "log.append(functools.reduce(operator.add, flat(@x), 0))", "log.append(sorted({*flat(@x)}))",
    "log.append(re.sub(r'\\d', 'n', str(@x))[:40])", "log.append([*enumerate(@x)][:2])",
)  # fmt: skip


class Writer:
    """Writes one program."""

    def __init__(self, seed: int) -> None:
        self.dice = random.Random(seed)
        self.lines: list[str] = []
        self.count = 0

    def one(self, *choices: str) -> str:
        return self.dice.choice(choices)

    def n(self) -> str:
        return self.dice.choice(NUMBERS)

    def x(self) -> str:
        return self.dice.choice(LISTS)

    def k(self) -> str:
        return self.dice.choice(DICTS)

    def o(self) -> str:
        return self.dice.choice(OBJECTS)

    def fresh(self, word: str) -> str:
        self.count += 1
        return f"{word}{self.count}"

    def number(self) -> str:
        return self.form(NUMBER_FORMS)

    def value(self) -> str:
        return self.form(LIST_FORMS)

    def any(self) -> str:
        return self.form(ANY_FORMS)

    def test(self) -> str:
        return self.form(TESTS)

    def change(self) -> str:
        return self.form(CHANGES)

    def simple(self) -> str:
        return self.form(STATEMENTS)

    def form(self, forms: tuple[str, ...]) -> str:
        """One of the forms, with what its tokens stand for: `@x` and `@y` are the same list wherever they stand in it."""
        fixed = {"x": self.x(), "y": self.x(), "i": str(self.dice.randint(-2, 9))}
        return TOKEN.sub(lambda found: fixed.get(found[1]) or self.token(found[1]), self.dice.choice(forms))

    def token(self, letter: str) -> str:
        if letter in "jhw":
            return {"j": str(self.dice.randint(-1, 4)), "h": self.one("2", self.n()), "w": self.one("a-b", "Zoë", "", "x y")}[letter]
        return str(getattr(self, TOKENS[letter])())

    def block(self, depth: int, indent: str) -> None:
        for _ in range(self.dice.randint(1, 3)):
            self.statement(depth, indent)

    def statement(self, depth: int, indent: str) -> None:
        if depth == 0 or self.dice.random() < 0.55:
            self.lines.append(indent + self.simple())
            return
        kinds: list[Callable[[int, str], None]] = [
            self.branch, self.loop, self.loop, self.attempt, self.attempt, self.manager, self.matching, self.counting, self.task, self.batches,
            self.guarded, self.group,
        ]  # fmt: skip
        self.dice.choice(kinds)(depth, indent)

    def branch(self, depth: int, indent: str) -> None:
        self.lines.append(f"{indent}if {self.test()}:")
        self.block(depth - 1, indent + "    ")
        if self.dice.random() < 0.5:
            self.lines.append(f"{indent}else:")
            self.block(depth - 1, indent + "    ")

    def loop(self, depth: int, indent: str) -> None:
        inner = indent + "    "
        over = self.one(
            "range(3)", self.x(), f"list({self.x()})", f"enumerate({self.x()})", f"zip({self.x()}, range(4))", f"{self.k()}.items()",
            f"{self.k()}", f"reversed({self.x()})", f"sorted({self.k()}, key=str)", "'ab'", f"list({self.k()}.values())", f"seen", f"(v for v in list({self.x()}))",
        )  # fmt: skip
        self.lines += [f"{indent}for i in {over}:", f"{inner}log.append(0)", f"{inner}if len(log) > 60:", f"{inner}    break"]
        self.block(depth - 1, inner)
        if self.dice.random() < 0.4:
            self.lines += [f"{inner}if {self.test()}:", f"{inner}    {self.one('break', 'continue')}"]
        if self.dice.random() < 0.2:
            self.lines.append(f"{indent}else:")
            self.block(depth - 1, inner)

    def counting(self, depth: int, indent: str) -> None:
        inner, name = indent + "    ", self.fresh("w")
        self.lines += [f"{indent}{name} = 0", f"{indent}while {name} < 3 and {self.one('True', self.test())}:", f"{inner}{name} += 1"]
        self.block(depth - 1, inner)

    def attempt(self, depth: int, indent: str) -> None:
        inner = indent + "    "
        self.lines.append(f"{indent}try:")
        self.block(depth - 1, inner)
        self.lines.append(inner + self.one(
            "a = a // (b % 3)", f"raise Mine({self.n()}, 'x')", f"await fail({self.n()})", f"raise Worse({self.n()}) from KeyError('k')", f"log.append({self.x()}[5])",
            f"log.append({self.k()}['nope'])", "pass", f"await risky({self.x()}, {self.n()})", "raise LookupError", f"return shown([{self.x()}, log])",
        ))  # fmt: skip
        handler = self.one("ZeroDivisionError", "Exception as error", "(TypeError, IndexError)", "Mine as error", "ValueError as error", "LookupError")
        self.lines.append(f"{indent}except {handler}:")
        if "error" in handler:
            self.lines.append(f"{inner}log.append(shown(error)); last = error")
        self.block(depth - 1, inner)
        if self.dice.random() < 0.2:
            self.lines.append(f"{inner}raise")
        if self.dice.random() < 0.3:
            self.lines.append(f"{indent}else:")
            self.block(depth - 1, inner)
        if self.dice.random() < 0.4:
            self.lines.append(f"{indent}finally:")
            self.block(depth - 1, inner)

    def manager(self, depth: int, indent: str) -> None:
        self.lines.append(f"{indent}with {self.o()} as w:")
        self.block(depth - 1, indent + "    ")
        if self.dice.random() < 0.3:
            self.lines.append(f"{indent}    raise LookupError('in with')")

    def matching(self, depth: int, indent: str) -> None:
        inner = indent + "        "
        subject = self.one(self.x(), self.n(), "acc", f"{{'n': {self.n()}}}", f"Point({self.n()}, 1)", "Colour.RED")
        self.lines.append(f"{indent}match {subject}:")
        for case in self.dice.sample(["[]", "[first, *others]", "int() as i if i > 2", "Account(owner=who)", "{'n': n}", "Point(x, y)", "Colour.RED"], 3):
            self.lines.append(f"{indent}    case {case}:")
            self.block(depth - 1, inner)
        self.lines += [f"{indent}    case _:", f"{inner}log.append('other')"]

    def task(self, depth: int, indent: str) -> None:
        name = self.fresh("t")
        self.lines.append(f"{indent}{name} = asyncio.create_task({self.one('held', 'risky')}({self.x()}[:], {self.n()}))")
        self.block(depth - 1, indent)
        self.lines.append(f"{indent}log.append(shown(await {name}))")

    def guarded(self, depth: int, indent: str) -> None:
        self.lines.append(f"{indent}async with asyncio.{self.one('Semaphore(1)', 'Lock()')}:")
        self.block(depth - 1, indent + "    ")

    def group(self, depth: int, indent: str) -> None:
        if sys.version_info < (3, 11):
            return self.guarded(depth, indent)
        name, inner = self.fresh("g"), indent + "    "
        self.lines += [
            f"{indent}async with asyncio.TaskGroup() as {name}:", f"{inner}{name}1 = {name}.create_task(held({self.x()}[:], {self.n()}))",
            f"{inner}{name}2 = {name}.create_task(deep(2, []))", f"{indent}log.append([{name}1.result(), {name}2.result()])",
        ]  # fmt: skip

    def batches(self, depth: int, indent: str) -> None:
        inner, x = indent + "    ", self.x()
        self.lines += [
            f"{indent}for at in range(0, min(len({x}), 6), 2):", f"{inner}batch = {x}[at:at + 2]",
            f"{inner}log.append(await gather(*[echo(v) for v in flat(batch)]))",
        ]  # fmt: skip

    def source(self, name: str) -> str:
        """A program; of what it could use it has what it uses."""
        for _ in range(6):
            self.statement(2, "    ")
        used = set(re.findall(r"[A-Za-z_]\w*", "\n".join(self.lines))) | {"xs", "ys", "zs", "a", "b", "c", "log"}
        given: list[str] = []
        for made, lines in reversed(PRELUDE.items()):
            if used & set(made.split()):
                given[:0] = lines.splitlines()
                used |= set(made.split()) | set(re.findall(r"[A-Za-z_]\w*", lines))
        parts = ", ".join(each for each in SHOWN if each in used)
        same = [each for each in ("d is e", "p is q", "xs is acc.items") if set(re.findall("[a-z]+", each)) - {"is", "items"} <= used]
        ending = f"    return [shown([{parts}, log[:80]]), {', '.join(['xs is zs', *same])}]"
        return "\n".join([f"async def {name}(xs, ys, a, b):", *given, *self.lines, ending])


# What programs begin with, by the names that it makes.
PRELUDE = {
    "zs": "    zs = xs", "c": "    c = 2", "log": "    log = []", "d e": "    d = {1: xs}\n    e = d", "p q w": "    p = Plain(1)\n    q = p",
    "acc": "    acc = Account('Ann')", "groups": "    groups = defaultdict(list)", "counts": "    counts = Counter()",
    "queue": "    queue = deque([1])", "seen": "    seen = {1, 2}", "slim": "    slim = Slim(1)", "od": "    od = OrderedDict(k=1)",
    "last": "    last = None", "model": "    model = Model(parts=[1])", "hs": "    hs = []", "fs": "    fs = [lambda v: v + c]",
    "gs": "    gs = []", "step past": "    step, past = maker(a)", "pick": "    pick = lambda f: f",
    "hoard": "    def hoard(v, kept=[]):\n        kept.append(v)\n        return len(kept)",
    "bump": "    def bump(v):\n        nonlocal b\n        b += 1\n        log.append(b)\n        return [b, v]",
    "closure": "    def closure(v):\n        log.append(a)\n        return [v, len(xs)]",
    "inner": "    async def inner(v):\n        nonlocal c\n        c += 1\n        log.append(await add(v))\n        return c + a",
}  # fmt: skip
SHOWN = ("xs", "ys", "zs", "a", "b", "c", "d", "e", "p", "q", "acc", "groups", "counts", "queue", "seen", "slim", "od", "last", "model", "past")


CASES: tuple[tuple[Any, ...], ...] = (([1, 2], [3], 1, 2), ([[5], 6], [], 0, 3))


def load(path: Path, source: str) -> Any:
    path.write_text(source, encoding="utf-8")
    spec = importlib.util.spec_from_file_location(path.stem, path)
    assert spec is not None and spec.loader is not None
    module = importlib.util.module_from_spec(spec)
    sys.modules[path.stem] = module
    spec.loader.exec_module(module)
    return module


class Tried:
    """What became of programs."""

    def __init__(self) -> None:
        self.same = 0
        # Why programs were refused, and how many for each reason.
        self.reasons: Counter[str] = Counter()
        self.differ: list[tuple[int, str]] = []


def forgetful(dice: random.Random) -> Callable[[Any], Any]:
    """A worker that forgets heaps, as one does that was killed."""
    load_heap = heaps.load

    def forgets(given: Any) -> Any:
        if dice.random() < 0.3:
            heaps._KEPT.clear()
        return load_heap(given)

    return forgets


def attempt(seeds: range, folder: Path, tried: Optional[Tried] = None) -> Tried:
    """Tries programs with these seeds."""
    from lope.region import running

    tried = tried or Tried()
    for known in (actions, workflows):
        for name in [each for each in known if each.startswith("generated.")]:
            del known[name]
    sources = {seed: Writer(seed).source(f"program_{seed}") for seed in seeds}
    text = "\n\n".join(f'@workflow(name="generated.program_{seed}")\n{source}' for seed, source in sources.items())
    module = load(folder / f"generated_programs_{seeds.start}.py", HEAD + text)
    law, before = Law(binary()), running.load
    running.load = forgetful(random.Random(seeds.start))
    try:
        for seed, source in sources.items():
            workflow = getattr(module, f"program_{seed}")
            try:
                _compiled(workflow)
            except CompileError as refusal:
                tried.reasons[refusal.reason] += 1
                continue
            for case in CASES:
                expected = plainly(workflow, case, {}).crossed().shown()
                found = durably(law, workflow, case, {}).shown()
                if found != expected:
                    tried.differ.append((seed, f"seed {seed} {case}\n{source}\nCPython: {expected}\nLope:    {found}"))
                    break
            else:
                tried.same += 1
    finally:
        running.load = before
        law.close()
    return tried


def main() -> int:
    first, count = int(sys.argv[1]), int(sys.argv[2])
    tried = Tried()
    with tempfile.TemporaryDirectory() as folder:
        for start in range(first, first + count, 200):
            seeds = range(start, min(start + 200, first + count))
            attempt(seeds, Path(folder), tried)
            print(f"{seeds.stop - first} tried: {tried.same} the same, {tried.reasons.total()} refused, {len(tried.differ)} differ", flush=True)
            for _, text in tried.differ[:3]:
                print(text)
            if len(tried.differ) > 20:
                break
    print("refused:", dict(tried.reasons.most_common()))
    return 1 if tried.differ else 0


if __name__ == "__main__":
    sys.exit(main())
