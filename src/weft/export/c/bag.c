/* A bag of n-grams of words and of characters: see weft.models.bag. */

static uint64_t bag_spread(int32_t code)
{
    const uint64_t mixed = ((uint64_t)(int64_t)code + 1) * 0xBF58476D1CE4E5B9u;
    return mixed ^ mixed >> 29;
}

/* The hash of characters: the sum of spread code times base^place. */
static uint64_t bag_hash(const int32_t *codes, long count)
{
    uint64_t hash = 0;
    for (long n = count - 1; n >= 0; n--) hash = hash * BAG_BASE + bag_spread(codes[n]);
    return hash;
}

static uint32_t bag_bucket(uint64_t hash, uint64_t salt)
{
    hash += salt * BAG_BASE;
    hash ^= hash >> 30;
    hash *= 0xBF58476D1CE4E5B9u;
    hash ^= hash >> 27;
    hash *= 0x94D049BB133111EBu;
    return (uint32_t)((hash >> 32) * (uint64_t)BAG_BUCKETS >> 32);
}

/* The words of a text, with one blank before each of them and after the last; the number of characters. */
static long bag_row(weft_model *m, const int32_t *ids, long count)
{
    enum { BETWEEN, INSIDE, ALONE };
    int before = BETWEEN;
    long size = 0;
    m->bag_words = 0;
    for (long n = 0; n < count; n++) {
        const int32_t id = ids[n] >= 0 && ids[n] < BAG_ENTRIES ? ids[n] : 0;
        const int kind = BAG_KINDS(m)[id];
        if (kind == ALONE || (kind == INSIDE && before != INSIDE)) {
            m->bag_codes[size++] = ' ';
            m->bag_starts[m->bag_words++] = (int32_t)size;
        }
        if (kind != BETWEEN) m->bag_codes[size++] = BAG_CODES(m)[id];
        before = kind;
    }
    m->bag_codes[size++] = ' ';
    return size;
}

static void bag_sort(uint32_t *values, long count)
{
    for (long root = count / 2 - 1, end = count; end > 1;) { /* heapsort */
        if (root >= 0) {
            long at = root--;
            const uint32_t value = values[at];
            for (long child; (child = 2 * at + 1) < end; at = child) {
                if (child + 1 < end && values[child + 1] > values[child]) child++;
                if (values[child] <= value) break;
                values[at] = values[child];
            }
            values[at] = value;
        } else {
            const uint32_t value = values[--end];
            values[end] = values[0];
            long at = 0;
            for (long child; (child = 2 * at + 1) < end; at = child) {
                if (child + 1 < end && values[child + 1] > values[child]) child++;
                if (values[child] <= value) break;
                values[at] = values[child];
            }
            values[at] = value;
        }
    }
}

/* The buckets of all n-grams of a text in m->bag_found; their number. */
static long bag_find(weft_model *m, long size)
{
    const int32_t *const row = m->bag_codes;
    uint64_t *const words = m->bag_hashes, *const hashes = words + m->bag_words;
    long found = 0;
    for (long n = 0; n < m->bag_words; n++) {
        const long start = m->bag_starts[n], end = n + 1 < m->bag_words ? m->bag_starts[n + 1] - 1 : size - 1;
        hashes[n] = words[n] = bag_hash(row + start, end - start);
        m->bag_found[found++] = bag_bucket(words[n], 1);
    }
    for (int order = 2; order <= BAG_WORDS; order++)
        for (long n = 0; n + order <= m->bag_words; n++) {
            hashes[n] = hashes[n] * BAG_BASE + words[n + order - 1];
            m->bag_found[found++] = bag_bucket(hashes[n], (uint64_t)order);
        }
    for (long order = BAG_LEAST; order <= BAG_MOST; order++)
        for (long at = 0; at + order <= size; at++) {
            int whole = order > 1 || row[at] != ' ';
            for (long n = at + 1; n < at + order - 1 && whole; n++) whole = row[n] != ' ';
            if (whole) m->bag_found[found++] = bag_bucket(bag_hash(row + at, order), 16 + (uint64_t)order);
        }
    bag_sort(m->bag_found, found);
    return found;
}

/* The row of a bucket, or -1. */
static int32_t bag_place(const weft_model *m, uint32_t bucket)
{
    int32_t begin = 0, end = BAG_NGRAMS;
    while (begin < end) {
        const int32_t middle = begin + (end - begin) / 2;
        if ((uint32_t)BAG_PLACES(m)[middle] < bucket)
            begin = middle + 1;
        else
            end = middle;
    }
    return begin < BAG_NGRAMS && (uint32_t)BAG_PLACES(m)[begin] == bucket ? begin : -1;
}

static int graph_forward(weft_model *m, long n_source, const int32_t *ids, float *logits)
{
    const long found = bag_find(m, bag_row(m, ids, n_source));
    double squares = 0.0;
    double sums[BAG_WIDTH] = {0.0};
    int known = 0;
    for (long n = 0, next; n < found; n = next) {
        for (next = n + 1; next < found && m->bag_found[next] == m->bag_found[n];) next++;
        const int32_t place = bag_place(m, m->bag_found[n]);
        if (place < 0) continue;
        const double value = (1.0 + log((double)(next - n))) * (double)BAG_IDF(m)[place];
        squares += value * value, known = 1;
        for (long k = 0; k < BAG_WIDTH; k++) sums[k] += value * (double)BAG_WEIGHTS(m)[(long)place * BAG_WIDTH + k];
    }
    const double length = squares > 0.0 ? sqrt(squares) : 1.0;
    for (long label = 0; label < BAG_OUTPUTS; label++) {
        double sum = 0.0;
        if (BAG_HIDDEN) {
            for (long k = 0; k < BAG_WIDTH; k++) sum += sums[k] / length * (double)BAG_OUTPUT(m)[label * BAG_WIDTH + k];
        } else {
            sum = sums[label % BAG_WIDTH] / length;
        }
        logits[label] = known ? (float)(sum + (double)BAG_BIAS(m)[label]) : BAG_PRIOR(m)[label];
    }
    return 0;
}
