"""The grammar of generated programs: what their module has, and the forms that their statements take.

In a form `@x` and `@y` are lists, the same one wherever the letter stands; other letters are made anew each time.
"""

from __future__ import annotations

import re
from typing import Any

HEAD = '''
import asyncio, collections, copy, csv, dataclasses, datetime, decimal, enum, functools, heapq, io, itertools, json, math, operator, re, string
from collections import ChainMap, Counter, OrderedDict, UserList, defaultdict, deque, namedtuple
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

class Tone(*((enum.StrEnum,) if hasattr(enum, "StrEnum") else (str, enum.Enum))):
    SOFT = "soft"

class Rights(enum.IntFlag):
    READ = 4
    WRITE = 2

Pair = namedtuple("Pair", "left right", defaults=[0])

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
    async def fetch(self, v):
        self.n += await add(v)
        return self.n
    async def guarded(self, v):
        try:
            with self:
                return await fail(v)
        finally:
            self.log.append(await add(0))

class Noting:
    def __init__(self): self.rows = {}
    @property
    def double(self): return self.n * 2
    def note(self, v):
        self.noted.append(v)
        return len(self.noted)
    async def fetch(self, v): return await add(v)
    async def guarded(self, v):
        try:
            return await fail(v)
        except ValueError as error:
            self.n += 1
            return str(error)
        finally:
            self.note(await self.fetch(0))

class Door:
    def __init__(self, log): self.log = log
    async def __aenter__(self):
        self.log.append(await add(1))
        return self
    async def __aexit__(self, kind, error, tb):
        self.log.append(kind and kind.__name__)
        await add(2)
        return kind is LookupError

class Rounds:
    """Begins anew for each loop over it."""
    def __init__(self, n): self.n = self.left = n
    def __iter__(self):
        self.left = self.n
        return self
    def __next__(self):
        self.left -= 1
        if self.left < 0: raise StopIteration
        return self.left

class Indexed:
    def __init__(self, xs): self.xs = xs
    def __getitem__(self, at): return self.xs[at]

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
def total(*values, scale=1, **rest): return scale * sum(flat(values)) + len(rest)
def halves(xs):
    for x in xs: yield x, x
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

async def given(xs):
    await add(1)
    return xs
async def again(n):
    for tries in range(3):
        try:
            return await fail(n + tries)
        except ValueError as error:
            last = error
    raise last
async def stepper(n):
    async def step(v):
        nonlocal n
        n += await add(v)
        return n
    return step

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
        context = [type(value.__context__).__name__, value.__suppress_context__]
        return [type(value).__name__, str(value), shown(value.__cause__, depth + 1), context]
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
    "total(*@l, scale=2, extra=@n)", "await again(@n)", "(await echo(Level.HIGH)).value", "int(f'{abs(@i):03d}')", "len({*flat(@l)})",
    "sum(v for v in flat(@l))", "next((v for v in flat(@l) if v > 2), @i)", "functools.reduce(max, flat(@l), @n)", "bool(@l) + @n",
    "@n ^ 5", "-@n", "(@n << 2) % 1000", "int('7', 8)", "(await given([@n]))[0]",
)  # fmt: skip

LIST_FORMS = (
    "[]", "[@N]", "[@x]", "@x", "list(@x)", "@x + @y", "@x[1:]", "[v for v in @x]", "[@x, @y]", "[*@x, 7]", "@x if @T else @y",
    "await echo(@x)", "keep(@x)", "fresh(@x)", "@x or @y", "[@x] * 2", "@x.copy()", "(@x[0] if @x and isinstance(@x[0], list) else [])",
    "grow(@x)", "await held(@x, @n)", "[@x for _ in range(2)]", "copy.deepcopy(@x)", "sorted(flat(@x), reverse=True)",
    "await deep(2, @x)", "@o.log", "[await add(v) for v in flat(@x)[:3]]", "list(itertools.chain(@x, @y))", "@k.setdefault(@n, @x)",
    "list(@k.values())", "Plain.shared[:]", "[f() for f in [lambda: @n] * 2]",
    "await given(@x)", "[*map(keep, [@x, @y])]", "list(dict.fromkeys(flat(@x)))", "sorted(flat(@x), key=lambda v: -v)",
    "list(itertools.accumulate(flat(@x)))", "[row[:] for row in [@x] * 2]", "(lambda v=@x: v)()", "[v for row in [@x, @y] for v in row]",
    "next(iter([@x]))", "max([@x, @y], key=len)", "list(halves(flat(@x)))", "[list(g) for _, g in itertools.groupby(flat(@x))]",
    "dict(k=@x)['k']", "@x.__iadd__([@i])", "(await gather(given(@x), given(@y)))[@j % 2]", "[await given(@x) for _ in range(2)]",
    "list(itertools.islice(@x, 0, None, 2))",
    "[await add(i) for i in flat(@x)[:2]]", "[v for v in flat(@x)[:3] if await add(v) > 2]", "[*@x, await add(@n)]", "[*await given(@x), *@y]",
    "[[await add(v) for v in flat(row)[:2]] + [await add(0)] for row in [@x, @y]]", "[(i, await add(@n)) for i, v in enumerate(@x[:2])]",
    "sorted({await add(v) for v in flat(@x)[:3]})", "[await add(a) for a in flat(@x)[:2]]", "list((await gather(*[given(v) for v in [@x, @y]]))[0])",
)  # fmt: skip

ANY_FORMS = (
    "@N", "@V", "Decimal(@n) / 4", "Decimal('0.00')", "Point(@n).moved(1)", "Colour.CRIMSON", "Level.LOW", "Word.YES", "Flag.A | Flag.B",
    "Version(@n)", "f'{@n:>4}|{@l!r}'", "Counter(@l[:0] or 'abca')", "datetime.datetime(2024, 3, 31, 1, 30, tzinfo=UTC).astimezone(ROME)",
    "datetime.date(2024, 1, 1) + datetime.timedelta(days=abs(@n) % 400)", "{@n: @l}", "(@n, @l)", "'@w'.split('-')", "frozenset([@n, 1])",
    "0.1 + 0.2", "await echo(Decimal(@n))", "await echo(Point(@n, 2))", "await echo(Colour.BLUE)", "None", "True",
    "json.loads(json.dumps(flat(@l)))", "Slim(@n, @l)", "model.double", "await echo(model)", "model.model_copy(update={'n': 3})",
    "Model(parts=[@n], when='2024-01-02').model_dump()", "[f(@n) for f in fs]", "[g() for g in gs]", "step(@i)", "past", "hoard(@n)",
    "Tone.SOFT", "str(Tone.SOFT)", "Rights.READ | Rights.WRITE", "Pair(@n)", "datetime.datetime(2024, 10, 27, 2, 30, tzinfo=ROME, fold=1)",
    "datetime.datetime(2024, 6, 1, 12, tzinfo=ROME) - datetime.datetime(2024, 6, 1, 12, tzinfo=UTC)", "datetime.time(1, 2, tzinfo=UTC)",
    "await echo(datetime.datetime(2024, 6, 1, 12, tzinfo=ROME))", "await echo(Version(1, @i))", "await echo(Account('Ann', [@n]))",
    "{**@k, 'q': @n}", "@k | {'r': @n}", "dict(zip(flat(@l), 'abc'))", "{v: k for k, v in enumerate(flat(@l))}", "'%s-%r' % (@n, @l)",
    "sorted([Version(2), Version(1, @i)])", "Decimal('1.15').quantize(Decimal('0.1'))", "float('nan') != float('nan')", "b'ab'[1:]",
    "await echo(b'ab')", "await echo({1: 2})", "await echo((@n, [@n]))", "await echo(Rights.READ)", "await echo(Tone.SOFT)", "complex(1, 2) * 2",
    "{v: await add(v) for v in flat(@x)[:3]}", "{**@k, 'w': await add(@n)}", "total(*flat(@x), await add(@n), **{'scale': 2})",
    "(lambda v=await add(@n), *w: (v, w))(@i)", "f'{await add(@n):>{await add(3)}}|{@l!r}|{await echo(@i)=}'", "await gather(*[add(v) for v in flat(@x)[:2]], given(@y))",
    "Point(@n)._asdict()", "dataclasses.replace(Version(1), minor=@i)", "dataclasses.asdict(Account('Bo', [@n]))", "10 ** 30 + @n",
)  # fmt: skip

TESTS = (
    "@n > @j", "@l", "not @n", "@l == @l", "@l is @l", "@n in @l", "isinstance(@n, int) and @l", "Decimal('0.00')",
    "Decimal('1.0') == Decimal('1.00')", "acc", "acc == Account('ANN')", "@n in @k", "isinstance(Level.LOW, int)",
    "Colour.RED is Colour.CRIMSON", "Word.YES == 'yes'", "Version(1, 2) < Version(@n)", "sum([0.1] * 10) == 1.0", "any(@l)", "@o is @o",
    "(m := len(log)) % 2", "await add(@n) > 3", "0 < @n <= 5", "@k is @k",
    "datetime.datetime(2024, 6, 1, 12, tzinfo=UTC) == datetime.datetime(2024, 6, 1, 14, tzinfo=ROME)", "await echo(Account('Ann'))",
    "await echo(Account('Ann', [1])) == Account('aNN')", "isinstance(await echo(Level.LOW), int)", "Tone.SOFT == 'soft'",
    "Pair(1) == (1, 0)", "Rights.READ in Rights(6)", "all(v for v in flat(@l))", "@n == True", "Model(n=@i) == Model(n=@i)",
    "'a' < 'b' < '@w'", "not (await echo(@l))", "(@n and await add(@n) or @l)", "await given(@l) is @l",
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
    "@k = {**@k}", "@x = (@x * 2)[:20]", "@k['self'] = @k", "acc.items = @x", "p.log, q.log = q.log, p.log", "(@x, @y)[0].append(@i)",
    "setattr(@o, 'n', @N)", "getattr(acc, 'items').append(@i)", "[@x, @y][@j % 2].append(@i)", "counts.update(flat(@x))",
    "counts += Counter(a=1)", "groups = defaultdict(list, groups)", "heapq.heappush(heap, @i)", "a = heapq.heappop(heap) if heap else 0",
    "model.parts += [@i]", "@x, @y = await gather(given(@x), given(@y))", "acc = dataclasses.replace(acc)", "@k[@n], @k[@i] = @x, @x",
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
    "log.append([await f(2) for f in [add, echo]])", "log.append(await (add if @T else echo)(@n))", "log.append(total(*@x, **{'scale': 3}))",
    "stepped = await stepper(@i); log.append([await stepped(1), await stepped(2)])", "assert @T, 'not so'",
    "log.append(f'{await add(@n)}|{@n!r:>5}')", "log.append({await add(1): @n, **@k})", "log.append((await echo(@n), @n))",
    "log.append(counts.most_common(2))", "log.append(sorted(groups.items(), key=str))", "log.append([k for k, v in @k.items() if v])",
    "log.append(', '.join(f'{v:02}' for v in flat(@x)))", "while (m := len(log)) < 3: log.append(m)", "print(@n, @x)",
    "log.append(@n if await add(@n) > 2 else @x)", "log.append([v for v in @x if v is not None and (w := v)])",
    "log.append(await @o.fetch(@n))", "log.append(await @o.guarded(2 * @n))", "call = given(@x); log.append(await gather(call, add(@n), call))",
    "(a, *rest), b = [await add(@n), *flat(@x)], await add(@i); log.append(rest)", "log.append(dict(**{'u': @n}, v=await add(1), **@k) if not {'u', 'v'} & {*@k} and all(isinstance(k, str) for k in @k) else 0)",
    "kept = gather(add(@n), given([@n])); log.append(kept.done()); log.append(await kept)", "log.append(await asyncio.wait_for(held(@x[:], @n), 86_400))",
    "log.append(await asyncio.wait_for(add(@n), None))", "@n = (await add(@n)) + @n * (await add(1))", "@x[await add(-1):] = [await add(@n)]", "@k[await add(@n)] = @A", "@x[await echo(0)] += await add(@n)", "await asyncio.sleep(0)",
    "log.append([await t for t in asyncio.as_completed([given([@n])])])", "rounds = Rounds(2); log.append([await add(v) for v in rounds] + [*rounds])",
    "first = second = @x; second.append(@i); log.append(first is second)", "log.append([*itertools.pairwise(flat(@x))])",
)  # fmt: skip

# What programs that are classes do besides.
METHODS = (
    "log.append(self.note(@n))", "self.n += await self.fetch(@n)", "self.n = await self.fetch(self.n)", "log.append(await self.guarded(2 * @n))", "self.rows[@n] = await add(@n)",
    "log.append(len(self.rows))", "@n = self.n", "self.parts = @x", "log.append([await self.fetch(v) for v in flat(@x)[:2]])", "log.append(await super().fetch(@n))",
    "self.noted.append(await add(@n))", "log.append([*map(self.note, [@n])])", "log.append(self.double)", "log.append(await gather(self.fetch(@n), add(@i)))",
)  # fmt: skip

# What programs begin with, by the names that it makes.
PRELUDE = {
    "zs": "    zs = xs", "c": "    c = 2", "log": "    log = []", "d e": "    d = {1: xs}\n    e = d", "p q w": "    p = Plain(1)\n    q = p",
    "acc": "    acc = Account('Ann')", "groups": "    groups = defaultdict(list)", "counts": "    counts = Counter()",
    "queue": "    queue = deque([1])", "seen": "    seen = {1, 2}", "slim": "    slim = Slim(1)", "od": "    od = OrderedDict(k=1)",
    "last": "    last = None", "model": "    model = Model(parts=[1])", "hs": "    hs = []", "fs": "    fs = [lambda v: v + c]",
    "gs": "    gs = []", "heap": "    heap = [3, 9]", "step past": "    step, past = maker(a)", "pick": "    pick = lambda f: f",
    "hoard": "    def hoard(v, kept=[]):\n        kept.append(v)\n        return len(kept)",
    "bump": "    def bump(v):\n        nonlocal b\n        b += 1\n        log.append(b)\n        return [b, v]",
    "closure": "    def closure(v):\n        log.append(a)\n        return [v, len(xs)]",
    "peek": "    async def peek(v):\n        await add(v)\n        return maybe",
    "inner": "    async def inner(v):\n        nonlocal c\n        c += 1\n        log.append(await add(v))\n        return c + a",
}  # fmt: skip
SHOWN = ("xs", "ys", "zs", "a", "b", "c", "d", "e", "p", "q", "acc", "groups", "counts", "queue", "seen", "slim", "od", "last", "model", "past", "heap")


CASES: tuple[tuple[Any, ...], ...] = (([1, 2], [3], 1, 2), ([[5], 6], [], 0, 3))
