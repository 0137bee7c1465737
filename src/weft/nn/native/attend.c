/* Attention of one query in each row: to the past of its text, or to a source that several rows share. Follows decode.c.
   Numbers are added in LANES strands and places that are no keys add nothing, so that padding changes no bit. */

typedef int whole __attribute__((vector_size(4 * LANES), aligned(4)));

static inline vec larger(vec a, vec b) {
    vec found;
    for (int j = 0; j < LANES; j++) found[j] = a[j] > b[j] ? a[j] : b[j];
    return found;
}

#if LANES == 16
#define EVERY(f, n) f(0, n), f(1, n), f(2, n), f(3, n), f(4, n), f(5, n), f(6, n), f(7, n), f(8, n), f(9, n), f(10, n), \
                    f(11, n), f(12, n), f(13, n), f(14, n), f(15, n)
#elif LANES == 8
#define EVERY(f, n) f(0, n), f(1, n), f(2, n), f(3, n), f(4, n), f(5, n), f(6, n), f(7, n)
#else
#define EVERY(f, n) f(0, n), f(1, n), f(2, n), f(3, n)
#endif
#if defined(__clang__)
#define SHUFFLE(a, b, ...) __builtin_shufflevector(a, b, __VA_ARGS__)
#else
#define SHUFFLE(a, b, ...) __builtin_shuffle(a, b, (whole){__VA_ARGS__})
#endif
#define ACROSS(i, n) ((i) ^ (n))
#define LEFT(i, n) ((i) & (n) ? LANES + (i) - (n) : (i))
#define RIGHT(i, n) ((i) & (n) ? LANES + (i) : (i) + (n))
/* Two vectors into one: what lies n lanes apart is added, sums of the first beside sums of the second. */
#define FOLD(n)                                                                                                        \
    for (int j = 0; j < LANES / 2 / n; j++) {                                                                          \
        const vec a = sum[2 * j], b = sum[2 * j + 1];                                                                  \
        sum[j] = SHUFFLE(a, b, EVERY(LEFT, n)) + SHUFFLE(a, b, EVERY(RIGHT, n));                                       \
    }

/* The sum of each of LANES vectors, side by side. */
static inline vec across(vec *sum) {
    FOLD(1)
    FOLD(2)
#if LANES > 4
    FOLD(4)
#endif
#if LANES > 8
    FOLD(8)
#endif
    return sum[0];
}

/* The sum, or the highest, of all numbers of a vector, in each of its lanes. */
static inline vec total_of(vec x) {
    x += SHUFFLE(x, x, EVERY(ACROSS, 1));
    x += SHUFFLE(x, x, EVERY(ACROSS, 2));
#if LANES > 4
    x += SHUFFLE(x, x, EVERY(ACROSS, 4));
#endif
#if LANES > 8
    x += SHUFFLE(x, x, EVERY(ACROSS, 8));
#endif
    return x;
}

static inline vec highest_of(vec x) {
    x = larger(x, SHUFFLE(x, x, EVERY(ACROSS, 1)));
    x = larger(x, SHUFFLE(x, x, EVERY(ACROSS, 2)));
#if LANES > 4
    x = larger(x, SHUFFLE(x, x, EVERY(ACROSS, 4)));
#endif
#if LANES > 8
    x = larger(x, SHUFFLE(x, x, EVERY(ACROSS, 8)));
#endif
    return x;
}

static inline float maximum(const float *x, long count) {
    vec strands = (vec){0} - INFINITY;
    float highest = -INFINITY;
    long i = 0;
    for (; i + LANES <= count; i += LANES) strands = larger(*(const vec *)(x + i), strands);
    for (; i < count; i++) highest = x[i] > highest ? x[i] : highest;
    return larger(highest - (vec){0}, highest_of(strands))[0];
}

/* exp(x) for x <= 0, as in arithmetic.c; nothing where it would not be a normal number. */
static inline vec falling(vec x) {
    const vec round = (vec){0} + 12582912.0f; /* 1.5 * 2^23: what is added to it is rounded to a whole number */
    const vec lowest = (vec){0} - 87.0f, clamped = larger(x, lowest), shifted = clamped * 1.44269504088896341f + round;
    const vec k = shifted - round, f = (clamped - k * 0.693359375f) + k * 2.12194440e-4f;
    const vec p = 1.0f / 2 + f * (1.0f / 6 + f * (1.0f / 24 + f * (1.0f / 120 + f * (1.0f / 720 + f * (1.0f / 5040)))));
    const vec power = (vec)(((whole)shifted << 23) + (whole)((vec){0} + 1.0f));
    return (vec)((whole)(power * (1.0f + (f + f * f * p))) & (x > lowest));
}

/* Σ exp(x - base) with base >= x, the terms kept in `terms` if there is room for them. */
static inline float sum_exponentials(const float *x, float base, long count, float *terms) {
    vec strands = {0}, rest = (vec){0} - INFINITY;
    long i = 0;
    for (; i + LANES <= count; i += LANES) {
        const vec term = falling(*(const vec *)(x + i) - base);
        strands += term;
        if (terms) *(vec *)(terms + i) = term;
    }
    memcpy(&rest, x + i, sizeof(float) * (count - i));
    rest = falling(rest - base);
    strands += rest;
    if (terms) memcpy(terms + i, &rest, sizeof(float) * (count - i));
    return total_of(strands)[0];
}

/* scores (count) -> shares that sum to one; nothing where there is nothing. */
static inline void soften(float *scores, long count) {
    const float highest = maximum(scores, count);
    const float total = sum_exponentials(scores, highest == -INFINITY ? 0.0f : highest, count, scores);
    const float scale = total > 0.0f ? 1.0f / total : 0.0f;
    for (long t = 0; t < count; t++) scores[t] *= scale;
}

/* What one query sees: position t lies at keys + place[t] * key_step, and its value likewise. */
typedef struct {
    const float *keys, *values;
    const long *place;
    const unsigned char *mask;
    long count, key_step, value_step, size, width;
    float scale;
} sight_t;

/* scores (count, room for whole vectors) of all positions, LANES keys at a time. */
static inline void compare(const sight_t *s, const float *query, float *scores) {
    for (long t = 0; t < s->count; t += LANES) {
        const float *key[LANES];
        vec sum[LANES] = {0};
        long i = 0;
        for (int j = 0; j < LANES; j++) key[j] = s->keys + s->place[t + j < s->count ? t + j : t] * s->key_step;
        for (; i + LANES <= s->size; i += LANES) {
            const vec x = *(const vec *)(query + i);
#pragma GCC unroll 16
            for (int j = 0; j < LANES; j++) sum[j] += x * *(const vec *)(key[j] + i);
        }
        vec total = across(sum);
        for (; i < s->size; i++)
            for (int j = 0; j < LANES; j++) total[j] += query[i] * key[j][i];
        *(vec *)(scores + t) = total * s->scale;
    }
    for (long t = 0; s->mask && t < s->count; t++) scores[t] = s->mask[t] ? scores[t] : -INFINITY;
}

/* Σ share · value over all positions, for `vectors` vectors of the width from `from` on. */
static inline __attribute__((always_inline)) void weigh(
    const sight_t *s, const float *shares, const int vectors, long from, float *out) {
    vec sum[8];
    for (int j = 0; j < vectors; j++) sum[j] = (vec){0};
    for (long t = 0; t < s->count; t++) {
        const float *value = s->values + s->place[t] * s->value_step + from;
#pragma GCC unroll 8
        for (int j = 0; j < vectors; j++) sum[j] += shares[t] * *(const vec *)(value + j * LANES);
    }
    for (int j = 0; j < vectors; j++) *(vec *)(out + from + j * LANES) = sum[j];
}

/* out (width) of one query (size) in one head; shares is room for `count` numbers and a vector more. */
static void attend_one(const sight_t *s, const float *query, float *shares, float *out) {
    compare(s, query, shares);
    soften(shares, s->count);
    long i = 0;
    for (; i + 8 * LANES <= s->width; i += 8 * LANES) weigh(s, shares, 8, i, out);
    for (; i + 4 * LANES <= s->width; i += 4 * LANES) weigh(s, shares, 4, i, out);
    for (; i + LANES <= s->width; i += LANES) weigh(s, shares, 1, i, out);
    for (; i < s->width; i++) {
        out[i] = 0.0f;
        for (long t = 0; t < s->count; t++) out[i] += shares[t] * s->values[s->place[t] * s->value_step + i];
    }
}

enum { TOGETHER = 8 };

typedef struct {
    const float *q, *k, *v;
    float *keys, *values, *out;
    long *origin;
    const long *length;
    long rows, q_stride, k_stride, v_stride, heads, size, width, room, at_once;
    float scale;
} past_t;

static void past_rows(const job_t *job, long task) {
    const past_t *p = job->data;
    const long first = task * p->at_once, end = first + p->at_once < p->rows ? first + p->at_once : p->rows;
    float *shares = numbers(p->room + 1 + LANES);
    long *place = malloc(sizeof(long) * (end - first) * p->room);
    for (long n = first; n < end; n++) {
        const long last = p->length[n];
        long *origin = p->origin ? p->origin + n * p->room : 0;
        if (origin) origin[last] = n;
        for (long h = 0; h < p->heads; h++) {
            const long at = (n * p->heads + h) * p->room + last;
            memcpy(p->keys + at * p->size, p->k + n * p->k_stride + h * p->size, sizeof(float) * p->size);
            memcpy(p->values + at * p->width, p->v + n * p->v_stride + h * p->width, sizeof(float) * p->width);
        }
        for (long t = 0; t <= last; t++)
            place[(n - first) * p->room + t] = (origin ? origin[t] : n) * p->heads * p->room + t;
    }
    /* Neighbours see much of the same past: head by head it is still in the cache for the next of them. */
    for (long h = 0; h < p->heads; h++)
        for (long n = first; n < end; n++) {
            const float *keys = p->keys + h * p->room * p->size, *values = p->values + h * p->room * p->width;
            const sight_t sight = {keys, values, place + (n - first) * p->room, 0, p->length[n] + 1, p->size, p->width,
                                   p->size, p->width, p->scale};
            attend_one(&sight, p->q + n * p->q_stride + h * p->size, shares, p->out + (n * p->heads + h) * p->width);
        }
    free(place);
    free(shares);
}

/* keys (N, H, T, m) and values (N, H, T, v); the next position of each row becomes its own. Nobody reads the position
   that another row writes now, so rows may be shared out as they come. */
void attend_past(const float *q, const float *k, const float *v, long q_stride, long k_stride, long v_stride,
                 float *keys, float *values, long *origin, const long *length, float *out, long rows, long heads,
                 long size, long width, long room, float scale, long threads, parallel_t parallel) {
    const past_t p = {q, k, v, keys, values, out, origin, length, rows, q_stride, k_stride, v_stride, heads, size,
                      width, room, TOGETHER, scale};
    job_t job = {past_rows, (rows + TOGETHER - 1) / TOGETHER, 0, &p};
    share(&job, threads, parallel);
}

typedef struct {
    const float *q, *keys, *values;
    float *out;
    const unsigned char *mask;
    long each, q_stride, heads, size, width, length, mask_stride;
    long key_lane, key_head, key_step, value_lane, value_head, value_step;
    float scale;
} shared_t;

static void shared_lane(const job_t *job, long lane) {
    const shared_t *s = job->data;
    float *shares = numbers(s->length + LANES);
    long *place = malloc(sizeof(long) * (s->length + 1));
    for (long t = 0; t < s->length; t++) place[t] = t;
    const float *keys = s->keys + lane * s->key_lane, *values = s->values + lane * s->value_lane;
    const unsigned char *mask = s->mask ? s->mask + lane * s->mask_stride : 0;
    for (long h = 0; h < s->heads; h++) {
        const sight_t sight = {keys + h * s->key_head, values + h * s->value_head, place, mask, s->length, s->key_step,
                               s->value_step, s->size, s->width, s->scale};
        for (long n = lane * s->each; n < (lane + 1) * s->each; n++)
            attend_one(&sight, s->q + n * s->q_stride + h * s->size, shares, s->out + (n * s->heads + h) * s->width);
    }
    free(place);
    free(shares);
}

/* `each` rows of a lane read the one source of `length` positions. */
void attend_shared(const float *q, long q_stride, const float *keys, long key_lane, long key_head, long key_step,
                   const float *values, long value_lane, long value_head, long value_step, const unsigned char *mask,
                   long mask_stride, float *out, long lanes, long each, long heads, long size, long width, long length,
                   float scale, long threads, parallel_t parallel) {
    const shared_t s = {q, keys, values, out, mask, each, q_stride, heads, size, width, length, mask_stride,
                        key_lane, key_head, key_step, value_lane, value_head, value_step, scale};
    job_t job = {shared_lane, lanes, 0, &s};
    share(&job, threads, parallel);
}
