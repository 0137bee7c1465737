/* The next token from counts of n-grams. A state are nodes: node k is the index of the last k tokens among the k-grams,
   NGRAM_UNSEEN where they were never seen together, NGRAM_SHORT where fewer were read. */
enum { NGRAM_UNSEEN = -1, NGRAM_SHORT = -2 };

/* The words that follow context c are words[begins[c]] to words[begins[c + 1] - 1], in rising order. */
typedef struct {
    const int32_t *begins, *words;
    const float *logs, *backoffs;
    int32_t contexts, count;
} ngram_table;

static void ngram_range(const ngram_table *t, int32_t context, int32_t *begin, int32_t *end)
{
    *begin = t->begins[context] < 0 ? 0 : t->begins[context] > t->count ? t->count : t->begins[context];
    *end = t->begins[context + 1] > t->count ? t->count : t->begins[context + 1];
}

/* The index of a context of order - 1 tokens and a word among the n-grams of an order. */
static int32_t ngram_find(const weft_model *m, int order, int32_t context, int32_t word)
{
    const ngram_table t = ngram_of(m, order);
    int32_t begin, end;
    if (order == 1) return word;
    if (context < 0 || context >= t.contexts) return NGRAM_UNSEEN;
    ngram_range(&t, context, &begin, &end);
    const int32_t last = end;
    while (begin < end) {
        const int32_t middle = begin + (end - begin) / 2;
        if (t.words[middle] < word)
            begin = middle + 1;
        else
            end = middle;
    }
    return begin < last && t.words[begin] == word ? begin : NGRAM_UNSEEN;
}

static void state_arrange(weft_model *m, weft_state *s, const weft_state *first, long longest, int follows)
{
    (void)first, (void)longest, (void)follows;
    s->field[0] = weft_take(m, 4 * NGRAM_ORDER);
}

static void state_share(const weft_state *from, weft_state *to)
{
    (void)from, (void)to;
}

static size_t state_numbers(int field, long n_source, long n_past)
{
    (void)field, (void)n_source, (void)n_past;
    return NGRAM_ORDER;
}

static int state_begin(weft_model *m, weft_state *s)
{
    int32_t *const nodes = (int32_t *)(void *)s->field[0];
    (void)m;
    for (int n = 0; n < NGRAM_ORDER; n++) nodes[n] = n ? NGRAM_SHORT : 0;
    return 0;
}

static int state_step(weft_model *m, const weft_state *before, weft_state *after, int32_t token, long past,
                      float *logits)
{
    static const int32_t never[] = {NGRAM_NEVER};
    const int32_t *const old = (const int32_t *)(const void *)before->field[0];
    int32_t *const nodes = (int32_t *)(void *)after->field[0];
    (void)past;
    nodes[0] = 0;
    for (int n = 1; n < NGRAM_ORDER; n++)
        nodes[n] = old[n - 1] == NGRAM_SHORT ? NGRAM_SHORT : ngram_find(m, n, old[n - 1], token);
    memcpy(logits, ngram_of(m, 1).logs, WEFT_VOCABULARY * sizeof *logits);
    for (int n = 1; n < NGRAM_ORDER; n++) {
        const ngram_table shorter = ngram_of(m, n), longer = ngram_of(m, n + 1);
        const int32_t node = nodes[n];
        const int seen = node >= 0 && node < shorter.count && node < longer.contexts;
        const float weight = seen ? shorter.backoffs[node] : 0.0f;
        if (NGRAM_BACKS_OFF) {
            for (long v = 0; v < WEFT_VOCABULARY; v++) logits[v] += weight;
        } else if (node != NGRAM_SHORT) {
            for (long v = 0; v < WEFT_VOCABULARY; v++) logits[v] = seen ? weight : NGRAM_UNIFORM;
        }
        if (!seen) continue;
        int32_t begin, end;
        ngram_range(&longer, node, &begin, &end);
        for (int32_t at = begin; at < end; at++)
            if (longer.words[at] >= 0 && longer.words[at] < WEFT_VOCABULARY)
                logits[longer.words[at]] = longer.logs[at];
    }
    for (size_t n = 0; n < sizeof never / sizeof *never; n++) logits[never[n]] = -INFINITY;
    for (long v = 0; v < WEFT_VOCABULARY; v++)
        if (logits[v] < -5e29f) logits[v] = -INFINITY;
    return 0;
}
