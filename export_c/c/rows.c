/* Softmax of rows of n elements. */
static void ag_softmax_@f(const @T *x, size_t outer, size_t n, @T *y)
{
    size_t o, i;
    for (o = 0; o < outer; o++, x += n, y += n) {
        const @T m = ag_row_max_@f(x, n, 0);
        @T s;
        for (i = 0; i < n; i++)
            y[i] = ag_exp_@f(x[i] - m);
        s = ag_row_sum_@f(y, n, 0);
        for (i = 0; i < n; i++)
            y[i] = y[i] / s;
    }
}

/* log softmax of rows of n elements. */
static void ag_log_softmax_@f(const @T *x, size_t outer, size_t n, @T *y)
{
    size_t o, i;
    for (o = 0; o < outer; o++, x += n, y += n) {
        const @T m = ag_row_max_@f(x, n, 0), l = ag_log_@f(ag_row_exp_@f(x, n, m));
        for (i = 0; i < n; i++)
            y[i] = (x[i] - m) - l;
    }
}

/* The gradient of softmax: y (g - sum y g). */
static void ag_softmax_backward_@f(const @T *y, const @T *g, size_t outer, size_t n, @T *dx)
{
    size_t o, i;
    for (o = 0; o < outer; o++, y += n, g += n, dx += n) {
        const @T d = ag_dot_@f(y, g, n, 0);
        for (i = 0; i < n; i++)
            dx[i] = y[i] * (g[i] - d);
    }
}

/* The gradient of log softmax: g - exp(y) sum g. */
static void ag_log_softmax_backward_@f(const @T *y, const @T *g, size_t outer, size_t n, @T *dx)
{
    size_t o, i;
    for (o = 0; o < outer; o++, y += n, g += n, dx += n) {
        const @T s = ag_row_sum_@f(g, n, 0);
        for (i = 0; i < n; i++)
            dx[i] = g[i] - ag_exp_@f(y[i]) * s;
    }
}

/* Whether each label is a class or the one that is ignored. */
static int ag_labels_fit_@i(const @I *labels, size_t rows, size_t classes, int64_t ignored)
{
    size_t r;
    for (r = 0; r < rows; r++)
        if ((int64_t)labels[r] != ignored && (uint64_t)(int64_t)labels[r] >= classes)
            return 0;
    return 1;
}

/* Loss and log-sum-exp of a row; label is -1 for a row without a loss. */
static @T ag_row_loss_@f(const @T *x, size_t n, int64_t label, @T hit, @T smooth, @T *lse)
{
    const @T m = ag_row_max_@f(x, n, 0), l = ag_log_@f(ag_row_exp_@f(x, n, m));
    @T loss;
    *lse = fabs@s(m) < @{INFINITY} ? m + l : m;
    if (label < 0)
        return 0;
    loss = l - (x[label] - m);
    if (smooth == 0)
        return loss;
    return hit * loss + smooth * (l - (ag_row_sum_@f(x, n, 0) / (@T)n - m));
}

/* The gradient of a row's loss: d (exp(x - lse) - target). */
static void ag_row_loss_grad_@f(const @T *x, size_t n, int64_t label, @T hit, @T uniform, @T lse, @T d, @T *dx)
{
    size_t i;
    for (i = 0; i < n; i++)
        dx[i] = label < 0 ? 0 : d * (ag_exp_@f(x[i] - lse) - uniform);
    if (label >= 0)
        dx[label] -= d * hit;
}

/* Cross entropy of rows with labels. Returns 0 if a label is no class. */
static int ag_cross_entropy_@f_@i(const @T *x, const @I *labels, size_t rows, size_t n, int64_t ignored, @T hit,
                                  @T smooth, @T *loss, @T *lse)
{
    size_t r;
    if (!ag_labels_fit_@i(labels, rows, n, ignored))
        return 0;
    for (r = 0; r < rows; r++)
        loss[r] = ag_row_loss_@f(x + r * n, n, labels[r] == ignored ? -1 : (int64_t)labels[r], hit, smooth, lse + r);
    return 1;
}

/* Its gradient in the logits. Returns 0 if a label is no class. */
static int ag_cross_entropy_backward_@f_@i(const @T *x, const @I *labels, const @T *lse, const @T *d, size_t rows,
                                           size_t n, int64_t ignored, @T hit, @T uniform, @T *dx)
{
    size_t r;
    if (!ag_labels_fit_@i(labels, rows, n, ignored))
        return 0;
    for (r = 0; r < rows; r++)
        ag_row_loss_grad_@f(x + r * n, n, labels[r] == ignored ? -1 : (int64_t)labels[r], hit, uniform, lse[r], d[r],
                            dx + r * n);
    return 1;
}

/* Both, with one weight for all rows. Returns 0 if a label is no class. */
static int ag_cross_entropy_both_@f_@i(const @T *x, const @I *labels, size_t rows, size_t n, int64_t ignored, @T hit,
                                       @T smooth, @T uniform, @T d, @T *loss, @T *lse, @T *dx)
{
    size_t r;
    if (!ag_labels_fit_@i(labels, rows, n, ignored))
        return 0;
    for (r = 0; r < rows; r++) {
        const int64_t label = labels[r] == ignored ? -1 : (int64_t)labels[r];
        loss[r] = ag_row_loss_@f(x + r * n, n, label, hit, smooth, lse + r);
        ag_row_loss_grad_@f(x + r * n, n, label, hit, uniform, lse[r], d, dx + r * n);
    }
    return 1;
}

/* Sums of x - c and of its square: 32 partial sums for each block of 1024, joined in a tree. */
static @T ag_moments_@f(const @T *x, size_t n, @T c, @T *squares)
{
    @T sums[32], powers[32], sum, more;
    size_t i, half;
    if (n > 1024) {
        half = ag_half(n, 1024);
        sum = ag_moments_@f(x, half, c, squares);
        sum = sum + ag_moments_@f(x + half, n - half, c, &more);
        *squares = *squares + more;
        return sum;
    }
    for (i = 0; i < 32; i++)
        sums[i] = powers[i] = 0;
    for (i = 0; i < n; i++) {
        const @T d = x[i] - c;
        sums[i % 32] += d;
        powers[i % 32] += d * d;
    }
    for (half = 16; half > 0; half /= 2)
        for (i = 0; i < half; i++) {
            sums[i] = sums[i] + sums[half + i];
            powers[i] = powers[i] + powers[half + i];
        }
    *squares = powers[0];
    return sums[0];
}

/* Layer norm of rows. */
static void ag_layer_norm_@f(const @T *x, const @T *gamma, const @T *beta, size_t rows, size_t n, @T eps, @T *y,
                             @T *means, @T *rstds)
{
    size_t r, i;
    for (r = 0; r < rows; r++, x += n, y += n) {
        const @T mean = ag_row_sum_@f(x, n, 0) / (@T)n;
        @T squares, rest = ag_moments_@f(x, n, mean, &squares) / (@T)n, rstd;
        rstd = @{ONE} / sqrt@s(ag_join_max_@f(squares / (@T)n - rest * rest, 0) + eps);
        means[r] = mean;
        rstds[r] = rstd;
        for (i = 0; i < n; i++)
            y[i] = ((x[i] - mean) - rest) * rstd * gamma[i] + beta[i];
    }
}

/* Sums of gamma dy, of gamma dy (x - mean) and of x - mean: 16 partial sums for each block of 1024. */
static void ag_norm_sums_@f(const @T *dy, const @T *x, const @T *gamma, size_t n, @T mean, @T all[3])
{
    @T lanes[3][16];
    size_t i, k, half;
    if (n > 1024) {
        @T other[3];
        half = ag_half(n, 1024);
        ag_norm_sums_@f(dy, x, gamma, half, mean, all);
        ag_norm_sums_@f(dy + half, x + half, gamma + half, n - half, mean, other);
        for (k = 0; k < 3; k++)
            all[k] = all[k] + other[k];
        return;
    }
    for (k = 0; k < 3; k++)
        for (i = 0; i < 16; i++)
            lanes[k][i] = 0;
    for (i = 0; i < n; i++) {
        const @T g = dy[i] * gamma[i], d = x[i] - mean;
        lanes[0][i % 16] += g;
        lanes[1][i % 16] += g * d;
        lanes[2][i % 16] += d;
    }
    for (k = 0; k < 3; k++) {
        for (half = 8; half > 0; half /= 2)
            for (i = 0; i < half; i++)
                lanes[k][i] = lanes[k][i] + lanes[k][half + i];
        all[k] = lanes[k][0];
    }
}

/* The gradients of layer norm: dx, and for each block of rows the sums of dy x^ and of dy. */
static void ag_layer_norm_backward_@f(const @T *dy, const @T *x, const @T *means, const @T *rstds, const @T *gamma,
                                      size_t rows, size_t n, size_t block, @T *dx, @T *dgamma, @T *dbeta)
{
    size_t r, i;
    for (r = 0; r < rows; r++, dy += n, x += n, dx += n) {
        @T *dg = dgamma + r / block * n, *db = dbeta + r / block * n, sums[3], rest, a, b;
        if (r % block == 0)
            for (i = 0; i < n; i++)
                dg[i] = db[i] = 0;
        ag_norm_sums_@f(dy, x, gamma, n, means[r], sums);
        rest = sums[2] / (@T)n;
        a = sums[0] / (@T)n;
        b = (sums[1] - rest * sums[0]) * rstds[r] / (@T)n;
        for (i = 0; i < n; i++) {
            const @T hat = ((x[i] - means[r]) - rest) * rstds[r];
            dg[i] += dy[i] * hat;
            db[i] += dy[i];
            dx[i] = rstds[r] * (dy[i] * gamma[i] - a - hat * b);
        }
    }
}

/* RMS norm of rows. */
static void ag_rms_norm_@f(const @T *x, const @T *gamma, const @T *beta, size_t rows, size_t n, @T eps, @T *y,
                           @T *rstds)
{
    size_t r, i;
    for (r = 0; r < rows; r++, x += n, y += n) {
        const @T rstd = @{ONE} / sqrt@s(ag_row_squares_@f(x, n, 0) / (@T)n + eps);
        rstds[r] = rstd;
        for (i = 0; i < n; i++)
            y[i] = x[i] * rstd * gamma[i] + beta[i];
    }
}

/* The gradients of RMS norm: dx, and for each block of rows the sums of dy x^ and of dy. */
static void ag_rms_norm_backward_@f(const @T *dy, const @T *x, const @T *rstds, const @T *gamma, size_t rows, size_t n,
                                    size_t block, @T *dx, @T *dgamma, @T *dbeta)
{
    size_t r, i;
    for (r = 0; r < rows; r++, dy += n, x += n, dx += n) {
        @T *dg = dgamma + r / block * n, *db = dbeta + r / block * n, dot;
        if (r % block == 0)
            for (i = 0; i < n; i++)
                dg[i] = db[i] = 0;
        for (i = 0; i < n; i++) {
            dg[i] += dy[i] * (x[i] * rstds[r]);
            db[i] += dy[i];
            dx[i] = dy[i] * gamma[i];
        }
        dot = ag_dot_@f(dx, x, n, 0) * rstds[r] / (@T)n;
        for (i = 0; i < n; i++)
            dx[i] = rstds[r] * (dx[i] - x[i] * rstds[r] * dot);
    }
}

/* (x + bias) + res; bias may be 0 for none. */
static void ag_residual_@f(const @T *x, const @T *res, const @T *bias, size_t rows, size_t n, @T *sum)
{
    size_t r, i;
    for (r = 0; r < rows; r++)
        for (i = 0; i < n; i++)
            sum[r * n + i] = (bias ? x[r * n + i] + bias[i] : x[r * n + i]) + res[r * n + i];
}
