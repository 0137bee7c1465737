/* Texts as token ids and back, with the ids and the texts that weft's tokenizers give: C99, no libm, no POSIX, no
   allocation, no global state.

   A weft_text reads its tables from memory that the caller keeps (a section of weights.bin, made by text_tables.py);
   any number of threads may share it. All texts are UTF-8 of a given number of bytes and may contain zero bytes;
   nothing is terminated by a zero. Functions that can fail return a negative error of enum weft_text_error_code.

       static weft_text text;
       if ((error = weft_text_open(&text, section, section_bytes)) < 0) puts(weft_text_error(error));
       long n = weft_text_encode(&text, line, bytes, ids, capacity, workspace, sizeof workspace);
       long size = weft_text_decode(&text, ids, n, line, line_capacity);                                              */
#ifndef WEFT_TEXT_H
#define WEFT_TEXT_H

#include <stddef.h>
#include <stdint.h>

#ifdef __cplusplus
extern "C" {
#endif

/* The first ids of every vocabulary. No text is read as one of them, except the word of `text.unknown`. */
enum { WEFT_PAD, WEFT_UNK, WEFT_SOS, WEFT_EOS, WEFT_MASK, WEFT_SPECIALS };

enum weft_text_error_code {
    WEFT_TEXT_DAMAGED = -1,  /* the tables are not what weft writes */
    WEFT_TEXT_UTF8 = -2,     /* the text is not UTF-8 */
    WEFT_TEXT_FULL = -3,     /* the output does not fit into its capacity */
    WEFT_TEXT_WORKSPACE = -4, /* the workspace is smaller than weft_text_workspace(t, bytes) */
    WEFT_TEXT_LONG = -5,     /* the text has more than WEFT_TEXT_MAX_BYTES */
    WEFT_TEXT_ID = -6,       /* an id is not in the vocabulary */
    WEFT_TEXT_KIND = -7      /* the vocabulary is of a kind that the function is not for */
};

#define WEFT_TEXT_MAX_BYTES ((size_t)1 << 26)

enum weft_text_kind { WEFT_TEXT_CHAR = 1, WEFT_TEXT_WORD, WEFT_TEXT_BPE, WEFT_TEXT_UNIGRAM, WEFT_TEXT_WORDPIECE };

/* An array of the tables: little-endian numbers, at any address. */
typedef struct {
    const unsigned char *at;
    uint32_t count;
} weft_text_array;

/* An opened vocabulary. Only weft_text_open writes it; its fields are private. */
typedef struct {
    uint32_t kind, flags, size, most_characters;
    double unknown_score;
    weft_text_array arrays[24];
} weft_text;

/* Check the tables once, so that afterwards nothing is read outside of them; 0 or an error. */
int weft_text_open(weft_text *t, const void *bytes, size_t size);

/* What an error means, in a few words. */
const char *weft_text_error(int code);

/* The kind, and the number of entries of the vocabulary: ids are below it. */
enum weft_text_kind weft_text_kind_of(const weft_text *t);
int32_t weft_text_size(const weft_text *t);

/* The bytes of workspace in which every text of at most max_bytes can be encoded, and the most ids that it can have
   (so that neither WEFT_TEXT_WORKSPACE nor WEFT_TEXT_FULL can occur); 0 where max_bytes is above WEFT_TEXT_MAX_BYTES.
   A workspace has the alignment of a double; nothing in it is kept between calls. */
size_t weft_text_workspace(const weft_text *t, size_t max_bytes);
size_t weft_text_most_ids(const weft_text *t, size_t max_bytes);

/* The ids of a text, without start or end token; returns their number. As Tokenizer.encode. The characters of a word,
   for a tagger's speller, are the ids of the word by the vocabulary of characters. */
long weft_text_encode(const weft_text *t, const char *utf8, size_t n, int32_t *ids, size_t capacity, void *workspace,
                      size_t workspace_size);

/* The text of some ids; returns its bytes. As Tokenizer.decode: padding, start and end are dropped. A null out with
   capacity 0 is allowed: then only the bytes are counted. */
long weft_text_decode(const weft_text *t, const int32_t *ids, size_t n, char *out, size_t capacity);

/* A word in place of the unknown token at a place of ids (decode.copy_unknown; vocabularies of words only). */
typedef struct {
    size_t place;
    const char *word;
    size_t size;
} weft_text_copy;

/* A text that is decoded while it is written. Begin with zeros: weft_text_stream s = {0}. */
typedef struct {
    size_t read; /* ids whose text was returned */
    const weft_text_copy *copies; /* in the order of their places; may be null */
    size_t copy_count;
    uint32_t state, pending_count; /* private, as all that follows */
    unsigned char pending[8];
} weft_text_stream;

/* The bytes that ids[s->read] up to ids[n - 1] add to the text and that no later token changes; with `last`, all bytes.
   ids begins at the beginning of the text in every call. Returned are whole characters; joined, they are what
   weft_text_decode returns. After an error s is as it was before. */
long weft_text_stream_next(const weft_text *t, weft_text_stream *s, const int32_t *ids, size_t n, int last, char *out,
                           size_t capacity);

/* The bytes that one token adds to a text in a state, as weft.text.spelling, for stop strings: *bytes (not terminated;
   in the tables) and *size, with a blank before them if *blank. States: 0 at the beginning of a text; returned is the
   state after the token, or an error. */
int weft_text_spell(const weft_text *t, int32_t id, int state, const char **bytes, size_t *size, int *blank);

/* The id of a given word, which may contain any character (vocabularies of words): WEFT_UNK if it is not an entry.
   As Tokenizer.encode_words. */
int32_t weft_text_word(const weft_text *t, const char *word, size_t n);

/* A part of a text in bytes. */
typedef struct {
    size_t start, size;
} weft_span;

/* The words of a sentence to tag: cut at blanks, with punctuation cut off both ends, except from words of a vocabulary
   of words such as "U.S."; returns their number, at most n. As weft.text.split.split_text. Needs tables that were
   written with sentences=True. */
long weft_text_split(const weft_text *t, const char *utf8, size_t n, weft_span *words, size_t capacity);

/* The words of a sentence that are separated by tabs, as they are; returns their number, at most n. */
long weft_text_fields(const char *utf8, size_t n, weft_span *words, size_t capacity);

#ifdef __cplusplus
}
#endif
#endif
