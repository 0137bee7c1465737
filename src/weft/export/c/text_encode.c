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

/* The most bytes of a text of n bytes in lower case, or with a blank before it. */
static size_t read_bytes(const weft_text *t, size_t n) {
    return (t->flags & LOWERCASE ? lowered_bytes(n) : n) + (t->flags & BLANK_FIRST ? 1 : 0);
}

size_t weft_text_workspace(const weft_text *t, size_t max_bytes) {
    size_t n = read_bytes(t, max_bytes), size = 8;
    if (max_bytes > WEFT_TEXT_MAX_BYTES) return 0;
    if (t->flags & (LOWERCASE | BLANK_FIRST)) size += eighths(n);
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

static uint32_t hash_byte(uint32_t hash, unsigned char byte) { return (hash ^ byte) * 16777619u; }

/* The id of the entry that has these bytes as its content; WEFT_UNK if there is none. */
static int32_t entry_of(const weft_text *t, const unsigned char *p, size_t n) {
    size_t slots = count_of(t, SLOTS), slot;
    uint32_t hash = 2166136261u;
    if (slots == 0) return WEFT_UNK;
    for (size_t i = 0; i < n; i++) hash = hash_byte(hash, p[i]);
    slot = (hash ^ hash >> 15) & (slots - 1);
    for (size_t seen = 0; seen < slots; seen++, slot = (slot + 1) & (slots - 1)) {
        uint32_t found = u32_at(t, SLOTS, slot);
        size_t size;
        const unsigned char *content;
        if (found == 0) return WEFT_UNK;
        content = content_of(t, found - 1, &size);
        if (size == n && (n == 0 || memcmp(content, p, n) == 0)) return (int32_t)(found - 1);
    }
    return WEFT_UNK;
}

static unsigned class_at(const weft_text *t, const unsigned char *p) { return class_of(t, next_character(&p)); }

/* The end of the characters from p on that have one of some bits (or, with `except`, none of them). */
static const unsigned char *run(const weft_text *t, const unsigned char *p, const unsigned char *end, unsigned bits,
                                int except) {
    while (p < end) {
        const unsigned char *q = p;
        if (((class_of(t, next_character(&q)) & bits) != 0) == except) break;
        p = q;
    }
    return p;
}

/* The end of the stretch of letters, digits, others or blanks that begins at p, by the pattern of GPT-2:
   's|'t|'re|'ve|'m|'ll|'d| ?\p{L}+| ?\p{N}+| ?[^\s\p{L}\p{N}]+|\s+(?!\S)|\s+ */
static const unsigned char *stretch(const weft_text *t, const unsigned char *p, const unsigned char *end) {
    const unsigned char *first = p, *q;
    unsigned found;
    if (*p == '\'' && end - p >= 2) {
        if (p[1] == 's' || p[1] == 't' || p[1] == 'm' || p[1] == 'd') return p + 2;
        if (end - p >= 3 && ((p[1] == 'r' && p[2] == 'e') || (p[1] == 'v' && p[2] == 'e') || (p[1] == 'l' && p[2] == 'l')))
            return p + 3;
    }
    if (*p == ' ' && end - p >= 2 && !(class_at(t, p + 1) & SPACE)) first = p + 1;
    found = class_at(t, first);
    if (found & LETTER) return run(t, first, end, LETTER, 0);
    if (found & NUMBER) return run(t, first, end, NUMBER, 0);
    if (!(found & SPACE)) return run(t, first, end, LETTER | NUMBER | SPACE, 1);
    first = run(t, p, end, SPACE, 0);
    if (first == end) return end;
    q = first;
    last_character(&q); /* the last blank belongs to what follows, if there are several */
    return q > p ? q : first;
}

/* Whether a letter, digit or mark of a word stands at p. */
static int in_word(const weft_text *t, const unsigned char *p, const unsigned char *end, unsigned bits) {
    return p < end && (class_at(t, p) & bits) != 0;
}

/* The end of the word that begins at p: letters and digits with single joiners inside, or one character. */
static const unsigned char *word_end(const weft_text *t, const unsigned char *p, const unsigned char *end) {
    const unsigned char *q;
    if (!in_word(t, p, end, IN_WORD)) return next_character(&p), p;
    for (;;) {
        uint32_t c;
        p = q = run(t, p, end, IN_WORD, 0);
        if (p == end) return p;
        c = next_character(&q);
        if (c == '\'' || c == 0x2019 || c == '-' || c == 0x200C || c == 0x200D) {
            if (!in_word(t, q, end, IN_WORD)) return p;
        } else if (c == '.' || c == ',') {
            const unsigned char *before = p;
            if (!(class_of(t, last_character(&before)) & NUMBER) || !in_word(t, q, end, NUMBER)) return p;
        } else
            return p;
        p = q;
    }
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

/* Add the ids of a part of a text in which no word means unknown. */
static int encode_part(encoding *e, const unsigned char *p, size_t n) {
    const size_t blank = e->t->flags & BLANK_FIRST && n > 0 && *p != ' ';
    if (n > 0 && e->t->flags & LOWERCASE) {
        long lowered = lower_text(e->t, p, n, e->changed + blank, e->changed_capacity - blank);
        if (lowered < 0) return (int)lowered;
        n = (size_t)lowered;
    } else if (blank)
        memcpy(e->changed + 1, p, n);
    if (blank) e->changed[0] = ' ';
    if (blank || (n > 0 && e->t->flags & LOWERCASE)) p = e->changed, n += blank;
    switch (e->t->kind) {
    case WEFT_TEXT_WORD: return encode_words(e, p, p + n);
    case WEFT_TEXT_CHAR: return encode_characters(e, p, p + n);
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
    if (t->flags & (LOWERCASE | BLANK_FIRST)) e.changed = memory, e.changed_capacity = most, memory += eighths(most);
    if (t->kind == WEFT_TEXT_BPE) e.bpe = bpe_arrays(memory, eighths(most));
    if (t->kind == WEFT_TEXT_UNIGRAM) e.unigram = unigram_arrays(memory, eighths(most + 1));
    error = encode_text(&e, (const unsigned char *)utf8, n);
    return error ? error : (long)e.count;
}
