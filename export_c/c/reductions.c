/* What a sum adds. */
static @T ag_map_sum_@f(@T x, @T c)
{
    (void)c;
    return x;
}

/* What a product multiplies. */
static @T ag_map_prod_@f(@T x, @T c)
{
    (void)c;
    return x;
}

/* What a maximum compares. */
static @T ag_map_max_@f(@T x, @T c)
{
    (void)c;
    return x;
}

/* What a minimum compares. */
static @T ag_map_min_@f(@T x, @T c)
{
    (void)c;
    return x;
}

/* What a sum of squares adds. */
static @T ag_map_squares_@f(@T x, @T c)
{
    (void)c;
    return x * x;
}

/* What a sum of deviations from c adds. */
static @T ag_map_deviations_@f(@T x, @T c)
{
    return x - c;
}

/* What a sum of squared deviations from c adds. */
static @T ag_map_variance_@f(@T x, @T c)
{
    return (x - c) * (x - c);
}

/* What a sum of exponentials adds. */
static @T ag_map_exp_@f(@T x, @T c)
{
    return ag_exp_@f(x - c);
}

/* The sum; integers wrap. */
static @T ag_join_sum_@f(@T a, @T b)
{
    return @{ADD};
}

/* The product; integers wrap. */
static @T ag_join_prod_@f(@T a, @T b)
{
    return @{MULTIPLY};
}

/* The greater one; NaN if either is; the first of two equals. */
static @T ag_join_max_@f(@T a, @T b)
{
    return b > a || ag_nan_@f(b) ? b : a;
}

/* The lesser one; NaN if either is; the first of two equals. */
static @T ag_join_min_@f(@T a, @T b)
{
    return b < a || ag_nan_@f(b) ? b : a;
}

/* Where a row of n > block elements is halved: at a power of two of blocks. */
static size_t ag_half(size_t n, size_t block)
{
    const size_t blocks = (n + block - 1) / block;
    size_t half = 1;
    while (2 * half < blocks)
        half *= 2;
    return half * block;
}

/* A row of n elements: 32 partial results for each block of 1024, joined in a tree. */
static @T ag_row_@r_@f(const @T *x, size_t n, @T c)
{
    @T lanes[32], all = @{START_@r};
    size_t i, half;
    if (n > 1024) {
        half = ag_half(n, 1024);
        return ag_join_@j_@f(ag_row_@r_@f(x, half, c), ag_row_@r_@f(x + half, n - half, c));
    }
    if (n < 32) {
        for (i = 0; i < n; i++)
            all = ag_join_@j_@f(all, ag_map_@r_@f(x[i], c));
        return all;
    }
    for (i = 0; i < 32; i++)
        lanes[i] = all;
    for (i = 0; i < n; i++)
        lanes[i % 32] = ag_join_@j_@f(lanes[i % 32], ag_map_@r_@f(x[i], c));
    for (half = 16; half > 0; half /= 2)
        for (i = 0; i < half; i++)
            lanes[i] = ag_join_@j_@f(lanes[i], lanes[half + i]);
    return lanes[0];
}

/* A column of n elements, one in each row of 2 to 64. */
static @T ag_narrow_@r_@f(const @T *x, size_t n, size_t columns, @T c)
{
    const size_t together = 64 / columns, most = 128 * together;
    @T all = @{START_@r}, part;
    size_t i, j;
    if (n > most) {
        j = ag_half(n, most);
        return ag_join_@j_@f(ag_narrow_@r_@f(x, j, columns, c),
                             ag_narrow_@r_@f(x + j * columns, n - j, columns, c));
    }
    if (n * columns < 256) {
        for (i = 0; i < n; i++)
            all = ag_join_@j_@f(all, ag_map_@r_@f(x[i * columns], c));
        return all;
    }
    for (j = 0; j < together; j++) {
        part = @{START_@r};
        for (i = j; i < n; i += together)
            part = ag_join_@j_@f(part, ag_map_@r_@f(x[i * columns], c));
        all = ag_join_@j_@f(all, part);
    }
    return all;
}

/* A column of n elements, `columns` apart: blocks of 32 rows, four of them at a time. */
static @T ag_column_@r_@f(const @T *x, size_t n, size_t columns, @T c)
{
    @T all = @{START_@r}, four[4];
    size_t each = 1, at, i;
    if (n > 32)
        for (each = 32; each * 32 < n;)
            each *= 32;
    for (at = 0; at < n; at += 4 * each) {
        for (i = 0; i < 4 && at + i * each < n; i++) {
            const size_t from = at + i * each, rows = n - from < each ? n - from : each;
            four[i] = each == 1 ? ag_map_@r_@f(x[from * columns], c)
                                : ag_column_@r_@f(x + from * columns, rows, columns, c);
        }
        if (i == 4) {
            four[0] = ag_join_@j_@f(four[0], four[1]);
            four[2] = ag_join_@j_@f(four[2], four[3]);
            all = ag_join_@j_@f(all, ag_join_@j_@f(four[0], four[2]));
        } else {
            size_t k;
            for (k = 0; k < i; k++)
                all = ag_join_@j_@f(all, four[k]);
        }
    }
    return all;
}

/* Each row of n elements to one. */
static void ag_rows_@r_@f(const @T *x, size_t outer, size_t n, @T *y)
{
    size_t o;
    for (o = 0; o < outer; o++)
        y[o] = ag_row_@r_@f(x + o * n, n, 0);
}

/* Each column of n elements to one, for 2 to 64 columns. */
static void ag_narrows_@r_@f(const @T *x, size_t outer, size_t n, size_t columns, @T *y)
{
    size_t o, i;
    for (o = 0; o < outer; o++)
        for (i = 0; i < columns; i++)
            y[o * columns + i] = ag_narrow_@r_@f(x + o * n * columns + i, n, columns, 0);
}

/* Each column of n elements to one, for more than 64 columns. */
static void ag_columns_@r_@f(const @T *x, size_t outer, size_t n, size_t columns, @T *y)
{
    size_t o, i;
    for (o = 0; o < outer; o++)
        for (i = 0; i < columns; i++)
            y[o * columns + i] = ag_column_@r_@f(x + o * n * columns + i, n, columns, 0);
}

/* Sum of x * (y - c): 32 partial sums for each block of 1024, joined in a tree. */
static @T ag_dot_@f(const @T *x, const @T *y, size_t n, @T c)
{
    @T lanes[32];
    size_t i, half;
    if (n > 1024) {
        half = ag_half(n, 1024);
        return ag_dot_@f(x, y, half, c) + ag_dot_@f(x + half, y + half, n - half, c);
    }
    for (i = 0; i < 32; i++)
        lanes[i] = 0;
    for (i = 0; i < n; i++)
        lanes[i % 32] += x[i] * (y[i] - c);
    for (half = 16; half > 0; half /= 2)
        for (i = 0; i < half; i++)
            lanes[i] = lanes[i] + lanes[half + i];
    return lanes[0];
}

/* Divides each of n means by what it counts. */
static void ag_divide_@f(@T *y, size_t n, @T by)
{
    size_t i;
    for (i = 0; i < n; i++)
        y[i] = y[i] / by;
}

/* log of the sum of exponentials of each row. */
static void ag_rows_logsumexp_@f(const @T *x, size_t outer, size_t n, @T *y)
{
    size_t o;
    for (o = 0; o < outer; o++) {
        const @T m = ag_row_max_@f(x + o * n, n, 0), s = ag_row_exp_@f(x + o * n, n, m);
        y[o] = fabs@s(m) < @{INFINITY} ? m + ag_log_@f(s) : m;
    }
}

/* Whether a sum of squares is their sum: it left no range, or is NaN. */
static int ag_squares_fit_@f(@T sum, double enough)
{
    return ag_nan_@f(sum) || ((double)sum >= enough && (double)sum < @{INFINITY_f64});
}

/* The greatest magnitude of n elements, or most. */
static double ag_greatest_@f(const @T *x, size_t n, double most)
{
    size_t i;
    for (i = 0; i < n; i++)
        most = (double)fabs@s(x[i]) > most ? (double)fabs@s(x[i]) : most;
    return most;
}

/* sum and the squares of n elements over most. */
static double ag_scaled_squares_@f(const @T *x, size_t n, double most, double sum)
{
    size_t i;
    for (i = 0; i < n; i++)
        sum += ((double)x[i] / most) * ((double)x[i] / most);
    return sum;
}

/* The root of a sum of squares over most. */
static double ag_scaled_root_@f(double most, double sum)
{
    return most == 0.0 || most == @{INFINITY_f64} ? most : most * sqrt(sum);
}

/* Differences a - b to d, the sum of their squares, and the gradient w d + w d over d. */
static @T ag_squared_error_@f(const @T *a, const @T *b, size_t n, @T weight, @T *d)
{
    @T sum;
    size_t i;
    for (i = 0; i < n; i++)
        d[i] = a[i] - b[i];
    sum = ag_row_squares_@f(d, n, 0);
    for (i = 0; i < n; i++)
        d[i] = weight * d[i] + weight * d[i];
    return sum;
}

/* The position of the greatest element, or of the first NaN, in each column. */
static void ag_arg_max_@f_@i(const @T *x, size_t outer, size_t n, size_t inner, @I *y)
{
    size_t o, i, k;
    for (o = 0; o < outer; o++)
        for (i = 0; i < inner; i++) {
            const @T *column = x + o * n * inner + i;
            size_t best = 0;
            for (k = 1; k < n; k++)
                if (!ag_nan_@f(column[best * inner])
                    && (column[k * inner] > column[best * inner] || ag_nan_@f(column[k * inner])))
                    best = k;
            y[o * inner + i] = (@I)best;
        }
}

/* The position of the least element, or of the first NaN, in each column. */
static void ag_arg_min_@f_@i(const @T *x, size_t outer, size_t n, size_t inner, @I *y)
{
    size_t o, i, k;
    for (o = 0; o < outer; o++)
        for (i = 0; i < inner; i++) {
            const @T *column = x + o * n * inner + i;
            size_t best = 0;
            for (k = 1; k < n; k++)
                if (!ag_nan_@f(column[best * inner])
                    && (column[k * inner] < column[best * inner] || ag_nan_@f(column[k * inner])))
                    best = k;
            y[o * inner + i] = (@I)best;
        }
}
