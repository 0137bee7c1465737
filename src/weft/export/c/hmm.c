/* A hidden Markov model: the scores of the tags of single words from their counts, endings and shapes (weft.models.hmm),
   and for order 2 the likeliest tags and their probabilities where a tag depends on the two before it. */

/* Add to `counts` how often a thing has each tag; their sum. */
static float hmm_counts(const int32_t *offsets, const int32_t *tags, const float *numbers, long pairs, long thing,
                        float *counts)
{
    float total = 0.0f;
    for (long j = 0; j < WEFT_LABELS; j++) counts[j] = 0.0f;
    for (long at = offsets[thing] < 0 ? 0 : offsets[thing]; at < offsets[thing + 1] && at < pairs; at++)
        if (tags[at] >= 0 && tags[at] < WEFT_LABELS) counts[tags[at]] += numbers[at], total += numbers[at];
    return total;
}

/* The shape of a word of letters. */
static int hmm_shape(const weft_model *m, long letters)
{
    long upper = 0, lower = 0, digits = 0, hyphens = 0;
    for (long n = 0; n < letters; n++) {
        const int32_t kind = HMM_CLASSES(m)[m->ids[n]];
        upper += kind == 0, lower += kind == 1, digits += kind == 2, hyphens += kind == 3;
    }
    const int first = letters > 0 && HMM_CLASSES(m)[m->ids[0]] == 0;
    int shape = first ? 1 : 0;
    if (upper > 1 && lower == 0) shape = 2;
    if (hyphens > 0 && upper + lower > 0) shape = first ? 4 : 3;
    if (digits > 0) shape = upper + lower > 0 ? 6 : 5;
    return digits == 0 && upper + lower == 0 ? 7 : shape;
}

/* The child of a node of the tree of endings, or -1. */
static int32_t hmm_child(const weft_model *m, int32_t node, int32_t symbol)
{
    int32_t begin = HMM_BEGINS(m)[node], end = HMM_BEGINS(m)[node + 1];
    begin = begin < 0 ? 0 : begin, end = end > HMM_KEYS ? HMM_KEYS : end;
    for (; begin < end; begin++)
        if (HMM_SYMBOLS(m)[begin] == symbol) return begin + 1;
    return -1;
}

/* log P(tag | word) / P(tag) of a word whose letters are in m->ids. */
static void hmm_word(weft_model *m, int32_t word, long letters, float *scores)
{
    float *const guess = m->best, *const counts = m->best + WEFT_LABELS;
    float total = hmm_counts(HMM_ENDING_OFFSETS(m), HMM_ENDING_TAGS(m), HMM_ENDING_COUNTS(m), HMM_ENDING_PAIRS, 0, counts);
    for (long j = 0; j < WEFT_LABELS; j++) guess[j] = (counts[j] + 1.0f) / (total + (float)WEFT_LABELS);
    int32_t node = 0;
    for (long level = 0; level <= HMM_LONGEST && node >= 0; level++) {
        if (level > letters) break;
        node = hmm_child(m, node, level ? m->ids[letters - level] + HMM_SHAPES : hmm_shape(m, letters));
        if (node < 0) break;
        total = hmm_counts(HMM_ENDING_OFFSETS(m), HMM_ENDING_TAGS(m), HMM_ENDING_COUNTS(m), HMM_ENDING_PAIRS, node, counts);
        for (long j = 0; j < WEFT_LABELS; j++) guess[j] = (counts[j] + 5.0f * guess[j]) / (total + 5.0f);
    }
    total = hmm_counts(HMM_WORD_OFFSETS(m), HMM_WORD_TAGS(m), HMM_WORD_COUNTS(m), HMM_WORD_PAIRS, word, counts);
    for (long j = 0; j < WEFT_LABELS; j++)
        scores[j] = logf((counts[j] + 0.5f * guess[j]) / (total + 0.5f) / HMM_PRIOR(m)[j]);
}

static double hmm_log_sum(const double *a, long count)
{
    double most = -INFINITY, total = 0.0;
    for (long i = 0; i < count; i++) most = a[i] > most ? a[i] : most;
    if (!(most > -INFINITY)) return -INFINITY;
    for (long i = 0; i < count; i++) total += exp(a[i] - most);
    return most + log(total);
}

/* States are pairs of tags (before, tag), (L + 1, L); the tag before the first word is the boundary, number L. */
static void hmm_decode(weft_model *m, long words)
{
    const long labels = WEFT_LABELS, pairs = (labels + 1) * labels;
    const float *const from = HMM_TRANSITIONS(m), *const end = HMM_END(m); /* (L + 1, L + 1, L), (L + 1, L) */
    double *const alpha = m->alpha, *const beta = alpha + words * pairs, *const onward = beta + pairs;
    double *const terms = onward + pairs;
    float *const best = m->pairs;
    for (long t = 0; t < words; t++) {
        const float *const u = m->logits + t * labels;
        for (long j = 0; j <= labels; j++)
            for (long k = 0; k < labels; k++) {
                const long at = t * pairs + j * labels + k;
                double sum = -INFINITY;
                float most = -INFINITY;
                if (t == 0) {
                    if (j == labels) sum = most = from[(labels * (labels + 1) + labels) * labels + k] + u[k];
                } else if (j < labels) {
                    for (long i = 0; i <= labels; i++) {
                        const float step = from[(i * (labels + 1) + j) * labels + k];
                        const float score = best[(t - 1) * pairs + i * labels + j] + step;
                        most = score > most ? score : most;
                        terms[i] = alpha[(t - 1) * pairs + i * labels + j] + (double)step;
                    }
                    sum = hmm_log_sum(terms, labels + 1) + (double)u[k], most += u[k];
                }
                alpha[at] = sum, best[at] = most;
            }
    }
    const long last = (words - 1) * pairs;
    long state = 0;
    for (long s = 0; s < pairs; s++) {
        beta[s] = (double)end[s], onward[s] = alpha[last + s] + beta[s];
        if (best[last + s] + end[s] > best[last + state] + end[state]) state = s;
    }
    const double all = hmm_log_sum(onward, pairs);
    long before = state / labels, tag = state % labels;
    for (long t = words - 1; t >= 0; t--) {
        for (long j = 0; j <= labels; j++)
            terms[j] = alpha[t * pairs + j * labels + tag] + beta[j * labels + tag];
        m->tags[t] = (int32_t)tag, m->shares[t] = (float)exp(hmm_log_sum(terms, labels + 1) - all);
        if (t == 0) break;
        long source = 0;
        float most = -INFINITY;
        for (long i = 0; i <= labels; i++) {
            const float score =
                best[(t - 1) * pairs + i * labels + before] + from[(i * (labels + 1) + before) * labels + tag];
            if (score > most) most = score, source = i;
        }
        tag = before, before = source;
        for (long j = 0; j <= labels; j++)
            for (long k = 0; k < labels; k++) {
                for (long l = 0; l < labels; l++)
                    terms[l] = (double)from[(j * (labels + 1) + k) * labels + l] +
                               (double)m->logits[t * labels + l] + beta[k * labels + l];
                onward[j * labels + k] = hmm_log_sum(terms, labels);
            }
        memcpy(beta, onward, (size_t)pairs * sizeof *beta);
    }
}
