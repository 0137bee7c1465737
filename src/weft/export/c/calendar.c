/* Time stamps as seconds since 1970, and the phases of the calendar: see weft.data.series_time. */

static int64_t time_floor(int64_t number, int64_t by)
{
    return number / by - (number % by < 0);
}

/* The days since 1970 of the first day of a month, counted from January 1970. */
static int64_t time_month_days(int64_t month)
{
    const int64_t year = 1970 + time_floor(month, 12), place = month - 12 * time_floor(month, 12);
    /* A year that begins in March ends with the day that not all years have. */
    const int64_t own = place < 2 ? year - 1 : year, after = (place + 10) % 12;
    const int64_t leaps = time_floor(own, 4) - time_floor(own, 100) + time_floor(own, 400);
    return 365 * own + leaps + (153 * after + 2) / 5 - 719468;
}

/* The month of a day, counted from January 1970. */
static int64_t time_month(int64_t days)
{
    int64_t month = time_floor(days, 31); /* never above it */
    if (month > 0) month = days * 12 / 366 - 1;
    else month = time_floor(days * 12, 365) - 1;
    while (time_month_days(month + 1) <= days) month++;
    while (time_month_days(month) > days) month--;
    return month;
}

static int64_t time_business(int64_t seconds)
{
    const int64_t days = time_floor(seconds, 86400) - 4, week = time_floor(days, 7), day = days - 7 * week;
    return 5 * week + (day < 4 ? day : 4);
}

/* The time of a step, where step 0 is `start`. */
static int64_t time_of_step(int64_t start, int64_t step)
{
    const int64_t moved = step * SERIES_EVERY;
    if (SERIES_UNIT == 0) return start + moved;
    if (SERIES_UNIT == 2) {
        const int64_t number = time_business(start) + moved, week = time_floor(number, 5);
        return (7 * week + (number - 5 * week) + 4) * 86400 + (start - 86400 * time_floor(start, 86400));
    }
    const int64_t days = time_floor(start, 86400), first = time_month(days), month = first + moved;
    const int64_t begin = time_month_days(month), size = time_month_days(month + 1) - begin;
    int64_t day = days - time_month_days(first);
    const int last = time_month_days(first + 1) == days + 1; /* the end of a month stays one */
    day = last || day > size - 1 ? size - 1 : day;
    return (begin + day) * 86400 + (start - 86400 * days);
}

/* The sine and cosine of the phase of a time in each cycle. */
static void time_waves(int64_t seconds, float *waves)
{
    for (int n = 0; n < SERIES_CYCLES; n++) {
        const double days = (double)seconds / 86400.0;
        double phase;
        if (series_cycles[n] == 0) {
            phase = days - floor(days);
        } else if (series_cycles[n] == 1) {
            phase = (days - 4.0) / 7.0 - floor((days - 4.0) / 7.0);
        } else {
            const int64_t year = 12 * time_floor(time_month(time_floor(seconds, 86400)), 12);
            const int64_t begin = time_month_days(year), size = time_month_days(year + 12) - begin;
            phase = (double)(seconds - 86400 * begin) / (86400.0 * (double)size);
        }
        waves[2 * n] = (float)sin(6.283185307179586 * phase);
        waves[2 * n + 1] = (float)cos(6.283185307179586 * phase);
    }
}

/* So many digits of a text. */
static int time_digits(const char **p, const char *end, int count, int64_t *number)
{
    *number = 0;
    for (int n = 0; n < count; n++, (*p)++) {
        if (*p >= end || **p < '0' || **p > '9') return 0;
        *number = *number * 10 + (**p - '0');
    }
    return 1;
}

/* A time stamp: 2024-01, 2024-01-31, 2024-01-31T12:30, 2024-01-31 12:30:00, or seconds since 1970 as a number. */
static int time_read(weft_json *j, int64_t *seconds)
{
    const char *p;
    size_t size;
    int64_t year, month, day = 1, hour = 0, minute = 0, second = 0;
    if (!json_text(j, &p, &size)) {
        double number;
        if (!json_number(j, &number) || !(fabs(number) <= 1e12)) return 0;
        *seconds = (int64_t)floor(number);
        return 1;
    }
    const char *const end = p + size;
    if (!time_digits(&p, end, 4, &year) || p >= end || *p++ != '-' || !time_digits(&p, end, 2, &month)) return 0;
    if (p < end && (*p++ != '-' || !time_digits(&p, end, 2, &day))) return 0;
    if (p < end && ((*p != 'T' && *p != ' ') || (p++, !time_digits(&p, end, 2, &hour)))) return 0;
    if (p < end && (*p++ != ':' || !time_digits(&p, end, 2, &minute))) return 0;
    if (p < end && (*p++ != ':' || !time_digits(&p, end, 2, &second))) return 0;
    if (p < end || month < 1 || month > 12 || day < 1 || hour > 23 || minute > 59 || second > 59) return 0;
    const int64_t first = 12 * (year - 1970) + month - 1;
    if (day > time_month_days(first + 1) - time_month_days(first)) return 0;
    *seconds = (time_month_days(first) + day - 1) * 86400 + 3600 * hour + 60 * minute + second;
    return 1;
}
