"""A server of Lope over HTTP: runs and schedules, from a program that has neither the command nor the store.

`connect("http://127.0.0.1:7420", token="…")` gives a `Server`; `connect_async` one whose methods are awaited. Address and
token come from LOPE_SERVER and LOPE_TOKEN unless they are given, the certificates that an address with https:// is known by
from the file that LOPE_SERVER_CA names. Workflows are those that are deployed there; a workflow of this program stands for
the one of its name, and gives results their types.
"""

from __future__ import annotations

import asyncio
import contextlib
import json
import os
import ssl
import threading
import time
import uuid
from datetime import datetime
from typing import Any, Callable, Generic, Mapping, Optional, TypeVar, Union, overload
from urllib.error import HTTPError, URLError
from urllib.parse import quote, urlencode
from urllib.request import Request, urlopen

from .client import LopeError, _result
from .decorators import Workflow
from .spans import Span, millis
from .values import encode, encode_arguments, from_json, to_json

R = TypeVar("R")

# How long one request waits for the end of a run; then it asks again.
_WAIT = 20.0
# How often something that changes nothing twice is sent again when the server does not answer.
_TRIES = 5


class ServerError(LopeError):
    """The server did not do what was asked. `status` is that of its answer, `kind` its kind; 0 and "unreachable": none came."""

    def __init__(self, message: str, status: int, kind: str) -> None:
        super().__init__(message, 4 if status == 0 else 1)
        self.status = status
        self.kind = kind


class Server:
    """A server, asked over HTTP. It keeps no connection; use it from any thread."""

    def __init__(self, url: Optional[str] = None, token: Optional[str] = None, *, timeout: float = 60.0) -> None:
        address = url or os.environ.get("LOPE_SERVER") or "http://127.0.0.1:7420"
        self.url = address.rstrip("/")
        self._token = token or os.environ.get("LOPE_TOKEN")
        self._timeout = timeout
        # Who is named is believed alone, as by the command line.
        authority = os.environ.get("LOPE_SERVER_CA") or None
        self._tls = ssl.create_default_context(cafile=authority) if self.url.startswith("https:") else None

    @overload
    def start(self, workflow: str, *args: Any, **options: Any) -> "ServerRun[Any]": ...

    @overload
    def start(self, workflow: Workflow[..., R], *args: Any, **options: Any) -> "ServerRun[R]": ...

    def start(
        self,
        workflow: Union[str, Workflow[..., Any]],
        *args: Any,
        key: Optional[str] = None,
        queue: Optional[str] = None,
        priority: Optional[int] = None,
        at: Union[str, datetime, None] = None,
        tags: Optional[Mapping[str, str]] = None,
        **kwargs: Any,
    ) -> "ServerRun[Any]":
        """Starts a run. A workflow of this program takes its arguments; one that is named takes one input, or none."""
        known = workflow if isinstance(workflow, Workflow) else None
        if known is not None:
            given = encode_arguments(known, args, kwargs)
        else:
            if len(args) > 1 or kwargs:
                raise TypeError("a workflow that is named takes one input")
            given = encode(args[0], "input") if args else None
        # A start that is sent again starts nothing new.
        asked = {
            "workflow": known.name if known is not None else workflow,
            "input": json.loads(to_json(given)),
            "key": key or f"python-{uuid.uuid4()}",
            "queue": queue,
            "priority": priority,
            "at": at.isoformat() if isinstance(at, datetime) else at,
            "tags": dict(tags) if tags else None,
        }
        started = self.call("POST", "/api/runs", {name: value for name, value in asked.items() if value is not None}, again=True)
        return ServerRun(self, started["run_id"], known)

    @overload
    def run(self, id: str) -> "ServerRun[Any]": ...

    @overload
    def run(self, id: str, workflow: Workflow[..., R]) -> "ServerRun[R]": ...

    def run(self, id: str, workflow: Optional[Workflow[..., Any]] = None) -> "ServerRun[Any]":
        """A run by its id or its key; nothing is asked yet."""
        return ServerRun(self, id, workflow)

    def runs(self, **search: Any) -> list[dict[str, Any]]:
        """Runs, youngest first: `runs(status="failed", workflow="orders", limit=20)`."""
        return list(self.call("GET", "/api/runs", query=search)["runs"])

    def deploy(self, text: str) -> dict[str, Any]:
        """Deploys a workflow that is written in YAML; this takes the right `admin`."""
        return dict(self.call("POST", "/api/workflows", text.encode(), kind="application/yaml", again=True))

    def schedules(self) -> list[dict[str, Any]]:
        return list(self.call("GET", "/api/schedules")["schedules"])

    def schedule(self, name: str, workflow: Union[str, Workflow[..., Any]], **options: Any) -> dict[str, Any]:
        """Adds a schedule: `schedule("nightly", work, cron="30 6 * * *", zone="Europe/Berlin")`, or `every="5m"`;
        `input`, `overlap`, `catch_up`, `jitter`, `queue`, `paused`, `replace=True`…"""
        named = workflow.name if isinstance(workflow, Workflow) else workflow
        return dict(self.call("POST", "/api/schedules", {"name": name, "workflow": named, **options}))

    def pause_schedule(self, name: str) -> dict[str, Any]:
        return dict(self.call("POST", f"/api/schedules/{quote(name, safe='')}/pause", {}, again=True))

    def resume_schedule(self, name: str) -> dict[str, Any]:
        return dict(self.call("POST", f"/api/schedules/{quote(name, safe='')}/resume", {}, again=True))

    def run_schedule(self, name: str) -> "ServerRun[Any]":
        """Starts a run of a schedule now."""
        return ServerRun(self, self.call("POST", f"/api/schedules/{quote(name, safe='')}/run", {})["run_id"], None)

    def remove_schedule(self, name: str) -> None:
        self.call("DELETE", f"/api/schedules/{quote(name, safe='')}")

    def call(
        self,
        method: str,
        path: str,
        body: Any = None,
        *,
        query: Optional[Mapping[str, Any]] = None,
        kind: str = "application/json",
        headers: Optional[Mapping[str, str]] = None,
        again: bool = False,
    ) -> Any:
        """Any request of the API, as `/api/openapi.json` describes it; what it answers. `again`: it may be sent twice."""
        address = self.url + path
        if query:
            address += "?" + urlencode({name: each for name, each in query.items() if each is not None}, doseq=True)
        sent = {"accept": "application/json", **(headers or {})}
        if self._token:
            sent["authorization"] = f"Bearer {self._token}"
        content = None
        if body is not None:
            content = body if isinstance(body, bytes) else json.dumps(body).encode()
            sent["content-type"] = kind
        tries = _TRIES if again or method == "GET" else 1
        for left in reversed(range(tries)):
            try:
                with urlopen(Request(address, content, sent, method=method), timeout=self._timeout, context=self._tls) as answer:
                    return from_json(answer.read().decode())
            except HTTPError as error:
                refused = _refusal(error)
                if refused.status not in (429, 503) or left == 0:
                    raise refused from None
            except (URLError, TimeoutError, ConnectionError) as error:
                if left == 0:
                    raise ServerError(f"{self.url} does not answer: {error}", 0, "unreachable") from None
            time.sleep(0.2 * (tries - left))
        raise AssertionError("the last try returns or raises")


class ServerRun(Generic[R]):
    """A run on a server."""

    def __init__(self, server: Server, id: str, workflow: Optional[Workflow[..., R]]) -> None:
        self.id = id
        self._server = server
        self._workflow = workflow

    def _path(self, rest: str = "") -> str:
        return f"/api/runs/{quote(self.id, safe='')}{rest}"

    def result(self, timeout: Optional[Span] = None) -> R:
        """Waits for the end, also while the server is started anew; returns the result, or raises what the run raised.
        `TimeoutError` after `timeout`."""
        return self._result(timeout, lambda: True)

    def _result(self, timeout: Optional[Span], is_wanted: Callable[[], bool]) -> R:
        deadline = None if timeout is None else time.monotonic() + millis(timeout) / 1000
        while is_wanted():
            left = _WAIT if deadline is None else min(_WAIT, max(0.0, deadline - time.monotonic()))
            try:
                found = self._server.call("GET", self._path("/wait"), query={"timeout": f"{int(left * 1000)}ms"})
            except ServerError as error:
                if error.status not in (0, 503) or (deadline is not None and time.monotonic() >= deadline):
                    raise
                time.sleep(0.5)
                continue
            if found["finished_at"] is not None:
                return _result(self._workflow, found)
            if deadline is not None and time.monotonic() >= deadline:
                raise TimeoutError(f"run {self.id} has not ended within {timeout}")
        raise asyncio.CancelledError()

    def status(self) -> str:
        return str(self.show()["status"])

    def show(self) -> dict[str, Any]:
        """The run with its first executions."""
        return dict(self._server.call("GET", self._path()))

    def signal(self, name: str, value: Any = None) -> None:
        """Sends the run a signal; it arrives once, however often it is sent."""
        body = {"name": name, "value": json.loads(to_json(encode(value, name)))}
        self._server.call("POST", self._path("/signal"), body, headers={"idempotency-key": str(uuid.uuid4())}, again=True)

    def cancel(self) -> None:
        self._server.call("POST", self._path("/cancel"), {}, again=True)

    def pause(self) -> None:
        self._server.call("POST", self._path("/pause"), {}, again=True)

    def resume(self) -> None:
        self._server.call("POST", self._path("/resume"), {}, again=True)

    def retry(self) -> None:
        self._server.call("POST", self._path("/retry"), {})

    def __repr__(self) -> str:
        return f"<run {self.id} on {self._server.url}>"


async def _in_thread(work: Callable[[Callable[[], bool]], Any]) -> Any:
    """Does it in a thread of its own: who waits for a run for hours keeps nobody else waiting. `work` is given a function that
    says whether anybody still wants the answer."""
    loop = asyncio.get_running_loop()
    answer: asyncio.Future[Any] = loop.create_future()

    def settle(set_answer: Callable[[Any], None], found: Any) -> None:
        if not answer.done():
            set_answer(found)

    def run() -> None:
        try:
            told = answer.set_result, work(lambda: not answer.done())
        except BaseException as error:
            told = answer.set_exception, error
        # The loop may have ended meanwhile.
        with contextlib.suppress(RuntimeError):
            loop.call_soon_threadsafe(settle, *told)

    threading.Thread(target=run, name="lope-server-call", daemon=True).start()
    return await answer


class Awaited:
    """A server or a run whose methods are awaited: each is done in a thread."""

    def __init__(self, inner: Any) -> None:
        self._inner = inner

    def __getattr__(self, name: str) -> Any:
        found = getattr(self._inner, name)
        if not callable(found):
            return found

        async def awaited(*args: Any, **kwargs: Any) -> Any:
            if name == "result":
                timeout = args[0] if args else kwargs.get("timeout")
                return await _in_thread(lambda is_wanted: self._inner._result(timeout, is_wanted))
            done = await _in_thread(lambda _: found(*args, **kwargs))
            return Awaited(done) if isinstance(done, ServerRun) else done

        return awaited

    def __repr__(self) -> str:
        return repr(self._inner)


def connect(url: Optional[str] = None, token: Optional[str] = None, *, timeout: float = 60.0) -> Server:
    """A server of Lope; nothing is asked yet."""
    return Server(url, token, timeout=timeout)


def connect_async(url: Optional[str] = None, token: Optional[str] = None, *, timeout: float = 60.0) -> Any:
    """The same for programs with a loop: `handle = await server.start(…)`, `await handle.result()`."""
    return Awaited(Server(url, token, timeout=timeout))


def _refusal(answer: HTTPError) -> ServerError:
    try:
        error = json.loads(answer.read())["error"]
        hint = f" ({error['hint']})" if error.get("hint") else ""
        return ServerError(error["message"] + hint, answer.code, error["kind"])
    except (ValueError, KeyError, TypeError):
        return ServerError(f"the server answered {answer.code}", answer.code, "unknown")


__all__ = ["Awaited", "Server", "ServerError", "ServerRun", "connect", "connect_async"]
