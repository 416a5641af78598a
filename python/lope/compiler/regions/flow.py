"""Statements: what awaits becomes steps of the law, what does not waits to become part of the next region."""

from __future__ import annotations

import ast
import functools
import inspect
import types
from typing import Any, Optional, Sequence

import lope.client

from ...decorators import Action, Workflow
from ...region.trees import children, walk
from ...values.names import class_name
from .. import code
from ..code import Code, listed, literal, op, text_map
from ..frame import Frame
from ..source import FunctionNode, Unit
from ..static import frame_knows, is_users, named_by, quiet_static
from .awaiter import host_tasks, write_awaiter
from .contexts import FOREIGN, NOT_HERE
from .handlers import Handlers, runs_on_cancel
from .loops import TURNED
from .mistakes import check_node, check_plain, check_uncalled
from .program import FRAME, Routine, Whole, async_methods, has_await
from .source import DEFS, SCOPES, bound_names, free_names, leaving, load, parsed, private, region_function, store

ROOT = 1


# The function that is the body of a workflow.
MAIN = "\0main"


class Flow(Handlers):
    """One function while it is compiled to regions."""

    def __init__(self, whole: Whole, routine: Routine, root: bool) -> None:
        super().__init__(whole.program, routine.unit, routine.block, routine.klass)
        self.whole_program = whole
        self.routine = routine
        self.root = root
        self.pending: list[ast.stmt] = []
        # What the law answered to the await before the pending statements.
        self.answer: Optional[Code] = None
        self.started = not root
        self.law_loops = []
        self.turning = None
        self.ending = TURNED
        # The variables with the exceptions that are being handled, innermost last; and for each, with one before all, what
        # the law calls the numbers of those that `finally` blocks in it are run for.
        self.handling: list[str] = []
        self.flights: list[list[str]] = [[]]
        # In how many blocks with handlers or a `finally` it stands.
        self.tries = 0
        self.locals = bound_names(self.unit.node) | {each.arg for each in _arguments(self.unit.node)}
        if any(isinstance(each, ast.Call) and quiet_static(each.func, self) is lope.client.start for each in self.own):
            _Starting(self).visit(self.unit.node)
            del self.own
        # The value of a run that returns inside a try with finally is made when that is through.
        self.late = root and any(_ends_late(each) or runs_on_cancel(each, self) is not None for each in self.own)

    def whole(self) -> None:
        """Compiles the function."""
        node = self.unit.node
        self.check(node)
        if self.late or (self.root and self.whole_program.hosted):
            self.later(node)
            return
        self.statements(node.body)
        if not self.block.left and (self.pending or self.answer is not None or not self.started):
            self.region(node)

    def later(self, node: FunctionNode) -> None:
        """The body as a function of its own, then what it returned."""
        self.pending = [ast.copy_location(ast.Pass(), node)]
        self.region(node)
        inner = Routine(MAIN, self.unit, self.whole_program.function_block(), self.klass, None)
        self.whole_program.add(inner)
        if self.whole_program.hosted:
            self.beside_tasks(inner, node)
        else:
            self.call_main(inner, node)
        self.pending = [leaving("result", ast.Constant(ROOT))]
        self.region(node, leaves={"return"})

    def call_main(self, inner: Routine, node: FunctionNode) -> None:
        kind = {"call": {"function": inner.block.number, "with": [[FRAME, literal(ROOT).to_json()]]}}
        self.emit(kind, self.unit.name, node, to=self.program.fresh("t"))

    def beside_tasks(self, inner: Routine, node: FunctionNode) -> None:
        """The run's tasks are there as long as its own code runs."""
        with self.inside(self.program.block()) as main:
            self.call_main(inner, node)
        with self.inside(self.program.block()) as tasks:
            host_tasks(self.whole_program, self, self.any_awaiter())
        branches = [{"name": "main", "block": main.number}, {"name": "tasks", "block": tasks.number}]
        self.emit({"race": {"branches": branches}}, "run", node)

    # Names.

    def check(self, node: FunctionNode) -> None:
        """Refuses what cannot be followed, and finds what may be awaited."""
        self.routine.locals = self.locals
        self.routine.locals -= self.nonlocals
        inside = bound_names(node, inside=True) | self.locals
        for each in self.own:
            if isinstance(each, (ast.Yield, ast.YieldFrom)):
                self.refuse(each, "a workflow cannot yield", "collect the values in a list and return it")
            module = _meant(each) if isinstance(each, (ast.Import, ast.ImportFrom)) else None
            if module is not None:
                self.refuse(each, f"an import of {module} inside a workflow", "import it at the top of the module")
            if _is_ours(each):
                self.refuse(each, "a name that begins with _lope", "choose another one: these are Lope's own")
            if isinstance(each, ast.Global):
                self.refuse(each, "a global statement", "return the value, or keep it in a variable of the workflow")
            if isinstance(each, DEFS):
                self.define_inner(each)
            if isinstance(each, (ast.FunctionDef, ast.Lambda, ast.ClassDef)):
                self.refuse_async(each)
            if isinstance(each, SCOPES):
                self.routine.cells |= free_names(each) & self.routine.locals
        whole = [*walk(node)]
        for each in whole:
            if isinstance(each, ast.Name) and isinstance(each.ctx, ast.Load) and each.id not in inside and not self.known(each.id):
                self.refuse(
                    each, f"the name '{each.id}' is not defined", "define it in this function or at the top of the module"
                )
        called = {id(each.func) for each in whole if isinstance(each, ast.Call)}
        for each in whole:
            self.discover(each)
            check_uncalled(each, called, self)
        for each in self.own:
            check_node(each, self)

    def known(self, name: str) -> bool:
        return name in ("__class__", "_lope") or self.unit.lookup(name)[0] or any(name in each.locals for each in self.around())

    def define_inner(self, node: FunctionNode) -> None:
        if node.decorator_list and isinstance(node, ast.AsyncFunctionDef):
            self.refuse(node, f"'{node.name}' has a decorator", "define decorated functions at the top of the module")
        if isinstance(node, ast.AsyncFunctionDef):
            key = self.nested_key(node)
            unit = Unit(node, self.unit.file, self.unit.outside, self.unit.owner)
            self.whole_program.add(Routine(key, unit, self.whole_program.function_block(), None, self.routine))

    def refuse_async(self, node: ast.AST) -> None:
        for each in walk(node):
            if isinstance(each, ast.AsyncFunctionDef):
                self.refuse(each, "an async function inside a plain one", "define it in the workflow, or at the top of the module")

    def around(self) -> list[Routine]:
        found, each = [], self.routine.parent
        while each is not None:
            found.append(each)
            each = each.parent
        return found

    @functools.cached_property
    def nonlocals(self) -> set[str]:
        return {name for each in self.own if isinstance(each, ast.Nonlocal) for name in each.names}

    def nested_key(self, node: ast.AST) -> str:
        """The name under which the law knows a function inside this one."""
        return f"{self.routine.key}/{getattr(node, 'name', '')}:{getattr(node, 'lineno', 0)}"

    def discover(self, node: ast.AST) -> None:
        """Actions, workflows and async functions that this code names may be awaited."""
        if isinstance(node, ast.AsyncWith):
            self.use_methods("__aenter__")
            self.use_methods("__aexit__")
        if isinstance(node, ast.Call):
            self.use_methods("__call__")
            if (options := self.quiet_options(node)) is not None:
                self.whole_program.use_action(options.action, options.policy)
        if not isinstance(node, (ast.Name, ast.Attribute)) or not isinstance(node.ctx, ast.Load):
            return
        found = quiet_static(node, self)
        if isinstance(found, Action):
            self.whole_program.use_action(found, found.policy)
        elif isinstance(found, Workflow):
            self.whole_program.use_workflow(found)
        elif isinstance(found, types.FunctionType) and frame_knows(found) and _is_async(found):
            if hasattr(found, "__wrapped__"):
                self.refuse(node, f"'{ast.unparse(node)}' is wrapped by a decorator", "make it an @action, or await it undecorated")
            self.whole_program.use_function(found)
        elif isinstance(found, (types.FunctionType, type)) and frame_knows(found):
            if id(found) not in self.whole_program.followed:
                self.whole_program.followed.add(id(found))
                if isinstance(found, types.FunctionType):
                    check_plain(found, node, self)
                for each in named_by(found):
                    self.use(each)
        elif isinstance(node, ast.Attribute):
            self.use_methods(private(node.attr, self.unit.owner))
        elif found is getattr:
            for name in self.async_methods:
                self.use_methods(name)
        elif found is not None and is_users(type(found)):
            self.whole_program.use_class(type(found))

    def use(self, found: Any) -> None:
        """Something that a plain function or a class names, whose calls it may hand out."""
        if isinstance(found, Action):
            self.whole_program.use_action(found, found.policy)
        elif isinstance(found, Workflow):
            self.whole_program.use_workflow(found)
        elif isinstance(found, type):
            self.whole_program.use_class(found)
        else:
            self.whole_program.use_function(found)

    def use_methods(self, name: str) -> None:
        self.whole_program.use_attribute(name)
        for method, owner in self.async_methods.get(name, ()):
            self.whole_program.use_function(method, owner)

    # Regions.

    def region(self, node: ast.AST, leaves: Optional[set[str]] = None) -> Code:
        """The pending statements as a step; the name of what it leads to."""
        turning = self.turning
        if turning is not None and turning.block is self.block:
            return self.turned(turning, node)
        return self.region_to(self.program.fresh("out"), node, leaves)

    def region_to(self, out: str, node: ast.AST, leaves: Optional[set[str]] = None) -> Code:
        text, lines, left, cells = region_function(self, self.pending)
        entries: list[tuple[str, Code]] = [
            ("code", literal(text)), ("lines", literal(lines)), ("module", literal(self.module_name())),
            ("line", literal(getattr(node, "lineno", 0))), ("name", literal(self.routine.qualname)),
        ]  # fmt: skip
        if self.root:
            entries += [("root", literal(True)), ("workflow", literal(self.whole_program.workflow.name))]
        else:
            entries.append(("frame", code.name(FRAME)))
        if not self.started:
            entries.append(("input", code.name("input")))
        if self.answer is not None:
            entries.append(("given", self.answer))
        if self.handling:
            entries.append(("handling", literal(self.handling[-1])))
        if self.flights[-1]:
            entries.append(("flights", listed([code.name(each) for each in reversed(self.flights[-1])])))
        if not self.tries and (self.root or self.routine.key == MAIN):
            entries.append(("fatal", literal(True)))
        elif not self.tries:
            entries.append(("leaves", literal(True)))
        if cells:
            entries.append(("cells", literal(cells)))
        if self.routine.scoped:
            entries.append(("scoped", literal(self.routine.scoped)))
        first = next((each for each in self.pending if getattr(each, "lineno", 0)), node)
        given = text_map([("request", text_map(entries))])
        kind = {"dispatch": {"executor": "action", "action": self.whole_program.action, "with": given.to_json(), "heap": True}}
        self.emit(kind, f"code-{getattr(first, 'lineno', 0)}", first, to=out)
        self.pending, self.answer, self.started = [], None, True
        self.leaving(code.name(out), left | (leaves or set()), node)
        return code.name(out)

    def module_name(self) -> str:
        from ...values.names import module_name

        return module_name(types.SimpleNamespace(__module__=self.routine.module))

    def leaving(self, out: Code, ways: set[str], node: ast.AST) -> None:
        cases = []
        innermost = self.law_loops[-1][1] if self.law_loops else None
        for way in ("raise", *sorted(ways)):
            if way.startswith(f"{TURNED}.") and way != innermost:
                # The loop itself asks.
                continue
            with self.inside(self.program.block()) as block:
                self.leave(way, out, node)
            when = op(["eq"], op(["field", "flow"], out), literal(way))
            cases.append({"when": when.to_json(), "block": block.number})
        self.emit({"switch": {"cases": cases}}, f"flow-{getattr(node, 'lineno', 0)}", None)

    def leave(self, way: str, out: Code, node: ast.AST) -> None:
        line = getattr(node, "lineno", 0)
        value = op(["field", "v"], out)
        if way == "raise":
            self.emit({"raise": {"error": value.to_json()}}, f"raise-{line}", node)
        elif way == "return":
            found = value if self.root else listed([literal("f"), code.name(FRAME)])
            self.emit({"return": {"value": found.to_json()}}, f"return-{line}", node)
        else:
            if way == "break" and self.law_loops and self.law_loops[-1][0] is not None:
                self.let(literal(True), None, self.law_loops[-1][0])
            word = "break" if way.startswith(TURNED) else way
            self.emit(word, f"{word}-{line}", node)

    def value_of(self, out: Code) -> Code:
        return op(["field", "v"], out)

    # Statements.

    def statements(self, body: Sequence[ast.stmt]) -> None:
        for node in body:
            if self.block.left:
                return
            if not has_await(node):
                self.pending.append(node)
                if isinstance(node, (ast.Return, ast.Raise, ast.Break, ast.Continue)):
                    self.region(node)
                    self.block.left = True
                continue
            handle = getattr(self, f"_on_{type(node).__name__}", None)
            if handle is None:
                self.refuse(node, *FOREIGN.get(type(node).__name__, NOT_HERE))
            handle(node)

    def branch(self, body: Sequence[ast.stmt]) -> int:
        """A block of statements; its number. Nothing is pending at its end."""
        with self.inside(self.program.block()) as block:
            self.statements(body)
            if not block.left and (self.pending or self.answer is not None):
                self.region(body[-1] if body else self.unit.node)
            self.pending, self.answer = [], None
        return block.number

    def _on_Expr(self, node: ast.Expr) -> None:
        value = self.lift(node.value)
        if not isinstance(value, ast.Name):
            self.pending.append(ast.copy_location(ast.Expr(value), node))

    def _on_Assign(self, node: ast.Assign) -> None:
        value = self.lift(node.value)
        if not any(map(has_await, node.targets)):
            self.pending.append(ast.copy_location(ast.Assign(node.targets, value), node))
            return
        value = self.kept(value)
        for each in node.targets:
            # The whole and the key are computed after the value, one target after the other.
            target = self.lift_parts(each) if has_await(each) and isinstance(each, (ast.Attribute, ast.Subscript)) else each
            self.targets([target])
            self.pending.append(ast.copy_location(ast.Assign([target], value), node))

    def targets(self, nodes: Sequence[ast.expr]) -> list[ast.expr]:
        for each in nodes:
            if has_await(each):
                self.refuse(each, "an await in the target of an assignment", "await it before, into a variable")
        return list(nodes)

    def _on_AnnAssign(self, node: ast.AnnAssign) -> None:
        assert node.value is not None
        value = self.lift(node.value)
        self.pending.append(ast.copy_location(ast.AnnAssign(node.target, node.annotation, value, node.simple), node))

    def _on_AugAssign(self, node: ast.AugAssign) -> None:
        """The left side is read before the right is awaited."""
        target = node.target
        if not isinstance(target, ast.Name):
            target = self.steady(target)  # type: ignore[assignment]
        before, hidden = self.hidden(), load
        read = _loaded(target)
        self.pending.append(store(before, read, node))
        value = self.lift(node.value)
        # Lists and sets are changed in place, so that the statement itself must be one.
        changed = ast.AugAssign(ast.Name(before, ast.Store()), node.op, value)
        self.pending.append(ast.copy_location(changed, node))
        self.pending.append(ast.copy_location(ast.Assign([target], hidden(before)), node))

    def steady(self, node: ast.expr) -> ast.expr:
        """A part whose whole and key are computed once."""
        if isinstance(node, ast.Attribute):
            return ast.copy_location(ast.Attribute(self.kept(self.lift(node.value)), node.attr, ast.Store()), node)
        assert isinstance(node, ast.Subscript)
        whole = self.kept(self.lift(node.value))
        return ast.copy_location(ast.Subscript(whole, self.kept(self.lift(node.slice)), ast.Store()), node)

    def _on_Return(self, node: ast.Return) -> None:
        assert node.value is not None
        value = self.lift(node.value)
        self.pending.append(ast.copy_location(ast.Return(value), node))
        self.region(node)
        self.block.left = True

    def _on_Raise(self, node: ast.Raise) -> None:
        assert node.exc is not None
        error, cause = self.lift(node.exc), node.cause
        if cause is not None and has_await(cause):
            error, cause = self.kept(error), self.lift(cause)
        self.pending.append(ast.copy_location(ast.Raise(error, cause), node))
        self.region(node)
        self.block.left = True

    def _on_Delete(self, node: ast.Delete) -> None:
        for each in node.targets:
            found = self.lift_parts(each) if has_await(each) else each
            self.pending.append(ast.copy_location(ast.Delete([found]), node))

    def _on_FunctionDef(self, node: Any) -> None:
        if any(map(has_await, [*node.decorator_list, *([node.returns] if node.returns is not None else [])])):
            self.refuse(node, *NOT_HERE)
        made = self.with_defaults(node)
        if node.decorator_list:
            self.refuse(node, "an await in a default of a function with a decorator", NOT_HERE[1])
        self.pending.append(made)

    _on_AsyncFunctionDef = _on_FunctionDef

    def _on_Assert(self, node: ast.Assert) -> None:
        failed = ast.Raise(ast.Call(load("AssertionError"), [node.msg] if node.msg else [], []), None)
        test = ast.UnaryOp(ast.Not(), node.test)
        self.statements([ast.fix_missing_locations(ast.copy_location(ast.If(test, [ast.copy_location(failed, node)], []), node))])

    def _on_If(self, node: ast.If) -> None:
        out = self.tested(node.test, node)
        kind: dict[str, Any] = {"when": self.value_of(out).to_json(), "then": self.branch(node.body)}
        if node.orelse:
            kind["otherwise"] = self.branch(node.orelse)
        self.emit({"if": kind}, f"if-{node.lineno}", node)

    def tested(self, test: ast.expr, node: ast.AST) -> Code:
        """Ends the region with a condition."""
        lifted = self.lift(test)
        self.pending.append(ast.copy_location(leaving("test", lifted), node))
        return self.region(node)

    def ready(self, node: ast.AST) -> None:
        """Whatever is pending is done before a block begins."""
        if self.pending or self.answer is not None or not self.started:
            self.region(node)

    def _on_Match(self, node: ast.Match) -> None:
        """A region says which case it is, and binds its names."""
        subject = self.lift(node.subject)
        cases = []
        for place, each in enumerate(node.cases):
            if each.guard is not None and has_await(each.guard):
                self.refuse(each.guard, "an await in the guard of a case", "await it before, into a variable")
            cases.append(ast.match_case(each.pattern, each.guard, [leaving("next", ast.Constant(place))]))
        self.pending.append(ast.copy_location(ast.Match(subject, cases), node))
        self.pending.append(leaving("next", ast.Constant(-1)))
        out = self.region(node)
        chosen = []
        for place, each in enumerate(node.cases):
            when = op(["eq"], self.value_of(out), literal(place))
            chosen.append({"when": when.to_json(), "block": self.branch(each.body)})
        self.emit({"switch": {"cases": chosen}}, f"match-{node.lineno}", node)

    # What regions call.

    def super_call(self, node: ast.Call) -> ast.AST:
        owner, own = self.unit.owner, self.unit.node.args.args
        if owner is None or not own:
            return node
        return ast.copy_location(ast.Call(load("super"), [self.own_class(owner, node), load(own[0].arg)], []), node)

    def own_class(self, owner: type, node: ast.AST) -> ast.expr:
        """What `__class__` means in a method."""
        found = ast.Call(ast.Attribute(load("_lope"), "class_of", ast.Load()), [ast.Constant(class_name(owner))], [])
        return ast.copy_location(found, node)

    def builtin(self, node: ast.expr) -> Any:
        """The function of Python's own that a name means, if it means one."""
        found = quiet_static(node, self) if isinstance(node, ast.Name) else None
        return found if isinstance(found, (types.BuiltinFunctionType, type)) else None

    def any_awaiter(self) -> int:
        """The block that starts whatever a region waits for."""
        whole = self.whole_program
        if whole.awaiter is None:
            made = whole.awaiter = self.program.block()
            whole.write_awaiter = lambda: write_awaiter(whole, Frame(self.program, self.unit, made, None))
        return whole.awaiter.number


class _Starting(ast.NodeTransformer):
    """`start(child)` waits until the child is there, which in a workflow takes an await."""

    def __init__(self, flow: Flow) -> None:
        self.flow = flow

    def visit_Await(self, node: ast.Await) -> ast.AST:
        for each in children(node.value):
            self.visit(each)
        return node

    def visit_Call(self, node: ast.Call) -> ast.AST:
        self.generic_visit(node)
        if quiet_static(node.func, self.flow) is not lope.client.start:
            return node
        awaited = ast.Call(ast.Attribute(load("_lope"), "start_async", ast.Load()), node.args, node.keywords)
        self.flow.whole_program.starts = True
        return ast.fix_missing_locations(ast.copy_location(ast.Await(ast.copy_location(awaited, node)), node))

    def skip(self, node: ast.AST) -> ast.AST:
        return node

    visit_FunctionDef = visit_Lambda = visit_ClassDef = skip

    def visit_AsyncFunctionDef(self, node: ast.AsyncFunctionDef) -> ast.AST:
        return self.generic_visit(node) if node is self.flow.unit.node else node


def _ends_late(node: ast.AST) -> bool:
    """Does something happen after a return inside it?"""
    late = isinstance(node, (ast.With, ast.AsyncWith)) or (isinstance(node, ast.Try) and bool(node.finalbody))
    return late and has_await(node)


def _is_ours(node: ast.AST) -> bool:
    name = node.id if isinstance(node, ast.Name) and not isinstance(node.ctx, ast.Load) else getattr(node, "arg", None)
    return isinstance(node, (ast.Name, ast.arg)) and isinstance(name, str) and name.startswith("_lope")


def _meant(node: ast.Import | ast.ImportFrom) -> Optional[str]:
    """The module that it imports of those whose functions mean something else in a workflow."""
    names = [node.module or ""] if isinstance(node, ast.ImportFrom) else [each.name for each in node.names]
    return next((top for top in (each.partition(".")[0] for each in names) if top in ("asyncio", "lope")), None)


def _is_async(function: Any) -> bool:
    return inspect.iscoroutinefunction(function) or inspect.iscoroutinefunction(inspect.unwrap(function))


def _arguments(node: FunctionNode) -> list[ast.arg]:
    given = node.args
    extra = [each for each in (given.vararg, given.kwarg) if each is not None]
    return [*given.posonlyargs, *given.args, *given.kwonlyargs, *extra]


def _loaded(node: ast.expr) -> ast.expr:
    if isinstance(node, ast.Name):
        return ast.copy_location(ast.Name(node.id, ast.Load()), node)
    if isinstance(node, ast.Attribute):
        return ast.copy_location(ast.Attribute(node.value, node.attr, ast.Load()), node)
    assert isinstance(node, ast.Subscript)
    return ast.copy_location(ast.Subscript(node.value, node.slice, ast.Load()), node)
