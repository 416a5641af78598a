"""Awaits inside expressions: what Python computes before an await is computed before it, the rest after it."""

from __future__ import annotations

import ast
import asyncio
import functools
import sys
import types
from typing import TYPE_CHECKING, Any, Optional, Sequence

from ...decorators import Action, Workflow
from ...region.trees import children, walk
from .. import code
from ..code import Code, listed, literal, op
from ..options import AWAITABLE, GATHER, SLEEP, START, STARTING, WAIT_FOR, Options, call_options
from ..static import frame_knows, quiet_static
from .awaiter import returned
from .displays import Displays
from .program import async_methods, copied, has_await, shallow
from .scopes import COMPREHENSIONS, Renaming, target_names
from .source import leaving, load, mentioned, store

if TYPE_CHECKING:
    from .program import Routine, Whole

_NOT_HERE = frozenset({
    "wait", "shield", "timeout", "timeout_at", "run", "Queue", "LifoQueue", "PriorityQueue", "Condition", "Barrier", "Future", "Runner",
    "get_running_loop", "get_event_loop", "new_event_loop", "current_task", "all_tasks", "run_coroutine_threadsafe",
})  # fmt: skip
# The mark of the call that makes the group of a block.
GROUP = "_lope_group"
# The mark of a call that is awaited where it stands.
AWAITED = "_lope_awaited"
TASKS = ("create_task", "ensure_future", "as_completed", "TaskGroup")
# What a comprehension begins with; no name is asked for it.
_EMPTY: dict[type, ast.expr] = {
    ast.ListComp: ast.List([], ast.Load()), ast.DictComp: ast.Dict([], []),
    ast.SetComp: ast.Set([ast.Starred(ast.Tuple([], ast.Load()), ast.Load())]),
}  # fmt: skip
_REGIONS_CALL: list[tuple[Any, str]] = [*((each, "gather") for each in GATHER), *((each, "wait_for") for each in WAIT_FOR)]


class Lifting(Displays):
    whole_program: "Whole"
    routine: "Routine"
    pending: list[ast.stmt]
    answer: Optional[Code]
    started: bool

    def region(self, node: ast.AST, leaves: Optional[set[str]] = None) -> Code:
        raise NotImplementedError

    def statements(self, body: Sequence[ast.stmt]) -> None:
        raise NotImplementedError

    @functools.cached_property
    def async_methods(self) -> dict[str, list[tuple[types.FunctionType, type]]]:
        return async_methods({**self.unit.outside, "self": self.klass or self.unit.owner})

    def any_awaiter(self) -> int:
        raise NotImplementedError

    def hidden(self) -> str:
        """A variable of ours in the user's frame."""
        name = self.program.fresh("_lope_").replace(".", "")
        self.routine.locals.add(name)
        return name

    def kept(self, node: ast.expr) -> ast.expr:
        """An expression that is computed now, for later."""
        if isinstance(node, ast.Constant):
            return node
        if isinstance(node, ast.Starred):
            return ast.copy_location(ast.Starred(self.kept(node.value), ast.Load()), node)
        if isinstance(node, ast.Slice):
            parts = [None if each is None else self.kept(each) for each in (node.lower, node.upper, node.step)]
            return ast.copy_location(ast.Slice(*parts), node)
        if self.is_steady(node):
            return node
        name = self.hidden()
        self.pending.append(store(name, node, node))
        return ast.copy_location(load(name), node)

    def is_steady(self, node: ast.expr) -> bool:
        """Is it something of the module's, which no await changes?"""
        return isinstance(node, (ast.Name, ast.Attribute)) and callable(quiet_static(node, self))

    def lift(self, node: ast.expr) -> Any:
        """An expression without awaits; what it awaits is done before."""
        if not has_await(node):
            return node
        if isinstance(node, ast.Await):
            return self.awaited_value(node)
        if isinstance(node, ast.BoolOp):
            return self.lift_logic(node)
        if isinstance(node, ast.IfExp):
            return self.lift_choice(node)
        if isinstance(node, ast.Compare) and len(node.ops) > 1:
            return self.lift_chain(node)
        if isinstance(node, COMPREHENSIONS):
            return self.lift_comprehension(node)
        if isinstance(node, ast.Dict):
            return self.lift_dict(node)
        if isinstance(node, (ast.List, ast.Tuple, ast.Set)) and any(isinstance(each, ast.Starred) for each in node.elts):
            return self.lift_display(node)
        if isinstance(node, ast.Call) and any(isinstance(each, ast.Starred) for each in node.args):
            node = self.with_stars(node)
        if isinstance(node, ast.Call) and any(each.arg is None for each in node.keywords):
            node = self.with_maps(node)
        if isinstance(node, ast.NamedExpr):
            value = self.lift(node.value)
            self.pending.append(store(node.target.id, value, node))
            return ast.copy_location(load(node.target.id), node)
        if isinstance(node, ast.JoinedStr):
            return self.lift_text(node)
        if isinstance(node, ast.Lambda):
            return self.with_defaults(node)
        return self.lift_parts(node) if has_await(node) else node

    def lift_parts(self, node: ast.expr) -> ast.expr:
        """The parts in the order in which Python computes them."""
        made: ast.expr = shallow(node)
        places: list[tuple[Any, Any, ast.expr]] = []
        for field, value in ast.iter_fields(made):
            if isinstance(value, list):
                found = [shallow(each) if isinstance(each, ast.keyword) else each for each in value]
                setattr(made, field, found)
                places += [_place(found, index, each) for index, each in enumerate(found) if _place(found, index, each)]
            elif isinstance(value, ast.expr):
                places.append((made, field, value))
        last = max(index for index, (_, _, each) in enumerate(places) if has_await(each))
        for index, (holder, at, each) in enumerate(places[: last + 1]):
            lifted = self.lift(each)
            _put(holder, at, self.kept(lifted) if index < last else lifted)
        return made

    def with_defaults(self, node: Any) -> Any:
        """A function whose defaults are awaited; they are computed where it is defined."""
        made = shallow(node)
        made.args = shallow(node.args)
        made.args.defaults = [self.kept(self.lift(each)) for each in node.args.defaults]
        made.args.kw_defaults = [each and self.kept(self.lift(each)) for each in node.args.kw_defaults]
        return made

    def lift_text(self, node: ast.JoinedStr) -> ast.expr:
        """An f-string: what stands before an await is text by then."""
        values = list(node.values)
        last = max(index for index, each in enumerate(values) if has_await(each))
        for index, each in enumerate(values[: last + 1]):
            if not isinstance(each, ast.FormattedValue):
                continue
            made = shallow(each)
            made.value = self.lift(each.value)
            if each.format_spec is not None and has_await(each.format_spec):
                made.value = self.kept(made.value)
                made.format_spec = self.lift(each.format_spec)
            if index < last:
                text = ast.copy_location(ast.JoinedStr([made]), node)
                made = ast.copy_location(ast.FormattedValue(self.kept(text), -1, None), each)
            values[index] = made
        return ast.copy_location(ast.JoinedStr(values), node)

    def lift_logic(self, node: ast.BoolOp) -> ast.expr:
        name = self.hidden()
        first, *rest = node.values
        found = self.lift(first)
        self.pending.append(store(name, found, node))
        for each in rest:
            test: ast.expr = load(name)
            if isinstance(node.op, ast.Or):
                test = ast.UnaryOp(ast.Not(), test)
            self.alternatives(test, name, each, None, node)
        return load(name)

    def lift_choice(self, node: ast.IfExp) -> ast.expr:
        name = self.hidden()
        self.alternatives(self.lift(node.test), name, node.body, node.orelse, node)
        return load(name)

    def lift_chain(self, node: ast.Compare) -> ast.expr:
        name, left = self.hidden(), self.hidden()
        found = self.lift(node.left)
        self.pending.append(store(left, found, node))
        for place, (each, comparator) in enumerate(zip(node.ops, node.comparators)):
            right = ast.NamedExpr(ast.Name(left, ast.Store()), comparator)
            test = ast.Compare(load(left), [each], [right])
            if place == 0:
                found = self.lift(test)
                self.pending.append(store(name, found, node))
            else:
                self.alternatives(load(name), name, test, None, node)
        return load(name)

    def alternatives(self, test: ast.expr, name: str, body: ast.expr, orelse: Optional[ast.expr], node: ast.AST) -> None:
        """`name = body` if the test holds, else `name = orelse`."""
        other = [store(name, orelse, node)] if orelse is not None else []
        made = ast.If(test, [store(name, body, node)], other)
        self.statements([ast.fix_missing_locations(ast.copy_location(made, node))])

    def lift_comprehension(self, node: Any) -> Any:
        """A comprehension that awaits is a loop, with names of its own."""
        if any(each.is_async for each in node.generators):
            self.refuse(node, "an async for", "await a list from an @action and go over that")
        if not _awaits_inside(node):
            made = shallow(node)
            made.generators = [shallow(node.generators[0]), *node.generators[1:]]
            made.generators[0].iter = self.lift(node.generators[0].iter)
            return made
        if isinstance(node, ast.GeneratorExp):
            self.refuse(node, "a generator that awaits", "make a list: [… for … in …]")
        whole = self.hidden()
        renaming = Renaming({name: self.hidden() for name in sorted(target_names(node))})
        made = copied(node)
        made.generators[0].iter = ast.Constant(None)
        made = renaming.renamed(made)
        if renaming.kept:
            self.refuse(node, "a function that keeps a variable of a comprehension that awaits", "write a loop: for … in …:")
        if sys.version_info < (3, 12):
            for name in mentioned([made]) & self.locals - mentioned([node.generators[0].iter]):
                self.routine.scoped.setdefault(name, []).append(node.lineno)
        made.generators[0].iter = copied(node.generators[0].iter)
        self.pending.append(store(whole, _EMPTY[type(node)], node))
        inner: list[ast.stmt] = list(self.put_into(whole, made))
        for each in reversed(made.generators):
            for condition in reversed(each.ifs):
                inner = [ast.If(condition, inner, [])]
            inner = [ast.For(each.target, each.iter, inner, [], None)]
        for part in walk(*inner):
            if isinstance(part, (ast.stmt, ast.expr)) and not hasattr(part, "lineno"):
                ast.copy_location(part, node)
        self.statements([ast.fix_missing_locations(each) for each in inner])
        return load(whole)

    def put_into(self, whole: str, made: Any) -> list[ast.stmt]:
        """What a round of a comprehension does with what it finds; of a dict the key is computed before the value."""
        if isinstance(made, ast.DictComp):
            key = self.hidden()
            part = ast.Subscript(load(whole), load(key), ast.Store())
            return [ast.Assign([ast.Name(key, ast.Store())], made.key), ast.Assign([part], made.value)]
        word = "append" if isinstance(made, ast.ListComp) else "add"
        return [ast.Expr(ast.Call(ast.Attribute(load(whole), word, ast.Load()), [made.elt], []))]

    # Awaiting.

    def awaited_value(self, node: ast.Await) -> ast.expr:
        _mark_awaited(node.value)
        value = self.lift(node.value)
        self.pending.append(ast.copy_location(leaving("awaits", value), node))
        out = op(["field", "v"], self.region(node))
        self.answer = self.started_by(node.value, out, node)
        name = self.hidden()
        given = ast.Call(ast.Attribute(load("_lope"), "given", ast.Load()), [], [])
        self.pending.append(store(name, given, node))
        return ast.copy_location(load(name), node)

    def started_by(self, value: ast.expr, wanted: Code, node: ast.Await) -> Code:
        """Starts what a region waits for: what is known now as a step of its own, the rest by the awaiter."""
        target = self.program.fresh("t")
        callee = self.known_callee(value)
        if isinstance(callee, Options):
            self.whole_program.use_action(callee.action, callee.policy)
            given = op(["field", "with"], wanted)
            kind: dict[str, Any] = {"dispatch": {"executor": "action", "action": callee.action.name, "with": given.to_json()}}
            self.emit(kind, _step_name(callee.action.name), node, to=target, policy=callee.policy)
            return returned(code.name(target), callee.action)
        if isinstance(callee, Workflow):
            self.whole_program.use_workflow(callee)
            kind = {"workflow": {"workflow": literal(callee.name).to_json(), "with": op(["field", "with"], wanted).to_json()}}
            self.emit(kind, callee.name, node, to=target)
            return returned(code.name(target), callee)
        if callee == "sleep":
            self.emit({"sleep": {"span": op(["field", "span"], wanted).to_json()}}, f"sleep-{node.lineno}", node)
            return literal(None)
        self.awaitable_or_refused(value)
        number = self.any_awaiter()
        kind = {"call": {"function": number, "with": [["wanted.d", wanted.to_json()]]}}
        self.emit(kind, f"await-{node.lineno}", node, to=target)
        return code.name(target)

    def known_callee(self, node: ast.expr) -> Any:
        if not isinstance(node, ast.Call):
            return None
        if isinstance(node.func, ast.Call):
            return self.quiet_options(node.func)
        found = quiet_static(node.func, self)
        if isinstance(found, Action):
            return Options(found, found.policy)
        if isinstance(found, Workflow):
            return found
        with_result = len(node.args) > 1 or any(each.arg != "delay" for each in node.keywords)
        return "sleep" if _is_one_of(found, SLEEP) and not (with_result and found is asyncio.sleep) else None

    def quiet_options(self, node: ast.Call) -> Optional[Options]:
        return call_options(node, self)

    def awaitable_or_refused(self, node: ast.expr) -> None:
        """Refuses what is known to be nothing that the law can wait for."""
        if not isinstance(node, ast.Call):
            return
        found = quiet_static(node.func, self)
        self.whole_program.starts |= _is_one_of(found, START)
        if found is None or _is_one_of(found, (*AWAITABLE, *STARTING)):
            return
        found = getattr(found, "__func__", found) if isinstance(found, types.MethodType) else found
        if not isinstance(found, types.FunctionType) or not frame_knows(found):
            title = ast.unparse(node.func)
            self.refuse(
                node, f"an await of '{title}', which a workflow cannot wait for",
                "await actions, workflows, async functions, sleep, wait_signal, gather or wait_for; call it in an @action",
            )  # fmt: skip

    def known_call(self, node: ast.Call) -> ast.AST:
        """Calls that mean something else in a region."""
        found = quiet_static(node.func, self)
        if isinstance(found, type) or callable(found):
            module = getattr(found, "__module__", "") or ""
            name = getattr(found, "__name__", "")
            if name == "TaskGroup" and module.startswith("asyncio") and not hasattr(node, GROUP):
                self.refuse(node, "a TaskGroup outside of its block", "write async with asyncio.TaskGroup() as group:")
            if module.partition(".")[0] in ("asyncio", "_asyncio") and name in _NOT_HERE:
                self.refuse(
                    node, f"'{ast.unparse(node.func)}' has no meaning in a workflow",
                    "use gather, wait_for, create_task, TaskGroup, as_completed, or async with asyncio.timeout(…)",
                )  # fmt: skip
            if name == "as_completed" and (len(node.args) > 1 or any(each.arg == "timeout" for each in node.keywords)):
                self.refuse(node, "as_completed with a timeout", "write async with asyncio.timeout(…): around the loop")
            if module.startswith("asyncio") and name in TASKS:
                self.whole_program.tasks = True
                self.any_awaiter()
                node.func = ast.copy_location(ast.Attribute(load("_lope"), name, ast.Load()), node)
        word = next((word for known, word in _REGIONS_CALL if found is known), None)
        if word == "gather" and not hasattr(node, AWAITED):
            # It begins where it is called.
            word = "gather_now"
            self.whole_program.tasks = True
            self.any_awaiter()
        if word is not None:
            node.func = ast.copy_location(ast.Attribute(load("_lope"), word, ast.Load()), node)
        return node


def _mark_awaited(node: ast.expr) -> None:
    """What is awaited where it is called need not begin before; nor what a call is given that is awaited so."""
    if isinstance(node, ast.Call):
        setattr(node, AWAITED, True)
        for each in node.args:
            _mark_awaited(each)


def _awaits_inside(node: Any) -> bool:
    """Does a comprehension await more than what it goes over first, which is computed before it?"""
    first = node.generators[0]
    outside = [each for each in children(node) if each is not first]
    return any(map(has_await, [*outside, *first.ifs, first.target]))


def _place(holder: Sequence[Any], index: int, each: Any) -> Any:
    if isinstance(each, ast.keyword):
        return each, "value", each.value
    return (holder, index, each) if isinstance(each, ast.expr) else None


def _put(holder: Any, at: Any, value: ast.expr) -> None:
    if isinstance(holder, list):
        holder[at] = value
    else:
        setattr(holder, at, value)


def _is_one_of(found: Any, known: Sequence[Any]) -> bool:
    return any(found is each for each in known)


def _step_name(action: str) -> str:
    return action if action.replace(".", "").replace("-", "").isidentifier() else "action"
