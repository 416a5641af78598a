"""Arithmetic with Python's meaning."""

from .actions import program


@program((7, 2), (-7, 2), (7, -2), (7.5, 2), (0, 5), (True, 3))
async def basics(a, b):
    return a + b, a - b, a * b, a / b, a // b, a % b, -a, +b


@program((2, 10), (2, -1), (-2, 3), (4, 0.5), (0, 0), (10, 15))
async def power(a, b):
    return a**b


@program((0, -1),)
async def zero_to_negative(a, b):
    return a**b


@program((1, 0), (1.5, 0), (0, 0.0))
async def by_zero(a, b):
    return a / b


@program((1, 0), (1.0, 0))
async def floor_by_zero(a, b):
    return a // b


@program((1, 0), (1.5, 0))
async def modulo_by_zero(a, b):
    return a % b


@program((12, 10), (5, 3), (-1, 4))
async def bits(a, b):
    return a & b, a | b, a ^ b, a << 2, a >> 1, ~a


@program((2.5,), (3.5,), (-2.5,), (1234.567,), (7,))
async def rounding(x):
    return round(x), round(x, 1), round(x, -2), abs(x), abs(-x), int(x)


@program((7, 3), (-7, 3), (7.5, 2))
async def divmods(a, b):
    return divmod(a, b), pow(a, 2), (a // b) * b + a % b == a


@program(("12",), (" 7 ",), ("1_000",), ("x",), ("",), ("1.5",))
async def to_int(text):
    return int(text)


@program(("1.5",), ("1e3",), ("inf",), ("abc",), (3,), (True,))
async def to_float(value):
    return float(value)


@program(("ff", 16), ("101", 2), ("z", 36), ("9", 8))
async def with_base(text, base):
    return int(text, base)


@program((255,), (-5,))
async def text_forms(n):
    return bin(n), oct(n), hex(n), str(n), repr(n), f"{n:08b}"


@program((1, 2, 3), (1.5, 2, True))
async def aggregates(a, b, c):
    values = [a, b, c]
    return sum(values), min(values), max(values), sum(values, 10), max(a, b), min(a, b, c), sum(values) / len(values)


@program(([],))
async def empty_max(values):
    return max(values)


@program(([],), ([3],))
async def empty_with_default(values):
    return max(values, default=0), min(values, default=None), sum(values)


@program((0.1, 0.2), (1e16, 1.0), (1e-7, 1))
async def floats(a, b):
    return a + b, a * b, str(a), f"{a:.3f}", f"{b:g}", a < b, a == b


@program(("a", 1), ([1], 2), (None, 1), ({}, {}))
async def wrong_types(a, b):
    return a + b


@program(("ab", 3), ([1, 2], 2), (2, "x"), ((1,), 3), ("a", -1))
async def repeating(a, b):
    return a * b


@program((10,), (97,))
async def primes(n):
    found = []
    for candidate in range(2, n + 1):
        for divisor in range(2, int(candidate**0.5) + 1):
            if candidate % divisor == 0:
                break
        else:
            found.append(candidate)
    return found


@program((10,), (1,), (0,))
async def fibonacci(n):
    a, b = 0, 1
    for _ in range(n):
        a, b = b, a + b
    return a


@program((48, 36), (7, 13))
async def gcd(a, b):
    while b:
        a, b = b, a % b
    return a


@program((27,), (1,))
async def collatz(n):
    steps = 0
    while n != 1:
        n = n // 2 if n % 2 == 0 else 3 * n + 1
        steps += 1
    return steps


@program((3, 3.0), (2, True), (-0.0, 0))
async def mixed_kinds(a, b):
    return a == b, a + b, type(a + b).__name__, isinstance(a, int), isinstance(b, float), isinstance(b, bool)


@program((1234567.891,), (0.5,), (42,))
async def formats(x):
    return f"{x:,.2f}", f"{x:10.1f}|", f"{x:<12}|", f"{x:>12}|", f"{x:^12}|", f"{x:+}", f"{x:e}", f"{x:.1%}"
