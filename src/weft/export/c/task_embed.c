#if VECTOR_BUCKETS
/* Add the vectors of the n-grams of <word> to m->one; how many there are. See weft.text.grams. */
static long vector_ngrams(weft_model *m, const unsigned char *word, size_t size)
{
    long found = 0;
    const long letters_size = (long)size + 2;
    for (long start = 0; start < letters_size; start++) {
        uint32_t hash = 2166136261u;
        long at = start, letters = 0;
        const unsigned char first = start == 0 ? '<' : start == letters_size - 1 ? '>' : word[start - 1];
        if ((first & 0xC0) == 0x80) continue; /* the middle of a character */
        while (at < letters_size && letters < VECTOR_MOST) {
            do {
                const unsigned char byte = at == 0 ? '<' : at == letters_size - 1 ? '>' : word[at - 1];
                hash = (hash ^ byte) * 16777619u;
                at++;
            } while (at < letters_size - 1 && (word[at - 1] & 0xC0) == 0x80);
            letters++;
            if (letters < VECTOR_LEAST || (start == 0 && at == letters_size)) continue;
            const long row = (long)(hash % VECTOR_BUCKETS);
#if BUCKET_INT8
            for (long d = 0; d < VECTOR_SIZE; d++)
                m->one[d] += BUCKET_SCALES(m)[row] * (float)BUCKET_ROWS(m)[row * VECTOR_SIZE + d];
#else
            for (long d = 0; d < VECTOR_SIZE; d++) m->one[d] += BUCKET_ROWS(m)[row * VECTOR_SIZE + d];
#endif
            found++;
        }
    }
    return found;
}
#endif

/* The length of a vector becomes 1. */
static float vector_normalise(float *vector)
{
    double squares = 0.0;
    for (long d = 0; d < VECTOR_SIZE; d++) squares += (double)vector[d] * (double)vector[d];
    const float size = (float)sqrt(squares);
    for (long d = 0; d < VECTOR_SIZE; d++) vector[d] /= size > 1e-12f ? size : 1e-12f;
    return size;
}

/* The vector of a word at length 1, in m->one; 0 where it has none. */
static int vector_of(weft_model *m, const char *word, size_t size, int32_t id)
{
    if (id != WEFT_UNK) {
        for (long d = 0; d < VECTOR_SIZE; d++)
#if VECTOR_INT8
            m->one[d] = VECTOR_SCALES(m)[id] * (float)VECTOR_ROWS(m)[(long)id * VECTOR_SIZE + d];
#else
            m->one[d] = VECTOR_ROWS(m)[(long)id * VECTOR_SIZE + d];
#endif
        return 1;
    }
#if VECTOR_BUCKETS
    const unsigned char *letters = (const unsigned char *)word;
    if (m->text[0].flags & LOWERCASE) {
        const long lower = lower_text(&m->text[0], letters, size, m->word, 2 * m->limits.line_bytes + 8);
        if (lower < 0) return 0;
        letters = m->word, size = (size_t)lower;
    }
    memset(m->one, 0, VECTOR_SIZE * sizeof *m->one);
    const long found = vector_ngrams(m, letters, size);
    for (long d = 0; d < VECTOR_SIZE && found; d++) m->one[d] /= (float)found;
    if (found) vector_normalise(m->one);
    return found > 0;
#else
    (void)word, (void)size;
    return 0;
#endif
}

static float vector_cosine(const weft_model *m, long word)
{
    float total = 0.0f;
    for (long d = 0; d < VECTOR_SIZE; d++) total += (float)VECTOR_ROWS(m)[word * VECTOR_SIZE + d] * m->target[d];
#if VECTOR_INT8
    total *= VECTOR_SCALES(m)[word];
#endif
    return total;
}

/* The words nearest to a word, or to a sum such as "king - man + woman", which a line has. */
static int weft_answer_line(weft_model *m, const weft_options *options, const char *line, size_t count, weft_out *out)
{
    const weft_text *const t = &m->text[0];
    const unsigned char *p = (const unsigned char *)line, *const end = p + count;
    int32_t own[VECTOR_TERMS], ids[VECTOR_NEIGHBOURS] = {0};
    float sign = 1.0f, best[VECTOR_NEIGHBOURS];
    int terms = 0;
    if (!is_utf8(p, count)) return WEFT_NOT_UTF8;
    memset(m->target, 0, VECTOR_SIZE * sizeof *m->target);
    while ((p = run(t, p, end, BLANK, 0)) < end) {
        const unsigned char *const stop = run(t, p, end, BLANK, 1);
        const size_t size = (size_t)(stop - p);
        if (size == 1 && (*p == '-' || *p == '+')) {
            sign = *p == '-' ? -1.0f : 1.0f;
        } else {
            const char *const word = (const char *)p;
            if (terms == VECTOR_TERMS) return WEFT_TOO_LONG;
            own[terms] = weft_text_word(t, word, size);
            if (!vector_of(m, word, size, own[terms++])) return 0;
            for (long d = 0; d < VECTOR_SIZE; d++) m->target[d] += sign * m->one[d];
            sign = 1.0f;
        }
        p = stop;
    }
    if (!terms || vector_normalise(m->target) < 1e-4f) return 0;
    for (int n = 0; n < VECTOR_NEIGHBOURS; n++) best[n] = -INFINITY;
    for (int32_t word = 0; word < VECTOR_WORDS; word++) {
        int at = VECTOR_NEIGHBOURS - 1, mine = !VECTOR_COUNTED(m)[word];
        for (int n = 0; n < terms; n++) mine |= own[n] == word && word != WEFT_UNK;
        if (mine) continue;
        const float cosine = vector_cosine(m, word);
        if (!(cosine > best[at])) continue;
        for (; at > 0 && cosine > best[at - 1]; at--) best[at] = best[at - 1], ids[at] = ids[at - 1];
        best[at] = cosine, ids[at] = word;
    }
    for (int n = 0; n < VECTOR_NEIGHBOURS && best[n] > -INFINITY; n++) {
        char text[48];
        const int32_t *const at = WORD_AT(m) + ids[n];
        if (n) weft_put_string(out, "\t");
        weft_put(out, WORD_TEXT(m) + at[0], (size_t)(at[1] - at[0]));
        snprintf(text, sizeof text, options->probabilities > 1 ? " %.9g" : " %.3f", (double)best[n]);
        weft_put_string(out, text);
    }
    return 0;
}
