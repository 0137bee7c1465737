/* What the page of `weft export --to html` calls, compiled to WebAssembly with model.c. */
#include "model.h"

static weft_model *model;
static weft_options options;
static weft_limits limits;

/* The memory that the model needs, or an error. */
long page_memory(const void *weights, size_t bytes)
{
    size_t memory;
    weft_default_limits(&limits);
    weft_default_options(&options);
    limits.line_bytes = 16384;
    limits.beam = limits.beam < 4 ? 4 : limits.beam;
    const int error = weft_memory(weights, bytes, &limits, &memory);
    return error ? error : memory > 0x7fffffff ? WEFT_LIMITS : (long)memory;
}

int page_open(const void *weights, size_t bytes, void *memory, size_t size)
{
    return weft_open(&model, weights, bytes, memory, size, &limits);
}

/* The answer to a text with probabilities; n_best, seed and the number of the language are for tasks that write. */
long page_answer(const char *text, size_t bytes, int n_best, int seed, int language, char *answer, size_t capacity)
{
    weft_options own = options;
    own.probabilities = 2;
    own.n_best = n_best;
    own.beam = own.beam < n_best ? n_best : own.beam;
    own.seed += (uint64_t)(uint32_t)seed;
    own.language = language;
    return weft_answer(model, &own, text, bytes, answer, capacity);
}

const char *page_error(int code)
{
    return weft_error(code);
}
