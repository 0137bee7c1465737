/* The base of all C in weft: threads, elementary functions that vectorise, and the product of a few rows with a packed
   matrix. Every library is this text followed by others, compiled as one file. */

#include <math.h>
#include <stdlib.h>
#include <string.h>

/* FETCH: steps of a product between two lines that it fetches ahead. It does so from MANY_TILES tiles of rows on; with
   fewer the product ends before it pays. Both were measured. */
#if defined(__AVX512F__)
#define FLOATS 16
#define TILE_ROWS 8
#define FETCH 4
#define MANY_TILES 4
#else
#if defined(__AVX__)
#define FLOATS 8
#define TILE_ROWS 6
#else
#define FLOATS 4
#define TILE_ROWS 4
#endif
#define FETCH 8
#define MANY_TILES 5
#endif
#define PANEL (2 * FLOATS)
#define LINE 16 /* floats of a cache line */

/* Keep a vector in its register. Otherwise gcc loads it again for every row that it is multiplied with, and a tile of
   few rows is bound by its loads. */
#if defined(__SSE__)
#define HOLD(v) __asm__("" : "+v"(v))
#else
#define HOLD(v)
#endif

typedef float vec __attribute__((vector_size(4 * FLOATS), aligned(4)));
typedef void (*parallel_t)(void (*)(void *), void *, unsigned, unsigned);

/* ---- a job: tasks that threads take one after the other ---- */

/* `work` returns 0, or 1 where it found no memory; then the job has failed. */
typedef struct job job_t;
struct job {
    int (*work)(const job_t *, long);
    long tasks, next;
    int failed;
    const void *data;
};

static void drain(void *shared) {
    job_t *job = shared;
    for (long task; (task = __atomic_fetch_add(&job->next, 1, __ATOMIC_RELAXED)) < job->tasks;)
        if (job->work(job, task)) __atomic_store_n(&job->failed, 1, __ATOMIC_RELAXED);
}

static void in_threads(void (*work)(void *), void *shared, long threads, parallel_t parallel) {
    if (parallel && threads > 1)
        parallel(work, shared, (unsigned)threads, 0);
    else
        work(shared);
}

/* Share the tasks of a job among threads; returns 1 if one of them failed, else 0. */
static int share(job_t *job, long threads, parallel_t parallel) {
    in_threads(drain, job, threads < job->tasks ? threads : job->tasks, parallel);
    return job->failed;
}

/* A buffer of `count` floats and one line more, aligned to a cache line (a vector across two lines is read twice), or
   NULL where the system has no memory. */
static float *numbers(long count) {
    return aligned_alloc(sizeof(float) * LINE, sizeof(float) * (count / LINE + 2) * LINE);
}

static inline long padded(long n) { return (n + PANEL - 1) / PANEL * PANEL; }

/* exp(x) = 2^k (1 + r), x = k ln 2 + f with |f| <= ln 2 / 2, r = exp(f) - 1 by its series. */
static inline float power_of_two(float k) {
    union { int i; float f; } bits = { ((int)k + 127) << 23 };
    return bits.f;
}

static inline float reduced(float x, float *k) {
    *k = __builtin_rintf(x * 1.44269504088896341f);
    const float f = (x - *k * 0.693359375f) + *k * 2.12194440e-4f;
    const float p = 1.0f / 2 + f * (1.0f / 6 + f * (1.0f / 24 + f * (1.0f / 120 + f * (1.0f / 720 + f * (1.0f / 5040)))));
    return f + f * f * p;
}

static inline float exponential(float x) {
    float k;
    const float high = x > 128.0f ? 128.0f : x, clamped = high < -104.0f ? -104.0f : high;
    const float r = reduced(clamped, &k), k1 = __builtin_rintf(k * 0.5f);
    return power_of_two(k1) * (1.0f + r) * power_of_two(k - k1); /* 2^k itself may be too large for a float */
}

static inline float sigmoid(float x) {
    float k;
    const float high = x > 87.0f ? 87.0f : x, clamped = high < -87.0f ? -87.0f : high;
    const float r = reduced(-clamped, &k);
    return 1.0f / (1.0f + power_of_two(k) * (1.0f + r));
}

/* tanh(x) = e / (e + 2) with e = exp(2x) - 1, which keeps its accuracy near zero. */
static inline float hyperbolic(float x) {
    float k;
    const float high = x > 10.0f ? 10.0f : x, clamped = high < -10.0f ? -10.0f : high;
    const float r = reduced(2.0f * clamped, &k), two = power_of_two(k);
    const float e = two * r + (two - 1.0f);
    return e / (e + 2.0f);
}

/* B (depth x width, element (k, n) at k * down + n * across) -> panels of PANEL columns, each depth x PANEL. */
static void pack(const float *b, long down, long across, long depth, long width, float *packed) {
    for (long n = 0; n < width; n += PANEL) {
        const long real = width - n < PANEL ? width - n : PANEL;
        for (long k = 0; k < depth; k++) {
            float *to = packed + n * depth + k * PANEL;
            for (long j = 0; j < real; j++) to[j] = b[k * down + (n + j) * across];
            for (long j = real; j < PANEL; j++) to[j] = 0.0f;
        }
    }
}

/* Add step k of a product to each of its sums. */
static inline __attribute__((always_inline)) void add_step(
    const int rows, const int panels, const float *const *a, const float *panel, long depth, long k,
    vec (*sum)[4]) {
    vec b[4];
#pragma GCC unroll 4
    for (int j = 0; j < 2 * panels; j++) {
        b[j] = *(const vec *)(panel + (j / 2 * depth + k) * PANEL + j % 2 * FLOATS);
        HOLD(b[j]);
    }
#pragma GCC unroll 8
    for (int i = 0; i < rows; i++) {
        const vec x = a[i][k] - (vec){0}; /* one number in every element */
#pragma GCC unroll 4
        for (int j = 0; j < 2 * panels; j++) sum[i][j] += x * b[j];
    }
}

/* Rows of c, each at its own address, over one or two panels. Each addition depends on the one before it, so eight sums
   at a time keep the units busy. `next`, if given, is read after this tile: a line of it is fetched every few steps. */
static inline __attribute__((always_inline)) void tile(
    const int rows, const int panels, const float *const *a, const float *panel, long depth, const float *bias,
    float *const *c, const float *next) {
    vec sum[TILE_ROWS][4];
    long k = 0;
    for (int i = 0; i < rows; i++)
        for (int j = 0; j < 2 * panels; j++) sum[i][j] = bias ? *(const vec *)(bias + j * FLOATS) : (vec){0};
    for (; next && k + FETCH <= depth;) {
        __builtin_prefetch(next + k * (LINE / FETCH));
        const long end = k + FETCH;
#pragma GCC unroll 1
        for (; k < end; k++) add_step(rows, panels, a, panel, depth, k, sum);
    }
    for (; k < depth; k++) add_step(rows, panels, a, panel, depth, k, sum);
    for (int i = 0; i < rows; i++)
        for (int j = 0; j < 2 * panels; j++) *(vec *)(c[i] + j * FLOATS) = sum[i][j];
}

/* A tile of `rows` rows over one panel. */
static inline __attribute__((always_inline)) void tile_of(
    long rows, const float *const *a, const float *panel, long depth, const float *bias, float *const *c,
    const float *next) {
    switch (rows) {
        case 1: tile(1, 1, a, panel, depth, bias, c, next); break;
        case 2: tile(2, 1, a, panel, depth, bias, c, next); break;
        case 3: tile(3, 1, a, panel, depth, bias, c, next); break;
        case 4: tile(4, 1, a, panel, depth, bias, c, next); break;
#if TILE_ROWS > 4
        case 5: tile(5, 1, a, panel, depth, bias, c, next); break;
        case 6: tile(6, 1, a, panel, depth, bias, c, next); break;
#endif
#if TILE_ROWS > 6
        case 7: tile(7, 1, a, panel, depth, bias, c, next); break;
        case 8: tile(8, 1, a, panel, depth, bias, c, next); break;
#endif
    }
}

/* c = a (rows pointers to depth numbers) @ packed + bias (padded, or none). The rows of c have padded(width) numbers;
   they begin at the addresses `to`, or without those at c, `stride` apart. Rows are divided evenly among tiles, and one
   or two rows take panels in pairs, since a tile of few sums takes as long as one of eight. */
static inline __attribute__((always_inline)) void product_over(
    long rows, const float *const *a, const float *packed, long depth, long width, const float *bias, float *const *to,
    float *c, long stride) {
    const long tiles = (rows + TILE_ROWS - 1) / TILE_ROWS;
    float *at[TILE_ROWS];
    long n = 0;
    for (; (rows == 1 || rows == 2) && n + PANEL < width; n += 2 * PANEL) {
        const float *panel = packed + n * depth, *add = bias ? bias + n : 0;
        for (long r = 0; r < rows; r++) at[r] = (to ? to[r] : c + r * stride) + n;
        if (rows == 1)
            tile(1, 2, a, panel, depth, add, at, 0);
        else
            tile(2, 2, a, panel, depth, add, at, 0);
    }
    for (; n < width; n += PANEL) {
        const float *panel = packed + n * depth, *add = bias ? bias + n : 0;
        for (long k = 0, i = 0, end; k < tiles; k++, i = end) {
            end = rows * (k + 1) / tiles;
            for (long r = i; r < end; r++) at[r - i] = (to ? to[r] : c + r * stride) + n;
            /* Each tile of this panel fetches a part of the next. */
            if (tiles >= MANY_TILES)
                tile_of(end - i, a + i, panel, depth, add, at, panel + depth * PANEL + k * depth * (LINE / FETCH));
            else
                tile_of(end - i, a + i, panel, depth, add, at, 0);
        }
    }
}

static void product_into(
    long rows, const float *const *a, const float *packed, long depth, long width, const float *bias, float *c,
    long stride) {
    product_over(rows, a, packed, depth, width, bias, 0, c, stride);
}

enum { ROWS_PER_PANEL = 64 }; /* rows that are multiplied with a panel before the next panel is read */

/* product_into for rows of a that are `apart` numbers from each other. */
static void product_of(
    long rows, const float *a, long apart, const float *packed, long depth, long width, const float *bias, float *c,
    long stride) {
    const float *at[ROWS_PER_PANEL];
    for (long i = 0; i < rows; i += ROWS_PER_PANEL) {
        const long count = rows - i < ROWS_PER_PANEL ? rows - i : ROWS_PER_PANEL;
        for (long r = 0; r < count; r++) at[r] = a + (i + r) * apart;
        product_into(count, at, packed, depth, width, bias, c + i * stride, stride);
    }
}
