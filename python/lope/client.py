"""`run` and `start`: workflows from a script or a web server, with nothing set up.

They talk to the command `lope`, which is found in LOPE_BIN, beside this package or on the PATH. `run` works on its run
itself; `start` leaves it to a runner, and starts one for this process unless told otherwise. Store and home are those of
the command: LOPE_STORE, LOPE_HOME, config.yaml.
"""

from __future__ import annotations

import asyncio
import atexit
import os
import subprocess
import sys
import threading
from datetime import datetime
from typing import Any, Generic, Optional, ParamSpec, TypeVar, get_type_hints

from .binary import find_binary
from .decorators import Workflow
from .spans import Span, millis
from .values import decode, decode_failure, encode, encode_arguments, from_json, to_json
from .values.names import module_name

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


def run(workflow: Workflow[P, R], *args: P.args, **kwargs: P.kwargs) -> R:
    """Runs a workflow to its end here and returns its result, or raises what it raised. A workflow with options of its own
    (`work.with_options(queue="slow", timeout="5m")`) is left to a runner if it must, and waited for."""
    options = workflow.options
    if options.keys() - {"key"}:
        return start(workflow, *args, **kwargs).result()
    words = ["run", _target(workflow), "--input", "-", *_options(options), *_python()]
    return _result(workflow, _lope(words, _input(workflow, args, kwargs)))


def _options(options: dict[str, Any]) -> list[str]:
    """What is said about a run, in the words of the command."""
    found: list[str] = []
    for name, each in options.items():
        if name == "tags":
            found += [word for key, value in each.items() for word in ("--tag", f"{key}={value}")]
        elif name != "timeout":
            found += [f"--{name}", each.isoformat() if isinstance(each, datetime) else str(each)]
    return found


async def run_async(workflow: Workflow[P, R], *args: P.args, **kwargs: P.kwargs) -> R:
    """`run`, without blocking the loop."""
    return await asyncio.to_thread(lambda: run(workflow, *args, **kwargs))


def start(workflow: Workflow[P, R], *args: P.args, **kwargs: P.kwargs) -> "Handle[R]":
    """Starts a run and returns at once. A runner in a process beside this one works on it until this process ends."""
    handle = Starter(workflow).start(*args, **kwargs)
    ensure_runner(workflow)
    return handle


async def start_async(workflow: Workflow[P, R], *args: P.args, **kwargs: P.kwargs) -> "Handle[R]":
    """`start`, without blocking the loop."""
    return await asyncio.to_thread(lambda: start(workflow, *args, **kwargs))


class Starter(Generic[P, R]):
    """Starts runs with options, and leaves them to whoever runs `lope up --python`."""

    def __init__(
        self,
        workflow: Workflow[P, R],
        *,
        key: Optional[str] = None,
        queue: Optional[str] = None,
        priority: Optional[int] = None,
        at: Optional[str] = None,
        tags: Optional[dict[str, str]] = None,
    ) -> None:
        self._workflow = workflow.with_options(key=key, queue=queue, priority=priority, at=at, tags=tags)

    def start(self, *args: P.args, **kwargs: P.kwargs) -> "Handle[R]":
        words = ["start", _target(self._workflow), "--input", "-", *_options(self._workflow.options), *_python()]
        started = _lope(words, _input(self._workflow, args, kwargs))
        return Handle(started["run_id"], self._workflow)


class Handle(Generic[R]):
    """A run. `Handle(id)` is a run that somebody else started."""

    def __init__(self, id: str, workflow: Optional[Workflow[..., R]] = None) -> None:
        self.id = id
        self._workflow = workflow

    def result(self, timeout: Optional[Span] = None) -> R:
        """Waits for the end; returns the result, or raises what the run raised. `TimeoutError` after `timeout`."""
        if timeout is None and self._workflow is not None:
            timeout = self._workflow.options.get("timeout")
        words = ["runs", "wait", self.id]
        if timeout is not None:
            words += ["--timeout", f"{millis(timeout)}ms"]
        try:
            ended = _lope(words)
        except LopeError as error:
            if timeout is not None and "has not ended within" in str(error):
                raise TimeoutError(str(error)) from None
            raise
        return _result(self._workflow, ended)

    def signal(self, name: str, value: Any = None) -> None:
        """Sends the run a signal; the value crosses like an argument."""
        _lope(["runs", "signal", self.id, name, to_json(encode(value, name))])

    def cancel(self) -> None:
        """Asks the run to end; its `finally` blocks still run."""
        _lope(["runs", "cancel", self.id])

    def status(self) -> str:
        """queued, running, idle, sleeping, waiting, paused, completed, failed or cancelled."""
        return str(_lope(["runs", "show", self.id])["status"])

    async def result_async(self, timeout: Optional[Span] = None) -> R:
        return await asyncio.to_thread(self.result, timeout)

    async def signal_async(self, name: str, value: Any = None) -> None:
        await asyncio.to_thread(self.signal, name, value)

    async def cancel_async(self) -> None:
        await asyncio.to_thread(self.cancel)

    async def status_async(self) -> str:
        return await asyncio.to_thread(self.status)

    def __repr__(self) -> str:
        return f"<run {self.id}>"


_runners: dict[str, "subprocess.Popen[bytes]"] = {}
_lock = threading.Lock()


def ensure_runner(workflow: Workflow[..., Any]) -> None:
    """A runner for the workflow's module, in a process that ends with this one. LOPE_EMBEDDED=0: there is one elsewhere."""
    if os.environ.get("LOPE_EMBEDDED") == "0":
        return
    module = _module(workflow)
    with _lock:
        runner = _runners.get(module)
        if runner is None or runner.poll() is not None:
            words = [find_binary(), "up", "--quiet", "--python", module, *_python()]
            _runners[module] = subprocess.Popen(words, stdin=subprocess.DEVNULL, stdout=sys.stderr, env=_environment())


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


def _lope(words: list[str], given: str = "") -> dict[str, Any]:
    """What the command prints as JSON. A run that failed is an answer; anything else that goes wrong is raised."""
    if loading is not None:
        raise LopeError(
            f"a run was asked for while {loading}: put what your program does under 'if __name__ == \"__main__\":'", 2
        )
    command = [find_binary(), *words, "--json", "--quiet"]
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
