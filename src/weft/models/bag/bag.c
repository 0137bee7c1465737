/* A bag of n-grams: the hashed n-grams of texts with their weights, and a linear classifier of them that is trained by
   stochastic gradient descent. The plain versions are ngrams_plain.py and sgd_plain.py. Follows arithmetic.c;
   native.py declares texts_t, ngrams_t and updates_t. */

enum { BETWEEN, INSIDE, ALONE }; /* kinds of characters: between words, inside a word, a word of its own */
enum { CHARACTER_SALT = 16 };    /* added to the size of an n-gram of characters, to tell it from one of words */

static const unsigned long BASE = 0x9E3779B97F4A7C15ul, MIX_1 = 0xBF58476D1CE4E5B9ul, MIX_2 = 0x94D049BB133111EBul;

static inline unsigned long spread(unsigned long code) {
    const unsigned long x = (code + 1) * MIX_1;
    return x ^ (x >> 29);
}

static inline int bucket_of(unsigned long hash, unsigned long salt, long buckets) {
    unsigned long x = hash + salt * BASE;
    x = (x ^ (x >> 30)) * MIX_1;
    x = (x ^ (x >> 27)) * MIX_2;
    return (int)(((x >> 32) * (unsigned long)buckets) >> 32);
}

/* The end of the word that begins at character i. */
static inline long word_end(const texts_t *t, long i, long end) {
    if (t->kinds[i] == ALONE) return i + 1;
    while (i < end && t->kinds[i] == INSIDE) i++;
    return i;
}

/* The number of n-grams of characters of a word of m characters with a blank before and after it. */
static long parts_of(const ngrams_t *g, long m) {
    long count = 0;
    for (long size = g->least; size <= g->most && size <= m + 2; size++) count += size == 1 ? m : m + 3 - size;
    return count;
}

/* sizes (texts): the number of occurrences of n-grams in each text; returns their sum. */
long bag_sizes(const texts_t *t, const ngrams_t *g, long *sizes) {
    long total = 0;
    for (long n = 0; n < t->texts; n++) {
        long words = 0, count = 0;
        for (long i = t->starts[n], end = t->starts[n + 1]; i < end;) {
            if (t->kinds[i] == BETWEEN) { i++; continue; }
            const long stop = word_end(t, i, end);
            count += parts_of(g, stop - i), words++, i = stop;
        }
        for (long size = 1; size <= g->words && size <= words; size++) count += words + 1 - size;
        total += sizes[n] = count;
    }
    return total;
}

/* ---- counting ---- */

/* A hash table of the n-grams of one text: `place` of an n-gram is its index in the text's columns, or -1. */
typedef struct {
    int *place;
    unsigned long mask;
    int *columns;
    float *values;
    long used;
} table_t;

static inline void add(table_t *table, int column) {
    unsigned long at = (unsigned long)column * MIX_2 >> 20 & table->mask;
    for (; table->place[at] >= 0; at = (at + 1) & table->mask)
        if (table->columns[table->place[at]] == column) {
            table->values[table->place[at]] += 1.0f;
            return;
        }
    table->place[at] = (int)table->used;
    table->columns[table->used] = column, table->values[table->used++] = 1.0f;
}

static void add_parts(table_t *table, const ngrams_t *g, const int *word, long m) {
    for (long i = 0; i < m + 2; i++) {
        unsigned long hash = 0, power = 1;
        for (long size = 1; size <= g->most && i + size <= m + 2; size++) {
            const long at = i + size - 2; /* the character in the word; the blanks are before and after it */
            hash += spread(at >= 0 && at < m ? (unsigned long)word[at] : ' ') * power, power *= BASE;
            if (size < g->least || (size == 1 && (at < 0 || at >= m))) continue;
            add(table, bucket_of(hash, CHARACTER_SALT + size, g->buckets));
        }
    }
}

/* tf-idf: values = (1 + ln count) idf, divided by their length; n-grams without a row are left out. */
static void weigh(table_t *table, const ngrams_t *g) {
    long used = 0;
    double squares = 0.0;
    for (long k = 0; k < table->used; k++) {
        const int row = g->rows[table->columns[k]];
        if (row < 0) continue;
        const float value = (1.0f + logf(table->values[k])) * g->idf[row];
        squares += (double)value * value;
        table->columns[used] = row, table->values[used++] = value;
    }
    const float scale = squares > 0.0 ? (float)(1.0 / sqrt(squares)) : 0.0f;
    for (long k = 0; k < used; k++) table->values[k] *= scale;
    table->used = used;
}

typedef struct {
    const texts_t *texts;
    const ngrams_t *ngrams;
    const long *begins; /* where the n-grams of each text are written */
    long *used;
    int *columns;
    float *values;
} count_t;

enum { TEXTS_PER_TASK = 64 };

static int count_some(const job_t *job, long task) {
    const count_t *c = job->data;
    const texts_t *t = c->texts;
    const ngrams_t *g = c->ngrams;
    const long first = task * TEXTS_PER_TASK, rest = t->texts - first;
    const long last = first + (rest < TEXTS_PER_TASK ? rest : TEXTS_PER_TASK);
    long most = 1, longest = 1;
    for (long n = first; n < last; n++) {
        const long size = c->begins[n + 1] - c->begins[n], characters = t->starts[n + 1] - t->starts[n];
        most = size > most ? size : most, longest = characters > longest ? characters : longest;
    }
    unsigned long capacity = 16;
    while (capacity < 2 * (unsigned long)most) capacity *= 2;
    int *place = malloc(capacity * sizeof(int));
    unsigned long *words = malloc(longest * sizeof(unsigned long));
    if (!place || !words) {
        free(place), free(words);
        return 1;
    }
    for (long n = first; n < last; n++) {
        const long begin = c->begins[n], size = c->begins[n + 1] - begin;
        for (capacity = 16; capacity < 2 * (unsigned long)size;) capacity *= 2;
        for (unsigned long k = 0; k < capacity; k++) place[k] = -1;
        table_t table = {place, capacity - 1, c->columns + begin, c->values + begin, 0};
        long count = 0;
        for (long i = t->starts[n], end = t->starts[n + 1]; i < end;) {
            if (t->kinds[i] == BETWEEN) { i++; continue; }
            const long stop = word_end(t, i, end);
            unsigned long hash = 0, power = 1;
            for (long k = i; k < stop; k++) hash += spread(t->codes[k]) * power, power *= BASE;
            words[count++] = hash;
            if (g->most) add_parts(&table, g, t->codes + i, stop - i);
            i = stop;
        }
        for (long i = 0; i < count; i++) {
            unsigned long hash = 0;
            for (long size = 1; size <= g->words && i + size <= count; size++) {
                hash = hash * BASE + words[i + size - 1];
                add(&table, bucket_of(hash, size, g->buckets));
            }
        }
        if (g->rows) weigh(&table, g);
        c->used[n] = table.used;
    }
    free(place), free(words);
    return 0;
}

/* columns and values of the n-grams of each text, at its place in `begins` (texts + 1); then moved together, so that
   those of a text follow those of the one before. used (texts): how many each has. */
int bag_count(const texts_t *t, const ngrams_t *g, const long *begins, long *used, int *columns, float *values,
              long threads, parallel_t parallel) {
    const count_t count = {t, g, begins, used, columns, values};
    job_t job = {count_some, (t->texts + TEXTS_PER_TASK - 1) / TEXTS_PER_TASK, 0, 0, &count};
    if (share(&job, threads, parallel)) return 1;
    for (long n = 0, to = 0; n < t->texts; to += used[n++]) {
        memmove(columns + to, columns + begins[n], used[n] * sizeof(int));
        memmove(values + to, values + begins[n], used[n] * sizeof(float));
    }
    return 0;
}

/* ---- training ---- */

/* z -> the gradient of the loss by z; returns the loss. With `many` each label is a decision of its own. With targets
   the loss is the squared error, and the gradient half of its own. */
static double residual(const updates_t *u, long row, float *z) {
    const long classes = u->classes, begin = u->label_starts[row], end = u->label_starts[row + 1];
    double loss = 0.0;
    if (u->targets) {
        z[0] -= u->targets[row];
        return (double)z[0] * z[0];
    }
    if (u->many) {
        for (long k = begin; k < end; k++) loss -= z[u->labels[k]];
        for (long c = 0; c < classes; c++) {
            loss += (z[c] > 0.0f ? z[c] : 0.0f) + log1p(exp(-fabs(z[c])));
            z[c] = sigmoid(z[c]);
        }
        loss /= classes;
    } else {
        float highest = -INFINITY, total = 0.0f;
        const float gold = z[u->labels[begin]];
        for (long c = 0; c < classes; c++) highest = z[c] > highest ? z[c] : highest;
        for (long c = 0; c < classes; c++) total += z[c] = exponential(z[c] - highest);
        for (long c = 0; c < classes; c++) z[c] /= total;
        loss = log(total) + highest - gold;
    }
    for (long k = begin; k < end; k++) z[u->labels[k]] -= 1.0f;
    if (u->many && u->class_weights) {
        const float *absent = u->class_weights, *present = absent + classes;
        for (long k = begin; k < end; k++) z[u->labels[k]] *= present[u->labels[k]] / absent[u->labels[k]];
        for (long c = 0; c < classes; c++) z[c] *= absent[c];
    }
    return loss;
}

static inline float dot(const float *a, const float *b, long n) {
    float sums[16] = {0}, total = 0.0f;
    long i = 0;
    for (; i + 16 <= n; i += 16)
        for (int j = 0; j < 16; j++) sums[j] += a[i + j] * b[i + j];
    for (int j = 0; j < 16; j++) total += sums[j];
    for (; i < n; i++) total += a[i] * b[i];
    return total;
}

/* x W for a row; W (rows, width) */
static void read_row(const updates_t *u, long row, float *h) {
    const long width = u->width;
    for (long k = u->starts[row]; k < u->starts[row + 1]; k++) {
        const float value = u->values[k], *w = u->weights + u->columns[k] * width;
        for (long c = 0; c < width; c++) h[c] += value * w[c];
    }
}

static void write_row(const updates_t *u, long row, const float *g, float rate) {
    const long width = u->width;
    for (long k = u->starts[row]; k < u->starts[row + 1]; k++) {
        const float value = rate * u->values[k];
        float *w = u->weights + u->columns[k] * width;
        for (long c = 0; c < width; c++) w[c] -= value * g[c];
    }
}

static int update_some(const job_t *job, long task) {
    const updates_t *u = job->data;
    const long classes = u->classes, width = u->width;
    const long first = u->count * task / job->tasks, last = u->count * (task + 1) / job->tasks;
    float *z = malloc((classes + 2 * width) * sizeof(float)), *h = z + classes, *g = h + width;
    double loss = 0.0;
    if (!z) return 1;
    for (long n = first; n < last; n++) {
        const long row = u->order[n];
        float rate = u->rate + (u->last_rate - u->rate) * ((float)n / u->count);
        if (u->class_weights && !u->many) rate *= u->class_weights[u->labels[u->label_starts[row]]];
        for (long c = 0; c < classes; c++) z[c] = u->bias[c];
        if (!u->output) {
            read_row(u, row, z);
            loss += residual(u, row, z);
            write_row(u, row, z, rate);
            continue;
        }
        for (long k = 0; k < width; k++) h[k] = g[k] = 0.0f;
        read_row(u, row, h);
        for (long c = 0; c < classes; c++) z[c] += dot(u->output + c * width, h, width);
        loss += residual(u, row, z);
        for (long c = 0; c < classes; c++) {
            float *o = u->output + c * width;
            for (long k = 0; k < width; k++) g[k] += z[c] * o[k], o[k] -= rate * z[c] * h[k];
        }
        write_row(u, row, g, rate);
    }
    u->losses[task] = (float)(loss / u->count);
    free(z);
    return 0;
}

/* One update for each row of `order` (count), in `tasks` parts side by side; threads that write the same number at the
   same time lose one of the two updates, which does no harm. With one task the result is always the same. */
int bag_update(const updates_t *u, long threads, parallel_t parallel) {
    job_t job = {update_some, u->tasks, 0, 0, u};
    return share(&job, threads, parallel);
}
