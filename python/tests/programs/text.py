"""Text: methods, f-strings, slices."""

from .actions import Colour, Item, add, describe, program


@program(("Hello World",), ("",), ("äÖ",), ("  x ",))
async def cases(s):
    return s.lower(), s.upper(), s.title(), s.capitalize(), s.swapcase(), s.strip(), s.casefold(), len(s)


@program(("a,b,,c",), ("",), (" a  b ",))
async def splitting(s):
    return s.split(","), s.split(), s.split(",", 1), s.rsplit(",", maxsplit=1), s.splitlines(), s.partition(",")


@program((["a", "b"],), ([],), ("xyz",))
async def joining(parts):
    return "-".join(parts), "".join(parts), ", ".join(p.upper() for p in parts)


@program(([1, 2],))
async def joining_wrong(parts):
    return ",".join(parts)


@program(("hello", "l"), ("hello", "z"), ("", ""))
async def searching(s, part):
    return s.find(part), s.rfind(part), s.count(part), part in s, s.startswith(part), s.endswith(part)


@program(("abc", "z"), ("abc", "b"))
async def index_of(s, part):
    return s.index(part)


@program(("a-b-a",))
async def replacing(s):
    return s.replace("a", "X"), s.replace("a", "", 1), s.removeprefix("a-"), s.removesuffix("-a"), s.replace("", ".")


@program(("7",), ("abc",), ("A1",), (" ",), ("",))
async def asking(s):
    return s.isdigit(), s.isalpha(), s.isalnum(), s.isspace(), s.islower(), s.isupper(), s.isidentifier()


@program(("ab",))
async def padding(s):
    return s.ljust(5, "."), s.rjust(5), s.center(6, "*"), s.zfill(4), s * 2, "x" + s


@program(("hello",), ("",), ("ab",))
async def slicing(s):
    return s[1:], s[:2], s[-2:], s[::-1], s[::2], s[1:-1], s[10:], s[-1:]


@program(("hello", 1), ("hello", -1), ("hi", 5))
async def indexing(s, i):
    return s[i]


@program(("Ann", 3, 1.5))
async def f_strings(name, n, x):
    return f"{name} has {n} and {x}", f"{name!r} {n + 1}", f"{name:>6}|{n:03d}|{x:.2f}", f"{{{n}}}", f"", f"{n=}"


@program(("x", 8, 3), (2.5, 6, 1))
async def nested_specs(value, width, precision):
    return f"{value:>{width}}", f"{3.14159:{width}.{precision}f}"


@program(("x",), (None,))
async def wrong_specs(value):
    return f"{value:d}"


@program((1, [1, "a"], None, True))
async def f_strings_of_values(a, b, c, d):
    return f"{a}{b}{c}{d}", f"{b!r:>12}", str(b), repr(c), f"{ {'k': a} }"


@program()
async def f_strings_of_objects():
    item = Item("pen", 1.5, ["a"])
    return f"{item}", str(item), f"{item.name:<5}|", f"{Colour.RED.value}", repr((1,)), f"{item.tags!r}"


@program((2, "x"), (0, ""))
async def percent(n, s):
    return "%d items: %s" % (n, s), "%05.1f" % n, "%s" % s, "%%"


@program(("a", 2))
async def format_method(a, b):
    return "{} {}".format(a, b), "{1}{0}".format(a, b), "{x}-{y:>3}".format(x=a, y=b), "{!r}".format(a)


@program(("a\nb\r\nc",), ("one",))
async def lines(s):
    return s.splitlines(), len(s.splitlines()), [line.strip() for line in s.splitlines()]


@program(("racecar",), ("hello",))
async def palindrome(word):
    return word == word[::-1], "".join(reversed(word)), sorted(word), list(word)


@program(("The quick brown fox",))
async def acronym(sentence):
    words = sentence.split()
    return "".join(w[0].upper() for w in words), max(words, key=len), sorted(words, key=str.lower), len(words)


@program(("ann", True), ("bob", False))
async def with_actions(name, loud):
    shown = await describe(name, loud=loud)
    number = await add(len(shown))
    return f"{shown}:{number}"


@program(("k1=v1;k2=v2",), ("",))
async def parsing(text):
    found = {}
    for part in text.split(";"):
        if not part:
            continue
        key, _, value = part.partition("=")
        found[key] = value
    return found


@program((b"abc",), (b"",))
async def bytes_values(data):
    return data.decode(), len(data), data.hex(), data + b"x", list(data), data[1:]


@program(("é",))
async def encoding(text):
    return text.encode(), text.encode("latin-1"), ord(text), chr(233), text.encode("utf-8").decode("utf-8") == text


@program(("x",))
async def no_such_method_on_int(text):
    n = len(text)
    return n.upper()
