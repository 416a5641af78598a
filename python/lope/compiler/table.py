"""What expressions may call: the methods and functions of the law, with their parameters.

`M` leaves its object alone, `C` changes it and answers None, `T` changes it and answers something. A test holds this
table against the law's own.
"""

from __future__ import annotations

METHODS: dict[str, tuple[str, str]] = {
    # dict
    "get": ("M", "key, default=None"),
    "keys": ("M", ""),
    "values": ("M", ""),
    "items": ("M", ""),
    "popitem": ("T", ""),
    "setdefault": ("T", "key, default=None"),
    "update": ("C", "*others"),
    # text
    "lower": ("M", ""),
    "upper": ("M", ""),
    "casefold": ("M", ""),
    "capitalize": ("M", ""),
    "title": ("M", ""),
    "swapcase": ("M", ""),
    "ljust": ("M", "width, fillchar=' '"),
    "rjust": ("M", "width, fillchar=' '"),
    "center": ("M", "width, fillchar=' '"),
    "zfill": ("M", "width"),
    "expandtabs": ("M", "tabsize=8"),
    "isalpha": ("M", ""),
    "isalnum": ("M", ""),
    "isdigit": ("M", ""),
    "isdecimal": ("M", ""),
    "isnumeric": ("M", ""),
    "isspace": ("M", ""),
    "isascii": ("M", ""),
    "isprintable": ("M", ""),
    "isidentifier": ("M", ""),
    "islower": ("M", ""),
    "isupper": ("M", ""),
    "istitle": ("M", ""),
    "is_integer": ("M", ""),
    "bit_length": ("M", ""),
    "split": ("M", "sep=None, maxsplit=-1"),
    "rsplit": ("M", "sep=None, maxsplit=-1"),
    "splitlines": ("M", "keepends=False"),
    "partition": ("M", "sep"),
    "rpartition": ("M", "sep"),
    "join": ("M", "iterable"),
    "replace": ("M", "old, new, count=-1"),
    "strip": ("M", "chars=None"),
    "lstrip": ("M", "chars=None"),
    "rstrip": ("M", "chars=None"),
    "removeprefix": ("M", "prefix"),
    "removesuffix": ("M", "suffix"),
    "find": ("M", "sub, start=None, end=None"),
    "rfind": ("M", "sub, start=None, end=None"),
    "rindex": ("M", "sub, start=None, end=None"),
    "startswith": ("M", "prefix, start=None, end=None"),
    "endswith": ("M", "suffix, start=None, end=None"),
    "format": ("M", "arguments=(), keywords={}"),
    "encode": ("M", "encoding='utf-8'"),
    "decode": ("M", "encoding='utf-8'"),
    "hex": ("M", ""),
    # list
    "append": ("C", "item"),
    "extend": ("C", "items"),
    "insert": ("C", "index, item"),
    "reverse": ("C", ""),
    "sort": ("C", "reverse=False"),
    "remove": ("C", "item"),
    "clear": ("C", ""),
    "pop": ("T", "*arguments"),
    "copy": ("M", ""),
    "count": ("M", "item, start=None, end=None"),
    "index": ("M", "item, start=None, end=None"),
    # set
    "add": ("C", "item"),
    "discard": ("C", "item"),
    "union": ("M", "*others"),
    "intersection": ("M", "*others"),
    "difference": ("M", "*others"),
    "symmetric_difference": ("M", "other"),
    "intersection_update": ("C", "*others"),
    "difference_update": ("C", "*others"),
    "issubset": ("M", "other"),
    "issuperset": ("M", "other"),
    "isdisjoint": ("M", "other"),
}

# Keywords that Python takes in these methods; others are positional only.
KEYWORDS = {
    "split": ("sep", "maxsplit"),
    "rsplit": ("sep", "maxsplit"),
    "splitlines": ("keepends",),
    "expandtabs": ("tabsize",),
    "encode": ("encoding",),
    "decode": ("encoding",),
}

# Arguments that are iterated over and not kept, so that an iterator may stand there.
CONSUMES = {"join", "extend", "update", "union", "intersection", "difference", "symmetric_difference",
            "intersection_update", "difference_update", "issubset", "issuperset", "isdisjoint"}  # fmt: skip

# Built-in functions: parameters, and whether the first argument is only iterated over.
FUNCTIONS: dict[str, tuple[str, bool]] = {
    "len": ("obj", True),
    "abs": ("x", False),
    "round": ("number, ndigits=None", False),
    "divmod": ("x, y", False),
    "pow": ("base, exp, mod=None", False),
    "int": ("x=0, base=None", False),
    "float": ("x=0.0", False),
    "str": ("object=''", False),
    "repr": ("obj", False),
    "bool": ("x=False", False),
    "list": ("iterable=()", True),
    "tuple": ("iterable=()", True),
    "set": ("iterable=()", True),
    "sum": ("iterable, start=0", True),
    "reversed": ("sequence", True),
    "format": ("value, format_spec=''", False),
    "ord": ("c", False),
    "chr": ("i", False),
    "hex": ("number", False),
    "oct": ("number", False),
    "bin": ("number", False),
    "hasattr": ("obj, name", False),
}

# Keywords that Python takes in these functions.
FUNCTION_KEYWORDS = {
    "round": ("number", "ndigits"), "pow": ("base", "exp", "mod"), "int": ("base",), "str": ("object",),
    "sum": ("start",),
}  # fmt: skip

# What a built-in answers that can be gone over once, or is no list: it must be used up where it stands.
ITERATORS = {"range", "enumerate", "zip", "reversed", "map", "filter"}
VIEWS = {"keys", "values", "items"}

# Why well-known calls have no place in a workflow, and what to do instead.
REFUSED = {
    "print": "log from an @action; the run's journal shows every step anyway",
    "input": "wait for a signal: await wait_signal(\"answer\")",
    "open": "do I/O in an @action",
    "next": "take an item by its index: [x for x in xs if …][0]",
    "iter": "go over the value itself",
    "map": "write a comprehension: [f(x) for x in xs]",
    "filter": "write a comprehension: [x for x in xs if …]",
    "eval": "do it in an @action",
    "exec": "do it in an @action",
    "globals": "pass what you need as an argument",
    "locals": "pass what you need as an argument",
    "vars": "name the attributes you need",
    "setattr": "assign to the attribute by name",
    "delattr": "set the attribute to None",
    "id": "compare values with ==",
    "hash": "do it in an @action: hashes differ from process to process",
    "callable": "do it in an @action",
    "dir": "do it in an @action",
    "super": "call a method of it: super().method(…)",
    "issubclass": "use isinstance on the value",
    "frozenset": "use set or tuple",
    "bytes": "make them in an @action, or write them as b\"…\"",
    "bytearray": "make them in an @action",
    "complex": "do it in an @action",
    "object": "use a dataclass",
    "slice": "write x[a:b]",
    "memoryview": "do it in an @action",
    "property": "write a method",
    "type": "use isinstance, or type(x).__name__ for its name",
    "ascii": "use repr",
    "aiter": "do it in an @action",
    "anext": "do it in an @action",
    "breakpoint": "debug with lope.testing",
    "help": "leave it out",
    "exit": "return, or raise an exception",
    "quit": "return, or raise an exception",
    "compile": "do it in an @action",
    "__import__": "import at the top of the module",
}

# Modules whose functions differ from run to run.
REFUSED_MODULES = {
    "time": "time passes while a workflow sleeps: read the clock in an @action",
    "datetime": "read the clock and make dates in an @action",
    "random": "make random values in an @action, so that they are recorded",
    "uuid": "make ids in an @action, so that they are recorded",
    "secrets": "make secrets in an @action",
    "os": "do I/O in an @action",
    "pathlib": "do I/O in an @action",
    "logging": "log from an @action",
    "requests": "do I/O in an @action",
    "httpx": "do I/O in an @action",
    "subprocess": "start processes in an @action",
    "socket": "do I/O in an @action",
}
