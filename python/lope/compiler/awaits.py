"""Awaits: actions, other workflows, async functions, sleeps, signals, and several of these at once."""

from __future__ import annotations

import ast
import asyncio
import types
from dataclasses import dataclass
from typing import Any, Callable, Optional, Union

import lope.signals
import lope.spans

from ..decorators import Action, Workflow
from ..policy import Retry, policy
from ..values.arguments import ARGUMENTS
from . import code
from .blocks import Block
from .calls import Calls
from .classes import CONSTRUCT
from .code import Code, call, listed, literal, op, text_map, truth
from .effects import is_self, is_super
from .frame import MISSING
from .functions import Function
from .signature import bind

GATHER = (asyncio.gather,)
SLEEP = (asyncio.sleep, lope.spans.sleep)
WAIT_FOR = (asyncio.wait_for,)
TASK = (asyncio.create_task, asyncio.ensure_future)
SIGNAL = (lope.signals.wait_signal,)
AWAITABLE = (*GATHER, *SLEEP, *WAIT_FOR, *TASK, *SIGNAL)

COROUTINE, A_TASK = "lope:coroutine", "lope:task"


@dataclass
class Options:
    """An action with options of its own: `act.with_options(…)`."""

    action: Action[..., Any]
    policy: dict[str, Any]


Callee = Union[Options, Workflow[..., Any], Function]


@dataclass
class Site:
    """A call that stands as a value: what it calls, and the names of its arguments."""

    callee: Callee
    names: Optional[list[str]]
    node: ast.Call


class Awaits(Calls):
    def is_awaitable(self, found: Any) -> bool:
        return found in AWAITABLE if isinstance(found, (types.FunctionType, types.BuiltinFunctionType)) else False

    def awaited(self, node: ast.expr, to: Optional[str] = None) -> Code:
        """Waits for something, and is its value."""
        if not isinstance(node, ast.Call):
            return self.await_value(self.expr(node), node, to)
        callee = self.callee(node)
        if callee is not None:
            names, values = self.arguments(callee, node)
            return self.start(callee, names, values, node, to)
        found = self.static(node.func)
        for known, handle in self.handlers():
            if found in known:
                return handle(node, to)
        return self.await_value(self.expr(node), node, to)

    def handlers(self) -> list[tuple[tuple[Any, ...], Callable[[ast.Call, Optional[str]], Code]]]:
        return [
            (GATHER, self.gather), (SLEEP, self.sleep), (WAIT_FOR, self.wait_for), (TASK, self.task_at_once),
            (SIGNAL, self.wait_signal),
        ]  # fmt: skip

    # What is called.

    def callee(self, node: ast.expr) -> Optional[Callee]:
        """What a call starts, if it is an action, a workflow or an async function."""
        if not isinstance(node, ast.Call):
            return None
        function = node.func
        if isinstance(function, ast.Name) and function.id in self.nested:
            return self.only_async(self.nested_function(function.id, node), node)
        if isinstance(function, ast.Attribute) and (is_self(function.value, self) or is_super(function.value)):
            return self.only_async(self.method(function, node), node)
        if isinstance(function, ast.Call):
            return self.with_options(function)
        found = self.static(function)
        if isinstance(found, Action):
            return Options(found, found.policy)
        if isinstance(found, Workflow):
            return found
        if isinstance(found, types.FunctionType) and not self.is_awaitable(found) and self.knows(found):
            if not _is_async(found):
                return None
            return self.only_async(self.function(found, node), node)
        return None

    def only_async(self, made: Function, node: ast.Call) -> Optional[Function]:
        return made if made.is_async else None

    def with_options(self, node: ast.Call) -> Optional[Options]:
        function = node.func
        if not isinstance(function, ast.Attribute) or function.attr != "with_options":
            return None
        found = self.static(function.value)
        if not isinstance(found, Action):
            return None
        given: dict[str, Any] = {}
        for each in node.keywords:
            if each.arg not in ("retry", "timeout"):
                self.refuse(each.value, f"with_options has no '{each.arg}'", "use retry= and timeout=")
            given[str(each.arg)] = self.option(each.value)
        retry, timeout = given.get("retry", found.retry), given.get("timeout", found.timeout)
        try:
            return Options(found, policy(retry, timeout))
        except (TypeError, ValueError, AttributeError) as error:
            self.refuse(node, f"options that make no sense: {error}", "use retry=Retry(3) and timeout=\"20s\"")

    def option(self, node: ast.expr) -> Any:
        """An option is known now: a constant, or a Retry of constants."""
        if isinstance(node, ast.Call) and self.static(node.func) is Retry:
            try:
                arguments = [self.option(each) for each in node.args]
                return Retry(*arguments, **{str(each.arg): self.option(each.value) for each in node.keywords})
            except (TypeError, ValueError) as error:
                self.refuse(node, f"not a Retry: {error}", "write Retry(3, backoff=\"exponential\", base=\"500ms\")")
        try:
            return ast.literal_eval(node)
        except ValueError:
            pass
        if isinstance(node, ast.Tuple):
            return tuple(self.option(each) for each in node.elts)
        found = self.static(node)
        if found is MISSING:
            self.refuse(node, "an option that is only known when it runs", "use a constant")
        return found

    # Arguments.

    def arguments(self, callee: Callee, node: ast.Call) -> tuple[Optional[list[str]], list[Code]]:
        """Names and values of the arguments; without names the one value holds all of them."""
        if isinstance(callee, Function):
            pairs = self.call_arguments(callee, node)
            return [name for name, _ in pairs], [value for _, value in pairs]
        signature = callee.action.signature if isinstance(callee, Options) else callee.signature
        if _is_spread(node) or any(each.kind in (each.VAR_POSITIONAL, each.VAR_KEYWORD) for each in signature.parameters.values()):
            positional, keywords = self.spread(node)
            return None, [self.tagged_arguments(positional, keywords)]
        nodes = [*node.args, *(each.value for each in node.keywords)]
        values = self.operands(nodes)
        keywords_ = [str(each.arg) for each in node.keywords]
        found, problem = bind(signature, values[: len(node.args)], dict(zip(keywords_, values[len(node.args):])))
        if problem is not None:
            self.refuse(node, f"{ast.unparse(node.func)}() {problem}", f"its parameters are {signature}")
        return list(found), list(found.values())

    def tagged_arguments(self, positional: Code, keywords: Code) -> Code:
        return call("py.arguments", positional, keywords)

    # Starting.

    def start(
        self, callee: Callee, names: Optional[list[str]], values: list[Code], node: ast.AST, to: Optional[str]
    ) -> Code:
        """Starts a call whose arguments are there, waits for it, and is its value."""
        if isinstance(callee, Function):
            assert names is not None
            return self.call_step(callee, list(zip(names, values)), node, to)
        given = values[0] if names is None else text_map(list(zip(names, values)))
        target = to or self.program.fresh("t")
        if isinstance(callee, Workflow):
            self.program.children[callee.name] = callee
            kind: dict[str, Any] = {"workflow": {"workflow": literal(callee.name).to_json(), "with": given.to_json()}}
            self.emit(kind, callee.name, node, to=target)
        else:
            self.program.actions.add(callee.action.name)
            kind = {"dispatch": {"executor": "action", "action": callee.action.name, "with": given.to_json()}}
            self.emit(kind, _step_name(callee.action.name), node, to=target, policy=callee.policy)
        return code.name(target, self.at(node))

    def sleep(self, node: ast.Call, to: Optional[str]) -> Code:
        if len(node.args) != 1 or node.keywords:
            self.refuse(node, "sleep takes one span of time", "write sleep(\"5m\") or sleep(300)")
        span = self.expr(node.args[0])
        self.emit({"sleep": {"span": span.to_json()}}, f"sleep-{node.lineno}", node, to=to)
        return literal(None, self.at(node))

    def wait_signal(self, node: ast.Call, to: Optional[str]) -> Code:
        options = self.options(node, "timeout", "default")
        if len(node.args) != 1:
            self.refuse(node, "wait_signal takes the name of a signal", "write wait_signal(\"approved\")")
        signal, *rest = self.operands([node.args[0], *options.values()])
        kind: dict[str, Any] = {"signal": signal.to_json()}
        kind.update({key: value.to_json() for key, value in zip(options, rest) if not _is_none(options[key], key)})
        target = to or self.program.fresh("t")
        self.emit({"wait": kind}, f"wait-{node.lineno}", node, to=target)
        return code.name(target, self.at(node))

    # Several at once.

    def gather(self, node: ast.Call, to: Optional[str]) -> Code:
        collects = self.collects(node)
        if len(node.args) == 1 and isinstance(node.args[0], ast.Starred):
            prepared = self.hoist(node.args[0], collects)
            with self.own_frame():
                return prepared(collects)
        branches: list[tuple[Block, bool]] = []
        hoisted = [self.hoist(each, collects) for each in node.args]
        for each, prepared in zip(node.args, hoisted):
            with self.inside(self.program.block()) as block, self.own_frame():
                block.collect = prepared(collects)
            branches.append((block, isinstance(each, ast.Starred)))
        if not branches:
            return self.let(literal([]), node, to)
        outputs = self.program.fresh("t")
        named = [{"name": f"at-{place}", "block": block.number} for place, (block, _) in enumerate(branches)]
        self.emit({"all": {"branches": named}}, f"gather-{node.lineno}", node, to=outputs)
        parts = []
        for place, (_, several) in enumerate(branches):
            value = op(["py.index"], code.name(outputs), literal(f"at-{place}"))
            parts.append(value if several else listed([value]))
        return self.let(call("py.concat", *parts), node, to)

    def collects(self, node: ast.Call) -> bool:
        collects = False
        for each in node.keywords:
            if each.arg != "return_exceptions" or not isinstance(each.value, ast.Constant):
                self.refuse(each.value, "gather takes return_exceptions=True or False", "leave the others out")
            collects = bool(each.value.value)
        return collects

    def hoist(self, node: ast.expr, collects: bool) -> Callable[[bool], Code]:
        """Computes the arguments of something that gather starts; what is left to do is done in its branch."""
        if isinstance(node, ast.Starred):
            return self.hoist_several(node.value)
        callee = self.callee(node)
        if callee is not None:
            assert isinstance(node, ast.Call)
            names, values = self.arguments(callee, node)
            values = [each if _is_simple(each) else self.let(each, node) for each in values]
            return lambda caught: self.caught(lambda: self.start(callee, names, values, node, None), node, caught)
        if isinstance(node, ast.Call) and self.is_awaitable(self.static(node.func)):
            return lambda caught: self.caught(lambda: self.awaited(node), node, caught)
        value = self.let(self.expr(node), node)
        return lambda caught: self.caught(lambda: self.await_value(value, node, None), node, caught)

    def hoist_several(self, node: ast.expr) -> Callable[[bool], Code]:
        """`*[f(x) for x in xs]`: the arguments of all calls first, then all calls at once."""
        if isinstance(node, (ast.ListComp, ast.GeneratorExp)) and (callee := self.callee_inside(node)) is not None:
            assert isinstance(node.elt, ast.Call)
            call_node, names_of = node.elt, callee
            names: list[Optional[list[str]]] = []

            def arguments() -> Code:
                found, values = self.arguments(names_of, call_node)
                names.append(found)
                return listed(values)

            over = self.let(self.loop_over(node, arguments), node)
            return lambda caught: self.each_of(over, node, caught, lambda item: self.start(
                names_of, names[0], [code.item(item, place) for place in range(_count(names[0]))], call_node, None))  # fmt: skip
        if isinstance(node, (ast.ListComp, ast.GeneratorExp)) and _is_awaitable_call(node.elt, self):
            return self.hoist_by_variables(node)
        over = self.let(call("py.iter", self.expr(node, consumed=True)), node)
        return lambda caught: self.each_of(over, node, caught, lambda item: self.await_value(item, node, None))

    def callee_inside(self, node: ast.ListComp | ast.GeneratorExp) -> Optional[Callee]:
        """What the element of a comprehension calls, if its arguments have no effects."""
        if not isinstance(node.elt, ast.Call):
            return None
        parts = [*node.elt.args, *(each.value for each in node.elt.keywords)]
        if any(self.effects(each) for each in parts):
            self.refuse(node.elt, "an argument that awaits or calls, inside gather", "compute the arguments before, in a list")
        before = dict(self.bound)
        for each in node.generators:
            self.loop_target(each.target)
        found = self.callee(node.elt)
        self.bound = before
        return found

    def loop_over(self, node: ast.ListComp | ast.GeneratorExp, body: Callable[[], Code]) -> Code:
        """A comprehension whose body is made by somebody else."""
        marker = ast.copy_location(ast.Constant(None), node)
        before = self.expr

        def expr(each: ast.expr, consumed: bool = False) -> Code:
            return body() if each is marker else before(each, consumed)

        setattr(self, "expr", expr)
        try:
            return self.loop(node.generators, [marker], "list", node)
        finally:
            del self.expr

    def hoist_by_variables(self, node: ast.ListComp | ast.GeneratorExp) -> Callable[[bool], Code]:
        """Elements that are more than a call: their variables first, the rest in each branch."""
        targets: list[ast.Name] = []
        for each in node.generators:
            targets += [part for part in ast.walk(each.target) if isinstance(part, ast.Name)]
        over = self.let(self.loop_over(node, lambda: listed([self.expr(_load(each)) for each in targets])), node)

        def element(item: Code) -> Code:
            before = dict(self.bound)
            for place, each in enumerate(targets):
                self.bound[each.id] = self.program.fresh(each.id)
                self.let(code.item(item, place), node, self.bound[each.id])
            value = self.awaited(node.elt)
            self.bound = before
            return value

        return lambda caught: self.each_of(over, node, caught, element)

    def each_of(self, over: Code, node: ast.AST, caught: bool, element: Callable[[Code], Code]) -> Code:
        """One branch for each item, all at once; a list of their values."""
        item, target = self.program.fresh("item"), self.program.fresh("t")
        with self.inside(self.program.block()) as block:
            block.collect = self.caught(lambda: element(code.name(item)), node, caught)
        kind = {"each": {"over": over.to_json(), "item": item, "parallel": "max", "block": block.number}}
        self.emit(kind, f"each-{getattr(node, 'lineno', 0)}", node, to=target)
        return code.name(target)

    def caught(self, work: Callable[[], Code], node: ast.AST, catches: bool) -> Code:
        """Some work, whose failure is its value if it is caught."""
        if not catches:
            return work()
        failure, target = self.program.fresh("failure"), self.program.fresh("t")
        with self.inside(self.program.block()) as body:
            body.collect = work()
        with self.inside(self.program.block()) as handler:
            handler.collect = call("py.exception", code.name(failure))
        kind = {"try": {"block": body.number, "handlers": [{"name": failure, "block": handler.number}]}}
        self.emit(kind, f"try-{getattr(node, 'lineno', 0)}", node, to=target)
        return code.name(target)

    def wait_for(self, node: ast.Call, to: Optional[str]) -> Code:
        options = self.options(node, "timeout")
        arguments = [*node.args, *options.values()]
        if len(arguments) != 2 or isinstance(node.args[0], ast.Starred):
            self.refuse(node, "wait_for takes an awaitable and a timeout", "write wait_for(act(x), timeout=5)")
        if isinstance(arguments[1], ast.Constant) and arguments[1].value is None:
            return self.awaited(arguments[0], to)
        prepared = self.hoist(arguments[0], False)
        span = self.let(self.expr(arguments[1]), node)
        with self.inside(self.program.block()) as work, self.own_frame():
            work.collect = prepared(False)
        with self.inside(self.program.block()) as timer, self.own_frame():
            self.emit({"sleep": {"span": span.to_json()}}, f"sleep-{node.lineno}", node)
            error = self.exception_value(TimeoutError, [], node)
            self.emit({"raise": {"error": error.to_json()}}, f"raise-{node.lineno}", node)
        outcome = self.program.fresh("t")
        branches = [{"name": "work", "block": work.number}, {"name": "timeout", "block": timer.number}]
        self.emit({"race": {"branches": branches}}, f"wait-for-{node.lineno}", node, to=outcome)
        return self.let(op(["py.index"], code.name(outcome), literal("output")), node, to)

    # Tasks and coroutines as values.

    def task_at_once(self, node: ast.Call, to: Optional[str]) -> Code:
        return self.awaited(self.task_argument(node), to)

    def task_argument(self, node: ast.Call) -> ast.expr:
        if len(node.args) != 1 or isinstance(node.args[0], ast.Starred):
            self.refuse(node, "create_task takes one coroutine", "write create_task(act(x))")
        return node.args[0]

    def is_task(self, node: ast.expr) -> bool:
        return isinstance(node, ast.Call) and self.static(node.func) in TASK

    def task(self, node: ast.Call, to: str) -> None:
        """Starts a task beside what follows; the variable gets its outcome."""
        prepared = self.hoist(self.task_argument(node), False)
        with self.own_frame():
            self.beside(node, to, lambda: prepared(False))

    def tasks_of(self, node: ast.ListComp, to: str) -> None:
        """`[create_task(f(x)) for x in xs]`: all of them beside what follows."""
        assert isinstance(node.elt, ast.Call)
        inner = ast.copy_location(ast.ListComp(self.task_argument(node.elt), node.generators), node)
        prepared = self.hoist_several(inner)
        item = code.name
        results = self.program.fresh("t")
        last = list(self.block.last)
        with self.own_frame(), self.inside(self.program.block()) as body:
            body.collect = self.outcomes(prepared(True))
        kind = {"try": {"block": body.number}}
        self.block.last = last
        self.emit(kind, f"tasks-{node.lineno}", node, to=to, beside=True)
        del item, results

    def outcomes(self, values: Code) -> Code:
        """Values and caught exceptions as the outcomes of tasks."""
        one = self.program.fresh("x")
        failed = call("py.isinstance", code.name(one), literal("BaseException"))
        outcome = call("py.object", literal(A_TASK), text_map([("failed", failed), ("value", code.name(one))]))
        return op(["each", "list", one, False], values, outcome)

    def beside(self, node: ast.Call, to: str, work: Callable[[], Code]) -> None:
        failure = self.program.fresh("failure")
        with self.inside(self.program.block()) as body:
            body.collect = _outcome(work(), False)
        with self.inside(self.program.block()) as handler:
            handler.collect = _outcome(call("py.exception", code.name(failure)), True)
        kind = {"try": {"block": body.number, "handlers": [{"name": failure, "block": handler.number}]}}
        self.emit(kind, f"task-{node.lineno}", node, to=to, beside=True)

    def coroutine_of(self, made: Function, node: ast.Call) -> Code:
        return self.coroutine(node)

    def coroutine(self, node: ast.Call) -> Code:
        """A call that is not awaited where it stands: a value that may be awaited later."""
        callee = self.callee(node)
        if callee is None:
            self.refuse(node, "a call of something that is only known when it runs", "call a function by its name")
        if isinstance(callee, Function) and callee.takes_self:
            self.refuse(node, f"'{callee.title}' is called and not awaited", "write await before it")
        names, values = self.arguments(callee, node)
        self.program.sites.append(Site(callee, names, node))
        place = literal(len(self.program.sites) - 1)
        return call("py.object", literal(COROUTINE), text_map([("site", place), ("args", listed(values))]), at=self.at(node))

    def await_value(self, value: Code, node: ast.expr, to: Optional[str]) -> Code:
        """Waits for a value that is a task or a coroutine; which one is known when it runs."""
        target = to or self.program.fresh("t")
        held = self.let(value, node)
        kind = call("py.type_name", held)
        is_task = op(["py.eq"], kind, literal("task"))
        cases: list[dict[str, Any]] = []
        with self.inside(self.program.block()) as done:
            self.outcome_value(held, target, node)
        cases.append({"when": is_task.to_json(), "block": done.number})
        with self.inside(self.program.block()) as otherwise:
            message = op(["text", 3], literal("object "), kind, literal(" can't be used in 'await' expression"))
            error = text_map([("type", literal("TypeError")), ("message", message), ("bases", literal(["Exception"]))])
            self.emit({"raise": {"error": error.to_json()}}, f"raise-{node.lineno}", node)
        switch: dict[str, Any] = {"cases": cases, "otherwise": otherwise.number}
        self.emit({"switch": switch}, f"await-{node.lineno}", node)
        self.program.awaits.append((self, self.concurrent, cases, held, target, node))
        return code.name(target, self.at(node))

    def outcome_value(self, held: Code, target: str, node: ast.AST) -> None:
        with self.inside(self.program.block()) as failed:
            error = op(["py.attr"], held, literal("value"))
            self.emit({"raise": {"error": error.to_json()}}, f"raise-{getattr(node, 'lineno', 0)}", node)
        when = op(["py.attr"], held, literal("failed"))
        self.emit({"if": {"when": when.to_json(), "then": failed.number}}, f"if-{getattr(node, 'lineno', 0)}", node)
        self.let(op(["py.attr"], held, literal("value")), node, target)

    def finish_await(self, cases: list[dict[str, Any]], held: Code, target: str, concurrent: bool) -> None:
        """Adds to an await of a value what any call of the program that stands as a value would do there."""
        for place, site in enumerate(self.program.sites):
            is_coroutine = op(["py.eq"], call("py.type_name", held), literal("coroutine"))
            here = op(["py.eq"], call("py.getattr", held, literal("site"), literal(None)), literal(place))
            before, self.concurrent = self.concurrent, concurrent
            with self.inside(self.program.block()) as block:
                arguments = op(["py.attr"], held, literal("args"))
                values = [code.item(arguments, index) for index in range(_count(site.names))]
                self.start(site.callee, site.names, values, site.node, target)
            self.concurrent = before
            when = truth(op(["py.and", 2], is_coroutine, here))
            cases.append({"when": when.to_json(), "block": block.number})


def _outcome(value: Code, failed: bool) -> Code:
    return call("py.object", literal(A_TASK), text_map([("failed", literal(failed)), ("value", value)]))


def _count(names: Optional[list[str]]) -> int:
    return 1 if names is None else len(names)


def _is_async(function: types.FunctionType) -> bool:
    return asyncio.iscoroutinefunction(function)


def _is_spread(node: ast.Call) -> bool:
    return any(isinstance(each, ast.Starred) for each in node.args) or any(each.arg is None for each in node.keywords)


def _is_simple(value: Code) -> bool:
    return len(value.instructions) == 1


def _is_none(node: ast.expr, key: str) -> bool:
    return key == "timeout" and isinstance(node, ast.Constant) and node.value is None


def _is_awaitable_call(node: ast.expr, frame: Awaits) -> bool:
    return isinstance(node, ast.Call) and frame.is_awaitable(frame.static(node.func))


def _load(node: ast.Name) -> ast.Name:
    return ast.copy_location(ast.Name(node.id, ast.Load()), node)


def _step_name(action: str) -> str:
    return action if action.replace(".", "").replace("-", "").isidentifier() else "action"


__all__ = ["ARGUMENTS", "CONSTRUCT", "Awaits"]
