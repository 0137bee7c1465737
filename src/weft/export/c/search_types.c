/* A hypothesis that has ended, or was cut by the limit. */
typedef struct {
    float rank, log;   /* what the search maximises, and the log-probability of the end token */
    long step;         /* tokens before the end */
    int place, ended;  /* the hypothesis that the end extends */
    double score;      /* the sum of all log-probabilities / length^alpha */
    int32_t *tokens;
} weft_found;

typedef struct {
    weft_state state[2 * WEFT_MAX_BEAM]; /* two halves: a step reads one and writes the other */
    weft_found found[2 * WEFT_MAX_BEAM];
    int found_count;
    long steps;              /* the most steps that there is memory for */
    float *logits, *logs;    /* (vocabulary) */
    float *model_logs;       /* (vocabulary): without penalties */
    float *sums, *next;      /* (K) */
    float *best, *best_logs; /* (K, K): what the search ranks by, and the log-probability of the model */
    int32_t *best_tokens;    /* (K, K) */
    int32_t *tokens, *places; /* (steps, K): back pointers */
    float *step_logs;        /* (steps, K) */
    int32_t *counts, *moved; /* (K, vocabulary): times that a text has a token, for penalties */
    unsigned char *read;     /* (vocabulary): whether the prompt has it */
    float *sorted;           /* (vocabulary) */
    int32_t *order;          /* (2 * vocabulary) */
    double *shares;          /* (vocabulary) */
    int32_t *texts;          /* (2K, steps) */
} weft_search;

