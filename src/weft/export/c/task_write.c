/* Read the text to be translated; its tokens are m->ids. */
static long weft_read_source(weft_model *m, const weft_options *options, const char *line, size_t count)
{
#if WEFT_CAPTION
    (void)options;
#if WEFT_FEATURES
    const long found = weft_read_features(m, line, count);
#else
    const long found = weft_read_pixels(m, line, count);
#endif
#else
    long found = 0;
#if WEFT_LANGUAGES
    if (!options || options->language < 0) return WEFT_NO_LANGUAGE;
    if (options->language >= WEFT_LANGUAGES) return WEFT_OPTION;
    found = weft_add(m, WEFT_FIRST_LANGUAGE + options->language, found);
#else
    (void)options;
#endif
    found = weft_add(m, WEFT_EOS, weft_read(m, 0, line, count, found));
#endif
    if (found < 0) return found;
    if (found > WEFT_SOURCE_POSITIONS) return WEFT_TOO_LONG;
    m->source = found;
    return found;
}

/* The most tokens of an answer. */
static long weft_limit(const weft_model *m, const weft_options *options, long prompt)
{
    long limit = options->max_length;
    if (WEFT_PLUS) {
        long own = WEFT_TIMES_SOURCE * m->source + WEFT_PLUS;
        if (own < options->min_length + 1) own = options->min_length + 1;
        limit = own < limit ? own : limit;
    }
    if (limit > WEFT_POSITIONS - (prompt - 1)) limit = WEFT_POSITIONS - (prompt - 1);
    return limit < m->search.steps ? limit : m->search.steps;
}

/* Search for the texts that answer a line; they are in m->search.found, the best first. 0 or an error. */
static int weft_search_line(weft_model *m, const weft_options *options, const char *line, size_t count)
{
    long prompt = 0;
    if (options->beam > m->limits.beam || options->n_best > m->limits.beam || options->beam < 1 ||
        options->n_best < 1 || (!options->sample && options->n_best > options->beam) ||
        options->min_length > options->max_length)
        return WEFT_OPTION;
    if (WEFT_READS_SOURCE) {
        const long read = weft_read_source(m, options, line, count);
        if (read < 0) return (int)read;
#if WEFT_PREFIX
        {
            memcpy(m->prompt, m->ids, (size_t)m->source * sizeof *m->ids);
            prompt = m->source;
        }
#endif
        m->prompt[prompt++] = WEFT_SOS;
        m->before = prompt;
    } else {
        const long read = weft_read(m, 0, line, count, 0);
        if (read < 0) return (int)read;
        m->prompt[0] = WEFT_SOS;
        memcpy(m->prompt + 1, m->ids, (size_t)read * sizeof *m->ids);
        prompt = read + 1, m->before = 1;
    }
    if (prompt > WEFT_POSITIONS) return WEFT_TOO_LONG;
    m->prompt_count = prompt;
    const long limit = weft_limit(m, options, prompt);
    if (!options->sample) return search_beam(m, &m->search, m->prompt, prompt, limit, options);
    return search_sample(m, &m->search, m->prompt, prompt, limit, weft_hash(line, count), options);
}

/* The text of a found answer, which for a language model begins with the line itself. */
static int weft_show(weft_model *m, const char *line, size_t count, const weft_found *found, weft_out *out)
{
#if WEFT_READS_SOURCE
    (void)line, (void)count;
    weft_put_text(out, &m->text[WEFT_TEXTS - 1], found->tokens, (size_t)found->step);
    return 0;
#else
    /* A tokenizer may write other text than it has read, as for unknown words: the line is shown as it was typed. */
    const long given = m->prompt_count - 1;
    char *const text = m->line;
    const size_t room = m->line_room;
    memcpy(m->joined, m->prompt + 1, (size_t)given * sizeof *m->joined);
    memcpy(m->joined + given, found->tokens, (size_t)found->step * sizeof *m->joined);
    const long begin = weft_text_decode(&m->text[0], m->joined, (size_t)given, text, room);
    if (begin < 0) return WEFT_FULL;
    char *const whole = text + begin;
    const long size =
        weft_text_decode(&m->text[0], m->joined, (size_t)(given + found->step), whole, room - (size_t)begin);
    if (size < 0) return WEFT_FULL;
    const int same = (size_t)begin == count && memcmp(text, line, count) == 0;
    size_t shown = 0;
    const size_t start = out->written;
    char *const at = out->at;
    if (!same && size >= begin && memcmp(whole, text, (size_t)begin) == 0) {
        while (count && weft_is_blank(line + count - 1, 1)) count--;
        weft_put(out, line, count);
        shown = (size_t)begin;
    }
    weft_put(out, whole + shown, (size_t)size - shown);
    for (size_t n = 0; n < out->written - start; n++)
        if (at[n] == '\n') at[n] = ' ';
    return 0;
#endif
}

static int weft_answer_line(weft_model *m, const weft_options *options, const char *line, size_t count, weft_out *out)
{
    int error = weft_search_line(m, options, line, count);
    for (int n = 0; n < m->search.found_count && !error; n++) {
        if (n) weft_put_string(out, "\t");
        error = weft_show(m, line, count, &m->search.found[n], out);
        if (options->probabilities) weft_put_number(out, "\t", options->probabilities, m->search.found[n].score);
    }
    return error;
}
