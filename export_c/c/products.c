/* C = A B, or C += A B: each element is one chain of products, each rounded with its sum. */
static void ag_product_chains_@f(size_t m, size_t n, size_t k, const @T *a, size_t a_row, size_t a_col, const @T *b,
                                 size_t b_row, size_t b_col, @T *c, int add)
{
    size_t i, j, p;
    for (i = 0; i < m; i++)
        for (j = 0; j < n; j++) {
            @T sum = add ? c[i * n + j] : 0;
            for (p = 0; p < k; p++)
                sum = ag_fma_@f(a[i * a_row + p * a_col], b[p * b_row + j * b_col], sum);
            c[i * n + j] = sum;
        }
}

/* C = A B, or C += A B: each element is a dot product of @{LANES} partial sums. */
static void ag_product_lanes_@f(size_t m, size_t n, size_t k, const @T *a, size_t a_row, size_t a_col, const @T *b,
                                size_t b_row, size_t b_col, @T *c, int add)
{
    size_t i, j, p, half;
    for (i = 0; i < m; i++)
        for (j = 0; j < n; j++) {
            @T sums[@{LANES}];
            for (p = 0; p < @{LANES}; p++)
                sums[p] = 0;
            for (p = 0; p < k; p++)
                sums[p % @{LANES}] =
                    ag_fma_@f(a[i * a_row + p * a_col], b[p * b_row + j * b_col], sums[p % @{LANES}]);
            for (half = @{LANES} / 2; half > 0; half /= 2)
                for (p = 0; p < half; p++)
                    sums[p] = sums[p] + sums[half + p];
            c[i * n + j] = add ? c[i * n + j] + sums[0] : sums[0];
        }
}

/* Adds a bias to each of m rows. */
static void ag_bias_@f(@T *c, size_t m, size_t n, const @T *bias)
{
    size_t i, j;
    for (i = 0; i < m; i++)
        for (j = 0; j < n; j++)
            c[i * n + j] += bias[j];
}

/* A step of plain SGD by a gradient that is a product: p - lr (scale g + decay p). */
static void ag_product_sgd_@f(size_t m, size_t n, size_t k, const @T *a, size_t a_row, size_t a_col, const @T *b,
                              size_t b_row, size_t b_col, const @T *old, @T *p, @T lr, @T scale,
                              @T decay)
{
    size_t i, j, q;
    for (i = 0; i < m; i++)
        for (j = 0; j < n; j++) {
            const @T w = old[i * n + j];
            @T g = 0;
            for (q = 0; q < k; q++)
                g = ag_fma_@f(a[i * a_row + q * a_col], b[q * b_row + j * b_col], g);
            g = g * scale;
            if (decay != 0)
                g = g + w * decay;
            p[i * n + j] = w - lr * g;
        }
}

/* One element of a product. */
static @T ag_product_element_@f(size_t k, const @T *a, size_t a_col, const @T *b, size_t b_row)
{
    @T sum = 0;
    size_t p;
    for (p = 0; p < k; p++)
        sum = ag_fma_@f(a[p * a_col], b[p * b_row], sum);
    return sum;
}
