/* y = x Wᵀ + b, then relu if wanted, with weights that were packed once (packed_linear.py declares packed_linear_t).
   Follows arithmetic.c. Everything is float32 and row by row; strides count numbers. */

long panel_size(void) { return PANEL; }

void pack_linear(const float *weight, long stride, long depth, long width, float *packed) {
    pack(weight, 1, stride, depth, width, packed);
}

enum { CHECKSUM_BLOCK = 1 << 16 };

typedef struct {
    const unsigned *x;
    long count;
    unsigned long *sums; /* one per block */
} checksum_t;

static unsigned long checksum_of(const checksum_t *c, long block) {
    const unsigned *x = c->x + block * CHECKSUM_BLOCK;
    const long rest = c->count - block * CHECKSUM_BLOCK, count = rest < CHECKSUM_BLOCK ? rest : CHECKSUM_BLOCK;
    unsigned strand[16] = {0};
    unsigned long sum = (unsigned long)count;
    long i = 0;
    for (; i + 16 <= count; i += 16)
        for (int j = 0; j < 16; j++) strand[j] = strand[j] * 0x9E3779B1u + x[i + j];
    for (; i < count; i++) sum = sum * 0x9E3779B97F4A7C15ul + x[i];
    for (int j = 0; j < 16; j++) sum = sum * 0x9E3779B97F4A7C15ul + strand[j];
    return sum;
}

static int checksum_task(const job_t *job, long block) {
    const checksum_t *c = job->data;
    c->sums[block] = checksum_of(c, block);
    return 0;
}

/* A number that changes with the weights; packed weights are made again when it differs. Without memory for the sums of
   the blocks they are made one after the other. */
long checksum(const unsigned *x, long count, long threads, parallel_t parallel) {
    const long blocks = (count + CHECKSUM_BLOCK - 1) / CHECKSUM_BLOCK;
    const checksum_t c = {.x = x, .count = count, .sums = malloc(sizeof(long) * (blocks + 1))};
    job_t job = {.work = checksum_task, .tasks = blocks, .data = &c};
    unsigned long sum = (unsigned long)count;
    if (c.sums) share(&job, threads, parallel);
    for (long block = 0; block < blocks; block++)
        sum = sum * 0x9E3779B97F4A7C15ul + (c.sums ? c.sums[block] : checksum_of(&c, block));
    free(c.sums);
    return (long)sum;
}

typedef struct {
    const packed_linear_t *packed;
    const float *x;
    float *y;
    long rows, x_stride, y_stride, panels; /* panels of a task */
    int relu;
} linear_t;

static int linear_part(const job_t *job, long task) {
    const linear_t *l = job->data;
    const packed_linear_t *p = l->packed;
    const long all = padded(p->width) / PANEL, from = task * l->panels * PANEL;
    const long end = (task + 1) * l->panels < all ? (task + 1) * l->panels * PANEL : all * PANEL;
    for (long i = 0; i < l->rows; i += ROWS_PER_PANEL) {
        const long count = l->rows - i < ROWS_PER_PANEL ? l->rows - i : ROWS_PER_PANEL;
        float *y = l->y + i * l->y_stride + from;
        product_of(count, l->x + i * l->x_stride, l->x_stride, p->weight + from * p->depth, p->depth, end - from,
                   p->bias ? p->bias + from : 0, y, l->y_stride);
        if (l->relu)
            for (long r = 0; r < count; r++)
                for (long n = 0; n < end - from; n++) {
                    float *value = y + r * l->y_stride + n;
                    *value = *value > 0.0f ? *value : 0.0f;
                }
    }
    return 0;
}

/* The bias and the rows of y are padded to whole panels. */
int linear(const packed_linear_t *packed, const float *x, long rows, long x_stride, float *y, long y_stride, long relu,
           long threads, parallel_t parallel) {
    const long all = padded(packed->width) / PANEL;
    /* Parts of the weights that stay in a core's cache while all rows pass, but at least two parts per thread. */
    long panels = 32768 / (packed->depth * PANEL) + 1;
    if (panels * 2 * threads > all) panels = all / (2 * threads) + 1;
    const linear_t l = {.packed = packed, .x = x, .y = y, .rows = rows, .x_stride = x_stride, .y_stride = y_stride,
                        .panels = panels, .relu = (int)relu};
    job_t job = {.work = linear_part, .tasks = (all + panels - 1) / panels, .data = &l};
    return share(&job, threads, parallel);
}
