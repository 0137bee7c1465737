/* What writing token by token needs on a CPU, for a few rows at a time: products and attention of one query.
   Follows arithmetic.c. Everything is float32 and row by row; strides count numbers. */

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

enum { BLOCK = 1 << 16 };

typedef struct {
    const unsigned *x;
    long count;
    unsigned long *found;
} checksum_t;

static void checksum_block(const job_t *job, long block) {
    const checksum_t *c = job->data;
    const unsigned *x = c->x + block * BLOCK;
    const long count = c->count - block * BLOCK < BLOCK ? c->count - block * BLOCK : BLOCK;
    unsigned strand[16] = {0};
    unsigned long sum = (unsigned long)count;
    long i = 0;
    for (; i + 16 <= count; i += 16)
        for (int j = 0; j < 16; j++) strand[j] = strand[j] * 0x9E3779B1u + x[i + j];
    for (; i < count; i++) sum = sum * 0x9E3779B97F4A7C15ul + x[i];
    for (int j = 0; j < 16; j++) sum = sum * 0x9E3779B97F4A7C15ul + strand[j];
    c->found[block] = sum;
}

/* A number that changes with the weights, by which to know whether they were packed as they are. */
long checksum(const unsigned *x, long count, long threads, parallel_t parallel) {
    const long blocks = (count + BLOCK - 1) / BLOCK;
    unsigned long *found = malloc(sizeof(long) * (blocks + 1)), sum = (unsigned long)count;
    const checksum_t c = {x, count, found};
    job_t job = {checksum_block, blocks, 0, &c};
    share(&job, threads, parallel);
    for (long block = 0; block < blocks; block++) sum = sum * 0x9E3779B97F4A7C15ul + found[block];
    free(found);
    return (long)sum;
}

static void linear_part(const job_t *job, long task) {
    const linear_t *l = job->data;
    const long all = padded(l->width) / PANEL, from = task * l->panels * PANEL;
    const long end = (task + 1) * l->panels < all ? (task + 1) * l->panels * PANEL : all * PANEL;
    for (long i = 0; i < l->rows; i += SOME) {
        const long count = l->rows - i < SOME ? l->rows - i : SOME;
        float *y = l->y + i * l->y_stride + from;
        product_of(count, l->x + i * l->x_stride, l->x_stride, l->packed + from * l->depth, l->depth, end - from,
                   l->bias ? l->bias + from : 0, y, l->y_stride);
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
