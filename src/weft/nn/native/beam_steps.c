/* Several steps of a beam search with a transformer: read the tokens, go through the stack, take the best, and again.
   Rows that hold no hypothesis are left out; prompts have been read (texts.c). Follows beam.c. */

#include <time.h>

enum { SPINS = 10000 }; /* as many as GNU's OpenMP is allowed (weft/spinning.py); then the core is for others */

/* Each row goes on with the past of the row that it continues, one position further. A row that nobody reads any more
   stays where room ends. */
static void settle(const stack_t *s, const beam_t *b, long slot, long *past) {
    const long each = b->width, first = slot * each, room = s->room, count = s->length[first] + 1;
    for (long k = 0; s->origin && k < each; k++)
        memcpy(past + k * room, s->origin + b->from[first + k] * room, sizeof(long) * count);
    for (long k = 0; s->origin && k < each; k++)
        memcpy(s->origin + (first + k) * room, past + k * room, sizeof(long) * count);
    for (long k = 0; k < each; k++) s->length[first + k] = count < room ? count : room - 1;
}

/* Rows that pass the stack together, and the scores that they need. */
typedef struct {
    const long *row;
    long rows, part, passed; /* the next part to be scored; whether the stack is behind them */
    char apart[64]; /* threads look at one group each */
} group_t;

/* A turn in groups. Whoever has brought a group through the stack goes on with its scores, and then helps others with
   theirs: nobody waits while there is work. */
typedef struct {
    const pass_t *pass;
    const beam_t *beam;
    group_t *groups;
    long count, next;
} turn_t;

static void work_on(void *shared) {
    const struct timespec moment = {0, 20000};
    turn_t *t = shared;
    long own = 0;
    for (long task; (task = __atomic_fetch_add(&t->next, 1, __ATOMIC_RELAXED)) < t->count; own = task) {
        stack_rows(t->pass, task);
        __atomic_store_n(&t->groups[task].passed, 1, __ATOMIC_RELEASE);
    }
    for (long i = 0; i < t->count; i++) {
        group_t *group = t->groups + (own + i) % t->count;
        for (long spins = 0; !__atomic_load_n(&group->passed, __ATOMIC_ACQUIRE); spins++)
            if (spins > SPINS) nanosleep(&moment, 0);
        for (long part; (part = __atomic_fetch_add(&group->part, 1, __ATOMIC_RELAXED)) < t->beam->parts;)
            score(t->beam, t->pass->out, group->row, group->rows, part);
    }
}

static void turn_in_groups(const pass_t *pass, const beam_t *b, long threads, parallel_t parallel) {
    const long count = (pass->rows + pass->at_once - 1) / pass->at_once;
    group_t *groups = malloc(sizeof(group_t) * count);
    turn_t t = {pass, b, groups, count, 0};
    for (long i = 0; i < count; i++) {
        const long first = i * pass->at_once, rest = pass->rows - first;
        const group_t group = {pass->row + first, rest < pass->at_once ? rest : pass->at_once, 0, 0, {0}};
        groups[i] = group;
    }
    in_threads(work_on, &t, threads, parallel);
    free(groups);
    advance(b);
}

enum { ENOUGH = 32 }; /* rows for which a group reads all weights; fewer share them */

static void turn(const stack_t *s, const beam_t *b, const reader_t *reader, float *hidden, long threads,
                 parallel_t parallel) {
    const long rows = expect_scores(b), at_once = (rows + threads - 1) / threads;
    const pass_t pass = {s, reader, 0, hidden, b->row, rows, at_once};
    if (at_once >= ENOUGH) {
        turn_in_groups(&pass, b, threads, parallel);
    } else {
        if (rows) go_through(&pass, threads, parallel);
        beam_step(b, hidden, threads, parallel);
    }
}

/* Turns until a sentence ends, at most so many; gives how many. hidden is room for (A·K, D). */
long beam_steps(const stack_t *s, const beam_t *b, const float *table, const float *places, float scale, float *hidden,
                long most, long threads, parallel_t parallel) {
    const reader_t reader = {table, places, b->beams->tokens, scale};
    long *past = malloc(sizeof(long) * b->width * s->room);
    unsigned char *live = malloc(b->slots);
    long made = 0;
    for (int ended = 0; made < most && !ended; made++) {
        memcpy(live, b->beams->live, b->slots);
        turn(s, b, &reader, hidden, threads, parallel);
        for (long slot = 0; slot < b->slots; slot++) {
            if (live[slot]) settle(s, b, slot, past);
            ended |= live[slot] && !b->beams->live[slot];
        }
    }
    free(live);
    free(past);
    return made;
}
