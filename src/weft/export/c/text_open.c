/* The tables of a vocabulary, checked once. Afterwards ids, offsets and slots that are read from them are in bounds, so
   that no other file checks them again. text_tables.py writes the same arrays in the same order. */

enum {
    CONTENT,        /* the bytes that entries add to a text, one after another */
    STARTS,         /* entry -> its first byte in CONTENT; one more than entries */
    MARKS,          /* entry -> SILENT and other bits */
    SLOTS,          /* hash of the bytes of an entry -> id + 1, or 0 for an empty slot */
    BYTE_IDS,       /* byte -> id */
    PAIRS,          /* hash of two ids -> left, right, rank, id of the merged entry */
    CHILDREN,       /* node of the trie -> its first child; one more than nodes */
    LABELS,         /* node -> the byte that leads to it, in order among the children of a node */
    VALUES,         /* node -> id + 1, or 0 where no entry ends */
    SCORES,         /* id -> log-probability, float64 */
    ASCII_CLASSES,  /* character below 128 -> bits of classes */
    CLASS_STARTS,   /* the first character of each range, ascending; the first is 0 */
    CLASSES,        /* range -> bits of classes */
    LOWER,          /* first, last, step, difference: capitals of a range and their lower case */
    EXPANSIONS,     /* a capital and the up to three characters of its lower case */
    UNKNOWN_STARTS, /* place in the unknown word -> its first character in UNKNOWN; one more than places */
    UNKNOWN,        /* the characters that a place may have, ascending */
    ARRAYS
};

enum { SILENT = 1, IS_BYTE = 2, CLOSES = 4, OPENS = 8, CONTINUES = 16 }; /* MARKS */
enum { LOWERCASE = 1, GLUE = 2, KEEP = 4, SENTENCES = 8, BLANK_FIRST = 16, WHOLE_WORDS = 32, HANGUL = 64 }; /* flags */
enum { EMPTY_RANK = -1, VERSION = 1, HEADER = 40, MAX_COUNT = 1 << 30 };

static const double UNKNOWN_PENALTY = 10.0; /* below the lowest score, as in the tokenizers library */

static const unsigned char element_bytes[ARRAYS] = {1, 4, 1, 4, 4, 16, 4, 1, 4, 8, 2, 4, 2, 16, 16, 4, 4};

static uint32_t u32_of(const unsigned char *p) {
    return (uint32_t)p[0] | (uint32_t)p[1] << 8 | (uint32_t)p[2] << 16 | (uint32_t)p[3] << 24;
}

static uint64_t u64_of(const unsigned char *p) { return (uint64_t)u32_of(p) | (uint64_t)u32_of(p + 4) << 32; }

static uint32_t u32_at(const weft_text *t, int array, size_t i) { return u32_of(t->arrays[array].at + 4 * i); }

static unsigned u16_at(const weft_text *t, int array, size_t i) {
    const unsigned char *p = t->arrays[array].at + 2 * i;
    return p[0] | (unsigned)p[1] << 8;
}

static unsigned char u8_at(const weft_text *t, int array, size_t i) { return t->arrays[array].at[i]; }

static double f64_at(const weft_text *t, int array, size_t i) {
    uint64_t bits = u64_of(t->arrays[array].at + 8 * i);
    double value;
    memcpy(&value, &bits, sizeof value);
    return value;
}

static size_t count_of(const weft_text *t, int array) { return t->arrays[array].count; }

/* Field i of record n of an array of four numbers. */
static uint32_t field_at(const weft_text *t, int array, size_t n, int i) { return u32_at(t, array, 4 * n + (size_t)i); }

/* The bytes that an entry adds to a text. */
static const unsigned char *content_of(const weft_text *t, size_t id, size_t *size) {
    uint32_t first = u32_at(t, STARTS, id);
    *size = u32_at(t, STARTS, id + 1) - first;
    return t->arrays[CONTENT].at + first;
}

/* Whether an array is ascending offsets, one more than `entries`, up to `end` at most. */
static int are_offsets(const weft_text *t, int array, size_t entries, size_t end) {
    size_t count = count_of(t, array);
    if (count != entries + 1) return 0;
    for (size_t i = 0; i + 1 < count; i++)
        if (u32_at(t, array, i) > u32_at(t, array, i + 1)) return 0;
    return u32_at(t, array, count - 1) <= end;
}

/* Whether all numbers of an array are at most `most`. */
static int are_at_most(const weft_text *t, int array, uint32_t most) {
    for (size_t i = 0; i < count_of(t, array); i++)
        if (u32_at(t, array, i) > most) return 0;
    return 1;
}

/* Whether a hash table has a power of two slots, or none where it is not needed. */
static int is_hash(const weft_text *t, int array, int needed) {
    size_t count = count_of(t, array);
    return count ? (count & (count - 1)) == 0 : !needed;
}

static int pairs_are_valid(const weft_text *t) {
    for (size_t i = 0; i < count_of(t, PAIRS); i++)
        if (field_at(t, PAIRS, i, 2) != (uint32_t)EMPTY_RANK && field_at(t, PAIRS, i, 3) >= t->size) return 0;
    return 1;
}

static int lower_is_valid(const weft_text *t) {
    const uint32_t most = 0x10FFFF;
    for (size_t i = 0; i < count_of(t, LOWER); i++) {
        uint32_t first = field_at(t, LOWER, i, 0), last = field_at(t, LOWER, i, 1), step = field_at(t, LOWER, i, 2);
        uint32_t moved = field_at(t, LOWER, i, 3); /* a negative difference wraps around */
        if (first > last || last > most || step == 0 || first + moved > most || last + moved > most) return 0;
    }
    for (size_t i = 0; i < count_of(t, EXPANSIONS); i++)
        for (int part = 0; part < 4; part++)
            if (field_at(t, EXPANSIONS, i, part) > most) return 0;
    return 1;
}

/* Whether the entry of a byte has one, and the entries of words and characters are UTF-8. */
static int contents_are_valid(const weft_text *t) {
    const int characters = t->kind == WEFT_TEXT_WORD || t->kind == WEFT_TEXT_CHAR || t->kind == WEFT_TEXT_WORDPIECE;
    for (size_t id = 0; id < t->size; id++) {
        size_t size;
        const unsigned char *content = content_of(t, id, &size);
        if (u8_at(t, MARKS, id) & CONTINUES && size < 2) return 0;
        if (u8_at(t, MARKS, id) & IS_BYTE ? size != 1 : characters && !is_utf8(content, size))
            return 0;
    }
    return 1;
}

static int is_valid(const weft_text *t) {
    const int word = t->kind == WEFT_TEXT_WORD, letters = t->kind == WEFT_TEXT_CHAR, bpe = t->kind == WEFT_TEXT_BPE;
    const int unigram = t->kind == WEFT_TEXT_UNIGRAM, trie = unigram || t->kind == WEFT_TEXT_WORDPIECE;
    const size_t nodes = count_of(t, LABELS), places = count_of(t, UNKNOWN_STARTS);
    if (!word && !letters && !bpe && !trie) return 0;
    if (t->size < WEFT_SPECIALS || t->size > MAX_COUNT || count_of(t, MARKS) != t->size) return 0;
    if (!are_offsets(t, STARTS, t->size, count_of(t, CONTENT))) return 0;
    if (!is_hash(t, SLOTS, word || letters || t->flags & WHOLE_WORDS) || !are_at_most(t, SLOTS, t->size)) return 0;
    if (count_of(t, BYTE_IDS) != (letters || bpe ? 256 : 0) || !are_at_most(t, BYTE_IDS, t->size - 1)) return 0;
    if (!is_hash(t, PAIRS, 0) || !pairs_are_valid(t)) return 0;
    if (trie ? nodes < 1 || count_of(t, VALUES) != nodes || !are_offsets(t, CHILDREN, nodes, nodes) : nodes > 0)
        return 0;
    if (!are_at_most(t, VALUES, t->size) || count_of(t, SCORES) != (unigram ? t->size : 0)) return 0;
    if (count_of(t, ASCII_CLASSES) != 128 || count_of(t, CLASS_STARTS) != count_of(t, CLASSES)) return 0;
    if (count_of(t, CLASSES) == 0 || u32_at(t, CLASS_STARTS, 0) != 0 || !lower_is_valid(t)) return 0;
    if (!contents_are_valid(t)) return 0;
    return places == 0 || are_offsets(t, UNKNOWN_STARTS, places - 1, count_of(t, UNKNOWN));
}

int weft_text_open(weft_text *t, const void *bytes, size_t size) {
    const unsigned char *p = bytes;
    memset(t, 0, sizeof *t);
    if (p == NULL || size < HEADER + 16 * ARRAYS || memcmp(p, "weftTEXT", 8) != 0) return WEFT_TEXT_DAMAGED;
    if (u32_of(p + 8) != VERSION || u64_of(p + 24) != size || u32_of(p + 32) != ARRAYS) return WEFT_TEXT_DAMAGED;
    t->kind = u32_of(p + 12);
    t->flags = u32_of(p + 16);
    t->size = u32_of(p + 20);
    t->most_characters = u32_of(p + 36);
    for (int array = 0; array < ARRAYS; array++) {
        uint64_t at = u64_of(p + HEADER + 16 * array), count = u64_of(p + HEADER + 16 * array + 8);
        if (count > MAX_COUNT || at > size || count * element_bytes[array] > size - at) return WEFT_TEXT_DAMAGED;
        t->arrays[array].at = p + at;
        t->arrays[array].count = (uint32_t)count;
    }
    if (!is_valid(t)) return WEFT_TEXT_DAMAGED;
    for (size_t id = 0; id < count_of(t, SCORES); id++) {
        double score = f64_at(t, SCORES, id);
        if (id == 0 || score < t->unknown_score) t->unknown_score = score;
    }
    t->unknown_score -= UNKNOWN_PENALTY;
    return 0;
}

const char *weft_text_error(int code) {
    switch (code) {
    case 0: return "no error";
    case WEFT_TEXT_DAMAGED: return "the tables of the vocabulary are damaged";
    case WEFT_TEXT_UTF8: return "the text is not UTF-8";
    case WEFT_TEXT_FULL: return "the output does not fit";
    case WEFT_TEXT_WORKSPACE: return "the workspace is too small for the text";
    case WEFT_TEXT_LONG: return "the text is too long";
    case WEFT_TEXT_ID: return "an id is not in the vocabulary";
    case WEFT_TEXT_KIND: return "the vocabulary is of another kind";
    default: return "unknown error";
    }
}

enum weft_text_kind weft_text_kind_of(const weft_text *t) { return (enum weft_text_kind)t->kind; }

int32_t weft_text_size(const weft_text *t) { return (int32_t)t->size; }
