/* Subwords by a unigram model: the cut of a word whose pieces have the highest sum of log-probabilities (Viterbi).

       best(end) = max over pieces from start to end of best(start) + score(piece)

   Of equal sums the piece that starts first stays. Pieces are found in a trie of bytes. */

enum { NO_NODE = 0 }; /* the root is no child */

/* The end of the best cut up to a byte of a word: its sum, and its last piece. */
typedef struct {
    double *sum;
    int32_t *start, *id;
} unigram_word;

enum { UNIGRAM_BYTES = 8 + 2 * 4 };

/* Lay out the arrays of a word of less than `capacity` bytes in a workspace. */
static unigram_word unigram_arrays(void *workspace, size_t capacity) {
    unigram_word w;
    w.sum = workspace;
    w.start = (int32_t *)(void *)(w.sum + capacity);
    w.id = w.start + capacity;
    return w;
}

static uint32_t child_of(const weft_text *t, uint32_t node, unsigned char label) {
    uint32_t low = u32_at(t, CHILDREN, node), high = u32_at(t, CHILDREN, node + 1);
    if (high - low == 256) return low + label;
    while (low < high) {
        uint32_t middle = low + (high - low) / 2;
        unsigned char found = u8_at(t, LABELS, middle);
        if (found == label) return middle;
        if (found < label) low = middle + 1;
        else high = middle;
    }
    return NO_NODE;
}

static void offer(unigram_word *w, size_t start, size_t end, double sum, int32_t id) {
    if (w->start[end] >= 0 && !(sum > w->sum[end])) return;
    w->sum[end] = sum;
    w->start[end] = (int32_t)start;
    w->id[end] = id;
}

/* Find the best cut of a word of n > 0 bytes; its pieces stand reversed, from `id[n]` to `start[n]` and so on. */
static void cut_word(const weft_text *t, unigram_word *w, const unsigned char *p, size_t n) {
    for (size_t i = 0; i <= n; i++) w->start[i] = -1;
    w->sum[0] = 0.0;
    for (size_t start = 0; start < n; start++) {
        uint32_t node = 0;
        int alone = 0;
        for (size_t end = start; end < n && (node = child_of(t, node, p[end])) != NO_NODE;) {
            uint32_t value = u32_at(t, VALUES, node);
            end++;
            if (value == 0) continue;
            offer(w, start, end, w->sum[start] + f64_at(t, SCORES, value - 1), (int32_t)(value - 1));
            alone |= end == start + 1;
        }
        if (!alone) offer(w, start, start + 1, w->sum[start] + t->unknown_score, WEFT_UNK);
    }
}
