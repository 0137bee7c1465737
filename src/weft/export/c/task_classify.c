/* The probabilities of the labels for a line, in m->numbers; 0 or an error. */
int weft_classify(weft_model *m, const char *line, size_t count, const float **probabilities)
{
    const long tokens = weft_read_framed(m, line, count);
    if (tokens < 0) return (int)tokens;
    const int error = graph_forward(m, tokens, WEFT_INPUT(m), m->logits);
    if (error) return error;
    if (WEFT_MANY_LABELS) {
        for (int n = 0; n < WEFT_LABELS; n++) m->numbers[n] = logistic(m->logits[n]);
    } else {
        softmax(m->numbers, m->logits, 1, WEFT_LABELS, 1);
    }
    *probabilities = m->numbers;
    return 0;
}

static int weft_answer_line(weft_model *m, const weft_options *options, const char *line, size_t count, weft_out *out)
{
    const float *probabilities;
    const int error = weft_classify(m, line, count, &probabilities);
    if (error) return error;
    weft_order(probabilities, m->order, WEFT_LABELS);
    if (options->probabilities) {
        for (int n = 0; n < WEFT_LABELS; n++) {
            if (n) weft_put_string(out, "\t");
            weft_put_string(out, weft_labels[m->order[n]]);
            weft_put_number(out, "\t", options->probabilities, (double)probabilities[m->order[n]]);
        }
        return 0;
    }
    if (WEFT_MANY_LABELS) {
        int shown = 0;
        for (int n = 0; n < WEFT_LABELS; n++) {
            if (!(probabilities[m->order[n]] >= weft_thresholds[m->order[n]])) continue;
            if (shown++) weft_put_string(out, ", ");
            weft_put_string(out, weft_labels[m->order[n]]);
        }
        return 0;
    }
    int best = 0;
    float most = -INFINITY;
    for (int n = 0; n < WEFT_LABELS; n++) {
        /* The probability by its threshold: the logarithms keep what a small probability loses. */
        const float share = m->logits[n] - logf(weft_thresholds[n]);
        if (share > most) most = share, best = n;
    }
    weft_put_string(out, weft_labels[best]);
    return 0;
}
