/* Prefill: whole texts through a decoder at once, each position attending to those of its text up to its own. Only keys
   and values in the cache are wanted, so the last layer computes no more. Positions are shared out in tasks. A task ends
   a layer and begins the next by writing that layer's keys and values, and all tasks of a layer end before the next
   layer reads these. Follows stack.c; stack_cpu.py declares prefill_t. */

typedef struct {
    const prefill_t *texts;
    long task_rows, layer;
} prefill_layer_t;

/* Attention of some positions in the previous layer -> context (rows, D). As in attend_slot, positions that several
   queries attend to are read once, and no number depends on the other queries. */
static void attend_previous(const prefill_t *t, long layer, long first, long rows, float *context, float *weights) {
    const transformer_t *s = t->stack;
    const long d = s->width, size = d / s->heads, head = s->capacity * size, apart = s->capacity + FLOATS;
    const long *row = t->row + first;
    const float *keys = s->cache[2 * layer], *values = s->cache[2 * layer + 1];
    for (long r = 0, count; r < rows; r += count) {
        const long same = t->place[first + r] + 1;
        count = rows_of_slot(row, rows, r, s->slot_width);
        for (long h = 0; h < s->heads; h++) {
            const long at = (row[r] * s->heads + h) * head;
            const float *q = t->q + (first + r) * d + h * size, *next = h + 1 < s->heads ? keys + at + head : 0;
            const head_t view = {.keys = keys + at, .values = values + at, .next = next, .place = 0, .mask = 0,
                                 .key_step = size, .value_step = size, .size = size, .width = size,
                                 .scale = 1.0f / sqrtf((float)size)};
            float *out = context + r * d + h * size;
            compare_rows(&view, count, 0, same, q, d, weights, apart);
            for (long i = 0; i < count; i++) {
                if (i) compare_rows(&view, 1, same, same + i, q + i * d, 0, weights + i * apart, apart);
                softmax(weights + i * apart, same + i);
            }
            weigh_rows(&view, count, 0, same, weights, apart, out, d);
            for (long i = 1; i < count; i++)
                weigh_rows(&view, 1, same, same + i, weights + i * apart, apart, out + i * d, d);
        }
    }
}

/* Write queries, keys and values of some positions, joint (rows, 3 D): queries to q, the others to the cache. */
static void write_joint(const prefill_t *t, long layer, long first, long rows, const float *joint) {
    const transformer_t *s = t->stack;
    const long d = s->width, size = d / s->heads;
    for (long r = 0; r < rows; r++, joint += 3 * d) {
        memcpy(t->q + (first + r) * d, joint, sizeof(float) * d);
        for (long h = 0; h < s->heads; h++) {
            const long at = ((t->row[first + r] * s->heads + h) * s->capacity + t->place[first + r]) * size;
            memcpy(s->cache[2 * layer] + at, joint + d + h * size, sizeof(float) * size);
            memcpy(s->cache[2 * layer + 1] + at, joint + 2 * d + h * size, sizeof(float) * size);
        }
    }
}

static int prefill_task(const job_t *job, long task) {
    const prefill_layer_t *now = job->data;
    const prefill_t *t = now->texts;
    const transformer_t *s = t->stack;
    const layer_t *layer = s->layers + now->layer;
    const long first = task * now->task_rows, rest = t->rows - first, d = s->width;
    const long rows = rest < now->task_rows ? rest : now->task_rows, widest = 3 * d > s->units ? 3 * d : s->units;
    const long longest = s->capacity > s->source_length ? s->capacity : s->source_length;
    float *h = numbers(rows * (2 * d + widest) + QUERIES * (longest + FLOATS));
    if (!h) return 1;
    float *context = h + rows * d, *wide = context + rows * d, *weights = wide + rows * widest, *x = t->x + first * d;
    if (now->layer) {
        attend_previous(t, now->layer - 1, first, rows, context, weights);
        finish_layer(s, now->layer - 1, t->row + first, rows, x, h, context, wide, weights);
    }
    multiply(&layer->joint, enter(s, &layer->attention_norm, x, h, rows), rows, wide);
    write_joint(t, now->layer, first, rows, wide);
    free(h);
    return 0;
}

int stack_prefill(const prefill_t *t, long threads, parallel_t parallel) {
    const long even = (t->rows + threads - 1) / threads, task_rows = even < MIN_TASK_ROWS ? even : MIN_TASK_ROWS;
    int failed = 0;
    for (long layer = 0; layer < t->stack->count && !failed; layer++) {
        const prefill_layer_t now = {.texts = t, .task_rows = task_rows, .layer = layer};
        job_t job = {.work = prefill_task, .tasks = (t->rows + task_rows - 1) / task_rows, .data = &now};
        failed = share(&job, threads, parallel);
    }
    return failed;
}
