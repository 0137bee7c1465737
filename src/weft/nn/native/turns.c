/* Several turns of a beam search with a transformer: read the tokens, go through the stack, take the best, and again.
   Rows that hold no hypothesis are left out. Follows beam.c. */

/* Each row goes on with the past of the row that it continues, one position further. A row that nobody reads any more
   stays where room ends. */
static void settle(const stack_t *s, const beam_t *b, long lane, long *past) {
    const long each = b->width, first = lane * each, room = s->room, count = s->length[first] + 1;
    for (long k = 0; s->origin && k < each; k++)
        memcpy(past + k * room, s->origin + b->from[first + k] * room, sizeof(long) * count);
    for (long k = 0; s->origin && k < each; k++)
        memcpy(s->origin + (first + k) * room, past + k * room, sizeof(long) * count);
    for (long k = 0; k < each; k++) s->length[first + k] = count < room ? count : room - 1;
}

/* Turns until a sentence ends, at most so many; gives how many. hidden is room for (A·K, D). */
long beam_turns(const stack_t *s, const beam_t *b, const float *table, const float *places, float scale, float *hidden,
                long most, long threads, parallel_t parallel) {
    const reader_t reader = {table, places, b->board->tokens, scale};
    long *row = malloc(sizeof(long) * b->lanes * b->width), *past = malloc(sizeof(long) * b->width * s->room);
    unsigned char *live = malloc(b->lanes);
    long made = 0;
    for (int ended = 0; made < most && !ended; made++) {
        const long rows = list_rows(b, 0, row);
        const pass_t pass = {s, &reader, 0, hidden, row, rows, (rows + threads - 1) / threads};
        memcpy(live, b->board->live, b->lanes);
        if (rows) go_through(&pass, threads, parallel);
        beam_step(b, hidden, threads, parallel);
        for (long lane = 0; lane < b->lanes; lane++) {
            if (live[lane]) settle(s, b, lane, past);
            ended |= live[lane] && !b->board->live[lane];
        }
    }
    free(live);
    free(past);
    free(row);
    return made;
}
