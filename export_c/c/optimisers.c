/* A subnormal number as 0. */
static @T ag_flush_@f(@T x)
{
    return fabs@s(x) < @{MIN_POSITIVE} ? 0 : x;
}

/* The gradient with its penalty. */
static @T ag_decayed_@f(@T g, @T p, @T decay)
{
    return decay == 0 ? g : g + p * decay;
}

/* A step of SGD. */
static void ag_sgd_@f(const @T *p, const @T *g, size_t n, @T lr, @T scale, @T decay, @T *to)
{
    size_t i;
    for (i = 0; i < n; i++)
        to[i] = p[i] - lr * ag_decayed_@f(g[i] * scale, p[i], decay);
}

/* A step of SGD with momentum, of one element. */
static void ag_momentum_one_@f(@T p, @T g, @T buf, int first, int nesterov, @T lr, @T scale, @T momentum, @T keep,
                               @T decay, @T *to, @T *buf_to)
{
    g = ag_decayed_@f(g * scale, p, decay);
    buf = ag_flush_@f(first ? g : buf * momentum + g * keep);
    *buf_to = buf;
    *to = p - lr * (nesterov ? g + buf * momentum : buf);
}

/* A step of SGD with momentum. */
static void ag_momentum_@f(const @T *p, const @T *g, const @T *buf, size_t n, int first, int nesterov, @T lr, @T scale,
                           @T momentum, @T keep, @T decay, @T *to, @T *buf_to)
{
    size_t i;
    for (i = 0; i < n; i++)
        ag_momentum_one_@f(p[i], g[i], buf[i], first, nesterov, lr, scale, momentum, keep, decay, to + i, buf_to + i);
}

/* The numbers of a step of Adam. */
struct ag_adam_@f {
    @T scale, decay, shrink, beta1, one_less_beta1, beta2, one_less_beta2, minus_step, eps;
    int near_m;
};

/* base^t by squaring, with twice the digits of a double on the way. */
static double ag_power_f64(double base, int64_t t)
{
    double high = 1.0, low = 0.0, square = base, square_low = 0.0;
    for (; t > 0; t /= 2) {
        double rest, p;
        if (t % 2 != 0) {
            p = ag_product_f64(high, square, &rest);
            rest += high * square_low + low * square;
            high = ag_sum_f64(p, rest, &low);
        }
        p = ag_product_f64(square, square, &rest);
        rest += 2.0 * (square * square_low);
        square = ag_sum_f64(p, rest, &square_low);
    }
    return high;
}

/* The numbers of step t of Adam. */
static struct ag_adam_@f ag_adam_step_@f(double beta1, double beta2, double eps, double decay, int decoupled, @T lr,
                                         int64_t t, @T scale)
{
    struct ag_adam_@f s;
    const double correction1 = 1.0 - ag_power_f64(beta1, t), correction2 = 1.0 - ag_power_f64(beta2, t);
    s.scale = scale;
    s.decay = (@T)(decoupled ? 0.0 : decay);
    s.shrink = (@T)(decoupled ? 1.0 - (double)lr * decay : 1.0);
    s.beta1 = (@T)beta1;
    s.one_less_beta1 = (@T)(1.0 - beta1);
    s.beta2 = (@T)beta2;
    s.one_less_beta2 = (@T)(1.0 - beta2);
    s.minus_step = (@T)-((double)lr / correction1 * sqrt(correction2));
    s.eps = (@T)(eps * sqrt(correction2));
    s.near_m = (double)s.one_less_beta1 < 0.5;
    return s;
}

/* A step of Adam, of one element. */
static void ag_adam_one_@f(const struct ag_adam_@f *s, @T p, @T g, @T m, @T v, @T *p_to, @T *m_to, @T *v_to)
{
    @T to_g;
    g = ag_decayed_@f(g * s->scale, p, s->decay);
    to_g = g - m;
    m = ag_flush_@f(s->near_m ? m + to_g * s->one_less_beta1 : g - to_g * s->beta1);
    v = ag_flush_@f(v * s->beta2 + s->one_less_beta2 * g * g);
    *m_to = m;
    *v_to = v;
    *p_to = p * s->shrink + s->minus_step * m / (sqrt@s(v) + s->eps);
}

/* A step of Adam. */
static void ag_adam_update_@f(const struct ag_adam_@f *s, const @T *p, const @T *g, const @T *m, const @T *v, size_t n,
                              @T *p_to, @T *m_to, @T *v_to)
{
    size_t i;
    for (i = 0; i < n; i++)
        ag_adam_one_@f(s, p[i], g[i], m[i], v[i], p_to + i, m_to + i, v_to + i);
}

/* A step of SGD with momentum by a gradient that is a product. */
static void ag_product_momentum_@f(size_t m, size_t n, size_t k, const @T *a, size_t a_row, size_t a_col, const @T *b,
                                   size_t b_row, size_t b_col, const @T *p, const @T *buf, int first, int nesterov,
                                   @T lr, @T scale, @T momentum, @T keep, @T decay, @T *to, @T *buf_to)
{
    size_t i, j;
    for (i = 0; i < m; i++)
        for (j = 0; j < n; j++) {
            const @T g = ag_product_element_@f(k, a + i * a_row, a_col, b + j * b_col, b_row);
            const size_t at = i * n + j;
            ag_momentum_one_@f(p[at], g, buf[at], first, nesterov, lr, scale, momentum, keep, decay, to + at,
                               buf_to + at);
        }
}

/* A step of Adam by a gradient that is a product. */
static void ag_product_adam_@f(size_t rows, size_t n, size_t k, const @T *a, size_t a_row, size_t a_col, const @T *b,
                               size_t b_row, size_t b_col, const struct ag_adam_@f *s, const @T *p, const @T *m,
                               const @T *v, @T *p_to, @T *m_to, @T *v_to)
{
    size_t i, j;
    for (i = 0; i < rows; i++)
        for (j = 0; j < n; j++) {
            const @T g = ag_product_element_@f(k, a + i * a_row, a_col, b + j * b_col, b_row);
            const size_t at = i * n + j;
            ag_adam_one_@f(s, p[at], g, m[at], v[at], p_to + at, m_to + at, v_to + at);
        }
}
