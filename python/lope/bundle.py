"""`python -m lope compile MODULE:NAME`: definitions as JSON; with `--bundle`, those of children and the input as well."""

from __future__ import annotations

import argparse
import importlib
import json
import sys
import traceback
from pathlib import Path
from typing import Any

from . import client
from .compiler import CompileError, compile_all
from .decorators import Workflow, workflows
from .values import ValueProblem, encode_input
from .values.wire import from_json, to_json


def main(given: list[str]) -> int:
    parser = argparse.ArgumentParser(prog="python -m lope compile", description="Prints the definition of a workflow.")
    parser.add_argument("target", metavar="MODULE:NAME")
    parser.add_argument("--path", action="append", default=[], dest="paths", help="look for modules here first")
    parser.add_argument("--bundle", action="store_true", help="with all workflows it starts, and the input from stdin")
    parser.add_argument("--all", action="store_true", help="with all workflows it starts")
    parser.add_argument("--list", action="store_true", help="the workflows of a module, and how they are called")
    options = parser.parse_args(given)
    sys.path[:0] = options.paths
    # What a module prints while it is loaded is no definition.
    out, sys.stdout = sys.stdout, sys.stderr
    try:
        if options.list:
            print(json.dumps(listed(options.target), ensure_ascii=False), file=out)
            return 0
        workflow = find(options.target)
        definitions = compile_all(workflow)
        found: Any = definitions[0]
        if options.all:
            found = {"definitions": definitions, "input": None}
        if options.bundle:
            encoded = encode_input(workflow, from_json(sys.stdin.read() or "null"))
            found = {"definitions": definitions, "input": json.loads(to_json(encoded))}
    except (CompileError, ValueProblem, Unknown, client.LopeError) as problem:
        print(problem, file=sys.stderr)
        return 2
    except Exception:
        traceback.print_exc()
        return 2
    finally:
        sys.stdout = out
    print(json.dumps(found, ensure_ascii=False))
    return 0


class Unknown(Exception):
    """No such module or workflow."""


def listed(module: str) -> list[tuple[str, str]]:
    """The workflows that a module defines, in the order of the source."""
    home = load(module)
    found = {id(each): (name, each) for name, each in vars(home).items() if isinstance(each, Workflow)}
    own = [(name, each) for name, each in found.values() if each.function.__module__ == home.__name__]
    own.sort(key=lambda pair: pair[1].function.__code__.co_firstlineno)
    return [(name, f"{name}{each.signature}") for name, each in own]


def find(target: str) -> Workflow[..., Any]:
    module, _, name = target.rpartition(":")
    loaded = load(module)
    found = getattr(loaded, name, None)
    if not isinstance(found, Workflow):
        found = workflows.get(name)
    if found is None:
        known = ", ".join(sorted(workflows)) or "none"
        raise Unknown(f"{loaded.__name__} has no @workflow '{name}'; there are: {known}")
    return found


def load(module: str) -> Any:
    if module.endswith(".py"):
        sys.path.insert(0, str(Path(module).resolve().parent))
        module = Path(module).stem
    client.loading = f"the module '{module}' is loaded to be compiled"
    try:
        return importlib.import_module(module)
    except ModuleNotFoundError as error:
        if error.name != module:
            raise
        raise Unknown(f"there is no module '{module}'") from None
    finally:
        client.loading = None

