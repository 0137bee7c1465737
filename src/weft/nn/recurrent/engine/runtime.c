/* What every generated recurrence stands on, after arithmetic.c; the generated code follows this text in one file. */

static void product(
    long rows, const float *const *a, const float *packed, long depth, long width, const float *bias, float *c) {
    product_into(rows, a, packed, depth, width, bias, c, padded(width));
}

/* One call: tensors, sizes and packed weights by number, the rows of the batch longest first. */
typedef struct {
    float *const *tensors; /* per direction, those of its slots */
    const long *n;
    const long *length, *order; /* of each row of the batch: its steps; its rank */
    const long *base, *room;    /* where its steps begin in buffers that are not seen outside, and how many fit there */
    const char *reverse;
    float **packed; /* per direction, one for each product, then one padded bias for each */
    long batch, time, blocks;
} call_t;

/* Rows k, k + blocks, k + 2 blocks, ... of the order: every block gets long and short rows alike. */
static long take_rows(const call_t *call, long block, long *rows) {
    long count = 0;
    for (long r = block; r < call->batch; r += call->blocks) rows[count++] = call->order[r];
    return count;
}
