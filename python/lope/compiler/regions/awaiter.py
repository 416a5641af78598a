"""The awaiter: a function of the law that starts whatever a region asks it for, and answers with what came of it.

Answers say how a region takes them: `v` a value of an action and `w` of a workflow (with its name, if its hint says more
than the value), `f` the frame of a function that has returned, `g` the answers of a gather, `e` a failure in its place, `=` what
an earlier of them is, `s` a signal.
"""

from __future__ import annotations

import asyncio
from typing import TYPE_CHECKING, Any, Callable

from .. import code
from ...decorators import Action, actions
from ...region.tasks import ABORTED
from ...values.decode import result_hint
from ...values.failures import encode_failure
from ...values.names import module_name
from ..code import Code, listed, literal, op, text_map
from .program import FRAME

if TYPE_CHECKING:
    from ..frame import Frame
    from .program import Whole

WANTED = "wanted.d"


def write_awaiter(whole: "Whole", frame: "Frame") -> None:
    assert whole.awaiter is not None
    whole.awaiter.parameters = [WANTED]
    whole.awaiter.collect = literal(None)
    parts = (_calls(whole, frame), _waits(frame), _several(whole, frame), _tasks(whole, frame))
    cases = [case for part in parts for case in part]
    with frame.inside(frame.program.block()) as unknown:
        unseen = TypeError(
            "this call was not seen when the workflow was compiled, so it cannot be awaited: name the action, workflow or async "
            "function in the workflow itself, as in await pay(…), or await it in an @action"
        )
        frame.emit({"raise": {"error": literal(encode_failure(unseen)).to_json()}}, "unseen", None)
    with frame.inside(whole.awaiter):
        frame.emit({"switch": {"cases": cases, "otherwise": unknown.number}}, "await", None)


def _part(name: str, of: str = WANTED) -> Code:
    return op(["field", name], code.name(of))


def _case(frame: "Frame", when: Code, kind: Any, answer: Any, **options: Any) -> dict[str, Any]:
    """A case: a step, and its answer returned."""
    target = frame.program.fresh("t")
    with frame.inside(frame.program.block()) as block:
        word = next(iter(kind))
        frame.emit(kind, word, None, to=target, **options)
        frame.emit({"return": {"value": answer(code.name(target)).to_json()}}, "return", None)
    return {"when": when.to_json(), "block": block.number}


def _is(kind: str) -> Code:
    return op(["eq"], _part("kind"), literal(kind))


def _named(kind: str, name: str) -> Code:
    return op(["if"], _is(kind), op(["eq"], _part("name"), literal(name)), literal(False))


def returned(found: Code, callee: Any) -> Code:
    """What an action or a workflow returned; with its name, if it says itself what that is."""
    if result_hint(callee.function) is None:
        return listed([literal("v"), found])
    return listed([literal("v" if isinstance(callee, Action) else "w"), found, literal(callee.name)])


def _returned(callee: Any) -> Callable[[Code], Code]:
    return lambda found: returned(found, callee)


def _calls(whole: "Whole", frame: "Frame") -> list[dict[str, Any]]:
    cases = []
    for key, (name, policy) in whole.actions.items():
        kind = {"dispatch": {"executor": "action", "action": name, "with": _part("with").to_json()}}
        cases.append(_case(frame, _named("action", key), kind, _returned(actions[name]), policy=policy))
    for name, workflow in whole.program.children.items():
        child = {"workflow": {"workflow": literal(name).to_json(), "with": _part("with").to_json()}}
        cases.append(_case(frame, _named("workflow", name), child, _returned(workflow)))
        if whole.starts:
            detached = {"workflow": {**child["workflow"], "detach": True}}
            cases.append(_case(frame, _named("start", name), detached, _handle(name)))
    for key, routine in whole.routines.items():
        call = {"call": {"function": routine.block.number, "with": [[FRAME, _part("frame").to_json()]]}}
        cases.append(_case(frame, _named("function", key), call, lambda found: found))
    return cases


def _handle(name: str) -> Callable[[Code], Code]:
    return lambda found: listed([literal("h"), found, literal(name)])


def _waits(frame: "Frame") -> list[dict[str, Any]]:
    signal: dict[str, Any] = {"signal": _part("name").to_json()}
    timed = {**signal, "timeout": _part("span").to_json()}
    default = {**timed, "default": literal("\0default").to_json()}

    def answer(found: Code) -> Code:
        return listed([literal("s"), found, _part("kept")])

    return [
        _returning(frame, _is("same"), lambda: listed([literal("="), _part("at")])),
        _case(frame, _is("sleep"), {"sleep": {"span": _part("span").to_json()}}, lambda _: literal(None)),
        _case(frame, _is("sleep_result"), {"sleep": {"span": _part("span").to_json()}}, lambda _: listed([literal("k"), _part("kept")])),
        _case(frame, _is("signal"), {"wait": signal}, answer),
        _case(frame, _is("signal_timeout"), {"wait": timed}, answer),
        _case(frame, _is("signal_default"), {"wait": default}, answer),
    ]


def _settled(frame: "Frame", found: Code) -> Code:
    """What came of a task: its failure is raised, its value is on the heap."""
    with frame.inside(frame.program.block()) as failed:
        frame.emit({"raise": {"error": op(["field", "v"], found).to_json()}}, "raise", None)
    when = op(["eq"], op(["field", "flow"], found), literal("raise"))
    frame.emit({"if": {"when": when.to_json(), "then": failed.number}}, "failed", None)
    return listed([literal("k"), op(["field", "v"], found)])


def _returning(frame: "Frame", when: Code, work: Any) -> dict[str, Any]:
    with frame.inside(frame.program.block()) as block:
        frame.emit({"return": {"value": work().to_json()}}, "return", None)
    return {"when": when.to_json(), "block": block.number}


def _signal(frame: "Frame", name: Code, to: str = "") -> Code:
    target = to or frame.program.fresh("t")
    frame.emit({"wait": {"signal": name.to_json()}}, "wait", None, to=target)
    return code.name(target)


def _tasks(whole: "Whole", frame: "Frame") -> list[dict[str, Any]]:
    """Tasks, and locks that others have."""

    def awaited() -> Code:
        found = frame.program.fresh("t")
        cancelled = ("await_gone", [("task", _part("task"))])
        _unless_cancelled(whole, frame, lambda: _signal(frame, _part("name"), found), cancelled)
        return _settled(frame, code.name(found))

    def locked() -> Code:
        cancelled = ("waiter_gone", [("given", _part("kept"))])
        _unless_cancelled(whole, frame, lambda: _signal(frame, _part("name")), cancelled)
        return listed([literal("q"), _part("kept")])

    return [
        _returning(frame, _is("settled"), lambda: _settled(frame, _part("found"))),
        _returning(frame, _is("turn"), lambda: _settled(frame, _signal(frame, _part("name")))),
        _returning(frame, _is("task"), awaited),
        _returning(frame, _is("lock"), locked),
    ]


def _unless_cancelled(whole: "Whole", frame: "Frame", work: Any, cancelled: tuple[str, list[tuple[str, Code]]]) -> None:
    """Some work, and a region if it was cancelled before it was done."""
    passed = frame.program.fresh("passed")
    frame.let(literal(False), None, passed)
    with frame.inside(frame.program.block()) as body:
        work()
        frame.let(literal(True), None, passed)
    with frame.inside(frame.program.block()) as gone:
        out = op(["field", "v"], own_region(whole, frame, *cancelled))
        if cancelled[0] == "await_gone":
            with frame.inside(frame.program.block()) as ends:
                _signal(frame, out)
            waits = op(["not"], op(["eq"], out, literal(None)))
            frame.emit({"if": {"when": waits.to_json(), "then": ends.number}}, "ends", None)
    with frame.inside(frame.program.block()) as left:
        when = op(["not"], code.name(passed))
        frame.emit({"if": {"when": when.to_json(), "then": gone.number}}, "gone", None)
    frame.emit({"try": {"block": body.number, "finally": left.number}}, "try", None)


def own_region(whole: "Whole", frame: "Frame", word: str, entries: list[tuple[str, Code]]) -> Code:
    """A region with no code of the user's."""
    text = f"def region(_lope):\n    return _lope.{word}()"
    module = module_name(whole.workflow.function)
    fixed = [("code", literal(text)), ("lines", literal([])), ("module", literal(module)), ("line", literal(0))]
    given = text_map([("request", text_map([*fixed, *entries]))])
    out = frame.program.fresh("out")
    kind = {"dispatch": {"executor": "action", "action": whole.action, "with": given.to_json(), "heap": True}}
    frame.emit(kind, word.replace("_", "-"), None, to=out)
    return code.name(out)


def host_tasks(whole: "Whole", frame: "Frame", number: int) -> None:
    """The loop whose elements are the run's tasks."""
    item, answer = frame.program.fresh("task"), frame.program.fresh("t")
    task = ("task", _part("task", item))

    def work() -> None:
        frame.let(_caught(frame, number, _part("call", item)), None, answer)
        own_region(whole, frame, "task_ended", [("given", code.name(answer)), task])

    with frame.inside(frame.program.block()) as block:
        _unless_cancelled(whole, frame, work, ("task_gone", [task]))
    kind = {"over": literal([]).to_json(), "item": item, "parallel": "max", "block": block.number, "open": True}
    frame.emit({"each": kind}, "tasks", None)


def watcher(frame: "Frame", name: Code) -> int:
    """A block that ends a group's when one of its tasks has failed."""
    with frame.inside(frame.program.block()) as block:
        frame.emit({"wait": {"signal": name.to_json()}}, "watch", None)
        error = {"type": ABORTED, "message": "", "bases": ["BaseException"]}
        frame.emit({"raise": {"error": literal(error).to_json()}}, "raise", None)
    return block.number


def timer(frame: "Frame", span: Code) -> int:
    """A block that ends as asyncio's timeouts do."""
    with frame.inside(frame.program.block()) as block:
        frame.emit({"sleep": {"span": span.to_json()}}, "sleep", None)
        error = encode_failure(asyncio.TimeoutError())
        frame.emit({"raise": {"error": literal(error).to_json()}}, "raise", None)
    return block.number


def _several(whole: "Whole", frame: "Frame") -> list[dict[str, Any]]:
    assert whole.awaiter is not None
    number = whole.awaiter.number

    def each_of(collects: bool) -> dict[str, Any]:
        item = frame.program.fresh("item")
        with frame.inside(frame.program.block()) as block:
            if collects:
                block.collect = _caught(frame, number, code.name(item))
            else:
                block.collect = _awaited(frame, number, code.name(item))
        return {"each": {"over": _part("items").to_json(), "item": item, "parallel": "max", "block": block.number}}

    def gathered(found: Code) -> Code:
        return listed([literal("g"), found])

    collect = op(["if"], _is("gather"), _part("collect"), literal(False))
    with frame.inside(frame.program.block()) as work:
        work.collect = _awaited(frame, number, _part("item"))
    timeout = {"name": "timeout", "block": timer(frame, _part("span"))}
    race = {"race": {"branches": [{"name": "work", "block": work.number}, timeout]}}
    return [
        _case(frame, collect, each_of(True), gathered),
        _case(frame, _is("gather"), each_of(False), gathered),
        _case(frame, _is("wait_for"), race, lambda found: op(["field", "output"], found)),
    ]


def _awaited(frame: "Frame", number: int, wanted: Code) -> Code:
    target = frame.program.fresh("t")
    frame.emit({"call": {"function": number, "with": [[WANTED, wanted.to_json()]]}}, "await", None, to=target)
    return code.name(target)


def _caught(frame: "Frame", number: int, wanted: Code) -> Code:
    failure, target = frame.program.fresh("failure"), frame.program.fresh("t")
    with frame.inside(frame.program.block()) as body:
        body.collect = _awaited(frame, number, wanted)
    with frame.inside(frame.program.block()) as handler:
        handler.collect = listed([literal("e"), code.name(failure)])
    kind = {"try": {"block": body.number, "handlers": [{"name": failure, "block": handler.number}]}}
    frame.emit(kind, "try", None, to=target)
    return code.name(target)
