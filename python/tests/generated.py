"""Programs made by dice: what people write between awaits, in all orders, over a few shared variables.

What runs at once shares nothing that it changes, since an action takes its time. A program is refused, or ends under the law as under asyncio, with the same value or the same exception. `python
tests/generated.py SEED COUNT` tries many; workers forget heaps at random meanwhile, so that what is kept in the journal is
what programs go on from.
"""

from __future__ import annotations

import importlib.util
import random
import sys
import tempfile
from pathlib import Path
from typing import Any, Callable, Optional

HERE = Path(__file__).parent
sys.path[:0] = [str(HERE), str(HERE.parent)]

from differential import binary, durably, plainly  # noqa: E402
from lope import CompileError  # noqa: E402
from lope.decorators import actions, workflows  # noqa: E402
from lope.region import heap as heaps  # noqa: E402
from lope.testing import Law  # noqa: E402

HEAD = '''
import asyncio, collections, copy, dataclasses, datetime, decimal, enum, functools, itertools, json, math, operator, re, string
from collections import Counter, OrderedDict, defaultdict, deque, namedtuple
from dataclasses import dataclass, field
from decimal import Decimal
from typing import NamedTuple
from zoneinfo import ZoneInfo
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
    if isinstance(value, Slim): return ["Slim", value.n, shown(value.parts, depth + 1)]
    if dataclasses.is_dataclass(value): return [type(value).__name__, shown(vars(value), depth + 1)]
    return [type(value).__name__, repr(value) if not callable(value) else "callable"]
'''

LISTS, NUMBERS, DICTS, OBJECTS = ("xs", "ys", "zs"), ("a", "b", "c"), ("d", "e"), ("p", "q")


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
        i = str(self.dice.randint(-2, 9))
        return self.one(
            self.n(), i, f"len({self.x()})", f"{self.n()} % 3", f"{self.n()} // {self.one('2', self.n())}", f"sum(flat({self.x()}))",
            f"await add({self.n()})", f"{self.n()} + {self.n()}", f"{self.n()} * {self.n()} % 10007", f"2 ** abs({self.n()} % 90)",
            f"max({self.n()}, {i})", f"int(Decimal('{i}.5'))", f"round({self.n()} / 3, 2)", f"{self.n()} if {self.test()} else {i}",
            f"(await echo([{self.n()}]))[0]", f"len({self.k()})", f"{self.o()}.n", f"Level.HIGH + {i}", f"abs({self.n()})",
            f"hash({i}) % 7", f"{self.x()}.count({i})", f"divmod({self.n()}, 4)[1]", f"math.gcd(abs({self.n()}), 12)",
            f"(lambda v: v + {i})({self.n()})", f"await fail({self.n()})",
        )  # fmt: skip

    def value(self) -> str:
        x, y = self.x(), self.x()
        return self.one(
            "[]", f"[{self.number()}]", f"[{x}]", x, f"list({x})", f"{x} + {y}", f"{x}[1:]", f"[v for v in {x}]", f"[{x}, {y}]",
            f"[*{x}, 7]", f"{x} if {self.test()} else {y}", f"await echo({x})", f"keep({x})", f"fresh({x})", f"{x} or {y}",
            f"[{x}] * 2", f"{x}.copy()", f"({x}[0] if {x} and isinstance({x}[0], list) else [])", f"grow({x})",
            f"await held({x}, {self.n()})", f"[{x} for _ in range(2)]", f"copy.deepcopy({x})", f"sorted(flat({x}), reverse=True)",
            f"await deep(2, {x})", f"{self.o()}.log", f"[await add(v) for v in flat({x})[:3]]", f"list(itertools.chain({x}, {y}))",
            f"{self.k()}.setdefault({self.n()}, {x})", f"list({self.k()}.values())", "Plain.shared[:]", f"[f() for f in [lambda: {self.n()}] * 2]",
        )  # fmt: skip

    def any(self) -> str:
        return self.one(
            self.number(), self.value(), f"Decimal({self.n()}) / 4", "Decimal('0.00')", f"Point({self.n()}).moved(1)", "Colour.CRIMSON",
            "Level.LOW", "Word.YES", "Flag.A | Flag.B", f"Version({self.n()})", f"f'{{{self.n()}:>4}}|{{{self.x()}!r}}'",
            f"Counter({self.x()}[:0] or 'abca')", "datetime.datetime(2024, 3, 31, 1, 30, tzinfo=UTC).astimezone(ROME)",
            f"datetime.date(2024, 1, 1) + datetime.timedelta(days=abs({self.n()}) % 400)", f"{{{self.n()}: {self.x()}}}",
            f"({self.n()}, {self.x()})", f"'{self.one('a-b', 'Zoë', '', 'x y')}'.split('-')", f"frozenset([{self.n()}, 1])", "0.1 + 0.2",
            f"await echo(Decimal({self.n()}))", f"await echo(Point({self.n()}, 2))", "await echo(Colour.BLUE)", "None", "True",
            f"json.loads(json.dumps(flat({self.x()})))", f"Slim({self.n()}, {self.x()})",
        )  # fmt: skip

    def test(self) -> str:
        return self.one(
            f"{self.n()} > {self.dice.randint(-1, 4)}", self.x(), f"not {self.n()}", f"{self.x()} == {self.x()}", f"{self.x()} is {self.x()}",
            f"{self.n()} in {self.x()}", f"isinstance({self.n()}, int) and {self.x()}", "Decimal('0.00')", "Decimal('1.0') == Decimal('1.00')",
            f"acc", "acc == Account('ANN')", f"{self.n()} in {self.k()}", "isinstance(Level.LOW, int)", "Colour.RED is Colour.CRIMSON",
            "Word.YES == 'yes'", f"Version(1, 2) < Version({self.n()})", "sum([0.1] * 10) == 1.0", f"any({self.x()})", f"{self.o()} is {self.o()}",
            "(m := len(log)) % 2", f"await add({self.n()}) > 3", f"0 < {self.n()} <= 5", f"{self.k()} is {self.k()}",
        )  # fmt: skip

    def change(self) -> str:
        x = self.x()
        return self.one(
            f"{x}.append({self.number()})", f"{x}.append({self.x()}[:2])", f"{x}.extend({self.x()}[:3])", f"{x} += [{self.number()}]",
            f"{x}.insert(0, {self.number()})", f"{x}.reverse()", f"{x}[0] = {self.number()}", f"{x}[-1] = {self.x()}[:]", f"{x}.clear()",
            f"a = {x}.pop() if {x} else 0", f"{x}[:1] = [{self.number()}]", f"{self.k()}[{self.n()}] = {self.any()}",
            f"{self.k()}.setdefault({self.n()}, []).append({self.number()})", f"{self.k()}.pop({self.n()}, None)", f"{self.k()}.update({{'z': {self.n()}}})",
            f"{self.o()} += {self.n()}", f"{self.o()}.log.append({self.number()})", f"{self.o()}.n = {self.number()}", f"{self.o()} = {self.o()}",
            f"{self.o()} = Plain({self.number()})", f"acc.add({self.number()})", f"acc.same().append({self.n()})", f"{x} = acc.items", "acc.balance += Decimal('0.10')",
            f"del {x}[0]", f"{self.k()} = {self.k()}", f"{self.k()} = dict.fromkeys([1, 2], {x})", f"min([{x}, [9] * 50], key=len).append(1)",
            f"groups[{self.n()} % 3].append({self.n()})", f"counts[str({self.n()})] += 1", f"queue.append({self.n()})", f"a = queue.popleft() if queue else {self.n()}",
            f"seen.add({self.n()})", f"seen -= {{{self.n()}}}", f"{x}.sort(key=str)", f"slim.parts = {x}", f"slim.parts.append({self.n()})", f"slim.n += {self.n()}",
            f"{x} = slim.parts", f"od.move_to_end('k', last=False) if 'k' in od else od.__setitem__('k', {self.n()})", f"od[{self.n()}] = {x}",
        )  # fmt: skip

    def simple(self) -> str:
        x, y = self.x(), self.x()
        return self.one(
            f"{self.n()} = {self.number()}", f"{self.n()} += {self.number()}", f"{x} = {self.value()}", f"{x} = {y} = {self.value()}",
            self.change(), self.change(), self.change(), self.change(), f"{x}, {y} = {y}, {x}", f"log.append({self.any()})", f"log.append(shown({self.any()}))",
            f"await add({self.n()})", f"{x}[0:0] = [await add({self.n()})]", f"log.append(await gather(held({x}[:1], 1), held({y}[:], 2)))",
            f"log.append([type(r).__name__ for r in await gather(risky([], {self.n()}), risky({y}[:], 7), return_exceptions=True)])",
            f"{self.n()}, *rest = [*flat({x}), 1, 2]; log.append(rest)", f"log.append({x} is {y})", f"log.append([f() for f in [lambda: {self.n()}, lambda v={self.n()}: v]])",
            "log.append([f() for f in [lambda: i for i in range(3)]])", f"call = add({self.n()}); {self.n()} = 0; log.append(await call)", f"log.append(closure({self.n()}))",
            f"log.append(await inner({self.n()}))", f"{x} = [await echo({self.n()}), await add({self.n()})]", f"log.append({self.o()}.log is {x})",
            f"log.append(min({x}, default=0, key=str))", f"log.append(' '.join(map(str, flat({x}))))", f"log.append({{k: len(str(v)) for k, v in {self.k()}.items()}})",
            f"log.append(list(zip({x}, {y})))", f"log.append(functools.reduce(operator.add, flat({x}), 0))", f"log.append(sorted({{*flat({x})}}))",
            f"log.append(re.sub(r'\\d', 'n', str({x}))[:40])", f"log.append([*enumerate({x})][:2])",
        )  # fmt: skip

    def block(self, depth: int, indent: str) -> None:
        for _ in range(self.dice.randint(1, 3)):
            self.statement(depth, indent)

    def statement(self, depth: int, indent: str) -> None:
        if depth == 0 or self.dice.random() < 0.55:
            self.lines.append(indent + self.simple())
            return
        kinds: list[Callable[[int, str], None]] = [
            self.branch, self.loop, self.loop, self.attempt, self.attempt, self.manager, self.matching, self.counting, self.task, self.batches,
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

    def batches(self, depth: int, indent: str) -> None:
        inner, x = indent + "    ", self.x()
        self.lines += [
            f"{indent}for at in range(0, min(len({x}), 6), 2):", f"{inner}batch = {x}[at:at + 2]",
            f"{inner}log.append(await gather(*[echo(v) for v in flat(batch)]))",
        ]  # fmt: skip

    def source(self, name: str) -> str:
        self.lines = [
            f"async def {name}(xs, ys, a, b):", "    zs = xs", "    c = 2", "    log = []", "    d = {1: xs}", "    e = d", "    p = Plain(1)", "    q = p",
            "    acc = Account('Ann')", "    groups = defaultdict(list)", "    counts = Counter()", "    queue = deque([1])", "    seen = {1, 2}",
            "    slim = Slim(1)", "    od = OrderedDict(k=1)", "    last = None",
            "    def closure(v):", "        log.append(a)", "        return [v, len(xs)]",
            "    async def inner(v):", "        nonlocal c", "        c += 1", "        log.append(await add(v))", "        return c + a",
        ]  # fmt: skip
        for _ in range(6):
            self.statement(2, "    ")
        parts = "xs, ys, zs, a, b, c, d, e, p, q, acc, groups, counts, queue, seen, slim, od, last, log[:80]"
        self.lines.append(f"    return [shown([{parts}]), xs is zs, d is e, p is q, xs is acc.items]")
        return "\n".join(self.lines)


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
        self.same = self.refused = 0
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
                workflow.compile()
            except CompileError:
                tried.refused += 1
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
            print(f"{seeds.stop - first} tried: {tried.same} the same, {tried.refused} refused, {len(tried.differ)} differ", flush=True)
            for _, text in tried.differ[:3]:
                print(text)
            if len(tried.differ) > 20:
                break
    return 1 if tried.differ else 0


if __name__ == "__main__":
    sys.exit(main())
