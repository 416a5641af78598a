"""Values between Python and Lope: what crosses, and as what. docs/python-values.md has the table of tags."""

from .arguments import bind, call_arguments, encode_arguments, encode_input
from .decode import decode
from .encode import encode
from .failures import RemoteError, decode_failure, encode_failure
from .problem import ValueProblem
from .wire import from_json, from_msgpack, to_json, to_msgpack

__all__ = [
    "RemoteError",
    "ValueProblem",
    "bind",
    "call_arguments",
    "decode",
    "decode_failure",
    "encode",
    "encode_arguments",
    "encode_failure",
    "encode_input",
    "from_json",
    "from_msgpack",
    "to_json",
    "to_msgpack",
]
