/* Subwords by byte-pair encoding: of all neighbours the pair of the lowest rank is merged first, the leftmost of equal
   ones, until no neighbours are a pair.

   A word of L bytes begins as L symbols. The heap holds rank and place of each pair in one number. A merge changes the
   pairs on both sides, so that older numbers of these places are stale: they differ from `rank` there. Each merge adds
   two numbers and takes one, so that the heap never has more than 2 L. */

enum { NO_SYMBOL = -1 };

/* The symbols of a word: ids with the neighbours of each, and the rank and the entry of the pair it begins. */
typedef struct {
    uint64_t *heap;
    uint32_t *rank;
    int32_t *id, *next, *previous, *merged;
    size_t waiting;
} bpe_word;

enum { BPE_BYTES = 8 * 2 + 5 * 4 };

/* Lay out the arrays of a word of at most `capacity` bytes in a workspace. */
static bpe_word bpe_arrays(void *workspace, size_t capacity) {
    bpe_word w = {0};
    w.heap = workspace;
    w.rank = (uint32_t *)(void *)(w.heap + 2 * capacity);
    w.id = (int32_t *)(void *)(w.rank + capacity);
    w.next = w.id + capacity;
    w.previous = w.next + capacity;
    w.merged = w.previous + capacity;
    return w;
}

/* The rank of a pair of ids, with the entry that it becomes; EMPTY_RANK if it is not a pair. */
static uint32_t rank_of(const weft_text *t, int32_t left, int32_t right, int32_t *merged) {
    size_t slots = count_of(t, PAIRS), slot;
    uint32_t hash = (uint32_t)left * 0x9E3779B1u ^ (uint32_t)right * 0x85EBCA77u;
    if (slots == 0) return (uint32_t)EMPTY_RANK;
    slot = (hash ^ hash >> 15) & (slots - 1);
    for (size_t seen = 0; seen < slots; seen++, slot = (slot + 1) & (slots - 1)) {
        const unsigned char *pair = t->arrays[PAIRS].at + 16 * slot;
        uint32_t rank = u32_of(pair + 8);
        if (rank == (uint32_t)EMPTY_RANK) return rank;
        if (u32_of(pair) == (uint32_t)left && u32_of(pair + 4) == (uint32_t)right)
            return *merged = (int32_t)u32_of(pair + 12), rank;
    }
    return (uint32_t)EMPTY_RANK;
}

static void push(bpe_word *w, uint64_t value) {
    size_t i = w->waiting++;
    for (; i > 0 && w->heap[(i - 1) / 2] > value; i = (i - 1) / 2) w->heap[i] = w->heap[(i - 1) / 2];
    w->heap[i] = value;
}

static uint64_t pop(bpe_word *w) {
    uint64_t least = w->heap[0], value = w->heap[--w->waiting];
    size_t i = 0;
    for (size_t child; (child = 2 * i + 1) < w->waiting; i = child) {
        if (child + 1 < w->waiting && w->heap[child + 1] < w->heap[child]) child++;
        if (w->heap[child] >= value) break;
        w->heap[i] = w->heap[child];
    }
    w->heap[i] = value;
    return least;
}

/* Look up the pair that begins with symbol i. */
static void pair_at(const weft_text *t, bpe_word *w, int32_t i) {
    int32_t next = w->next[i];
    w->rank[i] = next == NO_SYMBOL ? (uint32_t)EMPTY_RANK : rank_of(t, w->id[i], w->id[next], &w->merged[i]);
    if (w->rank[i] != (uint32_t)EMPTY_RANK) push(w, (uint64_t)w->rank[i] << 32 | (uint32_t)i);
}

/* Merge the symbols of a word of n > 0 bytes; those that remain are found from 0 by `next`. */
static void merge_word(const weft_text *t, bpe_word *w, const unsigned char *p, size_t n) {
    w->waiting = 0;
    for (size_t i = 0; i < n; i++) {
        w->id[i] = (int32_t)u32_at(t, BYTE_IDS, p[i]);
        w->next[i] = i + 1 < n ? (int32_t)(i + 1) : NO_SYMBOL;
        w->previous[i] = (int32_t)i - 1;
    }
    for (size_t i = 0; i < n; i++) pair_at(t, w, (int32_t)i);
    while (w->waiting > 0) {
        uint64_t least = pop(w);
        int32_t i = (int32_t)(uint32_t)least, right;
        if (w->rank[i] != (uint32_t)(least >> 32)) continue;
        right = w->next[i];
        w->id[i] = w->merged[i];
        w->next[i] = w->next[right];
        w->rank[right] = (uint32_t)EMPTY_RANK;
        if (w->next[i] != NO_SYMBOL) w->previous[w->next[i]] = i;
        pair_at(t, w, i);
        if (w->previous[i] != NO_SYMBOL) pair_at(t, w, w->previous[i]);
    }
}
