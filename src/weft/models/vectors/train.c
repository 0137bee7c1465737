/* Skip-gram and CBOW with negative sampling: tasks of sentences that threads take one after the other. All threads update
   the same tables without locks (Hogwild): an update may be lost, which the next ones make good. With one thread the
   result depends on the seed alone. The plain version is weft.models.vectors.plain; native.py declares vectors_t.
   Follows arithmetic.c.

   One centre with m inputs X (m x D) and n outputs O (n x D):
       G = rate * weight * (label - sigmoid(X O^T)),  X += G O,  O += G^T X,  both from the values before. */

enum { LOSS_EVERY = 16 }; /* centres between two that are counted in the training loss */

/* ---- random numbers: xorshift64*, seeded by splitmix64 ---- */

static inline unsigned long next_random(unsigned long *state) {
    unsigned long x = *state;
    x ^= x >> 12, x ^= x << 25, x ^= x >> 27;
    return (*state = x) * 2685821657736338717UL;
}

static unsigned long seed_of(unsigned long seed, unsigned long task) {
    unsigned long x = seed + (task + 1) * 0x9E3779B97F4A7C15UL;
    x = (x ^ (x >> 30)) * 0xBF58476D1CE4E5B9UL;
    x = (x ^ (x >> 27)) * 0x94D049BB133111EBUL;
    x ^= x >> 31;
    return x ? x : 1;
}

static inline float unit(unsigned long random) { return (float)(random & 0xFFFFFF) * (1.0f / 16777216.0f); }

/* A word of the noise distribution, by the alias method: 32 bits choose the entry, 24 others one of its two words. */
static inline int noise_word(const vectors_t *v, unsigned long *state) {
    const unsigned long random = next_random(state);
    const long entry = (long)(((random >> 32) * (unsigned long)v->noise_entries) >> 32);
    return unit(random) < v->noise_share[entry] ? v->noise_first[entry] : v->noise_second[entry];
}

/* ---- one centre: its rows, and the scratch of a thread ---- */

typedef struct {
    long centre, first, last, count; /* positions of the window, and the number of outputs */
    int *words;                      /* outputs: the positive ones first */
    long positives;
} plan_t;

typedef struct {
    int *sentence;
    plan_t plans[2];
    float *x, *o, *scores, *delta;
    const float **from;
} scratch_t;

static inline long stride_of(const vectors_t *v) { return (v->size + FLOATS - 1) / FLOATS * FLOATS; }

static inline void fetch_row(const float *row, long size) {
    for (long k = 0; k < size; k += LINE) __builtin_prefetch(row + k);
}

static inline void copy_row(float *to, const float *row, long size, long stride) {
    long k = 0;
    for (; k + FLOATS <= size; k += FLOATS) *(vec *)(to + k) = *(const vec *)(row + k);
    for (; k < size; k++) to[k] = row[k];
    for (; k < stride; k++) to[k] = 0.0f;
}

static inline void add_scaled(float *to, const float *row, float factor, long size) {
    long k = 0;
    for (; k + FLOATS <= size; k += FLOATS) *(vec *)(to + k) += factor * *(const vec *)(row + k);
    for (; k < size; k++) to[k] += factor * row[k];
}

static inline float sum_of(vec v) {
    float parts[FLOATS];
    *(vec *)parts = v;
    for (int half = FLOATS / 2; half; half /= 2)
        for (int k = 0; k < half; k++) parts[k] += parts[k + half];
    return parts[0];
}

/* scores (rows x n) of `rows` rows of x with `columns` rows of o. */
static inline __attribute__((always_inline)) void dots(
    const int rows, const int columns, const float *x, const float *o, long stride, float *scores, long n) {
    vec sum[2][4];
    for (int i = 0; i < rows; i++)
        for (int j = 0; j < columns; j++) sum[i][j] = (vec){0};
    for (long k = 0; k < stride; k += FLOATS)
#pragma GCC unroll 4
        for (int j = 0; j < columns; j++) {
            vec b = *(const vec *)(o + j * stride + k);
            HOLD(b);
#pragma GCC unroll 2
            for (int i = 0; i < rows; i++) sum[i][j] += *(const vec *)(x + i * stride + k) * b;
        }
    for (int i = 0; i < rows; i++)
        for (int j = 0; j < columns; j++) scores[i * n + j] = sum_of(sum[i][j]);
}

static void all_dots(const float *x, long m, const float *o, long n, long stride, float *scores) {
    long i = 0, j;
    for (; i + 2 <= m; i += 2) {
        for (j = 0; j + 4 <= n; j += 4) dots(2, 4, x + i * stride, o + j * stride, stride, scores + i * n + j, n);
        for (; j + 2 <= n; j += 2) dots(2, 2, x + i * stride, o + j * stride, stride, scores + i * n + j, n);
        for (; j < n; j++) dots(2, 1, x + i * stride, o + j * stride, stride, scores + i * n + j, n);
    }
    for (; i < m; i++) {
        for (j = 0; j + 4 <= n; j += 4) dots(1, 4, x + i * stride, o + j * stride, stride, scores + i * n + j, n);
        for (; j < n; j++) dots(1, 1, x + i * stride, o + j * stride, stride, scores + i * n + j, n);
    }
}

/* Add to `rows` rows of a table sums of `count` rows of `from`, with factor (i, j) at g[i * down + j * across]. */
static inline __attribute__((always_inline)) void add_sums(
    const int rows, float *const *to, const float *from, long count, long stride, const float *g, long down, long across,
    long size) {
    for (long k = 0; k < size; k += FLOATS) {
        vec sum[4];
#pragma GCC unroll 4
        for (int i = 0; i < rows; i++) sum[i] = (vec){0};
        for (long j = 0; j < count; j++) {
            vec b = *(const vec *)(from + j * stride + k);
            HOLD(b);
#pragma GCC unroll 4
            for (int i = 0; i < rows; i++) sum[i] += g[i * down + j * across] * b;
        }
        for (int i = 0; i < rows; i++) {
            float *at = to[i] + k;
            if (k + FLOATS <= size)
                *(vec *)at += sum[i];
            else
                for (long rest = 0; rest < size - k; rest++) at[rest] += sum[i][rest];
        }
    }
}

static void add_all(float *const *to, long rows, const float *from, long count, long stride, const float *g, long down,
                    long across, long size) {
    long i = 0;
    for (; i + 4 <= rows; i += 4) add_sums(4, to + i, from, count, stride, g + i * down, down, across, size);
    for (; i + 2 <= rows; i += 2) add_sums(2, to + i, from, count, stride, g + i * down, down, across, size);
    for (; i < rows; i++) add_sums(1, to + i, from, count, stride, g + i * down, down, across, size);
}

/* ---- the inputs of a centre ---- */

static inline float *input_row(const vectors_t *v, long row) { return v->inputs + row * v->size; }

/* The rows of `inputs` whose mean is the vector of a word: its own, and those of its character n-grams. */
static inline const int *parts_of(const vectors_t *v, const int *word, long *count) {
    if (!v->part_starts) return *count = 1, word;
    *count = v->part_starts[*word + 1] - v->part_starts[*word];
    return v->parts + v->part_starts[*word];
}

/* Visit the words whose parts make the one input of a centre: those of the window in CBOW, else the centre itself. */
static inline int is_source(const vectors_t *v, const plan_t *p, long at) {
    return v->cbow ? at != p->centre : at == p->centre;
}

/* x = the mean of all parts. */
static void mean_input(const vectors_t *v, const int *sentence, const plan_t *p, float *x, long stride) {
    long many = 0, count;
    memset(x, 0, sizeof(float) * stride);
    for (long at = p->first; at < p->last; at++) {
        if (!is_source(v, p, at)) continue;
        const int *rows = parts_of(v, sentence + at, &count);
        for (long r = 0; r < count; r++) add_scaled(x, input_row(v, rows[r]), 1.0f, v->size);
        many += count;
    }
    const float share = 1.0f / (float)many;
    for (long k = 0; k < stride; k++) x[k] *= share;
}

static void add_to_parts(const vectors_t *v, const int *sentence, const plan_t *p, const float *delta) {
    long count;
    for (long at = p->first; at < p->last; at++) {
        if (!is_source(v, p, at)) continue;
        const int *rows = parts_of(v, sentence + at, &count);
        for (long r = 0; r < count; r++) add_scaled(input_row(v, rows[r]), delta, 1.0f, v->size);
    }
}

/* ---- training on one centre ---- */

/* Draw the window of a centre and its outputs, and fetch their rows. */
static void plan_centre(const vectors_t *v, const scratch_t *s, long centre, long length, unsigned long *random, plan_t *p) {
    const long reach = 1 + (long)(((next_random(random) >> 32) * (unsigned long)v->window) >> 32);
    p->centre = centre;
    p->first = centre > reach ? centre - reach : 0;
    p->last = centre + reach + 1 < length ? centre + reach + 1 : length;
    p->count = 0;
    if (p->last - p->first < 2) return; /* a sentence of one word */
    if (v->part_starts && !v->cbow) {
        for (long at = p->first; at < p->last; at++)
            if (at != centre) p->words[p->count++] = s->sentence[at];
    } else {
        p->words[p->count++] = s->sentence[centre];
    }
    p->positives = p->count;
    for (long k = 0; k < v->negatives; k++) {
        const int word = noise_word(v, random);
        int hit = 0;
        for (long j = 0; j < p->positives; j++) hit |= p->words[j] == word;
        if (!hit) p->words[p->count++] = word;
    }
    for (long j = 0; j < p->count; j++) fetch_row(v->outputs + p->words[j] * v->size, v->size);
    if (p->last == centre + reach + 1 && !v->part_starts) fetch_row(input_row(v, s->sentence[p->last - 1]), v->size);
}

/* -log sigmoid(x) */
static inline float softplus_of_minus(float x) { return x > 0 ? log1pf(expf(-x)) : log1pf(expf(x)) - x; }

static void train_centre(const vectors_t *v, const scratch_t *s, const plan_t *p, float rate, float *loss) {
    const long size = v->size, stride = stride_of(v), n = p->count;
    const int composed = v->cbow || v->part_starts;
    const long m = composed ? 1 : p->last - p->first - 1, pairs = m * n;
    const float weight = v->part_starts && !v->cbow ? (float)p->positives : 1.0f; /* of a negative, for all positives */
    float **to = (float **)s->from;
    if (composed) {
        mean_input(v, s->sentence, p, s->x, stride);
    } else {
        long i = 0;
        for (long at = p->first; at < p->last; at++)
            if (at != p->centre) copy_row(s->x + i++ * stride, input_row(v, s->sentence[at]), size, stride);
    }
    for (long j = 0; j < n; j++) copy_row(s->o + j * stride, v->outputs + p->words[j] * size, size, stride);
    all_dots(s->x, m, s->o, n, stride, s->scores);
    if (loss) {
        for (long i = 0; i < m; i++)
            for (long j = 0; j < n; j++) {
                const float score = s->scores[i * n + j];
                loss[0] += j < p->positives ? softplus_of_minus(score) : weight * softplus_of_minus(-score);
            }
        loss[1] += (float)(m * p->positives);
    }
    for (long t = 0; t < (pairs + FLOATS - 1) / FLOATS * FLOATS; t++) s->scores[t] = -rate * sigmoid(s->scores[t]);
    for (long i = 0; i < m; i++) {
        for (long j = 0; j < p->positives; j++) s->scores[i * n + j] += rate;
        if (weight != 1.0f)
            for (long j = p->positives; j < n; j++) s->scores[i * n + j] *= weight;
    }
    if (composed) {
        memset(s->delta, 0, sizeof(float) * stride);
        to[0] = s->delta;
        add_all(to, 1, s->o, n, stride, s->scores, n, 1, size);
        add_to_parts(v, s->sentence, p, s->delta);
    } else {
        long i = 0;
        for (long at = p->first; at < p->last; at++)
            if (at != p->centre) to[i++] = input_row(v, s->sentence[at]);
        add_all(to, m, s->o, n, stride, s->scores, n, 1, size);
    }
    for (long j = 0; j < n; j++) to[j] = v->outputs + p->words[j] * size;
    add_all(to, n, s->x, m, stride, s->scores, 1, n, size);
}

/* ---- tasks ---- */

static void train_sentence(const vectors_t *v, scratch_t *s, long row, unsigned long *random, float *loss) {
    const int *tokens = v->tokens + v->starts[row];
    const long whole = v->starts[row + 1] - v->starts[row];
    const float left = 1.0f - (float)((double)(v->done + v->starts[row]) / (double)v->total);
    const float rate = v->rate * (left > 1e-4f ? left : 1e-4f);
    long length = 0;
    for (long at = 0; at < whole; at++) {
        const float keep = v->keep[tokens[at]];
        if (keep >= 1.0f || unit(next_random(random)) < keep) s->sentence[length++] = tokens[at];
    }
    if (length < 2) return;
    plan_centre(v, s, 0, length, random, s->plans);
    for (long at = 0; at < length; at++) {
        /* The next centre is drawn first: its rows are fetched while this one is computed. */
        if (at + 1 < length) plan_centre(v, s, at + 1, length, random, s->plans + (at + 1) % 2);
        train_centre(v, s, s->plans + at % 2, rate, (v->starts[row] + at) % LOSS_EVERY ? 0 : loss);
    }
}

static int train_task(const job_t *job, long task) {
    const vectors_t *v = job->data;
    const long first = v->tasks[task], last = v->tasks[task + 1], stride = stride_of(v);
    const long inputs = 2 * v->window, outputs = 2 * v->window + v->negatives + 1;
    unsigned long random = seed_of((unsigned long)v->seed, (unsigned long)task);
    scratch_t s;
    long longest = 0;
    for (long row = first; row < last; row++)
        if (v->starts[row + 1] - v->starts[row] > longest) longest = v->starts[row + 1] - v->starts[row];
    s.sentence = malloc(sizeof(int) * (longest + 2 * outputs + 1));
    s.from = malloc(sizeof(float *) * (inputs + outputs));
    s.x = numbers((inputs + outputs + 1) * stride + inputs * outputs + FLOATS);
    if (s.sentence && s.from && s.x) {
        s.plans[0].words = s.sentence + longest, s.plans[1].words = s.sentence + longest + outputs;
        s.o = s.x + inputs * stride, s.delta = s.o + outputs * stride, s.scores = s.delta + stride;
        memset(s.scores, 0, sizeof(float) * (inputs * outputs + FLOATS));
        for (long row = first; row < last; row++) train_sentence(v, &s, row, &random, v->losses + 2 * task);
    }
    const int failed = !(s.sentence && s.from && s.x);
    free(s.sentence), free(s.from), free(s.x);
    return failed;
}

/* Train on all tasks; returns 1 without memory. */
int train_vectors(const vectors_t *v, long threads, parallel_t parallel) {
    job_t job = {.work = train_task, .tasks = v->task_count, .data = v};
    return share(&job, threads, parallel);
}
