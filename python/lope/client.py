"""`run` and `start`: workflows from a script or a web server, with nothing set up.

They talk to the command `lope`, which is found in LOPE_BIN, beside this package or on the PATH. `run` works on its run
itself; `start` leaves it to a runner, and starts one for this process unless told otherwise. All but `run` goes through one
process (`conversation`), so that a call costs no process of its own. Store and home are those of
the command: LOPE_STORE, LOPE_HOME, config.yaml.
"""

from __future__ import annotations

import asyncio
import atexit
import json
import os
import subprocess
import sys
import threading
from concurrent.futures import Future
from contextvars import ContextVar
from datetime import datetime
from typing import Any, Generic, Optional, ParamSpec, Sequence, TypeVar, get_type_hints

from .binary import find_binary
from .conversation import Conversation, Refusal, conversation
from .decorators import Startable, Workflow, known
from .spans import Span, millis
from .values import decode, decode_failure, encode, encode_arguments, from_json, to_json
from .values.names import module_name
from .values.wire import _plain, _restored

P = ParamSpec("P")
R = TypeVar("R")


class LopeError(Exception):
    """The command could not do what was asked. `code` is its exit code."""

    def __init__(self, message: str, code: int) -> None:
        super().__init__(message)
        self.code = code


class Cancelled(LopeError):
    """The run was cancelled."""


# Why no run may begin now: modules are being loaded for somebody else.
loading: Optional[str] = None
# Is the code of a workflow being run? It may be run again, and would start again what it starts.
working: ContextVar[bool] = ContextVar("lope_working", default=False)


def run(workflow: Startable[P, R], *args: P.args, **kwargs: P.kwargs) -> R:
    """Runs a workflow to its end here and returns its result, or raises what it raised. A workflow with options of its own
    (`work.with_options(queue="slow", timeout="5m")`) is left to a runner if it must, and waited for."""
    wanted = known(workflow)
    options = wanted.options
    if options.keys() - {"key"}:
        return start(workflow, *args, **kwargs).result()
    key = ["--key", options["key"]] if "key" in options else []
    words = ["run", _target(wanted), "--input", "-", *key, *_python()]
    return _result(wanted, _lope(words, _input(wanted, args, kwargs)))


async def run_async(workflow: Startable[P, R], *args: P.args, **kwargs: P.kwargs) -> R:
    """Starts a run and waits for its result without blocking the loop; a runner beside this process works on it."""
    return await (await start_async(workflow, *args, **kwargs)).result_async()


def start(workflow: Startable[P, R], *args: P.args, **kwargs: P.kwargs) -> "Handle[R]":
    """Starts a run and returns at once. A runner in a process beside this one works on it until this process ends.

    In a workflow it starts a run of its own, which nobody waits for."""
    handle = Starter(workflow).start(*args, **kwargs)
    ensure_runner(known(workflow))
    return handle


async def start_async(workflow: Startable[P, R], *args: P.args, **kwargs: P.kwargs) -> "Handle[R]":
    """`start`, without blocking the loop."""
    handle = await Starter(workflow).start_async(*args, **kwargs)
    ensure_runner(known(workflow))
    return handle


class Starter(Generic[P, R]):
    """Starts runs with options, and leaves them to whoever runs `lope up --python`."""

    def __init__(
        self,
        workflow: Startable[P, R],
        *,
        key: Optional[str] = None,
        queue: Optional[str] = None,
        priority: Optional[int] = None,
        at: Optional[str] = None,
        tags: Optional[dict[str, str]] = None,
    ) -> None:
        self._workflow = known(workflow).with_options(key=key, queue=queue, priority=priority, at=at, tags=tags)

    def start(self, *args: P.args, **kwargs: P.kwargs) -> "Handle[R]":
        return self._handle(_answer(self._asked(args, kwargs, _answer(self._loaded()))))

    async def start_async(self, *args: P.args, **kwargs: P.kwargs) -> "Handle[R]":
        loaded = await _answer_async(self._loaded())
        return self._handle(await _answer_async(self._asked(args, kwargs, loaded)))

    def _loaded(self) -> "Future[Any]":
        """The number under which the conversation knows the workflow."""
        definitions = _definitions(self._workflow)
        talk = _talk()
        known = talk.plans.get(self._workflow.name)
        if known is not None and known[0] == definitions:
            done: "Future[Any]" = Future()
            done.set_result({"plan": known[1]})
            return done
        asked = talk.ask("load", module=_module(self._workflow), definitions=json.loads(definitions))

        def keep(future: "Future[Any]") -> None:
            if not future.cancelled() and future.exception() is None:
                talk.plans[self._workflow.name] = definitions, future.result()["plan"]

        asked.add_done_callback(keep)
        return asked

    def _asked(self, args: tuple[Any, ...], kwargs: dict[str, Any], loaded: dict[str, Any]) -> "Future[Any]":
        given = _plain(encode_arguments(self._workflow, args, kwargs))
        options = {name: each for name, each in self._workflow.options.items() if name != "timeout"}
        if isinstance(options.get("at"), datetime):
            options["at"] = options["at"].astimezone().isoformat()
        return _talk().ask("start", plan=loaded["plan"], input=given, **options)

    def _handle(self, started: dict[str, Any]) -> "Handle[R]":
        return Handle(started["run_id"], self._workflow)


class Handle(Generic[R]):
    """A run. `Handle(id)` is a run that somebody else started."""

    def __init__(self, id: str, workflow: Optional[Workflow[..., R]] = None) -> None:
        self.id = id
        self._workflow = workflow

    def result(self, timeout: Optional[Span] = None) -> R:
        """Waits for the end; returns the result, or raises what the run raised. `TimeoutError` after `timeout`."""
        return self._ended(_answer(self._wait(timeout)), timeout)

    def signal(self, name: str, value: Any = None) -> None:
        """Sends the run a signal; the value crosses like an argument."""
        _answer(self._signal(name, value))

    def cancel(self) -> None:
        """Asks the run to end; its `finally` blocks still run."""
        _answer(_talk().ask("cancel", run=self.id))

    def status(self) -> str:
        """queued, running, idle, sleeping, waiting, paused, completed, failed or cancelled."""
        return str(_answer(_talk().ask("show", run=self.id))["status"])

    async def result_async(self, timeout: Optional[Span] = None) -> R:
        return self._ended(await _answer_async(self._wait(timeout)), timeout)

    async def signal_async(self, name: str, value: Any = None) -> None:
        await _answer_async(self._signal(name, value))

    async def cancel_async(self) -> None:
        await _answer_async(_talk().ask("cancel", run=self.id))

    async def status_async(self) -> str:
        return str((await _answer_async(_talk().ask("show", run=self.id)))["status"])

    def _wait(self, timeout: Optional[Span]) -> "Future[Any]":
        if timeout is None and self._workflow is not None:
            timeout = self._workflow.options.get("timeout")
        return _talk().ask("wait", run=self.id, timeout_ms=None if timeout is None else millis(timeout))

    def _ended(self, ended: dict[str, Any], timeout: Optional[Span]) -> R:
        if ended.get("late"):
            raise TimeoutError(f"run {self.id} has not ended within {timeout}")
        return _result(self._workflow, ended)

    def _signal(self, name: str, value: Any) -> "Future[Any]":
        return _talk().ask("signal", run=self.id, name=name, value=_plain(encode(value, name)))

    def __repr__(self) -> str:
        return f"<run {self.id}>"


def _talk() -> Conversation:
    _may_ask()
    return conversation(_environment())


def _answer(asked: "Future[Any]") -> Any:
    try:
        return _restored(asked.result())
    except Refusal as refusal:
        raise LopeError(str(refusal), refusal.code) from None


async def _answer_async(asked: "Future[Any]") -> Any:
    try:
        return _restored(await asyncio.wrap_future(asked))
    except Refusal as refusal:
        raise LopeError(str(refusal), refusal.code) from None


def _definitions(workflow: Workflow[..., Any]) -> str:
    """The definitions of a workflow and of those it starts; its source does not change while the process lives."""
    from .compiler import compile_all

    found = _DEFINITIONS.get(workflow.name)
    if found is None:
        found = _DEFINITIONS[workflow.name] = json.dumps(compile_all(workflow), ensure_ascii=False)
    return found


_DEFINITIONS: dict[str, str] = {}


_runners: dict[str, "subprocess.Popen[bytes]"] = {}
_lock = threading.Lock()


def ensure_runner(workflow: Workflow[..., Any]) -> None:
    """A runner for the workflow's module, in a process that ends with this one. LOPE_EMBEDDED=0: there is one elsewhere."""
    if os.environ.get("LOPE_EMBEDDED") == "0":
        return
    serve([_module(workflow)])


def serve(modules: Sequence[str]) -> None:
    """A runner for these modules, in a process that ends with this one."""
    key = " ".join(modules)
    with _lock:
        runner = _runners.get(key)
        if runner is None or runner.poll() is not None:
            wanted = [word for module in modules for word in ("--python", module)]
            words = [find_binary(), "up", "--quiet", *wanted, *_python()]
            _runners[key] = subprocess.Popen(words, stdin=subprocess.DEVNULL, stdout=sys.stderr, env=_environment())


@atexit.register
def _stop_runners() -> None:
    for runner in _runners.values():
        runner.terminate()
    for runner in _runners.values():
        try:
            runner.wait(10)
        except subprocess.TimeoutExpired:
            runner.kill()


def _target(workflow: Workflow[..., Any]) -> str:
    function = workflow.target
    return f"{_module(workflow)}:{getattr(function, '__name__', workflow.name)}"


def _module(workflow: Workflow[..., Any]) -> str:
    """The module by its name if it can be imported so, else by its file: a script is not a module to others."""
    name = workflow.function.__module__
    if name == "__main__":
        file = getattr(sys.modules["__main__"], "__file__", None)
        if file is None:
            raise LopeError("a workflow typed into a prompt cannot be run: put it into a file", 2)
        return str(os.path.abspath(file))
    return str(module_name(workflow.function))


def _python() -> list[str]:
    return ["--python-bin", sys.executable]


def _environment() -> dict[str, str]:
    """The modules that can be imported here can be imported there."""
    paths = [path for path in sys.path if path]
    return {**os.environ, "PYTHONPATH": os.pathsep.join(paths)}


def _input(workflow: Workflow[..., Any], args: tuple[Any, ...], kwargs: dict[str, Any]) -> str:
    return to_json(encode_arguments(workflow, args, kwargs))


def _may_ask() -> None:
    if loading is not None:
        raise LopeError(
            f"a run was asked for while {loading}: put what your program does under 'if __name__ == \"__main__\":'", 2
        )
    if working.get():
        raise LopeError("a run was asked for in a function that a workflow calls: start it in the workflow itself", 2)


def _lope(words: list[str], given: str = "") -> dict[str, Any]:
    """What the command prints as JSON. A run that failed is an answer; anything else that goes wrong is raised."""
    _may_ask()
    command = [find_binary(), *words, "--json", "--tagged", "--quiet"]
    ended = subprocess.run(command, input=given.encode(), stdout=subprocess.PIPE, stderr=subprocess.PIPE, env=_environment())
    try:
        found = from_json(ended.stdout.decode())
    except ValueError:
        found = None
    if not isinstance(found, dict) or (ended.returncode != 0 and "status" not in found):
        message = ended.stderr.decode(errors="replace").strip() or f"'lope {words[0]}' failed"
        raise LopeError(message.removeprefix("error: "), ended.returncode)
    return found


def _result(workflow: Optional[Workflow[..., R]], ended: dict[str, Any]) -> R:
    if ended["status"] == "completed":
        return decode(ended["result"], _return_hint(workflow), "result")  # type: ignore[no-any-return]
    if ended.get("error"):
        raise decode_failure(ended["error"])
    raise Cancelled(f"run {ended['run_id']} is {ended['status']}", 1)


def _return_hint(workflow: Optional[Workflow[..., Any]]) -> Any:
    if workflow is None:
        return Any
    try:
        return get_type_hints(workflow.function, include_extras=True).get("return", Any)
    except Exception:
        return Any


__all__ = ["Cancelled", "Handle", "LopeError", "Starter", "ensure_runner", "run", "run_async", "start", "start_async"]
