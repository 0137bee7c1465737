/* Ids to text. Bytes that are not UTF-8 become U+FFFD: of subwords each sequence that begins a character, as
   String::from_utf8_lossy of Rust does it; of a vocabulary of characters all bytes of a run, if it is not valid. */

/* The text that is written; with a null `at` it is only counted. */
typedef struct {
    const weft_text *t;
    unsigned char *at;
    size_t capacity, size;
    int full;
    weft_text_stream s;
} decoding;

enum { BEGUN = 1, AFTER_OPENING = 2, BLANK_HELD = 4 }; /* bits of the state of words */

static void put(decoding *d, const unsigned char *p, size_t n) {
    if (d->at == NULL) {
        d->size += n;
        return;
    }
    if (d->capacity - d->size < n) {
        d->full = 1;
        return;
    }
    if (n > 0) memcpy(d->at + d->size, p, n);
    d->size += n;
}

static void put_replacement(decoding *d) { put(d, (const unsigned char *)"\xEF\xBF\xBD", 3); }

/* Write bytes of subwords: characters when they are whole, those of an unfinished one are pending. */
static void put_bytes(decoding *d, const unsigned char *p, size_t n) {
    weft_text_stream *s = &d->s;
    for (size_t i = 0; i < n;) {
        unsigned char low, high;
        int size = s->pending_count ? sequence_of(s->pending[0], &low, &high) : sequence_of(p[i], &low, &high);
        if (s->pending_count > 1) low = 0x80, high = 0xBF;
        if (s->pending_count && (p[i] < low || p[i] > high)) {
            put_replacement(d);
            s->pending_count = 0;
            continue; /* this byte may begin a character */
        }
        if (size == 0) put_replacement(d);
        else if (size == 1) put(d, p + i, 1);
        else {
            s->pending[s->pending_count++] = p[i];
            if (s->pending_count == (uint32_t)size) put(d, s->pending, (size_t)size), s->pending_count = 0;
        }
        i++;
    }
}

static void release_blank(decoding *d) {
    if (d->s.state & BLANK_HELD) put(d, (const unsigned char *)" ", 1);
    d->s.state &= ~(uint32_t)(BLANK_HELD | AFTER_OPENING);
}

/* Write a part of a text of words. A blank is held until the next character is known: it is left out before a closing
   one, and after an opening one. */
static void put_glued(decoding *d, const unsigned char *p, size_t n) {
    const unsigned char *end = p + n;
    while (p < end) {
        const unsigned char *first = p;
        uint32_t c = next_character(&p);
        unsigned found = class_of(d->t, c);
        if (d->s.state & BLANK_HELD) {
            if (found & CLOSING) d->s.state &= ~(uint32_t)BLANK_HELD;
            else if (d->s.state & AFTER_OPENING) d->s.state &= ~(uint32_t)(BLANK_HELD | AFTER_OPENING);
            else release_blank(d);
        }
        if (c == ' ') {
            d->s.state |= BLANK_HELD;
            continue;
        }
        put(d, first, (size_t)(p - first));
        d->s.state &= ~(uint32_t)AFTER_OPENING;
        if (found & OPENING) d->s.state |= AFTER_OPENING;
    }
}

/* Write a word, with the blank before it unless it is the first. An empty word adds nothing. */
static void put_word(decoding *d, const unsigned char *p, size_t n) {
    void (*write)(decoding *, const unsigned char *, size_t) = d->t->flags & GLUE ? put_glued : put;
    if (n == 0) return;
    if (d->s.state & BEGUN) write(d, (const unsigned char *)" ", 1);
    d->s.state |= BEGUN;
    write(d, p, n);
}

/* Write an entry of WordPiece: the first as it is, others after a blank or, if they continue a word, without "##". */
static void put_wordpiece(decoding *d, const unsigned char *p, size_t n, unsigned marks) {
    if (d->s.state & BEGUN && marks & CONTINUES) p += 2, n -= 2;
    else if (d->s.state & BEGUN && !(marks & CLOSES)) put(d, (const unsigned char *)" ", 1);
    d->s.state |= BEGUN;
    put(d, p, n);
}

/* The end of the run of bytes that begins at ids[first]; silent tokens do not interrupt it. */
static size_t end_of_bytes(const weft_text *t, const int32_t *ids, size_t first, size_t n) {
    while (first < n && u8_at(t, MARKS, (size_t)ids[first]) & (IS_BYTE | SILENT)) first++;
    return first;
}

/* Write the bytes of ids[first] to ids[end - 1]: the characters they are, or U+FFFD for each. */
static void put_run(decoding *d, const int32_t *ids, size_t first, size_t end) {
    int valid = 1;
    for (int writes = 0; writes < 2; writes++) {
        unsigned char character[4], low, high;
        int have = 0, size = 0;
        for (size_t i = first; i < end; i++) {
            size_t bytes;
            if (u8_at(d->t, MARKS, (size_t)ids[i]) & SILENT) continue;
            character[have++] = *content_of(d->t, (size_t)ids[i], &bytes);
            if (writes && !valid) {
                put_replacement(d);
                have = 0;
                continue;
            }
            if (have == 1) size = sequence_of(character[0], &low, &high);
            if (size == 0) valid = 0, size = 1;
            if (have < size) continue;
            if (writes) put(d, character, (size_t)size);
            else if (valid_character(character, (size_t)have) != size) valid = 0;
            have = 0;
        }
        if (have > 0) valid = 0;
    }
}

/* The word that is copied to a place of the text; null where none is. */
static const weft_text_copy *copy_at(const weft_text_stream *s, size_t place) {
    size_t low = 0, high = s->copy_count;
    while (low < high) {
        size_t middle = low + (high - low) / 2;
        if (s->copies[middle].place == place) return s->copies + middle;
        if (s->copies[middle].place < place) low = middle + 1;
        else high = middle;
    }
    return NULL;
}

/* Write the text of ids[s.read] and further; `last` if no more follow. */
static void put_ids(decoding *d, const int32_t *ids, size_t n, int last) {
    const weft_text *t = d->t;
    while (d->s.read < n && !d->full) {
        size_t i = d->s.read, size, id = (size_t)ids[i];
        unsigned char marks = u8_at(t, MARKS, id);
        const unsigned char *content = content_of(t, id, &size);
        d->s.read++;
        if (marks & SILENT) continue;
        if (t->kind == WEFT_TEXT_WORD) {
            const weft_text_copy *copy = copy_at(&d->s, i);
            if (copy) put_word(d, (const unsigned char *)copy->word, copy->size);
            else put_word(d, content, size);
        } else if (t->kind == WEFT_TEXT_WORDPIECE) {
            put_wordpiece(d, content, size, marks);
        } else if (marks & IS_BYTE) {
            d->s.read = end_of_bytes(t, ids, i, n);
            if (d->s.read == n && !last) {
                d->s.read = i;
                return;
            }
            put_run(d, ids, i, d->s.read);
        } else if (t->kind == WEFT_TEXT_CHAR) put(d, content, size);
        else put_bytes(d, content, size);
    }
    if (last && d->s.pending_count) put_replacement(d), d->s.pending_count = 0;
    if (last && d->s.state & BLANK_HELD && !(d->s.state & AFTER_OPENING)) release_blank(d);
}

long weft_text_stream_next(const weft_text *t, weft_text_stream *s, const int32_t *ids, size_t n, int last, char *out,
                           size_t capacity) {
    decoding d = {0};
    for (size_t i = s->read; i < n; i++)
        if (ids[i] < 0 || (uint32_t)ids[i] >= t->size) return WEFT_TEXT_ID;
    for (size_t i = 0; i < s->copy_count; i++) {
        if (t->kind != WEFT_TEXT_WORD) return WEFT_TEXT_KIND;
        if (!is_utf8((const unsigned char *)s->copies[i].word, s->copies[i].size)) return WEFT_TEXT_UTF8;
    }
    d.t = t;
    d.at = (unsigned char *)out;
    d.capacity = capacity;
    d.s = *s;
    put_ids(&d, ids, n, last);
    if (d.full) return WEFT_TEXT_FULL;
    *s = d.s;
    return (long)d.size;
}

long weft_text_decode(const weft_text *t, const int32_t *ids, size_t n, char *out, size_t capacity) {
    weft_text_stream s = {0};
    return weft_text_stream_next(t, &s, ids, n, 1, out, capacity);
}

int weft_text_spell(const weft_text *t, int32_t id, int state, const char **bytes, size_t *size, int *blank) {
    unsigned char marks;
    if (id < 0 || (uint32_t)id >= t->size) return WEFT_TEXT_ID;
    marks = u8_at(t, MARKS, (size_t)id);
    *bytes = (const char *)content_of(t, (size_t)id, size);
    *blank = 0;
    if (marks & SILENT) return *size = 0, state;
    if (t->kind == WEFT_TEXT_WORDPIECE) {
        *blank = state != 0 && !(marks & (CLOSES | CONTINUES));
        if (state != 0 && marks & CONTINUES) *bytes += 2, *size -= 2;
        return 1;
    }
    if (t->kind != WEFT_TEXT_WORD || *size == 0) return state;
    *blank = state != 0 && !(marks & CLOSES);
    return marks & OPENS ? 0 : 1;
}
