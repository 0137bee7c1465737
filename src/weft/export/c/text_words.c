/* Given words, which may contain any character, and the words of a sentence to tag. */

/* The id of a word as the vocabulary spells it, from its lower case byte by byte. */
static int32_t lowered_entry_of(const weft_text *t, const unsigned char *p, const unsigned char *end) {
    size_t slots = count_of(t, SLOTS), slot;
    const unsigned char *first = p;
    uint32_t hash = 2166136261u;
    while (p < end) {
        uint32_t lower[3];
        int parts = lower_of(t, next_character(&p), lower);
        for (int i = 0; i < parts; i++) {
            unsigned char bytes[4];
            int size = put_character(lower[i], bytes);
            for (int k = 0; k < size; k++) hash = hash_byte(hash, bytes[k]);
        }
    }
    slot = (hash ^ hash >> 15) & (slots - 1);
    for (size_t seen = 0; seen < slots; seen++, slot = (slot + 1) & (slots - 1)) {
        uint32_t found = u32_at(t, SLOTS, slot);
        size_t left;
        int same = 1;
        const unsigned char *content;
        if (found == 0) return WEFT_UNK;
        content = content_of(t, found - 1, &left);
        for (p = first; p < end && same;) {
            uint32_t lower[3];
            int parts = lower_of(t, next_character(&p), lower);
            for (int i = 0; i < parts && same; i++) {
                unsigned char bytes[4];
                size_t size = (size_t)put_character(lower[i], bytes);
                same = size <= left && memcmp(content, bytes, size) == 0;
                if (same) content += size, left -= size;
            }
        }
        if (same && left == 0) return (int32_t)(found - 1);
    }
    return WEFT_UNK;
}

static int32_t word_of(const weft_text *t, const unsigned char *p, const unsigned char *end) {
    if (means_unknown(t, p, end)) return WEFT_UNK;
    return t->flags & LOWERCASE ? lowered_entry_of(t, p, end) : entry_of(t, p, (size_t)(end - p));
}

int32_t weft_text_word(const weft_text *t, const char *word, size_t n) {
    const unsigned char *p = (const unsigned char *)word;
    if (t->kind != WEFT_TEXT_WORD) return WEFT_TEXT_KIND;
    if (n > WEFT_TEXT_MAX_BYTES) return WEFT_TEXT_LONG;
    if (n == 0) return entry_of(t, p, 0);
    return is_utf8(p, n) ? word_of(t, p, p + n) : WEFT_TEXT_UTF8;
}

/* Add a word; with `single`, each of its characters as a word. */
static int add_words(weft_span *words, size_t capacity, size_t *count, const unsigned char *text,
                     const unsigned char *p, const unsigned char *end, int single) {
    while (p < end) {
        const unsigned char *stop = end;
        if (single) stop = p, next_character(&stop);
        if (*count >= capacity) return WEFT_TEXT_FULL;
        words[*count].start = (size_t)(p - text);
        words[(*count)++].size = (size_t)(stop - p);
        p = stop;
    }
    return 0;
}

long weft_text_split(const weft_text *t, const char *utf8, size_t n, weft_span *words, size_t capacity) {
    const unsigned char *text = (const unsigned char *)utf8, *p = text, *end = text + n;
    size_t count = 0;
    if (!(t->flags & SENTENCES)) return WEFT_TEXT_KIND;
    if (n > WEFT_TEXT_MAX_BYTES) return WEFT_TEXT_LONG;
    if (n == 0) return 0;
    if (!is_utf8(text, n)) return WEFT_TEXT_UTF8;
    while ((p = run(t, p, end, BLANK, 0)) < end) {
        const unsigned char *stop = run(t, p, end, BLANK, 1), *first = run(t, p, stop, PUNCTUATION, 0), *last = stop;
        while (last > first) {
            const unsigned char *q = last;
            if (!(class_of(t, last_character(&q)) & PUNCTUATION)) break;
            last = q;
        }
        if (first == stop || (t->kind == WEFT_TEXT_WORD && word_of(t, p, stop) != WEFT_UNK)) first = p, last = stop;
        if (add_words(words, capacity, &count, text, p, first, 1) ||
            add_words(words, capacity, &count, text, first, last, 0) ||
            add_words(words, capacity, &count, text, last, stop, 1))
            return WEFT_TEXT_FULL;
        p = stop;
    }
    return (long)count;
}

long weft_text_fields(const char *utf8, size_t n, weft_span *words, size_t capacity) {
    size_t count = 0;
    if (n > WEFT_TEXT_MAX_BYTES) return WEFT_TEXT_LONG;
    if (!is_utf8((const unsigned char *)utf8, n)) return WEFT_TEXT_UTF8;
    for (size_t start = 0, end; start < n; start = end + 1) {
        for (end = start; end < n && utf8[end] != '\t';) end++;
        if (end == start) continue;
        if (count >= capacity) return WEFT_TEXT_FULL;
        words[count].start = start;
        words[count++].size = end - start;
    }
    return (long)count;
}
