/* UTF-8: checked once where a text comes in, and read without checks afterwards. */

#include <string.h>

#include "text.h"

/* The bounds of the byte after a first byte of UTF-8, and the number of bytes; 0 if no character begins so. */
static int sequence_of(unsigned char first, unsigned char *low, unsigned char *high) {
    *low = first == 0xE0 ? 0xA0 : first == 0xF0 ? 0x90 : 0x80;
    *high = first == 0xED ? 0x9F : first == 0xF4 ? 0x8F : 0xBF;
    return first < 0x80 ? 1 : first < 0xC2 ? 0 : first < 0xE0 ? 2 : first < 0xF0 ? 3 : first < 0xF5 ? 4 : 0;
}

/* The bytes of the character at p, of which `left` remain; 0 if it is not valid. */
static int valid_character(const unsigned char *p, size_t left) {
    unsigned char low, high;
    int size = sequence_of(*p, &low, &high);
    if ((size_t)size > left || (size > 1 && (p[1] < low || p[1] > high))) return 0;
    for (int i = 2; i < size; i++)
        if ((p[i] & 0xC0) != 0x80) return 0;
    return size;
}

static int is_utf8(const unsigned char *p, size_t n) {
    for (size_t i = 0; i < n;) {
        int size = p[i] < 0x80 ? 1 : valid_character(p + i, n - i);
        if (size == 0) return 0;
        i += (size_t)size;
    }
    return 1;
}

/* The character at p in valid UTF-8; *p moves behind it. */
static uint32_t next_character(const unsigned char **p) {
    const unsigned char *q = *p;
    if (q[0] < 0x80) return *p = q + 1, q[0];
    if (q[0] < 0xE0) return *p = q + 2, (q[0] & 0x1Fu) << 6 | (q[1] & 0x3Fu);
    if (q[0] < 0xF0) return *p = q + 3, (q[0] & 0x0Fu) << 12 | (q[1] & 0x3Fu) << 6 | (q[2] & 0x3Fu);
    return *p = q + 4, (q[0] & 0x07u) << 18 | (q[1] & 0x3Fu) << 12 | (q[2] & 0x3Fu) << 6 | (q[3] & 0x3Fu);
}

/* The character before p in valid UTF-8; *p moves to its first byte. */
static uint32_t last_character(const unsigned char **p) {
    const unsigned char *q = *p - 1;
    while ((*q & 0xC0) == 0x80) q--;
    *p = q;
    return next_character(&q);
}

/* Write a character as UTF-8; returns its bytes. */
static int put_character(uint32_t c, unsigned char out[4]) {
    if (c < 0x80) return out[0] = (unsigned char)c, 1;
    if (c < 0x800) return out[0] = (unsigned char)(0xC0 | c >> 6), out[1] = (unsigned char)(0x80 | (c & 0x3F)), 2;
    out[2] = (unsigned char)(0x80 | (c & 0x3F));
    out[1] = (unsigned char)(0x80 | (c >> 6 & 0x3F));
    if (c < 0x10000) return out[0] = (unsigned char)(0xE0 | c >> 12), 3;
    out[3] = out[2];
    out[2] = out[1];
    out[1] = (unsigned char)(0x80 | (c >> 12 & 0x3F));
    out[0] = (unsigned char)(0xF0 | c >> 18);
    return 4;
}
