/* Classes of characters, and lower case. */

enum {
    LETTER = 1,     /* \p{L} */
    NUMBER = 2,     /* \p{N} */
    SPACE = 4,      /* \s of the tokenizers library */
    IN_WORD = 8,    /* \p{L}, \p{M}, \p{N} and _ */
    OPENING = 16,   /* no blank follows */
    CLOSING = 32,   /* no blank stands before it */
    BLANK = 64,     /* str.isspace of Python; of WordPiece, what becomes a blank */
    PUNCTUATION = 128, /* cut off the ends of words; of WordPiece, a word of its own */
    DELETED = 256,     /* removed from texts */
    SPACED = 512       /* between blanks */
};

/* The last of the ascending numbers in an array, `stride` apart, that is not above c. The first one is not above it. */
static size_t range_of(const weft_text *t, int array, size_t stride, size_t count, uint32_t c) {
    size_t low = 0, high = count;
    while (high - low > 1) {
        size_t middle = low + (high - low) / 2;
        if (u32_at(t, array, stride * middle) > c) high = middle;
        else low = middle;
    }
    return low;
}

/* The bits of the classes of a character. */
static unsigned class_of(const weft_text *t, uint32_t c) {
    if (c < 128) return u16_at(t, ASCII_CLASSES, c);
    return u16_at(t, CLASSES, range_of(t, CLASS_STARTS, 1, count_of(t, CLASS_STARTS), c));
}

/* The lower case of a character (of WordPiece, also without accents) as up to three characters; returns how many. */
static int lower_of(const weft_text *t, uint32_t c, uint32_t lower[3]) {
    size_t ranges = count_of(t, LOWER), expansions = count_of(t, EXPANSIONS);
    lower[0] = c;
    if (c < 128) return lower[0] = c >= 'A' && c <= 'Z' && t->flags & LOWERCASE ? c + 32 : c, 1;
    if (c >= 0xAC00 && c <= 0xD7A3 && t->flags & HANGUL) { /* a syllable is two or three letters */
        uint32_t syllable = c - 0xAC00;
        lower[0] = 0x1100 + syllable / 588;
        lower[1] = 0x1161 + syllable % 588 / 28;
        lower[2] = 0x11A7 + syllable % 28;
        return syllable % 28 ? 3 : 2;
    }
    if (expansions > 0) {
        size_t i = range_of(t, EXPANSIONS, 4, expansions, c);
        if (field_at(t, EXPANSIONS, i, 0) == c) {
            int n = 0;
            for (; n < 3 && field_at(t, EXPANSIONS, i, n + 1); n++) lower[n] = field_at(t, EXPANSIONS, i, n + 1);
            return n;
        }
    }
    if (ranges > 0) {
        size_t i = range_of(t, LOWER, 4, ranges, c);
        uint32_t first = field_at(t, LOWER, i, 0);
        if (c >= first && c <= field_at(t, LOWER, i, 1) && (c - first) % field_at(t, LOWER, i, 2) == 0)
            lower[0] = c + field_at(t, LOWER, i, 3);
    }
    return 1;
}

/* The most bytes of a text of n bytes in lower case: half as many more (U+0130); without accents three times as many
   (syllables of Hangul). */
static size_t lowered_bytes(const weft_text *t, size_t n) { return t->kind == WEFT_TEXT_WORDPIECE ? 3 * n : n + n / 2; }

/* Write the lower case of a text, character by character; returns its bytes, or WEFT_TEXT_WORKSPACE. */
static long lower_text(const weft_text *t, const unsigned char *p, size_t n, unsigned char *out, size_t capacity) {
    const unsigned char *end = p + n;
    size_t size = 0;
    while (p < end) {
        uint32_t c = next_character(&p), written[5];
        unsigned found = t->kind == WEFT_TEXT_WORDPIECE ? class_of(t, c) : 0;
        int parts = 0;
        if (found & DELETED) continue;
        if (found & SPACED) written[parts++] = ' ';
        if (found & BLANK) written[parts++] = ' ';
        else parts += lower_of(t, c, written + parts);
        if (found & SPACED) written[parts++] = ' ';
        for (int i = 0; i < parts; i++) {
            unsigned char bytes[4];
            int more = put_character(written[i], bytes);
            if (capacity - size < (size_t)more) return WEFT_TEXT_WORKSPACE;
            memcpy(out + size, bytes, (size_t)more);
            size += (size_t)more;
        }
    }
    return (long)size;
}
