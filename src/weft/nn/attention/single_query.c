/* Attention of one query per row: to the KV cache of its text, or to a source that several rows share. Follows
   arithmetic.c; single_query_cpu.py declares cached_attention_t and shared_attention_t. Numbers are added in FLOATS
   strands, and padding adds exact zeros, so that padding changes no bit of a result. */

#if defined(__SSE__)
#include <immintrin.h>
#endif

typedef int whole __attribute__((vector_size(4 * FLOATS), aligned(4)));

/* The larger element of a and b. The compiler makes a branch of the plain C, which takes three times as long as the
   instruction. */
static inline vec larger(vec a, vec b) {
#if defined(__AVX512F__)
    return (vec)_mm512_max_ps((__m512)a, (__m512)b);
#elif defined(__AVX__)
    return (vec)_mm256_max_ps((__m256)a, (__m256)b);
#elif defined(__SSE__)
    return (vec)_mm_max_ps((__m128)a, (__m128)b);
#else
    vec found;
    for (int j = 0; j < FLOATS; j++) found[j] = a[j] > b[j] ? a[j] : b[j];
    return found;
#endif
}

#if FLOATS == 16
#define EVERY(f, n) f(0, n), f(1, n), f(2, n), f(3, n), f(4, n), f(5, n), f(6, n), f(7, n), f(8, n), f(9, n), f(10, n), \
                    f(11, n), f(12, n), f(13, n), f(14, n), f(15, n)
#elif FLOATS == 8
#define EVERY(f, n) f(0, n), f(1, n), f(2, n), f(3, n), f(4, n), f(5, n), f(6, n), f(7, n)
#else
#define EVERY(f, n) f(0, n), f(1, n), f(2, n), f(3, n)
#endif
#if defined(__clang__)
#define SHUFFLE(a, b, ...) __builtin_shufflevector(a, b, __VA_ARGS__)
#else
#define SHUFFLE(a, b, ...) __builtin_shuffle(a, b, (whole){__VA_ARGS__})
#endif
#define INDEX(i, n) (i)
#define ACROSS(i, n) ((i) ^ (n))
#define LEFT(i, n) ((i) & (n) ? FLOATS + (i) - (n) : (i))
#define RIGHT(i, n) ((i) & (n) ? FLOATS + (i) : (i) + (n))
/* Fold pairs of vectors into one: elements n apart are added, sums of the first beside sums of the second. */
#define FOLD(n)                                                                                                        \
    for (int j = 0; j < FLOATS / 2 / n; j++) {                                                                          \
        const vec a = sum[2 * j], b = sum[2 * j + 1];                                                                  \
        sum[j] = SHUFFLE(a, b, EVERY(LEFT, n)) + SHUFFLE(a, b, EVERY(RIGHT, n));                                       \
    }

/* The sums of FLOATS vectors, side by side in one. */
static inline vec across(vec *sum) {
    FOLD(1)
    FOLD(2)
#if FLOATS > 4
    FOLD(4)
#endif
#if FLOATS > 8
    FOLD(8)
#endif
    return sum[0];
}

/* The sum, or the maximum, of all elements of a vector, in each element of the result. */
static inline vec total_of(vec x) {
    x += SHUFFLE(x, x, EVERY(ACROSS, 1));
    x += SHUFFLE(x, x, EVERY(ACROSS, 2));
#if FLOATS > 4
    x += SHUFFLE(x, x, EVERY(ACROSS, 4));
#endif
#if FLOATS > 8
    x += SHUFFLE(x, x, EVERY(ACROSS, 8));
#endif
    return x;
}

static inline vec highest_of(vec x) {
    x = larger(x, SHUFFLE(x, x, EVERY(ACROSS, 1)));
    x = larger(x, SHUFFLE(x, x, EVERY(ACROSS, 2)));
#if FLOATS > 4
    x = larger(x, SHUFFLE(x, x, EVERY(ACROSS, 4)));
#endif
#if FLOATS > 8
    x = larger(x, SHUFFLE(x, x, EVERY(ACROSS, 8)));
#endif
    return x;
}

/* exp(x) for x <= 0, as in arithmetic.c; zero where it would not be a normal number. */
static inline vec falling(vec x) {
    const vec round = (vec){0} + 12582912.0f; /* 1.5 * 2^23: a number added to it is rounded to an integer */
    const vec lowest = (vec){0} - 87.0f, clamped = larger(x, lowest), shifted = clamped * 1.44269504088896341f + round;
    const vec k = shifted - round, f = (clamped - k * 0.693359375f) + k * 2.12194440e-4f;
    const vec p = 1.0f / 2 + f * (1.0f / 6 + f * (1.0f / 24 + f * (1.0f / 120 + f * (1.0f / 720 + f * (1.0f / 5040)))));
    const vec power = (vec)(((whole)shifted << 23) + (whole)((vec){0} + 1.0f));
    return (vec)((whole)(power * (1.0f + (f + f * f * p))) & (x > lowest));
}

/* Σ exp(x - base) over whole vectors, with base >= x; the terms are written to `terms` unless it is NULL. */
static inline float sum_exponentials(const float *x, float base, long count, float *terms) {
    vec strands = {0};
    for (long i = 0; i < count; i += FLOATS) {
        const vec term = falling(*(const vec *)(x + i) - base);
        strands += term;
        if (terms) *(vec *)(terms + i) = term;
    }
    return total_of(strands)[0];
}

/* The first `count` elements of a vector, the others -∞. */
static inline vec first_of(vec x, long count) {
    const whole indices = {EVERY(INDEX, 0)};
    const whole real = indices < (whole){0} + (int)count;
    return (vec)(((whole)x & real) | ((whole)((vec){0} - INFINITY) & ~real));
}

/* Softmax of scores (count, in a buffer of whole vectors), in place; all zeros where every score is -∞. */
static inline void softmax(float *scores, long count) {
    const long full = count / FLOATS * FLOATS, end = (count + FLOATS - 1) / FLOATS * FLOATS;
    vec peaks = (vec){0} - INFINITY;
    if (full < count) *(vec *)(scores + full) = first_of(*(const vec *)(scores + full), count - full);
    for (long t = 0; t < end; t += FLOATS) peaks = larger(*(const vec *)(scores + t), peaks);
    const float highest = highest_of(peaks)[0];
    const float total = sum_exponentials(scores, highest == -INFINITY ? 0.0f : highest, end, scores);
    const float scale = total > 0.0f ? 1.0f / total : 0.0f;
    for (long t = 0; t < end; t += FLOATS) *(vec *)(scores + t) *= scale;
}

/* Keys and values of one head: the key of position t is at keys + place[t] * key_step, or at keys + t * key_step if there
   are no places, and its value likewise. */
typedef struct {
    const float *keys, *values, *next; /* next: keys of the next head, or NULL */
    const int *place;
    const unsigned char *mask;
    long key_step, value_step, size, width; /* numbers of a key and of a value */
    float scale;
} head_t;

enum { QUERIES = 4, SUMS = FLOATS == 16 ? 16 : 8 }; /* queries that read a key together; sums that fit into registers */

static inline __attribute__((always_inline)) long place_of(const head_t *s, long t) { return s->place ? s->place[t] : t; }

/* Prefetch what is read next, line by line. */
static inline __attribute__((always_inline)) void fetch(const float *x, long count) {
    for (long i = 0; i < count; i += LINE) __builtin_prefetch(x + i);
}

/* A vector of `count` numbers, the other elements zero. */
static inline vec some_of(const float *x, long count) {
    vec found = {0};
    memcpy(&found, x, sizeof(float) * count);
    return found;
}

/* Scores of positions from `first` to `end`, for each row in a buffer of whole vectors, `apart` from the next: FLOATS
   pairs of a query and a key at a time. Values are prefetched meanwhile. */
static inline __attribute__((always_inline)) void compare(
    const head_t *s, const int rows, long first, long end, const float *query, long query_step, float *scores, long apart) {
    const int together = FLOATS / rows;
    for (long t = first; t < end; t += together) {
        const float *key[FLOATS];
        vec sum[FLOATS] = {0};
        long i = 0;
        for (int j = 0; j < together; j++) {
            const long place = place_of(s, t + j < end ? t + j : t);
            key[j] = s->keys + place * s->key_step;
            fetch(s->values + place * s->value_step, s->width);
        }
        for (; i + FLOATS <= s->size; i += FLOATS) {
            vec x[QUERIES];
#pragma GCC unroll 4
            for (int r = 0; r < rows; r++) x[r] = *(const vec *)(query + r * query_step + i);
#pragma GCC unroll 16
            for (int j = 0; j < together; j++) {
                vec k = *(const vec *)(key[j] + i);
                if (rows > 1) HOLD(k);
#pragma GCC unroll 4
                for (int r = 0; r < rows; r++) sum[r * together + j] += x[r] * k;
            }
        }
        for (int r = 0; i < s->size && r < rows; r++)
            for (int j = 0; j < together; j++)
                sum[r * together + j] += some_of(query + r * query_step + i, s->size - i) * some_of(key[j] + i, s->size - i);
        const vec total = across(sum) * s->scale;
        for (int r = 0; r < rows; r++)
            memcpy(scores + r * apart + t, (const float *)&total + r * together, sizeof(float) * together);
    }
    for (int r = 0; s->mask && r < rows; r++)
        for (long t = first; t < end; t++) scores[r * apart + t] = s->mask[t] ? scores[r * apart + t] : -INFINITY;
}

/* Add Σ weight · value over positions from `first` to `end` to out (rows, `out_step` apart), for `vectors` vectors of the
   width from `from` on; first = 0 begins the sum. The first call prefetches the keys of the next head. */
static inline __attribute__((always_inline)) void weigh(
    const head_t *s, const int rows, const int vectors, long first, long end, const float *weights, long apart, long from,
    float *out, long out_step) {
    vec sum[QUERIES][SUMS];
    for (int r = 0; r < rows; r++)
        for (int j = 0; j < vectors; j++)
            sum[r][j] = first ? *(const vec *)(out + r * out_step + from + j * FLOATS) : (vec){0};
    for (long t = first; t < end; t++) {
        const long place = place_of(s, t);
        const float *value = s->values + place * s->value_step + from;
        if (s->next && !from) fetch(s->next + place * s->key_step, s->size);
        vec v[SUMS];
#pragma GCC unroll 16
        for (int j = 0; j < vectors; j++) v[j] = *(const vec *)(value + j * FLOATS);
#pragma GCC unroll 4
        for (int r = 0; r < rows; r++) {
            const vec weight = weights[r * apart + t] - (vec){0};
#pragma GCC unroll 16
            for (int j = 0; j < vectors; j++) sum[r][j] += weight * v[j];
        }
    }
    for (int r = 0; r < rows; r++)
        for (int j = 0; j < vectors; j++) *(vec *)(out + r * out_step + from + j * FLOATS) = sum[r][j];
}

static inline __attribute__((always_inline)) void weigh_all(
    const head_t *s, const int rows, long first, long end, const float *weights, long apart, float *out, long out_step) {
    long i = 0;
    for (; i + SUMS / rows * FLOATS <= s->width; i += SUMS / rows * FLOATS)
        weigh(s, rows, SUMS / rows, first, end, weights, apart, i, out, out_step);
    for (; i + SUMS / rows / 2 * FLOATS <= s->width && SUMS / rows > 2; i += SUMS / rows / 2 * FLOATS)
        weigh(s, rows, SUMS / rows / 2, first, end, weights, apart, i, out, out_step);
    for (; i + FLOATS <= s->width; i += FLOATS) weigh(s, rows, 1, first, end, weights, apart, i, out, out_step);
    /* One position at a time: a compiler would add products of several first, and in another order for the last few. */
    for (int r = 0; r < rows && i < s->width; r++) {
        if (!first) memset(out + r * out_step + i, 0, sizeof(float) * (s->width - i));
        for (long t = first; t < end; t++) {
            const float weight = weights[r * apart + t], *value = s->values + place_of(s, t) * s->value_step;
            for (long j = i; j < s->width; j++) out[r * out_step + j] += weight * value[j];
        }
    }
}

/* compare and weigh_all for 1 to QUERIES rows. The result of a row does not depend on the others. */
static void compare_rows(const head_t *s, long rows, long first, long end, const float *query, long query_step,
                         float *scores, long apart) {
    long r = 0;
    if (rows == 4) compare(s, 4, first, end, query, query_step, scores, apart), r = 4;
    if (rows - r >= 2) compare(s, 2, first, end, query, query_step, scores, apart), r = 2;
    if (rows - r == 1) compare(s, 1, first, end, query + r * query_step, query_step, scores + r * apart, apart);
}

static void weigh_rows(const head_t *s, long rows, long first, long end, const float *weights, long apart, float *out,
                       long out_step) {
    long r = 0;
    if (rows == 4) weigh_all(s, 4, first, end, weights, apart, out, out_step), r = 4;
    if (rows - r >= 2) weigh_all(s, 2, first, end, weights, apart, out, out_step), r = 2;
    if (rows - r == 1) weigh_all(s, 1, first, end, weights + r * apart, apart, out + r * out_step, out_step);
}

/* ---- the KV cache ---- */

static inline long row_of(const long *row, long r) { return row ? row[r] : r; }

/* Find the cached positions of some rows, which are the same in every layer: place (rows, capacity). Each row writes its
   next position into its own row of the cache. */
static void locate(const long *row, long rows, long *origin, const long *length, long heads, long capacity, int *place) {
    for (long r = 0; r < rows; r++) {
        const long n = row_of(row, r), last = length[n];
        if (origin) origin[n * capacity + last] = n;
        for (long t = 0; t <= last; t++)
            place[r * capacity + t] = (int)((origin ? origin[n * capacity + t] : n) * heads * capacity + t);
    }
}

/* The number of first positions that some rows have in common. */
static long common(const int *place, long rows, long capacity, long count) {
    long t = 0;
    for (; t < count; t++)
        for (long r = 1; r < rows; r++)
            if (place[r * capacity + t] != place[t]) return t;
    return t;
}

/* Prefetch a part of what the rows from `first` on read first: the place that they write in one head, and keys of head
   0. */
static void prefetch_rows(const cached_attention_t *p, long first, long rows, const int *place, long head) {
    for (long r = 0; r < rows; r++) {
        const long n = row_of(p->row, first + r), last = p->length[n], at = (n * p->heads + head) * p->capacity + last;
        for (long i = 0; i < p->size; i += LINE) __builtin_prefetch(p->keys + at * p->size + i, 1);
        for (long i = 0; i < p->width; i += LINE) __builtin_prefetch(p->values + at * p->width + i, 1);
        for (long t = head; t < last; t += p->heads) fetch(p->keys + place[r * p->capacity + t] * p->size, p->size);
    }
}

/* Attention of the rows from `first` on, at most QUERIES, of one slot and one length. `place` begins with the first of
   them; `weights` is a buffer of QUERIES times capacity + FLOATS numbers. Positions that the rows share are read once.
   `following` rows come after them. */
static void attend_slot(const cached_attention_t *p, long first, long rows, long following, const int *place,
                        float *weights) {
    const long count = p->length[row_of(p->row, first)] + 1, apart = p->capacity + FLOATS;
    const long same = rows == 1 ? 0 : common(place, rows, p->capacity, count);
    for (long r = first; r < first + rows; r++)
        for (long h = 0; h < p->heads; h++) {
            const long at = (row_of(p->row, r) * p->heads + h) * p->capacity + count - 1;
            memcpy(p->keys + at * p->size, p->k + r * p->k_stride + h * p->size, sizeof(float) * p->size);
            memcpy(p->values + at * p->width, p->v + r * p->v_stride + h * p->width, sizeof(float) * p->width);
        }
    for (long h = 0; h < p->heads; h++) {
        const float *keys = p->keys + h * p->capacity * p->size, *q = p->q + first * p->q_stride + h * p->size;
        float *out = p->out + (first * p->heads + h) * p->width;
        const long step = p->heads * p->width;
        head_t s = {.keys = keys, .values = p->values + h * p->capacity * p->width,
                    .next = h + 1 < p->heads ? keys + p->capacity * p->size : 0, .place = place, .mask = 0,
                    .key_step = p->size, .value_step = p->width, .size = p->size, .width = p->width, .scale = p->scale};
        if (same) compare_rows(&s, rows, 0, same, q, p->q_stride, weights, apart);
        for (long r = 0; r < rows; r++) {
            s.place = place + r * p->capacity;
            compare_rows(&s, 1, same, count, q + r * p->q_stride, 0, weights + r * apart, apart);
            softmax(weights + r * apart, count);
        }
        if (following) prefetch_rows(p, first + rows, following, place + rows * p->capacity, h);
        s.place = place;
        if (same) weigh_rows(&s, rows, 0, same, weights, apart, out, step);
        for (long r = 0; r < rows; r++) {
            s.place = place + r * p->capacity;
            weigh_rows(&s, 1, same, count, weights + r * apart, apart, out + r * step, step);
        }
    }
}

enum { TASK_ROWS = 8 };

static int cached_task(const job_t *job, long task) {
    const cached_attention_t *p = job->data;
    const long first = task * TASK_ROWS, end = first + TASK_ROWS < p->rows ? first + TASK_ROWS : p->rows;
    float *weights = numbers(QUERIES * (p->capacity + FLOATS));
    int *place = malloc(sizeof(int) * TASK_ROWS * p->capacity);
    const int failed = !weights || !place;
    long row[TASK_ROWS];
    if (!failed) {
        for (long r = first; r < end; r++) row[r - first] = r;
        locate(row, end - first, p->origin, p->length, p->heads, p->capacity, place);
        for (long r = first; r < end; r++) attend_slot(p, r, 1, r + 1 < end, place + (r - first) * p->capacity, weights);
    }
    free(place);
    free(weights);
    return failed;
}

/* Attention of all rows; each writes its next position into its own row of the cache. No row reads the position that
   another row writes now, so the order of the rows does not matter. */
int attend_cached(const cached_attention_t *p, long threads, parallel_t parallel) {
    job_t job = {.work = cached_task, .tasks = (p->rows + TASK_ROWS - 1) / TASK_ROWS, .data = p};
    return share(&job, threads, parallel);
}

/* ---- a source that the rows of a slot share ---- */

/* Attention of the rows from `first` on, at most QUERIES, to the source of a slot; `weights` is a buffer of QUERIES times
   length + FLOATS numbers. The source of the slot `next_slot` is read after this one. */
static void attend_source(const shared_attention_t *s, long slot, long next_slot, long first, long rows,
                          float *weights) {
    const float *keys = s->keys + slot * s->key_slot, *values = s->values + slot * s->value_slot;
    const unsigned char *mask = s->mask ? s->mask + slot * s->mask_stride : 0;
    const long apart = s->length + FLOATS, step = s->heads * s->width;
    for (long h = 0; h < s->heads; h++) {
        const float *own = keys + h * s->key_head, *q = s->q + first * s->q_stride + h * s->size;
        const float *next = h + 1 < s->heads ? own + s->key_head : s->keys + next_slot * s->key_slot;
        const head_t head = {.keys = own, .values = values + h * s->value_head, .next = next, .place = 0, .mask = mask,
                             .key_step = s->key_step, .value_step = s->value_step, .size = s->size,
                             .width = s->width, .scale = s->scale};
        compare_rows(&head, rows, 0, s->length, q, s->q_stride, weights, apart);
        for (long r = 0; r < rows; r++) softmax(weights + r * apart, s->length);
        weigh_rows(&head, rows, 0, s->length, weights, apart, s->out + first * step + h * s->width, step);
    }
}

static int shared_task(const job_t *job, long slot) {
    const shared_attention_t *s = job->data;
    float *weights = numbers(QUERIES * (s->length + FLOATS));
    if (!weights) return 1;
    for (long n = 0; n < s->slot_width; n += QUERIES) {
        const long rows = s->slot_width - n < QUERIES ? s->slot_width - n : QUERIES;
        attend_source(s, slot, slot, slot * s->slot_width + n, rows, weights);
    }
    free(weights);
    return 0;
}

/* Attention of `slot_width` rows of every slot to the source of that slot. */
int attend_shared(const shared_attention_t *s, long threads, parallel_t parallel) {
    job_t job = {.work = shared_task, .tasks = s->slots, .data = s};
    return share(&job, threads, parallel);
}
