/* Copies bytes. */
static void ag_copy(const unsigned char *x, size_t n, unsigned char *y)
{
    size_t i;
    if (x != y)
        for (i = 0; i < n; i++)
            y[i] = x[i];
}

/* Copies n elements. */
static void ag_words_@w(const @W *x, size_t n, @W *y)
{
    size_t i;
    for (i = 0; i < n; i++)
        y[i] = x[i];
}

/* n elements of one value. */
static void ag_fill_@w(@W value, size_t n, @W *y)
{
    size_t i;
    for (i = 0; i < n; i++)
        y[i] = value;
}

/* Rows of a table by their indices. Returns 0 if an index is out of range. */
static int ag_gather_@w_@i(const @W *table, const @I *index, size_t outer, size_t n, size_t k, size_t inner, @W *y)
{
    size_t o, j, i;
    for (j = 0; j < k; j++)
        if ((uint64_t)(int64_t)index[j] >= n)
            return 0;
    for (o = 0; o < outer; o++)
        for (j = 0; j < k; j++)
            for (i = 0; i < inner; i++)
                y[(o * k + j) * inner + i] = table[(o * n + (size_t)index[j]) * inner + i];
    return 1;
}

/* Elements by their indices along an axis. Returns 0 if an index is out of range. */
static int ag_take_@w_@i(const @W *x, const @I *index, size_t outer, size_t n, size_t k, size_t inner, @W *y)
{
    size_t o, j, i;
    for (i = 0; i < outer * k * inner; i++)
        if ((uint64_t)(int64_t)index[i] >= n)
            return 0;
    for (o = 0; o < outer; o++)
        for (j = 0; j < k; j++)
            for (i = 0; i < inner; i++) {
                const size_t at = (o * k + j) * inner + i;
                y[at] = x[(o * n + (size_t)index[at]) * inner + i];
            }
    return 1;
}

/* Adds rows to zeros, by their indices. Returns 0 if an index is out of range. */
static int ag_scatter_add_@f_@i(const @T *x, const @I *index, size_t outer, size_t n, size_t k, size_t inner, @T *y)
{
    size_t o, j, i;
    for (j = 0; j < k; j++)
        if ((uint64_t)(int64_t)index[j] >= n)
            return 0;
    for (i = 0; i < outer * n * inner; i++)
        y[i] = 0;
    for (o = 0; o < outer; o++)
        for (j = 0; j < k; j++)
            for (i = 0; i < inner; i++) {
                @T *to = y + (o * n + (size_t)index[j]) * inner + i;
                *to = ag_join_sum_@f(*to, x[(o * k + j) * inner + i]);
            }
    return 1;
}

/* Adds elements to zeros, by their indices along an axis. Returns 0 if an index is out of range. */
static int ag_scatter_along_@f_@i(const @T *x, const @I *index, size_t outer, size_t n, size_t k, size_t inner, @T *y)
{
    size_t o, j, i;
    for (i = 0; i < outer * k * inner; i++)
        if ((uint64_t)(int64_t)index[i] >= n)
            return 0;
    for (i = 0; i < outer * n * inner; i++)
        y[i] = 0;
    for (o = 0; o < outer; o++)
        for (j = 0; j < k; j++)
            for (i = 0; i < inner; i++) {
                const size_t at = (o * k + j) * inner + i;
                @T *to = y + (o * n + (size_t)index[at]) * inner + i;
                *to = ag_join_sum_@f(*to, x[at]);
            }
    return 1;
}
