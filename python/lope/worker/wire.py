"""Frames over a socket: four bytes of length, then MessagePack, a list of messages.

The loop reads and writes without blocking. Any thread may post; a lock keeps frames whole, and lets the thread that shows
life write while the loop is blocked.
"""

from __future__ import annotations

import asyncio
import select
import socket
import ssl
import struct
import threading
import time
from typing import Any, Callable, Optional, Union

from ..values.wire import packer, unpacker
from . import protocol

Socket = Union[socket.socket, ssl.SSLSocket]

_READ = 256 * 1024
_LENGTH = struct.Struct(">I")
_LIST = struct.Struct(">BI")
_NOT_NOW = (BlockingIOError, ssl.SSLWantReadError, ssl.SSLWantWriteError)


class Closed(Exception):
    """The connection has ended."""


class Wire:
    def __init__(self, sock: Socket) -> None:
        sock.setblocking(False)
        self._sock = sock
        self._lock = threading.RLock()
        self._pack = packer()
        self._unpack = unpacker()
        self._incoming = bytearray()
        self._outgoing: list[bytes] = []
        self._waiting = 0
        self._buffer = bytearray()
        self._scheduled = False
        self._closed = False
        self._writing = False
        self._kept: list[Any] = []
        self._loop: Optional[asyncio.AbstractEventLoop] = None
        self._loop_thread = 0

    def attach(self, loop: asyncio.AbstractEventLoop, on_messages: Callable[[list[Any]], None],
               on_close: Callable[[], None]) -> None:  # fmt: skip
        """Lets the loop read; messages go to `on_messages`, the end to `on_close`."""
        self._loop, self._loop_thread = loop, threading.get_ident()

        def readable() -> None:
            try:
                messages = self.receive()
            except (Closed, OSError, ValueError):
                self.close()
                on_close()
                return
            if messages:
                on_messages(messages)

        loop.add_reader(self._sock.fileno(), readable)
        if self._kept:
            kept, self._kept = self._kept, []
            on_messages(kept)

    def keep(self, messages: list[Any]) -> None:
        """Messages that came before anybody was there for them."""
        self._kept = messages

    def receive(self) -> list[Any]:
        """All messages that have arrived."""
        with self._lock:
            while True:
                try:
                    read = self._sock.recv(_READ)
                except _NOT_NOW:
                    break
                if not read:
                    raise Closed()
                self._incoming += read
                if len(read) < _READ and not isinstance(self._sock, ssl.SSLSocket):
                    break
            return self._frames()

    def receive_first(self, timeout: float) -> list[Any]:
        """Waits for a frame; only for the beginning, when no loop reads yet."""
        until = time.monotonic() + timeout
        while True:
            messages = self.receive()
            if messages:
                return messages
            if time.monotonic() > until:
                raise Closed()
            select.select([self._sock], [], [], 0.1)

    def _frames(self) -> list[Any]:
        messages: list[Any] = []
        start, there = 0, len(self._incoming)
        while there - start >= 4:
            (length,) = _LENGTH.unpack_from(self._incoming, start)
            if there - start - 4 < length:
                break
            messages.extend(self._unpack(bytes(self._incoming[start + 4 : start + 4 + length])))
            start += 4 + length
        if start:
            del self._incoming[:start]
        return messages

    def post(self, message: tuple[Any, ...], now: bool = False) -> None:
        """Sends a message soon, with others that are posted meanwhile, or at once. From any thread."""
        with self._lock:
            if self._closed:
                return
            packed = self._pack(message)
            self._outgoing.append(packed)
            self._waiting += len(packed)
            schedule = not (now or self._scheduled)
            self._scheduled = self._scheduled or schedule
            crowded = self._waiting > protocol.WAITING_MAX
        if crowded:
            self.flush(wait=5.0)
        elif now:
            self.flush()
        elif schedule and self._loop is not None:
            if threading.get_ident() == self._loop_thread:
                self._loop.call_soon(self.flush)
            else:
                self._loop.call_soon_threadsafe(self.flush)

    def show(self, token: str) -> None:
        """The first frame to a runner on another machine: the token, and nothing else."""
        shown = token.encode()
        with self._lock:
            self._buffer += _LENGTH.pack(len(shown)) + shown

    def flush(self, wait: float = 0.0) -> None:
        """Writes what was posted, as far as the socket takes it; with `wait`, all of it if that takes no longer."""
        until = time.monotonic() + wait
        while True:
            with self._lock:
                self._scheduled = False
                self._fill()
                done = self._write()
            if done or time.monotonic() >= until:
                return
            select.select([], [self._sock], [], 0.1)

    def _fill(self) -> None:
        """Makes frames of the messages that wait."""
        batch: list[bytes] = []
        size = 0
        for packed in self._outgoing:
            if batch and size + len(packed) > protocol.BATCH_BYTES:
                self._frame(batch, size)
                batch, size = [], 0
            batch.append(packed)
            size += len(packed)
        if batch:
            self._frame(batch, size)
        self._outgoing.clear()
        self._waiting = 0

    def _frame(self, batch: list[bytes], size: int) -> None:
        self._buffer += _LENGTH.pack(size + 5)
        self._buffer += _LIST.pack(0xDD, len(batch))
        self._buffer += b"".join(batch)

    def _write(self) -> bool:
        try:
            while self._buffer and not self._closed:
                sent = self._sock.send(self._buffer)
                del self._buffer[:sent]
        except _NOT_NOW:
            self._watch(True)
            return False
        except OSError:
            # Whoever reads notices the end too.
            self._buffer.clear()
        self._watch(False)
        return True

    def _watch(self, wanted: bool) -> None:
        """Lets the loop write on when the socket takes more."""
        if self._loop is None or wanted == self._writing:
            return
        self._writing = wanted
        change = self._watch_in_loop
        if threading.get_ident() == self._loop_thread:
            change()
        elif not self._loop.is_closed():
            self._loop.call_soon_threadsafe(change)

    def _watch_in_loop(self) -> None:
        if self._loop is None or self._closed:
            return
        if self._writing:
            self._loop.add_writer(self._sock.fileno(), self.flush)
        else:
            self._loop.remove_writer(self._sock.fileno())

    def close(self) -> None:
        with self._lock:
            if self._closed:
                return
            self._closed = True
            if self._loop is not None and not self._loop.is_closed():
                self._loop.remove_reader(self._sock.fileno())
                self._loop.remove_writer(self._sock.fileno())
            self._sock.close()
