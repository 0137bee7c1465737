/* All layers of a stack: one position of a decoder for some rows, or all positions of an encoder. Each thread takes its
   rows through the whole stack, so that nobody waits for anybody. Follows attend.c. Widths are whole panels; D width, N
   rows, in slots of `each`. */

enum { JOINT, OUTPUT, QUERY, CROSS, INNER, OUTER, PRODUCTS };
enum { POST, PRE, REZERO };

/* Of one layer: packed weights and padded biases of the products (none: 0), and for each of the three parts what its
   norm has, weight and bias, or α. */
typedef struct {
    const float *weight[PRODUCTS], *bias[PRODUCTS], *norm[3][2];
} layer_t;

/* A stack and what its rows have seen, put together once for many passes. */
typedef struct {
    const layer_t *layers;
    float *const *stores; /* keys and values of each layer; none where the rows of a slot are positions of one text */
    const float *last[2]; /* the norm that ends a pre-norm stack, or none */
    const float *source; /* (slots, layers, 2, heads, length, D / heads), or none */
    const unsigned char *mask; /* (slots, source_length), or none */
    long *origin, *length;
    long count, each, width, heads, units, room, source_length;
    float epsilon;
    int kind, gelu;
} stack_t;

/* What a row begins with: the vector of its token, at some scale, and that of its place, if there is one. */
typedef struct {
    const float *table, *places;
    const long *tokens;
    float scale;
} reader_t;

/* Rows that go through a stack together. Row r is row[r] of all; it begins with x (rows, D) or as the reader says. */
typedef struct {
    const stack_t *stack;
    const reader_t *reader;
    const float *x;
    float *out; /* (N, D), of which those rows are written */
    const long *row;
    long rows, at_once;
} pass_t;

/* out = norm(x + add) for each row; in two strands, since a sum waits for the one before it. */
static void normalise(const float *x, const float *add, const float *gamma, const float *beta, float *out, long rows,
                      long width, float epsilon) {
    for (long r = 0; r < rows; r++, x += width, out += width, add += add ? width : 0) {
        vec sum[2] = {{0}}, square[2] = {{0}};
        for (long i = 0; i < width; i += PANEL)
#pragma GCC unroll 2
            for (long j = 0; j < 2; j++) {
                const long at = i + j * FLOATS;
                const vec value = *(const vec *)(x + at) + (add ? *(const vec *)(add + at) : (vec){0});
                *(vec *)(out + at) = value;
                sum[j] += value;
            }
        const vec mean = total_of(sum[0] + sum[1]) / (float)width;
        for (long i = 0; i < width; i += PANEL)
#pragma GCC unroll 2
            for (long j = 0; j < 2; j++) {
                const vec apart = *(const vec *)(out + i + j * FLOATS) - mean;
                square[j] += apart * apart;
            }
        const float scale = 1.0f / sqrtf(total_of(square[0] + square[1])[0] / width + epsilon);
        for (long i = 0; i < width; i += FLOATS) {
            const vec apart = *(const vec *)(out + i) - mean;
            *(vec *)(out + i) = apart * scale * *(const vec *)(gamma + i) + *(const vec *)(beta + i);
        }
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

static void begin(const pass_t *p, long first, long rows, float *x) {
    const stack_t *s = p->stack;
    const reader_t *reader = p->reader;
    const long d = s->width;
    if (!reader) memcpy(x, p->x + first * d, sizeof(float) * rows * d);
    for (long r = 0; reader && r < rows; r++) {
        const long n = p->row[first + r];
        const float *vector = reader->table + reader->tokens[n] * d;
        const float *place = reader->places ? reader->places + s->length[n] * d : 0;
        for (long i = 0; i < d; i++) x[r * d + i] = reader->scale * vector[i] + (place ? place[i] : 0.0f);
    }
}

/* How many rows from r on are of one slot, at most ABREAST. */
static long abreast(const long *row, long rows, long r, long each) {
    long count = r < rows;
    while (count < ABREAST && r + count < rows && row[r + count] / each == row[r] / each) count++;
    return count;
}

/* Self-attention, joint (rows, 3 D) -> context (rows, D): to the past of each row, or to all positions of its slot. */
static void attend_self(const stack_t *s, long layer, const long *row, long rows, const int *place, const float *joint,
                        float *context, float *shares) {
    const long d = s->width, size = d / s->heads, step = 3 * d, slot_step = s->each * step;
    const float scale = 1.0f / sqrtf((float)size), *slots = joint - row[0] * step; /* as if all rows were there */
    const past_t past = {joint, joint + d, joint + 2 * d, s->stores ? s->stores[2 * layer] : 0,
                         s->stores ? s->stores[2 * layer + 1] : 0, context, row, s->length, step, step, step, s->heads,
                         size, size, s->room, scale};
    const shared_t whole = {joint, slots + d, slots + 2 * d, context, s->mask, step, s->heads, size, size, s->each,
                            s->each, slot_step, size, step, slot_step, size, step, scale};
    for (long r = 0, count; r < rows; r += count) {
        count = abreast(row, rows, r, s->each);
        if (s->stores)
            attend_slot(&past, r, count, abreast(row, rows, r + count, s->each), place + r * s->room, shares);
        else
            attend_source(&whole, row[r] / s->each, row[r] / s->each, r, count, shares);
    }
}

/* Attention of q (rows, D) to the source of each slot -> context (rows, D). */
static void attend_memory(const stack_t *s, long layer, const long *row, long rows, const float *q, float *context,
                          float *shares) {
    const long size = s->width / s->heads, head = s->source_length * size, part = s->heads * head;
    const long slot_step = s->count * 2 * part;
    const float *keys = s->source + layer * 2 * part, scale = 1.0f / sqrtf((float)size);
    const shared_t shared = {q, keys, keys + part, context, s->mask, s->width, s->heads, size, size, s->source_length,
                             s->source_length, slot_step, head, size, slot_step, head, size, scale};
    for (long r = 0, count; r < rows; r += count) {
        count = abreast(row, rows, r, s->each);
        const long slot = row[r] / s->each, then = r + count < rows ? row[r + count] / s->each : slot;
        attend_source(&shared, slot, then, r, count, shares);
    }
}

/* What follows self-attention in a layer, from context (rows, D) to the stream x; the others are room. */
static void go_on(const stack_t *s, long l, const long *row, long rows, float *x, float *h, float *context, float *wide,
                  float *shares) {
    const layer_t *layer = s->layers + l;
    const long d = s->width;
    multiply(layer, OUTPUT, context, rows, d, d, h);
    join(s, layer, 0, x, h, rows);
    if (s->source) {
        multiply(layer, QUERY, enter(s, layer, 1, x, h, rows), rows, d, d, wide);
        attend_memory(s, l, row, rows, wide, context, shares);
        multiply(layer, CROSS, context, rows, d, d, h);
        join(s, layer, 1, x, h, rows);
    }
    multiply(layer, INNER, enter(s, layer, 2, x, h, rows), rows, d, s->units, wide);
    activate(wide, rows * s->units, s->gelu);
    multiply(layer, OUTER, wide, rows, s->units, d, h);
    join(s, layer, 2, x, h, rows);
}

static void stack_rows(const pass_t *p, long task) {
    const stack_t *s = p->stack;
    const long first = task * p->at_once, d = s->width, *row = p->row + first;
    const long rows = p->rows - first < p->at_once ? p->rows - first : p->at_once;
    const long widest = 3 * d > s->units ? 3 * d : s->units, seen = s->stores ? s->room : s->each;
    const long longest = seen > s->source_length ? seen : s->source_length;
    float *x = numbers(rows * (3 * d + widest) + ABREAST * (longest + FLOATS));
    float *h = x + rows * d, *context = h + rows * d, *wide = context + rows * d, *shares = wide + rows * widest;
    int *place = s->stores ? malloc(sizeof(int) * rows * s->room) : 0;
    if (place) locate(row, rows, s->origin, s->length, s->heads, s->room, place);
    begin(p, first, rows, x);
    for (long l = 0; l < s->count; l++) {
        const layer_t *layer = s->layers + l;
        multiply(layer, JOINT, enter(s, layer, 0, x, h, rows), rows, d, 3 * d, wide);
        attend_self(s, l, row, rows, place, wide, context, shares);
        go_on(s, l, row, rows, x, h, context, wide, shares);
    }
    if (s->last[0]) normalise(x, 0, s->last[0], s->last[1], x, rows, d, s->epsilon);
    for (long r = 0; r < rows; r++) memcpy(p->out + row[r] * d, x + r * d, sizeof(float) * d);
    free(place);
    free(x);
}

static void stack_task(const job_t *job, long task) { stack_rows(job->data, task); }

static void go_through(const pass_t *p, long threads, parallel_t parallel) {
    job_t job = {stack_task, (p->rows + p->at_once - 1) / p->at_once, 0, p};
    share(&job, threads, parallel);
}

static long *counting(long rows) {
    long *row = malloc(sizeof(long) * rows);
    for (long r = 0; r < rows; r++) row[r] = r;
    return row;
}

long stack_bytes(void) { return sizeof(stack_t); }

void stack_make(stack_t *s, const layer_t *layers, float *const *stores, const float *gamma, const float *beta,
                const float *source, const unsigned char *mask, long *origin, long *length, long count, long each,
                long width, long heads, long units, long room, long source_length, long kind, long gelu, float epsilon) {
    const stack_t made = {layers, stores, {gamma, beta}, source, mask, origin, length, count, each, width, heads, units,
                          room, source_length, epsilon, (int)kind, (int)gelu};
    *s = made;
}

/* The next position of all rows: x (N, D) -> out (N, D). */
void stack_step(const stack_t *s, const float *x, float *out, long rows, long threads, parallel_t parallel) {
    long *row = counting(rows);
    const pass_t pass = {s, 0, x, out, row, rows, (rows + threads - 1) / threads};
    go_through(&pass, threads, parallel);
    free(row);
}

enum { FILL = 64 };

/* x (A, T, D) -> out (A, T, D), where all positions of a slot that are real see each other. */
void stack_all(const stack_t *s, const float *x, float *out, long slots, long threads, parallel_t parallel) {
    const long at_once = s->each < FILL ? FILL / s->each : 1; /* rows enough for the weights to be worth fetching */
    long *row = counting(slots * s->each);
    const pass_t pass = {s, 0, x, out, row, slots * s->each, at_once * s->each};
    go_through(&pass, threads, parallel);
    free(row);
}

/* Keys and values of a source for all layers: memory (A, S, M) -> out (A, layers, 2, heads, S, size). */
typedef struct {
    const float *const *weights; /* packed, and biases (or none), of each layer */
    const float *memory;
    float *out;
    long layers, slots, positions, depth, heads, size;
} source_t;

static void source_part(const job_t *job, long task) {
    const source_t *s = job->data;
    const long layer = task % s->layers, first = task / s->layers * SOME, all = s->slots * s->positions;
    const long rows = all - first < SOME ? all - first : SOME, parts = 2 * s->heads, width = parts * s->size;
    const float *weight = s->weights[2 * layer], *bias = s->weights[2 * layer + 1];
    float *y = numbers(rows * padded(width));
    product_of(rows, s->memory + first * s->depth, s->depth, weight, s->depth, width, bias, y, padded(width));
    for (long r = 0; r < rows; r++) {
        const long slot = (first + r) / s->positions, position = (first + r) % s->positions;
        float *to = s->out + ((slot * s->layers + layer) * parts * s->positions + position) * s->size;
        for (long p = 0; p < parts; p++)
            memcpy(to + p * s->positions * s->size, y + r * padded(width) + p * s->size, sizeof(float) * s->size);
    }
    free(y);
}

void source_all(const float *const *weights, const float *memory, float *out, long layers, long slots, long positions,
                long depth, long heads, long size, long threads, parallel_t parallel) {
    const source_t s = {weights, memory, out, layers, slots, positions, depth, heads, size};
    job_t job = {source_part, (slots * positions + SOME - 1) / SOME * layers, 0, &s};
    share(&job, threads, parallel);
}
