/* The bits of a number. */
static @U ag_bits_@f(@T x)
{
    union { @T number; @U bits; } both;
    both.number = x;
    return both.bits;
}

/* The number with these bits. */
static @T ag_number_@f(@U bits)
{
    union { @T number; @U bits; } both;
    both.bits = bits;
    return both.number;
}

/* a * b + c, rounded once. The product is exact as a double. The sum is rounded to odd: the last bit says whether it is
   exact, so that rounding it to float is the only rounding that counts. */
static float ag_fma_f32(float a, float b, float c)
{
#if defined(FP_FAST_FMAF) || defined(__FP_FAST_FMAF)
    return fmaf(a, b, c);
#else
    const double p = (double)a * (double)b, s = p + (double)c;
    const double d = s - p, rest = (p - (s - d)) + ((double)c - d);
    union { double number; uint64_t bits; } odd;
    odd.number = s;
    if ((rest > 0.0 || rest < 0.0) && (odd.bits & 1u) == 0)
        odd.bits = (rest > 0.0) == (s > 0.0) ? odd.bits + 1 : odd.bits - 1;
    return (float)odd.number;
#endif
}

/* a * b + c, rounded once, for numbers whose exponents are far from the limits (Boldo and Melquiond, 2008). */
static double ag_fma_f64(double a, double b, double c)
{
#if defined(FP_FAST_FMA) || defined(__FP_FAST_FMA)
    return fma(a, b, c);
#else
    /* The halves of a and b, their product and what it lacks to be exact. */
    const double at = 134217729.0 * a, bt = 134217729.0 * b;
    const double ah = at - (at - a), al = a - ah, bh = bt - (bt - b), bl = b - bh;
    const double p = a * b, p_rest = ((ah * bh - p) + ah * bl + al * bh) + al * bl;
    /* c + p_rest and p + that, with what each lacks. */
    const double t = c + p_rest, td = t - c, t_rest = (c - (t - td)) + (p_rest - td);
    const double v = p + t, vd = v - p, v_rest = (p - (v - vd)) + (t - vd);
    const double s = t_rest + v_rest, sd = s - t_rest, rest = (t_rest - (s - sd)) + (v_rest - sd);
    union { double number; uint64_t bits; } odd;
    if (!(p - p == 0.0) || !(c - c == 0.0))
        return a * b + c;
    odd.number = s;
    if ((rest > 0.0 || rest < 0.0) && (odd.bits & 1u) == 0)
        odd.bits = (rest > 0.0) == (s > 0.0) ? odd.bits + 1 : odd.bits - 1;
    return v + odd.number;
#endif
}

/* A number as two of half the digits: x = *high + the result. */
static double ag_halves_f64(double x, double *high)
{
    const double t = 134217729.0 * x;
    *high = t - (t - x);
    return x - *high;
}

/* The product, and what it lacks to be exact. */
static double ag_product_f64(double a, double b, double *rest)
{
    double ah, bh;
    const double al = ag_halves_f64(a, &ah), bl = ag_halves_f64(b, &bh), p = a * b;
    *rest = ((ah * bh - p) + ah * bl + al * bh) + al * bl;
    return p;
}

/* The sum, and what it lacks to be exact. */
static double ag_sum_f64(double a, double b, double *rest)
{
    const double s = a + b, d = s - a;
    *rest = (a - (s - d)) + (b - d);
    return s;
}

/* -1, 0 or 1; keeps NaN and the sign of zero. */
static @T ag_sign_@f(@T x)
{
    const @T low = x < 0 ? (@T)-1 : x;
    return x > 0 ? (@T)1 : low;
}

/* Whether x is NaN. */
static int ag_nan_@f(@T x)
{
    return @{IS_NAN};
}

/* The larger; NaN where either is; of two zeros the positive one. */
static @T ag_larger_@f(@T a, @T b)
{
    return a > b || a != a || (a == b && ag_bits_@f(b) >> @{TOP}) ? a : b;
}

/* The smaller; NaN where either is; of two zeros the negative one. */
static @T ag_smaller_@f(@T a, @T b)
{
    return a < b || a != a || (a == b && !(ag_bits_@f(b) >> @{TOP})) ? a : b;
}
