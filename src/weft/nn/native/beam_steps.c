/* Several steps of a beam search with a transformer: read the tokens, go through the stack, take the best, and again.
   Rows that hold no hypothesis are left out; prompts have been read (texts.c). Follows beam.c. */

#include <time.h>

enum { SPINS = 10000 }; /* as many as GNU's OpenMP is allowed (weft/spinning.py); then the core is for others */

/* Each row goes on with the past of the row that it continues, one position further. A row that nobody reads any more
   stays where room ends. */
static void settle(const transformer_t *s, const beam_t *b, long slot, long *past) {
    const long each = b->width, first = slot * each, room = s->capacity, count = s->length[first] + 1;
    for (long k = 0; s->origin && k < each; k++)
        memcpy(past + k * room, s->origin + b->from[first + k] * room, sizeof(long) * count);
    for (long k = 0; s->origin && k < each; k++)
        memcpy(s->origin + (first + k) * room, past + k * room, sizeof(long) * count);
    for (long k = 0; k < each; k++) s->length[first + k] = count < room ? count : room - 1;
}

/* Rows that pass the stack together, and the scores that they need. */
typedef struct {
    const long *row;
    long rows, part, passed; /* the next part to be scored; 1 after the stack, -1 where it found no memory */
    char apart[64]; /* threads look at one group each */
} group_t;

/* A turn in groups. Whoever has brought a group through the stack goes on with its scores, and then helps others with
   theirs: nobody waits while there is work. */
typedef struct {
    const pass_t *pass;
    const beam_t *beam;
    group_t *groups;
    long count, next;
    int failed;
} turn_t;

static void work_on(void *shared) {
    const struct timespec moment = {0, 20000};
    turn_t *t = shared;
    long own = 0;
    for (long task; (task = __atomic_fetch_add(&t->next, 1, __ATOMIC_RELAXED)) < t->count; own = task) {
        const int failed = run_rows(t->pass, task);
        if (failed) __atomic_store_n(&t->failed, 1, __ATOMIC_RELAXED);
        __atomic_store_n(&t->groups[task].passed, failed ? -1 : 1, __ATOMIC_RELEASE);
    }
    for (long i = 0; i < t->count; i++) {
        group_t *group = t->groups + (own + i) % t->count;
        for (long spins = 0; !__atomic_load_n(&group->passed, __ATOMIC_ACQUIRE); spins++)
            if (spins > SPINS) nanosleep(&moment, 0);
        for (long part; (part = __atomic_fetch_add(&group->part, 1, __ATOMIC_RELAXED)) < t->beam->parts;)
            if (group->passed < 0 || score(t->beam, t->pass->out, group->row, group->rows, part))
                __atomic_store_n(&t->failed, 1, __ATOMIC_RELAXED);
    }
}

static int turn_in_groups(const pass_t *pass, const beam_t *b, long threads, parallel_t parallel) {
    const long count = (pass->rows + pass->task_rows - 1) / pass->task_rows;
    group_t *groups = malloc(sizeof(group_t) * count);
    if (!groups) return 1;
    turn_t t = {.pass = pass, .beam = b, .groups = groups, .count = count};
    for (long i = 0; i < count; i++) {
        const long first = i * pass->task_rows, rest = pass->rows - first;
        groups[i] = (group_t){.row = pass->row + first, .rows = rest < pass->task_rows ? rest : pass->task_rows};
    }
    in_threads(work_on, &t, threads, parallel);
    free(groups);
    if (!t.failed) advance(b);
    return t.failed;
}

enum { ENOUGH = 32 }; /* rows for which a group reads all weights; fewer share them */

static int turn(const transformer_t *s, const beam_t *b, const token_input_t *reader, float *hidden, long threads,
                 parallel_t parallel) {
    const long rows = expect_scores(b), task_rows = (rows + threads - 1) / threads;
    const pass_t pass = {.stack = s, .input = reader, .out = hidden, .row = b->row, .rows = rows, .task_rows = task_rows};
    if (task_rows >= ENOUGH) return turn_in_groups(&pass, b, threads, parallel);
    if (rows && run_pass(&pass, threads, parallel)) return 1;
    return beam_step(b, hidden, threads, parallel);
}

/* Turns until a sentence ends, at most so many; returns how many, or -1 without memory. hidden: a buffer (A·K, D). */
long beam_steps(const transformer_t *s, const beam_t *b, const float *table, const float *places, float scale, float *hidden,
                long most, long threads, parallel_t parallel) {
    const token_input_t reader = {.table = table, .positions = places, .tokens = b->beams->tokens, .scale = scale};
    long *past = malloc(sizeof(long) * b->width * s->capacity);
    unsigned char *live = malloc(b->slots);
    long made = 0;
    int failed = !past || !live;
    for (int ended = 0; made < most && !ended && !failed; made++) {
        memcpy(live, b->beams->live, b->slots);
        if ((failed = turn(s, b, &reader, hidden, threads, parallel))) break;
        for (long slot = 0; slot < b->slots; slot++) {
            if (live[slot]) settle(s, b, slot, past);
            ended |= live[slot] && !b->beams->live[slot];
        }
    }
    free(live);
    free(past);
    return failed ? -1 : made;
}
