"""How an action is tried: retries with backoff, and the time that one attempt may take."""

from __future__ import annotations

from dataclasses import dataclass
from typing import Any, Literal, Optional, Tuple, Type, Union

from . import spans
from .spans import Span
from .values.names import failure_name

Backoff = Literal["none", "linear", "exponential", "jitter"]
Failures = Tuple[Union[str, Type[BaseException]], ...]


@dataclass(frozen=True)
class Retry:
    """`Retry(3)` makes up to three more attempts after the first."""

    retries: int
    backoff: Backoff = "none"
    base: Optional[Span] = None
    max: Optional[Span] = None
    on: Optional[Failures] = None
    never: Optional[Failures] = None

    def __post_init__(self) -> None:
        if isinstance(self.retries, bool) or not isinstance(self.retries, int) or self.retries < 0:
            raise ValueError(f"Retry({self.retries!r}): the number of retries is an int from 0")
        if self.backoff not in ("none", "linear", "exponential", "jitter"):
            raise ValueError(f"Retry(backoff={self.backoff!r}): one of none, linear, exponential, jitter")
        for span in (self.base, self.max):
            if span is not None:
                spans.millis(span)


def policy(retry: Optional[Retry], timeout: Optional[Span]) -> dict[str, Any]:
    """The policy of a step in a definition."""
    found: dict[str, Any] = {}
    if retry is not None:
        found["retries"] = retry.retries
        found["backoff"] = retry.backoff
        delays = (("base_delay", retry.base), ("max_delay", retry.max))
        found.update({name: spans.text(span) for name, span in delays if span is not None})
        kinds = (("retry_on", retry.on), ("never_retry_on", retry.never))
        found.update({name: [_kind(kind) for kind in chosen] for name, chosen in kinds if chosen is not None})
    if timeout is not None:
        found["timeout"] = spans.text(timeout)
    return found


def _kind(kind: Union[str, Type[BaseException]]) -> str:
    return kind if isinstance(kind, str) else failure_name(kind)
