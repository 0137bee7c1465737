/* The random numbers of weft's sampling: those of numpy's default_rng([seed, key, number]).random(dtype=float32), where
   key is the BLAKE2b hash of the input in eight bytes. SeedSequence (O'Neill's seed_seq_fe) seeds PCG64 XSL-RR. */
typedef struct {
    uint64_t high, low, step_high, step_low;
    uint32_t kept;
    int has_kept;
} weft_random;

static void weft_multiply(uint64_t a, uint64_t b, uint64_t *high, uint64_t *low)
{
    const uint64_t a0 = a & 0xffffffffu, a1 = a >> 32, b0 = b & 0xffffffffu, b1 = b >> 32;
    const uint64_t first = a0 * b0, middle = a1 * b0 + (first >> 32), other = a0 * b1 + (middle & 0xffffffffu);
    *high = a1 * b1 + (middle >> 32) + (other >> 32);
    *low = (other << 32) | (first & 0xffffffffu);
}

static void weft_random_step(weft_random *r)
{
    const uint64_t factor_high = 2549297995355413924u, factor_low = 4865540595714422341u;
    uint64_t high, low;
    weft_multiply(r->low, factor_low, &high, &low);
    high += r->high * factor_low + r->low * factor_high;
    r->low = low + r->step_low;
    r->high = high + r->step_high + (r->low < low);
}

static uint32_t weft_hashmix(uint32_t value, uint32_t *constant)
{
    value ^= *constant;
    *constant *= 0x931e8875u;
    value *= *constant;
    return value ^ value >> 16;
}

static uint32_t weft_mix(uint32_t x, uint32_t y)
{
    const uint32_t found = 0xca01f9ddu * x - 0x4973f715u * y;
    return found ^ found >> 16;
}

static void weft_random_begin(weft_random *r, uint64_t seed, uint64_t key, uint64_t number)
{
    const uint64_t given[3] = {seed, key, number};
    uint32_t words[6] = {0}, pool[4], state[8], constant = 0x43b0d7e5u;
    int count = 0;
    for (int n = 0; n < 3; n++) {
        words[count++] = (uint32_t)given[n];
        if (given[n] >> 32) words[count++] = (uint32_t)(given[n] >> 32);
    }
    for (int n = 0; n < 4; n++) pool[n] = weft_hashmix(n < count ? words[n] : 0, &constant);
    for (int from = 0; from < 4; from++)
        for (int to = 0; to < 4; to++)
            if (from != to) pool[to] = weft_mix(pool[to], weft_hashmix(pool[from], &constant));
    for (int from = 4; from < count; from++)
        for (int to = 0; to < 4; to++) pool[to] = weft_mix(pool[to], weft_hashmix(words[from], &constant));
    constant = 0x8b51f9ddu;
    for (int n = 0; n < 8; n++) {
        uint32_t value = pool[n % 4] ^ constant;
        constant *= 0x58f38dedu;
        value *= constant;
        state[n] = value ^ value >> 16;
    }
    uint64_t wide[4];
    for (int n = 0; n < 4; n++) wide[n] = (uint64_t)state[2 * n] | (uint64_t)state[2 * n + 1] << 32;
    memset(r, 0, sizeof *r);
    r->step_high = wide[2] << 1 | wide[3] >> 63, r->step_low = wide[3] << 1 | 1;
    weft_random_step(r);
    const uint64_t low = r->low;
    r->low += wide[1];
    r->high += wide[0] + (r->low < low);
    weft_random_step(r);
}

/* A number in [0, 1). */
static float weft_random_next(weft_random *r)
{
    uint32_t bits = r->kept;
    if (r->has_kept) {
        r->has_kept = 0;
    } else {
        weft_random_step(r);
        const uint64_t mixed = r->high ^ r->low;
        const unsigned turn = (unsigned)(r->high >> 58);
        const uint64_t turned = mixed >> turn | mixed << ((64 - turn) & 63);
        bits = (uint32_t)turned, r->kept = (uint32_t)(turned >> 32), r->has_kept = 1;
    }
    return (float)(bits >> 8) * (1.0f / 16777216.0f);
}

/* BLAKE2b of a text in eight bytes, as a big-endian number. */
static uint64_t weft_hash(const char *text, size_t count)
{
    static const uint64_t start[8] = {0x6a09e667f3bcc908u, 0xbb67ae8584caa73bu, 0x3c6ef372fe94f82bu,
                                      0xa54ff53a5f1d36f1u, 0x510e527fade682d1u, 0x9b05688c2b3e6c1fu,
                                      0x1f83d9abfb41bd6bu, 0x5be0cd19137e2179u};
    static const unsigned char order[10][16] = {
        {0, 1, 2, 3, 4, 5, 6, 7, 8, 9, 10, 11, 12, 13, 14, 15}, {14, 10, 4, 8, 9, 15, 13, 6, 1, 12, 0, 2, 11, 7, 5, 3},
        {11, 8, 12, 0, 5, 2, 15, 13, 10, 14, 3, 6, 7, 1, 9, 4}, {7, 9, 3, 1, 13, 12, 11, 14, 2, 6, 5, 10, 4, 0, 15, 8},
        {9, 0, 5, 7, 2, 4, 10, 15, 14, 1, 11, 12, 6, 8, 3, 13}, {2, 12, 6, 10, 0, 11, 8, 3, 4, 13, 7, 5, 15, 14, 1, 9},
        {12, 5, 1, 15, 14, 13, 4, 10, 0, 7, 6, 3, 9, 2, 8, 11}, {13, 11, 7, 14, 12, 1, 3, 9, 5, 0, 15, 4, 8, 6, 2, 10},
        {6, 15, 14, 9, 11, 3, 0, 8, 12, 2, 13, 7, 1, 4, 10, 5}, {10, 2, 8, 4, 7, 6, 1, 5, 15, 11, 9, 14, 3, 12, 13, 0}};
    static const unsigned char places[8][4] = {{0, 4, 8, 12}, {1, 5, 9, 13}, {2, 6, 10, 14}, {3, 7, 11, 15},
                                               {0, 5, 10, 15}, {1, 6, 11, 12}, {2, 7, 8, 13}, {3, 4, 9, 14}};
    static const unsigned turns[4] = {32, 24, 16, 63};
    uint64_t hash[8], found = 0;
    memcpy(hash, start, sizeof hash);
    hash[0] ^= 0x01010000u ^ 8u;
    size_t done = 0;
    do {
        const size_t size = count - done < 128 ? count - done : 128;
        unsigned char block[128] = {0};
        uint64_t v[16], words[16];
        if (size) memcpy(block, text + done, size);
        done += size;
        for (int n = 0; n < 16; n++) words[n] = weft_u64(block + 8 * n);
        memcpy(v, hash, sizeof hash);
        memcpy(v + 8, start, sizeof start);
        v[12] ^= (uint64_t)done;
        if (done == count) v[14] = ~v[14];
        for (int round = 0; round < 12; round++)
            for (int n = 0; n < 8; n++) {
                uint64_t *const a = v + places[n][0], *const b = v + places[n][1];
                uint64_t *const c = v + places[n][2], *const d = v + places[n][3];
                for (int half = 0; half < 2; half++) {
                    *a += *b + words[order[round % 10][2 * n + half]];
                    *d ^= *a;
                    *d = *d >> turns[2 * half] | *d << (64 - turns[2 * half]);
                    *c += *d;
                    *b ^= *c;
                    *b = *b >> turns[2 * half + 1] | *b << (64 - turns[2 * half + 1]);
                }
            }
        for (int n = 0; n < 8; n++) hash[n] ^= v[n] ^ v[n + 8];
    } while (done < count);
    for (int n = 0; n < 8; n++) found = found << 8 | (hash[0] >> (8 * n) & 255);
    return found;
}
