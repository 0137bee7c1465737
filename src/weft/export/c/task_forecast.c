/* A value of an object: 1, or 0 where it has none or is no object. */
static int series_key(weft_json whole, const char *key, weft_json *value)
{
    return json_find(whole, key, value) == 1;
}

/* The numbers of a list, the first of which has the number `first` of a window of `size`; how many there are, and the
   place after the last known one. A number that is missing is NAN; those outside the window are not kept. */
static long series_numbers(weft_json j, double *window, long first, long size, long *end)
{
    long count = 0;
    *end = 0;
    if (!json_is(&j, '[')) return WEFT_NOT_NUMBERS;
    if (json_is(&j, ']')) return 0;
    do {
        double number;
        if (!json_number(&j, &number)) return WEFT_NOT_NUMBERS;
        if (number == number) *end = count + 1;
        if (window && count >= first && count - first < size) window[count - first] = number;
        count++;
    } while (json_is(&j, ','));
    if (!json_is(&j, ']')) return WEFT_NOT_NUMBERS;
    json_blanks(&j);
    return j.at == j.end || *j.at == ',' || *j.at == '}' ? count : WEFT_NOT_NUMBERS;
}

/* Rows of `width` numbers, standardised, in a window of `size` rows of `stride` numbers; what is missing is 0 in the
   past, and an error from step `must` on. */
static int series_rows(const weft_json *value, const double *means, const double *scales, long width, float *window,
                       long stride, long first, long size, long must)
{
    weft_json j = {"", ""};
    long count = 0;
    for (long row = 0; row < size; row++)
        for (long n = 0; n < width; n++) window[row * stride + n] = row < must ? 0.0f : NAN;
    if (value) j = *value;
    if (value && !json_is(&j, '[')) return WEFT_NOT_NUMBERS;
    if (value && !json_is(&j, ']')) {
        do {
            const int list = json_is(&j, '['), inside = count >= first && count - first < size;
            for (long n = 0; n < width; n++) {
                double number;
                if (n && !(list && json_is(&j, ','))) return WEFT_NOT_NUMBERS;
                if (!json_number(&j, &number)) return WEFT_NOT_NUMBERS;
                if (inside && number == number)
                    window[(count - first) * stride + n] = (float)((number - means[n]) / scales[n]);
            }
            if (list && !json_is(&j, ']')) return WEFT_NOT_NUMBERS;
            count++;
        } while (json_is(&j, ','));
        if (!json_is(&j, ']')) return WEFT_NOT_NUMBERS;
    }
    for (long row = 0; row < size; row++)
        for (long n = 0; n < width; n++)
            if (window[row * stride + n] != window[row * stride + n]) return WEFT_NOT_NUMBERS;
    return 0;
}

/* The number of a series by its name, from 1 on; a list alone is the first. */
static int32_t series_number(const weft_json *whole, int object)
{
    weft_json value;
    const char *name;
    size_t size;
    if (!object || !series_key(*whole, "series", &value)) return 1;
    if (!json_text(&value, &name, &size)) return 0;
    for (int n = 0; n < SERIES_NAMES; n++)
        if (json_same(name, size, series_names[n])) return (int32_t)n + 1;
    return 0;
}

#if SERIES_STATIC || SERIES_CATEGORIES
/* What is known of a series as a whole. */
static int series_static(weft_model *m, const weft_json *whole, int object)
{
    weft_json value;
#if SERIES_STATIC
    if (!object || !series_key(*whole, "static", &value) || !json_is(&value, '[')) return WEFT_NOT_NUMBERS;
    for (long n = 0; n < SERIES_STATIC; n++) {
        double number;
        if ((n && !json_is(&value, ',')) || !json_number(&value, &number) || number != number) return WEFT_NOT_NUMBERS;
        m->static_[n] = (float)((number - static_means[n]) / static_scales[n]);
    }
#endif
#if SERIES_CATEGORIES
    for (long n = 0; n < SERIES_CATEGORIES; n++) m->categories[n] = 0;
    if (!object || !series_key(*whole, "categories", &value)) return 0;
    if (!json_is(&value, '[')) return WEFT_NOT_NUMBERS;
    for (long n = 0; n < SERIES_CATEGORIES; n++) {
        const char *text;
        size_t size;
        if (n && !json_is(&value, ',')) return WEFT_NOT_NUMBERS;
        if (!json_text(&value, &text, &size)) return WEFT_NOT_NUMBERS;
        for (int k = 0; k < category_sizes[n]; k++)
            if (json_same(text, size, category_texts[n][k])) m->categories[n] = (int32_t)k + 1;
    }
#endif
    return 0;
}
#endif

/* The mean, the scale and the floor of a series that was not in the training data, from its window alone. */
static void series_scaling(const weft_model *m, double *mean, double *scale, double *floor_)
{
    double total = 0.0, squares = 0.0, least = INFINITY, largest = 0.0;
    long count = 0, zeros = 0;
    for (long n = 0; n < SERIES_HISTORY; n++) {
        const double value = m->window[n];
        if (value != value) continue;
        total += value, count++, zeros += value == 0.0;
        least = value < least ? value : least;
        largest = fabs(value) > largest ? fabs(value) : largest;
    }
    *mean = count ? total / (double)count : 0.0;
    for (long n = 0; largest > 0.0 && n < SERIES_HISTORY; n++) {
        const double value = (m->window[n] - *mean) / largest; /* the squares of very small numbers would be 0 */
        if (value == value) squares += value * value;
    }
    *scale = count ? sqrt(squares / (double)count) * largest : 0.0;
    if (!(*scale > 0.0)) *scale = fabs(*mean) > 1.0 ? fabs(*mean) : 1.0;
    *floor_ = count && least == 0.0 && (double)zeros >= SERIES_MIN_ZEROS * (double)count ? 0.0 : -INFINITY;
}

/* The window of a line as the network reads it, and what its numbers were divided by. */
static int series_read(weft_model *m, const char *line, size_t count, double *mean, double *scale, double *floor_)
{
    const weft_json whole = {line, line + count};
    weft_json j = whole, target = whole;
    const int object = json_is(&j, '{');
    long end = 0, other;
    if (object && !series_key(whole, "target", &target)) return WEFT_NOT_NUMBERS;
    long error = series_numbers(target, 0, 0, 0, &end);
    if (error < 0 || end == 0) return WEFT_NOT_NUMBERS;
    const long first = end - SERIES_HISTORY;
    for (long n = 0; n < SERIES_HISTORY; n++) m->window[n] = NAN;
    error = series_numbers(target, m->window, first, SERIES_HISTORY, &other);
    if (error < 0) return (int)error;
    m->series = series_number(&whole, object);
    if (m->series) {
        *mean = series_means[m->series - 1], *scale = series_scales[m->series - 1];
        *floor_ = series_floors[m->series - 1];
    } else {
        series_scaling(m, mean, scale, floor_);
    }
    for (long n = 0; n < SERIES_HISTORY; n++) {
        m->observed[n] = m->window[n] == m->window[n];
        m->target[n] = m->observed[n] ? (float)((m->window[n] - *mean) / *scale) : 0.0f;
    }
#if SERIES_PASTS
    {
        const int given = object && series_key(whole, "past", &j);
        const int wrong = series_rows(given ? &j : 0, covariate_means, covariate_scales, SERIES_PASTS, m->past,
                                      SERIES_PASTS, first, SERIES_HISTORY, SERIES_HISTORY);
        if (wrong) return wrong;
    }
#endif
#if SERIES_KNOWN
    {
        const int given = object && series_key(whole, "known", &j);
        const int wrong = series_rows(given ? &j : 0, covariate_means + SERIES_PASTS, covariate_scales + SERIES_PASTS,
                                      SERIES_KNOWN, m->known, SERIES_KNOWN + 2 * SERIES_CYCLES, first,
                                      SERIES_HISTORY + SERIES_HORIZON, SERIES_HISTORY);
        if (wrong) return wrong;
    }
#endif
#if SERIES_CYCLES
    {
        int64_t start;
        if (!object || !series_key(whole, "start", &j) || !time_read(&j, &start)) return WEFT_NOT_NUMBERS;
        for (long n = 0; n < SERIES_HISTORY + SERIES_HORIZON; n++)
            time_waves(time_of_step(start, first + n),
                       m->known + n * (SERIES_KNOWN + 2 * SERIES_CYCLES) + SERIES_KNOWN);
    }
#endif
#if SERIES_STATIC || SERIES_CATEGORIES
    return series_static(m, &whole, object);
#else
    return 0;
#endif
}

#if SERIES_RECURSIVE
/* The quantiles of one step after the other: each reads the forecast before it. */
static int series_forward(weft_model *m)
{
    int error = state_begin(m, &m->state[0]);
    for (int32_t n = 0; n < SERIES_HORIZON && !error; n++)
        error = state_step(m, &m->state[n % 2], &m->state[(n + 1) % 2], n, SERIES_FIRST_STEP + n,
                           m->quantiles + n * SERIES_LEVELS);
    return error;
}
#endif

static int weft_answer_line(weft_model *m, const weft_options *options, const char *line, size_t count, weft_out *out)
{
    double mean = 0.0, scale = 1.0, floor_ = 0.0;
    int error = series_read(m, line, count, &mean, &scale, &floor_);
    if (!error) error = series_forward(m);
    if (error) return error;
    for (long level = -1; level < (options->probabilities ? SERIES_LEVELS : 0); level++) {
        char text[48];
        if (level >= 0) {
            snprintf(text, sizeof text, "\tq%g", series_levels[level]);
            weft_put_string(out, text);
        }
        for (long n = 0; n < SERIES_HORIZON; n++) {
            const float found = m->quantiles[n * SERIES_LEVELS + (level < 0 ? SERIES_MEDIAN : level)];
            double value = (double)found * scale + mean;
            value = value > floor_ ? value : floor_;
            if (n || level >= 0) weft_put_string(out, "\t");
            weft_put_value(out, options->probabilities, value);
        }
    }
    return 0;
}
