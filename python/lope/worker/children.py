"""What an action starts is gone when the action is: processes are marked with the attempt that started them, and ended with it.

The mark is a variable of their environment, which whatever they start inherits. It goes by the context of the caller, so that
attempts side by side in one process are told apart. A child that is forked and runs no other program has the mark written into
the environment that the kernel shows of it: the runner starts workers with room for it. docs/python.md says what is reached.
"""

from __future__ import annotations

import concurrent.futures.process
import ctypes
import importlib
import multiprocessing.process
import os
import signal
import subprocess
import threading
import time
import uuid
from collections.abc import Iterable, Mapping
from concurrent.futures import Future, ThreadPoolExecutor
from contextvars import ContextVar
from functools import wraps
from typing import Any, Callable, Optional

_VARIABLE = "LOPE_PROCESS_TREE_ATTEMPT"
_PREFIX = _VARIABLE.encode() + b"="
# A mark is so long; so is what the runner starts a worker with.
_WIDTH = 32
# How long processes may take to end when they are told to, and when they are killed.
_GRACE = 0.2
_KILL_LIMIT = 10.0
_LOOK_AGAIN = 0.01
# What Python starts once for all that a process does, whoever is the first to need it.
_PYTHONS_OWN = ("from multiprocessing.resource_tracker import", "from multiprocessing.forkserver import")

# A process that is not mistaken for another one: its number, and when it started.
_Process = tuple[int, int]


class Children:
    """The processes that one attempt has started."""

    __slots__ = ("_lock", "_mark", "_started")

    def __init__(self) -> None:
        self._mark: Optional[str] = None
        # Those that were started here, whose number was told.
        self._started: set[_Process] = set()
        self._lock = threading.Lock()

    @property
    def mark(self) -> str:
        # Without the lock where it is not needed: a fork copies one that another thread holds.
        if self._mark is None:
            with self._lock:
                self._mark = self._mark or uuid.uuid4().hex
        return self._mark

    @property
    def has_begun(self) -> bool:
        """Was anything started?"""
        return self._mark is not None

    def add(self, pid: int) -> None:
        assert self.mark
        found = _stat(pid)
        if found is not None:
            with self._lock:
                self._started.add((pid, found[1]))

    def end(self) -> list[int]:
        """Tells them to end, kills those that do not, until none is left. The numbers of those that cannot be killed."""
        known = set(self._started)
        told: set[_Process] = set()
        begun = time.monotonic()
        while True:
            known = _below(known | _marked(self.mark.encode()))
            alive = [each for each in known if _is_alive(each)]
            waited = time.monotonic() - begun
            if not alive or waited > _GRACE + _KILL_LIMIT:
                return [pid for pid, _ in alive]
            for each in alive:
                if waited >= _GRACE:
                    _send(each, signal.SIGKILL)
                elif each not in told:
                    told.add(each)
                    _send(each, signal.SIGTERM)
            time.sleep(_LOOK_AGAIN)


# Whose the processes are that the caller starts.
owner: ContextVar[Optional[Children]] = ContextVar("lope_children", default=None)


class OwnedThreads(ThreadPoolExecutor):
    """Threads in which what is started belongs to whoever gave them the work."""

    def submit(self, fn: Callable[..., Any], /, *args: Any, **kwargs: Any) -> Future[Any]:
        return super().submit(_for, owner.get(), fn, *args, **kwargs)


def _for(children: Optional[Children], function: Callable[..., Any], /, *args: Any, **kwargs: Any) -> Any:
    before = owner.set(children)
    try:
        return function(*args, **kwargs)
    finally:
        owner.reset(before)


def _stat(pid: int) -> Optional[tuple[int, int, bool]]:
    """Its parent, when it started, and whether it has ended."""
    try:
        with open(f"/proc/{pid}/stat", "rb") as file:
            # The name in parentheses may hold anything.
            fields = file.read().rpartition(b")")[2].split()
        return int(fields[1]), int(fields[19]), fields[0] in (b"Z", b"X")
    except (OSError, ValueError, IndexError):
        return None


def _is_alive(process: _Process) -> bool:
    found = _stat(process[0])
    return found is not None and found[1] == process[1] and not found[2]


def _all() -> list[int]:
    try:
        return [int(name) for name in os.listdir("/proc") if name.isdigit()]
    except OSError:
        return []


def _marked(mark: bytes) -> set[_Process]:
    wanted = _PREFIX + mark
    found = set()
    for pid in _all():
        try:
            with open(f"/proc/{pid}/environ", "rb") as file:
                is_marked = wanted in file.read().split(b"\0")
        except OSError:
            # Somebody else's, or gone.
            continue
        stat = _stat(pid) if is_marked and pid != os.getpid() else None
        if stat is not None:
            found.add((pid, stat[1]))
    return found


def _below(roots: set[_Process]) -> set[_Process]:
    """These and everything below them."""
    stats = {pid: stat for pid in _all() if (stat := _stat(pid)) is not None}
    found = {each for each in roots if each[0] in stats and stats[each[0]][1] == each[1]}
    above = {pid for pid, _ in found}
    while above:
        above = {pid for pid, stat in stats.items() if stat[0] in above and (pid, stat[1]) not in found}
        found |= {(pid, stats[pid][1]) for pid in above}
    return found


def _send(process: _Process, which: signal.Signals) -> None:
    """To this process and to no other one that gets its number."""
    try:
        handle = os.pidfd_open(process[0])
    except OSError:
        return
    try:
        if _is_alive(process):
            signal.pidfd_send_signal(handle, which)
    except OSError:
        # It has ended meanwhile, or is another user's.
        pass
    finally:
        os.close(handle)


def _variables(given: Optional[Iterable[bytes]], children: Children) -> Iterable[bytes]:
    """An environment in the form `NAME=value`, with a mark."""
    if given is None:
        given = [name + b"=" + value for name, value in os.environb.items()]
    return [each for each in given if not each.startswith(_PREFIX)] + [_PREFIX + children.mark.encode()]


def _mapping(given: Optional[Mapping[Any, Any]]) -> Any:
    children = owner.get()
    if children is None:
        return given
    variables = os.environ if given is None else given
    marked = {name: value for name, value in variables.items() if os.fsencode(name) != _VARIABLE.encode()}
    return {**marked, _VARIABLE: children.mark}


def _patch_exec(module: Any, name: str) -> None:
    original = getattr(module, name)

    @wraps(original)
    def fork_exec(*args: Any) -> Any:
        children = owner.get()
        if children is None or any(os.fsdecode(word).startswith(_PYTHONS_OWN) for word in args[0]):
            return original(*args)
        pid = original(*args[:5], _variables(args[5], children), *args[6:])
        # It may clear its environment; its number stays.
        children.add(pid)
        return pid

    setattr(module, name, fork_exec)


def _patch_environment(name: str) -> None:
    original = getattr(os, name)

    @wraps(original)
    def with_mark(path: Any, words: Any, env: Any, **options: Any) -> Any:
        pid = original(path, words, _mapping(env), **options)
        if (children := owner.get()) is not None:
            children.add(pid)
        return pid

    setattr(os, name, with_mark)


def _patch_fork(name: str) -> None:
    original = getattr(os, name)

    @wraps(original)
    def fork() -> Any:
        found = original()
        pid = found[0] if isinstance(found, tuple) else found
        children = owner.get()
        if pid and children is not None:
            children.add(pid)
        return found

    setattr(os, name, fork)


def _patch_system() -> None:
    original = os.system

    @wraps(original)
    def system(command: Any) -> int:
        if owner.get() is None:
            return original(command)
        code = subprocess.call(command, shell=True)
        return code << 8 if code >= 0 else -code

    os.system = system


def _patch_processes() -> None:
    """One of `multiprocessing` is the caller's, however it comes to life: the process that forks it may be another."""
    kind: Any = multiprocessing.process.BaseProcess
    original = kind.start

    @wraps(original)
    def start(self: multiprocessing.process.BaseProcess) -> None:
        original(self)
        children = owner.get()
        if children is not None and self.pid is not None:
            children.add(self.pid)

    kind.start = start


def _patch_pools() -> None:
    """The processes of a pool belong to whoever made it, not to whoever is the first to give it work."""
    kind: Any = concurrent.futures.process.ProcessPoolExecutor
    init, submit = kind.__init__, kind.submit

    @wraps(init)
    def remember(self: Any, *args: Any, **options: Any) -> None:
        self._lope_owner = owner.get()
        init(self, *args, **options)

    @wraps(submit)
    def give(self: Any, *args: Any, **options: Any) -> Any:
        before = owner.set(getattr(self, "_lope_owner", None))
        try:
            return submit(self, *args, **options)
        finally:
            owner.reset(before)

    kind.__init__, kind.submit = remember, give


def _patch_loop(kind: Any, name: str) -> None:
    """A loop that starts processes without the help of `subprocess`."""
    original = getattr(kind, name)

    @wraps(original)
    async def with_mark(self: Any, *args: Any, **options: Any) -> Any:
        found = await original(self, *args, **{**options, "env": _mapping(options.get("env"))})
        pid = found[0].get_pid()
        if (children := owner.get()) is not None and pid is not None:
            children.add(pid)
        return found

    setattr(kind, name, with_mark)


def _room() -> Optional[int]:
    """Where the kernel reads this process's mark, if there is room for one."""
    if len(os.environ.get(_VARIABLE, "")) != _WIDTH:
        return None
    libc = ctypes.CDLL(None)
    libc.getenv.restype = ctypes.c_void_p
    found: Optional[int] = libc.getenv(_VARIABLE.encode())
    try:
        with open("/proc/self/stat", "rb") as file:
            fields = file.read().rpartition(b")")[2].split()
        first, last = int(fields[47]), int(fields[48])
    except (OSError, ValueError, IndexError):
        return None
    return found if found is not None and first <= found < last - _WIDTH else None


# Signals that the worker's loop hears of, and what stands there for it: nothing that a forked child should have.
_of_loop: dict[int, Any] = {}


def heard_by_loop(which: signal.Signals) -> None:
    _of_loop[which] = signal.getsignal(which)


def _mark_forks() -> None:
    room = _room()

    def marked() -> None:
        # What a child is told is not for the loop of its parent, which hears of signals through a pipe that both have.
        if _of_loop:
            signal.set_wakeup_fd(-1)
        for which, handler in _of_loop.items():
            if signal.getsignal(which) is handler:
                signal.signal(which, signal.SIG_DFL)
        children = owner.get()
        if children is not None:
            os.environ[_VARIABLE] = children.mark
            if room is not None:
                ctypes.memmove(room, children.mark.encode(), _WIDTH)

    def begin() -> None:
        children = owner.get()
        # Made before the fork, so that both know the same one.
        assert children is None or children.mark

    os.register_at_fork(before=begin, after_in_child=marked)


def install() -> None:
    """Before user code is loaded, so that whatever keeps one of these functions keeps ours."""
    _mark_forks()
    _patch_exec(importlib.import_module("_posixsubprocess"), "fork_exec")
    if hasattr(subprocess, "_fork_exec"):
        _patch_exec(subprocess, "_fork_exec")
    for name in ("posix_spawn", "posix_spawnp", "execve"):
        _patch_environment(name)
    for name in ("fork", "forkpty"):
        _patch_fork(name)
    try:
        import uvloop
    except ImportError:
        pass
    else:
        for name in ("subprocess_exec", "subprocess_shell"):
            _patch_loop(uvloop.Loop, name)
    _patch_system()
    _patch_processes()
    _patch_pools()
