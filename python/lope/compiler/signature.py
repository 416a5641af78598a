"""The binding of a call's arguments to the parameters of a function."""

from __future__ import annotations

import inspect
from typing import Any, Optional

POSITIONAL = (inspect.Parameter.POSITIONAL_ONLY, inspect.Parameter.POSITIONAL_OR_KEYWORD)


def bind(
    signature: inspect.Signature, positional: list[Any], keywords: dict[str, Any]
) -> tuple[dict[str, Any], Optional[str]]:
    """Arguments by parameter, in the way of Python, or what is wrong. Those left out are not in the answer.

    Extra positional arguments are a list under the name of `*args`, extra keywords a dict under that of `**kwargs`.
    """
    parameters = signature.parameters
    in_order = [each for each in parameters.values() if each.kind in POSITIONAL]
    rest = next((each for each in parameters.values() if each.kind is each.VAR_POSITIONAL), None)
    more = next((each for each in parameters.values() if each.kind is each.VAR_KEYWORD), None)
    found: dict[str, Any] = {each.name: value for each, value in zip(in_order, positional)}
    extra = positional[len(in_order):]
    if extra and rest is None:
        return found, f"takes {len(in_order)} positional arguments, not {len(positional)}"
    if rest is not None:
        found[rest.name] = extra
    others: dict[str, Any] = {}
    for name, value in keywords.items():
        parameter = parameters.get(name)
        by_name = parameter is not None and parameter.kind in (parameter.POSITIONAL_OR_KEYWORD, parameter.KEYWORD_ONLY)
        if not by_name and more is None:
            return found, f"has no parameter '{name}'"
        if by_name and name in found:
            return found, f"gets two values for '{name}'"
        if by_name:
            found[name] = value
        else:
            others[name] = value
    if more is not None:
        found[more.name] = others
    for each in parameters.values():
        if each.default is each.empty and each.name not in found:
            return found, f"lacks the argument '{each.name}'"
    return found, None
