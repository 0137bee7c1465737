#if WEFT_FEATURES
static long weft_read_framed(weft_model *m, const char *line, size_t count)
{
    const long steps = weft_read_features(m, line, count);
    return steps > WEFT_POSITIONS ? WEFT_TOO_LONG : steps;
}
#else
/* The tokens of a line as the model reads them, with the special tokens around a text and between two texts. */
static long weft_read_framed(weft_model *m, const char *line, size_t count)
{
    long at = 0;
    for (int n = 0; n < WEFT_FRAME_START; n++) at = weft_add(m, WEFT_SOS, at);
    if (WEFT_FRAME_PAIR) {
        const char *const tab = memchr(line, '\t', count);
        if (!tab || memchr(tab + 1, '\t', count - (size_t)(tab - line) - 1)) return WEFT_NOT_A_PAIR;
        size_t first = (size_t)(tab - line), second = count - first - 1;
        const char *one = line, *two = tab + 1;
        if (weft_is_blank(one, first) || weft_is_blank(two, second)) return WEFT_NOT_A_PAIR;
        while (first && weft_is_blank(one, 1)) one++, first--;
        while (first && weft_is_blank(one + first - 1, 1)) first--;
        while (second && weft_is_blank(two, 1)) two++, second--;
        while (second && weft_is_blank(two + second - 1, 1)) second--;
        at = weft_read(m, 0, one, first, at);
        for (int n = 0; n < WEFT_FRAME_BETWEEN; n++) at = weft_add(m, WEFT_FRAME_MARK, at);
        line = two, count = second;
    }
    at = weft_read(m, 0, line, count, at);
    at = weft_add(m, WEFT_EOS, at);
    return at > WEFT_POSITIONS ? WEFT_TOO_LONG : at;
}
#endif
