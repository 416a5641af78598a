"""Arguments of a call on the wire: a map from parameters to values, or positions and keywords where only the run knows."""

from __future__ import annotations

import functools
import inspect
from typing import Any, Callable, Optional, get_type_hints

from .decode import decode, decoder
from .encode import encode, tag
from .problem import ValueProblem
from .tagged import split

# Tag of `[positional, keywords]`, for a call with `*args` or `**kwargs`.
ARGUMENTS = "arguments"

_POSITIONAL = (inspect.Parameter.POSITIONAL_ONLY, inspect.Parameter.POSITIONAL_OR_KEYWORD)


def bind(signature: inspect.Signature, args: tuple[Any, ...], kwargs: dict[str, Any]) -> dict[str, Any]:
    """Arguments by the names of their parameters; what is left out stays out."""
    return dict(signature.bind(*args, **kwargs).arguments)


def encode_arguments(function: Callable[..., Any], args: tuple[Any, ...], kwargs: dict[str, Any]) -> Any:
    """The arguments of a call of an action or workflow, encoded."""
    signature = getattr(function, "signature", None) or inspect.signature(function)
    bound = bind(signature, args, kwargs)
    if any(each.kind in (each.VAR_POSITIONAL, each.VAR_KEYWORD) for each in signature.parameters.values()):
        return tag(ARGUMENTS, [[encode(each, f"argument {place}") for place, each in enumerate(args, 1)],
                               {name: encode(each, name) for name, each in kwargs.items()}])  # fmt: skip
    found = {name: encode(each, name) for name, each in bound.items()}
    # A map that looks reserved is escaped by the encoder of dicts.
    return found if len(found) != 1 or not next(iter(found)).startswith("$") else encode(dict(bound))


def encode_input(workflow: Any, given: Any) -> Any:
    """The input of a run that was given as plain JSON, made into what the workflow's hints say.

    A map goes by parameter; anything else, or a map that names none of them, is the only parameter's value. Nothing, where
    every parameter has a default, leaves all to these.
    """
    names = list(workflow.signature.parameters)
    if given is None and not any(_is_needed(each) for each in workflow.signature.parameters.values()):
        return encode_arguments(workflow, (), {})
    fits = isinstance(given, dict) and split(given) is None and (not given or any(name in given for name in names))
    if not fits:
        if len(names) != 1:
            raise ValueProblem(f"the input of {workflow.name} is a map with {', '.join(names) or 'nothing'}")
        given = {names[0]: given}
    args, kwargs = call_arguments(workflow, given)
    return encode_arguments(workflow, args, kwargs)


def _is_needed(parameter: inspect.Parameter) -> bool:
    return parameter.default is parameter.empty and parameter.kind not in (parameter.VAR_POSITIONAL, parameter.VAR_KEYWORD)


def call_arguments(function: Any, given: Any) -> tuple[tuple[Any, ...], dict[str, Any]]:
    """What to call a function with: the arguments of the wire, decoded by its hints."""
    signature = getattr(function, "signature", None) or inspect.signature(function)
    hints = _hints(getattr(function, "function", function))
    parts = split(given)
    if parts is not None and parts[0] == ARGUMENTS:
        positional, keywords = parts[1]
    elif given is None:
        positional, keywords = [], {}
    elif isinstance(given, dict) and parts is None:
        positional, keywords = [], dict(given["$map"]) if set(given) == {"$map"} else given
    else:
        positional, keywords = [given], {}
    return _decoded(signature, hints, positional, keywords)


class PlainParameters:
    """The parameters of a function if all of them go by name, with their decoders made ready."""

    def __init__(self, function: Callable[..., Any], signature: inspect.Signature) -> None:
        parameters = signature.parameters
        plain = {inspect.Parameter.POSITIONAL_OR_KEYWORD, inspect.Parameter.KEYWORD_ONLY}
        self._decoders: Optional[dict[str, Callable[[Any], Any]]] = None
        self._required = {name for name, each in parameters.items() if each.default is inspect.Parameter.empty}
        if {each.kind for each in parameters.values()} <= plain:
            try:
                hints = get_type_hints(function, include_extras=True)
                self._decoders = {name: decoder(hints.get(name, Any)) for name in parameters}
            except Exception:
                # The slower way says what is wrong, where it matters.
                pass

    def decoded(self, given: Any) -> Optional[dict[str, Any]]:
        """The arguments by name; `None`: the slower way knows more, or says what is wrong with its place."""
        decoders = self._decoders
        if decoders is None or type(given) is not dict or not self._required <= given.keys() <= decoders.keys():
            return None
        try:
            return {name: decoders[name](value) for name, value in given.items()}
        except ValueProblem:
            return None

    def all_decoded(self, given: Any) -> Optional[dict[str, Any]]:
        """As `decoded`, in the order of the parameters, if none is left out."""
        found = self.decoded(given)
        if found is None or self._decoders is None or len(found) != len(self._decoders):
            return None
        return {name: found[name] for name in self._decoders}


def _decoded(
    signature: inspect.Signature, hints: dict[str, Any], positional: list[Any], keywords: dict[str, Any]
) -> tuple[tuple[Any, ...], dict[str, Any]]:
    parameters = list(signature.parameters.values())
    in_order = [each for each in parameters if each.kind in _POSITIONAL]
    rest = next((each for each in parameters if each.kind is each.VAR_POSITIONAL), None)
    more = next((each for each in parameters if each.kind is each.VAR_KEYWORD), None)
    args: list[Any] = []
    for place, value in enumerate(positional):
        parameter = in_order[place] if place < len(in_order) else rest
        name = parameter.name if parameter is not None else ""
        args.append(decode(value, hints.get(name, Any), name or f"argument {place + 1}"))
    kwargs: dict[str, Any] = {}
    by_name = {each.name: each for each in parameters}
    for name, value in keywords.items():
        known = by_name.get(name, more)
        hint = hints.get(known.name, Any) if known is not None else Any
        kwargs[name] = decode(value, hint, name)
    for parameter in in_order[len(args):]:
        if parameter.kind is parameter.POSITIONAL_ONLY and parameter.name in kwargs:
            args.append(kwargs.pop(parameter.name))
    return tuple(args), kwargs


@functools.lru_cache(maxsize=1024)
def _hints(function: Callable[..., Any]) -> dict[str, Any]:
    try:
        return get_type_hints(function, include_extras=True)
    except Exception:
        return dict(getattr(function, "__annotations__", {}))
