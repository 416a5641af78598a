"""Random programs: each is refused, or ends under the law as under asyncio. LOPE_RANDOM says how many are tried.

Names share lists and dicts in every way here, so that this is above all a test of what is refused: "Nothing is ever
compiled to something that means less".
"""

from __future__ import annotations

import importlib.util
import os
import random
import sys
from pathlib import Path
from typing import Any

from differential import binary, durably, plainly
from lope import CompileError
from lope.testing import Law

COUNT = int(os.environ.get("LOPE_RANDOM", "80"))
LISTS, NUMBERS = ("xs", "ys", "zs"), ("a", "b", "c")


class Writer:
    """Writes one program."""

    def __init__(self, seed: int) -> None:
        self.dice = random.Random(seed)
        self.lines: list[str] = []
        self.loops = 0

    def number(self) -> str:
        return self.dice.choice([
            *NUMBERS, str(self.dice.randint(-2, 5)), f"len({self.list_name()})", f"{self.dice.choice(NUMBERS)} % 3",
            f"{self.dice.choice(NUMBERS)} // {self.dice.choice(('2', 'a', 'c'))}", f"sum(flat({self.list_name()}))",
            f"await add({self.dice.choice(NUMBERS)})", f"{self.dice.choice(NUMBERS)} + {self.dice.choice(NUMBERS)}",
        ])  # fmt: skip

    def list_name(self) -> str:
        return self.dice.choice(LISTS)

    def list_value(self) -> str:
        name, other = self.list_name(), self.list_name()
        return self.dice.choice([
            "[]", f"[{self.number()}]", f"[{name}]", f"[{name}, {self.number()}]", name, f"list({name})", f"{name} + {other}",
            f"{name}[1:]", f"[x for x in {name}]", f"[{name}, {other}]", f"[[x] for x in {name}]", f"[*{name}, 7]",
            f"{name} if {self.test()} else {other}", f"await echo({name})", f"keep({name})", f"fresh({name})", f"{name} or {other}",
            f"sorted(flat({name}))", f"[{name}] * 2", f"{name}.copy()", f"({name}[0] if {name} else [])", f"(await echo([{name}]))[0]",
        ])  # fmt: skip

    def test(self) -> str:
        return self.dice.choice([
            f"{self.dice.choice(NUMBERS)} > {self.dice.randint(-1, 4)}", f"{self.list_name()}", f"not {self.dice.choice(NUMBERS)}",
            f"{self.list_name()} == {self.list_name()}", f"{self.dice.choice(NUMBERS)} in {self.list_name()}",
            f"isinstance({self.dice.choice(NUMBERS)}, int) and {self.list_name()}",
        ])  # fmt: skip

    def change(self) -> str:
        name = self.list_name()
        return self.dice.choice([
            f"{name}.append({self.number()})", f"{name}.append({self.list_name()})", f"{name}.extend({self.list_name()})",
            f"{name} += [{self.number()}]", f"{name}.insert(0, {self.number()})", f"{name}.reverse()",
            f"{name}[0] = {self.number()}", f"{name}[0].append({self.number()})", f"{name}[-1] = {self.list_name()}",
            f"{name}.clear()", f"a = {name}.pop() if {name} else 0", f"{name}[:1] = [{self.number()}]",
        ])  # fmt: skip

    def simple(self) -> str:
        return self.dice.choice([
            f"{self.dice.choice(NUMBERS)} = {self.number()}", f"{self.dice.choice(NUMBERS)} += 1",
            f"{self.list_name()} = {self.list_value()}", f"{self.list_name()} = {self.list_value()}",
            self.change(), self.change(), self.change(), f"{self.list_name()}, {self.list_name()} = {self.list_name()}, {self.list_name()}",
            f"log.append({self.number()})", f"log.append(len({self.list_name()}))", f"await add({self.dice.choice(NUMBERS)})",
        ])  # fmt: skip

    def block(self, depth: int, indent: str) -> None:
        for _ in range(self.dice.randint(1, 4)):
            self.statement(depth, indent)

    def statement(self, depth: int, indent: str) -> None:
        put = self.lines.append
        kind = self.dice.random()
        inner = indent + "    "
        if depth == 0 or kind < 0.55:
            put(indent + self.simple())
        elif kind < 0.7:
            put(f"{indent}if {self.test()}:")
            self.block(depth - 1, inner)
            if self.dice.random() < 0.5:
                put(f"{indent}else:")
                self.block(depth - 1, inner)
        elif kind < 0.82:
            put(f"{indent}for i in {self.dice.choice(('range(3)', self.list_name(), f'list({self.list_name()})'))}:")
            self.loop(depth, inner)
        elif kind < 0.97:
            put(f"{indent}try:")
            self.block(depth - 1, inner)
            put(f"{inner}a = a // (b % 3)")
            put(f"{indent}except {self.dice.choice(('ZeroDivisionError', 'Exception', '(TypeError, IndexError)'))}:")
            self.block(depth - 1, inner)
            if self.dice.random() < 0.4:
                put(f"{indent}finally:")
                self.block(depth - 1, inner)
        else:
            put(f"{indent}return {self.dice.choice(('xs', 'a', 'log', '[xs, ys]'))}")

    def loop(self, depth: int, inner: str) -> None:
        self.loops += 1
        # What is gone over may grow.
        self.lines += [f"{inner}log.append(0)", f"{inner}if len(log) > 40:", f"{inner}    break"]
        self.block(depth - 1, inner)
        if self.dice.random() < 0.4:
            self.lines.append(f"{inner}if {self.test()}:")
            self.lines.append(f"{inner}    {self.dice.choice(('break', 'continue'))}")
        self.loops -= 1

    def source(self, name: str) -> str:
        self.lines = [f"async def {name}(xs, ys, a, b):", "    zs = [1]", "    c = 2", "    log = []"]
        for _ in range(6):
            self.statement(2, "    ")
        self.lines.append("    return xs, ys, zs, a, b, c, log")
        return "\n".join(self.lines)


HEAD = """
from differential import crossed
from lope import action, workflow
from programs.actions import add

@action(name="random.echo")
async def echo(value):
    # What an action gets and gives are copies under Lope; here too.
    return crossed(value, "value")

def keep(xs):
    return xs

def fresh(xs):
    found = []
    for x in xs:
        found.append(x)
    return found

def flat(xs):
    return [x for x in xs if isinstance(x, int)]
"""


def load(path: Path, source: str) -> Any:
    path.write_text(source, encoding="utf-8")
    spec = importlib.util.spec_from_file_location(path.stem, path)
    assert spec is not None and spec.loader is not None
    module = importlib.util.module_from_spec(spec)
    sys.modules[path.stem] = module
    spec.loader.exec_module(module)
    return module


def test_random_programs_mean_the_same_or_are_refused(tmp_path: Path) -> None:
    first = int(os.environ.get("LOPE_RANDOM_SEED", "0"))
    names = [f"program_{seed}" for seed in range(first, first + COUNT)]
    programs = {name: Writer(int(name.split("_")[1])).source(name) for name in names}
    text = "\n\n".join(f'@workflow(name="random.{name}")\n{source}' for name, source in programs.items())
    module = load(tmp_path / f"random_programs_{first}.py", HEAD + text)
    law = Law(binary())
    compiled = 0
    try:
        for name in names:
            workflow = getattr(module, name)
            try:
                workflow.compile()
            except CompileError:
                continue
            compiled += 1
            for case in (([1, 2], [3], 1, 2), ([[5], 6], [], 0, 3)):
                expected, found = plainly(workflow, case, {}).crossed(), durably(law, workflow, case, {})
                assert found.shown() == expected.shown(), f"{case}\n{programs[name]}"
    finally:
        law.close()
    assert compiled >= COUNT // 10, f"only {compiled} of {COUNT} were compiled"
    print(f"{compiled} of {COUNT} were compiled")
