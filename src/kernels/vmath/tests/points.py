"""Reference values of the functions that compute in f64, with 60 digits.

    python src/kernels/vmath/tests/points.py     writes points.txt beside it (mpmath)

A line is the function, its arguments and its value. The arguments are hard points: large, small, subnormal, near
branch points, roots and poles, and beside the places where the code changes form.
"""

from pathlib import Path

from mpmath import (acos, acosh, asin, asinh, atan2, atanh, cosh, digamma, erfc, erfinv, exp, findroot, fabs, floor,
                    gamma, hypot, log, loggamma, log10, mp, mpf, pi, power, psi, sinh, sqrt)

mp.dps = 60


def inverse_erfc(q):
    """Newton's method in the logarithm, from the asymptotic form."""
    if q > 0.1:
        return erfinv(1 - q)
    y = sqrt(-log(q * sqrt(pi)))
    for _ in range(60):
        step = (log(erfc(y)) - log(q)) * erfc(y) * sqrt(pi) / 2 * exp(y * y)
        y += step
        if fabs(step) < mpf(10) ** -50:
            break
    return y


def inverse_erf(x):
    return -inverse_erf(-x) if x < 0 else (inverse_erfc(1 - x) if x > 0.9 else erfinv(x))


TINY = [5e-324, 1e-310, 2.3e-308, 1e-200, 1e-30, 1e-9, 1e-5, 1e-3]
UNIT = [0.1, 0.3, 0.49999, 0.5, 0.50001, 0.62, 0.7, 0.9, 0.99, 0.999999, 1 - 2.0**-30, 1 - 2.0**-53]
MORE = [1.0, 1.0000001, 1.25, 1.4616321449683622, 1.46, 1.5, 1.75, 1.9999999, 2.0, 2.0000001, 2.49, 2.5, 3.0, 3.7, 5.0,
        9.99, 10.0, 10.01, 15.5, 21.99, 22.01, 37.0]
FAR = [100.0, 171.6, 700.0, 709.7, 1e5, 1e8, 1.1e9, 1e16, 1e100, 1e300, 1.7e308]


def both(xs):
    return xs + [-x for x in xs]


def off_integers(xs):
    return [x for x in xs if x > 0 or x != float(floor(mpf(x)))]


SMALL = both(TINY + UNIT)
REAL = both(TINY + UNIT + MORE + FAR)
NEGATIVE = [-0.25, -0.5, -0.75, -1.25, -1.5, -1.999999, -2.0000001, -2.5, -7.3, -20.4, -99.9, -1000.5]
POSITIVE = TINY + UNIT + MORE + FAR
MODERATE = [x for x in REAL if abs(x) < 700]

UNARY = {
    "asin": (asin, SMALL + [1.0, -1.0]),
    "acos": (acos, SMALL + [1.0, -1.0]),
    "sinh": (sinh, [x for x in REAL if abs(x) < 710.4] + [710.4, -710.4]),
    "cosh": (cosh, [x for x in REAL if abs(x) < 710.4] + [710.4, -710.4]),
    "asinh": (asinh, REAL),
    "acosh": (acosh, [x for x in POSITIVE if x >= 1] + [1 + 2.0**-52, 1 + 1e-10, 1.001]),
    "atanh": (atanh, SMALL),
    "exp2": (lambda x: power(2, x), [x for x in REAL if abs(x) < 1000] + [1023.9, -1022.0, -1073.0, -1050.3]),
    "log2": (lambda x: log(x, 2), POSITIVE + [0.75, 4.0, 1023.0, 1.0 - 2.0**-53]),
    "log10": (log10, POSITIVE + [1000.0, 1e22, 0.001]),
    "erfc": (erfc, [x for x in REAL if x < 26.5] + [26.0, 26.5, 27.2]),
    "erfinv": (inverse_erf, SMALL),
    "erfcinv": (inverse_erfc, [1e-307, 1e-200, 1e-30, 1e-9, 1e-5, 1e-3] + UNIT + [1.0000001, 1.25, 1.5, 1.9, 1.999999]),
    "lgamma": (lambda x: log(fabs(gamma(x))) if x < 1e4 else loggamma(x), POSITIVE[:-1] + NEGATIVE + [-t for t in TINY]),
    "digamma": (digamma, off_integers(POSITIVE[3:] + NEGATIVE + [-1e-5, -1e-9, 1.2, 1.21, 1.74, 1.76])),
}
for order in (1, 2, 3, 6, 17, 30):
    points = [0.01, 0.3, 1.0, 1.46, 2.5, 7.0, 19.9, 33.0, 200.0, 1e6] + [-0.25, -0.75, -1.25, -3.6, -10.4]
    UNARY[f"polygamma{order}"] = (lambda x, n=order: psi(n, x), points)

PAIRS = [(3.0, 4.0), (-3.0, 4.0), (3.0, -4.0), (-3.0, -4.0), (1e-300, 1e-300), (1e300, -1e300), (5e-324, 5e-324), (1e-9, 1.0),
         (1.0, 1e-9), (1e200, 1e-200), (1e-200, -1e200), (0.1, 0.3), (-7.5, 2.0), (7.5, -2.0), (1e17, 3.0), (2.5, 1e300)]


def fraction(a, b):
    return mpf(a) / mpf(b)


def toward_zero(x):
    return floor(x) if x >= 0 else -floor(-x)


BINARY = {
    "atan2": lambda a, b: atan2(mpf(a), mpf(b)),
    "hypot": lambda a, b: hypot(mpf(a), mpf(b)),
    "fmod": lambda a, b: mpf(a) - toward_zero(fraction(a, b)) * b,
    "remainder": lambda a, b: mpf(a) - floor(fraction(a, b)) * b,
    "floor_divide": lambda a, b: floor(fraction(a, b)),
}


def main():
    lines = []
    for name, (f, points) in UNARY.items():
        lines += [f"{name} {x!r} {float(f(mpf(x)))!r}" for x in points]
    mp.dps = 900
    for name, f in BINARY.items():
        lines += [f"{name} {a!r} {b!r} {float(f(a, b))!r}" for a, b in PAIRS]
    Path(__file__).with_name("points.txt").write_text("\n".join(lines) + "\n")


main()
