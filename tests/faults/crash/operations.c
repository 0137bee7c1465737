/* Stands between a process and libc (LD_PRELOAD): numbers the file operations below a folder, writes them to a log with
   their data, and at one of them kills the process or makes the operation fail.

   fault_arm gives the orders; before it nothing is touched. Of what calls the kernel without libc nothing is seen: the
   Rust library of safetensors renames its files so. */

#define _GNU_SOURCE
#include <dlfcn.h>
#include <errno.h>
#include <fcntl.h>
#include <limits.h>
#include <pthread.h>
#include <signal.h>
#include <stdarg.h>
#include <stdio.h>
#include <stdlib.h>
#include <string.h>
#include <sys/mman.h>
#include <sys/stat.h>
#include <sys/syscall.h>
#include <sys/uio.h>
#include <unistd.h>

enum { CREATE = 1, OPEN = 2, READ = 4, WRITE = 8, SYNC = 16, NAME = 32, REMOVE = 64 }; /* kinds; as in shim.py */
enum { WATCH, KILL, KILL_HALFWAY, FAIL, FAIL_FROM_HERE };                              /* actions; as in shim.py */

static pthread_mutex_t lock = PTHREAD_MUTEX_INITIALIZER;
static char root[PATH_MAX];
static volatile int armed;
static int action, with, counted, diary = -1;
static long at, number;

typedef struct {
    const char *name;
    int kind, halfway;
    long number;
    unsigned long inode;
    char path[PATH_MAX], to[PATH_MAX];
} Operation;

void fault_arm(const char *folder, const char *log, int kinds, int what, long when, int error)
{
    snprintf(root, sizeof root, "%s", folder);
    counted = kinds, action = what, at = when, with = error, number = 0;
    diary = syscall(SYS_openat, AT_FDCWD, log, O_WRONLY | O_CREAT | O_TRUNC | O_APPEND | O_CLOEXEC, 0600);
    armed = 1;
}

static int below(const char *path)
{
    size_t length = strlen(root);
    return !strncmp(path, root, length) && (path[length] == '/' || !path[length]);
}

static void name_of(int file, char *path)
{
    char link[64];
    snprintf(link, sizeof link, "/proc/self/fd/%d", file);
    ssize_t length = syscall(SYS_readlinkat, AT_FDCWD, link, path, PATH_MAX - 1);
    path[length < 0 ? 0 : length] = 0;
}

static void resolve(int folder, const char *name, char *path)
{
    char base[PATH_MAX];
    if (!name || name[0] == '/') {
        snprintf(path, PATH_MAX, "%s", name ? name : "");
        return;
    }
    if (folder == AT_FDCWD) {
        if (!getcwd(base, sizeof base))
            base[0] = 0;
    } else
        name_of(folder, base);
    if (snprintf(path, PATH_MAX, "%s/%s", base, name) >= PATH_MAX)
        path[0] = 0;
}

static unsigned long inode_at(const char *path)
{
    struct stat found;
    return lstat(path, &found) ? 0 : found.st_ino;
}

static unsigned long inode_of(int file)
{
    struct stat found;
    return fstat(file, &found) ? 0 : found.st_ino;
}

/* Whether the operation is below the folder; then the lock is held until `done`, and *error says whether it must fail. */
static int begin(Operation *own, const char *name, int kind, int *error)
{
    *error = 0;
    if (!below(own->path) && !below(own->to))
        return 0;
    pthread_mutex_lock(&lock);
    own->name = name, own->kind = kind, own->halfway = 0;
    own->number = kind & counted ? ++number : 0;
    if (!own->number || own->number < at || (own->number > at && action != FAIL_FROM_HERE) || action == WATCH)
        return 1;
    if (action == KILL || (action == KILL_HALFWAY && kind != WRITE))
        kill(getpid(), SIGKILL);
    if (action == KILL_HALFWAY)
        own->halfway = 1;
    else
        *error = with;
    return 1;
}

static void done(Operation *own, long result, long place, const void *data, int error)
{
    char head[2 * PATH_MAX + 256];
    size_t length = data && result > 0 ? (size_t)result : 0;
    if (own->halfway)
        kill(getpid(), SIGKILL);
    int used = snprintf(head, sizeof head, "%ld\t%s\t%d\t%lu\t%ld\t%d\t%ld\t%zu\t%s\t%s\n", own->number, own->name, own->kind,
                        own->inode, result, error, place, length, own->path, own->to);
    struct iovec parts[2] = {{head, used}, {(void *)data, length}};
    syscall(SYS_writev, diary, parts, length ? 2 : 1);
    pthread_mutex_unlock(&lock);
}

#define REAL(name) \
    static __typeof__(&name) real; \
    if (!real) \
        real = (__typeof__(&name))dlsym(RTLD_NEXT, #name)

/* An operation on names: what is called, on which paths, and what it gives back. */
#define ON_NAMES(own, what, kind, call) \
    int error; \
    if (!begin(&own, what, kind, &error)) \
        return call; \
    own.inode = inode_at(own.path); \
    int result = error ? -1 : call; \
    error = error ? error : result ? errno : 0; \
    if (!result && !own.inode) \
        own.inode = inode_at(own.to[0] ? own.to : own.path); \
    done(&own, result, 0, NULL, error); \
    errno = error ? error : errno; \
    return result

#define PATHS(own, from_folder, from, to_folder, target) \
    Operation own = {0}; \
    resolve(from_folder, from, own.path); \
    if (target) \
        resolve(to_folder, target, own.to)

/* An operation on an open file. `place` is where it begins in the file. */
#define ON_FILE(own, file, what, kind, place, data, call, half) \
    Operation own = {0}; \
    int error; \
    name_of(file, own.path); \
    if (!begin(&own, what, kind, &error)) \
        return call; \
    own.inode = inode_of(file); \
    long where = place; \
    ssize_t result = error ? -1 : own.halfway ? half : call; \
    error = error ? error : result < 0 ? errno : 0; \
    done(&own, result, where, data, error); \
    errno = error ? error : errno; \
    return result

static long position(int file)
{
    struct stat found;
    if (fcntl(file, F_GETFL) & O_APPEND)
        return fstat(file, &found) ? 0 : found.st_size;
    return lseek(file, 0, SEEK_CUR);
}

static int open_file(int folder, const char *path, int flags, mode_t mode)
{
    Operation own = {0};
    int error, written = flags & (O_WRONLY | O_RDWR | O_CREAT | O_TRUNC);
    resolve(folder, path, own.path);
    if (!begin(&own, written ? "create" : "open", written ? CREATE : OPEN, &error))
        return syscall(SYS_openat, folder, path, flags, mode);
    int fresh = !inode_at(own.path);
    int result = error ? -1 : (int)syscall(SYS_openat, folder, path, flags, mode);
    error = error ? error : result < 0 ? errno : 0;
    own.inode = result < 0 ? 0 : inode_of(result);
    done(&own, result, fresh | (flags & O_TRUNC ? 2 : 0), NULL, error);
    errno = error ? error : errno;
    return result;
}

#define OPENING(name, before, folder) \
    int name(before const char *path, int flags, ...) \
    { \
        va_list rest; \
        va_start(rest, flags); \
        mode_t mode = flags & (O_CREAT | O_TMPFILE) ? va_arg(rest, mode_t) : 0; \
        va_end(rest); \
        if (!armed) \
            return syscall(SYS_openat, folder, path, flags, mode); \
        return open_file(folder, path, flags, mode); \
    }
#define AT int directory,
#define NONE
OPENING(open, NONE, AT_FDCWD)
OPENING(open64, NONE, AT_FDCWD)
OPENING(openat, AT, directory)
OPENING(openat64, AT, directory)

#define PLAIN(call) \
    if (!armed) \
        return call

ssize_t write(int file, const void *data, size_t size)
{
    REAL(write);
    PLAIN(real(file, data, size));
    ON_FILE(own, file, "write", WRITE, position(file), data, real(file, data, size), real(file, data, size / 2));
}

ssize_t writev(int file, const struct iovec *parts, int count)
{
    REAL(writev);
    PLAIN(real(file, parts, count));
    size_t size = 0, used = 0;
    for (int each = 0; each < count; each++)
        size += parts[each].iov_len;
    char *all = malloc(size + 1);
    for (int each = 0; each < count; used += parts[each++].iov_len)
        memcpy(all + used, parts[each].iov_base, parts[each].iov_len);
    ssize_t result = write(file, all, size); /* so that its data is one piece */
    free(all);
    return result;
}

#define PWRITE(name) \
    ssize_t name(int file, const void *data, size_t size, off_t place) \
    { \
        REAL(name); \
        PLAIN(real(file, data, size, place)); \
        ON_FILE(own, file, "write", WRITE, place, data, real(file, data, size, place), \
                real(file, data, size / 2, place)); \
    }
PWRITE(pwrite)
PWRITE(pwrite64)

#define FTRUNCATE(name) \
    int name(int file, off_t size) \
    { \
        REAL(name); \
        PLAIN(real(file, size)); \
        ON_FILE(own, file, "truncate", WRITE, size, NULL, real(file, size), real(file, size)); \
    }
FTRUNCATE(ftruncate)
FTRUNCATE(ftruncate64)

int truncate64(const char *path, off_t size)
{
    int file = open(path, O_WRONLY), result = file < 0 ? -1 : ftruncate64(file, size), error = errno;
    if (file >= 0)
        close(file);
    errno = error;
    return result;
}

int truncate(const char *path, off_t size) { return truncate64(path, size); }

#define SYNCING(name) \
    int name(int file) \
    { \
        REAL(name); \
        PLAIN(real(file)); \
        ON_FILE(own, file, "sync", SYNC, 0, NULL, real(file), real(file)); \
    }
SYNCING(fsync)
SYNCING(fdatasync)

#define READING(name, parameters, arguments) \
    ssize_t name parameters \
    { \
        REAL(name); \
        PLAIN(real arguments); \
        ON_FILE(own, file, "read", READ, 0, NULL, real arguments, real arguments); \
    }
READING(read, (int file, void *data, size_t size), (file, data, size))
READING(pread64, (int file, void *data, size_t size, off_t place), (file, data, size, place))

/* What weft does not use: the log names it, and the simulation of a lost disk refuses to go on. */
#define UNMODELLED(kind, name, parameters, arguments) \
    kind name parameters \
    { \
        REAL(name); \
        PLAIN(real arguments); \
        ON_FILE(own, file, #name, WRITE, 0, NULL, real arguments, real arguments); \
    }
UNMODELLED(ssize_t, copy_file_range, (int in, off_t *a, int file, off_t *b, size_t size, unsigned c), (in, a, file, b, size, c))
UNMODELLED(ssize_t, sendfile64, (int file, int in, off_t *a, size_t size), (file, in, a, size))
UNMODELLED(int, posix_fallocate64, (int file, off_t a, off_t size), (file, a, size))

void *mmap64(void *address, size_t size, int access, int flags, int file, off_t place)
{
    REAL(mmap64);
    Operation own = {0};
    int error;
    if (armed && file >= 0 && access & PROT_WRITE && flags & MAP_SHARED) {
        name_of(file, own.path);
        if (begin(&own, "mmap", WRITE, &error))
            done(&own, 0, 0, NULL, 0);
    }
    return real(address, size, access, flags, file, place);
}

void *mmap(void *address, size_t size, int access, int flags, int file, off_t place)
{
    return mmap64(address, size, access, flags, file, place);
}

#define NAMING(what, kind, name, parameters, arguments, from_folder, from, to_folder, target) \
    int name parameters \
    { \
        REAL(name); \
        PLAIN(real arguments); \
        PATHS(own, from_folder, from, to_folder, target); \
        ON_NAMES(own, what, kind, real arguments); \
    }
#define NO (const char *)NULL
NAMING("rename", NAME, rename, (const char *a, const char *b), (a, b), AT_FDCWD, a, AT_FDCWD, b)
NAMING("rename", NAME, renameat, (int f, const char *a, int g, const char *b), (f, a, g, b), f, a, g, b)
NAMING("rename", NAME, renameat2, (int f, const char *a, int g, const char *b, unsigned c), (f, a, g, b, c), f, a, g, b)
NAMING("link", NAME, link, (const char *a, const char *b), (a, b), AT_FDCWD, a, AT_FDCWD, b)
NAMING("link", NAME, linkat, (int f, const char *a, int g, const char *b, int c), (f, a, g, b, c), f, a, g, b)
NAMING("symlink", NAME, symlink, (const char *a, const char *b), (a, b), AT_FDCWD, b, AT_FDCWD, NO)
NAMING("mkdir", NAME, mkdir, (const char *a, mode_t m), (a, m), AT_FDCWD, a, AT_FDCWD, NO)
NAMING("mkdir", NAME, mkdirat, (int f, const char *a, mode_t m), (f, a, m), f, a, AT_FDCWD, NO)
NAMING("remove", REMOVE, unlink, (const char *a), (a), AT_FDCWD, a, AT_FDCWD, NO)
NAMING("remove", REMOVE, unlinkat, (int f, const char *a, int c), (f, a, c), f, a, AT_FDCWD, NO)
NAMING("remove", REMOVE, rmdir, (const char *a), (a), AT_FDCWD, a, AT_FDCWD, NO)
