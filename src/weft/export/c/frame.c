/* A line of text that is written into the caller's memory. */
typedef struct {
    char *at;
    size_t left, written;
    int full;
} weft_out;

static void weft_put(weft_out *out, const char *bytes, size_t count)
{
    if (count > out->left) {
        out->full = 1;
        return;
    }
    memcpy(out->at, bytes, count);
    out->at += count, out->left -= count, out->written += count;
}

static void weft_put_string(weft_out *out, const char *text)
{
    weft_put(out, text, strlen(text));
}

static void weft_put_number(weft_out *out, const char *before, int precise, double number)
{
    char text[48];
    const int count = snprintf(text, sizeof text, precise > 1 ? "%s%.9g" : "%s%.4g", before, number);
    if (count > 0 && (size_t)count < sizeof text) weft_put(out, text, (size_t)count);
}

/* A number of a table with six digits; from a million on all those before the point, as show_number in Python. */
static void weft_put_value(weft_out *out, int precise, double number)
{
    char text[48];
    const double size = number < 0 ? -number : number;
    const char *form = precise > 1 ? "%.9g" : size >= 999999.5 && size < 1e15 ? "%.0f" : "%.6g";
    snprintf(text, sizeof text, form, number);
    weft_put_string(out, text);
}

/* The text of some ids on one line. */
static void weft_put_text(weft_out *out, const weft_text *text, const int32_t *ids, size_t count)
{
    const long size = weft_text_decode(text, ids, count, out->at, out->left);
    if (size < 0) {
        out->full = 1;
        return;
    }
    for (long i = 0; i < size; i++)
        if (out->at[i] == '\n') out->at[i] = ' ';
    out->at += size, out->left -= (size_t)size, out->written += (size_t)size;
}

/* Whether a text has nothing but blanks, as str.strip of Python counts them. */
static int weft_is_blank(const char *text, size_t count)
{
    static const char *const wide[] = {"\xc2\x85", "\xc2\xa0", "\xe1\x9a\x80", "\xe2\x80\xa8", "\xe2\x80\xa9",
                                       "\xe2\x80\xaf", "\xe2\x81\x9f", "\xe3\x80\x80"};
    for (size_t at = 0; at < count;) {
        const unsigned char c = (unsigned char)text[at];
        size_t step = c == ' ' || (c >= 9 && c <= 13) || (c >= 28 && c <= 31) ? 1 : 0;
        if (!step && count - at >= 3 && c == 0xe2 && (unsigned char)text[at + 1] == 0x80 &&
            (unsigned char)text[at + 2] >= 0x80 && (unsigned char)text[at + 2] <= 0x8a)
            step = 3;
        for (size_t n = 0; n < sizeof wide / sizeof *wide && !step; n++)
            if (count - at >= strlen(wide[n]) && memcmp(text + at, wide[n], strlen(wide[n])) == 0)
                step = strlen(wide[n]);
        if (!step) return 0;
        at += step;
    }
    return 1;
}

/* The numbers of `count` values, the highest first; equal ones in their order. */
static void weft_order(const float *values, int32_t *order, long count)
{
    /* A merge sort from below, in the two halves of `order`. */
    int32_t *from = order, *to = order + count;
    for (long i = 0; i < count; i++) from[i] = (int32_t)i;
    for (long width = 1; width < count; width *= 2) {
        for (long begin = 0; begin < count; begin += 2 * width) {
            const long middle = begin + width < count ? begin + width : count;
            const long end = middle + width < count ? middle + width : count;
            long left = begin, right = middle;
            for (long at = begin; at < end; at++) {
                const int take = left < middle && (right >= end || !(values[from[right]] > values[from[left]]));
                to[at] = take ? from[left++] : from[right++];
            }
        }
        int32_t *const other = from;
        from = to, to = other;
    }
    if (from != order) memcpy(order, from, (size_t)count * sizeof *order);
}
