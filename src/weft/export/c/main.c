/* Reads lines from standard input and prints an answer for each, as `weft predict` does.

       model [WEIGHTS] [--probabilities | --precise] [--beam N] [--n-best N] [--max-length N] [--sample 0|1] [--seed N]
             [--temperature X] [--top-p X] [--top-k N] [--language NAME] [--tokens N] [--line-bytes N]

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

int main(int argc, char **argv)
{
    const char *path = "weights.bin";
    weft_limits limits;
    weft_options options;
    weft_default_limits(&limits);
    weft_default_options(&options);
    for (int n = 1; n < argc; n++) {
        const char *const name = argv[n];
        if (strcmp(name, "--probabilities") == 0) {
            options.probabilities = 1;
        } else if (strcmp(name, "--precise") == 0) {
            options.probabilities = 2;
        } else if (strcmp(name, "--language") == 0) {
            options.language = n + 1 < argc ? weft_language(argv[n + 1]) : -1;
            if (options.language < 0) return fail(n + 1 < argc ? argv[n + 1] : name, "is no language of this model");
            n++;
        } else if (strncmp(name, "--", 2) != 0) {
            path = name;
        } else if (strcmp(name, "--top-p") == 0 || strcmp(name, "--temperature") == 0) {
            char *end = 0;
            const double number = n + 1 < argc ? strtod(argv[n + 1], &end) : 0.0;
            if (!end || *end || !(number > 0.0) || number > 1e6) return fail(name, "needs a number above 0");
            n++;
            if (name[3] == 'o')
                options.top_p = (float)number;
            else
                options.temperature = (float)number;
        } else {
            char *end = 0;
            const long number = n + 1 < argc ? strtol(argv[n + 1], &end, 10) : 0;
            if (!end || *end || end == argv[n + 1] || number < 0 || number > 1 << 24)
                return fail(name, "needs a whole number");
            n++;
            if (strcmp(name, "--beam") == 0)
                options.beam = (int)number;
            else if (strcmp(name, "--n-best") == 0)
                options.n_best = (int)number;
            else if (strcmp(name, "--max-length") == 0)
                options.max_length = limits.new_tokens = number;
            else if (strcmp(name, "--sample") == 0)
                options.sample = number != 0;
            else if (strcmp(name, "--top-k") == 0)
                options.top_k = number;
            else if (strcmp(name, "--seed") == 0)
                options.seed = (uint64_t)number;
            else if (strcmp(name, "--tokens") == 0)
                limits.tokens = number;
            else if (strcmp(name, "--line-bytes") == 0)
                limits.line_bytes = (size_t)number;
            else
                return fail(name, "is no option; see the head of main.c");
        }
    }
    if (options.beam > limits.beam) limits.beam = options.beam;
    if (options.n_best > limits.beam) limits.beam = options.n_best;

    size_t weight_bytes, memory_bytes, line_bytes;
    void *const weights = read_file(path, &weight_bytes);
    if (!weights) return 2;
    int error = weft_memory(weights, weight_bytes, &limits, &memory_bytes), bad = 0;
    if (error) return fail(path, weft_error(error));
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
        if (found > 0 && weft_reads_files() && line_bytes) {
            if (line_bytes < limits.line_bytes) {
                line[line_bytes] = 0;
                file = read_file(line, &file_bytes);
            }
            size = file ? weft_answer(model, &options, file, file_bytes, answer, capacity) : (long)WEFT_PICTURE;
        } else if (found > 0) {
            size = weft_answer(model, &options, line, line_bytes, answer, capacity);
        }
        if (size < 0) {
            fprintf(stderr, "line %ld: %s\n", number, weft_error((int)size));
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
