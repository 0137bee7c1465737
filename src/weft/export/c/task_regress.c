/* The number for a line; 0 or an error. */
int weft_regress(weft_model *m, const char *line, size_t count, double *number)
{
    const long tokens = weft_read_framed(m, line, count);
    if (tokens < 0) return (int)tokens;
    const int error = graph_forward(m, tokens, WEFT_INPUT(m), m->logits);
    if (!error) *number = (double)m->logits[0] * WEFT_SCALE + WEFT_MEAN;
    return error;
}

static int weft_answer_line(weft_model *m, const weft_options *options, const char *line, size_t count, weft_out *out)
{
    double number;
    const int error = weft_regress(m, line, count, &number);
    if (error) return error;
    weft_put_value(out, options->probabilities, number);
    return error;
}
