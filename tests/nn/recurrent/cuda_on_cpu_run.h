/* After the kernel's text: starts all threads of all blocks and waits for their end. */

typedef struct { call_t call; int thread, x, y, z; block_t *block; } task_t;

static void *work(void *argument) {
    const task_t *const task = argument;
    thread_ = task->thread, block_x_ = task->x, block_y_ = task->y, block_z_ = task->z, block_ = task->block;
    RUN_KERNEL(task->call);
    return 0;
}

int run(const call_t *call, int gx, int gy, int gz, int threads, long shared_bytes) {
    const int blocks = gx * gy * gz;
    pthread_t *const started = malloc(sizeof(pthread_t) * blocks * threads);
    task_t *const tasks = malloc(sizeof(task_t) * blocks * threads);
    block_t *const all = malloc(sizeof(block_t) * blocks);
    pthread_attr_t small;
    pthread_attr_init(&small);
    pthread_attr_setstacksize(&small, 1 << 18);
    for (int b = 0; b < blocks; b++) {
        pthread_barrier_init(&all[b].barrier, 0, threads);
        all[b].shared = malloc(shared_bytes);
        memset(all[b].shared, 0xff, shared_bytes);
        all[b].warps = malloc(sizeof(warp_t) * threads / 32);
        for (int w = 0; w < threads / 32; w++) pthread_barrier_init(&all[b].warps[w].barrier, 0, 32);
    }
    for (int i = 0; i < blocks * threads; i++) {
        const int b = i / threads;
        tasks[i] = (task_t){*call, i % threads, b % gx, b / gx % gy, b / gx / gy, &all[b]};
        if (pthread_create(&started[i], &small, work, &tasks[i])) return 1;
    }
    for (int i = 0; i < blocks * threads; i++) pthread_join(started[i], 0);
    for (int b = 0; b < blocks; b++) {
        free(all[b].shared);
        free(all[b].warps);
    }
    free(started), free(tasks), free(all);
    return 0;
}
