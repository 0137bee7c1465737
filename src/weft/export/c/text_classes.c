/* Classes of characters, and lower case. */

enum {
    LETTER = 1,     /* \p{L} */
    NUMBER = 2,     /* \p{N} */
    SPACE = 4,      /* \s of the tokenizers library */
    IN_WORD = 8,    /* \p{L}, \p{M}, \p{N} and _ */
    OPENING = 16,   /* no blank follows */
    CLOSING = 32,   /* no blank stands before it */
    BLANK = 64,     /* str.isspace of Python */
    PUNCTUATION = 128 /* cut off the ends of words */
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

/* The lower case of a character as up to three characters; returns how many. */
static int lower_of(const weft_text *t, uint32_t c, uint32_t lower[3]) {
    size_t ranges = count_of(t, LOWER);
    lower[0] = c;
    if (c < 128) return lower[0] = c >= 'A' && c <= 'Z' ? c + 32 : c, 1;
    for (size_t i = 0; i < count_of(t, EXPANSIONS); i++)
        if (field_at(t, EXPANSIONS, i, 0) == c) {
            int n = 0;
            for (; n < 3 && field_at(t, EXPANSIONS, i, n + 1); n++) lower[n] = field_at(t, EXPANSIONS, i, n + 1);
            return n;
        }
    if (ranges > 0) {
        size_t i = range_of(t, LOWER, 4, ranges, c);
        uint32_t first = field_at(t, LOWER, i, 0);
        if (c >= first && c <= field_at(t, LOWER, i, 1) && (c - first) % field_at(t, LOWER, i, 2) == 0)
            lower[0] = c + field_at(t, LOWER, i, 3);
    }
    return 1;
}

/* Lower case reads each character alone: the bytes of a text grow by half at most (U+0130). */
static size_t lowered_bytes(size_t n) { return n + n / 2; }

/* Write the lower case of a text; returns its bytes, or WEFT_TEXT_WORKSPACE. */
static long lower_text(const weft_text *t, const unsigned char *p, size_t n, unsigned char *out, size_t capacity) {
    const unsigned char *end = p + n;
    size_t size = 0;
    while (p < end) {
        uint32_t lower[3];
        int parts = lower_of(t, next_character(&p), lower);
        for (int i = 0; i < parts; i++) {
            unsigned char bytes[4];
            int more = put_character(lower[i], bytes);
            if (capacity - size < (size_t)more) return WEFT_TEXT_WORKSPACE;
            memcpy(out + size, bytes, (size_t)more);
            size += (size_t)more;
        }
    }
    return (long)size;
}
