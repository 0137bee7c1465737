/* A recurrence in one kernel that stays on the GPU for all time steps, its weights in registers.

   Each block of threads owns UNITS units of the state of ROWS rows. In a step it needs all columns of a product's left
   side, of which every block makes its own: they meet in global memory, in the buffer of the exchange. That buffer is
   filled with EMPTY before the start. A block stores its columns once and a reader loads a column until it is no longer
   EMPTY, which no rounding of a number gives. So no barrier and no fence is needed between blocks.

   A product has the weights as its left matrix (16 columns of the result by 16 of the depth in an instruction) and eight
   rows of the batch as its right one. The depth is cut into blocks of 32 and these are shared out among K_SPLIT warps,
   whose sums meet in shared memory. Within a block of 32 the order of the depth is another one than in memory, the same
   for both matrices, so that a thread loads 16 bytes at once.

   Sizes are macros: UNITS, ROWS, DEPTH (of the product), LEAVES (how many columns of its result a unit needs), K_SPLIT,
   N_SPLIT (warps that share the columns). */

typedef unsigned int word; /* two numbers of half precision */
typedef unsigned short half_bits;
typedef long long place_t;

#define EMPTY 0xffffffffu
#define WARPS (K_SPLIT * N_SPLIT)
#define THREADS (32 * WARPS)
#define ROW_TILES (ROWS / 8)
#define BLOCKS ((DEPTH / 32 + K_SPLIT - 1) / K_SPLIT)
#define TILES ((LEAVES * UNITS + 16 * N_SPLIT - 1) / (16 * N_SPLIT))
#define COLUMNS (16 * N_SPLIT * TILES)
#define STRIDE (ROWS + 2) /* neighbours in different banks */
#define CHAINS (TILES * ROW_TILES < 4 ? 2 : 1)
#define PARTIAL (K_SPLIT * COLUMNS * STRIDE)
#define PAIRS ((ROWS * UNITS + THREADS - 1) / THREADS) /* rows of a thread, always of the same unit */
#define EACH_PAIR _Pragma("unroll") for (int p = 0; p < PAIRS; p++)

#define DEVICE static __device__ __forceinline__

#ifndef ON_CPU
typedef unsigned long long size_t_;
#define KERNEL(name) extern "C" __global__ void __launch_bounds__(THREADS, 1) name
#define THREAD ((int)threadIdx.x)
#define BLOCK(axis) ((int)blockIdx.axis)
#define SHARED(name) extern __shared__ float name[]
#define INFINITY __int_as_float(0x7f800000)
#define NAN __int_as_float(0x7fffffff)
#define __builtin_sqrtf sqrtf
#define __builtin_fabsf fabsf

/* Load four words again if one of them is missing; without a branch, so that many loads are under way at once. */
DEVICE void load_missing(const half_bits *from, word to[4]) {
    const int missing = to[0] == EMPTY | to[1] == EMPTY | to[2] == EMPTY | to[3] == EMPTY;
    asm volatile("{ .reg .pred needed; setp.ne.s32 needed, %5, 0;"
                 " @needed ld.relaxed.gpu.global.v4.u32 {%0, %1, %2, %3}, [%4]; }"
                 : "+r"(to[0]), "+r"(to[1]), "+r"(to[2]), "+r"(to[3]) : "l"(from), "r"(missing) : "memory");
}

DEVICE void store_word(half_bits *to, word value) {
    asm volatile("st.relaxed.gpu.global.u32 [%0], %1;" :: "l"(to), "r"(value) : "memory");
}

DEVICE half_bits to_half(float x) {
    half_bits bits;
#if BFLOAT16
    asm("cvt.rn.bf16.f32 %0, %1;" : "=h"(bits) : "f"(x));
#else
    asm("cvt.rn.f16.f32 %0, %1;" : "=h"(bits) : "f"(x));
#endif
    return bits;
}

DEVICE float from_half(half_bits bits) {
#if BFLOAT16
    return __uint_as_float((word)bits << 16);
#else
    float x;
    asm("cvt.f32.f16 %0, %1;" : "=f"(x) : "h"(bits));
    return x;
#endif
}

#if BFLOAT16
#define MMA "mma.sync.aligned.m16n8k16.row.col.f32.bf16.bf16.f32"
#else
#define MMA "mma.sync.aligned.m16n8k16.row.col.f32.f16.f16.f32"
#endif

DEVICE void multiply_add(float sum[4], const word weights[4], word low, word high) {
    asm volatile(MMA " {%0, %1, %2, %3}, {%4, %5, %6, %7}, {%8, %9}, {%0, %1, %2, %3};"
                 : "+f"(sum[0]), "+f"(sum[1]), "+f"(sum[2]), "+f"(sum[3])
                 : "r"(weights[0]), "r"(weights[1]), "r"(weights[2]), "r"(weights[3]), "r"(low), "r"(high));
}

DEVICE int any_in_warp(int x) { return __any_sync(0xffffffffu, x); }
DEVICE word of_next_lane(word x) { return __shfl_down_sync(0xffffffffu, x, 1); }
DEVICE void meet(void) { __syncthreads(); }
DEVICE float exponential(float x) { return __expf(x); }
DEVICE float quotient(float a, float b) { return __fdividef(a, b); }
#endif

DEVICE float sigmoid(float x) { return quotient(1.0f, 1.0f + exponential(-x)); }

DEVICE float hyperbolic(float x) {
    const float e = exponential(-2.0f * __builtin_fabsf(x)), t = quotient(1.0f - e, 1.0f + e);
    return x < 0.0f ? -t : t;
}

/* The weights of this warp, for all time: [block of the depth][half of it][16 columns]. `weights` is (columns, DEPTH);
   a unit of leaf l is column starts[l] + the unit. */
DEVICE void load_weights(word to[BLOCKS][2][TILES][4], const half_bits *weights, const int starts[LEAVES], int unit0) {
    const int lane = THREAD % 32, k_warp = THREAD / 32 % K_SPLIT, n_warp = THREAD / 32 / K_SPLIT;
#pragma unroll
    for (int i = 0; i < BLOCKS; i++)
#pragma unroll
        for (int t = 0; t < TILES; t++)
#pragma unroll
            for (int half = 0; half < 2; half++) {
                const int column = (n_warp * TILES + t) * 16 + lane / 4 + 8 * half, leaf = column / UNITS;
                const int k = (k_warp * BLOCKS + i) * 32 + lane % 4 * 8;
                const word *from = (const word *)(weights + (place_t)((leaf < LEAVES ? starts[leaf] : 0) + unit0 + column % UNITS) * DEPTH + k);
                const int there = leaf < LEAVES && k < DEPTH;
#pragma unroll
                for (int q = 0; q < 2; q++) {
                    to[i][q][t][half] = there ? from[2 * q] : 0u;
                    to[i][q][t][2 + half] = there ? from[2 * q + 1] : 0u;
                }
            }
}

/* Load this warp's part of the left side of its rows, when it is all there. */
DEVICE void await_left(word to[ROW_TILES][BLOCKS][4], const half_bits *const from[ROW_TILES], const int alive[ROW_TILES]) {
    const int k_warp = THREAD / 32 % K_SPLIT;
    int missing;
#pragma unroll
    for (int n = 0; n < ROW_TILES; n++)
#pragma unroll
        for (int i = 0; i < BLOCKS; i++)
#pragma unroll
            for (int q = 0; q < 4; q++)
                to[n][i][q] = alive[n] && (k_warp * BLOCKS + i) * 32 < DEPTH ? EMPTY : 0u;
    do {
#pragma unroll
        for (int n = 0; n < ROW_TILES; n++)
#pragma unroll
            for (int i = 0; i < BLOCKS; i++) load_missing(from[n] + i * 32, to[n][i]);
        missing = 0;
#pragma unroll
        for (int n = 0; n < ROW_TILES; n++)
#pragma unroll
            for (int i = 0; i < BLOCKS; i++)
#pragma unroll
                for (int q = 0; q < 4; q++) missing |= to[n][i][q] == EMPTY;
    } while (any_in_warp(missing));
}

/* This warp's part of the product, to shared memory: [warp of the depth][column][row]. */
DEVICE void multiply(float *partial, word weights[BLOCKS][2][TILES][4], word left[ROW_TILES][BLOCKS][4]) {
    const int lane = THREAD % 32, k_warp = THREAD / 32 % K_SPLIT, n_warp = THREAD / 32 / K_SPLIT;
    float sum[CHAINS][TILES][ROW_TILES][4];
#pragma unroll
    for (int c = 0; c < CHAINS; c++)
#pragma unroll
        for (int t = 0; t < TILES; t++)
#pragma unroll
            for (int n = 0; n < ROW_TILES; n++)
#pragma unroll
                for (int k = 0; k < 4; k++) sum[c][t][n][k] = 0.0f;
#pragma unroll
    for (int i = 0; i < BLOCKS; i++)
#pragma unroll
        for (int q = 0; q < 2; q++)
#pragma unroll
            for (int t = 0; t < TILES; t++)
#pragma unroll
                for (int n = 0; n < ROW_TILES; n++)
                    multiply_add(sum[q % CHAINS][t][n], weights[i][q][t], left[n][i][2 * q], left[n][i][2 * q + 1]);
#pragma unroll
    for (int t = 0; t < TILES; t++)
#pragma unroll
        for (int n = 0; n < ROW_TILES; n++) {
            float *to = partial + (k_warp * COLUMNS + (n_warp * TILES + t) * 16 + lane / 4) * STRIDE + n * 8 + lane % 4 * 2;
#pragma unroll
            for (int k = 0; k < 4; k++)
                to[(k / 2) * 8 * STRIDE + k % 2] = sum[0][t][n][k] + (CHAINS > 1 ? sum[CHAINS - 1][t][n][k] : 0.0f);
        }
}

/* A column of the product in a row: the sum of what the warps of the depth have left. */
DEVICE float collect(const float *partial, int column, int row) {
    float sum = 0.0f;
#pragma unroll
    for (int k = 0; k < K_SPLIT; k++) sum += partial[(k * COLUMNS + column) * STRIDE + row];
    return sum;
}

/* Publish a column of the left side: threads of neighbouring units store two of them as one word. */
DEVICE void publish(half_bits *to, float value, int alive) {
    const word mine = to_half(value), next = of_next_lane(mine);
    if (alive && THREAD % 2 == 0) store_word(to, mine | next << 16);
}

DEVICE void store_half(half_bits *to, float x) { *to = to_half(x); }
DEVICE void store_float(float *to, float x) { *to = x; }
#if START_FLOAT
typedef float start_t;
DEVICE float from_start(start_t x) { return x; }
DEVICE start_t start_of(float x) { return x; }
#else
typedef half_bits start_t;
DEVICE float from_start(start_t x) { return from_half(x); }
DEVICE start_t start_of(float x) { return to_half(x); }
#endif
