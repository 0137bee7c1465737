/* Entries by their bytes, and where the stretches and the words of a text end. */

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
