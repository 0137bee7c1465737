/* Attacks on text.c, to be run under AddressSanitizer and UBSan.

   attack_text TABLES TEXTS ROUNDS SEED: the tables are opened as they are, cut off at every byte (in steps), and with
   bytes changed at random; whatever opens is used with the texts of a file, whole, cut and with changed bytes. All
   buffers have exactly the size that is passed, so that one byte beyond is found. */

#include <stdio.h>
#include <stdlib.h>
#include <string.h>

#include "text.h"

static uint64_t state;

static size_t below(size_t n) { /* xorshift64* */
    state ^= state >> 12, state ^= state << 25, state ^= state >> 27;
    return n ? (size_t)(state * 0x2545F4914F6CDD1DULL >> 20) % n : 0;
}

static void *copy_of(const void *p, size_t n) {
    void *made = malloc(n ? n : 1);
    if (!made) abort();
    if (n) memcpy(made, p, n);
    return made;
}

static unsigned char *file_of(const char *path, size_t *size) {
    FILE *file = fopen(path, "rb");
    unsigned char *bytes = malloc(1 << 24);
    if (!file || !bytes) abort();
    *size = fread(bytes, 1, 1 << 24, file);
    fclose(file);
    return bytes;
}

static long checks;

static void require(int holds, const char *what) {
    checks++;
    if (holds) return;
    fprintf(stderr, "not true: %s\n", what);
    abort();
}

/* Whether bytes are UTF-8: by what they decode to, unlike text.c. */
static int is_text(const char *text, size_t n) {
    const unsigned char *p = (const unsigned char *)text;
    for (size_t i = 0; i < n;) {
        size_t more = p[i] < 0x80 ? 0 : p[i] >> 5 == 6 ? 1 : p[i] >> 4 == 14 ? 2 : p[i] >> 3 == 30 ? 3 : 9;
        uint32_t least[] = {0, 0x80, 0x800, 0x10000}, c = more > 3 ? 0 : p[i] & (more ? 0x3Fu >> more : 0x7Fu);
        if (more > 3 || n - i <= more) return 0;
        for (size_t k = 1; k <= more; k++) {
            if (p[i + k] >> 6 != 2) return 0;
            c = c << 6 | (p[i + k] & 0x3Fu);
        }
        if (c < least[more] || c > 0x10FFFF || (c >= 0xD800 && c < 0xE000)) return 0;
        i += more + 1;
    }
    return 1;
}

static void decode(const weft_text *t, const int32_t *given, size_t n) {
    int32_t *ids = copy_of(given, n * sizeof *ids);
    long size = weft_text_decode(t, ids, n, NULL, 0), total = 0;
    weft_text_stream s = {0};
    if (size >= 0) {
        char *exact = malloc(size ? (size_t)size : 1);
        require(weft_text_decode(t, ids, n, exact, (size_t)size) == size, "a text is decoded to the size counted");
        require(is_text(exact, (size_t)size), "a decoded text is UTF-8");
        if (size > 0) require(weft_text_decode(t, ids, n, exact, (size_t)size - 1) == WEFT_TEXT_FULL, "full is found");
        for (size_t i = 0; i <= n; i++) {
            long more = weft_text_stream_next(t, &s, ids, i, i == n, exact, (size_t)size);
            require(more >= 0, "a stream is decoded where the whole is");
            total += more;
        }
        require(total == size, "pieces are the whole");
        free(exact);
    }
    for (size_t i = 0; i < n; i++) {
        const char *bytes;
        size_t length;
        int blank, after = weft_text_spell(t, ids[i], (int)(i & 1), &bytes, &length, &blank);
        for (size_t k = 0; after >= 0 && k < length; k++) checks += bytes[k] != 0;
    }
    free(ids);
}

static void use(const weft_text *t, const unsigned char *given, size_t n) {
    char *text = copy_of(given, n);
    size_t size = weft_text_workspace(t, n), most = weft_text_most_ids(t, n);
    void *workspace = malloc(size);
    int32_t *ids = malloc(most ? most * sizeof *ids : 1), some[8];
    weft_span *words = malloc(n ? n * sizeof *words : 1);
    long count = weft_text_encode(t, text, n, ids, most, workspace, size), split;
    require(count >= 0 || count == WEFT_TEXT_UTF8 || count == WEFT_TEXT_WORKSPACE, "a text fits where it should");
    require(weft_text_encode(t, text, n, ids, most, workspace, size - 1) < 0 || n == 0, "a small workspace is refused");
    count = weft_text_encode(t, text, n, ids, most, workspace, size);
    if (count > 0) {
        int32_t *fewer = malloc(count > 1 ? (size_t)(count - 1) * sizeof *fewer : 1);
        require(weft_text_encode(t, text, n, fewer, (size_t)count - 1, workspace, size) == WEFT_TEXT_FULL, "full");
        free(fewer);
    }
    for (long i = 0; i < count; i++) require(ids[i] >= 0 && ids[i] < weft_text_size(t), "ids are in the vocabulary");
    if (count > 0) decode(t, ids, (size_t)count < 40 ? (size_t)count : 40);
    for (size_t i = 0; i < 8; i++) some[i] = (int32_t)below((size_t)weft_text_size(t));
    decode(t, some, 8);
    some[below(8)] = below(2) ? -1 : weft_text_size(t);
    require(weft_text_decode(t, some, 8, NULL, 0) == WEFT_TEXT_ID, "ids outside of the vocabulary are refused");
    weft_text_word(t, text, n);
    split = weft_text_split(t, text, n, words, n);
    for (long i = 0; i < split; i++) require(words[i].size > 0 && words[i].start + words[i].size <= n, "spans");
    split = weft_text_fields(text, n, words, n);
    for (long i = 0; i < split; i++) require(words[i].size > 0 && words[i].start + words[i].size <= n, "fields");
    free(text), free(workspace), free(ids), free(words);
}

/* A place in the header, in one of the arrays, or anywhere. */
static size_t place_of(const unsigned char *tables, size_t size) {
    size_t array = below(17), kind = below(4), from = 0, to = 0;
    if (kind == 0) return below(size);
    if (kind == 1) return below(40 + 16 * 17);
    for (size_t i = 0; i < 4; i++) from |= (size_t)tables[40 + 16 * array + i] << 8 * i;
    for (size_t i = 0; i < 4; i++) to |= (size_t)tables[56 + 16 * array + i] << 8 * i;
    return array < 16 && to > from ? from + below(to - from) : below(size);
}

int main(int argc, char **argv) {
    size_t size, length, rounds, opened = 0;
    unsigned char *tables, *texts;
    weft_text t;
    if (argc != 5) return 2;
    tables = file_of(argv[1], &size);
    texts = file_of(argv[2], &length);
    rounds = strtoul(argv[3], NULL, 10);
    state = strtoull(argv[4], NULL, 10) + 1;
    require(weft_text_open(&t, tables, size) == 0, "tables that weft has written are opened");
    use(&t, texts, length);
    for (size_t n = 0; n < size; n += n < 512 ? 1 : 1 + below(size / 256 + 1)) {
        unsigned char *cut = copy_of(tables, n);
        require(weft_text_open(&t, cut, n) == WEFT_TEXT_DAMAGED, "tables that are cut off are refused");
        free(cut);
    }
    for (size_t round = 0; round < rounds; round++) {
        size_t from = below(length), n = below(64), changes = below(4);
        unsigned char text[64], *changed = copy_of(tables, size);
        for (size_t i = round % 4 ? 1 + below(3) : 0; i > 0; i--) {
            size_t at = place_of(tables, size), field = at & ~(size_t)3;
            if (below(2)) changed[at] = (unsigned char)below(256);
            else if (field + 4 <= size) memset(changed + field, below(2) ? 0xFF : 0x00, 4);
        }
        if (from + n > length) n = length - from;
        memcpy(text, texts + from, n);
        while (n > 0 && changes-- > 0) text[below(n)] = (unsigned char)below(256);
        if (weft_text_open(&t, changed, size) == 0) opened++, use(&t, text, n);
        free(changed);
    }
    printf("%zu of %zu opened, %ld checks\n", opened, rounds, checks);
    free(tables), free(texts);
    return 0;
}
