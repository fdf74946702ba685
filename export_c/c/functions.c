/* y * 2^n for t = n + ROUND, if y and the product are normal numbers. */
static @T ag_scale_@f(@T y, @T t)
{
    return ag_number_@f((@U)(ag_bits_@f(t) << @{MANTISSA}) + ag_bits_@f(y));
}

/* q with e^r = 1 + r + r^2 q(r). */
static float ag_exp_tail_f32(float r)
{
    float q = 0.0001989198f;
    q = ag_fma_f32(q, r, 0.0013934541f);
    q = ag_fma_f32(q, r, 0.0083333105f);
    q = ag_fma_f32(q, r, 0.041666456f);
    q = ag_fma_f32(q, r, 0.16666667f);
    return ag_fma_f32(q, r, 0.5f);
}

/* q with e^r = 1 + r + r^2 q(r). */
static double ag_exp_tail_f64(double r)
{
    double q = 2.0915442297780116e-09;
    q = ag_fma_f64(q, r, 2.5106274733573296e-08);
    q = ag_fma_f64(q, r, 2.75572718102198e-07);
    q = ag_fma_f64(q, r, 2.755725283351691e-06);
    q = ag_fma_f64(q, r, 2.4801587327007187e-05);
    q = ag_fma_f64(q, r, 0.00019841269876864356);
    q = ag_fma_f64(q, r, 0.0013888888888883327);
    q = ag_fma_f64(q, r, 0.008333333333325544);
    q = ag_fma_f64(q, r, 0.04166666666666667);
    q = ag_fma_f64(q, r, 0.1666666666666667);
    return ag_fma_f64(q, r, 0.5);
}

/* e^r - 1 for x = n ln 2 + r; *t is n + ROUND. */
static @T ag_exp_reduced_@f(@T x, @T *t)
{
    @T n, r;
    *t = ag_fma_@f(x, @{LOG2E}, @{ROUND});
    n = *t - @{ROUND};
    r = ag_fma_@f(-n, @{LN2_HI}, x);
    r = ag_fma_@f(-n, @{LN2_LO}, r);
    return ag_fma_@f(r * r, ag_exp_tail_@f(r), r);
}

/* e^x. 2^n has two factors, so that the largest and the subnormal results are rounded once. */
static @T ag_exp_@f(@T x)
{
    @T t, p, n, half, rest;
    x = x < @{EXP_LOW} ? @{EXP_LOW} : x;
    x = x > @{EXP_HIGH} ? @{EXP_HIGH} : x;
    p = ag_exp_reduced_@f(x, &t);
    n = t - @{ROUND};
    half = ag_fma_@f(n, @{HALF}, @{ROUND});
    rest = (n - (half - @{ROUND})) + @{ROUND};
    return (@{ONE} + p) * ag_scale_@f(@{ONE}, half) * ag_scale_@f(@{ONE}, rest);
}

/* e^x for x <= 0. */
static @T ag_exp_below_@f(@T x)
{
    @T t;
    const @T p = ag_exp_reduced_@f(x < @{EXP_LOW} ? @{EXP_LOW} : x, &t);
    return (@{ONE} + p) * ag_scale_@f(@{ONE}, t + @{LIFT}) * @{LIFT_DOWN};
}

/* e^x for arguments whose exponentials are normal numbers. */
static @T ag_exp_middle_@f(@T x)
{
    @T t;
    const @T p = ag_exp_reduced_@f(x, &t);
    return (@{ONE} + p) * ag_scale_@f(@{ONE}, t);
}

/* e^x - 1. */
static @T ag_expm1_@f(@T x)
{
    @T t, p, s, y, cut = x < @{EXPM1_LOW} ? @{EXPM1_LOW} : x;
    cut = cut > @{EXP_HIGH} ? @{EXP_HIGH} : cut;
    p = ag_exp_reduced_@f(cut, &t);
    s = ag_scale_@f(@{ONE}, t - @{ONE});
    y = ag_fma_@f(s, p, s - @{HALF}) * @{TWO};
    return fabs@s(x) < @{MIN_POSITIVE} + @{MIN_POSITIVE} ? x : y;
}

/* A number times a power of two: (head + rest) * lifted * 2^-LIFT. */
struct ag_lifted_@f {
    @T head, rest, lifted;
};

/* e^(x - low) for x <= 0 and a low below an ulp of x. */
static struct ag_lifted_@f ag_exp_lifted_@f(@T x, @T low)
{
    struct ag_lifted_@f y;
    const @T t = ag_fma_@f(x, @{LOG2E}, @{ROUND}), n = t - @{ROUND};
    const @T r = ag_fma_@f(-n, @{LN2_HI}, x), less = ag_fma_@f(n, @{LN2_LO}, low);
    const @T tail = r * r * ag_exp_tail_@f(r), one = @{ONE} + r;
    const @T rest = ((@{ONE} - one) + r) + ((one - (one + tail)) + tail);
    y.head = one + tail;
    y.rest = ag_fma_@f(-less, y.head, rest);
    y.lifted = ag_scale_@f(@{ONE}, t + @{LIFT});
    return y;
}

/* p with 2 atanh s = 2 s + s^3 p(s^2). */
static float ag_log_tail_f32(float z)
{
    float p = 0.23353428f;
    p = ag_fma_f32(p, z, 0.2854997f);
    p = ag_fma_f32(p, z, 0.4000013f);
    return ag_fma_f32(p, z, 0.6666667f);
}

/* p with 2 atanh s = 2 s + s^3 p(s^2). */
static double ag_log_tail_f64(double z)
{
    double p = 0.14643628601909797;
    p = ag_fma_f64(p, z, 0.15329500754204178);
    p = ag_fma_f64(p, z, 0.18182956608063458);
    p = ag_fma_f64(p, z, 0.2222221019926421);
    p = ag_fma_f64(p, z, 0.28571428631764334);
    p = ag_fma_f64(p, z, 0.39999999999886615);
    return ag_fma_f64(p, z, 0.666666666666667);
}

/* x = m * 2^k with 0.7071 <= m < 1.4143; *down is 2^-k. */
static @T ag_split_@f(@T x, @T *k, @T *down)
{
    const int low = x < @{MIN_POSITIVE};
    const @U bits = ag_bits_@f(low ? x * @{LOW_UP} : x) + (@{ONE_BITS} - @{ROOT_BITS});
    @U e = bits >> @{MANTISSA};
    *k = (ag_number_@f(e | @{INT_BITS}) - @{INT_BIAS}) - (low ? @{LOW_SHIFT} : 0);
    e = e < 2 * @{BIAS} ? e : 2 * @{BIAS} - 1;
    *down = ag_number_@f((@U)(2 * @{BIAS} - e) << @{MANTISSA});
    return ag_number_@f((bits & @{MANTISSA_MASK}) + @{ROOT_BITS});
}

/* k ln 2 + log(1 + f). */
static @T ag_log_sum_@f(@T f, @T k)
{
    const @T s = f / (@{TWO} + f), z = s * s, half = @{HALF} * f * f;
    const @T low = ag_fma_@f(s, ag_fma_@f(z, ag_log_tail_@f(z), half), k * @{LN2_LO});
    return ag_fma_@f(k, @{LN2_HI}, f - (half - low));
}

/* The natural logarithm: -infinity at 0, NaN below. */
static @T ag_log_@f(@T x)
{
    @T k, down, y;
    const @T m = ag_split_@f(x, &k, &down);
    y = ag_log_sum_@f(m - @{ONE}, k);
    y = x == @{INFINITY} ? x : y;
    y = x == 0 ? -@{INFINITY} : y;
    return x >= 0 ? y : @{NAN};
}

/* log(1 + x). */
static @T ag_log1p_@f(@T x)
{
    @T k, down, y;
    const @T u = @{ONE} + x, b = u - @{ONE}, c = (@{ONE} - (u - b)) + (x - b);
    const @T m = ag_split_@f(u, &k, &down);
    y = ag_log_sum_@f((m - @{ONE}) + c * down, k);
    y = x == 0 || x == @{INFINITY} ? x : y;
    y = x == -@{ONE} ? -@{INFINITY} : y;
    return x >= -@{ONE} ? y : @{NAN};
}

/* p with tanh x = x + x^3 p(x^2). */
static float ag_tanh_tail_f32(float z)
{
    float p = 0.0022925576f;
    p = ag_fma_f32(p, z, -0.00834378f);
    p = ag_fma_f32(p, z, 0.021768868f);
    p = ag_fma_f32(p, z, -0.053959254f);
    p = ag_fma_f32(p, z, 0.13333304f);
    return ag_fma_f32(p, z, -0.33333334f);
}

/* tanh x. */
static float ag_tanh_f32(float x)
{
    const float z = x * x, small = ag_fma_f32(x * z, ag_tanh_tail_f32(z), x), a = fabsf(x);
    const float cut = a > @{TANH_HIGH_f32} ? @{TANH_HIGH_f32} : a;
    const float large = 1.0f - 2.0f / (ag_exp_middle_f32(cut + cut) + 1.0f);
    return copysignf(a < 0.625f ? small : large, x);
}

/* 1 / (1 + e^-x). */
static @T ag_sigmoid_@f(@T x)
{
    const @T e = ag_exp_below_@f(-fabs@s(x)), top = x < 0 ? e : @{ONE}, d = @{ONE} + e, w = @{ONE} / d;
    const @T lack = ag_fma_@f(-w, (@{ONE} - d) + e, ag_fma_@f(-w, d, @{ONE})), y = top * w;
    return ag_fma_@f(y, lack, y);
}

/* product = by / (1 + e^-(x + low)); sigma = sigmoid x; rest = 1 - sigma. */
struct ag_logistic_@f {
    @T product, sigma, rest;
};

/* by / (1 + e^-(x + low)), sigmoid x and 1 - sigmoid x. */
static struct ag_logistic_@f ag_by_logistic_@f(@T by, @T x, @T low)
{
    struct ag_logistic_@f y;
    const int below = x < 0;
    const struct ag_lifted_@f e = ag_exp_lifted_@f(-fabs@s(x), below ? -low : low);
    const @T two = e.lifted * @{LIFT_DOWN}, full = e.head * two, d = @{ONE} + full;
    const @T d_rest = ag_fma_@f(e.rest, two, (@{ONE} - d) + full), w = @{ONE} / d;
    const @T top = below ? e.head : @{ONE}, top_rest = below ? e.rest : 0, q = top * w;
    const @T missing = ag_fma_@f(-q, d_rest, ag_fma_@f(-q, d, top) + top_rest), less = full * w;
    y.product = by * ag_fma_@f(missing, w, q) * (below ? e.lifted : @{ONE}) * (below ? @{LIFT_DOWN} : @{ONE});
    y.sigma = below ? less : w;
    y.rest = below ? w : less;
    return y;
}

/* x * sigmoid x, and its derivative. */
static @T ag_silu_both_@f(@T x, @T *slope)
{
    const @T by = x < -@{LOGISTIC_HIGH} ? -@{LOGISTIC_HIGH} : x;
    const @T c = by > @{LOGISTIC_HIGH} ? @{LOGISTIC_HIGH} : by;
    const struct ag_logistic_@f w = ag_by_logistic_@f(by, c, 0);
    *slope = ag_fma_@f(c * w.sigma, w.rest, w.sigma);
    return x == -@{INFINITY} ? @{NAN} : w.product;
}

/* x * sigmoid x. */
static @T ag_silu_@f(@T x)
{
    @T slope;
    return ag_silu_both_@f(x, &slope);
}

/* The derivative of silu. */
static @T ag_silu_grad_@f(@T x)
{
    @T slope;
    ag_silu_both_@f(x, &slope);
    return slope;
}

/* log(1 + e^x). */
static @T ag_softplus_@f(@T x)
{
    return (x > 0 ? x : 0) + ag_log1p_@f(ag_exp_below_@f(-fabs@s(x)));
}

/* q with (a + b) e^(a^2/2) Phi(-a) = MILLS_0 + u q(u). */
static float ag_mills_tail_f32(float u)
{
    float q = -7.215856e-05f;
    q = ag_fma_f32(q, u, -7.979584e-05f);
    q = ag_fma_f32(q, u, 0.0006477437f);
    q = ag_fma_f32(q, u, -0.00013826428f);
    q = ag_fma_f32(q, u, -0.0048763175f);
    q = ag_fma_f32(q, u, 0.015815813f);
    q = ag_fma_f32(q, u, -0.024481475f);
    q = ag_fma_f32(q, u, 0.01067325f);
    q = ag_fma_f32(q, u, 0.04509444f);
    return ag_fma_f32(q, u, -0.1393029f);
}

/* Phi(-a) for a >= 0; *e is e^(-a^2/2); h + low is a^2/2. */
static struct ag_lifted_f32 ag_normal_tail_f32(float a, float h, float low, struct ag_lifted_f32 *e)
{
    struct ag_lifted_f32 y;
    const float d = a + @{MILLS_B_f32}, far = a + @{MILLS_C_f32}, r = 1.0f / (d * far), w = r * far;
    const float lack = ag_fma_f32(-w, @{MILLS_B_f32}, ag_fma_f32(-w, a, 1.0f)), u = (a - @{MILLS_C_f32}) * (r * d);
    const float q = ag_mills_tail_f32(u), g = ag_fma_f32(u, q, @{MILLS_0_f32});
    const float g_rest = ag_fma_f32(u, q, @{MILLS_0_f32} - g) + @{MILLS_0_LOW_f32};
    float p, p_rest;
    *e = ag_exp_lifted_f32(-h, low);
    p = g * e->head;
    p_rest = ag_fma_f32(g, e->rest, ag_fma_f32(g_rest, e->head, ag_fma_f32(g, e->head, -p)));
    y.head = p * w;
    y.rest = ag_fma_f32(w, ag_fma_f32(p, lack, p_rest), ag_fma_f32(p, w, -y.head));
    y.lifted = e->lifted;
    return y;
}

/* p with erf x = x + x p(x^2). */
static float ag_erf_tail_f32(float z)
{
    float p = 7.875875e-05f;
    p = ag_fma_f32(p, z, -0.00080168643f);
    p = ag_fma_f32(p, z, 0.0051890872f);
    p = ag_fma_f32(p, z, -0.026854211f);
    p = ag_fma_f32(p, z, 0.11283594f);
    p = ag_fma_f32(p, z, -0.37612626f);
    return ag_fma_f32(p, z, 0.12837917f);
}

/* The error function. */
static float ag_erf_f32(float x)
{
    struct ag_lifted_f32 e, t;
    const float small = ag_fma_f32(x, ag_erf_tail_f32(x * x), x);
    float a = fabsf(x), h, tail;
    a = a > @{ERF_HIGH_f32} ? @{ERF_HIGH_f32} : a;
    h = a * a;
    t = ag_normal_tail_f32(a * @{SQRT_2_f32}, h, ag_fma_f32(a, a, -h), &e);
    tail = t.head * t.lifted * @{LIFT_DOWN_f32};
    return a < 1.0f ? small : copysignf(1.0f - (tail + tail), x);
}

/* x Phi(x), and its derivative. */
static float ag_gelu_both_f32(float x, float *slope)
{
    struct ag_lifted_f32 e, tail;
    float a = fabsf(x), s, c, p, p_rest, two, y, less;
    a = a > @{PHI_HIGH_f32} ? @{PHI_HIGH_f32} : a;
    s = a * a;
    tail = ag_normal_tail_f32(a, 0.5f * s, 0.5f * ag_fma_f32(a, a, -s), &e);
    c = copysignf(a, x);
    p = c * tail.head;
    p_rest = ag_fma_f32(c, tail.rest, ag_fma_f32(c, tail.head, -p));
    two = tail.lifted * @{LIFT_DOWN_f32};
    y = (p + p_rest) * tail.lifted * @{LIFT_DOWN_f32};
    y = x < 0 ? copysignf(y, x) : x - y;
    less = tail.head * two;
    *slope = ag_fma_f32(c * @{INV_SQRT_2PI_f32}, e.head * two, x < 0 ? less : 1.0f - less);
    return x == -@{INFINITY_f32} ? @{NAN_f32} : y;
}

/* x Phi(x). */
static float ag_gelu_f32(float x)
{
    float slope;
    return ag_gelu_both_f32(x, &slope);
}

/* The derivative of gelu. */
static float ag_gelu_grad_f32(float x)
{
    float slope;
    ag_gelu_both_f32(x, &slope);
    return slope;
}

/* The form of gelu by tanh, and its derivative. */
static float ag_gelu_tanh_both_f32(float x, float *slope)
{
    const float high = @{GELU_TANH_HIGH_f32}, by = x < -high ? -high : x, c = by > high ? high : by;
    const float k = @{GELU_LINEAR_f32}, m = @{GELU_CUBIC_f32}, z = c * c, z_rest = ag_fma_f32(c, c, -z), p = m * z;
    const float p_rest = ag_fma_f32(m, z_rest, ag_fma_f32(@{GELU_CUBIC_LOW_f32}, z, ag_fma_f32(m, z, -p)));
    const float g = k + p, b = g - k;
    const float g_rest = (((k - (g - b)) + (p - b)) + @{GELU_LINEAR_LOW_f32}) + p_rest, u = c * g;
    const float u_rest = ag_fma_f32(c, g_rest, ag_fma_f32(c, g, -u));
    const struct ag_logistic_f32 w = ag_by_logistic_f32(by, u, u_rest);
    const float steep = ag_fma_f32(m + m + m, z, k);
    *slope = ag_fma_f32(c * steep * w.sigma, w.rest, w.sigma);
    return x == -@{INFINITY_f32} ? @{NAN_f32} : w.product;
}

/* The form of gelu by tanh. */
static float ag_gelu_tanh_f32(float x)
{
    float slope;
    return ag_gelu_tanh_both_f32(x, &slope);
}

/* The derivative of gelu_tanh. */
static float ag_gelu_tanh_grad_f32(float x)
{
    float slope;
    ag_gelu_tanh_both_f32(x, &slope);
    return slope;
}

/* p with atan x = x + x^3 p(x^2). */
static float ag_atan_tail_f32(float z)
{
    float p = -0.0023869972f;
    p = ag_fma_f32(p, z, 0.013507771f);
    p = ag_fma_f32(p, z, -0.03587154f);
    p = ag_fma_f32(p, z, 0.06250169f);
    p = ag_fma_f32(p, z, -0.0865688f);
    p = ag_fma_f32(p, z, 0.110337645f);
    p = ag_fma_f32(p, z, -0.14278568f);
    p = ag_fma_f32(p, z, 0.1999974f);
    return ag_fma_f32(p, z, -0.3333333f);
}

/* The arc tangent. */
static float ag_atan_f32(float x)
{
    const float a = fabsf(x), inverse = 1.0f / a;
    const int far = a > 1.0f;
    const float t = far ? inverse : a, z = t * t, tz = t * z, q = ag_atan_tail_f32(z), p = ag_fma_f32(tz, q, t);
    float d = @{PI_2_f32} - t;
    d = d + ag_fma_f32(-tz, q, ((@{PI_2_f32} - d) - t) + @{PI_2_LOW_f32});
    return copysignf(far ? d : p, x);
}

/* Sine and cosine of x - n pi/2, and n. */
static unsigned ag_turned_f32(float angle, double *sin, double *cos)
{
    const double x = (double)angle, t = ag_fma_f64(x, @{FRAC_2_PI}, @{ROUND_f64}), n = @{ROUND_f64} - t;
    const double r = ag_fma_f64(n, 6.123233995736766e-17, ag_fma_f64(n, @{FRAC_PI_2}, x)), z = r * r;
    double s = 2.755731608381636e-06, c = -2.7557317260008837e-07;
    s = ag_fma_f64(s, z, -0.00019841269836722418);
    s = ag_fma_f64(s, z, 0.008333333333330925);
    s = ag_fma_f64(s, z, -0.16666666666666666);
    c = ag_fma_f64(c, z, 2.480158729874307e-05);
    c = ag_fma_f64(c, z, -0.0013888888888887382);
    c = ag_fma_f64(c, z, 0.041666666666666664);
    c = ag_fma_f64(c, z, -0.5);
    *sin = ag_fma_f64(r * z, s, r);
    *cos = ag_fma_f64(z, c, 1.0);
    return (unsigned)(ag_bits_f64(t) & 3u);
}

/* The sine; the C library's beyond 2^19. */
static float ag_sin_f32(float x)
{
    double s, c, y;
    unsigned n;
    if (!(fabsf(x) <= 524288.0f))
        return sinf(x);
    n = ag_turned_f32(x, &s, &c);
    y = (n & 1u) == 0 ? s : c;
    return x == 0 ? x : (float)((n & 2u) == 0 ? y : -y);
}

/* The cosine; the C library's beyond 2^19. */
static float ag_cos_f32(float x)
{
    double s, c, y;
    unsigned n;
    if (!(fabsf(x) <= 524288.0f))
        return cosf(x);
    n = ag_turned_f32(x, &s, &c) + 1;
    y = (n & 1u) == 0 ? s : c;
    return (float)((n & 2u) == 0 ? y : -y);
}

/* The tangent; the C library's beyond 2^19. */
static float ag_tan_f32(float x)
{
    double s, c;
    unsigned n;
    if (!(fabsf(x) <= 524288.0f))
        return tanf(x);
    n = ag_turned_f32(x, &s, &c);
    return x == 0 ? x : (float)((n & 1u) != 0 ? -c / s : s / c);
}

/* x^y with C's special cases. */
static float ag_pow_f32(float x, float y)
{
    const double b = (double)x, e = (double)y, a = fabs(b), half = 0.5 * e;
    const int whole = trunc(e) == e, odd = whole && trunc(half) != half;
    double p = ag_exp_f64(e * ag_log_f64(a));
    p = odd ? copysign(p, b) : p;
    p = b < 0.0 && a < @{INFINITY_f64} && !whole ? @{NAN_f64} : p;
    p = a == 1.0 && fabs(e) == @{INFINITY_f64} ? 1.0 : p;
    p = b == 1.0 || e == 0.0 ? 1.0 : p;
    return (float)p;
}
