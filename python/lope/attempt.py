"""The attempt that runs now: which run, which step, which try. For actions that want to know, and for their logs."""

from __future__ import annotations

from contextvars import ContextVar
from typing import Callable, Optional


class Stopped(BaseException):
    """Raised in the thread of a plain function whose attempt is no longer wanted."""


class Attempt:
    """One try of a step. `idempotency_key` is the same for all tries of one step, if the step has one.

    `traceparent` is the span that the attempt is, in W3C's form, where the runner exports traces: whoever goes on with it
    (a request to another service, spans of one's own) is found below the run.
    """

    __slots__ = ("action", "attempt", "execution", "idempotency_key", "run_id", "step", "timeout_ms", "traceparent", "workflow", "_alive")

    def __init__(
        self,
        action: str,
        run_id: str = "",
        execution: str = "",
        attempt: int = 1,
        workflow: str = "",
        step: str = "",
        idempotency_key: Optional[str] = None,
        timeout_ms: Optional[int] = None,
        alive: Optional[Callable[[], None]] = None,
        traceparent: Optional[str] = None,
    ) -> None:
        self.action = action
        self.run_id = run_id
        self.execution = execution
        self.attempt = attempt
        self.workflow = workflow
        self.step = step
        self.idempotency_key = idempotency_key
        self.timeout_ms = timeout_ms
        self._alive = alive
        self.traceparent = traceparent

    def heartbeat(self) -> None:
        """Tells the runner that the action is alive; a step with a `heartbeat` policy wants to hear it."""
        if self._alive is not None:
            self._alive()

    def __repr__(self) -> str:
        return f"<attempt {self.attempt} of {self.execution or self.action} in run {self.run_id or '(none)'}>"


_current: ContextVar[Optional[Attempt]] = ContextVar("lope_attempt", default=None)


def current_attempt() -> Optional[Attempt]:
    """The attempt that the calling action belongs to; None outside of a worker."""
    return _current.get()


def heartbeat() -> None:
    """Tells the runner that the calling action is alive. Does nothing outside of a worker."""
    attempt = _current.get()
    if attempt is not None:
        attempt.heartbeat()
