/* The base of every generated loop without products, after arithmetic.c; loop_cpu.py declares loop_t.

   A task takes some columns of one row, or of one chunk of its steps, through time; what it carries from step to step
   stays in a few cache lines. */

#define COLUMNS 512 /* of a task, at most: loop_cpu.py has the same number */
#define CARRIED __attribute__((aligned(64)))

typedef void (*lane_t)(const loop_t *call, long d, long b, long c, long j0, long columns);

typedef struct {
    const loop_t *call;
    lane_t work;
    long width, chunks;
} lane_job_t;

static int lane_task(const job_t *job, long task) {
    const lane_job_t *lane = job->data;
    const loop_t *call = lane->call;
    const long blocks = (lane->width + call->columns - 1) / call->columns;
    const long j0 = task % blocks * call->columns, left = lane->width - j0;
    const long d = task / blocks % call->directions, c = task / blocks / call->directions % lane->chunks;
    const long b = call->order[task / blocks / call->directions / lane->chunks];
    lane->work(call, d, b, c, j0, left < call->columns ? left : call->columns);
    return 0;
}

/* One lane, all directions, rows, chunks and columns. */
static void run_lane(const loop_t *call, lane_t work, long width, long chunks, long threads, parallel_t parallel) {
    const lane_job_t lane = {.call = call, .work = work, .width = width, .chunks = chunks};
    const long blocks = (width + call->columns - 1) / call->columns;
    job_t job = {.work = lane_task, .tasks = call->directions * call->batch * chunks * blocks, .data = &lane};
    share(&job, threads, parallel);
}

static void set(float *to, long count, float value) {
    for (long j = 0; j < count; j++) to[j] = value;
}

/* Zero columns of the rows `first` to `last` of a buffer. */
static void clear_rows(float *buffer, long width, long first, long last, long columns) {
    for (long row = first; row < last; row++) memset(buffer + row * width, 0, sizeof(float) * columns);
}
