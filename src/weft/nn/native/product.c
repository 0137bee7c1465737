/* Products of many rows, each at an address of its own, after arithmetic.c: what stands before and after a loop over
   time. Who takes which task changes no number. */

#define SOME_ROWS (4 * TILE_ROWS) /* that share a panel while it is in the first cache */
#define SOME_PANELS 16

typedef struct {
    const float *const *left; /* addresses of rows */
    const float *weight;
    float *const *to; /* of those of the result */
    float *packed;
    long count, depth, width, down, across;
} product_t;

static inline long least(long a, long b) { return a < b ? a : b; }

static inline long parts(long whole, long size) { return (whole + size - 1) / size; }

/* As many tasks for every thread, of at most `size` each. */
static void in_tasks(
    const product_t *p, long whole, long size, int (*work)(const job_t *, long), long threads, parallel_t parallel) {
    job_t job = {.work = work, .tasks = least(whole, parts(whole, size * threads) * threads), .data = p};
    share(&job, threads, parallel);
}

/* A share of the panels of the weight. */
static int pack_weight(const job_t *job, long task) {
    const product_t *p = job->data;
    const long panels = parts(p->width, PANEL), n = panels * task / job->tasks * PANEL;
    const long end = least(p->width, panels * (task + 1) / job->tasks * PANEL);
    pack(p->weight + n * p->across, p->down, p->across, p->depth, end - n, p->packed + n * p->depth);
    return 0;
}

/* A share of the rows. The last panel may reach beyond the width: that one goes by way of `edge`. */
static int multiply_rows(const job_t *job, long task) {
    const product_t *p = job->data;
    const long whole = p->width / PANEL * PANEL, rest = p->width - whole;
    const long first = p->count * task / job->tasks, end = p->count * (task + 1) / job->tasks;
    float edge[SOME_ROWS * PANEL];
    for (long i = first, rows; i < end; i += rows) {
        rows = least(SOME_ROWS, end - i);
        product_at(rows, p->left + i, p->packed, p->depth, whole, 0, p->to + i);
        if (!rest) continue;
        product_into(rows, p->left + i, p->packed + whole * p->depth, p->depth, rest, 0, edge, PANEL);
        for (long r = 0; r < rows; r++) memcpy(p->to[i + r] + whole, edge + r * PANEL, sizeof(float) * rest);
    }
    return 0;
}

/* to[i] (width) = left[i] (depth) @ weight (depth x width, element (k, n) at k * down + n * across). */
void multiply(
    const float *const *left, const float *weight, float *const *to, long count, long depth, long width, long down,
    long across, long threads, parallel_t parallel) {
    float *packed = numbers(depth * padded(width));
    const product_t p = {left, weight, to, packed, count, depth, width, down, across};
    in_tasks(&p, parts(width, PANEL), SOME_PANELS, pack_weight, threads, parallel);
    in_tasks(&p, count, SOME_ROWS, multiply_rows, threads, parallel);
    free(packed);
}
