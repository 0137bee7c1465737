typedef struct {
    const char *text;
    size_t size;
} mask_text;

static mask_text mask_said(const weft_model *m, int32_t id)
{
    const int32_t *const at = SAID_AT(m) + id;
    const mask_text found = {SAID_TEXT(m) + at[0], (size_t)(at[1] - at[0])};
    return found;
}

/* A text without the blanks around it, or a mark where nothing is left. */
static mask_text mask_name(const weft_model *m, int32_t id)
{
    mask_text found = mask_said(m, id);
    while (found.size && weft_is_blank(found.text, 1)) found.text++, found.size--;
    while (found.size && weft_is_blank(found.text + found.size - 1, 1)) found.size--;
    if (weft_is_blank(found.text, found.size)) found.text = "\xe2\x96\x81", found.size = 3;
    return found;
}

/* The next gap of a text from `at` on: where it begins, and where it ends. */
static int mask_gap(const char *line, size_t count, size_t *at, size_t *after)
{
    static const char *const spelled[] = {"<mask>", "[MASK]"};
    for (; *at + 6 <= count; ++*at)
        for (int n = 0; n < 2; n++)
            if (memcmp(line + *at, spelled[n], 6) == 0) {
                *after = *at + 6;
                return 1;
            }
    *at = *after = count;
    return 0;
}

/* The tokens of a line with its gaps; their number, or an error. */
static long mask_read(weft_model *m, const char *line, size_t count)
{
    long found = 0;
    for (int n = 0; n < WEFT_FRAME_START; n++) found = weft_add(m, WEFT_SOS, found);
    for (size_t begin = 0; begin <= count;) {
        size_t end = begin, after;
        const int gap = mask_gap(line, count, &end, &after);
        size_t size = end - begin;
        while (gap && WEFT_BLANK_IN_TOKEN && size && line[begin + size - 1] == ' ') size--;
        if (size) found = weft_read(m, 0, line + begin, size, found);
        if (!gap) break;
        found = weft_add(m, WEFT_MASK, found);
        begin = after;
    }
    found = weft_add(m, WEFT_EOS, found);
    return found > WEFT_POSITIONS ? WEFT_TOO_LONG : found;
}

/* The likeliest tokens of a gap by its probabilities, the likeliest first. */
static void mask_best(const float *shares, float *best, int32_t *ids, int count)
{
    for (int n = 0; n < count; n++) best[n] = -1.0f, ids[n] = WEFT_FIRST;
    for (int32_t v = WEFT_FIRST; v < WEFT_VOCABULARY; v++) {
        int at = count - 1;
        if (!(shares[v] > best[at])) continue;
        for (; at > 0 && shares[v] > best[at - 1]; at--) best[at] = best[at - 1], ids[at] = ids[at - 1];
        best[at] = shares[v], ids[at] = v;
    }
}

/* The line as it is written, with a token in each gap. */
static void mask_put_line(weft_model *m, const char *line, size_t count, long gaps, int each, weft_out *out)
{
    const size_t start = out->written;
    char *const first = out->at;
    long number = 0;
    for (size_t begin = 0; begin <= count; number++) {
        size_t end = begin, after;
        const int gap = mask_gap(line, count, &end, &after);
        weft_put(out, line + begin, end - begin);
        if (!gap || number >= gaps) break;
        mask_text said = mask_said(m, m->candidates[number * each]);
        while (WEFT_BLANK_IN_TOKEN && out->written > start && out->at[-1] == ' ') out->at--, out->left++, out->written--;
        while (out->written == start && said.size && *said.text == ' ') said.text++, said.size--;
        weft_put(out, said.text, said.size);
        begin = after;
    }
    for (size_t n = 0; n < out->written - start; n++)
        if (first[n] == '\n') first[n] = ' ';
}

static int weft_answer_line(weft_model *m, const weft_options *options, const char *line, size_t count, weft_out *out)
{
    const int wanted = options->n_best, all = WEFT_VOCABULARY - WEFT_FIRST, each = wanted < all ? wanted : all;
    const long tokens = mask_read(m, line, count);
    long gaps = 0;
    int unknown = 0;
    if (tokens < 0) return (int)tokens;
    if (wanted < 1 || wanted > m->limits.beam) return WEFT_OPTION;
    for (long n = 0; n < tokens; n++) gaps += m->ids[n] == WEFT_MASK;
    if (gaps) {
        const int error = graph_forward(m, tokens, m->ids, m->logits);
        if (error) return error;
    }
    gaps = 0;
    for (long n = 0; n < tokens; n++) {
        m->filled[n] = m->ids[n];
        unknown |= m->ids[n] == WEFT_UNK;
        if (m->ids[n] != WEFT_MASK) continue;
        float *const row = m->logits + n * WEFT_VOCABULARY;
        softmax(row, row, 1, WEFT_VOCABULARY, 1);
        mask_best(row, m->best, m->candidates + gaps * each, each);
        /* The probabilities are kept where the row has them no more. */
        for (int k = 0; k < each; k++) row[k] = m->best[k];
        m->filled[n] = m->candidates[gaps++ * each];
    }
    if (unknown || !gaps)
        mask_put_line(m, line, count, gaps, each, out);
    else
        weft_put_text(out, &m->text[0], m->filled, (size_t)tokens);
    gaps = 0;
    for (long n = 0; n < tokens; n++) {
        if (m->ids[n] != WEFT_MASK) continue;
        const int32_t *const ids = m->candidates + gaps++ * each;
        for (int k = 0; k < each; k++) {
            mask_text name = mask_name(m, ids[k]);
            int same = 0;
            for (int other = 0; other < each; other++) {
                const mask_text one = mask_name(m, ids[other]);
                same += one.size == name.size && memcmp(one.text, name.text, one.size) == 0;
            }
            if (same > 1) {
                const int32_t *const at = ENTRY_AT(m) + ids[k];
                name.text = ENTRY_TEXT(m) + at[0], name.size = (size_t)(at[1] - at[0]);
            }
            weft_put_string(out, k ? "  " : "\t");
            weft_put(out, name.text, name.size);
            if (options->probabilities) {
                char text[48];
                snprintf(text, sizeof text, options->probabilities > 1 ? " %.9g" : " %.3f",
                         (double)m->logits[n * WEFT_VOCABULARY + k]);
                weft_put_string(out, text);
            }
        }
    }
    return 0;
}
