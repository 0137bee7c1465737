/* Reads lines from standard input and prints an answer for each, as `weft predict` does.

       model [WEIGHTS] [--probabilities | --precise] [--beam N] [--n-best N] [--length-penalty X] [--max-length N]
             [--min-length N] [--stop bound|finished] [--finished N] [--repetition-penalty X] [--frequency-penalty X]
             [--presence-penalty X] [--sample | --no-sample] [--temperature X] [--top-k N] [--top-p X] [--min-p X]
             [--seed N] [--language NAME] [--words] [--tokens N] [--line-bytes N]

   --precise prints numbers with nine digits; --tokens and --line-bytes are the limits of what is read of a line.
   A blank line is answered by a blank line. So is one that cannot be answered, such as one with a NUL byte; a message
   then names its number, and the program continues and ends with 2.

   A tagger splits a line into words as `weft predict` does. With --words it reads the words of a line as they are,
   with a tab between them, and prints each with its tag, WORD/TAG, also with tabs between them.

   A model of pictures reads lines with the names of files: PGM or PPM, of the size that the model was trained with.
   One of feature vectors, or of series, reads lines of JSON: see README.md.                                          */
#include <errno.h>
#include <stdio.h>
#include <stdlib.h>
#include <string.h>

#include "model.h"

static int fail(const char *what, const char *why)
{
    fprintf(stderr, "%s: %s\n", what, why);
    return 2;
}

/* The whole file, in memory from malloc; 0 after a message. */
static void *read_file(const char *path, size_t *bytes)
{
    FILE *const file = fopen(path, "rb");
    if (!file) {
        fail(path, strerror(errno));
        return 0;
    }
    long size = -1;
    void *content = 0;
    if (fseek(file, 0, SEEK_END) == 0 && (size = ftell(file)) >= 0 && fseek(file, 0, SEEK_SET) == 0)
        content = malloc((size_t)size + 1);
    if (!content || fread(content, 1, (size_t)size, file) != (size_t)size) {
        fail(path, "cannot be read");
        free(content);
        content = 0;
    }
    fclose(file);
    *bytes = content ? (size_t)size : 0;
    return content;
}

/* A line without its end in `line`: 1, 0 at the end of the input, -1 where it is longer than the limit. */
static int read_line(char *line, size_t capacity, size_t *count)
{
    int c, long_line = 0;
    *count = 0;
    while ((c = getc(stdin)) != EOF && c != '\n') {
        if (*count < capacity)
            line[(*count)++] = (char)c;
        else
            long_line = 1;
    }
    if (c == EOF && *count == 0) return 0;
    if (*count && line[*count - 1] == '\r') (*count)--;
    return long_line ? -1 : 1;
}

/* An option with a number: its name, where the number goes, and its range. */
typedef struct {
    const char *name;
    int *small;
    long *whole;
    float *real;
    double least, most;
} weft_setting;

/* Put a number into its option: 0, or what it needs. */
static const char *set_number(const weft_setting *setting, const char *text)
{
    char *end = 0;
    const double number = text ? strtod(text, &end) : 0.0;
    if (!text || end == text || *end) return setting->real ? "needs a number" : "needs a whole number";
    if (!(number >= setting->least && number <= setting->most)) return "is out of range";
    if (!setting->real && number != (double)(long)number) return "needs a whole number";
    if (setting->small) *setting->small = (int)number;
    if (setting->whole) *setting->whole = (long)number;
    if (setting->real) *setting->real = (float)number;
    return 0;
}

/* Read the arguments into options and limits; 0, or 2 after a message. */
static int read_arguments(int argc, char **argv, const char **path, weft_options *options, weft_limits *limits)
{
    const double tokens = 1 << 20, most = 1e9, least = 1e-6;
    long line_bytes = (long)limits->line_bytes, seed = -1;
    int sample = -1, implied = -1, paths = 0;
    const weft_setting settings[] = {
        {"--beam", &options->beam, 0, 0, 1, 4096},
        {"--n-best", &options->n_best, 0, 0, 1, 4096},
        {"--finished", &options->finished, 0, 0, 1, 4096},
        {"--max-length", 0, &options->max_length, 0, 1, tokens},
        {"--min-length", 0, &options->min_length, 0, 0, tokens},
        {"--length-penalty", 0, 0, &options->length_penalty, 0, 50},
        {"--repetition-penalty", 0, 0, &options->repetition_penalty, least, most},
        {"--frequency-penalty", 0, 0, &options->frequency_penalty, -most, most},
        {"--presence-penalty", 0, 0, &options->presence_penalty, -most, most},
        {"--temperature", 0, 0, &options->temperature, least, most},
        {"--top-k", 0, &options->top_k, 0, 0, 1e6},
        {"--top-p", 0, 0, &options->top_p, 1e-30, 1},
        {"--min-p", 0, 0, &options->min_p, 0, 1},
        {"--seed", 0, &seed, 0, 0, 2147483647},
        {"--tokens", 0, &limits->tokens, 0, 1, tokens},
        {"--line-bytes", 0, &line_bytes, 0, 1, 1 << 24},
    };
    static const char *const draws[] = {"--temperature", "--top-k", "--top-p", "--min-p"};
    static const char *const searches[] = {"--beam", "--stop", "--finished"};
    for (int n = 1; n < argc; n++) {
        const char *const name = argv[n], *const value = n + 1 < argc ? argv[n + 1] : 0;
        for (int k = 0; k < 3; k++) implied = implied < 0 && strcmp(name, searches[k]) == 0 ? 0 : implied;
        for (int k = 0; k < 4; k++) implied = strcmp(name, draws[k]) == 0 ? 1 : implied;
        if (strcmp(name, "--probabilities") == 0) {
            options->probabilities = 1;
        } else if (strcmp(name, "--precise") == 0) {
            options->probabilities = 2;
        } else if (strcmp(name, "--words") == 0) {
            if (!weft_reads_words()) return fail(name, "this model tags no words");
            options->words = 1;
        } else if (strcmp(name, "--sample") == 0 || strcmp(name, "--no-sample") == 0) {
            sample = name[2] == 's';
        } else if (strcmp(name, "--language") == 0) {
            options->language = value ? weft_language(value) : -1;
            if (options->language < 0) return fail(value ? value : name, "is no language of this model");
            n++;
        } else if (strcmp(name, "--stop") == 0) {
            if (!value || (strcmp(value, "bound") != 0 && strcmp(value, "finished") != 0))
                return fail(name, "is bound or finished");
            options->by_bound = strcmp(value, "bound") == 0;
            n++;
        } else if (strncmp(name, "--", 2) != 0) {
            if (paths++) return fail(name, "is a second file of weights; lines are read from standard input");
            *path = name;
        } else {
            const int count = (int)(sizeof settings / sizeof *settings);
            int k = 0;
            while (k < count && strcmp(name, settings[k].name) != 0) k++;
            if (k == count) return fail(name, "is no option; see the head of main.c");
            const char *const wrong = set_number(&settings[k], value);
            if (wrong) return fail(name, wrong);
            n++;
        }
    }
    if (seed >= 0) options->seed = (uint64_t)seed;
    if (sample >= 0 || implied >= 0) options->sample = sample >= 0 ? sample : implied;
    limits->line_bytes = (size_t)line_bytes;
    if (options->max_length > limits->new_tokens) limits->new_tokens = options->max_length;
    return 0;
}

int main(int argc, char **argv)
{
    const char *path = "weights.bin";
    weft_limits limits;
    weft_options options;
    weft_default_limits(&limits);
    weft_default_options(&options);
    if (read_arguments(argc, argv, &path, &options, &limits)) return 2;
    if (options.beam > limits.beam) limits.beam = options.beam;
    if (options.n_best > limits.beam) limits.beam = options.n_best;

    size_t weight_bytes, memory_bytes, line_bytes;
    void *const weights = read_file(path, &weight_bytes);
    if (!weights) return 2;
    int error = weft_memory(weights, weight_bytes, &limits, &memory_bytes), bad = 0;
    if (error) return fail(error == WEFT_LIMITS ? "--beam, --tokens or another limit" : path, weft_error(error));
    const size_t capacity = 16 * limits.line_bytes + 65536;
    void *const memory = malloc(memory_bytes);
    char *const line = malloc(limits.line_bytes), *const answer = malloc(capacity);
    if (!memory || !line || !answer) return fail("memory", "there is not enough; lower --tokens or --line-bytes");
    weft_model *model = 0;
    error = weft_open(&model, weights, weight_bytes, memory, memory_bytes, &limits);
    if (error) return fail(path, weft_error(error));

    int found;
    size_t file_bytes;
    for (long number = 1; (found = read_line(line, limits.line_bytes, &line_bytes)) != 0; number++) {
        void *file = 0;
        long size = WEFT_TOO_LONG;
        const int binary = found > 0 && memchr(line, 0, line_bytes) != 0;
        if (binary) {
            size = WEFT_NOT_UTF8;
        } else if (found > 0 && weft_reads_files() && line_bytes) {
            if (line_bytes < limits.line_bytes) {
                line[line_bytes] = 0;
                file = read_file(line, &file_bytes);
            }
            size = file ? weft_answer(model, &options, file, file_bytes, answer, capacity) : (long)WEFT_PICTURE;
        } else if (found > 0) {
            size = weft_answer(model, &options, line, line_bytes, answer, capacity);
        }
        if (size < 0) {
            fprintf(stderr, "line %ld: %s\n", number, binary ? "has a NUL byte" : weft_error((int)size));
            bad = 1;
        } else {
            fwrite(answer, 1, (size_t)size, stdout);
        }
        putchar('\n');
        free(file);
    }
    free(weights), free(memory), free(line), free(answer);
    return fflush(stdout) != 0 || ferror(stdout) ? fail("standard output", "cannot be written") : bad ? 2 : 0;
}
