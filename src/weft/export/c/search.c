/* Search for the best text: beam search as in weft.decoding.beam, for one sentence; a beam of 1 is greedy search.

   At each step every hypothesis proposes its next tokens. Of the proposals that do not end the text, the K with the
   highest sums stay in the beam. An end counts as finished if it is among the K likeliest of all proposals. */

static void search_arrange(weft_model *m, weft_search *s, int width, long steps, long positions)
{
    const uint64_t k = (uint64_t)width, v = WEFT_VOCABULARY, l = (uint64_t)steps;
    s->steps = steps;
    for (int half = 0; half < 2; half++)
        for (int n = 0; n < width; n++)
            state_arrange(m, &s->state[half * WEFT_MAX_BEAM + n], half || n ? &s->state[0] : 0, positions,
                          half && width == 1);
    s->logits = weft_take(m, 4 * v), s->logs = weft_take(m, 4 * v), s->model_logs = weft_take(m, 4 * v);
    s->sums = weft_take(m, 4 * k), s->next = weft_take(m, 4 * k);
    s->best = weft_take(m, 4 * k * k), s->best_logs = weft_take(m, 4 * k * k);
    s->best_tokens = weft_take(m, 4 * k * k);
    s->tokens = weft_take(m, 4 * k * l), s->places = weft_take(m, 4 * k * l), s->step_logs = weft_take(m, 4 * k * l);
    s->counts = weft_take(m, 4 * k * v), s->moved = weft_take(m, 4 * k * v), s->read = weft_take(m, v);
    s->sorted = weft_take(m, 4 * v), s->order = weft_take(m, 8 * v), s->shares = weft_take(m, 8 * v);
    s->texts = weft_take(m, 8 * k * l);
    for (int n = 0; n < 2 * width; n++) s->found[n].tokens = s->texts ? s->texts + n * steps : 0;
}

/* Log-probabilities of logits; forbidden tokens, and an end that comes too early, get -inf. */
static void search_logs(const float *logits, float *logs, long length, const weft_options *options)
{
    static const int32_t forbidden[] = {WEFT_FORBIDDEN};
    float most = -INFINITY;
    double total = 0.0;
    for (long v = 0; v < WEFT_VOCABULARY; v++) most = logits[v] > most ? logits[v] : most;
    if (!(most > -INFINITY)) { /* no token can follow, as in counts without smoothing */
        for (long v = 0; v < WEFT_VOCABULARY; v++) logs[v] = -INFINITY;
        return;
    }
    for (long v = 0; v < WEFT_VOCABULARY; v++) total += exp((double)(logits[v] - most));
    const float shift = most + (float)log(total);
    for (long v = 0; v < WEFT_VOCABULARY; v++) logs[v] = logits[v] - shift;
    for (size_t n = 0; n < sizeof forbidden / sizeof *forbidden; n++) logs[forbidden[n]] = -INFINITY;
    if (length <= options->min_length) logs[WEFT_EOS] = -INFINITY;
}

static int search_penalises(const weft_options *options)
{
    return options->repetition_penalty != 1.0f || options->frequency_penalty != 0.0f ||
           options->presence_penalty != 0.0f;
}

/* Lower the logits of tokens that a text already has. */
static void search_penalise(const weft_search *s, float *logits, int row, const weft_options *options)
{
    const int32_t *counts = s->counts + (long)row * WEFT_VOCABULARY;
    for (long v = 0; v < WEFT_VOCABULARY; v++) {
        const float before = logits[v];
        if (counts[v] > 0 || s->read[v])
            logits[v] = before > 0.0f ? before / options->repetition_penalty : before * options->repetition_penalty;
        logits[v] -= options->frequency_penalty * (float)counts[v] + options->presence_penalty * (float)(counts[v] > 0);
    }
}

static float search_rank(float sum, long length, const weft_options *options)
{
    return sum / powf((float)(length > 1 ? length : 1), options->length_penalty);
}

/* Read the tokens before the first step but for the last one, which the first step reads. */
static int search_begin(weft_model *m, weft_search *s, const int32_t *prompt, long count, const weft_options *options)
{
    weft_state own = s->state[WEFT_MAX_BEAM];
    int error = state_begin(m, &s->state[0]);
    state_share(&s->state[0], &s->state[WEFT_MAX_BEAM]);
    for (long n = 0; n + 1 < count && !error; n++) {
        error = state_step(m, &s->state[0], &s->state[WEFT_MAX_BEAM], prompt[n], n, s->logits);
        const weft_state swap = s->state[0];
        s->state[0] = s->state[WEFT_MAX_BEAM], s->state[WEFT_MAX_BEAM] = swap;
    }
    state_share(&own, &s->state[WEFT_MAX_BEAM]);
    if (search_penalises(options)) {
        memset(s->counts, 0, (size_t)options->beam * WEFT_VOCABULARY * sizeof *s->counts);
        memset(s->read, 0, WEFT_VOCABULARY);
        for (long n = m->before; n < count; n++) s->read[prompt[n]] = 1;
    }
    return error;
}

/* The logits of a row become what the search ranks by, in s->logs, and the model's log-probabilities. */
static const float *search_rate(weft_search *s, int row, long length, const weft_options *options)
{
    search_logs(s->logits, s->logs, length, options);
    if (!search_penalises(options)) return s->logs;
    memcpy(s->model_logs, s->logs, WEFT_VOCABULARY * sizeof(float));
    search_penalise(s, s->logits, row, options);
    search_logs(s->logits, s->logs, length, options);
    return s->model_logs;
}

/* Follow the back pointers from the end of a text, and add up its score. */
static void search_trace(weft_search *s, weft_found *found, int width, const weft_options *options)
{
    int place = found->place;
    double sum = 0.0;
    for (long step = found->step - 1; step >= 0; step--) {
        const long at = step * width + place;
        found->tokens[step] = s->tokens[at];
        sum += (double)s->step_logs[at];
        place = s->places[at];
    }
    if (found->ended) sum += (double)found->log;
    const long length = found->step + found->ended;
    found->score = sum / pow((double)(length > 0 ? length : 1), (double)options->length_penalty);
    if (!search_penalises(options) || options->sample) found->rank = (float)found->score;
}

/* Finished texts first, then by what the search maximises; at most n_best. */
static void search_sort(weft_search *s, int n_best)
{
    for (int n = 1; n < s->found_count; n++)
        for (int at = n; at > 0; at--) {
            weft_found *const one = &s->found[at - 1], *const two = &s->found[at];
            if (!(two->ended > one->ended || (two->ended == one->ended && two->rank > one->rank))) break;
            const weft_found swap = *one;
            *one = *two, *two = swap;
        }
    if (s->found_count > n_best) s->found_count = n_best;
}

/* Keep a hypothesis that ends if it is among the n best. */
static void search_finish(weft_search *s, int n_best, weft_found ending)
{
    int worst = 0;
    if (s->found_count < n_best) {
        worst = s->found_count++;
    } else {
        for (int n = 1; n < n_best; n++)
            if (s->found[n].rank <= s->found[worst].rank) worst = n;
        if (!(ending.rank > s->found[worst].rank)) return;
    }
    ending.tokens = s->found[worst].tokens;
    s->found[worst] = ending;
}

/* The likeliest tokens of a row, the end token left out, the likeliest first. */
static void search_best(const float *logs, float *best, int32_t *tokens, int count)
{
    for (int n = 0; n < count; n++) best[n] = -INFINITY, tokens[n] = 0;
    for (int32_t v = 0; v < WEFT_VOCABULARY; v++) {
        if (!(logs[v] > best[count - 1]) || v == WEFT_EOS) continue;
        int at = count - 1;
        for (; at > 0 && logs[v] > best[at - 1]; at--) best[at] = best[at - 1], tokens[at] = tokens[at - 1];
        best[at] = logs[v], tokens[at] = v;
    }
}

/* The K continuations with the highest sums: their tokens, places and log-probabilities at this step. */
static void search_choose(weft_search *s, int width, long step)
{
    int taken[WEFT_MAX_BEAM] = {0};
    for (int n = 0; n < width; n++) {
        int place = 0;
        float most = -INFINITY;
        for (int k = 0; k < width; k++) {
            if (taken[k] >= width) continue;
            const float sum = s->sums[k] + s->best[k * width + taken[k]];
            if (sum > most) most = sum, place = k;
        }
        const long at = step * width + n, from = (long)place * width + taken[place];
        s->next[n] = most;
        s->tokens[at] = most > -INFINITY ? s->best_tokens[from] : 0;
        s->step_logs[at] = most > -INFINITY ? s->best_logs[from] : -INFINITY;
        s->places[at] = place;
        if (most > -INFINITY) taken[place]++;
    }
}

/* The texts for a sentence, the best first, in s->found. The last token of the prompt is read by the first step. */
static int search_beam(weft_model *m, weft_search *s, const int32_t *prompt, long count, long limit,
                       const weft_options *options)
{
    const int width = options->beam, n_best = options->n_best;
    const int enough = options->finished > 0 && width > 1 ? options->finished : width;
    int ended = 0, state_of[WEFT_MAX_BEAM] = {0};
    long length = 0;
    int error = search_begin(m, s, prompt, count, options);
    if (error) return error;
    s->found_count = 0;
    for (int k = 0; k < width; k++) s->sums[k] = k ? -INFINITY : 0.0f;
    for (long step = 0; step < limit; step++) {
        float ends[WEFT_MAX_BEAM], end_logs[WEFT_MAX_BEAM], most = -INFINITY, worst = INFINITY;
        const int half = step % 2 ? 0 : WEFT_MAX_BEAM;
        length = step + 1;
        for (int k = 0; k < width; k++) {
            float *const best = s->best + k * width;
            int32_t *const tokens = s->best_tokens + k * width;
            ends[k] = end_logs[k] = -INFINITY;
            for (int n = 0; n < width; n++) best[n] = -INFINITY;
            if (!(s->sums[k] > -INFINITY)) continue;
            const int32_t token = step ? s->tokens[(step - 1) * width + k] : prompt[count - 1];
            error = state_step(m, &s->state[state_of[k]], &s->state[half + k], token, count - 1 + step, s->logits);
            if (error) return error;
            const float *const model = search_rate(s, k, length, options);
            search_best(s->logs, best, tokens, width);
            for (int n = 0; n < width; n++) s->best_logs[k * width + n] = model[tokens[n]];
            ends[k] = s->sums[k] + s->logs[WEFT_EOS], end_logs[k] = model[WEFT_EOS];
        }
        search_choose(s, width, step);
        for (int k = 0; k < width; k++) {
            int higher = 0;
            for (int n = 0; n < width; n++) higher += (ends[n] > ends[k]) + (s->next[n] > ends[k]);
            if (!(ends[k] > -INFINITY) || higher >= width) continue;
            const weft_found ending = {search_rank(ends[k], length, options), end_logs[k], step, k, 1, 0.0, 0};
            search_finish(s, n_best, ending);
            ended++;
        }
        for (int n = 0; n < width; n++) {
            s->sums[n] = s->next[n], state_of[n] = half + s->places[step * width + n];
            most = s->next[n] > most ? s->next[n] : most;
        }
        if (search_penalises(options)) {
            for (int n = 0; n < width; n++) {
                int32_t *const to = s->moved + (long)n * WEFT_VOCABULARY;
                memcpy(to, s->counts + (long)s->places[step * width + n] * WEFT_VOCABULARY, WEFT_VOCABULARY * 4);
                to[s->tokens[step * width + n]]++;
            }
            int32_t *const swap = s->counts;
            s->counts = s->moved, s->moved = swap;
        }
        if (!(most > -INFINITY)) break;
        for (int n = 0; n < s->found_count; n++) worst = s->found[n].rank < worst ? s->found[n].rank : worst;
        if (s->found_count < n_best) worst = -INFINITY;
        if (options->by_bound && width > 1 ? search_rank(most, limit, options) <= worst : ended >= enough) break;
    }
    for (int k = 0; k < width && s->found_count < n_best; k++) {
        if (!(s->sums[k] > -INFINITY)) continue;
        weft_found *const cut = &s->found[s->found_count++];
        cut->rank = search_rank(s->sums[k], length, options), cut->log = 0.0f;
        cut->step = length, cut->place = k, cut->ended = 0;
    }
    for (int n = 0; n < s->found_count; n++) search_trace(s, &s->found[n], width, options);
    search_sort(s, n_best);
    return 0;
}

/* A token drawn by its probability, which temperature, top_k, top_p and min_p reshape in this order. */
static int32_t search_draw(weft_search *s, float uniform, const weft_options *options)
{
    const long all = WEFT_VOCABULARY, kept = options->top_k > 0 && options->top_k < all ? options->top_k : all;
    const int sorts = options->top_k > 0 || options->top_p < 1.0f;
    double most = -INFINITY, total = 0.0, before = 0.0, largest = 0.0, target;
    if (sorts) weft_order(s->logs, s->order, all);
    for (long n = 0; n < kept; n++) {
        s->shares[n] = (double)s->logs[sorts ? s->order[n] : n] / (double)options->temperature;
        most = s->shares[n] > most ? s->shares[n] : most;
    }
    if (!(most > -INFINITY)) return WEFT_EOS;
    for (long n = 0; n < kept; n++) total += s->shares[n] = exp(s->shares[n] - most);
    for (long n = 0; n < kept; n++) {
        const double share = s->shares[n] / total;
        s->shares[n] = sorts && before >= (double)options->top_p ? 0.0 : share;
        before += share;
        largest = s->shares[n] > largest ? s->shares[n] : largest;
    }
    total = 0.0;
    for (long n = 0; n < kept; n++) {
        if (s->shares[n] < (double)options->min_p * largest) s->shares[n] = 0.0;
        total += s->shares[n];
    }
    target = (double)uniform * total, total = 0.0;
    for (long n = 0; n < kept; n++) {
        total += s->shares[n];
        if (total > target) return sorts ? s->order[n] : (int32_t)n;
    }
    return sorts ? s->order[kept - 1] : (int32_t)(kept - 1);
}

/* n_best texts that are drawn, each by itself. */
static int search_sample(weft_model *m, weft_search *s, const int32_t *prompt, long count, long limit, uint64_t key,
                         const weft_options *options)
{
    s->found_count = 0;
    for (int text = 0; text < options->n_best; text++) {
        weft_found *const found = &s->found[s->found_count];
        weft_random random;
        float sum = 0.0f;
        int error = search_begin(m, s, prompt, count, options), open = 1;
        const weft_state own = s->state[WEFT_MAX_BEAM];
        weft_random_begin(&random, options->seed, key, (uint64_t)text);
        if (error) return error;
        state_share(&s->state[0], &s->state[WEFT_MAX_BEAM]);
        found->step = 0, found->place = 0, found->ended = 0, found->log = 0.0f;
        for (long step = 0; step < limit && open; step++) {
            weft_state *const from = &s->state[step % 2 ? WEFT_MAX_BEAM : 0];
            weft_state *const to = &s->state[step % 2 ? 0 : WEFT_MAX_BEAM];
            const int32_t token = step ? s->tokens[step - 1] : prompt[count - 1];
            error = state_step(m, from, to, token, count - 1 + step, s->logits);
            if (error) break;
            const float *const model = search_rate(s, 0, step + 1, options);
            const int32_t drawn = search_draw(s, weft_random_next(&random), options);
            const float log_probability = s->logs[drawn] > -INFINITY ? model[drawn] : -INFINITY;
            sum += log_probability;
            if (!(sum > -INFINITY)) break;
            if (drawn == WEFT_EOS) {
                found->ended = 1, found->log = log_probability, open = 0;
            } else {
                s->tokens[step] = drawn, s->places[step] = 0, s->step_logs[step] = log_probability;
                found->step = step + 1;
                if (search_penalises(options)) s->counts[drawn]++;
            }
        }
        state_share(&own, &s->state[WEFT_MAX_BEAM]);
        if (error) return error;
        if (!(sum > -INFINITY)) continue;
        search_trace(s, found, 1, options);
        s->found_count++;
    }
    search_sort(s, options->n_best);
    return 0;
}
