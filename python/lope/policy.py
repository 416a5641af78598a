"""How an action is tried: retries with backoff, and the time that one attempt may take."""

from __future__ import annotations

import json
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
        if not isinstance(retry, Retry):
            raise TypeError(f"retry={retry!r}: write Retry(…), as in retry=Retry(3)")
        found["retries"] = retry.retries
        found["backoff"] = retry.backoff
        delays = (("base_delay", retry.base), ("max_delay", retry.max))
        found.update({name: spans.text(span) for name, span in delays if span is not None})
        kinds = (("retry_on", retry.on), ("never_retry_on", retry.never))
        found.update({name: [_kind(kind) for kind in chosen] for name, chosen in kinds if chosen is not None})
    if timeout is not None:
        found["timeout"] = spans.text(timeout)
    return found


def limits(rate: Optional[str], concurrency: Optional[int]) -> dict[str, Any]:
    """The part of a policy that many runs share."""
    found: dict[str, Any] = {}
    if rate is not None:
        count, slash, per = rate.partition("/")
        if not slash or not count.isdigit() or int(count) < 1:
            raise ValueError(f"rate={rate!r}: write it like 10/1s")
        found["rate_limit"] = {"count": int(count), "per": spans.text(per if per[:1].isdigit() else f"1{per}")}
    if concurrency is not None:
        if isinstance(concurrency, bool) or not isinstance(concurrency, int) or concurrency < 1:
            raise ValueError(f"concurrency={concurrency!r}: an int from 1")
        found["concurrency"] = {"limit": concurrency}
    return found


def policy_key(found: dict[str, Any]) -> str:
    """A policy as a text that tells it from others."""
    return json.dumps(found, sort_keys=True)


def _kind(kind: Union[str, Type[BaseException]]) -> str:
    return kind if isinstance(kind, str) else failure_name(kind)
