/* Products of matrices. A weight (O, I) is packed in blocks of 16 outputs, [O / 16][I][16], filled up with zeros, so
   that sums of neighbouring outputs run side by side in vector registers, each in the order of its inputs. */

/*: lanes */
#define WEFT_BLOCK 16 /* outputs of a block */
#if defined(__GNUC__)
typedef float weft_f4 __attribute__((vector_size(16), aligned(4), may_alias));
typedef float weft_f8 __attribute__((vector_size(32), aligned(4), may_alias));
typedef float weft_f16 __attribute__((vector_size(64), aligned(4), may_alias));
#endif

/*: linear_store */
static void linear_store(float *out, const float *sums, const float *bias, long count)
{
    for (long j = 0; j < count; j++) out[j] = sums[j] + (bias ? bias[j] : 0.0f);
}

/*: linear_f4 needs lanes linear_store */
#if defined(__GNUC__)
/* Four vectors of outputs of one row, and of two rows: vector k begins at weight + at[k]. */
static void linear_one_f4(float *out, const float *x, const float *weight, const long *at, long inputs)
{
    const float *p = weight + at[0], *q = weight + at[1], *r = weight + at[2], *s = weight + at[3];
    weft_f4 a = {0}, b = {0}, c = {0}, d = {0};
    for (long i = 0; i < inputs; i++) {
        const weft_f4 value = x[i] - (weft_f4){0};
        a += value * *(const weft_f4 *)(p + i * WEFT_BLOCK);
        b += value * *(const weft_f4 *)(q + i * WEFT_BLOCK);
        c += value * *(const weft_f4 *)(r + i * WEFT_BLOCK);
        d += value * *(const weft_f4 *)(s + i * WEFT_BLOCK);
    }
    weft_f4 *const to = (weft_f4 *)out;
    to[0] = a, to[1] = b, to[2] = c, to[3] = d;
}

static void linear_two_f4(float *out, float *next, const float *x, const float *y, const float *weight, const long *at,
                          long inputs)
{
    const float *p = weight + at[0], *q = weight + at[1], *r = weight + at[2], *s = weight + at[3];
    weft_f4 a = {0}, b = {0}, c = {0}, d = {0}, e = {0}, f = {0}, g = {0}, h = {0};
    for (long i = 0; i < inputs; i++) {
        const weft_f4 one = x[i] - (weft_f4){0}, two = y[i] - (weft_f4){0};
        weft_f4 w = *(const weft_f4 *)(p + i * WEFT_BLOCK);
        a += one * w, e += two * w;
        w = *(const weft_f4 *)(q + i * WEFT_BLOCK);
        b += one * w, f += two * w;
        w = *(const weft_f4 *)(r + i * WEFT_BLOCK);
        c += one * w, g += two * w;
        w = *(const weft_f4 *)(s + i * WEFT_BLOCK);
        d += one * w, h += two * w;
    }
    weft_f4 *const to = (weft_f4 *)out, *const then = (weft_f4 *)next;
    to[0] = a, to[1] = b, to[2] = c, to[3] = d;
    then[0] = e, then[1] = f, then[2] = g, then[3] = h;
}

/* As many outputs as whole groups of four vectors hold; their number. */
static long linear_wide_f4(float *out, const float *x, const float *weight, const float *bias, long rows, long inputs,
                           long outputs)
{
    const long lanes = (long)(sizeof(weft_f4) / sizeof(float)), unit = 4 * lanes;
    const long padded = (outputs + WEFT_BLOCK - 1) / WEFT_BLOCK * WEFT_BLOCK;
    long at[4], done = 0;
    for (long k = 0; k < 4; k++) at[k] = k * lanes / WEFT_BLOCK * WEFT_BLOCK * inputs + k * lanes % WEFT_BLOCK;
    for (; done + unit <= padded; done += unit) {
        const float *const here = weight + done * inputs, *const shift = bias ? bias + done : bias;
        const long count = outputs - done < unit ? outputs - done : unit;
        float first[64], second[64];
        long row = 0;
        for (; row + 2 <= rows; row += 2) {
            linear_two_f4(first, second, x + row * inputs, x + (row + 1) * inputs, here, at, inputs);
            linear_store(out + row * outputs + done, first, shift, count);
            linear_store(out + (row + 1) * outputs + done, second, shift, count);
        }
        if (row < rows) {
            linear_one_f4(first, x + row * inputs, here, at, inputs);
            linear_store(out + row * outputs + done, first, shift, count);
        }
    }
    return done < outputs ? done : outputs;
}
#endif

/*: linear needs linear_f4 linear_f8 linear_f16 */
/* One block of 16 outputs of one row. */
static void linear_block(float *sums, const float *x, const float *weight, long inputs)
{
    for (int lane = 0; lane < WEFT_BLOCK; lane++) sums[lane] = 0.0f;
    for (long i = 0; i < inputs; i++, weight += WEFT_BLOCK)
        for (int lane = 0; lane < WEFT_BLOCK; lane++) sums[lane] += x[i] * weight[lane];
}

/* x (rows, inputs) and packed weight (outputs, inputs)[, bias (outputs)] -> out (rows, outputs), with the widest vectors
   that the processor has. */
static void linear(float *out, const float *x, const float *weight, const float *bias, long rows, long inputs,
                   long outputs)
{
    long done = 0;
#if defined(__GNUC__)
#if defined(__x86_64__)
    if (outputs >= 64 && __builtin_cpu_supports("avx512f"))
        done = linear_wide_f16(out, x, weight, bias, rows, inputs, outputs);
    else if (outputs >= 32 && __builtin_cpu_supports("avx2") && __builtin_cpu_supports("fma"))
        done = linear_wide_f8(out, x, weight, bias, rows, inputs, outputs);
    else
#endif
        done = linear_wide_f4(out, x, weight, bias, rows, inputs, outputs);
#endif
    for (; done < outputs; done += WEFT_BLOCK) {
        const long count = outputs - done < WEFT_BLOCK ? outputs - done : WEFT_BLOCK;
        for (long row = 0; row < rows; row++) {
            float sums[WEFT_BLOCK];
            linear_block(sums, x + row * inputs, weight + done * inputs, inputs);
            linear_store(out + row * outputs + done, sums, bias ? bias + done : bias, count);
        }
    }
}

/*: linear8 needs lanes */
/* As linear, with weights in int8, packed as the others, and a scale for each output. */
static void linear8(float *out, const float *x, const signed char *weight, const float *scale, const float *bias,
                    long rows, long inputs, long outputs)
{
    for (long done = 0; done < outputs; done += WEFT_BLOCK) {
        const long count = outputs - done < WEFT_BLOCK ? outputs - done : WEFT_BLOCK;
        for (long row = 0; row < rows; row++) {
            const signed char *w = weight + done * inputs;
            const float *values = x + row * inputs;
            float sums[WEFT_BLOCK] = {0};
            for (long i = 0; i < inputs; i++, w += WEFT_BLOCK) {
                const float value = values[i];
                for (int lane = 0; lane < WEFT_BLOCK; lane++) sums[lane] += value * (float)w[lane];
            }
            for (long j = 0; j < count; j++)
                out[row * outputs + done + j] = sums[j] * scale[done + j] + (bias ? bias[done + j] : 0.0f);
        }
    }
}

/*: embed needs lanes */
/* ids (count) -> the rows of a packed table (entries, size). */
static void embed(float *out, const int32_t *ids, const float *table, long count, long entries, long size)
{
    for (long n = 0; n < count; n++) {
        const long id = ids[n] < 0 ? 0 : ids[n] >= entries ? entries - 1 : ids[n];
        const float *row = table + id / WEFT_BLOCK * WEFT_BLOCK * size + id % WEFT_BLOCK;
        for (long i = 0; i < size; i++) out[n * size + i] = row[i * WEFT_BLOCK];
    }
}

/*: embed8 needs lanes */
static void embed8(float *out, const int32_t *ids, const signed char *table, const float *scale, long count,
                   long entries, long size)
{
    for (long n = 0; n < count; n++) {
        const long id = ids[n] < 0 ? 0 : ids[n] >= entries ? entries - 1 : ids[n];
        const signed char *row = table + id / WEFT_BLOCK * WEFT_BLOCK * size + id % WEFT_BLOCK;
        for (long i = 0; i < size; i++) out[n * size + i] = (float)row[i * WEFT_BLOCK] * scale[id];
    }
}

/*: conv2d */
/* x (channels, height, width), weight (outputs, channels, side, side)[, bias] -> (outputs, height', width'). */
static void conv2d(float *out, const float *x, const float *weight, const float *bias, long channels, long height,
                   long width, long outputs, long side, long stride, long padding)
{
    const long down = (height + 2 * padding - side) / stride + 1, across = (width + 2 * padding - side) / stride + 1;
    for (long o = 0; o < outputs; o++) {
        float *to = out + o * down * across;
        for (long n = 0; n < down * across; n++) to[n] = bias ? bias[o] : 0.0f;
        for (long c = 0; c < channels; c++)
            for (long v = 0; v < side; v++)
                for (long u = 0; u < side; u++) {
                    const float w = weight[((o * channels + c) * side + v) * side + u];
                    for (long y = 0; y < down; y++) {
                        const long from = y * stride + v - padding;
                        if (from < 0 || from >= height) continue;
                        const float *row = x + (c * height + from) * width;
                        for (long z = 0; z < across; z++) {
                            const long at = z * stride + u - padding;
                            if (at >= 0 && at < width) to[y * across + z] += w * row[at];
                        }
                    }
                }
    }
}
