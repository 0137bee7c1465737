const char *weft_error(int code)
{
    switch (code) {
    case WEFT_TOO_LONG: return "the text has more tokens or bytes than the limits, or than the model can read";
    case WEFT_DAMAGED: return "the weights are damaged: the file is cut, changed, or no weights.bin";
    case WEFT_OTHER: return "the weights are of another model, or of another version of weft: keep the files together";
    case WEFT_MACHINE: return "this machine is not little-endian, or has no floats of 32 bits";
    case WEFT_NOT_UTF8: return "the text is not UTF-8";
    case WEFT_FULL: return "the answer does not fit into the memory for it";
    case WEFT_MEMORY: return "there is less memory than weft_memory says";
    case WEFT_LIMITS: return "a limit is not positive, or too large";
    case WEFT_OPTION: return "an option is out of range, or above the limits";
    case WEFT_NOT_A_PAIR: return "the line is not two texts with a tab between them";
    case WEFT_NOT_NUMBERS: return WEFT_NUMBERS_HELP;
    case WEFT_NO_LANGUAGE: return "no language to translate to: --language NAME";
    case WEFT_PICTURE: return WEFT_PICTURE_HELP;
    default: return code < 0 ? "an unknown error" : "no error";
    }
}

static void *weft_take(weft_model *m, uint64_t bytes)
{
    unsigned char *const here = m->memory ? m->memory + m->taken : 0;
    m->taken += (bytes + 63) / 64 * 64;
    return here;
}

/* Whether so many numbers are within bounds. */
static int weft_are_within(const int32_t *numbers, long count, long least, long most)
{
    for (long n = 0; n < count; n++)
        if (numbers[n] < least || numbers[n] > most) return 0;
    return 1;
}

static int weft_are_ascending(const int32_t *numbers, long count)
{
    for (long n = 1; n < count; n++)
        if (numbers[n] < numbers[n - 1]) return 0;
    return 1;
}

static int weft_limits_fit(const weft_limits *limits)
{
    return limits->line_bytes > 0 && limits->line_bytes <= (size_t)1 << 24 && limits->tokens > 0 &&
           limits->tokens <= 1L << 20 && limits->new_tokens > 0 && limits->new_tokens <= 1L << 20 &&
           limits->beam > 0 && limits->beam <= WEFT_MAX_BEAM;
}
