/* Texts to ids: cut at words that mean unknown, turned to lower case, cut into words, and words into entries. */

/* An encoding under way. */
typedef struct {
    const weft_text *t;
    int32_t *ids;
    size_t capacity, count;
    unsigned char *changed; /* the text in lower case, or with a blank before it */
    size_t changed_capacity;
    bpe_word bpe;
    unigram_word unigram;
} encoding;

static size_t eighths(size_t n) { return (n + 7) & ~(size_t)7; }

/* Whether a text is written anew before it is cut, character by character. */
static int is_rewritten(const weft_text *t) { return t->flags & LOWERCASE || t->kind == WEFT_TEXT_WORDPIECE; }

/* The most bytes of a text of n bytes in lower case, or with a blank before it. */
static size_t read_bytes(const weft_text *t, size_t n) {
    return (is_rewritten(t) ? lowered_bytes(t, n) : n) + (t->flags & BLANK_FIRST ? 1 : 0);
}

size_t weft_text_workspace(const weft_text *t, size_t max_bytes) {
    size_t n = read_bytes(t, max_bytes), size = 8;
    if (max_bytes > WEFT_TEXT_MAX_BYTES) return 0;
    if (is_rewritten(t) || t->flags & BLANK_FIRST) size += eighths(n);
    if (t->kind == WEFT_TEXT_BPE) size += BPE_BYTES * eighths(n);
    if (t->kind == WEFT_TEXT_UNIGRAM) size += UNIGRAM_BYTES * eighths(n + 1);
    return size;
}

size_t weft_text_most_ids(const weft_text *t, size_t max_bytes) {
    return max_bytes > WEFT_TEXT_MAX_BYTES ? 0 : read_bytes(t, max_bytes);
}

static int add(encoding *e, int32_t id) {
    if (e->count >= e->capacity) return WEFT_TEXT_FULL;
    e->ids[e->count++] = id;
    return 0;
}

static int encode_words(encoding *e, const unsigned char *p, const unsigned char *end) {
    const weft_text *t = e->t;
    int error = 0;
    while ((p = run(t, p, end, SPACE, 0)) < end && error == 0) {
        const unsigned char *stop = t->flags & KEEP ? run(t, p, end, SPACE, 1) : word_end(t, p, end);
        error = add(e, entry_of(t, p, (size_t)(stop - p)));
        p = stop;
    }
    return error;
}

static int encode_characters(encoding *e, const unsigned char *p, const unsigned char *end) {
    int error = 0;
    while (p < end && error == 0) {
        const unsigned char *q = p;
        int32_t id;
        next_character(&q);
        id = entry_of(e->t, p, (size_t)(q - p));
        if (id != WEFT_UNK) error = add(e, id), p = q;
        else
            for (; p < q && error == 0; p++) error = add(e, (int32_t)u32_at(e->t, BYTE_IDS, *p));
    }
    return error;
}

static int encode_subwords(encoding *e, const unsigned char *p, const unsigned char *end) {
    const weft_text *t = e->t;
    while (p < end) {
        const unsigned char *stop = stretch(t, p, end);
        size_t n = (size_t)(stop - p), first = e->count;
        int32_t whole = t->flags & WHOLE_WORDS ? entry_of(t, p, n) : WEFT_UNK;
        if (whole != WEFT_UNK) {
            if (add(e, whole)) return WEFT_TEXT_FULL;
        } else if (t->kind == WEFT_TEXT_BPE) {
            merge_word(t, &e->bpe, p, n);
            for (int32_t i = 0; i != NO_SYMBOL; i = e->bpe.next[i])
                if (add(e, e->bpe.id[i])) return WEFT_TEXT_FULL;
        } else {
            cut_word(t, &e->unigram, p, n);
            for (size_t i = n; i > 0; i = (size_t)e->unigram.start[i])
                if (add(e, e->unigram.id[i])) return WEFT_TEXT_FULL;
            for (size_t last = e->count; first + 1 < last; first++) {
                int32_t id = e->ids[--last];
                e->ids[last] = e->ids[first];
                e->ids[first] = id;
            }
        }
        p = stop;
    }
    return 0;
}

/* Add the ids of a word: the longest entry that it begins with, and then the longest after "##" again and again. */
static int encode_wordpiece(encoding *e, const unsigned char *p, const unsigned char *end) {
    const weft_text *t = e->t;
    const size_t first = e->count;
    const uint32_t mark = child_of(t, 0, '#'), inside = mark == NO_NODE ? NO_NODE : child_of(t, mark, '#');
    uint32_t node = 0;
    size_t characters = 0;
    for (const unsigned char *q = p; q < end; next_character(&q)) characters++;
    if (characters > t->most_characters) return add(e, WEFT_UNK);
    do {
        const unsigned char *stop = p;
        uint32_t found = 0;
        for (const unsigned char *q = p; q < end && (node = child_of(t, node, *q)) != NO_NODE;) {
            q++;
            if (u32_at(t, VALUES, node)) found = u32_at(t, VALUES, node), stop = q;
        }
        if (found == 0) {
            e->count = first;
            return add(e, WEFT_UNK);
        }
        if (e->count < e->capacity) e->ids[e->count] = (int32_t)found - 1;
        e->count++; /* may pass the capacity: the word may still be unknown */
        p = stop;
        node = inside;
    } while (p < end && node != NO_NODE);
    if (p == end) return e->count > e->capacity ? WEFT_TEXT_FULL : 0;
    e->count = first;
    return add(e, WEFT_UNK);
}

static int encode_wordpieces(encoding *e, const unsigned char *p, const unsigned char *end) {
    const weft_text *t = e->t;
    int error = 0;
    while ((p = run(t, p, end, SPACE, 0)) < end && error == 0) {
        const unsigned char *stop = run(t, p, end, SPACE | PUNCTUATION, 1);
        if (stop == p) next_character(&stop);
        error = encode_wordpiece(e, p, stop);
        p = stop;
    }
    return error;
}

/* Add the ids of a part of a text in which no word means unknown. */
static int encode_part(encoding *e, const unsigned char *p, size_t n) {
    const size_t blank = e->t->flags & BLANK_FIRST && n > 0 && *p != ' ';
    const int rewritten = n > 0 && is_rewritten(e->t);
    if (rewritten) {
        long lowered = lower_text(e->t, p, n, e->changed + blank, e->changed_capacity - blank);
        if (lowered < 0) return (int)lowered;
        n = (size_t)lowered;
    } else if (blank)
        memcpy(e->changed + 1, p, n);
    if (blank) e->changed[0] = ' ';
    if (blank || rewritten) p = e->changed, n += blank;
    switch (e->t->kind) {
    case WEFT_TEXT_WORD: return encode_words(e, p, p + n);
    case WEFT_TEXT_CHAR: return encode_characters(e, p, p + n);
    case WEFT_TEXT_WORDPIECE: return encode_wordpieces(e, p, p + n);
    default: return encode_subwords(e, p, p + n);
    }
}

/* Whether a word is the one that means unknown; each place may have several characters (upper and lower case). */
static int means_unknown(const weft_text *t, const unsigned char *p, const unsigned char *end) {
    size_t places = count_of(t, UNKNOWN_STARTS);
    if (places == 0) return 0;
    for (size_t place = 0; place + 1 < places; place++) {
        uint32_t i = u32_at(t, UNKNOWN_STARTS, place), last = u32_at(t, UNKNOWN_STARTS, place + 1), c;
        if (p == end) return 0;
        c = next_character(&p);
        while (i < last && u32_at(t, UNKNOWN, i) != c) i++;
        if (i == last) return 0;
    }
    return p == end;
}

static int encode_text(encoding *e, const unsigned char *p, size_t n) {
    const unsigned char *end = p + n, *part = p;
    int error = 0;
    if (count_of(e->t, UNKNOWN_STARTS) == 0) return encode_part(e, p, n);
    while ((p = run(e->t, p, end, BLANK, 0)) < end && error == 0) {
        const unsigned char *stop = run(e->t, p, end, BLANK, 1);
        if (means_unknown(e->t, p, stop)) {
            if ((error = encode_part(e, part, (size_t)(p - part))) == 0) error = add(e, WEFT_UNK);
            part = stop;
        }
        p = stop;
    }
    return error ? error : encode_part(e, part, (size_t)(end - part));
}

long weft_text_encode(const weft_text *t, const char *utf8, size_t n, int32_t *ids, size_t capacity, void *workspace,
                      size_t workspace_size) {
    encoding e = {0};
    size_t most = read_bytes(t, n);
    unsigned char *memory = workspace;
    int error;
    if (n > WEFT_TEXT_MAX_BYTES) return WEFT_TEXT_LONG;
    if (n == 0) return 0;
    if (!is_utf8((const unsigned char *)utf8, n)) return WEFT_TEXT_UTF8;
    if (workspace_size < weft_text_workspace(t, n)) return WEFT_TEXT_WORKSPACE;
    e.t = t;
    e.ids = ids;
    e.capacity = capacity;
    if (is_rewritten(t) || t->flags & BLANK_FIRST)
        e.changed = memory, e.changed_capacity = most, memory += eighths(most);
    if (t->kind == WEFT_TEXT_BPE) e.bpe = bpe_arrays(memory, eighths(most));
    if (t->kind == WEFT_TEXT_UNIGRAM) e.unigram = unigram_arrays(memory, eighths(most + 1));
    error = encode_text(&e, (const unsigned char *)utf8, n);
    return error ? error : (long)e.count;
}
