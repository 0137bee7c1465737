long weft_vocabulary(void)
{
    return WEFT_VOCABULARY;
}

int weft_begin(weft_model *m, const weft_options *options, const char *source, size_t count)
{
    m->past = 0;
#if WEFT_PREFIX
    (void)options, (void)source, (void)count;
#else
    if (WEFT_READS_SOURCE) {
        const long found = weft_read_source(m, options, source, count);
        if (found < 0) return (int)found;
    }
#endif
    return state_begin(m, &m->search.state[0]);
}

int weft_next(weft_model *m, int32_t token, const float **logits)
{
    weft_search *const s = &m->search;
    if (token < 0 || token >= WEFT_VOCABULARY) return WEFT_OPTION;
    if (m->past >= WEFT_POSITIONS || m->past >= m->limits.tokens + m->limits.new_tokens) return WEFT_TOO_LONG;
    const weft_state own = s->state[WEFT_MAX_BEAM];
    state_share(&s->state[0], &s->state[WEFT_MAX_BEAM]);
    const int error = state_step(m, &s->state[0], &s->state[WEFT_MAX_BEAM], token, m->past, s->logits);
    if (!error) {
        const weft_state swap = s->state[0];
        s->state[0] = s->state[WEFT_MAX_BEAM], s->state[WEFT_MAX_BEAM] = swap;
        m->past++;
    }
    state_share(&own, &s->state[WEFT_MAX_BEAM]);
    *logits = s->logits;
    return error;
}

size_t weft_state_bytes(const weft_model *m)
{
    size_t total = 2 * sizeof(int64_t);
    for (int field = 0; field < WEFT_STATE_FIELDS; field++) total += 4 * state_numbers(field, m->source, m->past);
    return total;
}

void weft_get_state(const weft_model *m, void *state)
{
    const int64_t head[2] = {m->past, m->source};
    unsigned char *at = state;
    memcpy(at, head, sizeof head);
    at += sizeof head;
    for (int field = 0; field < WEFT_STATE_FIELDS; field++) {
        const size_t bytes = 4 * state_numbers(field, m->source, m->past);
        memcpy(at, m->search.state[0].field[field], bytes);
        at += bytes;
    }
}

int weft_set_state(weft_model *m, const void *state, size_t bytes)
{
    int64_t head[2];
    const unsigned char *at = state;
    if (bytes < sizeof head) return WEFT_DAMAGED;
    memcpy(head, at, sizeof head);
    if (head[0] < 0 || head[0] > m->limits.tokens + m->limits.new_tokens || head[1] < 0 || head[1] > m->limits.tokens)
        return WEFT_DAMAGED;
    size_t total = sizeof head;
    for (int field = 0; field < WEFT_STATE_FIELDS; field++)
        total += 4 * state_numbers(field, (long)head[1], (long)head[0]);
    if (bytes != total) return WEFT_DAMAGED;
    m->past = (long)head[0], m->source = (long)head[1];
    at += sizeof head;
    for (int field = 0; field < WEFT_STATE_FIELDS; field++) {
        const size_t size = 4 * state_numbers(field, m->source, m->past);
        memcpy(m->search.state[0].field[field], at, size);
        at += size;
    }
    return 0;
}

long weft_encode(weft_model *m, const char *text, size_t count, int32_t *ids, size_t capacity)
{
    const long found = weft_read(m, 0, text, count, 0);
    if (found < 0) return found;
    if ((size_t)found > capacity) return WEFT_FULL;
    memcpy(ids, m->ids, (size_t)found * sizeof *ids);
    return found;
}

long weft_decode(const weft_model *m, const int32_t *ids, size_t count, char *text, size_t capacity)
{
    const long found = weft_text_decode(&m->text[WEFT_TEXTS - 1], ids, count, text, capacity);
    return found >= 0 ? found : found == WEFT_TEXT_FULL ? WEFT_FULL : WEFT_OPTION;
}
