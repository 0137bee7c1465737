/* Texts from their beginning on, read at once: each position sees those of its text up to its own. All that is wanted of
   them are keys and values in the stores, so the last layer makes no more. Positions are shared out in parts, whose way
   through a layer ends with the keys and values of the next; before anybody reads these, all are there. Follows stack.c. */

/* Position r is place[r] of the text in row row[r] of the stores; those of a text lie side by side. */
typedef struct {
    const stack_t *stack;
    float *x, *q; /* (rows, D): the stream, and queries to the layer before */
    const long *row, *place;
    long rows, at_once, layer;
} texts_t;

/* Attention of some positions in the layer before -> context (rows, D). As in attend_slot, what several see is read once,
   and no number depends on who reads along. */
static void attend_before(const texts_t *t, long first, long rows, float *context, float *shares) {
    const stack_t *s = t->stack;
    const long d = s->width, size = d / s->heads, head = s->room * size, apart = s->room + FLOATS, *row = t->row + first;
    const float *keys = s->stores[2 * t->layer - 2], *values = s->stores[2 * t->layer - 1];
    for (long r = 0, count; r < rows; r += count) {
        const long same = t->place[first + r] + 1;
        count = abreast(row, rows, r, s->each);
        for (long h = 0; h < s->heads; h++) {
            const long at = (row[r] * s->heads + h) * head;
            const float *q = t->q + (first + r) * d + h * size, *next = h + 1 < s->heads ? keys + at + head : 0;
            const sight_t sight = {keys + at, values + at, next, 0, 0, size, size, size, size, 1.0f / sqrtf((float)size)};
            float *out = context + r * d + h * size;
            compare_rows(&sight, count, 0, same, q, d, shares, apart);
            for (long i = 0; i < count; i++) {
                if (i) compare_rows(&sight, 1, same, same + i, q + i * d, 0, shares + i * apart, apart);
                soften(shares + i * apart, same + i);
            }
            weigh_rows(&sight, count, 0, same, shares, apart, out, d);
            for (long i = 1; i < count; i++)
                weigh_rows(&sight, 1, same, same + i, shares + i * apart, apart, out + i * d, d);
        }
    }
}

/* Queries, keys and values of some positions, joint (rows, 3 D), to where they are looked for. */
static void remember(const texts_t *t, long first, long rows, const float *joint) {
    const stack_t *s = t->stack;
    const long d = s->width, size = d / s->heads;
    for (long r = 0; r < rows; r++, joint += 3 * d) {
        memcpy(t->q + (first + r) * d, joint, sizeof(float) * d);
        for (long h = 0; h < s->heads; h++) {
            const long at = ((t->row[first + r] * s->heads + h) * s->room + t->place[first + r]) * size;
            memcpy(s->stores[2 * t->layer] + at, joint + d + h * size, sizeof(float) * size);
            memcpy(s->stores[2 * t->layer + 1] + at, joint + 2 * d + h * size, sizeof(float) * size);
        }
    }
}

static void text_part(const job_t *job, long task) {
    const texts_t *t = job->data;
    const stack_t *s = t->stack;
    const layer_t *layer = s->layers + t->layer;
    const long first = task * t->at_once, rows = t->rows - first < t->at_once ? t->rows - first : t->at_once;
    const long d = s->width, widest = 3 * d > s->units ? 3 * d : s->units;
    const long longest = s->room > s->source_length ? s->room : s->source_length;
    float *h = numbers(rows * (2 * d + widest) + ABREAST * (longest + FLOATS)), *context = h + rows * d;
    float *wide = context + rows * d, *shares = wide + rows * widest, *x = t->x + first * d;
    if (t->layer) {
        attend_before(t, first, rows, context, shares);
        go_on(s, t->layer - 1, t->row + first, rows, x, h, context, wide, shares);
    }
    multiply(layer, JOINT, enter(s, layer, 0, x, h, rows), rows, d, 3 * d, wide);
    remember(t, first, rows, wide);
    free(h);
}

/* x (rows, D), which is written over; q is room for as much. */
void stack_read(const stack_t *s, float *x, float *q, const long *row, const long *place, long rows, long threads,
                parallel_t parallel) {
    const long share_of_each = (rows + threads - 1) / threads, at_once = share_of_each < FILL ? share_of_each : FILL;
    for (long layer = 0; layer < s->count; layer++) {
        const texts_t texts = {s, x, q, row, place, rows, at_once, layer};
        job_t job = {text_part, (rows + at_once - 1) / at_once, 0, &texts};
        share(&job, threads, parallel);
    }
}
