#ifndef WEFT_MODEL_H
#define WEFT_MODEL_H

#include <stddef.h>
#include <stdint.h>

#ifdef __cplusplus
extern "C" {
#endif

typedef struct weft_model weft_model;

enum weft_error_code {
    WEFT_TOO_LONG = -101,   /* more tokens or bytes than the limits, or than the model can read */
    WEFT_DAMAGED = -102,    /* the weights are not what weft wrote */
    WEFT_OTHER = -103,      /* the weights are of another model */
    WEFT_MACHINE = -104,    /* not a little-endian machine */
    WEFT_NOT_UTF8 = -105,   /* a text is not UTF-8 */
    WEFT_FULL = -106,       /* the answer does not fit */
    WEFT_MEMORY = -107,     /* less memory than weft_memory says */
    WEFT_LIMITS = -108,     /* a limit that cannot be */
    WEFT_OPTION = -109,     /* an option out of range */
    WEFT_NOT_A_PAIR = -110, /* a line that is not two texts with a tab between them */
    WEFT_NOT_NUMBERS = -111, /* a line that is not the numbers that the model reads */
    WEFT_NO_LANGUAGE = -112, /* a translator to several languages, and none is chosen */
    WEFT_PICTURE = -113     /* no picture of the size that the model reads */
};

/* What an error means, in a line. */
const char *weft_error(int code);

/* Limits that the memory of a model is computed from. */
typedef struct {
    size_t line_bytes; /* bytes of a line */
    long tokens;       /* tokens, or words, that are read of a line */
    long new_tokens;   /* tokens that are written */
    int beam;          /* hypotheses of the search */
} weft_limits;

void weft_default_limits(weft_limits *limits);

/* How a line is answered. The defaults are the settings of the run. */
typedef struct {
    int probabilities; /* 1: print probabilities, or scores, too; 2: with nine digits */
    int beam, n_best;  /* hypotheses of the search, and how many of them are answers */
    long max_length, min_length;
    float length_penalty;
    int by_bound, finished; /* when the search ends: stop = "bound", or after so many texts */
    float repetition_penalty, frequency_penalty, presence_penalty;
    int sample; /* draw tokens in the place of a search */
    float temperature, top_p, min_p;
    long top_k;
    uint64_t seed;
    int words; /* a tagger reads the words of a line, and prints them with their tags, separated by tabs */
    int language; /* the number of the language to translate to, from weft_language; -1: none */
} weft_options;

void weft_default_options(weft_options *options);

/* The number of a language that the model translates to; -1 where it has none of that name. */
int weft_language(const char *name);

/* Whether weft_answer reads the bytes of a file, a picture in PGM or PPM, in the place of a line. */
int weft_reads_files(void);

/* Whether the model tags words, which options.words leaves as they are. */
int weft_reads_words(void);

/* Check the weights completely, and compute the bytes of memory that a model with these limits needs. 0 or an error. */
int weft_memory(const void *weights, size_t bytes, const weft_limits *limits, size_t *memory);

/* Open a model in the caller's memory, which must not be an array that was declared as another type: take it from
   malloc. The weights, at a multiple of 4 bytes, and the memory stay the caller's and must outlive the model. Nothing
   is allocated, here or later. A model answers one line at a time; threads need a model each and may share weights. */
int weft_open(weft_model **model, const void *weights, size_t bytes, void *memory, size_t memory_bytes,
              const weft_limits *limits);

/* Answer a line as `weft predict` does; returns the bytes of the answer, which no zero ends, or an error. */
long weft_answer(weft_model *m, const weft_options *options, const char *line, size_t count, char *answer,
                 size_t capacity);
