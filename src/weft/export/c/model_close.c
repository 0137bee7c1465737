int weft_language(const char *name)
{
#if WEFT_LANGUAGES
    for (int n = 0; n < WEFT_LANGUAGES; n++)
        if (strcmp(weft_languages[n], name) == 0) return n;
#endif
    (void)name;
    return -1;
}

int weft_reads_files(void)
{
    return WEFT_READS_FILES;
}

int weft_reads_words(void)
{
    return WEFT_READS_WORDS;
}

void weft_default_limits(weft_limits *limits)
{
    limits->line_bytes = WEFT_LINE_BYTES;
    limits->tokens = WEFT_TOKENS;
    limits->new_tokens = WEFT_NEW_TOKENS;
    limits->beam = WEFT_BEAM;
}

/* Check the weights and place everything in memory; with memory 0 only the bytes are counted. */
static int weft_plan(weft_model *m, const void *weights, size_t bytes, const weft_limits *limits)
{
    static const uint64_t sizes[] = {WEFT_SECTION_BYTES};
    if (!weft_limits_fit(limits)) return WEFT_LIMITS;
    const unsigned char *at = weights;
    const int error = weft_check_weights(at, bytes);
    if (error) return error;
    at += 128;
    for (int section = 0; section < WEFT_SECTIONS; section++) {
        if (weft_u64((const unsigned char *)weights + 64 + 8 * section) != sizes[section]) return WEFT_OTHER;
        m->section[section] = at, m->section_bytes[section] = (size_t)sizes[section];
        at += (sizes[section] + 63) / 64 * 64;
    }
    m->weights = m->section[0];
    m->limits = *limits;
    return weft_arrange(m);
}

int weft_memory(const void *weights, size_t bytes, const weft_limits *limits, size_t *memory)
{
    weft_model plan;
    memset(&plan, 0, sizeof plan);
    const int error = weft_plan(&plan, weights, bytes, limits);
    if (error) return error;
    const uint64_t all = plan.taken + (sizeof plan + 63) / 64 * 64 + 64;
    if (all > SIZE_MAX / 2) return WEFT_LIMITS;
    *memory = (size_t)all;
    return 0;
}

int weft_open(weft_model **model, const void *weights, size_t bytes, void *memory, size_t memory_bytes,
              const weft_limits *limits)
{
    size_t needed;
    const int error = weft_memory(weights, bytes, limits, &needed);
    if (error) return error;
    if (memory_bytes < needed) return WEFT_MEMORY;
    const size_t offset = (64 - (uintptr_t)memory % 64) % 64;
    weft_model *const m = (weft_model *)(void *)((unsigned char *)memory + offset);
    memset(m, 0, sizeof *m);
    m->memory = (unsigned char *)m + (sizeof *m + 63) / 64 * 64;
    *model = m;
    return weft_plan(m, weights, bytes, limits);
}

long weft_answer(weft_model *m, const weft_options *options, const char *line, size_t count, char *answer,
                 size_t capacity)
{
    weft_out out = {answer, capacity, 0, 0};
    if (count > m->limits.line_bytes) return WEFT_TOO_LONG;
    if (options->words && !weft_reads_words()) return WEFT_OPTION;
    if (!options->words && weft_is_blank(line, count)) return 0;
    const int error = weft_answer_line(m, options, line, count, &out);
    return error ? error : out.full ? WEFT_FULL : (long)out.written;
}
