/* A number of the head of a PGM or PPM file, after blanks and comments. */
static int weft_pixel_size(const unsigned char **at, const unsigned char *end, long *number)
{
    *number = 0;
    while (*at < end && (**at == ' ' || **at == '\t' || **at == '\n' || **at == '\r' || **at == '#'))
        if (*(*at)++ == '#')
            while (*at < end && **at != '\n') (*at)++;
    if (*at >= end || **at < '0' || **at > '9') return 0;
    for (; *at < end && **at >= '0' && **at <= '9'; (*at)++)
        if (*number < 100000) *number = *number * 10 + (**at - '0');
    return 1;
}

/* The pixels of a file, P5 (gray) or P6 (colours), of the size that the model reads: m->pixels (rows, columns, colours)
   from 0 to 255. 1, or an error. */
static long weft_read_pixels(weft_model *m, const char *bytes, size_t count)
{
    const unsigned char *at = (const unsigned char *)bytes, *const end = at + count;
    long width, height, most;
    if (count < 3 || at[0] != 'P' || (at[1] != '5' && at[1] != '6')) return WEFT_PICTURE;
    const int colours = at[1] == '6' ? 3 : 1;
    at += 2;
    if (!weft_pixel_size(&at, end, &width) || !weft_pixel_size(&at, end, &height) || !weft_pixel_size(&at, end, &most))
        return WEFT_PICTURE;
    if (width != WEFT_SIDE || height != WEFT_SIDE || most != 255 || at >= end) return WEFT_PICTURE;
    at++; /* one blank ends the head */
    if ((size_t)(end - at) < (size_t)WEFT_SIDE * WEFT_SIDE * (size_t)colours) return WEFT_PICTURE;
    for (long n = 0; n < (long)WEFT_SIDE * WEFT_SIDE; n++, at += colours) {
        if (WEFT_CHANNELS == 3) {
            for (int c = 0; c < 3; c++) m->pixels[3 * n + c] = (float)at[colours == 3 ? c : 0];
        } else { /* the brightness of colours, as Pillow computes it */
            m->pixels[n] = colours == 1 ? (float)at[0]
                                        : (float)((at[0] * 19595u + at[1] * 38470u + at[2] * 7471u + 0x8000u) >> 16);
        }
    }
    return 1;
}
