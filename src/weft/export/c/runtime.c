/* The frame of a model in C: its memory, and weights.bin, which is checked once. */

static uint64_t weft_larger(uint64_t a, uint64_t b)
{
    return a > b ? a : b;
}

/* The bytes of memory for so many numbers of four bytes. */
static uint64_t weft_room(uint64_t numbers)
{
    return (numbers * 4 + 63) / 64 * 64;
}

static uint32_t weft_u32(const unsigned char *p)
{
    return (uint32_t)p[0] | (uint32_t)p[1] << 8 | (uint32_t)p[2] << 16 | (uint32_t)p[3] << 24;
}

static uint64_t weft_u64(const unsigned char *p)
{
    return (uint64_t)weft_u32(p) | (uint64_t)weft_u32(p + 4) << 32;
}

/* CRC-32, as of zip files. */
static uint32_t weft_checksum(const unsigned char *bytes, uint64_t count)
{
    uint32_t table[256], sum = 0xffffffffu;
    for (uint32_t n = 0; n < 256; n++) {
        table[n] = n;
        for (int bit = 0; bit < 8; bit++) table[n] = table[n] & 1 ? table[n] >> 1 ^ 0xedb88320u : table[n] >> 1;
    }
    for (uint64_t at = 0; at < count; at++) sum = table[(sum ^ bytes[at]) & 255] ^ sum >> 8;
    return sum ^ 0xffffffffu;
}

/* The header of weights.bin has 64 bytes: "WEFTC" and three zeros, version (u32), number of sections (u32), the number
   of the model.c that it belongs to (u64), bytes of the whole file (u64), checksum of all after the header (u64).
   Then the bytes of each section (u64 each, filled up to 64 bytes) and the sections, each filled up to 64 bytes. */
static int weft_check_weights(const unsigned char *bytes, uint64_t count)
{
    static const unsigned char magic[8] = {'W', 'E', 'F', 'T', 'C', 0, 0, 0};
    const uint32_t one = 1;
    unsigned char first;
    memcpy(&first, &one, 1);
    if (first != 1 || sizeof(float) != 4 || sizeof(int32_t) != 4) return WEFT_MACHINE;
    if (count < 128 || memcmp(bytes, magic, 8) != 0) return WEFT_DAMAGED;
    if (weft_u32(bytes + 8) != WEFT_VERSION) return WEFT_OTHER;
    if (weft_u64(bytes + 16) != WEFT_NUMBER || weft_u32(bytes + 12) != WEFT_SECTIONS) return WEFT_OTHER;
    if (weft_u64(bytes + 24) != count || count % 64 != 0) return WEFT_DAMAGED;
    uint64_t left = count - 128;
    for (int section = 0; section < WEFT_SECTIONS; section++) {
        const uint64_t size = weft_u64(bytes + 64 + 8 * section), filled = (63 - (size + 63) % 64) + size;
        if (size > left || filled > left) return WEFT_DAMAGED;
        left -= filled;
    }
    for (int section = WEFT_SECTIONS; section < 8; section++)
        if (weft_u64(bytes + 64 + 8 * section) != 0) return WEFT_DAMAGED;
    if (left != 0) return WEFT_DAMAGED;
    return weft_checksum(bytes + 64, count - 64) == weft_u64(bytes + 32) ? 0 : WEFT_DAMAGED;
}
