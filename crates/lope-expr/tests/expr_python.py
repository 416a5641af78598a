"""Makes expr_python.jsonl: what Python answers to expressions, beside the trees that mean the same.

Run `python3 expr_python.py > expr_python.jsonl` (3.11, whose messages we keep). Each line is [source, tree, answer], where
answer is {"value": v} or {"error": [type, message]}. `--all` writes every combination of
values and operators instead of a sample.
"""

import ast, base64, copy, itertools, json, random, sys, warnings

BIN = {"Add": "py.add", "Sub": "py.sub", "Mult": "py.mul", "Div": "py.truediv", "FloorDiv": "py.floordiv", "Mod": "py.mod",
       "Pow": "py.pow", "BitAnd": "py.bitand", "BitOr": "py.bitor", "BitXor": "py.bitxor", "LShift": "py.shl", "RShift": "py.shr"}
CMP = {"Eq": "py.eq", "NotEq": "py.ne", "Lt": "py.lt", "LtE": "py.le", "Gt": "py.gt", "GtE": "py.ge", "In": "py.in",
       "NotIn": "py.not_in", "Is": "py.is", "IsNot": "py.is_not"}
UNARY = {"USub": "py.neg", "UAdd": "py.pos", "Invert": "py.invert", "Not": "py.not"}
KEYWORDS = {"enumerate": ["iterable", "start"], "sum": ["iterable", "start"], "sorted": ["iterable", "reverse"],
            "round": ["number", "ndigits"], "int": ["x", "base"], "split": ["sep", "maxsplit"], "rsplit": ["sep", "maxsplit"],
            "splitlines": ["keepends"]}


def encode(value):
    if value is None or isinstance(value, (bool, str)):
        return value
    if isinstance(value, int):
        if not -2**63 <= value < 2**63:
            raise OverflowError
        return value
    if isinstance(value, float):
        if value != value or value in (float("inf"), float("-inf")):
            return {"$tag": ["float", {"nan": "NaN", "inf": "inf", "-inf": "-inf"}[repr(value)]]}
        return value
    if isinstance(value, bytes):
        return {"$bytes": base64.b64encode(value).decode()}
    if isinstance(value, tuple):
        return {"$tag": ["tuple", [encode(v) for v in value]]}
    if isinstance(value, (set, frozenset)):
        return {"$tag": ["set", sorted((encode(v) for v in value), key=json.dumps)]}
    if isinstance(value, dict):
        if all(isinstance(k, str) for k in value):
            return {k: encode(v) for k, v in value.items()}
        return {"$tag": ["dict", [[encode(k), encode(v)] for k, v in value.items()]]}
    if isinstance(value, list):
        return [encode(v) for v in value]
    return encode(list(value))  # iterators, ranges and views are lists


class Compiler:
    def __init__(self):
        self.code = []

    def emit(self, *op):
        self.code.append(list(op))

    def literal(self, value):
        value = encode(value)
        self.code.append(["lit", value] if isinstance(value, (list, dict)) else value)

    def visit(self, node):
        getattr(self, type(node).__name__)(node)

    def all(self, nodes):
        for node in nodes:
            self.visit(node)

    def call(self, name, count):
        self.emit("call", name, count)

    def Expression(self, node): self.visit(node.body)
    def Constant(self, node): self.literal(node.value)
    def Name(self, node): self.emit("name", node.id)

    def BinOp(self, node):
        self.all([node.left, node.right]); self.emit(BIN[type(node.op).__name__])

    def UnaryOp(self, node):
        if isinstance(node.op, ast.USub) and isinstance(node.operand, ast.Constant) and type(node.operand.value) in (int, float):
            return self.literal(-node.operand.value)
        self.visit(node.operand); self.emit(UNARY[type(node.op).__name__])

    def BoolOp(self, node):
        self.all(node.values); self.emit("py.and" if isinstance(node.op, ast.And) else "py.or", len(node.values))

    def Compare(self, node):
        self.all([node.left, *node.comparators])
        ops = [CMP[type(op).__name__] for op in node.ops]
        self.emit(ops[0]) if len(ops) == 1 else self.emit("chain", *ops)

    def IfExp(self, node):
        self.visit(node.test); self.emit("truth"); self.all([node.body, node.orelse]); self.emit("if")

    def display(self, node, plain):
        if any(isinstance(e, ast.Starred) for e in node.elts):
            for e in node.elts:
                self.visit(e.value if isinstance(e, ast.Starred) else ast.List([e]))
            self.call("py.concat", len(node.elts))
            return True
        self.all(node.elts)
        plain(len(node.elts))

    def List(self, node): self.display(node, lambda n: self.emit("list", n))

    def Tuple(self, node):
        if self.display(node, lambda n: self.call("py.tuple_of", n)): self.call("py.tuple", 1)

    def Set(self, node):
        if self.display(node, lambda n: self.call("py.set_of", n)): self.call("py.set", 1)

    def Dict(self, node):
        if None in node.keys:
            for k, v in zip(node.keys, node.values):
                self.visit(v if k is None else ast.Dict([k], [v]))
            self.call("py.merge", len(node.keys))
            return
        for k, v in zip(node.keys, node.values):
            self.all([k, v])
        self.call("py.dict_of", 2 * len(node.keys))

    def Subscript(self, node):
        self.visit(node.value)
        if isinstance(node.slice, ast.Slice):
            for part in (node.slice.lower, node.slice.upper, node.slice.step):
                self.visit(part) if part else self.literal(None)
            self.call("py.slice", 4)
        else:
            self.visit(node.slice); self.emit("py.index")

    def Attribute(self, node):
        self.visit(node.value); self.literal(node.attr); self.emit("py.attr")

    def target(self, node):
        if isinstance(node, ast.Name): return node.id
        if isinstance(node, ast.Starred): return "*" + node.value.id
        return [self.target(e) for e in node.elts]

    def comprehension(self, generators, body, kind="list"):
        first, rest = generators[0], generators[1:]
        self.visit(first.iter); self.call("py.iter", 1)
        if first.ifs:
            self.all(first.ifs)
            if len(first.ifs) > 1: self.emit("py.and", len(first.ifs))
            self.emit("truth")
        self.comprehension(rest, body) if rest else body()
        self.emit("each", "flat" if rest else kind, self.target(first.target), bool(first.ifs))

    def ListComp(self, node): self.comprehension(node.generators, lambda: self.visit(node.elt))
    GeneratorExp = ListComp

    def SetComp(self, node): self.ListComp(node); self.call("py.set", 1)

    def DictComp(self, node):
        self.comprehension(node.generators, lambda: (self.all([node.key, node.value]), self.call("py.tuple_of", 2)))
        self.call("py.dict", 1)

    def JoinedStr(self, node):
        self.all(node.values); self.emit("text", len(node.values))

    def FormattedValue(self, node):
        self.visit(node.value)
        if node.conversion != -1: self.call("py.repr" if chr(node.conversion) == "r" else "py.str", 1)
        self.visit(node.format_spec) if node.format_spec else self.literal("")
        self.call("py.format", 2)

    def keyed(self, name, node, key):
        keywords = {k.arg: k.value for k in node.keywords}
        self.visit(node.args[0]); self.call("py.iter", 1)
        self.emit("name", "_items"); self.emit("name", "_items"); self.visit(key.body)
        self.emit("each", "list", key.args.args[0].arg, False)
        extra = keywords.get("reverse") or keywords.get("default")
        if extra: self.visit(extra)
        self.call(name, 3 if extra else 2); self.emit("let", "_items")

    def Call(self, node):
        keywords = {k.arg: k.value for k in node.keywords}
        if isinstance(node.func, ast.Attribute):
            return self.method(node, node.func.attr, keywords)
        name = node.func.id
        if "key" in keywords:
            return self.keyed({"sorted": "py.sort_by", "min": "py.min_by", "max": "py.max_by"}[name], node, keywords["key"])
        if name in ("any", "all") and isinstance(node.args[0], ast.GeneratorExp) and len(node.args[0].generators) == 1:
            g = node.args[0]
            return self.comprehension(g.generators, lambda: self.visit(g.elt), "py." + name)
        if "default" in keywords:
            self.all([node.args[0], keywords["default"]])
            return self.call(f"py.{name}_or", 2)
        if name == "isinstance":
            types = node.args[1].elts if isinstance(node.args[1], ast.Tuple) else [node.args[1]]
            self.visit(node.args[0]); self.literal([t.id for t in types])
            return self.call("py.isinstance", 2)
        args = list(node.args)
        for parameter in KEYWORDS.get(name, [])[len(args):]:
            if parameter in keywords: args.append(keywords[parameter])
        if "strict" in keywords: name = "zip_strict"
        self.all(args); self.call("py." + name, len(args))

    def method(self, node, name, keywords):
        self.visit(node.func.value)
        if name == "format":
            self.all(node.args); self.call("py.tuple_of", len(node.args))
            for k, v in keywords.items():
                self.literal(k); self.visit(v)
            self.call("py.dict_of", 2 * len(keywords)); self.call("py.m.format", 3)
            return
        args = list(node.args)
        for parameter in KEYWORDS.get(name, [])[len(args):]:
            args.append(keywords[parameter] if parameter in keywords else ast.Constant(None))
        self.all(args); self.call("py.m." + name, len(args) + 1)


def answer(run):
    try:
        value = run()
        if isinstance(value, complex):
            return {"error": ["ValueError", "complex numbers are not supported"]}
        try:
            return {"value": encode(value)}
        except OverflowError:
            return {"error": ["OverflowError", "the result does not fit a 64-bit integer"]}
    except OverflowError as e:
        if "complex" in str(e): return {"error": ["ValueError", "complex numbers are not supported"]}
        return {"error": ["OverflowError", str(e)]}
    except Exception as e:
        return {"error": [type(e).__name__, str(e)]}


def case(source):
    compiler = Compiler()
    compiler.visit(ast.parse(source, mode="eval"))
    return [source, compiler.code, answer(lambda: eval(source))]


def change(method, receiver, *args, takes=False):
    """A method that changes its receiver, as the function that answers the changed one."""
    compiler = Compiler()
    for value in (receiver, *args):
        compiler.literal(value)
    compiler.call("py.m." + method, len(args) + 1)

    def run():
        changed = copy.deepcopy(receiver)
        result = getattr(changed, method)(*args)
        return [changed, result] if takes else changed
    shown = ", ".join(map(repr, args))
    return [f"{receiver!r}.{method}({shown})", compiler.code, answer(run)]


VALUES = ["None", "True", "False", "0", "1", "-1", "7", "-7", "3", "9223372036854775807", "-9223372036854775808", "0.0", "-0.0",
          "0.5", "-2.5", "1e16", "1e-7", "3.0", "1e308", "float('inf')", "float('nan')", "''", "'a'", "'abc'", "'a%sb'",
          "b''", "b'ab'", "[]", "[1, 2]", "[1, 'a']", "[[1]]", "()", "(1,)", "(1, 2)", "set()", "{1, 2}", "{2, 3}", "{}",
          "{'a': 1}", "{1: 'x', 'b': 2}"]
OPERATORS = ["+", "-", "*", "/", "//", "%", "**", "&", "|", "^", "<<", ">>", "==", "!=", "<", "<=", ">", ">=", "in", "not in",
             "and", "or"]
TEXTS = ["''", "' a b  c '", "'a,b,,c'", "'Hello World'", "'héllo ß'", "'x=1=2'", "'-42'", "'l1\\nl2\\r\\nl3\\n'", "'aXbXc'", "'\\t12\\x1c'"]
METHODS = {"split": ["", "','", "' '", "None, 1", "'X', 1", "''", "sep=',', maxsplit=1", "' ', 1", "'=', 0", "None, 0"],
           "rsplit": ["", "','", "None, 1", "'X', 1", "'=', 1"], "splitlines": ["", "True", "keepends=True"],
           "partition": ["'='", "','", "''"], "rpartition": ["'='", "','"], "replace": ["'a', 'ZZ'", "'', '-'", "'l', '', 1", "'X', 'Y', 0"],
           "strip": ["", "' a'", "'-x'", "1"], "lstrip": ["", "'l-'"], "rstrip": ["", "'\\n'"], "removeprefix": ["'He'", "''"],
           "removesuffix": ["'ld'", "'z'"], "find": ["'l'", "''", "'c', 2", "'a', -3", "'', 100", "'b', 1, 3"], "rfind": ["'l'", "''", "'X', 0, 2"],
           "index": ["'l'", "'b', 1"], "rindex": ["'l'"], "count": ["'l'", "''", "'a', 1"], "startswith": ["'He'", "('x', 'a')", "'', 100", "'b', 2", "1"],
           "endswith": ["'ld'", "('c', 'n')", "'\\n'"], "lower": [""], "upper": [""], "casefold": [""], "capitalize": [""], "title": [""],
           "swapcase": [""], "ljust": ["12", "12, '*'", "2", "12, 'ab'"], "rjust": ["12", "12, '*'"], "center": ["12", "13, '*'", "4"],
           "zfill": ["12", "0"], "expandtabs": ["", "4"], "isalpha": [""], "isalnum": [""], "isdigit": [""], "isdecimal": [""],
           "isnumeric": [""], "isspace": [""], "isascii": [""], "isprintable": [""], "isidentifier": [""], "islower": [""], "isupper": [""],
           "istitle": [""], "encode": ["", "'ascii'", "'latin-1'"], "join": ["['a', 'b']", "'xyz'", "[1]", "5", "()", "{'k': 1}"]}
SPECS = ["", "d", "5", "05", "<5", ">5", "^6", "*^9", "+", " ", "+d", "x", "#x", "X", "#X", "b", "#b", "o", "#o", "c", "08b", ",", "_", "_x",
         ",d", "010,", "012_", "e", "E", "f", "F", "g", "G", "%", ".2f", ".0f", "#.0f", ".3e", ".0e", ".3g", "#.3g", ".10g", ".1%", "10.3f",
         "+.2f", "010.2f", ",.2f", "_.1f", "=10", "0=10", "s", "10s", ".2s", "<8.3s", "=8s", "q", ".", "5.", "x<6", "é^7", "n", ".5", ".1", ".20"]
NUMBERS = ["0", "1", "-1", "42", "-1234567", "255", "9223372036854775807", "True", "0.0", "-0.0", "0.5", "1.5", "2.5", "-3.14159", "1e16",
           "1.5e-7", "123456789.125", "1e300", "5e-324", "float('inf')", "-float('inf')", "float('nan')", "0.1", "2.675", "99999.5", "1e15", "1234.5"]


def combined():
    for a, b in itertools.product(VALUES, repeat=2):
        for op in OPERATORS:
            if not (op == "%" and a.startswith("b")) and not (op in ("<<", "**") and "9223" in b) and not (op == "*" and "9223" in a + b and ("'" in a + b or "[" in a + b or "(1" in a + b)):
                yield f"({a}) {op} ({b})"
    for a in VALUES:
        yield from (f"{op}({a})" for op in ("-", "+", "~", "not "))
        for f in ("len", "int", "float", "str", "bool", "list", "tuple", "set", "dict", "repr", "abs", "round", "sum", "sorted", "min", "max",
                  "any", "all", "enumerate", "reversed", "range", "ord", "chr", "hex", "oct", "bin"):
            if not (f in ("range",) and "9223" in a): yield f"{f}({a})"
        for b in ("0", "-1", "1", "5", "'a'", "1.0", "True", "None"):
            yield f"({a})[{b}]"
        for t in ("int", "float", "str", "bool", "list", "dict", "set", "tuple", "bytes", "(int, str)"):
            yield f"isinstance({a}, {t})"
        for f in ("divmod", "round"):
            yield from (f"{f}({a}, {b})" for b in ("2", "-3", "0", "1", "0.5"))
    for text, (method, args) in itertools.product(TEXTS, METHODS.items()):
        yield from (f"{text}.{method}({arg})" for arg in args)
    for number, spec in itertools.product(NUMBERS + ["'abc'", "'héllo'", "None", "[1]"], SPECS):
        yield f"format({number}, {spec!r})"
    for number in NUMBERS:
        if number != "1e300": yield from (f"'%{spec}' % ({number},)" for spec in ("d", "5d", "-5d|", "05d", "+d", "x", "#x", "o", "f", ".2f", "10.3f", "-10.1e", "g", "s", "r", "5s", "i", "%% %s"))
        yield from (f"round({number}, {n})" for n in (0, 1, 2, -1, -2, 5, 400, -400))
        yield from (f"({number}) ** {n}" for n in (0, 0.5, 2, -1, 3.7, -0.25, 10))
    for seq in ("[0, 1, 2, 3, 4]", "'héllo'", "b'hello'", "(0, 1, 2)", "[]"):
        for a, b, c in itertools.product(("", "1", "-2", "9", "-9"), ("", "2", "-1", "9"), ("", "1", "2", "-1", "-2", "0")):
            yield f"{seq}[{a}:{b}:{c}]"


def written():
    yield from """
f'{1}{"a"!r}{2.5:.2f}|{"x":>5}|{[1, "a"]}|{None}|{3:{"0>4"}}'
f'{"it" + chr(39) + "s"!r}'
'{} {}'.format(1, 'a')
'{1} {0!r} {x:>4} {y[0]} {y[k]}'.format('a', 2, x=5, y={'k': 1, 0: 2})
'{x[k]:.1f} {{}}'.format(x={'k': 1.25})
'{:{w}.{p}f}'.format(3.14159, w=8, p=2)
'{'.format(1)
'}'.format(1)
'{} {1}'.format(1, 2)
'{2}'.format(1)
'{a}'.format(b=1)
'%s and %s' % ('a', 1)
'%(a)s %(b)05.1f' % {'a': 1, 'b': 2.25}
'%s' % [1]
'%d' % 'a'
'%s %s' % ('a',)
'%s' % ('a', 'b')
'%*d|%-*d|' % (5, 1, 5, 2)
'%c%c' % ('a', 66)
'%q' % 1
1 < 2 < 3
1 < 3 < 2
3 > 2 == 2
1 < 'a' if False else 5
0 or '' or [] or 'x'
1 and 'a' and [0]
None or 0
'a' if [] else 'b'
[x * 2 for x in range(5) if x % 2]
[(x, y) for x in range(3) for y in range(x) if x + y > 1]
{x: x * x for x in range(4)}
{str(x): x for x in (1, 2)}
{x % 3 for x in range(9)}
[a + b for a, b in [(1, 2), (3, 4)]]
[a for a, *b in [(1, 2, 3)]]
[b for a, *b in [(1, 2, 3), [4]]]
[(a, c) for a, (b, c) in [(1, (2, 3))]]
[a for a, b in [(1, 2, 3)]]
[a for a, b in [(1,)]]
[a for a, b in [5]]
[k + str(v) for k, v in {'a': 1, 'b': 2}.items()]
sum(x for x in [1, 2.5, True])
sum([[1], [2]], [])
sum(['a'])
sum('ab', '')
any(x > 2 for x in [1, 2, 3])
all(x > 2 for x in [3, 1 / 1, 0])
any(1 / x > 0 for x in [1, 0])
all([])
sorted([3, 1, 2], reverse=True)
sorted(['b', 'A', 'a'])
sorted([1, 'a'])
sorted([(1, 'b'), (1, 'a'), (0, 'z')])
sorted(['bb', 'a', 'cc', 'd'], key=lambda s: len(s))
sorted(['bb', 'a', 'cc', 'd'], key=lambda s: len(s), reverse=True)
sorted({'b': 1, 'a': 2})
sorted([[2], [1, 5], [1]])
min([3, 1, 2], key=lambda v: -v)
max(['a', 'bbb', 'cc'], key=lambda v: len(v))
min([], default=5)
max([], key=lambda v: v, default='none')
min([])
max([])
min(3, 1, 2)
max('a', 'b')
min(1, 'a')
max(1, 'a')
max([1, 1.0, True])
min(1.0, 1)
enumerate('ab', 1)
enumerate(['x'], start=5)
zip([1, 2, 3], 'ab')
zip()
zip([1], [2, 3], strict=True)
zip([1, 2], [3], strict=True)
zip([1], [2], [3, 4], strict=True)
zip(1)
range(5)
range(2, 8, 3)
range(5, 0, -2)
range(0)
range(1, 2, 0)
range('a')
reversed([1, 2])
reversed('abc')
reversed({'a': 1})
round(0.5)
round(1.5)
round(2.5)
round(-2.5)
round(2.675, 2)
round(1234, -2)
round(1250, -2)
round(1350, -2)
round(15, -1)
round(25, -1)
round(1e300, -300)
round(123.456, -1)
round(155.0, -1)
round('a')
abs(-9223372036854775808)
-(-9223372036854775808)
int('12')
int(' -12_000 ')
int('0x1f', 16)
int('ff', base=16)
int('0b101', 0)
int('12a')
int('1__2')
int('')
int('9223372036854775808')
int(3.99)
int(-3.99)
int(float('nan'))
int(float('inf'))
int(1e30)
int([1])
int(None)
int('z', 40)
int(5, 10)
float('1e3')
float(' -inf ')
float('nan')
float('1_000.5')
float('x')
float('')
float([1])
float('1e400')
str(1.0)
str(1e16)
str(1e-5)
str(0.0001)
str(123456789012345680.0)
str(5e-324)
str(1.7976931348623157e308)
str(b'a\\x00')
str('x')
repr('a"b')
repr("a'b")
repr('a\\'"b')
repr('\\n\\t\\x00\\x7f\\xe9\\u200b\\U0001f600')
repr((1,))
repr({1: 'a', 'b': (2,)})
repr(set())
repr([None, True, 1.5, 'x', b'y'])
bool('False')
list('abc')
list({'a': 1})
list(5)
tuple([1, 2])
set([1, 1.0, True, 'a'])
set([[1]])
dict([('a', 1), ('b', 2)])
dict([(1, 2)])
dict({'a': 1})
dict([1])
dict([(1, 2, 3)])
dict(5)
{'a': 1, **{'b': 2, 'a': 3}}
[*[1, 2], 3, *'ab']
(*[1], 2)
{*[1, 2], 2}
{1: 'a', 1.0: 'b', True: 'c'}
{[1]: 2}
{'a': 1}.get('a')
{'a': 1}.get('b')
{'a': 1}.get('b', 5)
{1: 'x'}.get(1.0)
{'a': 1}.get([1])
{'a': 1, 2: 'b'}.keys()
{'a': 1, 2: 'b'}.values()
{'a': 1, 2: 'b'}.items()
{'a': 1}['b']
{1: 2}[1.0]
{1: 2}[3]
{'a': 1}[[1]]
{(1, 2): 'x'}[(1, 2)]
[1, 2][2]
[1, 2]['a']
(1, 2)[5]
'abc'[5]
'abc'['a']
5[0]
None['a']
[1, 2, 1].count(1)
(1, 2).index(2)
(1, 2).index(5)
[1, 2, 3].index(3)
[1, 2, 3].index(3, 0, 2)
[1, 2, 3].index('x')
[1, 2].copy()
5 .append(1)
'a'.append(1)
None.foo
{1, 2}.union([3], (4,))
{1, 2, 3}.intersection([2, 3], [3])
{1, 2, 3}.difference([2])
{1, 2}.symmetric_difference([2, 3])
{1}.issubset([1, 2])
{1, 2}.issuperset([1])
{1}.isdisjoint([2])
{1} < {1, 2}
{1} <= {1}
{1} > set()
{1, 2} == {2, 1}
{'a': 1} == {'a': 1.0}
{'a': 1} | {'b': 2}
(1, 2) == [1, 2]
[1] == [True]
(1, 2) < (1, 3)
[1, 2] < [1]
[] < [1]
(1, 'a') < (1, 2)
1 == 1.0
9007199254740993 == 9007199254740992.0
9007199254740993 > 9007199254740992.0
float('nan') == float('nan')
None is None
1 is not None
'a' in 'abc'
5 in 'abc'
1 in [1.0]
'a' in {'a': 1}
2 in (1, 2)
[1] in {1}
1 in 5
None in [None]
7 // 2, -7 // 2, 7 // -2, -7 // -2, 7 % -2, -7 % 2
7.5 // 2, -7.5 // 2, 7.5 % -2, -7.5 % 2, 5.0 % float('inf'), -5.0 % float('inf')
1 // 0
1 % 0
1 / 0
1.0 / 0
1.0 // 0
1.0 % 0
0 ** -1
0.0 ** -1
2 ** 62, 2 ** 0, (-2) ** 3, 2 ** -2
2 ** 63
10 ** 400
1e200 ** 2
2 ** 0.5, 9 ** 0.5, 1.1 ** 10, 0.1 ** 3, 123.456 ** -1.5, 1e-300 ** 1.01, 7 ** 0.333
1 << 62, -1 << 63, 1 >> 70, -1 >> 70
1 << 63
1 << -1
9223372036854775807 / 3, 9223372036854775807 / 9007199254740993, -9223372036854775808 / 7
9223372036854775807 + 1
9223372036854775807 * 2
'ab' * 3, 3 * [1], (1,) * 2, 'a' * -1
True + True, True * 2.5, -True, ~True, True & False, True | 2
pow(2, 10, 1000)
pow(2, 10, -1000)
pow(2, 10, 0)
chr(97), chr(128512), ord('é')
chr(-1)
chr(1114112)
ord('ab')
ord(5)
hex(255), oct(-8), bin(5)
hex(1.5)
(1.5).is_integer(), (2.0).is_integer()
(255).bit_length(), (-1).bit_length(), (0).bit_length()
b'abc'.decode()
b'\\xff'.hex()
b'caf\\xe9'.decode('latin-1')
'ß'.upper(), 'ŉ'.title(), "they're bill's".title(), 'ÀÉ'.lower(), 'ΑΣ'.lower()
'a\\u2028b\\x85c'.splitlines()
'\\u00a0a\\u3000'.strip()
'{:>{}}'.format('a', 5)
'{0.x}'.format(5)
'{!z}'.format(5)
""".strip().split("\n")


def changes():
    for xs in ([1, 2, 3], [], [[1]], ["a"]):
        yield change("append", xs, 4)
        yield change("extend", xs, (5, 6))
        yield change("extend", xs, "ab")
        yield change("extend", xs, 5)
        for index in (0, -1, 100, -100):
            yield change("insert", xs, index, "new")
            yield change("pop", xs, index, takes=True)
        yield change("pop", xs, takes=True)
        yield change("remove", xs, 2)
        yield change("reverse", xs)
        yield change("clear", xs)
        yield change("sort", xs)
    yield change("sort", [3, "a"])
    for d in ({"a": 1, "b": 2}, {}, {1: "x", "b": 2}):
        yield change("pop", d, "a", takes=True)
        yield change("pop", d, "a", None, takes=True)
        yield change("pop", d, 1, takes=True)
        yield change("popitem", d, takes=True)
        yield change("setdefault", d, "a", takes=True)
        yield change("setdefault", d, "z", 5, takes=True)
        yield change("setdefault", d, 1.0, 5, takes=True)
        yield change("update", d, {"b": 5, "c": 6})
        yield change("update", d, [("k", 1), (2, 3)])
        yield change("update", d, [5])
        yield change("clear", d)
    for s in ({1, 2}, set()):
        yield change("add", s, 2)
        yield change("add", s, 3.0)
        yield change("add", s, [1])
        yield change("discard", s, 1)
        yield change("remove", s, 1)
        yield change("update", s, [2, 3], (4,))
        yield change("clear", s)


def main():
    sources = list(combined())
    if "--all" not in sys.argv:
        # The table in the repository: all written by hand, a sample of the combinations.
        random.seed(7)
        sources = random.sample(sources, 2500)
    warnings.simplefilter("ignore")
    for found in itertools.chain(map(case, sources), map(case, written()), changes()):
        print(json.dumps(found, separators=(",", ":"), ensure_ascii=False))


if __name__ == "__main__":
    main()
