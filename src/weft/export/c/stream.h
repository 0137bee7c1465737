/* Token by token: begin, then read tokens; logits are those of the next token, weft_vocabulary() numbers. The first
   token of every text is 2 (start), and 3 ends it. A state can be taken out and given back, to go on from it later or
   in another model of the same limits. A translator first reads the text that it
   translates; the options name its language where it has several, and may else be 0. 0 or an error. */
long weft_vocabulary(void);
int weft_begin(weft_model *m, const weft_options *options, const char *source, size_t count);
int weft_next(weft_model *m, int32_t token, const float **logits);
size_t weft_state_bytes(const weft_model *m);
void weft_get_state(const weft_model *m, void *state);
int weft_set_state(weft_model *m, const void *state, size_t bytes);

/* The ids of a text, and the text of ids; the number of ids or bytes, or an error. */
long weft_encode(weft_model *m, const char *text, size_t count, int32_t *ids, size_t capacity);
long weft_decode(const weft_model *m, const int32_t *ids, size_t count, char *text, size_t capacity);
