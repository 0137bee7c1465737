/* Products of two matrices, for product.py. Follows arithmetic.c. Strides count numbers.

   A product is cut into tasks, each with some rows of the result and all of the sum. So every number of the result is
   added up in one order, whatever the number of threads. */

enum {
    ROWS_PER_TASK = 256,   /* of the result */
    DEPTH_PER_BLOCK = 256, /* terms of the sums that are packed at once: the two parts stay in a core's caches */
    TASKS_PER_THREAD = 4,
};

/* ---- c = a @ b + bias ---- */

typedef struct {
    const float *a, *b;
    float *packed, *bias, *c; /* panels of b; the bias filled up to whole panels, or NULL */
    long a_row, down, across, c_row, rows, depth, width;
    long row_tasks, rows_each, panels_each;
} multiplication_t;

static int pack_panel(const job_t *job, long panel) {
    const multiplication_t *m = job->data;
    const long from = panel * PANEL, real = m->width - from < PANEL ? m->width - from : PANEL;
    pack(m->b + from * m->across, m->down, m->across, m->depth, real, m->packed + from * m->depth);
    return 0;
}

static int multiply_part(const job_t *job, long task) {
    const multiplication_t *m = job->data;
    const long first = task % m->row_tasks * m->rows_each, from = task / m->row_tasks * m->panels_each * PANEL;
    const long last = first + m->rows_each < m->rows ? first + m->rows_each : m->rows;
    const long to = from + m->panels_each * PANEL < m->width ? from + m->panels_each * PANEL : m->width;
    const long whole = from + (to - from) / PANEL * PANEL;
    const float *at[ROWS_PER_PANEL];
    for (long i = first; i < last; i += ROWS_PER_PANEL) {
        const long count = last - i < ROWS_PER_PANEL ? last - i : ROWS_PER_PANEL;
        for (long r = 0; r < count; r++) at[r] = m->a + (i + r) * m->a_row;
        product_into(count, at, m->packed + from * m->depth, m->depth, whole - from, m->bias ? m->bias + from : 0,
                     m->c + i * m->c_row + from, m->c_row);
        if (whole < to) { /* a part of a panel, which has no room in the result */
            float edge[ROWS_PER_PANEL * PANEL];
            product_into(count, at, m->packed + whole * m->depth, m->depth, PANEL, m->bias ? m->bias + whole : 0, edge,
                         PANEL);
            for (long r = 0; r < count; r++)
                memcpy(m->c + (i + r) * m->c_row + whole, edge + r * PANEL, sizeof(float) * (to - whole));
        }
    }
    return 0;
}

/* a (rows, depth) with contiguous rows, b (depth, width) with any strides, bias (width) or NULL -> c (rows, width). */
int multiply(const float *a, long a_row, const float *b, long down, long across, const float *bias, float *c, long c_row,
             long rows, long depth, long width, long threads, parallel_t parallel) {
    const long panels = padded(width) / PANEL, wanted = TASKS_PER_THREAD * threads;
    multiplication_t m = {.a = a, .b = b, .c = c, .a_row = a_row, .down = down, .across = across, .c_row = c_row,
                          .rows = rows, .depth = depth, .width = width, .packed = numbers(padded(width) * depth),
                          .bias = bias ? numbers(padded(width)) : 0};
    const int failed = !m.packed || (bias && !m.bias);
    if (failed) goto end;
    if (bias) {
        memcpy(m.bias, bias, sizeof(float) * width);
        memset(m.bias + width, 0, sizeof(float) * (padded(width) - width));
    }
    /* Rows are shared out; of few rows panels too. */
    m.rows_each = ROWS_PER_TASK < rows ? ROWS_PER_TASK : rows;
    m.row_tasks = (rows + m.rows_each - 1) / m.rows_each;
    const long groups = m.row_tasks < wanted ? (wanted + m.row_tasks - 1) / m.row_tasks : 1;
    m.panels_each = (panels + groups - 1) / groups;
    job_t packing = {.work = pack_panel, .tasks = panels, .data = &m};
    share(&packing, threads, parallel);
    job_t job = {.work = multiply_part, .tasks = m.row_tasks * ((panels + m.panels_each - 1) / m.panels_each), .data = &m};
    share(&job, threads, parallel);
end:
    free(m.packed);
    free(m.bias);
    return failed;
}

/* ---- c = aᵀ @ b, or c + aᵀ @ b: long sums, few rows ---- */

typedef struct {
    const float *a, *b;
    float *c;
    long a_row, b_row, c_row, depth, rows, width, rows_each, add;
} transposed_t;

/* Add the products of a block's terms to the sums of a tile: a is (depth, TILE_ROWS), the panel (depth, PANEL). */
static void add_terms(const float *a, const float *panel, long depth, float *sums) {
    vec sum[TILE_ROWS][2];
#pragma GCC unroll 8
    for (int i = 0; i < TILE_ROWS; i++)
        for (int j = 0; j < 2; j++) sum[i][j] = *(const vec *)(sums + i * PANEL + j * FLOATS);
    for (long k = 0; k < depth; k++, a += TILE_ROWS, panel += PANEL) {
        vec b[2] = {*(const vec *)panel, *(const vec *)(panel + FLOATS)};
        HOLD(b[0]);
        HOLD(b[1]);
#pragma GCC unroll 8
        for (int i = 0; i < TILE_ROWS; i++) {
            const vec x = a[i] - (vec){0};
            sum[i][0] += x * b[0];
            sum[i][1] += x * b[1];
        }
    }
#pragma GCC unroll 8
    for (int i = 0; i < TILE_ROWS; i++)
        for (int j = 0; j < 2; j++) *(vec *)(sums + i * PANEL + j * FLOATS) = sum[i][j];
}

/* Columns of some rows of x -> parts of `each` columns, each (rows, each); the last is filled up with zeros. */
static inline __attribute__((always_inline)) void pack_rows(
    const float *x, long stride, long rows, long columns, const long each, float *packed) {
    const long whole = columns / each, rest = columns % each;
    for (long k = 0; k < rows; k++, x += stride) {
        for (long part = 0; part < whole; part++)
            memcpy(packed + (part * rows + k) * each, x + part * each, sizeof(float) * each);
        if (rest) {
            float *to = packed + (whole * rows + k) * each;
            memset(to, 0, sizeof(float) * each);
            memcpy(to, x + whole * each, sizeof(float) * rest);
        }
    }
}

static int transposed_part(const job_t *job, long task) {
    const transposed_t *t = job->data;
    const long first = task * t->rows_each, left = t->rows - first;
    const long rows = left < t->rows_each ? left : t->rows_each;
    const long tiles = (rows + TILE_ROWS - 1) / TILE_ROWS, panels = padded(t->width) / PANEL;
    const long cells = panels * tiles * TILE_ROWS * PANEL;
    float *sums = numbers(cells), *a = numbers(tiles * TILE_ROWS * DEPTH_PER_BLOCK);
    float *b = numbers(panels * PANEL * DEPTH_PER_BLOCK);
    const int failed = !sums || !a || !b;
    for (long i = 0; !failed && i < cells; i++) sums[i] = 0.0f;
    for (long k = 0; !failed && k < t->depth; k += DEPTH_PER_BLOCK) {
        const long depth = t->depth - k < DEPTH_PER_BLOCK ? t->depth - k : DEPTH_PER_BLOCK;
        pack_rows(t->a + k * t->a_row + first, t->a_row, depth, rows, TILE_ROWS, a);
        pack_rows(t->b + k * t->b_row, t->b_row, depth, t->width, PANEL, b);
        for (long n = 0; n < panels; n++)
            for (long i = 0; i < tiles; i++)
                add_terms(a + i * TILE_ROWS * depth, b + n * PANEL * depth, depth,
                          sums + (n * tiles + i) * TILE_ROWS * PANEL);
    }
    for (long n = 0; !failed && n < panels; n++) {
        const long real = t->width - n * PANEL < PANEL ? t->width - n * PANEL : PANEL;
        for (long i = 0; i < rows; i++) {
            float *to = t->c + (first + i) * t->c_row + n * PANEL;
            const float *sum = sums + (n * tiles * TILE_ROWS + i) * PANEL;
            for (long j = 0; j < real; j++) to[j] = t->add ? to[j] + sum[j] : sum[j];
        }
    }
    free(sums);
    free(a);
    free(b);
    return failed;
}

/* a (depth, rows), b (depth, width), both with contiguous rows -> c (rows, width), or added to it. */
int multiply_transposed(const float *a, long a_row, const float *b, long b_row, float *c, long c_row, long depth,
                        long rows, long width, long add, long threads, parallel_t parallel) {
    long each = ((rows + threads - 1) / threads + TILE_ROWS - 1) / TILE_ROWS * TILE_ROWS;
    if (each > ROWS_PER_TASK) each = ROWS_PER_TASK;
    const transposed_t t = {.a = a, .b = b, .c = c, .a_row = a_row, .b_row = b_row, .c_row = c_row, .depth = depth,
                            .rows = rows, .width = width, .rows_each = each, .add = add};
    job_t job = {.work = transposed_part, .tasks = (rows + each - 1) / each, .data = &t};
    return share(&job, threads, parallel);
}
