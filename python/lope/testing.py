"""Workflows in the test process: sleeps are skipped, actions run here, failures and signals are chosen.

    with Stage(signals={"approved": [True]}, failures={"send_email": [OSError("down")]}) as stage:
        assert stage.run(welcome, users) == [...]
        assert stage.calls[0].action == "send_email"

The workflow is compiled and run by the same law as in production, in the process `lope drive`; nothing is stored.
"""

from __future__ import annotations

import asyncio
import json
import subprocess
import weakref
from collections import deque
from dataclasses import dataclass, field
from typing import Any, Callable, Iterable, Mapping, Optional, ParamSpec, TypeVar

from .binary import find_binary
from .compiler import Compiled, compiled
from .decorators import REGION, Action, Startable, Workflow, actions, known, workflows
from .values import arguments, decode, encode, encode_arguments
from .values.decode import _hints
from .values.failures import decode_failure, encode_failure
from .values.wire import _plain, _restored

P = ParamSpec("P")
R = TypeVar("R")

# Most events of one run; one that needs more is taken for one that never ends.
EVENTS_MAX = 1_000_000


@dataclass
class Call:
    """An action that the run called."""

    action: str
    arguments: dict[str, Any]
    attempt: int
    result: Any = None
    error: Optional[BaseException] = None


class Stuck(RuntimeError):
    """A run that waits for something that will not come."""


class Law:
    """The process that folds runs."""

    def __init__(self, binary: Optional[str] = None) -> None:
        command = [binary or find_binary(), "drive"]
        self._process = subprocess.Popen(command, stdin=subprocess.PIPE, stdout=subprocess.PIPE, text=True, encoding="utf-8")
        # By the identity of the definition, which is thereby kept.
        self._plans: dict[int, tuple[dict[str, Any], int]] = {}

    def ask(self, op: str, **request: Any) -> dict[str, Any]:
        assert self._process.stdin is not None and self._process.stdout is not None
        self._process.stdin.write(json.dumps({"op": op, **request}) + "\n")
        self._process.stdin.flush()
        line = self._process.stdout.readline()
        if not line:
            raise RuntimeError(f"lope drive ended with code {self._process.wait()}")
        answer: dict[str, Any] = json.loads(line)
        if "error" in answer:
            raise RuntimeError(f"lope drive: {answer['error']}")
        return answer

    def plan(self, definition: dict[str, Any]) -> int:
        if id(definition) not in self._plans:
            self._plans[id(definition)] = definition, int(self.ask("load", definition=definition)["plan"])
        return self._plans[id(definition)][1]

    def close(self) -> None:
        if self._process.stdin is not None:
            self._process.stdin.close()
        if self._process.stdout is not None:
            self._process.stdout.close()
        self._process.wait()

    def stop(self) -> None:
        """Ends it, whatever it does."""
        self._process.kill()
        self.close()


@dataclass
class Stage:
    """Where runs are played. `actions` are played instead of those of the same name; `failures` are raised by an action's
    first attempts, one each; `signals` come when the run waits for them."""

    signals: Mapping[str, Iterable[Any]] = field(default_factory=dict)
    failures: Mapping[str, Iterable[BaseException]] = field(default_factory=dict)
    actions: Mapping[str, Callable[..., Any]] = field(default_factory=dict)
    law: Optional[Law] = None
    calls: list[Call] = field(default_factory=list)
    # How long runs slept, in seconds that did not pass.
    slept: float = 0.0

    def __post_init__(self) -> None:
        self._own_law = self.law is None
        for name in (*self.failures, *self.actions):
            if name not in actions:
                known = ", ".join(sorted(each for each in actions if not each.startswith("lope.")))
                raise ValueError(f"there is no action '{name}'; there are: {known or 'none'}")
        self._signals = {name: deque(values) for name, values in self.signals.items()}
        self._failures = {name: deque(values) for name, values in self.failures.items()}

    def __enter__(self) -> "Stage":
        return self

    def __exit__(self, *_: Any) -> None:
        if self._own_law and self.law is not None:
            self.law.close()
            self.law = None

    def run(self, workflow: Startable[P, R], *args: P.args, **kwargs: P.kwargs) -> R:
        """Runs a workflow to its end; its result, or the exception that it failed with."""
        return asyncio.run(self.play(workflow, *args, **kwargs))

    async def play(self, workflow: Startable[P, R], *args: P.args, **kwargs: P.kwargs) -> R:
        """As `run`, for tests that are async themselves."""
        played = known(workflow)
        given = _plain(encode_arguments(played, args, kwargs))
        settled = await self._play(played, given)
        if "failed" in settled:
            raise decode_failure(_restored(settled["failed"]))
        hint = _hints(played.function).get("return", Any)
        result: R = decode(_restored(settled["done"]), hint, "result")
        return result

    async def _play(self, workflow: Workflow[..., Any], given: Any) -> dict[str, Any]:
        if self.law is None:
            self.law = Law()
        law = self.law
        made = _compiled(workflow)
        state = law.ask("start", plan=law.plan(made.definition), input=given)
        run, waiting = state["run"], deque(state["effects"])
        try:
            for _ in range(EVENTS_MAX):
                settled = _settled(waiting)
                if settled is not None:
                    return settled
                state = await self._next(law, made.children, run, state, waiting)
                waiting.extend(state["effects"])
        finally:
            law.ask("forget", run=run)
        raise Stuck(f"{workflow.name} has not ended after {EVENTS_MAX} events")

    async def _next(self, law: Law, children: Any, run: int, state: dict[str, Any], waiting: deque[Any]) -> dict[str, Any]:
        """Does the next thing that the run waits for."""
        while waiting:
            effect = waiting.popleft()
            if "dispatch" in effect:
                execution, attempt = effect["execution"], effect["attempt"]
                result = await self._call(effect)
                return law.ask("outcome", run=run, execution=execution, attempt=attempt, result=result)
            if "child" in effect:
                child = children.get(effect["child"]) or workflows[effect["child"]]
                result = await self._play(child, effect["input"])
                return law.ask("child", run=run, execution=effect["execution"], child=effect["id"], result=result)
        for name in state["waits"]:
            if self._signals.get(name):
                value = _plain(encode(self._signals[name].popleft(), f"signal {name}"))
                return law.ask("signal", run=run, name=name, value=value)
        if state["wake"] is None:
            raise Stuck(f"the run waits for {', '.join(state['waits']) or 'nothing that comes'}")
        self.slept += max(0, state["wake"] - state["now"]) / 1_000
        return law.ask("tick", run=run)

    async def _call(self, effect: dict[str, Any]) -> dict[str, Any]:
        action = actions.get(effect["dispatch"])
        double = self.actions.get(effect["dispatch"])
        if action is None:
            return {"failed": {"type": "UnknownAction", "message": f"there is no action '{effect['dispatch']}'"}}
        args, kwargs = arguments.call_arguments(action, _restored(effect["with"]))
        noted = Call(action.name, dict(action.signature.bind(*args, **kwargs).arguments), effect["attempt"])
        if not action.name.startswith("lope."):
            self.calls.append(noted)
        try:
            planned = self._failures.get(action.name)
            if planned:
                raise planned.popleft()
            if action.name.startswith(REGION):
                noted.result = action.function(*args, **kwargs)
            else:
                target = action if double is None else Action(double, action.name, None, None)
                noted.result = await target.invoke(args, kwargs)
            return {"done": _plain(encode(noted.result, "result"))}
        except Exception as error:
            noted.error = error
            return {"failed": _plain(encode_failure(error))}


def _compiled(workflow: Workflow[..., Any]) -> Compiled:
    """A workflow is compiled once; its source does not change while the process lives."""
    made = _COMPILED.get(workflow)
    if made is None:
        made = _COMPILED[workflow] = compiled(workflow)
    return made


_COMPILED: weakref.WeakKeyDictionary[Workflow[..., Any], Compiled] = weakref.WeakKeyDictionary()


def _settled(effects: deque[Any]) -> Optional[dict[str, Any]]:
    for effect in effects:
        if "complete" in effect:
            return {"done": effect["complete"]}
        if "fail" in effect:
            return {"failed": effect["fail"]}
        if "cancelled" in effect:
            return {"failed": {"type": "CancelledError", "message": "", "bases": ["BaseException"]}}
    return None


def run(workflow: Startable[P, R], *args: P.args, **kwargs: P.kwargs) -> R:
    """Runs a workflow in this process, with nothing changed but that sleeps are skipped."""
    with Stage() as stage:
        return stage.run(workflow, *args, **kwargs)
