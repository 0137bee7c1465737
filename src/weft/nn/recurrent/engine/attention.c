/* Attention of one query over the source of its row, for recurrences that attend. */

static inline float over_all(vec x) {
    float total = 0.0f;
    for (int j = 0; j < FLOATS; j++) total += x[j];
    return total;
}

static float inner(const float *a, const float *b, long n) {
    vec sum[4] = {{0}};
    long k = 0;
    for (; k + 4 * FLOATS <= n; k += 4 * FLOATS)
        for (int j = 0; j < 4; j++) {
            const long at = k + j * FLOATS;
            sum[j] += *(const vec *)(a + at) * *(const vec *)(b + at);
        }
    for (; k + FLOATS <= n; k += FLOATS) sum[0] += *(const vec *)(a + k) * *(const vec *)(b + k);
    float total = over_all((sum[0] + sum[1]) + (sum[2] + sum[3]));
    for (; k < n; k++) total += a[k] * b[k];
    return total;
}

/* over . tanh(query + key), in as many sums as the machine adds up side by side. */
static float additive(const float *query, const float *key, const float *over, long n) {
    float sums[PANEL] = {0}, total = 0.0f;
    long k = 0;
    for (; k + PANEL <= n; k += PANEL)
        for (long j = 0; j < PANEL; j++) sums[j] += over[k + j] * hyperbolic(query[k + j] + key[k + j]);
    for (long j = 0; j < PANEL; j++) total += sums[j];
    for (; k < n; k++) total += over[k] * hyperbolic(query[k] + key[k]);
    return total;
}

/* to += by[s] * rows[s], four rows at a time, so that `to` is read and written less often. */
static void add_rows(float *restrict to, const float *restrict rows, const float *restrict by, long count, long n) {
    long s = 0;
    for (; s + 4 <= count; s += 4) {
        const float *restrict row = rows + s * n;
        const float a = by[s], b = by[s + 1], c = by[s + 2], d = by[s + 3];
        for (long j = 0; j < n; j++) to[j] += (a * row[j] + b * row[n + j]) + (c * row[2 * n + j] + d * row[3 * n + j]);
    }
    for (; s < count; s++)
        for (long j = 0; j < n; j++) to[j] += by[s] * rows[s * n + j];
}

/* What a row attends to: keys (count x depth) and values (count x width) in room for `steps`; how it scores them. */
typedef struct {
    const float *keys, *values, *over;
    long count, steps, depth, width;
    float scale;
    int hard;
} source_t;

/* weights (steps) and context (width) of a query (depth); hard: the context is the best value, the weights are those
   that its gradient is made of. */
static void attend(const source_t *source, const float *query, float *weights, float *context) {
    const long count = source->count, depth = source->depth, width = source->width;
    float most = -INFINITY, total = 0.0f;
    for (long s = 0; s < count; s++) {
        const float *key = source->keys + s * depth;
        weights[s] = source->scale * (source->over ? additive(query, key, source->over, depth) : inner(query, key, depth));
        most = weights[s] > most ? weights[s] : most;
    }
    for (long s = 0; s < count; s++) weights[s] = exponential(weights[s] - most);
    for (long s = 0; s < count; s++) total += weights[s];
    for (long s = 0; s < count; s++) weights[s] /= total;
    memset(weights + count, 0, sizeof(float) * (source->steps - count));
    memset(context, 0, sizeof(float) * width);
    if (!source->hard) {
        add_rows(context, source->values, weights, count, width);
    } else if (count) {
        long best = 0;
        for (long s = 1; s < count; s++) best = weights[s] > weights[best] ? s : best;
        memcpy(context, source->values + best * width, sizeof(float) * width);
    }
}

/* The gradient of a context -> those of the scores (steps) and of the query (depth). Of additive scores those of the
   keys and of the vector are added up here; for others one product after the loop makes them of all steps. */
static void attend_back(
    const source_t *source, const float *gradient, const float *query, const float *weights, float *scores,
    float *restrict for_query, float *restrict for_keys, float *restrict for_over) {
    const long count = source->count, depth = source->depth, width = source->width;
    float mean = 0.0f;
    for (long s = 0; s < count; s++) {
        scores[s] = inner(gradient, source->values + s * width, width);
        mean += weights[s] * scores[s];
    }
    for (long s = 0; s < count; s++) scores[s] = source->scale * weights[s] * (scores[s] - mean);
    memset(scores + count, 0, sizeof(float) * (source->steps - count));
    memset(for_query, 0, sizeof(float) * depth);
    if (!source->over) {
        add_rows(for_query, source->keys, scores, count, depth);
        return;
    }
    for (long s = 0; s < count; s++) {
        const float *restrict key = source->keys + s * depth, *restrict over = source->over;
        float *restrict for_key = for_keys + s * depth;
        for (long k = 0; k < depth; k++) {
            const float t = hyperbolic(query[k] + key[k]), g = scores[s] * over[k] * (1.0f - t * t);
            for_query[k] += g;
            for_key[k] += g;
            for_over[k] += scores[s] * t;
        }
    }
}
