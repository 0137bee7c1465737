/* Feature vectors [[0.1, 2.5], [0.3, 2.4]] of a line, or of the value of their column in an object, in m->features as
   the model reads them; the number of steps, or an error. */
static long weft_read_features(weft_model *m, const char *line, size_t count)
{
    weft_json j = {line, line + count}, first = j;
    const int object = json_is(&first, '{');
    long steps = 0;
    if (object && json_find(j, weft_features_name, &j) != 1) return WEFT_NOT_NUMBERS;
    if (!json_is(&j, '[')) return WEFT_NOT_NUMBERS;
    do {
        const int list = json_is(&j, '[');
        if (steps >= m->limits.tokens) return WEFT_TOO_LONG;
        for (long n = 0; n < WEFT_FEATURES; n++) {
            double number;
            if (n && !(list && json_is(&j, ','))) return WEFT_NOT_NUMBERS;
            if (!json_number(&j, &number) || number != number) return WEFT_NOT_NUMBERS;
            m->features[steps * WEFT_FEATURES + n] =
                (float)((number - weft_feature_means[n]) / weft_feature_scales[n]);
        }
        if (list && !json_is(&j, ']')) return WEFT_NOT_NUMBERS;
        steps++;
    } while (json_is(&j, ','));
    if (!json_is(&j, ']')) return WEFT_NOT_NUMBERS;
    json_blanks(&j);
    return object || j.at == j.end ? steps : WEFT_NOT_NUMBERS;
}
