/* Attention of one query in each row: to the past of its text, or to a source that several rows share. Follows decode.c.
   Numbers are added in FLOATS strands and places that are no keys add nothing, so that padding changes no bit. */

#if defined(__SSE__)
#include <immintrin.h>
#endif

typedef int whole __attribute__((vector_size(4 * FLOATS), aligned(4)));

/* a where a > b, and else b. A compiler sees a choice here, which takes three times as long as the instruction. */
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
#define PLACE(i, n) (i)
#define ACROSS(i, n) ((i) ^ (n))
#define LEFT(i, n) ((i) & (n) ? FLOATS + (i) - (n) : (i))
#define RIGHT(i, n) ((i) & (n) ? FLOATS + (i) : (i) + (n))
/* Two vectors into one: what lies n elements apart is added, sums of the first beside sums of the second. */
#define FOLD(n)                                                                                                        \
    for (int j = 0; j < FLOATS / 2 / n; j++) {                                                                          \
        const vec a = sum[2 * j], b = sum[2 * j + 1];                                                                  \
        sum[j] = SHUFFLE(a, b, EVERY(LEFT, n)) + SHUFFLE(a, b, EVERY(RIGHT, n));                                       \
    }

/* The sum of each of FLOATS vectors, side by side. */
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

/* The sum, or the highest, of all numbers of a vector, in each of its elements. */
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

/* exp(x) for x <= 0, as in arithmetic.c; nothing where it would not be a normal number. */
static inline vec falling(vec x) {
    const vec round = (vec){0} + 12582912.0f; /* 1.5 * 2^23: what is added to it is rounded to a whole number */
    const vec lowest = (vec){0} - 87.0f, clamped = larger(x, lowest), shifted = clamped * 1.44269504088896341f + round;
    const vec k = shifted - round, f = (clamped - k * 0.693359375f) + k * 2.12194440e-4f;
    const vec p = 1.0f / 2 + f * (1.0f / 6 + f * (1.0f / 24 + f * (1.0f / 120 + f * (1.0f / 720 + f * (1.0f / 5040)))));
    const vec power = (vec)(((whole)shifted << 23) + (whole)((vec){0} + 1.0f));
    return (vec)((whole)(power * (1.0f + (f + f * f * p))) & (x > lowest));
}

/* Σ exp(x - base) with base >= x, of whole vectors, the terms kept in `terms` if there is room for them. */
static inline float sum_exponentials(const float *x, float base, long count, float *terms) {
    vec strands = {0};
    for (long i = 0; i < count; i += FLOATS) {
        const vec term = falling(*(const vec *)(x + i) - base);
        strands += term;
        if (terms) *(vec *)(terms + i) = term;
    }
    return total_of(strands)[0];
}

/* The first `count` numbers of a vector, and -∞. */
static inline vec first_of(vec x, long count) {
    const whole places = {EVERY(PLACE, 0)};
    const whole there = places < (whole){0} + (int)count;
    return (vec)(((whole)x & there) | ((whole)((vec){0} - INFINITY) & ~there));
}

/* scores (count, room for whole vectors) -> shares that sum to one; nothing where there is nothing. */
static inline void soften(float *scores, long count) {
    const long full = count / FLOATS * FLOATS, end = (count + FLOATS - 1) / FLOATS * FLOATS;
    vec peaks = (vec){0} - INFINITY;
    if (full < count) *(vec *)(scores + full) = first_of(*(const vec *)(scores + full), count - full);
    for (long t = 0; t < end; t += FLOATS) peaks = larger(*(const vec *)(scores + t), peaks);
    const float highest = highest_of(peaks)[0];
    const float total = sum_exponentials(scores, highest == -INFINITY ? 0.0f : highest, end, scores);
    const float scale = total > 0.0f ? 1.0f / total : 0.0f;
    for (long t = 0; t < end; t += FLOATS) *(vec *)(scores + t) *= scale;
}

/* What queries of one head see: position t lies at keys + place[t] * key_step, or without places at t * key_step, and
   its value likewise. */
typedef struct {
    const float *keys, *values, *next; /* next: keys of the head that comes, or none */
    const int *place;
    const unsigned char *mask;
    long key_step, value_step, size, width;
    float scale;
} sight_t;

enum { ABREAST = 4, SUMS = FLOATS == 16 ? 16 : 8 }; /* queries that read a key together; sums that fit into registers */

static inline __attribute__((always_inline)) long place_of(const sight_t *s, long t) { return s->place ? s->place[t] : t; }

/* What somebody reads next, line by line. */
static inline __attribute__((always_inline)) void fetch(const float *x, long count) {
    for (long i = 0; i < count; i += LINE) __builtin_prefetch(x + i);
}

/* A vector of `count` numbers, and zeros. */
static inline vec some_of(const float *x, long count) {
    vec found = {0};
    memcpy(&found, x, sizeof(float) * count);
    return found;
}

/* scores (rows, `apart` each, room for whole vectors) of positions from `first` to `end`: FLOATS pairs of a query and a key
   at a time. Values are fetched meanwhile. */
static inline __attribute__((always_inline)) void compare(
    const sight_t *s, const int rows, long first, long end, const float *query, long query_step, float *scores, long apart) {
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
            vec x[ABREAST];
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

/* To out (rows, `out_step` apart) Σ share · value over positions from `first` to `end`, for `vectors` vectors of the width
   from `from` on; position 0 begins the sum. The keys of the next head are fetched with the first of them. */
static inline __attribute__((always_inline)) void weigh(
    const sight_t *s, const int rows, const int vectors, long first, long end, const float *shares, long apart, long from,
    float *out, long out_step) {
    vec sum[ABREAST][SUMS];
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
            const vec share = shares[r * apart + t] - (vec){0};
#pragma GCC unroll 16
            for (int j = 0; j < vectors; j++) sum[r][j] += share * v[j];
        }
    }
    for (int r = 0; r < rows; r++)
        for (int j = 0; j < vectors; j++) *(vec *)(out + r * out_step + from + j * FLOATS) = sum[r][j];
}

static inline __attribute__((always_inline)) void weigh_all(
    const sight_t *s, const int rows, long first, long end, const float *shares, long apart, float *out, long out_step) {
    long i = 0;
    for (; i + SUMS / rows * FLOATS <= s->width; i += SUMS / rows * FLOATS)
        weigh(s, rows, SUMS / rows, first, end, shares, apart, i, out, out_step);
    for (; i + SUMS / rows / 2 * FLOATS <= s->width && SUMS / rows > 2; i += SUMS / rows / 2 * FLOATS)
        weigh(s, rows, SUMS / rows / 2, first, end, shares, apart, i, out, out_step);
    for (; i + FLOATS <= s->width; i += FLOATS) weigh(s, rows, 1, first, end, shares, apart, i, out, out_step);
    /* Position by position: a compiler would add the products of several, and then differently where fewer are left. */
    for (int r = 0; r < rows && i < s->width; r++) {
        if (!first) memset(out + r * out_step + i, 0, sizeof(float) * (s->width - i));
        for (long t = first; t < end; t++) {
            const float share = shares[r * apart + t], *value = s->values + place_of(s, t) * s->value_step;
            for (long j = i; j < s->width; j++) out[r * out_step + j] += share * value[j];
        }
    }
}

/* The same for any number of rows up to ABREAST. What a row gets does not depend on its neighbours. */
static void compare_rows(const sight_t *s, long rows, long first, long end, const float *query, long query_step,
                         float *scores, long apart) {
    long r = 0;
    if (rows == 4) compare(s, 4, first, end, query, query_step, scores, apart), r = 4;
    if (rows - r >= 2) compare(s, 2, first, end, query, query_step, scores, apart), r = 2;
    if (rows - r == 1) compare(s, 1, first, end, query + r * query_step, query_step, scores + r * apart, apart);
}

static void weigh_rows(const sight_t *s, long rows, long first, long end, const float *shares, long apart, float *out,
                       long out_step) {
    long r = 0;
    if (rows == 4) weigh_all(s, 4, first, end, shares, apart, out, out_step), r = 4;
    if (rows - r >= 2) weigh_all(s, 2, first, end, shares, apart, out, out_step), r = 2;
    if (rows - r == 1) weigh_all(s, 1, first, end, shares + r * apart, apart, out + r * out_step, out_step);
}

/* ---- the past ---- */

typedef struct {
    const float *q, *k, *v; /* row r of these is row row[r] of the store, or without such a list row r */
    float *keys, *values, *out;
    const long *row, *length;
    long q_stride, k_stride, v_stride, heads, size, width, room;
    float scale;
} past_t;

static inline long row_of(const long *row, long r) { return row ? row[r] : r; }

/* Where the past of some rows lies, which is the same in every layer: place (rows, room). The next position of each is its
   own. */
static void locate(const long *row, long rows, long *origin, const long *length, long heads, long room, int *place) {
    for (long r = 0; r < rows; r++) {
        const long n = row_of(row, r), last = length[n];
        if (origin) origin[n * room + last] = n;
        for (long t = 0; t <= last; t++)
            place[r * room + t] = (int)((origin ? origin[n * room + t] : n) * heads * room + t);
    }
}

/* How many of their first positions some rows have in common. */
static long common(const int *place, long rows, long room, long count) {
    long t = 0;
    for (; t < count; t++)
        for (long r = 1; r < rows; r++)
            if (place[r * room + t] != place[t]) return t;
    return t;
}

/* A part of what the group of rows from `first` on needs at first: where it writes in one head, and keys of head 0. */
static void expect(const past_t *p, long first, long rows, const int *place, long head) {
    for (long r = 0; r < rows; r++) {
        const long n = row_of(p->row, first + r), last = p->length[n], at = (n * p->heads + head) * p->room + last;
        for (long i = 0; i < p->size; i += LINE) __builtin_prefetch(p->keys + at * p->size + i, 1);
        for (long i = 0; i < p->width; i += LINE) __builtin_prefetch(p->values + at * p->width + i, 1);
        for (long t = head; t < last; t += p->heads) fetch(p->keys + place[r * p->room + t] * p->size, p->size);
    }
}

/* The rows from `first` on, at most ABREAST, of one slot and one length; place is that of the first, shares room for
   ABREAST times room + FLOATS numbers. Positions that they share are read once. `then` rows come after them. */
static void attend_slot(const past_t *p, long first, long rows, long then, const int *place, float *shares) {
    const long count = p->length[row_of(p->row, first)] + 1, apart = p->room + FLOATS;
    const long same = rows == 1 ? 0 : common(place, rows, p->room, count);
    for (long r = first; r < first + rows; r++)
        for (long h = 0; h < p->heads; h++) {
            const long at = (row_of(p->row, r) * p->heads + h) * p->room + count - 1;
            memcpy(p->keys + at * p->size, p->k + r * p->k_stride + h * p->size, sizeof(float) * p->size);
            memcpy(p->values + at * p->width, p->v + r * p->v_stride + h * p->width, sizeof(float) * p->width);
        }
    for (long h = 0; h < p->heads; h++) {
        const float *keys = p->keys + h * p->room * p->size, *q = p->q + first * p->q_stride + h * p->size;
        float *out = p->out + (first * p->heads + h) * p->width;
        const long step = p->heads * p->width;
        sight_t s = {keys, p->values + h * p->room * p->width, h + 1 < p->heads ? keys + p->room * p->size : 0,
                     place, 0, p->size, p->width, p->size, p->width, p->scale};
        if (same) compare_rows(&s, rows, 0, same, q, p->q_stride, shares, apart);
        for (long r = 0; r < rows; r++) {
            s.place = place + r * p->room;
            compare_rows(&s, 1, same, count, q + r * p->q_stride, 0, shares + r * apart, apart);
            soften(shares + r * apart, count);
        }
        if (then) expect(p, first + rows, then, place + rows * p->room, h);
        s.place = place;
        if (same) weigh_rows(&s, rows, 0, same, shares, apart, out, step);
        for (long r = 0; r < rows; r++) {
            s.place = place + r * p->room;
            weigh_rows(&s, 1, same, count, shares + r * apart, apart, out + r * step, step);
        }
    }
}

enum { TOGETHER = 8 };

typedef struct {
    past_t past;
    long *origin;
    long rows;
} pasts_t;

static void past_rows(const job_t *job, long task) {
    const pasts_t *all = job->data;
    const past_t *p = &all->past;
    const long first = task * TOGETHER, end = first + TOGETHER < all->rows ? first + TOGETHER : all->rows;
    float *shares = numbers(ABREAST * (p->room + FLOATS));
    int *place = malloc(sizeof(int) * TOGETHER * p->room);
    long here[TOGETHER];
    for (long r = first; r < end; r++) here[r - first] = r;
    locate(here, end - first, all->origin, p->length, p->heads, p->room, place);
    for (long r = first; r < end; r++) attend_slot(p, r, 1, r + 1 < end, place + (r - first) * p->room, shares);
    free(place);
    free(shares);
}

/* keys (N, H, T, m) and values (N, H, T, v); the next position of each row becomes its own. Nobody reads the position
   that another row writes now, so rows may be shared out as they come. */
void attend_cached(const float *q, const float *k, const float *v, long q_stride, long k_stride, long v_stride,
                 float *keys, float *values, long *origin, const long *length, float *out, long rows, long heads,
                 long size, long width, long room, float scale, long threads, parallel_t parallel) {
    const pasts_t p = {{q, k, v, keys, values, out, 0, length, q_stride, k_stride, v_stride, heads, size, width, room,
                        scale}, origin, rows};
    job_t job = {past_rows, (rows + TOGETHER - 1) / TOGETHER, 0, &p};
    share(&job, threads, parallel);
}

/* ---- a source ---- */

typedef struct {
    const float *q, *keys, *values;
    float *out;
    const unsigned char *mask;
    long q_stride, heads, size, width, length, mask_stride;
    long key_slot, key_head, key_step, value_slot, value_head, value_step;
    float scale;
} shared_t;

/* Rows from `first` on, at most ABREAST, read the source of a slot; shares is room for ABREAST times length + FLOATS.
   Afterwards the slot `then` is read. */
static void attend_source(const shared_t *s, long slot, long then, long first, long rows, float *shares) {
    const float *keys = s->keys + slot * s->key_slot, *values = s->values + slot * s->value_slot;
    const unsigned char *mask = s->mask ? s->mask + slot * s->mask_stride : 0;
    const long apart = s->length + FLOATS, step = s->heads * s->width;
    for (long h = 0; h < s->heads; h++) {
        const float *own = keys + h * s->key_head, *q = s->q + first * s->q_stride + h * s->size;
        const float *next = h + 1 < s->heads ? own + s->key_head : s->keys + then * s->key_slot;
        const sight_t sight = {own, values + h * s->value_head, next, 0, mask, s->key_step, s->value_step, s->size,
                               s->width, s->scale};
        compare_rows(&sight, rows, 0, s->length, q, s->q_stride, shares, apart);
        for (long r = 0; r < rows; r++) soften(shares + r * apart, s->length);
        weigh_rows(&sight, rows, 0, s->length, shares, apart, s->out + first * step + h * s->width, step);
    }
}

typedef struct {
    shared_t shared;
    long each;
} slots_t;

static void shared_slot(const job_t *job, long slot) {
    const slots_t *all = job->data;
    float *shares = numbers(ABREAST * (all->shared.length + FLOATS));
    for (long n = 0; n < all->each; n += ABREAST) {
        const long rows = all->each - n < ABREAST ? all->each - n : ABREAST;
        attend_source(&all->shared, slot, slot, slot * all->each + n, rows, shares);
    }
    free(shares);
}

/* `each` rows of a slot read the one source of `length` positions. */
void attend_shared(const float *q, long q_stride, const float *keys, long key_slot, long key_head, long key_step,
                   const float *values, long value_slot, long value_head, long value_step, const unsigned char *mask,
                   long mask_stride, float *out, long slots, long each, long heads, long size, long width, long length,
                   float scale, long threads, parallel_t parallel) {
    const slots_t all = {{q, keys, values, out, mask, q_stride, heads, size, width, length, mask_stride, key_slot,
                          key_head, key_step, value_slot, value_head, value_step, scale}, each};
    job_t job = {shared_slot, slots, 0, &all};
    share(&job, threads, parallel);
}
