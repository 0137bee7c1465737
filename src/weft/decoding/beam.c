/* One step of beam search, from hidden states to the next beam: A slots of K rows, V tokens in parts. The scores of a
   part are reduced at once and never stored: each row keeps their maximum, their sum and the best few. Rows that hold no
   hypothesis, or are inside a prefix, are not scored. The plain version is weft.decoding.beam. Follows packed_linear.c
   and single_query.c; beam_cpu.py declares beam_state_t and beam_t. */

enum { PART_TOKENS = 512, CHUNK = 4 * FLOATS }; /* a part is scored at once; chunks of it have a known maximum */

static inline long length_of(const beam_state_t *b, long slot) { return b->step[slot] + 1 - b->first[slot]; }

/* Insert a value into the best few, in descending order; of equal values the first stays first. */
static inline void insert(float *values, long *tokens, long best, float value, long token) {
    long place = best - 1;
    for (; place > 0 && values[place - 1] < value; place--)
        values[place] = values[place - 1], tokens[place] = tokens[place - 1];
    values[place] = value, tokens[place] = token;
}

static inline float maximum_of(const float *x) {
    const vec *of = (const vec *)x;
    return highest_of(larger(larger(of[0], of[1]), larger(of[2], of[3])))[0];
}

/* Remove token i from scores x: it is forbidden, or taken already. */
static inline void rule_out(float *x, float *maxima, long i) {
    x[i] = -INFINITY;
    maxima[i / CHUNK] = maximum_of(x + i / CHUNK * CHUNK);
}

/* Reduce scores x (PART_TOKENS) of row n to their maximum, sum and best few; x is overwritten. */
static void reduce_part(const beam_t *s, long n, long part, float *x) {
    const long width = s->width, at = part * s->slots * width + n, first = part * PART_TOKENS;
    float *top = s->top + at * width, maxima[PART_TOKENS / CHUNK], bound, known;
    long *ids = s->ids + at * width;
    float highest = -INFINITY;
    for (long c = 0; c < PART_TOKENS / CHUNK; c++) {
        maxima[c] = maximum_of(x + c * CHUNK);
        highest = maxima[c] > highest ? maxima[c] : highest;
    }
    s->highest[at] = highest;
    s->total[at] = sum_exponentials(x, highest == -INFINITY ? 0.0f : highest, PART_TOKENS, 0);
    for (long k = s->part_starts[part]; k < s->part_starts[part + 1]; k++) rule_out(x, maxima, s->forbidden[k] - first);
    if (s->eos / PART_TOKENS == part) {
        s->end[n] = length_of(&s->state, n / width) > s->min_length ? x[s->eos - first] : -INFINITY;
        rule_out(x, maxima, s->eos - first);
    }
    for (long k = 0; k < width; k++) top[k] = -INFINITY, ids[k] = 0;
    __atomic_load(s->bound + n, &known, __ATOMIC_RELAXED);
    bound = known;
    if (known == -INFINITY) { /* the K-th of all scores is at least the K-th of the maxima */
        for (long c = 0; c < PART_TOKENS / CHUNK; c++)
            if (maxima[c] > top[width - 1]) insert(top, ids, width, maxima[c], 0);
        bound = top[width - 1];
        for (long k = 0; k < width; k++) top[k] = -INFINITY;
    }
    for (long c = 0; c < PART_TOKENS / CHUNK; c++)
        while (maxima[c] >= bound && maxima[c] > top[width - 1]) {
            long i = c * CHUNK;
            while (x[i] != maxima[c]) i++;
            insert(top, ids, width, x[i], first + i);
            bound = top[width - 1] > bound ? top[width - 1] : bound;
            rule_out(x, maxima, i);
        }
    /* Threads may overwrite each other's bound: each of them is the K-th of some allowed scores, so each is valid. */
    if (bound > known) __atomic_store(s->bound + n, &bound, __ATOMIC_RELAXED);
}

/* Score hidden states (A·K, D) of some rows with the tokens of a part; returns 1 without memory. */
static int score(const beam_t *s, const float *hidden, const long *row, long rows, long part) {
    const packed_linear_t *map = &s->output;
    const long first = part * PART_TOKENS, rest = map->width - first, count = rest < PART_TOKENS ? rest : PART_TOKENS;
    if (!rows) return 0;
    float *x = numbers(ROWS_PER_PANEL * PART_TOKENS);
    const float *at[ROWS_PER_PANEL];
    if (!x) return 1;
    for (long n = 0; n < rows; n += ROWS_PER_PANEL) {
        const long many = rows - n < ROWS_PER_PANEL ? rows - n : ROWS_PER_PANEL;
        for (long r = 0; r < many; r++) at[r] = hidden + row[n + r] * map->depth;
        product_into(many, at, map->weight + first * map->depth, map->depth, count, map->bias ? map->bias + first : 0, x,
                     PART_TOKENS);
        for (long r = 0; r < many; r++) {
            for (long i = count; i < PART_TOKENS; i++) x[r * PART_TOKENS + i] = -INFINITY;
            reduce_part(s, row[n + r], part, x + r * PART_TOKENS);
        }
    }
    free(x);
    return 0;
}

/* log Σ exp of all scores of a row, from its parts, always added in the same order. */
static float log_sum_exp(const beam_t *s, long n) {
    const long rows = s->slots * s->width;
    float highest = -INFINITY, sum = 0.0f;
    for (long p = 0; p < s->parts; p++)
        highest = s->highest[p * rows + n] > highest ? s->highest[p * rows + n] : highest;
    for (long p = 0; highest > -INFINITY && p < s->parts; p++)
        sum += s->total[p * rows + n] * exponential(s->highest[p * rows + n] - highest);
    return sum > 0.0f ? highest + logf(sum) : 0.0f;
}

/* The K likeliest continuations of a slot that do not end: their sums, and the index of each in top (parts, rows, K). */
static void choose(const beam_t *s, long slot, const float *norm, float *sums, long *picks) {
    const long width = s->width, first = slot * width;
    const float *was = s->state.sums + first;
    for (long k = 0; k < width; k++) sums[k] = -INFINITY, picks[k] = 0;
    for (long r = 0; r < width; r++)
        for (long p = 0; was[r] > -INFINITY && p < s->parts; p++)
            for (long at = (p * s->slots * width + first + r) * width, end = at + width; at < end; at++) {
                const float sum = was[r] + (s->top[at] - norm[r]);
                if (sum > sums[width - 1]) insert(sums, picks, width, sum, at);
            }
}

/* Store a text that ends among the best of its sentence, if it is better than the worst of them: its score, the place
   that its end extends, and the log-probability of that end. */
static void finish(const beam_t *s, long slot, float score, long place, float log) {
    const beam_state_t *b = &s->state;
    float *best = b->best + slot * s->n_best;
    long lowest = 0;
    for (long j = 1; j < s->n_best; j++) lowest = best[j] < best[lowest] ? j : lowest;
    if (score > best[lowest]) {
        best[lowest] = score;
        b->best_step[slot * s->n_best + lowest] = b->step[slot];
        b->best_place[slot * s->n_best + lowest] = place;
        b->best_log[slot * s->n_best + lowest] = log;
    }
}

/* Finish the ends that are among the K likeliest of all continuations: of those that do not end, with these sums, and
   of the ends. */
static void finish_ends(const beam_t *s, long slot, const float *norm, const float *sums) {
    const beam_state_t *b = &s->state;
    const long width = s->width, first = slot * width;
    const float power = powf((float)length_of(b, slot), s->penalty);
    float ends[width];
    for (long r = 0; r < width; r++) {
        const float was = b->sums[first + r];
        ends[r] = was > -INFINITY ? was + (s->end[first + r] - norm[r]) : -INFINITY;
    }
    for (long r = 0; r < width; r++) {
        long higher = 0;
        for (long k = 0; k < width; k++) higher += (sums[k] > ends[r]) + (ends[k] > ends[r]);
        if (ends[r] == -INFINITY || higher >= width) continue;
        finish(s, slot, ends[r] / power, r, s->end[first + r] - norm[r]);
        b->ended[slot]++;
    }
}

/* Inside a prefix, continue with its next token, in the first place of the beam. */
static void continue_prefix(const beam_t *s, long slot, float *sums) {
    const beam_state_t *b = &s->state;
    const long now = b->step[slot], width = s->width, token = b->prefix[slot * s->prefix_size + now];
    for (long k = 0; k < width; k++) {
        const long at = (slot * s->steps + now) * width + k;
        sums[k] = k ? -INFINITY : 0.0f;
        b->backpointers[at] = token * width;
        b->logs[at] = 0.0f;
        b->tokens[slot * width + k] = token;
        s->parent[slot * width + k] = slot * width;
    }
}

/* After the prefix, continue with the likeliest tokens. */
static void continue_best(const beam_t *s, long slot, float *sums) {
    const beam_state_t *b = &s->state;
    const long width = s->width, first = slot * width, now = b->step[slot];
    float norm[width];
    long picks[width];
    for (long r = 0; r < width; r++)
        norm[r] = b->sums[first + r] > -INFINITY ? log_sum_exp(s, first + r) : 0.0f;
    choose(s, slot, norm, sums, picks);
    finish_ends(s, slot, norm, sums);
    for (long k = 0; k < width; k++) {
        const int found = sums[k] > -INFINITY; /* else no allowed token is left, and the place is empty */
        const long place = found ? picks[k] / width % (s->slots * width) - first : 0;
        const long token = found ? s->ids[picks[k]] : 0, at = (slot * s->steps + now) * width + k;
        b->backpointers[at] = token * width + place;
        b->logs[at] = found ? s->top[picks[k]] - norm[place] : -INFINITY;
        b->tokens[first + k] = token;
        s->parent[first + k] = first + place;
    }
}

static void advance_slot(const beam_t *s, long slot) {
    const beam_state_t *b = &s->state;
    const long width = s->width, length = length_of(b, slot);
    float sums[width], highest = -INFINITY, lowest = INFINITY;
    if (length < 1)
        continue_prefix(s, slot, sums);
    else
        continue_best(s, slot, sums);
    for (long k = 0; k < width; k++) {
        b->sums[slot * width + k] = sums[k];
        highest = sums[k] > highest ? sums[k] : highest;
    }
    for (long j = 0; j < s->n_best; j++) {
        const float score = b->best[slot * s->n_best + j];
        lowest = score < lowest ? score : lowest;
    }
    const float bound = highest / powf((float)b->limit[slot], s->penalty);
    const int done = s->by_bound ? bound <= lowest : b->ended[slot] >= s->finished || bound == -INFINITY;
    b->step[slot]++;
    b->live[slot] = !(length >= b->limit[slot] || done);
}

long part_tokens(void) { return PART_TOKENS; }

/* List the rows to be scored: those of live slots after their prefix that hold a hypothesis. Returns how many. */
static long list_rows(const beam_t *s) {
    const beam_state_t *b = &s->state;
    long rows = 0;
    for (long n = 0; n < s->slots * s->width; n++) {
        const long slot = n / s->width;
        if (!b->live[slot] || b->sums[n] == -INFINITY || length_of(b, slot) < 1) continue;
        s->bound[n] = -INFINITY;
        s->row[rows++] = n;
    }
    return rows;
}

/* Advance all slots by one step, after their rows were scored; `parent` is then the row that each row continues. */
static void advance(const beam_t *s) {
    for (long n = 0; n < s->slots * s->width; n++) s->parent[n] = n;
    for (long slot = 0; slot < s->slots; slot++)
        if (s->state.live[slot]) advance_slot(s, slot); /* too little work to share among threads */
}

typedef struct {
    const beam_t *beam;
    const float *hidden;
    long rows;
} scoring_t;

static int score_part(const job_t *job, long part) {
    const scoring_t *all = job->data;
    return score(all->beam, all->hidden, all->beam->row, all->rows, part);
}

/* One step from hidden states (A·K, D), contiguous; returns 1 without memory. */
int beam_step(const beam_t *s, const float *hidden, long threads, parallel_t parallel) {
    const scoring_t all = {.beam = s, .hidden = hidden, .rows = list_rows(s)};
    job_t job = {.work = score_part, .tasks = s->parts, .data = &all};
    if (share(&job, threads, parallel)) return 1;
    advance(s);
    return 0;
}
