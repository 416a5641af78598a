"""A worker's life: load, connect, serve until told to end; a remote one connects again."""

from __future__ import annotations

import argparse
import asyncio
import importlib
import os
import signal
import socket
import ssl
import sys
import time
import traceback
from typing import Any, Optional
from urllib.parse import urlsplit

from .. import client, decorators
from . import capture, children, protocol
from .beat import Beat
from .serving import Serving
from .wire import Closed, Socket, Wire

# How long the runner may take to answer the first words.
_WELCOME = 30.0
_RECONNECT_MAX = 30.0
# How long a worker that wants to end waits for the runner's word.
_DRAIN = 2.0


class Refused(Exception):
    """The runner does not take this worker."""


def arguments(given: list[str]) -> argparse.Namespace:
    parser = argparse.ArgumentParser(prog="python -m lope worker", description="Does actions for a Lope runner.")
    parser.add_argument("--connect", required=True, metavar="ADDRESS",
                        help="path of a socket, tcp://HOST:PORT or tls://HOST:PORT")  # fmt: skip
    parser.add_argument("--module", action="append", default=[], dest="modules", help="load this module; may be repeated")
    parser.add_argument("--path", action="append", default=[], dest="paths", help="look for modules here first")
    parser.add_argument("--slots", type=int, default=128, help="actions at once")
    parser.add_argument("--worker", type=int, default=None, help=argparse.SUPPRESS)
    parser.add_argument("--ca", default=None, help="certificates to trust, for tls://")
    parser.add_argument("--token", default=os.environ.get("LOPE_WORKER_TOKEN"),
                        help="what a runner on another machine asks for (environment: LOPE_WORKER_TOKEN)")  # fmt: skip
    found = parser.parse_args(given)
    if found.slots < 1:
        parser.error("--slots is at least 1")
    return found


def main(given: list[str]) -> int:
    options = arguments(given)
    # What actions start shall not inherit it.
    os.environ.pop("LOPE_WORKER_TOKEN", None)
    capture.install()
    children.install()
    sys.path[:0] = options.paths
    trouble = load(options.modules)
    if trouble is not None:
        return complain(options, trouble)
    capture.install_logging()
    local = options.worker is not None
    pause = 0.1
    while True:
        try:
            finished = run_loop(options)
            pause = 0.1
        except (OSError, Closed) as error:
            trouble_met = f"lope worker: {options.connect} cannot be reached: {str(error) or type(error).__doc__}"
            if local:
                print(trouble_met, file=sys.stderr)
                return 1
            print(f"{trouble_met}; trying again in {pause:.1f} s", file=sys.stderr)
            finished = False
        except Refused as reason:
            print(f"lope worker: refused: {reason}", file=sys.stderr)
            return 3
        if finished or local:
            return 0
        time.sleep(pause)
        pause = min(pause * 2, _RECONNECT_MAX)


def load(modules: list[str]) -> Optional[dict[str, Any]]:
    """Imports the modules; what goes wrong is told as the protocol's `broken`."""
    for name in modules:
        client.loading = f"a worker loads the module '{name}'"
        try:
            importlib.import_module(name)
        except BaseException as error:
            text = "".join(traceback.format_exception(error))
            return {"message": f"the module '{name}' cannot be imported: {type(error).__name__}: {error}", "traceback": text}
        finally:
            client.loading = None
    return None


def complain(options: argparse.Namespace, trouble: dict[str, Any]) -> int:
    print(trouble["traceback"], file=sys.stderr, end="")
    if options.worker is not None:
        wire = Wire(connect(options))
        wire.post(("broken", {"worker": options.worker, **trouble}))
        wire.flush(wait=5.0)
        wire.close()
    return 1


def connect(options: argparse.Namespace) -> Socket:
    address = str(options.connect)
    if "://" not in address:
        local = socket.socket(socket.AF_UNIX, socket.SOCK_STREAM)
        local.connect(address)
        return local
    parts = urlsplit(address)
    if parts.scheme not in ("tcp", "tls") or parts.hostname is None or parts.port is None:
        raise Refused(f"'{address}' is no address: write a path, tcp://HOST:PORT or tls://HOST:PORT")
    plain = socket.create_connection((parts.hostname, parts.port), timeout=10)
    plain.setsockopt(socket.IPPROTO_TCP, socket.TCP_NODELAY, 1)
    plain.setsockopt(socket.SOL_SOCKET, socket.SO_KEEPALIVE, 1)
    if parts.scheme == "tcp":
        return plain
    context = ssl.create_default_context(cafile=options.ca)
    return context.wrap_socket(plain, server_hostname=parts.hostname)


def run_loop(options: argparse.Namespace) -> bool:
    """Serves one connection. True: the runner or a signal has ended it, not an accident."""
    loop: asyncio.AbstractEventLoop
    try:
        import uvloop

        loop = uvloop.new_event_loop()
    except ImportError:
        loop = asyncio.new_event_loop()
    asyncio.set_event_loop(loop)
    try:
        return bool(loop.run_until_complete(serve(options)))
    finally:
        loop.close()


async def serve(options: argparse.Namespace) -> bool:
    loop = asyncio.get_running_loop()
    wire = Wire(connect(options))
    serving = Serving(decorators.actions, options.slots, wire.post)
    ended: asyncio.Future[bool] = loop.create_future()
    settings = greet(options, wire, sorted(serving.served))
    serving.payload_max = int(settings.get("payload_max", protocol.PAYLOAD_MAX))
    beat = Beat(wire, serving, max(int(settings.get("heartbeat_ms", 1000)), 50) / 1000)

    def finish() -> None:
        if serving.draining and not serving.jobs and not ended.done():
            ended.set_result(True)

    def messages(batch: list[Any]) -> None:
        for words in batch:
            name = words[0]
            if name == "task":
                serving.begin(words)
            elif name == "cancel":
                serving.cancel(words[1])
            elif name == "drain":
                serving.draining = True
                finish()

    def closed() -> None:
        serving.cancel_all()
        if not ended.done():
            ended.set_result(False)

    asked = False

    def at_once() -> None:
        serving.draining = True
        serving.cancel_all()
        if not ended.done():
            ended.set_result(True)

    def leave() -> None:
        """The runner answers with `drain`; whoever asks twice, or has a runner that says nothing, does not wait for it."""
        nonlocal asked
        if asked:
            at_once()
            return
        asked = True
        wire.post(("leaving",))
        loop.call_later(_DRAIN, lambda: None if serving.jobs else at_once())

    serving.on_idle = finish
    wire.attach(loop, messages, closed)
    for each in (signal.SIGTERM, signal.SIGINT):
        loop.add_signal_handler(each, leave)
        children.heard_by_loop(each)
    wire.flush()
    finished = await ended
    beat.stop()
    if finished:
        wire.post(("bye",))
        wire.flush(wait=5.0)
    wire.close()
    return finished


def greet(options: argparse.Namespace, wire: Wire, actions: list[str]) -> dict[str, Any]:
    """The first words, and the runner's answer."""
    hello: dict[str, Any] = {
        "protocol": protocol.PROTOCOL,
        "name": f"python-{os.getpid()}@{socket.gethostname()}",
        "language": f"python {sys.version.split()[0]}",
        "slots": options.slots,
        "actions": actions,
        # What the runner may take runs of, now that somebody has loaded it.
        "realms": [f"python:{module}" for module in options.modules],
    }
    if options.worker is not None:
        hello["worker"] = options.worker
    if "://" in str(options.connect):
        wire.show(options.token or "")
    wire.post(("hello", hello))
    wire.flush(wait=5.0)
    first, *rest = wire.receive_first(_WELCOME)
    if first[0] == "refused":
        raise Refused(first[1])
    if first[0] != "welcome":
        raise Refused(f"the runner said '{first[0]}' instead of welcome")
    wire.keep(rest)
    settings = first[1]
    return settings if isinstance(settings, dict) else {}

