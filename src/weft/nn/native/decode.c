/* What writing token by token needs on a CPU, for a few rows at a time: products and attention of one query.
   Follows arithmetic.c. Everything is float32 and row by row; strides count numbers. */

typedef struct job job_t;
struct job {
    void (*work)(const job_t *, long);
    long tasks, next;
    const void *data;
};

static void drain(void *shared) {
    job_t *job = shared;
    for (long task; (task = __atomic_fetch_add(&job->next, 1, __ATOMIC_RELAXED)) < job->tasks;) job->work(job, task);
}

static void share(job_t *job, long threads, parallel_t parallel) {
    if (parallel && threads > 1 && job->tasks > 1)
        parallel(drain, job, (unsigned)(threads < job->tasks ? threads : job->tasks), 0);
    else
        drain(job);
}

/* ---- y = x Wᵀ + b, then relu if asked ---- */

typedef struct {
    const float *x, *packed, *bias;
    float *y;
    long rows, x_stride, depth, width, y_stride, panels;
    int relu;
} linear_t;

long panel_size(void) { return PANEL; }

void pack_linear(const float *weight, long stride, long depth, long width, float *packed) {
    pack(weight, 1, stride, depth, width, packed);
}

/* A number that changes with the weights, by which to know whether they were packed as they are. */
unsigned long checksum(const unsigned *x, long count) {
    unsigned strand[16] = {0};
    unsigned long sum = (unsigned long)count;
    long i = 0;
    for (; i + 16 <= count; i += 16)
        for (int j = 0; j < 16; j++) strand[j] = strand[j] * 0x9E3779B1u + x[i + j];
    for (; i < count; i++) sum = sum * 0x9E3779B97F4A7C15ul + x[i];
    for (int j = 0; j < 16; j++) sum = sum * 0x9E3779B97F4A7C15ul + strand[j];
    return sum;
}

static void linear_part(const job_t *job, long task) {
    const linear_t *l = job->data;
    const long all = padded(l->width) / PANEL, from = task * l->panels * PANEL;
    const long end = (task + 1) * l->panels < all ? (task + 1) * l->panels * PANEL : all * PANEL;
    enum { MOST = 64 };
    const float *rows[MOST];
    for (long i = 0; i < l->rows; i += MOST) {
        const long count = l->rows - i < MOST ? l->rows - i : MOST;
        for (long r = 0; r < count; r++) rows[r] = l->x + (i + r) * l->x_stride;
        float *y = l->y + i * l->y_stride + from;
        product_into(count, rows, l->packed + from * l->depth, l->depth, end - from, l->bias ? l->bias + from : 0, y,
                     l->y_stride);
        if (l->relu)
            for (long r = 0; r < count; r++)
                for (long n = 0; n < end - from; n++) {
                    float *value = y + r * l->y_stride + n;
                    *value = *value > 0.0f ? *value : 0.0f;
                }
    }
}

/* bias and y are padded to whole panels. */
void linear(const float *x, long rows, long x_stride, long depth, long width, const float *packed, const float *bias,
            int relu, float *y, long y_stride, long threads, parallel_t parallel) {
    const long all = padded(width) / PANEL;
    /* Parts of the weights that stay in a core's cache while all rows pass, but enough of them to share out. */
    long panels = 32768 / (depth * PANEL) + 1;
    if (panels * 2 * threads > all) panels = all / (2 * threads) + 1;
    linear_t l = {x, packed, bias, y, rows, x_stride, depth, width, y_stride, panels, relu};
    job_t job = {linear_part, (all + panels - 1) / panels, 0, &l};
    share(&job, threads, parallel);
}

/* ---- attention of one query in each row ---- */

static inline float dot(const float *a, const float *b, long size) {
    vec sum = {0};
    long i = 0;
    for (; i + LANES <= size; i += LANES) sum += *(const vec *)(a + i) * *(const vec *)(b + i);
    float total = 0.0f;
    for (int j = 0; j < LANES; j++) total += sum[j];
    for (; i < size; i++) total += a[i] * b[i];
    return total;
}

static inline void add_scaled(float *to, const float *from, float share, long size) {
    long i = 0;
    for (; i + LANES <= size; i += LANES) *(vec *)(to + i) += share * *(const vec *)(from + i);
    for (; i < size; i++) to[i] += share * from[i];
}

/* Numbers are added and compared in LANES strands, as the compiler may not do it by itself: the order would change. */
static inline float maximum(const float *x, long count) {
    float strand[LANES], highest = -INFINITY;
    for (int j = 0; j < LANES; j++) strand[j] = -INFINITY;
    long i = 0;
    for (; i + LANES <= count; i += LANES)
        for (int j = 0; j < LANES; j++) strand[j] = x[i + j] > strand[j] ? x[i + j] : strand[j];
    for (; i < count; i++) highest = x[i] > highest ? x[i] : highest;
    for (int j = 0; j < LANES; j++) highest = strand[j] > highest ? strand[j] : highest;
    return highest;
}

/* Σ exp(x - base), the terms kept in `terms` if there is room for them. */
static inline float sum_exponentials(const float *x, float base, long count, float *terms) {
    float strand[LANES] = {0}, total = 0.0f;
    long i = 0;
    for (; i + LANES <= count; i += LANES) {
        float term[LANES];
        for (int j = 0; j < LANES; j++) term[j] = x[i + j] == -INFINITY ? 0.0f : exponential(x[i + j] - base);
        for (int j = 0; j < LANES; j++) strand[j] += term[j];
        if (terms) memcpy(terms + i, term, sizeof term);
    }
    for (; i < count; i++) {
        const float term = x[i] == -INFINITY ? 0.0f : exponential(x[i] - base);
        total += term;
        if (terms) terms[i] = term;
    }
    for (int j = 0; j < LANES; j++) total += strand[j];
    return total;
}

/* scores (count) -> shares that sum to one; nothing where there is nothing. */
static inline void soften(float *scores, long count) {
    const float highest = maximum(scores, count);
    const float total = sum_exponentials(scores, highest == -INFINITY ? 0.0f : highest, count, scores);
    const float scale = total > 0.0f ? 1.0f / total : 0.0f;
    for (long t = 0; t < count; t++) scores[t] *= scale;
}

enum { TOGETHER = 8 };

typedef struct {
    const float *q, *k, *v;
    float *keys, *values, *out;
    const long *origin, *length;
    long rows, q_stride, k_stride, v_stride, heads, size, width, room, at_once;
    float scale;
} past_t;

static void past_rows(const job_t *job, long task) {
    const past_t *p = job->data;
    const long first = task * p->at_once, end = first + p->at_once < p->rows ? first + p->at_once : p->rows;
    const long key_step = p->heads * p->size, value_step = p->heads * p->width;
    float *shares = malloc(sizeof(float) * (p->room + 1));
    for (long n = first; n < end; n++) {
        const long at = n * p->room + p->length[n];
        memcpy(p->keys + at * key_step, p->k + n * p->k_stride, sizeof(float) * key_step);
        memcpy(p->values + at * value_step, p->v + n * p->v_stride, sizeof(float) * value_step);
    }
    /* Neighbours see much of the same past: head by head it is still in the cache for the next of them. */
    for (long h = 0; h < p->heads; h++)
        for (long n = first; n < end; n++) {
            const long count = p->length[n] + 1;
            const long *origin = p->origin ? p->origin + n * p->room : 0;
            const float *query = p->q + n * p->q_stride + h * p->size;
            for (long t = 0; t < count; t++) {
                const long row = origin ? origin[t] : n;
                shares[t] = p->scale * dot(query, p->keys + (row * p->room + t) * key_step + h * p->size, p->size);
            }
            soften(shares, count);
            float *out = p->out + n * value_step + h * p->width;
            memset(out, 0, sizeof(float) * p->width);
            for (long t = 0; t < count; t++) {
                const long row = origin ? origin[t] : n;
                add_scaled(out, p->values + (row * p->room + t) * value_step + h * p->width, shares[t], p->width);
            }
        }
    free(shares);
}

/* Nobody reads the position that another row writes now, so rows may be shared out as they come. */
void attend_past(const float *q, const float *k, const float *v, long q_stride, long k_stride, long v_stride,
                 float *keys, float *values, const long *origin, const long *length, float *out, long rows, long heads,
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
    long each, q_stride, heads, size, width, length, key_lane, key_step, value_lane, value_step, mask_stride;
    float scale;
} shared_t;

static void shared_lane(const job_t *job, long lane) {
    const shared_t *s = job->data;
    const unsigned char *mask = s->mask ? s->mask + lane * s->mask_stride : 0;
    float *shares = malloc(sizeof(float) * s->each * s->length);
    for (long h = 0; h < s->heads; h++) {
        const float *keys = s->keys + lane * s->key_lane + h * s->size;
        const float *values = s->values + lane * s->value_lane + h * s->width;
        const float *queries = s->q + lane * s->each * s->q_stride + h * s->size;
        float *out = s->out + (lane * s->each * s->heads + h) * s->width;
        for (long t = 0; t < s->length; t++)
            for (long e = 0; e < s->each; e++)
                shares[e * s->length + t] = mask && !mask[t]
                    ? -INFINITY
                    : s->scale * dot(queries + e * s->q_stride, keys + t * s->key_step, s->size);
        for (long e = 0; e < s->each; e++) {
            soften(shares + e * s->length, s->length);
            memset(out + e * s->heads * s->width, 0, sizeof(float) * s->width);
        }
        for (long t = 0; t < s->length; t++)
            for (long e = 0; e < s->each && !(mask && !mask[t]); e++)
                add_scaled(out + e * s->heads * s->width, values + t * s->value_step, shares[e * s->length + t],
                           s->width);
    }
    free(shares);
}

/* `each` rows of a lane read the one source of `length` positions. */
void attend_shared(const float *q, long q_stride, const float *keys, long key_lane, long key_step, const float *values,
                   long value_lane, long value_step, const unsigned char *mask, long mask_stride, float *out, long lanes,
                   long each, long heads, long size, long width, long length, float scale, long threads,
                   parallel_t parallel) {
    const shared_t s = {q, keys, values, out, mask, each, q_stride, heads, size, width, length, key_lane, key_step,
                        value_lane, value_step, mask_stride, scale};
    job_t job = {shared_lane, lanes, 0, &s};
    share(&job, threads, parallel);
}
