/* Whole steps of beam search with a transformer: embed the tokens, run the stack, score, advance, and again. Rows without
   a hypothesis are left out; prompts were read before (prefill.c). Follows stack.c and beam.c. */

#include <time.h>

enum { SPINS = 10000 }; /* as many as GNU's OpenMP is allowed (weft/spinning.py); then the thread sleeps */

/* Each row takes the origins of the row that it continues, and its length grows by one. Rows that are no longer read
   stay at the last position of the cache. */
static void reorder_cache(const transformer_t *s, const beam_t *b, long slot, long *origins) {
    const long width = b->width, first = slot * width, capacity = s->capacity, count = s->length[first] + 1;
    for (long k = 0; s->origin && k < width; k++)
        memcpy(origins + k * capacity, s->origin + b->parent[first + k] * capacity, sizeof(long) * count);
    for (long k = 0; s->origin && k < width; k++)
        memcpy(s->origin + (first + k) * capacity, origins + k * capacity, sizeof(long) * count);
    for (long k = 0; k < width; k++) s->length[first + k] = count < capacity ? count : capacity - 1;
}

/* Rows that run through the stack together and are then scored. */
typedef struct {
    const long *row;
    long rows, part, passed; /* the next part to be scored; 1 after the stack, -1 where it found no memory */
    char apart[64]; /* keeps groups in different cache lines: each has its own thread */
} group_t;

/* One step in groups. A thread that has run a group through the stack scores that group, and then helps with the others:
   no thread is idle while there is work. */
typedef struct {
    const pass_t *pass;
    const beam_t *beam;
    group_t *groups;
    long count, next;
    int failed;
} grouped_step_t;

static void run_groups(void *shared) {
    const struct timespec pause = {0, 20000};
    grouped_step_t *t = shared;
    long own = 0;
    for (long task; (task = __atomic_fetch_add(&t->next, 1, __ATOMIC_RELAXED)) < t->count; own = task) {
        const int failed = run_rows(t->pass, task);
        if (failed) __atomic_store_n(&t->failed, 1, __ATOMIC_RELAXED);
        __atomic_store_n(&t->groups[task].passed, failed ? -1 : 1, __ATOMIC_RELEASE);
    }
    for (long i = 0; i < t->count; i++) {
        group_t *group = t->groups + (own + i) % t->count;
        for (long spins = 0; !__atomic_load_n(&group->passed, __ATOMIC_ACQUIRE); spins++)
            if (spins > SPINS) nanosleep(&pause, 0);
        for (long part; (part = __atomic_fetch_add(&group->part, 1, __ATOMIC_RELAXED)) < t->beam->parts;)
            if (group->passed < 0 || score(t->beam, t->pass->out, group->row, group->rows, part))
                __atomic_store_n(&t->failed, 1, __ATOMIC_RELAXED);
    }
}

static int step_in_groups(const pass_t *pass, const beam_t *b, long threads, parallel_t parallel) {
    const long count = (pass->rows + pass->task_rows - 1) / pass->task_rows;
    group_t *groups = malloc(sizeof(group_t) * count);
    if (!groups) return 1;
    grouped_step_t t = {.pass = pass, .beam = b, .groups = groups, .count = count};
    for (long i = 0; i < count; i++) {
        const long first = i * pass->task_rows, rest = pass->rows - first;
        groups[i] = (group_t){.row = pass->row + first, .rows = rest < pass->task_rows ? rest : pass->task_rows};
    }
    in_threads(run_groups, &t, threads, parallel);
    free(groups);
    if (!t.failed) advance(b);
    return t.failed;
}

enum { MIN_GROUP_ROWS = 32 }; /* rows that are worth reading all weights for; fewer are one group of all threads */

static int step_once(const transformer_t *s, const beam_t *b, const token_input_t *input, float *hidden, long threads,
                     parallel_t parallel) {
    const long rows = list_rows(b), task_rows = (rows + threads - 1) / threads;
    const pass_t pass = {.stack = s, .input = input, .out = hidden, .row = b->row, .rows = rows, .task_rows = task_rows};
    if (task_rows >= MIN_GROUP_ROWS) return step_in_groups(&pass, b, threads, parallel);
    if (rows && run_pass(&pass, threads, parallel)) return 1;
    return beam_step(b, hidden, threads, parallel);
}

/* Steps until a sentence ends, at most max_steps; returns how many, or -1 without memory. hidden: a buffer (A·K, D). */
long beam_steps(const transformer_t *s, const beam_t *b, const token_input_t *input, float *hidden, long max_steps,
                long threads, parallel_t parallel) {
    long *origins = malloc(sizeof(long) * b->width * s->capacity);
    unsigned char *live = malloc(b->slots);
    long steps = 0;
    int failed = !origins || !live;
    for (int ended = 0; steps < max_steps && !ended && !failed; steps++) {
        memcpy(live, b->state.live, b->slots);
        if ((failed = step_once(s, b, input, hidden, threads, parallel))) break;
        for (long slot = 0; slot < b->slots; slot++) {
            if (live[slot]) reorder_cache(s, b, slot, origins);
            ended |= live[slot] && !b->state.live[slot];
        }
    }
    free(live);
    free(origins);
    return failed ? -1 : steps;
}
