/* A stack of transformer blocks: one position of a decoder for some rows, or all positions of an encoder. Each thread
   takes its rows through the whole stack, so that no thread waits for another. Follows packed_linear.c and
   single_query.c; stack_cpu.py declares norm_t, layer_t, transformer_t and token_input_t. Widths are whole panels; D
   width, N rows, in slots of `slot_width`. */

enum { POST, PRE, REZERO };           /* where blocks normalise, as in stack_cpu.py */
enum { RELU, GELU, GELU_TANH, SILU }; /* likewise */

/* Rows that go through a stack together. Row r is row[r] of the N rows; its input is x (rows, D), or its token. */
typedef struct {
    const transformer_t *stack;
    const token_input_t *input; /* or NULL, with x */
    const float *x;
    float *out; /* (N, D), of which those rows are written */
    const long *row;
    long rows, task_rows;
} pass_t;

/* out = norm(x + add) for each row; in two strands, since each addition depends on the one before it. */
static void normalise(const float *x, const float *add, const norm_t *norm, float *out, long rows, long width,
                      float epsilon) {
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
            *(vec *)(out + i) = apart * scale * *(const vec *)(norm->weight + i) + *(const vec *)(norm->bias + i);
        }
    }
}

static void multiply(const packed_linear_t *map, const float *x, long rows, float *y) {
    product_of(rows, x, map->depth, map->weight, map->depth, map->width, map->bias, y, map->width);
}

/* The input of a part of a block: the stream x, or in a pre-norm stack h = norm(x). */
static const float *enter(const transformer_t *s, const norm_t *norm, float *x, float *h, long rows) {
    if (s->kind != PRE) return x;
    normalise(x, 0, norm, h, rows, s->width, s->epsilon);
    return h;
}

/* Add the output f of a part to the stream x. */
static void join(const transformer_t *s, const norm_t *norm, float *x, const float *f, long rows) {
    if (s->kind == POST) {
        normalise(x, f, norm, x, rows, s->width, s->epsilon);
        return;
    }
    const float alpha = s->kind == REZERO ? *norm->weight : 1.0f;
    for (long i = 0; i < rows * s->width; i++) x[i] += alpha * f[i];
}

static void activate(float *x, long count, int activation) {
    for (long i = 0; activation == RELU && i < count; i++) x[i] = x[i] > 0.0f ? x[i] : 0.0f;
    for (long i = 0; activation == GELU && i < count; i++)
        x[i] = 0.5f * x[i] * (1.0f + erff(x[i] * 0.70710678118654752f));
    for (long i = 0; activation == GELU_TANH && i < count; i++)
        x[i] = 0.5f * x[i] * (1.0f + tanhf(0.79788456080286536f * (x[i] + 0.044715f * x[i] * x[i] * x[i])));
    for (long i = 0; activation == SILU && i < count; i++) x[i] = x[i] / (1.0f + expf(-x[i]));
}

static void embed(const pass_t *p, long first, long rows, float *x) {
    const transformer_t *s = p->stack;
    const token_input_t *input = p->input;
    const long d = s->width;
    if (!input) memcpy(x, p->x + first * d, sizeof(float) * rows * d);
    for (long r = 0; input && r < rows; r++) {
        const long n = p->row[first + r];
        const float *vector = input->table + input->tokens[n] * d;
        const float *position = input->positions ? input->positions + s->length[n] * d : 0;
        for (long i = 0; i < d; i++) x[r * d + i] = input->scale * vector[i] + (position ? position[i] : 0.0f);
    }
}

/* The number of rows from r on that are of one slot, at most QUERIES. */
static long rows_of_slot(const long *row, long rows, long r, long slot_width) {
    long count = r < rows;
    while (count < QUERIES && r + count < rows && row[r + count] / slot_width == row[r] / slot_width) count++;
    return count;
}

/* Self-attention, joint (rows, 3 D) -> context (rows, D): to the cache of each row, or to all positions of its slot. */
static void attend_self(const transformer_t *s, long layer, const long *row, long rows, const int *place,
                        const float *joint, float *context, float *weights) {
    const long d = s->width, size = d / s->heads, step = 3 * d, slot_step = s->slot_width * step;
    const float scale = 1.0f / sqrtf((float)size), *slots = joint - row[0] * step; /* where row 0 of all rows would be */
    const cached_attention_t cached = {
        .q = joint, .k = joint + d, .v = joint + 2 * d, .keys = s->cache ? s->cache[2 * layer] : 0,
        .values = s->cache ? s->cache[2 * layer + 1] : 0, .out = context, .row = row, .length = s->length,
        .q_stride = step, .k_stride = step, .v_stride = step, .heads = s->heads, .size = size, .width = size,
        .capacity = s->capacity, .scale = scale};
    const shared_attention_t whole = {
        .q = joint, .keys = slots + d, .values = slots + 2 * d, .out = context, .mask = s->mask, .q_stride = step,
        .heads = s->heads, .size = size, .width = size, .length = s->slot_width, .mask_stride = s->slot_width,
        .key_slot = slot_step, .key_head = size, .key_step = step, .value_slot = slot_step, .value_head = size,
        .value_step = step, .scale = scale};
    for (long r = 0, count; r < rows; r += count) {
        count = rows_of_slot(row, rows, r, s->slot_width);
        if (s->cache)
            attend_slot(&cached, r, count, rows_of_slot(row, rows, r + count, s->slot_width), place + r * s->capacity, weights);
        else
            attend_source(&whole, row[r] / s->slot_width, row[r] / s->slot_width, r, count, weights);
    }
}

/* Attention of q (rows, D) to the source of each slot -> context (rows, D). */
static void attend_memory(const transformer_t *s, long layer, const long *row, long rows, const float *q, float *context,
                          float *weights) {
    const long size = s->width / s->heads, head = s->source_length * size, part = s->heads * head;
    const long slot_step = s->count * 2 * part;
    const float *keys = s->source + layer * 2 * part, scale = 1.0f / sqrtf((float)size);
    const shared_attention_t shared = {
        .q = q, .keys = keys, .values = keys + part, .out = context, .mask = s->mask, .q_stride = s->width,
        .heads = s->heads, .size = size, .width = size, .length = s->source_length, .mask_stride = s->source_length,
        .key_slot = slot_step, .key_head = head, .key_step = size, .value_slot = slot_step, .value_head = head,
        .value_step = size, .scale = scale};
    for (long r = 0, count; r < rows; r += count) {
        count = rows_of_slot(row, rows, r, s->slot_width);
        const long slot = row[r] / s->slot_width, next_slot = r + count < rows ? row[r + count] / s->slot_width : slot;
        attend_source(&shared, slot, next_slot, r, count, weights);
    }
}

/* The rest of a layer after self-attention, from context (rows, D) to the stream x; h, wide and weights are buffers. */
static void finish_layer(const transformer_t *s, long number, const long *row, long rows, float *x, float *h,
                         float *context, float *wide, float *weights) {
    const layer_t *layer = s->layers + number;
    multiply(&layer->output, context, rows, h);
    join(s, &layer->attention_norm, x, h, rows);
    if (s->source) {
        multiply(&layer->query, enter(s, &layer->cross_norm, x, h, rows), rows, wide);
        attend_memory(s, number, row, rows, wide, context, weights);
        multiply(&layer->cross, context, rows, h);
        join(s, &layer->cross_norm, x, h, rows);
    }
    multiply(&layer->inner, enter(s, &layer->feedforward_norm, x, h, rows), rows, wide);
    activate(wide, rows * s->units, s->activation);
    multiply(&layer->outer, wide, rows, h);
    join(s, &layer->feedforward_norm, x, h, rows);
}

static void run_layers(const pass_t *p, long first, long rows, float *buffer, int *place) {
    const transformer_t *s = p->stack;
    const long d = s->width, *row = p->row + first, widest = 3 * d > s->units ? 3 * d : s->units;
    float *x = buffer, *h = x + rows * d, *context = h + rows * d, *wide = context + rows * d;
    float *weights = wide + rows * widest;
    if (s->cache) locate(row, rows, s->origin, s->length, s->heads, s->capacity, place);
    embed(p, first, rows, x);
    for (long l = 0; l < s->count; l++) {
        const layer_t *layer = s->layers + l;
        multiply(&layer->joint, enter(s, &layer->attention_norm, x, h, rows), rows, wide);
        attend_self(s, l, row, rows, place, wide, context, weights);
        finish_layer(s, l, row, rows, x, h, context, wide, weights);
    }
    if (s->final.weight) normalise(x, 0, &s->final, x, rows, d, s->epsilon);
    for (long r = 0; r < rows; r++) memcpy(p->out + row[r] * d, x + r * d, sizeof(float) * d);
}

/* Take the rows of a task through the stack; returns 1 where there is no memory. */
static int run_rows(const pass_t *p, long task) {
    const transformer_t *s = p->stack;
    const long first = task * p->task_rows, d = s->width;
    const long rows = p->rows - first < p->task_rows ? p->rows - first : p->task_rows;
    const long widest = 3 * d > s->units ? 3 * d : s->units, positions = s->cache ? s->capacity : s->slot_width;
    const long longest = positions > s->source_length ? positions : s->source_length;
    float *buffer = numbers(rows * (3 * d + widest) + QUERIES * (longest + FLOATS));
    int *place = s->cache ? malloc(sizeof(int) * rows * s->capacity) : 0;
    const int failed = !buffer || (s->cache && !place);
    if (!failed) run_layers(p, first, rows, buffer, place);
    free(place);
    free(buffer);
    return failed;
}

static int stack_task(const job_t *job, long task) { return run_rows(job->data, task); }

static int run_pass(const pass_t *p, long threads, parallel_t parallel) {
    job_t job = {.work = stack_task, .tasks = (p->rows + p->task_rows - 1) / p->task_rows, .data = p};
    return share(&job, threads, parallel);
}

/* All rows, in tasks of `task_rows`: x (rows, D) -> out (rows, D). */
static int run_all(const transformer_t *s, const float *x, float *out, long rows, long task_rows, long threads,
                   parallel_t parallel) {
    long *row = malloc(sizeof(long) * (rows + 1));
    if (!row) return 1;
    for (long r = 0; r < rows; r++) row[r] = r;
    const pass_t pass = {.stack = s, .x = x, .out = out, .row = row, .rows = rows, .task_rows = task_rows};
    const int failed = run_pass(&pass, threads, parallel);
    free(row);
    return failed;
}

/* The next position of all rows: x (N, D) -> out (N, D). */
int stack_step(const transformer_t *s, const float *x, float *out, long rows, long threads, parallel_t parallel) {
    return run_all(s, x, out, rows, (rows + threads - 1) / threads, threads, parallel);
}

enum { MIN_TASK_ROWS = 64 }; /* enough rows for one reading of the weights */

/* x (A, T, D) -> out (A, T, D); every real position attends to all real positions of its slot. */
int stack_all(const transformer_t *s, const float *x, float *out, long slots, long threads, parallel_t parallel) {
    const long task_slots = s->slot_width < MIN_TASK_ROWS ? MIN_TASK_ROWS / s->slot_width : 1;
    return run_all(s, x, out, slots * s->slot_width, task_slots * s->slot_width, threads, parallel);
}

static int source_task(const job_t *job, long task) {
    const source_t *s = job->data;
    const long layer = task % s->layers, first = task / s->layers * ROWS_PER_PANEL, all = s->slots * s->positions;
    const long rows = all - first < ROWS_PER_PANEL ? all - first : ROWS_PER_PANEL;
    const long parts = 2 * s->heads, width = parts * s->size;
    const packed_linear_t *map = s->maps + layer;
    float *y = numbers(rows * padded(width));
    if (!y) return 1;
    product_of(rows, s->memory + first * map->depth, map->depth, map->weight, map->depth, width, map->bias, y,
               padded(width));
    for (long r = 0; r < rows; r++) {
        const long slot = (first + r) / s->positions, position = (first + r) % s->positions;
        float *to = s->out + ((slot * s->layers + layer) * parts * s->positions + position) * s->size;
        for (long p = 0; p < parts; p++)
            memcpy(to + p * s->positions * s->size, y + r * padded(width) + p * s->size, sizeof(float) * s->size);
    }
    free(y);
    return 0;
}

/* Keys and values of a source for all layers: memory (A, S, M) -> out (A, layers, 2, heads, S, size). */
int source_all(const source_t *s, long threads, parallel_t parallel) {
    const long rows = s->slots * s->positions;
    job_t job = {.work = source_task, .tasks = (rows + ROWS_PER_PANEL - 1) / ROWS_PER_PANEL * s->layers, .data = s};
    return share(&job, threads, parallel);
}
