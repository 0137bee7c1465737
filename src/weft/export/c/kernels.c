/* The operations that are not written out in place. Each stands alone: only what a model uses is in its model.c. */

/*: exponential */
/* e^x within two units of the last place, without a branch; below -87 it is 0. */
static float exponential(float x)
{
    const float limited = !(x > -87.0f) ? -87.0f : x > 88.0f ? 88.0f : x;
    const float whole = (limited * 1.44269504088896341f + 12582912.0f) - 12582912.0f;
    const float rest = (limited - whole * 0.693359375f) + whole * 2.12194440e-4f;
    float power = 1.9875691500e-4f;
    power = power * rest + 1.3981999507e-3f;
    power = power * rest + 8.3334519073e-3f;
    power = power * rest + 4.1665795894e-2f;
    power = power * rest + 1.6666665459e-1f;
    power = power * rest + 5.0000001201e-1f;
    power = power * rest * rest + rest + 1.0f;
    const int32_t bits = ((int32_t)whole + 127) * (1 << 23);
    float scale;
    memcpy(&scale, &bits, sizeof scale);
    return !(x > -87.0f) ? 0.0f : x > 88.0f ? INFINITY : power * scale;
}

/*: hyperbolic needs exponential */
static float hyperbolic(float x)
{
    return 1.0f - 2.0f / (exponential(2.0f * x) + 1.0f);
}

/*: logistic needs exponential */
static float logistic(float x)
{
    return 1.0f / (1.0f + exponential(-x));
}

/*: softmax needs exponential */
/* x (outer, count, inner) -> shares along the middle axis. */
static void softmax(float *out, const float *x, long outer, long count, long inner)
{
    for (long o = 0; o < outer; o++)
        for (long i = 0; i < inner; i++) {
            const float *from = x + o * count * inner + i;
            float *to = out + o * count * inner + i, most = -INFINITY, total = 0.0f;
            for (long n = 0; n < count; n++) most = from[n * inner] > most ? from[n * inner] : most;
            if (!(most > -INFINITY)) most = 0.0f;
            for (long n = 0; n < count; n++) total += to[n * inner] = exponential(from[n * inner] - most);
            for (long n = 0; n < count; n++) to[n * inner] /= total;
        }
}

/*: reduce_sum */
/* x (outer, count, inner) -> (outer, inner). */
static void reduce_sum(float *out, const float *x, long outer, long count, long inner)
{
    for (long o = 0; o < outer; o++) {
        float *to = out + o * inner;
        for (long i = 0; i < inner; i++) to[i] = 0.0f;
        for (long n = 0; n < count; n++)
            for (long i = 0; i < inner; i++) to[i] += x[(o * count + n) * inner + i];
    }
}

/*: reduce_mean needs reduce_sum */
static void reduce_mean(float *out, const float *x, long outer, long count, long inner)
{
    reduce_sum(out, x, outer, count, inner);
    for (long i = 0; i < outer * inner; i++) out[i] /= (float)(count > 0 ? count : 1);
}

/*: reduce_max */
static void reduce_max(float *out, const float *x, long outer, long count, long inner)
{
    for (long o = 0; o < outer; o++)
        for (long i = 0; i < inner; i++) {
            float most = count > 0 ? x[o * count * inner + i] : 0.0f;
            for (long n = 1; n < count; n++) {
                const float value = x[(o * count + n) * inner + i];
                most = value > most ? value : most;
            }
            out[o * inner + i] = most;
        }
}

/*: cumulate_sum */
static void cumulate_sum(float *out, const float *x, long outer, long count, long inner)
{
    for (long o = 0; o < outer; o++)
        for (long n = 0; n < count; n++)
            for (long i = 0; i < inner; i++) {
                const long at = (o * count + n) * inner + i;
                out[at] = n ? out[at - inner] + x[at] : x[at];
            }
}

/*: cumulate_max */
static void cumulate_max(float *out, const float *x, long outer, long count, long inner)
{
    for (long o = 0; o < outer; o++)
        for (long n = 0; n < count; n++)
            for (long i = 0; i < inner; i++) {
                const long at = (o * count + n) * inner + i;
                out[at] = n && out[at - inner] > x[at] ? out[at - inner] : x[at];
            }
}

/*: layer_norm */
/* Rows of x (rows, size) with mean 0 and variance 1, times weight plus bias. */
static void layer_norm(float *out, const float *x, const float *weight, const float *bias, long rows, long size,
                       float epsilon)
{
    for (long row = 0; row < rows; row++, x += size, out += size) {
        float mean = 0.0f, variance = 0.0f;
        for (long i = 0; i < size; i++) mean += x[i];
        mean /= (float)size;
        for (long i = 0; i < size; i++) variance += (x[i] - mean) * (x[i] - mean);
        const float scale = 1.0f / sqrtf(variance / (float)size + epsilon);
        for (long i = 0; i < size; i++) out[i] = (x[i] - mean) * scale * weight[i] + bias[i];
    }
}

/*: group_norm */
/* x (channels, area) in groups of channels. */
static void group_norm(float *out, const float *x, const float *weight, const float *bias, long channels, long area,
                       long groups, float epsilon)
{
    const long each = channels / groups;
    for (long g = 0; g < groups; g++) {
        const float *from = x + g * each * area;
        double mean = 0.0, variance = 0.0;
        for (long i = 0; i < each * area; i++) mean += from[i];
        mean /= (double)(each * area);
        for (long i = 0; i < each * area; i++) variance += (from[i] - mean) * (from[i] - mean);
        const double scale = 1.0 / sqrt(variance / (double)(each * area) + epsilon);
        for (long c = g * each; c < (g + 1) * each; c++)
            for (long i = 0; i < area; i++)
                out[c * area + i] = (float)((x[c * area + i] - mean) * scale) * weight[c] + bias[c];
    }
}

/*: reverse */
/* x (count, inner) in reverse, but for the last `keep` positions. */
static void reverse(void *out, const void *x, long count, long keep, size_t inner)
{
    const long turned = count > keep ? count - keep : 0;
    for (long n = 0; n < count; n++) {
        const long from = n < turned ? turned - 1 - n : n;
        memcpy((char *)out + (size_t)n * inner, (const char *)x + (size_t)from * inner, inner);
    }
}

/*: gather */
/* The rows of x (count, inner) at some places, which are moved into its bounds. */
static void gather(void *out, const void *x, const int32_t *places, long chosen, long count, size_t inner)
{
    for (long n = 0; n < chosen; n++) {
        const long at = places[n] < 0 ? 0 : places[n] >= count ? count - 1 : places[n];
        if (count > 0)
            memcpy((char *)out + (size_t)n * inner, (const char *)x + (size_t)at * inner, inner);
        else
            memset((char *)out + (size_t)n * inner, 0, inner);
    }
}

/*: windows */
/* x (count, size) -> each position with `before` and `after` neighbours, zeros outside. */
static void windows(float *out, const float *x, long count, long size, long before, long after)
{
    for (long n = 0; n < count; n++)
        for (long at = n - before; at <= n + after; at++, out += size) {
            if (at < 0 || at >= count)
                memset(out, 0, (size_t)size * sizeof(float));
            else
                memcpy(out, x + at * size, (size_t)size * sizeof(float));
        }
}

/*: rotate */
/* Rotary positions: pairs (i, i + half) of x (count, heads, 2 * half) are turned by place times frequency. */
static void rotate(float *out, const float *x, const int32_t *places, const float *frequencies, long count, long heads,
                   long half)
{
    for (long n = 0; n < count; n++)
        for (long i = 0; i < half; i++) {
            const float angle = (float)places[n] * frequencies[i], c = cosf(angle), s = sinf(angle);
            for (long h = 0; h < heads; h++) {
                const long at = (n * heads + h) * 2 * half + i;
                const float first = x[at], second = x[at + half];
                out[at] = first * c - second * s;
                out[at + half] = first * s + second * c;
            }
        }
}

/*: attend needs exponential hyperbolic */
/* query (queries, heads, size), keys (count, heads, size), values (count, heads, width) -> context (queries, heads,
   width), and weights (heads, queries, count), or with one row of weights for all where `shown` is 0. With `w` the
   score is w · tanh(q + k), else the dot product times scale. */
static void attend(float *context, float *weights, const float *query, const float *keys, const float *values,
                   const float *w, long queries, long count, long heads, long size, long width, float scale, int causal,
                   int hard, int shown)
{
    for (long h = 0; h < heads; h++)
        for (long t = 0; t < queries; t++) {
            float *row = shown ? weights + (h * queries + t) * count : weights;
            float *to = context + (t * heads + h) * width;
            const float *q = query + (t * heads + h) * size;
            const long seen = causal ? t + count - queries + 1 : count;
            float most = -INFINITY, total = 0.0f;
            long best = 0;
            for (long s = 0; s < seen; s++) {
                const float *k = keys + (s * heads + h) * size;
                float score = 0.0f;
                if (w) {
                    for (long i = 0; i < size; i++) score += w[i] * hyperbolic(q[i] + k[i]);
                } else {
                    float sums[4] = {0};
                    const long fours = size / 4 * 4;
                    for (long i = 0; i < fours; i += 4)
                        for (int lane = 0; lane < 4; lane++) sums[lane] += q[i + lane] * k[i + lane];
                    for (long i = fours; i < size; i++) sums[0] += q[i] * k[i];
                    score = (sums[0] + sums[1]) + (sums[2] + sums[3]);
                }
                row[s] = score *= scale;
                if (score > most) most = score, best = s;
            }
            for (long i = 0; i < width; i++) to[i] = 0.0f;
            for (long s = 0; s < seen; s++)
                total += row[s] = hard ? (s == best ? 1.0f : 0.0f) : exponential(row[s] - most);
            for (long s = 0; s < seen; s++) {
                const float share = row[s] /= total;
                const float *v = values + (s * heads + h) * width;
                for (long i = 0; i < width; i++) to[i] += share * v[i];
            }
            for (long s = seen > 0 ? seen : 0; s < count && shown; s++) row[s] = 0.0f;
        }
}

/*: append */
/* The bytes of a cache, and those of x behind them. out may be the cache itself. */
static void append(void *out, const void *cache, const void *x, size_t past, size_t more)
{
    if (out != cache) memcpy(out, cache, past);
    memcpy((char *)out + past, x, more);
}


/*: rectified */
static float rectified(float x)
{
    return x > 0.0f ? x : 0.0f;
}

/*: gelu */
static float gelu(float x)
{
    return 0.5f * x * (1.0f + erff(x * 0.70710678f));
}

/*: gelu_tanh needs hyperbolic */
static float gelu_tanh(float x)
{
    return 0.5f * x * (1.0f + hyperbolic(0.79788456f * (x + 0.044715f * x * x * x)));
}

/*: silu needs logistic */
static float silu(float x)
{
    return x * logistic(x);
}

/*: larger */
static float larger(float a, float b)
{
    return a > b ? a : b;
}

/*: smaller */
static float smaller(float a, float b)
{
    return a < b ? a : b;
}

/*: whole */
/* Truncated, and inside the range of the type. */
static int32_t whole(float x)
{
    return !(x > -2147483520.0f) ? -2147483647 - 1 : x > 2147483520.0f ? 2147483647 : (int32_t)x;
}

/*: whole_absolute */
static int32_t whole_absolute(int32_t x)
{
    return x < 0 ? -x : x;
}

/*: whole_larger */
static int32_t whole_larger(int32_t a, int32_t b)
{
    return a > b ? a : b;
}

/*: whole_smaller */
static int32_t whole_smaller(int32_t a, int32_t b)
{
    return a < b ? a : b;
}
