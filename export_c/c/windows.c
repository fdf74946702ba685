/* The element of an axis under a tap of a window, or -1 for padding. w has for each of two axes: size, taps, stride,
   padding before, dilation, windows. */
static ptrdiff_t ag_under(const size_t *w, size_t at, size_t tap)
{
    const size_t place = at * w[2] + tap * w[4];
    return place < w[3] || place - w[3] >= w[0] ? (ptrdiff_t)-1 : (ptrdiff_t)(place - w[3]);
}

/* A 2-D convolution. Each element is one chain over channels, rows and columns of the window. */
static void ag_conv2d_@f(const @T *x, const @T *weight, @T *y, size_t n, size_t c_in, size_t c_out, size_t groups,
                         const size_t *w)
{
    const size_t each = c_in / groups, plane = w[0] * w[6], taps = w[1] * w[7];
    size_t image, to, oh, ow, from, i, j;
    for (image = 0; image < n; image++)
        for (to = 0; to < c_out; to++)
            for (oh = 0; oh < w[5]; oh++)
                for (ow = 0; ow < w[11]; ow++) {
                    const @T *at = x + (image * c_in + to / (c_out / groups) * each) * plane;
                    const @T *by = weight + to * each * taps;
                    @T sum = 0;
                    for (from = 0; from < each; from++, at += plane, by += taps)
                        for (i = 0; i < w[1]; i++) {
                            const ptrdiff_t row = ag_under(w, oh, i);
                            if (row < 0)
                                continue;
                            for (j = 0; j < w[7]; j++) {
                                const ptrdiff_t col = ag_under(w + 6, ow, j);
                                if (col >= 0)
                                    sum = ag_fma_@f(by[i * w[7] + j], at[(size_t)row * w[6] + (size_t)col], sum);
                            }
                        }
                    *y++ = sum;
                }
}

/* Adds a bias to each channel of n images. */
static void ag_channel_bias_@f(@T *y, size_t n, size_t channels, size_t area, const @T *bias)
{
    size_t image, c, i;
    for (image = 0; image < n; image++)
        for (c = 0; c < channels; c++)
            for (i = 0; i < area; i++)
                *y++ += bias[c];
}

/* The largest element of each window; its position in the plane to at, unless that is 0. */
static void ag_max_pool_@f(const @T *x, @T *y, int32_t *at, size_t planes, const size_t *w)
{
    size_t p, oh, ow, i, j;
    for (p = 0; p < planes; p++, x += w[0] * w[6])
        for (oh = 0; oh < w[5]; oh++)
            for (ow = 0; ow < w[11]; ow++) {
                @T best = -@{INFINITY};
                int32_t place = -1;
                for (i = 0; i < w[1]; i++)
                    for (j = 0; j < w[7]; j++) {
                        const ptrdiff_t row = ag_under(w, oh, i), col = ag_under(w + 6, ow, j);
                        @T v;
                        if (row < 0 || col < 0)
                            continue;
                        v = x[(size_t)row * w[6] + (size_t)col];
                        if (v > best || (ag_nan_@f(v) && !ag_nan_@f(best)) || place < 0) {
                            best = v;
                            place = (int32_t)((size_t)row * w[6] + (size_t)col);
                        }
                    }
                *y++ = best;
                if (at)
                    *at++ = place;
            }
}

/* Adds each gradient at its position. Returns 0 if a position is outside of the plane. */
static int ag_max_pool_backward_@f(const @T *dy, const int32_t *at, @T *dx, size_t planes, size_t area, size_t plane)
{
    size_t p, i;
    for (i = 0; i < planes * area; i++)
        if (at[i] != -1 && (size_t)(uint32_t)at[i] >= plane)
            return 0;
    for (i = 0; i < planes * plane; i++)
        dx[i] = 0;
    for (p = 0; p < planes; p++)
        for (i = 0; i < area; i++)
            if (at[p * area + i] != -1)
                dx[p * plane + (size_t)at[p * area + i]] += dy[p * area + i];
    return 1;
}

/* The elements of a window inside an axis. */
static size_t ag_inside(const size_t *w, size_t at)
{
    size_t tap, count = 0;
    for (tap = 0; tap < w[1]; tap++)
        count += ag_under(w, at, tap) >= 0;
    return count;
}

/* The sum of each window, divided by what `by` says: 0 its elements inside, 1 all of its taps, 2 nothing. */
static void ag_avg_pool_@f(const @T *x, @T *y, size_t planes, int by, const size_t *w)
{
    size_t p, oh, ow, i, j;
    for (p = 0; p < planes; p++, x += w[0] * w[6])
        for (oh = 0; oh < w[5]; oh++)
            for (ow = 0; ow < w[11]; ow++) {
                size_t count = by == 0 ? ag_inside(w, oh) * ag_inside(w + 6, ow) : w[1] * w[7];
                @T sum = 0;
                for (i = 0; i < w[1]; i++)
                    for (j = 0; j < w[7]; j++) {
                        const ptrdiff_t row = ag_under(w, oh, i), col = ag_under(w + 6, ow, j);
                        if (row >= 0 && col >= 0)
                            sum += x[(size_t)row * w[6] + (size_t)col];
                    }
                count = count > 0 ? count : 1;
                *y++ = by == 2 ? sum : sum / (@T)count;
            }
}

/* The same for wide windows that overlap little: each row of a window has eight partial sums. */
static void ag_wide_avg_pool_@f(const @T *x, @T *y, size_t planes, int by, const size_t *w)
{
    size_t p, oh, ow, i, j, k;
    for (p = 0; p < planes; p++, x += w[0] * w[6])
        for (oh = 0; oh < w[5]; oh++)
            for (ow = 0; ow < w[11]; ow++) {
                const size_t columns = ag_inside(w + 6, ow);
                size_t count = by == 0 ? ag_inside(w, oh) * columns : by == 1 ? w[1] * w[7] : 1, first = 0;
                @T total = 0;
                while (first < w[7] && ag_under(w + 6, ow, first) < 0)
                    first++;
                for (i = 0; i < w[1]; i++) {
                    const ptrdiff_t row = ag_under(w, oh, i);
                    const @T *run;
                    @T s[8], sum;
                    if (row < 0)
                        continue;
                    run = x + (size_t)row * w[6] + (columns > 0 ? (size_t)ag_under(w + 6, ow, first) : 0);
                    for (k = 0; k < 8; k++)
                        s[k] = 0;
                    for (j = 0; j + 8 <= columns; j += 8)
                        for (k = 0; k < 8; k++)
                            s[k] += run[j + k];
                    sum = ((s[0] + s[4]) + (s[2] + s[6])) + ((s[1] + s[5]) + (s[3] + s[7]));
                    for (; j < columns; j++)
                        sum += run[j];
                    total += sum;
                }
                count = count > 0 ? count : 1;
                *y++ = total / (@T)count;
            }
}

/* The average, or the sum, of each tile of 2 x 2 elements. */
static void ag_tile_avg_pool_@f(const @T *x, @T *y, size_t planes, int by, const size_t *w)
{
    const @T quarter = by == 2 ? (@T)1 : (@T)0.25;
    size_t p, oh, ow;
    for (p = 0; p < planes; p++, x += w[0] * w[6])
        for (oh = 0; oh < w[5]; oh++)
            for (ow = 0; ow < w[11]; ow++) {
                const @T *up = x + 2 * oh * w[6] + 2 * ow, *down = up + w[6];
                *y++ = (up[0] + up[1] + down[0] + down[1]) * quarter;
            }
}
