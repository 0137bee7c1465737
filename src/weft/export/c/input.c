/* Read the ids of a text behind those that m->ids has already; the new number of ids, or an error. */
static long weft_read(weft_model *m, int text, const char *line, size_t count, long at)
{
    if (at < 0) return at;
    const long found = weft_text_encode(&m->text[text], line, count, m->ids + at, (size_t)(m->limits.tokens - at),
                                        m->text_workspace, m->text_workspace_bytes);
    if (found >= 0) return at + found;
    return found == WEFT_TEXT_UTF8                                 ? WEFT_NOT_UTF8
           : found == WEFT_TEXT_FULL || found == WEFT_TEXT_WORKSPACE ? WEFT_TOO_LONG
           : found == WEFT_TEXT_LONG                               ? WEFT_TOO_LONG
                                                                   : WEFT_DAMAGED;
}

/* Add one id; the new number of ids, or an error. */
static long weft_add(weft_model *m, int32_t id, long at)
{
    if (at < 0) return at;
    if (at >= m->limits.tokens) return WEFT_TOO_LONG;
    m->ids[at] = id;
    return at + 1;
}
