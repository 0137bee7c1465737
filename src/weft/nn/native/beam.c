/* One step of beam search, from hidden states to the next beam: A slots of K rows, V tokens in parts. Scores are made
   part by part and never kept: of each part a row remembers its maximum, its sum and its best few. Rows that hold no
   hypothesis or follow a prefix need none. The twin in plain torch is weft.decoding.beam. Follows attend.c. */

enum { PART = 512, CHUNK = 4 * FLOATS };

/* What a search knows; the names are those of weft.decoding.beam_state. */
typedef struct {
    unsigned char *live;
    long *step, *first, *limit, *prefix, *tokens;
    float *sums, *best, *best_log;
    long *best_step, *best_place, *ended, *backpointers;
    float *logs;
} board_t;

/* A search, put together once for all its steps. */
typedef struct {
    const board_t *beams;
    const float *packed, *bias; /* what scores the tokens */
    const long *never, *nevers; /* tokens that may not come, in order, and where those of each part begin (parts + 1) */
    float *bound; /* (rows) below this nothing is among a row's best */
    float *end; /* (rows) the score of the end token, which is not among them */
    float *highest, *total, *top; /* (parts, rows), (parts, rows), (parts, rows, K): threads write apart from each other */
    long *ids, *row, *from; /* (parts, rows, K); the rows to be scored; the row that each row continues */
    long slots, width, depth, vocabulary, parts, eos, least, n_best, prefix_size, room;
    float penalty;
    int by_bound;
} beam_t;

static inline long length_of(const board_t *b, long slot) { return b->step[slot] + 1 - b->first[slot]; }

/* Keep a value among the best few, in descending order; of equals the first that came goes before. */
static inline void insert(float *values, long *tokens, long best, float value, long token) {
    long place = best - 1;
    for (; place > 0 && values[place - 1] < value; place--)
        values[place] = values[place - 1], tokens[place] = tokens[place - 1];
    values[place] = value, tokens[place] = token;
}

static inline float peak_of(const float *x) {
    const vec *of = (const vec *)x;
    return highest_of(larger(larger(of[0], of[1]), larger(of[2], of[3])))[0];
}

/* The score x[i] of a token that may not come, or is taken, is nobody's best. */
static inline void rule_out(float *x, float *peaks, long i) {
    x[i] = -INFINITY;
    peaks[i / CHUNK] = peak_of(x + i / CHUNK * CHUNK);
}

/* What a row n remembers of scores x (PART) of the tokens from part * PART on, some of which are written over. */
static void digest(const beam_t *s, long n, long part, float *x) {
    const long width = s->width, at = part * s->slots * width + n, first = part * PART;
    float *top = s->top + at * width, peaks[PART / CHUNK], bound, known;
    long *ids = s->ids + at * width;
    float highest = -INFINITY;
    for (long c = 0; c < PART / CHUNK; c++) {
        peaks[c] = peak_of(x + c * CHUNK);
        highest = peaks[c] > highest ? peaks[c] : highest;
    }
    s->highest[at] = highest;
    s->total[at] = sum_exponentials(x, highest == -INFINITY ? 0.0f : highest, PART, 0);
    for (long k = s->nevers[part]; k < s->nevers[part + 1]; k++) rule_out(x, peaks, s->never[k] - first);
    if (s->eos / PART == part) {
        s->end[n] = length_of(s->beams, n / width) > s->least ? x[s->eos - first] : -INFINITY;
        rule_out(x, peaks, s->eos - first);
    }
    for (long k = 0; k < width; k++) top[k] = -INFINITY, ids[k] = 0;
    __atomic_load(s->bound + n, &known, __ATOMIC_RELAXED);
    bound = known;
    if (known == -INFINITY) { /* at least as high as the last of K peaks is the last of K tokens */
        for (long c = 0; c < PART / CHUNK; c++)
            if (peaks[c] > top[width - 1]) insert(top, ids, width, peaks[c], 0);
        bound = top[width - 1];
        for (long k = 0; k < width; k++) top[k] = -INFINITY;
    }
    for (long c = 0; c < PART / CHUNK; c++)
        while (peaks[c] >= bound && peaks[c] > top[width - 1]) {
            long i = c * CHUNK;
            while (x[i] != peaks[c]) i++;
            insert(top, ids, width, x[i], first + i);
            bound = top[width - 1] > bound ? top[width - 1] : bound;
            rule_out(x, peaks, i);
        }
    /* Threads may overwrite each other's: any that was written is the last of K that may come. */
    if (bound > known) __atomic_store(s->bound + n, &bound, __ATOMIC_RELAXED);
}

/* Score hidden states (A·K, D) of some rows, with the tokens of a part. */
static int score(const beam_t *s, const float *hidden, const long *row, long rows, long part) {
    const long first = part * PART, count = s->vocabulary - first < PART ? s->vocabulary - first : PART;
    if (!rows) return 0;
    float *x = numbers(ROWS_PER_PANEL * PART);
    if (!x) return 1;
    const float *at[ROWS_PER_PANEL];
    for (long n = 0; n < rows; n += ROWS_PER_PANEL) {
        const long many = rows - n < ROWS_PER_PANEL ? rows - n : ROWS_PER_PANEL;
        for (long r = 0; r < many; r++) at[r] = hidden + row[n + r] * s->depth;
        product_into(many, at, s->packed + first * s->depth, s->depth, count, s->bias ? s->bias + first : 0, x, PART);
        for (long r = 0; r < many; r++) {
            for (long i = count; i < PART; i++) x[r * PART + i] = -INFINITY;
            digest(s, row[n + r], part, x + r * PART);
        }
    }
    free(x);
    return 0;
}

/* log Σ exp of all scores of a row, from those of its parts, always added in the same order. */
static float log_mass(const beam_t *s, long n) {
    const long rows = s->slots * s->width;
    float peak = -INFINITY, mass = 0.0f;
    for (long p = 0; p < s->parts; p++) peak = s->highest[p * rows + n] > peak ? s->highest[p * rows + n] : peak;
    for (long p = 0; peak > -INFINITY && p < s->parts; p++)
        mass += s->total[p * rows + n] * exponential(s->highest[p * rows + n] - peak);
    return mass > 0.0f ? peak + logf(mass) : 0.0f;
}

/* The K likeliest continuations of a slot that go on: the new sums, and where among all (parts, rows, K) each was
   found. */
static void choose(const beam_t *s, long slot, const float *norm, float *sums, long *picks) {
    const long width = s->width, first = slot * width;
    const float *was = s->beams->sums + first;
    for (long k = 0; k < width; k++) sums[k] = -INFINITY, picks[k] = 0;
    for (long r = 0; r < width; r++)
        for (long p = 0; was[r] > -INFINITY && p < s->parts; p++)
            for (long at = (p * s->slots * width + first + r) * width, end = at + width; at < end; at++) {
                const float sum = was[r] + (s->top[at] - norm[r]);
                if (sum > sums[width - 1]) insert(sums, picks, width, sum, at);
            }
}

/* A text that ends joins the best of its sentence, if it is better than the last of them: its score, the place that
   its end extends, and the log-probability of that end. */
static void finish(const beam_t *s, long slot, float score, long place, float log) {
    const board_t *b = s->beams;
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

/* Ends count if they are among the K likeliest of all continuations: of those that go on, with these sums, and of the
   ends. */
static void finish_ends(const beam_t *s, long slot, const float *norm, const float *sums) {
    const board_t *b = s->beams;
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

/* What continues inside a prefix is its next token, in the first place. */
static void follow_prefix(const beam_t *s, long slot, float *sums) {
    const board_t *b = s->beams;
    const long now = b->step[slot], width = s->width, token = b->prefix[slot * s->prefix_size + now];
    for (long k = 0; k < width; k++) {
        const long noted = (slot * s->room + now) * width + k;
        sums[k] = k ? -INFINITY : 0.0f;
        b->backpointers[noted] = token * width;
        b->logs[noted] = 0.0f;
        b->tokens[slot * width + k] = token;
        s->from[slot * width + k] = slot * width;
    }
}

/* What continues freely: the likeliest. */
static void continue_best(const beam_t *s, long slot, float *sums) {
    const board_t *b = s->beams;
    const long width = s->width, first = slot * width, now = b->step[slot];
    float norm[width];
    long picks[width];
    for (long r = 0; r < width; r++)
        norm[r] = b->sums[first + r] > -INFINITY ? log_mass(s, first + r) : 0.0f;
    choose(s, slot, norm, sums, picks);
    finish_ends(s, slot, norm, sums);
    for (long k = 0; k < width; k++) {
        const int found = sums[k] > -INFINITY; /* else nothing is left that may come, and the place stays empty */
        const long place = found ? picks[k] / width % (s->slots * width) - first : 0;
        const long token = found ? s->ids[picks[k]] : 0, noted = (slot * s->room + now) * width + k;
        b->backpointers[noted] = token * width + place;
        b->logs[noted] = found ? s->top[picks[k]] - norm[place] : -INFINITY;
        b->tokens[first + k] = token;
        s->from[first + k] = first + place;
    }
}

static void advance_slot(const beam_t *s, long slot) {
    const board_t *b = s->beams;
    const long width = s->width, length = length_of(b, slot);
    float sums[width], reach = -INFINITY, lowest = INFINITY;
    if (length < 1)
        follow_prefix(s, slot, sums);
    else
        continue_best(s, slot, sums);
    for (long k = 0; k < width; k++) {
        b->sums[slot * width + k] = sums[k];
        reach = sums[k] > reach ? sums[k] : reach;
    }
    for (long j = 0; j < s->n_best; j++) {
        const float score = b->best[slot * s->n_best + j];
        lowest = score < lowest ? score : lowest;
    }
    const float bound = reach / powf((float)b->limit[slot], s->penalty);
    const int done = s->by_bound ? bound <= lowest : b->ended[slot] >= width || bound == -INFINITY;
    b->step[slot]++;
    b->live[slot] = !(length >= b->limit[slot] || done);
}

long part_size(void) { return PART; }

long beam_bytes(void) { return sizeof(beam_t); }

void beam_make(beam_t *s, const board_t *beams, const float *packed, const float *bias, const long *never,
               const long *nevers, float *bound, float *end, float *highest, float *total, float *top, long *ids,
               long *row, long *from, long slots, long width, long depth, long vocabulary, long eos, long least, long n_best,
               long prefix_size, long room, long by_bound, float penalty) {
    const long parts = (vocabulary + PART - 1) / PART;
    const beam_t made = {beams, packed, bias, never, nevers, bound, end, highest, total, top, ids, row, from, slots,
                         width, depth, vocabulary, parts, eos, least, n_best, prefix_size, room, penalty, (int)by_bound};
    *s = made;
}

/* Before the scores of a step are made: the rows that need some, of which nothing is known. They belong to live slots,
   hold a hypothesis, and are behind their prefix. */
static long expect_scores(const beam_t *s) {
    const board_t *b = s->beams;
    long rows = 0;
    for (long n = 0; n < s->slots * s->width; n++) {
        const long slot = n / s->width;
        if (!b->live[slot] || b->sums[n] == -INFINITY || length_of(b, slot) < 1) continue;
        s->bound[n] = -INFINITY;
        s->row[rows++] = n;
    }
    return rows;
}

/* After they were made: `from` says which row each row continues now. The beams is one step further. */
static void advance(const beam_t *s) {
    for (long n = 0; n < s->slots * s->width; n++) s->from[n] = n;
    for (long slot = 0; slot < s->slots; slot++)
        if (s->beams->live[slot]) advance_slot(s, slot); /* less than it takes to share out */
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

/* One step, from hidden (A·K, D), contiguous. */
int beam_step(const beam_t *s, const float *hidden, long threads, parallel_t parallel) {
    const scoring_t all = {.beam = s, .hidden = hidden, .rows = expect_scores(s)};
    job_t job = {.work = score_part, .tasks = s->parts, .data = &all};
    if (share(&job, threads, parallel)) return 1;
    advance(s);
    return 0;
}
