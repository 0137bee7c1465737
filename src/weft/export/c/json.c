/* A line of JSON that is read from left to right, without memory. */
typedef struct {
    const char *at, *end;
} weft_json;

static void json_blanks(weft_json *j)
{
    while (j->at < j->end && (*j->at == ' ' || *j->at == '\t' || *j->at == '\r')) j->at++;
}

/* Read one character if it is the next one. */
static int json_is(weft_json *j, char wanted)
{
    json_blanks(j);
    if (j->at >= j->end || *j->at != wanted) return 0;
    j->at++;
    return 1;
}

static int json_word(weft_json *j, const char *word)
{
    const size_t size = strlen(word);
    json_blanks(j);
    if ((size_t)(j->end - j->at) < size || memcmp(j->at, word, size) != 0) return 0;
    j->at += size;
    return 1;
}

/* A number; null and NaN are NAN. */
static int json_number(weft_json *j, double *number)
{
    uint64_t digits = 0;
    int negative, any = 0, exponent = 0;
    json_blanks(j);
    if (json_word(j, "null") || json_word(j, "NaN")) {
        *number = NAN;
        return 1;
    }
    negative = json_is(j, '-');
    for (int fraction = 0; j->at < j->end; j->at++) {
        const char c = *j->at;
        if (c == '.' && !fraction) {
            fraction = 1;
        } else if (c >= '0' && c <= '9') {
            const int fits = digits < 1000000000000000000u;
            if (fits) digits = digits * 10 + (uint64_t)(c - '0');
            if (fits ? fraction : !fraction) exponent += fraction ? -1 : 1;
            any = 1;
        } else {
            break;
        }
    }
    if (!any) return 0;
    if (j->at < j->end && (*j->at == 'e' || *j->at == 'E')) {
        int sign = 1, power = 0;
        j->at++;
        if (j->at < j->end && (*j->at == '-' || *j->at == '+')) sign = *j->at++ == '-' ? -1 : 1;
        if (j->at >= j->end || *j->at < '0' || *j->at > '9') return 0;
        for (; j->at < j->end && *j->at >= '0' && *j->at <= '9'; j->at++)
            if (power < 100000) power = power * 10 + (*j->at - '0');
        exponent += sign * power;
    }
    exponent = exponent > 400 ? 400 : exponent < -400 ? -400 : exponent;
    /* Powers of ten up to 22 are exact, and so is the quotient of two exact numbers but for one rounding. */
    *number = (double)digits;
    if (exponent < 0)
        *number = exponent >= -300 ? *number / pow(10.0, -exponent) : *number / 1e300 / pow(10.0, -exponent - 300);
    else if (digits)
        *number *= pow(10.0, exponent);
    if (negative) *number = -*number;
    return fabs(*number) <= 1e30; /* as weft limits the numbers of data */
}

/* A text as it stands between its quotes, with its escapes. */
static int json_text(weft_json *j, const char **text, size_t *size)
{
    if (!json_is(j, '"')) return 0;
    *text = j->at;
    while (j->at < j->end && *j->at != '"') j->at += *j->at == '\\' && j->end - j->at > 1 ? 2 : 1;
    *size = (size_t)(j->at - *text);
    return json_is(j, '"');
}

/* The number of four hexadecimal digits, or -1. */
static long json_unit(const char *p, const char *end)
{
    long unit = 0;
    if (end - p < 4) return -1;
    for (int n = 0; n < 4; n++) {
        const char c = p[n];
        const int digit = c >= '0' && c <= '9'   ? c - '0'
                          : c >= 'a' && c <= 'f' ? c - 'a' + 10
                          : c >= 'A' && c <= 'F' ? c - 'A' + 10
                                                 : -1;
        if (digit < 0) return -1;
        unit = 16 * unit + digit;
    }
    return unit;
}

/* Read what follows a backslash; the number of bytes in UTF-8, or 0 where it is no escape of JSON. */
static int json_escape(const char **at, const char *end, char *bytes)
{
    static const char names[] = "\"\\/bfnrt", values[] = "\"\\/\b\f\n\r\t";
    const char *const found = *at < end && **at ? strchr(names, **at) : 0;
    if (found) {
        bytes[0] = values[found - names], ++*at;
        return 1;
    }
    long code = *at < end && **at == 'u' ? json_unit(*at + 1, end) : -1;
    if (code < 0) return 0;
    *at += 5;
    if (code >= 0xd800 && code < 0xdc00 && end - *at >= 6 && (*at)[0] == '\\' && (*at)[1] == 'u') {
        const long low = json_unit(*at + 2, end);
        if (low >= 0xdc00 && low < 0xe000) code = 0x10000 + ((code - 0xd800) << 10) + (low - 0xdc00), *at += 6;
    }
    const int count = code < 0x80 ? 1 : code < 0x800 ? 2 : code < 0x10000 ? 3 : 4;
    static const int first[] = {0, 0, 0xc0, 0xe0, 0xf0};
    for (int n = count - 1; n > 0; n--, code >>= 6) bytes[n] = (char)(0x80 | (code & 63));
    bytes[0] = (char)(first[count] | code);
    return count;
}

/* Whether a text of JSON is this one. */
static int json_same(const char *text, size_t size, const char *wanted)
{
    const char *const end = text + size;
    while (text < end) {
        char bytes[4] = {*text++};
        const int count = bytes[0] == '\\' ? json_escape(&text, end, bytes) : 1;
        if (!count || strncmp(wanted, bytes, (size_t)count) != 0 || !bytes[0]) return 0;
        wanted += count;
    }
    return !*wanted;
}

/* Skip a value: brackets are counted, texts are jumped over. */
static int json_skip(weft_json *j)
{
    long depth = 0;
    json_blanks(j);
    for (; j->at < j->end; j->at++) {
        const char c = *j->at;
        if (depth == 0 && (c == ',' || c == '}' || c == ']')) return 1;
        if (c == '"') {
            for (j->at++; j->at < j->end && *j->at != '"'; j->at++)
                if (*j->at == '\\' && j->end - j->at > 1) j->at++;
            if (j->at >= j->end) return 0;
        }
        depth += (c == '[' || c == '{') - (c == ']' || c == '}');
    }
    return depth == 0;
}

/* Go to the value of a key of an object: 1, 0 where it has none, -1 where the object is not one. */
static int json_find(weft_json object, const char *key, weft_json *value)
{
    const char *name;
    size_t size;
    if (!json_is(&object, '{')) return -1;
    if (json_is(&object, '}')) return 0;
    do {
        if (!json_text(&object, &name, &size) || !json_is(&object, ':')) return -1;
        if (json_same(name, size, key)) {
            *value = object;
            return 1;
        }
        if (!json_skip(&object)) return -1;
    } while (json_is(&object, ','));
    return json_is(&object, '}') ? 0 : -1;
}
