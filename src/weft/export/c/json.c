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

/* A text without escapes. */
static int json_text(weft_json *j, const char **text, size_t *size)
{
    if (!json_is(j, '"')) return 0;
    *text = j->at;
    while (j->at < j->end && *j->at != '"' && *j->at != '\\') j->at++;
    *size = (size_t)(j->at - *text);
    return json_is(j, '"');
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
                if (*j->at == '\\') j->at++;
            if (j->at >= j->end) return 0;
        }
        depth += (c == '[' || c == '{') - (c == ']' || c == '}');
    }
    return depth == 0;
}

/* Go to the value of a key of an object: 1, 0 where it has none, -1 where the object is not one. */
static int json_find(weft_json object, const char *key, weft_json *value)
{
    const size_t wanted = strlen(key);
    const char *name;
    size_t size;
    if (!json_is(&object, '{')) return -1;
    if (json_is(&object, '}')) return 0;
    do {
        if (!json_text(&object, &name, &size) || !json_is(&object, ':')) return -1;
        if (size == wanted && memcmp(name, key, size) == 0) {
            *value = object;
            return 1;
        }
        if (!json_skip(&object)) return -1;
    } while (json_is(&object, ','));
    return json_is(&object, '}') ? 0 : -1;
}
