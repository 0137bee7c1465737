/* One step of beam search, from hidden states to the next beam: A lanes of K rows, V tokens in parts. Scores are made
   part by part and never kept: of each part a row remembers its maximum, its sum and its best few. The twin in plain
   torch is weft.decoding.beam. Follows attend.c. */

enum { PART = 512, CHUNK = 4 * LANES };

/* What a search knows; the names are those of weft.decoding.board. */
typedef struct {
    unsigned char *live;
    long *step, *first, *limit, *prefix, *tokens;
    float *sums, *best;
    long *best_step, *best_place, *ended, *trail;
    float *logs;
} board_t;

typedef struct {
    const board_t *board;
    const float *hidden, *packed, *bias;
    const long *never;
    long rows, depth, vocabulary, parts, nevers, eos, least, width, n_best, prefix_size, room;
    float *bound; /* (rows) below this nothing is among a row's best */
    float *highest, *total, *top; /* (rows, parts), (rows, parts), (rows, parts, K) */
    long *ids, *from; /* (rows, parts, K); the row that each row continues */
    float penalty;
    int by_bound;
} beam_t;

static inline long length_of(const board_t *b, long lane) { return b->step[lane] + 1 - b->first[lane]; }

static inline int may_come(const beam_t *s, long length, long token) {
    int may = token != s->eos || length > s->least;
    for (long k = 0; k < s->nevers; k++) may &= s->never[k] != token;
    return may;
}

/* Keep a value among the best few, in descending order; of equals the first that came goes before. */
static inline void insert(float *values, long *tokens, long best, float value, long token) {
    long place = best - 1;
    for (; place > 0 && values[place - 1] < value; place--)
        values[place] = values[place - 1], tokens[place] = tokens[place - 1];
    values[place] = value, tokens[place] = token;
}

/* What a row n remembers of scores x (PART) of the tokens from part * PART on. */
static void digest(const beam_t *s, long n, long part, const float *x) {
    const long width = s->width, length = length_of(s->board, n / width), at = n * s->parts + part;
    float *top = s->top + at * width, peaks[PART / CHUNK], bound;
    long *ids = s->ids + at * width;
    for (long c = 0; c < PART / CHUNK; c++) {
        const vec *of = (const vec *)(x + c * CHUNK);
        peaks[c] = highest_of(larger(larger(of[0], of[1]), larger(of[2], of[3])))[0];
    }
    const float highest = maximum(peaks, PART / CHUNK);
    s->highest[at] = highest;
    s->total[at] = sum_exponentials(x, highest == -INFINITY ? 0.0f : highest, PART, 0);
    for (long k = 0; k < width; k++) top[k] = -INFINITY, ids[k] = 0;
    __atomic_load(s->bound + n, &bound, __ATOMIC_RELAXED);
    for (long c = 0; c < PART / CHUNK; c++)
        for (long i = c * CHUNK; peaks[c] >= bound && i < (c + 1) * CHUNK; i++)
            if (x[i] >= bound && x[i] > top[width - 1] && may_come(s, length, part * PART + i)) {
                insert(top, ids, width, x[i], part * PART + i);
                bound = top[width - 1] > bound ? top[width - 1] : bound;
            }
    /* Threads may overwrite each other's: any that was written is the last of K that may come. */
    __atomic_store(s->bound + n, &bound, __ATOMIC_RELAXED);
}

static void score_part(const job_t *job, long part) {
    const beam_t *s = job->data;
    const long first = part * PART, count = s->vocabulary - first < PART ? s->vocabulary - first : PART;
    float *x = numbers(SOME * PART);
    for (long n = 0; n < s->rows; n += SOME) {
        const long many = s->rows - n < SOME ? s->rows - n : SOME;
        product_of(many, s->hidden + n * s->depth, s->depth, s->packed + first * s->depth, s->depth, count,
                   s->bias ? s->bias + first : 0, x, PART);
        for (long r = 0; r < many; r++) {
            for (long i = count; i < PART; i++) x[r * PART + i] = -INFINITY;
            digest(s, n + r, part, x + r * PART);
        }
    }
    free(x);
}

/* log Σ exp of all scores of a row, from those of its parts, always added in the same order. */
static float log_mass(const beam_t *s, long n) {
    const float *highest = s->highest + n * s->parts, *total = s->total + n * s->parts;
    const float peak = maximum(highest, s->parts), base = peak == -INFINITY ? 0.0f : peak;
    float mass = 0.0f;
    for (long p = 0; p < s->parts; p++)
        if (highest[p] > -INFINITY) mass += total[p] * exponential(highest[p] - base);
    return mass > 0.0f ? base + logf(mass) : 0.0f;
}

/* The K likeliest continuations of a lane: the new sums, and for each its place among all (K, parts, K). */
static void choose(const beam_t *s, long lane, const float *norm, float *sums, long *picks) {
    const long width = s->width, own = s->parts * width;
    const float *top = s->top + lane * width * own, *was = s->board->sums + lane * width;
    for (long k = 0; k < width; k++) sums[k] = -INFINITY, picks[k] = 0;
    for (long r = 0; r < width; r++)
        for (long i = 0; i < own; i++) {
            const float sum = was[r] + (top[r * own + i] - norm[r]);
            if (sum > sums[width - 1]) insert(sums, picks, width, sum, r * own + i);
        }
}

/* A text that ends joins the best of its sentence, if it is better than the last of them. */
static void finish(const beam_t *s, long lane, float score, long place) {
    const board_t *b = s->board;
    float *best = b->best + lane * s->n_best;
    long lowest = 0;
    for (long j = 1; j < s->n_best; j++) lowest = best[j] < best[lowest] ? j : lowest;
    if (score > best[lowest]) {
        best[lowest] = score;
        b->best_step[lane * s->n_best + lowest] = b->step[lane];
        b->best_place[lane * s->n_best + lowest] = place;
    }
}

static void advance_lane(const job_t *job, long lane) {
    const beam_t *s = job->data;
    const board_t *b = s->board;
    const long width = s->width, own = s->parts * width, now = b->step[lane], length = length_of(b, lane);
    const int inside = now < b->first[lane], live = b->live[lane];
    const float power = powf(length < 1 ? 1.0f : (float)length, s->penalty);
    float norm[width], sums[width], reach = -INFINITY, lowest = INFINITY;
    long picks[width];
    for (long r = 0; r < width; r++) norm[r] = log_mass(s, lane * width + r);
    choose(s, lane, norm, sums, picks);
    for (long k = 0; k < width; k++) {
        const long place = inside ? 0 : picks[k] / own, at = lane * width * own + picks[k];
        const long forced = b->prefix[lane * s->prefix_size + (now < s->prefix_size ? now : s->prefix_size - 1)];
        const long token = inside ? forced : s->ids[at], noted = (lane * s->room + now) * width + k;
        const int ends = token == s->eos && !inside;
        float sum = !inside ? sums[k] : k == 0 ? 0.0f : -INFINITY;
        b->trail[noted] = token * width + place;
        b->logs[noted] = s->top[at] - norm[picks[k] / own];
        b->tokens[lane * width + k] = token;
        s->from[lane * width + k] = lane * width + place;
        if (ends && live && sum > -INFINITY) {
            finish(s, lane, sum / power, k);
            b->ended[lane]++;
        }
        sum = ends ? -INFINITY : sum;
        reach = sum > reach ? sum : reach;
        if (live) b->sums[lane * width + k] = sum;
    }
    for (long j = 0; j < s->n_best; j++) {
        const float score = b->best[lane * s->n_best + j];
        lowest = score < lowest ? score : lowest;
    }
    const float bound = reach / powf((float)b->limit[lane], s->penalty);
    const int done = s->by_bound ? bound <= lowest : bound == -INFINITY;
    b->step[lane] = now + live;
    b->live[lane] = live && !(b->ended[lane] >= width || length >= b->limit[lane] || done);
}

long part_size(void) { return PART; }

/* hidden (A·K, D), contiguous -> from (A·K): the row that each row continues now. The board is one step further. bound,
   highest, total, top and ids are room to work in. */
void beam_step(const board_t *board, const float *hidden, const float *packed, const float *bias, const long *never,
               float *bound, float *highest, float *total, float *top, long *ids, long *from, long lanes, long width,
               long depth, long vocabulary, long nevers, long eos, long least, long n_best, long prefix_size, long room,
               long by_bound, float penalty, long threads, parallel_t parallel) {
    const long rows = lanes * width, parts = (vocabulary + PART - 1) / PART;
    const beam_t s = {board, hidden, packed, bias, never, rows, depth, vocabulary, parts, nevers, eos, least, width,
                      n_best, prefix_size, room, bound, highest, total, top, ids, from, penalty, (int)by_bound};
    for (long n = 0; n < rows; n++) bound[n] = -INFINITY;
    job_t score = {score_part, parts, 0, &s}, advance = {advance_lane, lanes, 0, &s};
    share(&score, threads, parallel);
    drain(&advance); /* less than it takes to share out */
}
