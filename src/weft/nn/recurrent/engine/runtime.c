/* The base of every generated recurrence, after arithmetic.c; the generated code follows. call.py declares recurrence_t. */

static void product(
    long rows, const float *const *a, const float *packed, long depth, long width, const float *bias, float *c) {
    product_into(rows, a, packed, depth, width, bias, c, padded(width));
}

/* A call and its packed weights: per direction, one for each product, then one padded bias for each. */
typedef struct {
    const recurrence_t *call;
    float **packed;
} packed_call_t;

/* Rows k, k + blocks, k + 2 blocks, ... of the order, so that every block gets long and short rows. */
static long take_rows(const recurrence_t *call, long block, long *rows) {
    long count = 0;
    for (long r = block; r < call->batch; r += call->blocks) rows[count++] = call->order[r];
    return count;
}
