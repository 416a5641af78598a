"""Programs made by dice: what people write between awaits, in all orders, over a few shared variables.

What runs at once shares nothing that it changes, since an action takes its time. A program is refused, or ends under the law
as under asyncio, with the same value or the same exception, having printed the same. `python tests/generated.py FIRST COUNT`
tries many, some hundred in one module and one process of the law. Workers forget heaps at random meanwhile, so that what is
kept in the journal is what programs go on from. A program that takes the law down or does not end is told as such, and those
after it go on with another. Programs are short or long by dice.
"""

from __future__ import annotations

import contextlib
import functools
import gc
import importlib.util
import io
import random
import re
import resource
import signal
import sys
import tempfile
from collections import Counter
from pathlib import Path
from typing import Any, Callable, Optional

HERE = Path(__file__).parent
sys.path[:0] = [str(HERE), str(HERE.parent)]

from differential import binary, durably, plainly  # noqa: E402
from grammar import (  # noqa: E402
    ANY_FORMS, CASES, CHANGES, DICTS, HEAD, LIST_FORMS, LISTS, METHODS, NUMBER_FORMS, NUMBERS, OBJECTS, PRELUDE, SHOWN, STATEMENTS, TESTS, TOKEN,
    TOKENS,
)  # fmt: skip
from lope import CompileError  # noqa: E402
from lope.decorators import actions, workflows  # noqa: E402
from lope.region import heap as heaps  # noqa: E402
from lope.testing import Law, _compiled  # noqa: E402

# How many statements programs have, by dice; those inside others come on top.
SIZES = (1, 1, 2, 2, 3, 3, 4, 6)
# Programs in one module.
BATCH = 100
# Seconds after which a program is taken for one that does not end.
PATIENCE = 60


class Writer:
    """Writes one program."""

    def __init__(self, seed: int) -> None:
        self.dice = random.Random(seed)
        self.lines: list[str] = []
        self.count = 0
        # Is it a class with a method `run`?
        self.classy = self.dice.random() < 0.2

    def one(self, *choices: Any) -> Any:
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
        return self.form(METHODS if self.classy and self.dice.random() < 0.2 else STATEMENTS)

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
            self.guarded, self.group, self.unbound, self.retried, self.machine, self.several, self.cancelled, self.timed, self.door, self.defined,
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
            f"itertools.pairwise({self.x()})", f"itertools.chain({self.x()}, {self.x()})", f"map(keep, {self.x()})", f"Rounds({self.n()} % 4)", f"Indexed({self.x()})",
            f"iter({self.x()})", "csv.reader(['a,b', 'c,d'])", "csv.DictReader(io.StringIO('k,v\\n1,2\\n3,4'))", "re.finditer('[ab]', 'a-b-a')",
            f"UserList({self.x()})", f"ChainMap({self.k()}, {{9: 9}}).items()", f"filter(None, {self.x()})", f"enumerate({self.x()}, 2)",
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
            "await fail(1)", f"log.append(await fail(2 * {self.n()} + 1))", f"await gather(add(1), fail({self.n()}), given(log))",
        ))  # fmt: skip
        handler = self.one("ZeroDivisionError", "Exception as error", "(TypeError, IndexError)", "Mine as error", "ValueError as error", "LookupError", "(ValueError, Mine) as error")
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

    def cancelled(self, depth: int, indent: str) -> None:
        """A task that never begins."""
        name = self.fresh("t")
        self.lines += [f"{indent}{name} = asyncio.create_task(held(log, {self.n()}))", f"{indent}log.append({name}.cancel())"]
        self.block(0, indent)
        self.lines += [
            f"{indent}log.append([type(r).__name__ for r in await gather({name}, return_exceptions=True)])", f"{indent}log.append({name}.cancelled())",
        ]  # fmt: skip

    def timed(self, depth: int, indent: str) -> None:
        if sys.version_info < (3, 11):
            return self.guarded(depth, indent)
        self.lines.append(f"{indent}async with asyncio.timeout({self.one('86_400', 'None')}):")
        self.block(depth - 1, indent + "    ")

    def door(self, depth: int, indent: str) -> None:
        self.lines.append(f"{indent}async with Door({self.one('log', self.x())}) as w:")
        self.block(depth - 1, indent + "    ")
        if self.dice.random() < 0.3:
            self.lines.append(f"{indent}    raise LookupError('behind the door')")

    def defined(self, depth: int, indent: str) -> None:
        """A function that is defined where something is awaited."""
        name, inner = self.fresh("made"), indent + "    "
        word, wait = self.one(("", ""), ("async ", "await "))
        self.lines += [
            f"{indent}{word}def {name}(v=await add({self.n()}), *, w={self.number()}):", f"{inner}log.append({self.n()})", f"{inner}return [v, w, {self.x()}]",
            f"{indent}log.append({wait}{name}()); log.append({wait}{name}(1, w=2))",
        ]  # fmt: skip

    def unbound(self, depth: int, indent: str) -> None:
        """A variable that may have no value."""
        inner = indent + "    "
        uses = [
            "log.append(maybe)", "maybe += 1", "del maybe", "log.append((lambda: maybe)())", "log.append([maybe for _ in '1'])",
            "log.append(await add(maybe))", "log.append(await peek(1))", "log.append([await add(maybe) for _ in '12'])", "maybe += await add(1)",
        ]  # fmt: skip
        uses += ["log.append(shown(error))"] * 2 if any("as error" in each for each in self.lines) else []
        self.lines += [f"{indent}if {self.test()}:", f"{inner}maybe = {self.n()}", f"{indent}try:", f"{inner}{self.dice.choice(uses)}"]
        self.lines += [f"{indent}except NameError as trouble:", f"{inner}log.append(shown(trouble))"]

    def retried(self, depth: int, indent: str) -> None:
        inner = indent + "    "
        self.lines += [
            f"{indent}for tries in range(3):", f"{inner}try:", f"{inner}    {self.n()} = await fail({self.n()} + tries)",
            f"{inner}except ValueError as error:", f"{inner}    log.append(str(error))", f"{inner}    {self.one('continue', 'pass', 'await add(1)')}",
            f"{inner}else:", f"{inner}    break", f"{indent}else:", f"{inner}log.append('gave up')",
        ]  # fmt: skip

    def machine(self, depth: int, indent: str) -> None:
        inner, state = indent + "    ", self.fresh("state")
        self.lines += [f"{indent}{state} = 'new'", f"{indent}for turn in range(5):", f"{inner}match {state}:"]
        for case, then in (("'new'", "'paid'"), ("'paid'", f"'sent' if {self.test()} else 'held'"), ("'held' | 'late'", "'sent'")):
            self.lines.append(f"{inner}    case {case}:")
            self.block(0, inner + "        ")
            self.lines.append(f"{inner}        {state} = {then}")
        self.lines += [f"{inner}    case _:", f"{inner}        break", f"{indent}log.append({state})"]

    def several(self, depth: int, indent: str) -> None:
        """A group of exceptions, where there are such."""
        if sys.version_info < (3, 11):
            return self.retried(depth, indent)
        inner = indent + "    "
        self.lines += [
            f"{indent}try:", f"{inner}raise ExceptionGroup('many', [ValueError({self.n()}), KeyError('k'), Mine(1)][{self.one(':', '1:', ':2')}])",
            f"{indent}except* {self.one('ValueError', 'LookupError', '(ValueError, Mine)')} as group:", f"{inner}log.append(shown(group.exceptions))",
            f"{indent}except* {self.one('KeyError', 'Exception')}:", f"{inner}{self.n()} = 1",
        ]  # fmt: skip

    def batches(self, depth: int, indent: str) -> None:
        inner, x = indent + "    ", self.x()
        self.lines += [
            f"{indent}for at in range(0, min(len({x}), 6), 2):", f"{inner}batch = {x}[at:at + 2]",
            f"{inner}log.append(await gather(*[echo(v) for v in flat(batch)]))",
        ]  # fmt: skip

    def source(self, name: str) -> str:
        """A program; of what it could use it has what it uses."""
        for _ in range(self.dice.choice(SIZES)):
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
        if self.classy:
            lines = [*given, "    self.noted, self.n = log, a", *self.lines, ending.replace("log[:80]", "self.n, log[:80]")]
            return "\n".join([f"class {name}(Noting):", "    async def run(self, xs, ys, a, b):", *[f"    {each}".replace("\n", "\n    ") for each in lines]])
        return "\n".join([f"async def {name}(xs, ys, a, b):", *given, *self.lines, ending])


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
        # Those that end otherwise than CPython ends them, and of them those that fail where CPython does not.
        self.differ: list[tuple[int, str]] = []
        self.late = 0

    def counts(self) -> str:
        silent = len(self.differ) - self.late
        return f"{self.same} the same, {self.reasons.total()} refused, {silent} different, {self.late} late failures"


class Hung(BaseException):
    """A program that does not end."""


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
    signal.signal(signal.SIGALRM, hung)
    sources, module = written(seeds, folder, "generated")
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
            try:
                different = compared(law, workflow)
            except Hung:
                tried.reasons["CPython itself does not end it"] += 1
                continue
            if different is None:
                tried.same += 1
                continue
            case, expected, found = different
            tried.differ.append((seed, f"seed {seed} {case}\n{source}\nCPython: {expected}\nLope:    {found}"))
            tried.late += expected[0][0] == "value" and found[0][0] != "value"
            # Whatever became of it, the others have a law of their own.
            law.stop()
            law = Law(binary())
    finally:
        running.load = before
        law.stop()
        forget(module)
    return tried


def forget(module: Any) -> None:
    """Lets go of a module whose programs are done, so that many of them need no more memory than a few."""
    sys.modules.pop(module.__name__, None)
    # Its classes are known to many, and lead to all the others.
    vars(module).clear()
    heaps._KEPT.clear()
    caches = [each for name, known in list(sys.modules.items()) if name.startswith("lope.") for each in vars(known).values()]
    for each in caches:
        if isinstance(each, functools._lru_cache_wrapper):
            each.cache_clear()
    gc.collect()


def written(seeds: range, folder: Path, name: str) -> tuple[dict[int, str], Any]:
    """Programs with these seeds, and the module that has them."""
    for known in (actions, workflows):
        for each in [each for each in known if each.startswith(f"{name}.")]:
            del known[each]
    sources = {seed: Writer(seed).source(f"program_{seed}") for seed in seeds}
    text = "\n\n".join(f'@workflow(name="{name}.program_{seed}")\n{source}' for seed, source in sources.items())
    head = HEAD.replace('name="generated.', f'name="{name}.')
    return sources, load(folder / f"{name}_programs_{seeds.start}.py", head + text)


def compared(law: Law, workflow: Any) -> Optional[tuple[Any, Any, Any]]:
    """The case in which a program ends otherwise than CPython ends it, and how both end it."""
    for case in CASES:
        expected = printed(lambda: plainly(workflow, case, {}).crossed().shown())
        try:
            found = printed(lambda: durably(law, workflow, case, {}).shown())
        except Hung:
            found = (("hung",), "")
        if found != expected:
            return case, expected, found
    return None


def printed(work: Callable[[], Any]) -> tuple[Any, str]:
    """What comes of some work, and what it prints."""
    out = io.StringIO()
    signal.alarm(PATIENCE)
    try:
        with contextlib.redirect_stdout(out):
            return work(), out.getvalue()
    finally:
        signal.alarm(0)


def hung(*_: Any) -> None:
    raise Hung()


def main() -> int:
    first, count = int(sys.argv[1]), int(sys.argv[2])
    # Trees of source are many objects that live for one batch: looking through them again and again finds nothing. What a batch
    # leaves behind is collected at its end.
    gc.set_threshold(200_000, 50, 1_000)
    tried = Tried()
    with tempfile.TemporaryDirectory() as folder:
        for start in range(first, first + count, BATCH):
            seeds = range(start, min(start + BATCH, first + count))
            told = len(tried.differ)
            attempt(seeds, Path(folder), tried)
            used = [resource.getrusage(who) for who in (resource.RUSAGE_SELF, resource.RUSAGE_CHILDREN)]
            took = [each.ru_utime + each.ru_stime for each in used]
            print(f"{seeds.stop - first} tried: {tried.counts()}; {took[0]:.0f} + {took[1]:.0f} CPU s", flush=True)
            for _, text in tried.differ[told : told + 3]:
                print(text, flush=True)
            if len(tried.differ) > 20:
                break
    print(f"seeds {first} to {first + count - 1}, Python {sys.version.split()[0]}: {tried.counts()}")
    print("refused:", dict(tried.reasons.most_common()))
    return 1 if tried.differ else 0


if __name__ == "__main__":
    sys.exit(main())
