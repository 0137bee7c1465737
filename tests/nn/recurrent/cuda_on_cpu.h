/* Runs a kernel of persistent.cu with a thread of the system for each of the GPU's, all blocks at the same time. */

#define ON_CPU
#define _GNU_SOURCE
#include <math.h>
#include <pthread.h>
#include <stdlib.h>
#include <string.h>

#define __device__
#define __forceinline__ inline

typedef struct warp_t { pthread_barrier_t barrier; unsigned int words[32][6]; int flags[32]; } warp_t;
typedef struct block_t { pthread_barrier_t barrier; float *shared; warp_t *warps; } block_t;

static __thread int thread_, block_x_, block_y_, block_z_;
static __thread block_t *block_;

#define THREAD thread_
#define BLOCK(axis) block_##axis##_
#define SHARED(name) float *const name = block_->shared
#define KERNEL(name) static void name
#define EMPTY 0xffffffffu

static void lockstep(void) { pthread_barrier_wait(&block_->warps[thread_ / 32].barrier); }
static void meet(void) { pthread_barrier_wait(&block_->barrier); }

static void load_missing(const unsigned short *from, unsigned int to[4]) {
    if (to[0] != EMPTY && to[1] != EMPTY && to[2] != EMPTY && to[3] != EMPTY) return;
    for (int i = 0; i < 4; i++) to[i] = __atomic_load_n((const unsigned int *)from + i, __ATOMIC_RELAXED);
}
static void store_word(unsigned short *to, unsigned int value) {
    __atomic_store_n((unsigned int *)to, value, __ATOMIC_RELAXED);
}

static float from_half(unsigned short bits) {
#if BFLOAT16
    const unsigned int word = (unsigned int)bits << 16;
    float x;
    memcpy(&x, &word, 4);
    return x;
#else
    _Float16 x;
    memcpy(&x, &bits, 2);
    return (float)x;
#endif
}
static unsigned short to_half(float x) {
    if (x != x) return 0x7fff;
#if BFLOAT16
    unsigned int word;
    memcpy(&word, &x, 4);
    return (unsigned short)((word + 0x7fff + (word >> 16 & 1)) >> 16);
#else
    const _Float16 half = (_Float16)x;
    unsigned short bits;
    memcpy(&bits, &half, 2);
    return bits;
#endif
}

static int any_in_warp(int x) {
    warp_t *const warp = &block_->warps[thread_ / 32];
    int any = 0;
    warp->flags[thread_ % 32] = x;
    lockstep();
    for (int i = 0; i < 32; i++) any |= warp->flags[i];
    lockstep();
    return any;
}
static unsigned int of_next_lane(unsigned int x) {
    warp_t *const warp = &block_->warps[thread_ / 32];
    const int lane = thread_ % 32;
    warp->words[lane][0] = x;
    lockstep();
    const unsigned int found = warp->words[lane < 31 ? lane + 1 : lane][0];
    lockstep();
    return found;
}
static float number(unsigned int word, int high) { return from_half((unsigned short)(high ? word >> 16 : word)); }

/* The layout of the instruction m16n8k16. */
static void multiply_add(float sum[4], const unsigned int weights[4], unsigned int low, unsigned int high) {
    warp_t *const warp = &block_->warps[thread_ / 32];
    const int lane = thread_ % 32;
    memcpy(warp->words[lane], weights, 16);
    warp->words[lane][4] = low;
    warp->words[lane][5] = high;
    lockstep();
    for (int i = 0; i < 4; i++) {
        const int row = lane / 4 + i / 2 * 8, column = lane % 4 * 2 + i % 2;
        for (int k = 0; k < 16; k++)
            sum[i] += number(warp->words[row % 8 * 4 + k % 8 / 2][row / 8 + k / 8 * 2], k % 2) *
                      number(warp->words[column * 4 + k % 8 / 2][4 + k / 8], k % 2);
    }
    lockstep();
}

static float exponential(float x) { return expf(x); }
static float quotient(float a, float b) { return a / b; }
