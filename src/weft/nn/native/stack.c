/* All layers of a stack: one position of a decoder for all rows, or all positions of an encoder. Each thread takes some
   lanes through the whole stack, so that nobody waits for anybody. Follows attend.c. Widths are whole panels; D width, F
   units, N rows. */

enum { JOINT, OUTPUT, QUERY, CROSS, INNER, OUTER, PRODUCTS };
enum { POST, PRE, REZERO };

/* Of one layer: packed weights and padded biases of the products (none: 0), and for each of the three parts what its
   norm has, weight and bias, or α. */
typedef struct {
    const float *weight[PRODUCTS], *bias[PRODUCTS], *norm[3][2];
} layer_t;

typedef struct {
    const layer_t *layers;
    float *const *stores; /* keys and values of each layer; none where the rows of a lane are positions of one text */
    const float *last[2]; /* the norm that ends a pre-norm stack, or none */
    const float *x, *source; /* (N, D); (lanes, layers, 2, heads, length, D / heads), or none */
    float *out;
    const unsigned char *mask; /* (lanes, source_length), or none */
    long *origin;
    const long *length;
    long count, rows, lanes, each, width, heads, units, room, source_length, at_once;
    float epsilon;
    int kind, gelu;
} stack_t;

static void normalise(float *x, const float *add, const float *gamma, const float *beta, float *out, long rows,
                      long width, float epsilon) {
    for (long r = 0; r < rows; r++, x += width, out += width, add += add ? width : 0) {
        float sums[LANES] = {0}, squares[LANES] = {0}, mean = 0.0f, square = 0.0f;
        for (long i = 0; i < width; i += LANES)
            for (int j = 0; j < LANES; j++) {
                const float value = add ? x[i + j] + add[i + j] : x[i + j];
                out[i + j] = value;
                sums[j] += value;
            }
        for (int j = 0; j < LANES; j++) mean += sums[j];
        mean /= width;
        for (long i = 0; i < width; i += LANES)
            for (int j = 0; j < LANES; j++) squares[j] += (out[i + j] - mean) * (out[i + j] - mean);
        for (int j = 0; j < LANES; j++) square += squares[j];
        const float scale = 1.0f / sqrtf(square / width + epsilon);
        for (long i = 0; i < width; i++) out[i] = (out[i] - mean) * scale * gamma[i] + beta[i];
    }
}

static void multiply(const layer_t *layer, int which, const float *x, long rows, long depth, long width, float *y) {
    product_of(rows, x, depth, layer->weight[which], depth, width, layer->bias[which], y, width);
}

/* How a part begins and how it joins the stream x; `h` is what it reads. */
static const float *enter(const stack_t *s, const layer_t *layer, int part, float *x, float *h, long rows) {
    if (s->kind != PRE) return x;
    normalise(x, 0, layer->norm[part][0], layer->norm[part][1], h, rows, s->width, s->epsilon);
    return h;
}

static void join(const stack_t *s, const layer_t *layer, int part, float *x, const float *f, long rows) {
    if (s->kind == POST) {
        normalise(x, f, layer->norm[part][0], layer->norm[part][1], x, rows, s->width, s->epsilon);
        return;
    }
    const float share = s->kind == REZERO ? *layer->norm[part][0] : 1.0f;
    for (long i = 0; i < rows * s->width; i++) x[i] += share * f[i];
}

static void activate(float *x, long count, int gelu) {
    if (gelu)
        for (long i = 0; i < count; i++) x[i] = 0.5f * x[i] * (1.0f + erff(x[i] * 0.70710678118654752f));
    else
        for (long i = 0; i < count; i++) x[i] = x[i] > 0.0f ? x[i] : 0.0f;
}

/* Self-attention of the rows of some lanes, joint (rows, 3 D) -> context (rows, D): to the past of each, or to all
   positions of their lane. Pointers are such as if all rows were there. */
static void attend_self(const stack_t *s, long layer, long first, long end, const float *joint, float *context) {
    const long d = s->width, size = d / s->heads, step = 3 * d, lane_step = s->each * step;
    const float scale = 1.0f / sqrtf((float)size), *k = joint + d, *v = joint + 2 * d;
    if (s->stores) {
        const past_t past = {joint, k, v, s->stores[2 * layer], s->stores[2 * layer + 1], context, s->origin, s->length,
                             s->rows, step, step, step, s->heads, size, size, s->room, s->each, scale};
        const job_t job = {0, 0, 0, &past};
        for (long lane = first; lane < end; lane++) past_rows(&job, lane);
    } else {
        const shared_t whole = {joint, k, v, context, s->mask, s->each, step, s->heads, size, size, s->each, s->each,
                                lane_step, size, step, lane_step, size, step, scale};
        const job_t job = {0, 0, 0, &whole};
        for (long lane = first; lane < end; lane++) shared_lane(&job, lane);
    }
}

/* Attention of rows q (rows, D) to the source of their lane -> context (rows, D). */
static void attend_source(const stack_t *s, long layer, long first, long end, const float *q, float *context) {
    const long size = s->width / s->heads, head = s->source_length * size, part = s->heads * head;
    const long lane_step = s->count * 2 * part;
    const float *keys = s->source + layer * 2 * part, scale = 1.0f / sqrtf((float)size);
    const shared_t shared = {q, keys, keys + part, context, s->mask, s->each, s->width, s->heads, size, size,
                             s->source_length, s->source_length, lane_step, head, size, lane_step, head, size, scale};
    const job_t job = {0, 0, 0, &shared};
    for (long lane = first; lane < end; lane++) shared_lane(&job, lane);
}

static void stack_lanes(const job_t *job, long task) {
    const stack_t *s = job->data;
    const long first = task * s->at_once, end = first + s->at_once < s->lanes ? first + s->at_once : s->lanes;
    const long from = first * s->each, rows = (end - first) * s->each, d = s->width;
    const long widest = 3 * d > s->units ? 3 * d : s->units;
    float *x = s->out + from * d, *h = numbers(rows * (2 * d + widest));
    float *context = h + rows * d, *wide = context + rows * d;
    memcpy(x, s->x + from * d, sizeof(float) * rows * d);
    for (long l = 0; l < s->count; l++) {
        const layer_t *layer = s->layers + l;
        multiply(layer, JOINT, enter(s, layer, 0, x, h, rows), rows, d, 3 * d, wide);
        attend_self(s, l, first, end, wide - from * 3 * d, context - from * d);
        multiply(layer, OUTPUT, context, rows, d, d, h);
        join(s, layer, 0, x, h, rows);
        if (s->source) {
            multiply(layer, QUERY, enter(s, layer, 1, x, h, rows), rows, d, d, wide);
            attend_source(s, l, first, end, wide - from * d, context - from * d);
            multiply(layer, CROSS, context, rows, d, d, h);
            join(s, layer, 1, x, h, rows);
        }
        multiply(layer, INNER, enter(s, layer, 2, x, h, rows), rows, d, s->units, wide);
        activate(wide, rows * s->units, s->gelu);
        multiply(layer, OUTER, wide, rows, s->units, d, h);
        join(s, layer, 2, x, h, rows);
    }
    if (s->last[0]) normalise(x, 0, s->last[0], s->last[1], x, rows, d, s->epsilon);
    free(h);
}

void stack_step(const layer_t *layers, float *const *stores, const float *gamma, const float *beta, const float *x,
                const float *source, const unsigned char *mask, long *origin, const long *length, float *out,
                long count, long lanes, long each, long width, long heads, long units, long room, long source_length,
                long kind, long gelu, float epsilon, long threads, parallel_t parallel) {
    const long at_once = (lanes + threads - 1) / threads;
    const stack_t s = {layers, stores, {gamma, beta}, x, source, out, mask, origin, length, count, lanes * each, lanes,
                       each, width, heads, units, room, source_length, at_once, epsilon, (int)kind, (int)gelu};
    job_t job = {stack_lanes, (lanes + at_once - 1) / at_once, 0, &s};
    share(&job, threads, parallel);
}

enum { FILL = 64 };

/* x (A, T, D) -> out (A, T, D), where all positions of a lane that are real (A, T) see each other. */
void stack_all(const layer_t *layers, const float *gamma, const float *beta, const float *x, const unsigned char *mask,
               float *out, long count, long lanes, long positions, long width, long heads, long units, long kind,
               long gelu, float epsilon, long threads, parallel_t parallel) {
    const long at_once = positions < FILL ? FILL / positions : 1; /* rows enough for the weights to be worth fetching */
    const stack_t s = {layers, 0, {gamma, beta}, x, 0, out, mask, 0, 0, count, lanes * positions, lanes, positions,
                       width, heads, units, 0, 0, at_once, epsilon, (int)kind, (int)gelu};
    job_t job = {stack_lanes, (lanes + at_once - 1) / at_once, 0, &s};
    share(&job, threads, parallel);
}
