#if WEFT_SPELLED
/* The vector of the letters of a word. Those of words that came before are kept, until another word has their place. */
static long weft_spell(weft_model *m, const char *word, size_t size, float *spelled)
{
    uint32_t hash = 2166136261u;
    for (size_t n = 0; n < size; n++) hash = (hash ^ (unsigned char)word[n]) * 16777619u;
    const uint32_t place = (hash ^ hash >> 16) % WEFT_SPELLINGS;
    float *const kept = m->spellings + (size_t)place * WEFT_SPELLED;
    char *const name = m->spelling_words + place * 32;
    if (size < 32 && (unsigned char)name[31] == size && memcmp(name, word, size) == 0) {
        memcpy(spelled, kept, WEFT_SPELLED * sizeof *kept);
        return 0;
    }
    const long letters = weft_read(m, 1, word, size, 0);
    if (letters < 0) return letters;
    const int error = graph_spell(m, letters, m->ids, spelled);
    if (error || size >= 32) return error;
    memcpy(kept, spelled, WEFT_SPELLED * sizeof *kept);
    memcpy(name, word, size);
    name[31] = (char)size;
    return 0;
}
#endif

/* Words of a line with the scores of their tags in m->logits; the number of words, or an error. */
#if WEFT_FEATURES
static long weft_tag_words(weft_model *m, const char *line, size_t count, int words_given)
{
    (void)words_given;
    const long steps = weft_read_features(m, line, count);
    if (steps < 0) return steps;
    if (steps > WEFT_POSITIONS) return WEFT_TOO_LONG;
    const int error = graph_forward(m, steps, m->features, m->logits);
    return error ? error : steps;
}
#else
/* The words of a line: split as a sentence, or given with tabs between them. */
static long weft_split_line(weft_model *m, const weft_text *text, const char *line, size_t count, int words_given)
{
    const size_t capacity = (size_t)m->limits.tokens;
    return words_given ? weft_text_fields(line, count, m->words, capacity)
                       : weft_text_split(text, line, count, m->words, capacity);
}

#if WEFT_SUBWORDS
static long weft_tag_words(weft_model *m, const char *line, size_t count, int words_given)
{
    const long words = weft_split_line(m, &m->text[1], line, count, words_given);
    long at = 0;
    if (words <= 0) return words == WEFT_TEXT_UTF8 ? WEFT_NOT_UTF8 : words < 0 ? WEFT_TOO_LONG : 0;
    for (int n = 0; n < WEFT_FRAME_START; n++) at = weft_add(m, WEFT_SOS, at);
    for (long n = 0; n < words; n++) {
        const char *word = line + m->words[n].start;
        size_t size = m->words[n].size;
        const long first = at;
        m->word_ids[n] = (int32_t)at; /* the place of its first subword */
#if WEFT_WORD_BLANK
        m->word[0] = ' ';
        memcpy(m->word + 1, word, size);
        word = m->word, size++;
#endif
        at = weft_read(m, 0, word, size, at);
        if (at == first) at = weft_add(m, WEFT_UNK, at);
        if (at < 0) return at;
    }
    at = weft_add(m, WEFT_EOS, at);
    if (at < 0) return at;
    if (at > WEFT_POSITIONS) return WEFT_TOO_LONG;
    const int error = graph_forward(m, at, words, m->ids, m->word_ids, m->logits);
    return error ? error : words;
}
#else
static long weft_tag_words(weft_model *m, const char *line, size_t count, int words_given)
{
    const long words = weft_split_line(m, &m->text[0], line, count, words_given);
    if (words < 0) return words == WEFT_TEXT_UTF8 ? WEFT_NOT_UTF8 : WEFT_TOO_LONG;
    if (words > WEFT_POSITIONS) return WEFT_TOO_LONG;
    for (long n = 0; n < words; n++) {
        const char *const word = line + m->words[n].start;
        m->word_ids[n] = weft_text_word(&m->text[0], word, m->words[n].size);
#if WEFT_HMM
        const long letters = weft_read(m, 1, word, m->words[n].size, 0);
        if (letters < 0) return letters;
        hmm_word(m, m->word_ids[n], letters, m->logits + n * WEFT_LABELS);
#endif
#if WEFT_SPELLED
        const long error = weft_spell(m, word, m->words[n].size, m->spelled + n * WEFT_SPELLED);
        if (error < 0) return error;
#endif
    }
    if (words == 0) return 0;
#if WEFT_HMM
    return words;
#else
#if WEFT_SPELLED
    const int error = graph_forward(m, words, m->word_ids, m->spelled, m->logits);
#else
    const int error = graph_forward(m, words, m->word_ids, m->logits);
#endif
    return error ? error : words;
#endif
}
#endif
#endif

#if WEFT_PAIRS
static void weft_decode_tags(weft_model *m, long words)
{
    hmm_decode(m, words);
}
#else
#if WEFT_CRF
/* log sum exp(a[i]) */
static double weft_log_sum(const double *a, long count)
{
    double most = -INFINITY, total = 0.0;
    for (long i = 0; i < count; i++) most = a[i] > most ? a[i] : most;
    if (!(most > -INFINITY)) return -INFINITY;
    for (long i = 0; i < count; i++) total += exp(a[i] - most);
    return most + log(total);
}

/* The likeliest tags of a chain, and the probability of each at its word (see weft.nn.crf). */
static void weft_decode_tags(weft_model *m, long words)
{
    const float *const start = WEFT_CRF_START(m), *const from = WEFT_CRF_TRANSITIONS(m), *const end = WEFT_CRF_END(m);
    const long labels = WEFT_LABELS;
    float *const best = m->best, *const reached = m->best + labels;
    double *const alpha = m->alpha, *const beta = m->alpha + words * labels, *const terms = beta + 2 * labels;
    for (long j = 0; j < labels; j++) {
        best[j] = start[j] + m->logits[j];
        alpha[j] = (double)start[j] + (double)m->logits[j];
    }
    for (long t = 1; t < words; t++) {
        const float *const u = m->logits + t * labels;
        for (long j = 0; j < labels; j++) {
            float most = -INFINITY;
            int32_t source = 0;
            for (long i = 0; i < labels; i++) {
                const float score = best[i] + from[i * labels + j];
                if (score > most) most = score, source = (int32_t)i;
                terms[i] = alpha[(t - 1) * labels + i] + (double)from[i * labels + j];
            }
            reached[j] = most + u[j], m->back[t * labels + j] = source;
            alpha[t * labels + j] = weft_log_sum(terms, labels) + (double)u[j];
        }
        memcpy(best, reached, (size_t)labels * sizeof *best);
    }
    int32_t tag = 0;
    for (long j = 1; j < labels; j++)
        if (best[j] + end[j] > best[tag] + end[tag]) tag = (int32_t)j;
    for (long j = 0; j < labels; j++) {
        beta[j] = (double)end[j];
        terms[j] = alpha[(words - 1) * labels + j] + (double)end[j];
    }
    const double all = weft_log_sum(terms, labels);
    for (long t = words - 1; t >= 0; t--) {
        m->tags[t] = tag;
        m->shares[t] = (float)exp(alpha[t * labels + tag] + beta[tag] - all);
        if (t == 0) break;
        tag = m->back[t * labels + tag];
        for (long i = 0; i < labels; i++) {
            for (long j = 0; j < labels; j++)
                terms[j] = (double)from[i * labels + j] + (double)m->logits[t * labels + j] + beta[j];
            beta[labels + i] = weft_log_sum(terms, labels);
        }
        memcpy(beta, beta + labels, (size_t)labels * sizeof *beta);
    }
}
#else
/* The likeliest tag of each word and its probability. */
static void weft_decode_tags(weft_model *m, long words)
{
    for (long t = 0; t < words; t++) {
        const float *const scores = m->logits + t * WEFT_LABELS;
        int32_t best = 0;
        double total = 0.0;
        for (int32_t j = 1; j < WEFT_LABELS; j++)
            if (scores[j] > scores[best]) best = j;
        for (long j = 0; j < WEFT_LABELS; j++) total += exp((double)(scores[j] - scores[best]));
        m->tags[t] = best, m->shares[t] = (float)(1.0 / total);
    }
}
#endif
#endif

long weft_tag(weft_model *m, const weft_options *options, const char *line, size_t count, const int32_t **tags,
              const float **probabilities)
{
    const long found = weft_tag_words(m, line, count, options && options->words);
    if (found > 0) weft_decode_tags(m, found);
    *tags = m->tags, *probabilities = m->shares;
    return found;
}

const char *weft_label(int32_t tag)
{
    return tag >= 0 && tag < WEFT_LABELS ? weft_labels[tag] : "";
}

void weft_word(const weft_model *m, long word, size_t *start, size_t *size)
{
#if WEFT_FEATURES
    (void)m, (void)word;
    *start = *size = 0;
#else
    *start = m->words[word].start, *size = m->words[word].size;
#endif
}

static int weft_answer_line(weft_model *m, const weft_options *options, const char *line, size_t count, weft_out *out)
{
    const int32_t *tags;
    const float *probabilities;
    const long found = weft_tag(m, options, line, count, &tags, &probabilities);
    if (found < 0) return (int)found;
    for (long n = 0; n < found; n++) {
        if (n) weft_put_string(out, options->words ? "\t" : " ");
#if WEFT_FEATURES
        char number[24];
        snprintf(number, sizeof number, "%ld", n);
        weft_put_string(out, number);
#else
        weft_put(out, line + m->words[n].start, m->words[n].size);
#endif
        weft_put_string(out, "/");
        weft_put_string(out, weft_label(tags[n]));
        if (options->probabilities) weft_put_number(out, "/", options->probabilities, (double)probabilities[n]);
    }
    return 0;
}
