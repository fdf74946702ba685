/* Fails a call on a folder's files, or kills the process at it: preloaded by cli/tests/faults.rs.
 *
 * Needs: Linux, a C compiler, and a program that is linked dynamically. From the environment:
 *   FAULT_DIR   the folder, as an absolute path without links
 *   FAULT_AT    which call on it is hit, from 1; 0: none
 *   FAULT_HOW   EIO, ENOSPC: the call fails; FULL: a write stops halfway, and all later ones fail, as on a full disk;
 *               KILL: the process ends before the call; TORN: after it, and after half of a write
 *   FAULT_LOG   a file for the names of the calls, one a line
 *
 * Counted are open, flock, read, write, fsync, fdatasync, ftruncate, fchmod, rename, mkdir and unlink. */
#define _GNU_SOURCE
#include <dlfcn.h>
#include <errno.h>
#include <fcntl.h>
#include <signal.h>
#include <stdarg.h>
#include <stdatomic.h>
#include <stdio.h>
#include <stdlib.h>
#include <string.h>
#include <sys/file.h>
#include <sys/stat.h>
#include <unistd.h>

#define REAL(name) ((__typeof__(&name))dlsym(RTLD_NEXT, #name))
#define FILES 4096

static atomic_int calls;
/* The path of each open file of the folder; empty for other files. */
static char paths[FILES][512];

static int inside(const char *path) {
    const char *dir = getenv("FAULT_DIR");
    size_t n = dir ? strlen(dir) : 0;
    return n > 0 && strncmp(path, dir, n) == 0 && (path[n] == 0 || path[n] == '/');
}

static int own(int fd) { return fd >= 0 && fd < FILES && paths[fd][0]; }

static int is(const char *how) {
    const char *chosen = getenv("FAULT_HOW");
    return chosen && strcmp(chosen, how) == 0;
}

static void die(void) { raise(SIGKILL); }

/* Counts a call. -1: it fails, with errno set; 1: the process ends after it; 0: nothing happens to it. */
static int hit(const char *name, const char *path, int writes) {
    int n = atomic_fetch_add(&calls, 1) + 1;
    const char *at = getenv("FAULT_AT"), *log = getenv("FAULT_LOG");
    int fault = at ? atoi(at) : 0;
    if (log) {
        int fd = REAL(open)(log, O_WRONLY | O_CREAT | O_APPEND | O_CLOEXEC, 0666);
        char line[4200];
        int size = snprintf(line, sizeof line, "%s %s\n", name, path);
        if (fd >= 0 && REAL(write)(fd, line, (size_t)size) < 0) abort();
        if (fd >= 0) REAL(close)(fd);
    }
    if (fault == 0 || n < fault) return 0;
    if (is("FULL")) {
        errno = ENOSPC;
        return !writes ? 0 : n == fault ? 2 : -1;
    }
    if (n > fault) return 0;
    if (is("KILL")) die();
    if (is("TORN")) return 1;
    errno = is("EIO") ? EIO : ENOSPC;
    return -1;
}

static int opened(int (*real)(const char *, int, ...), const char *path, int flags, mode_t mode) {
    int at = inside(path) ? hit("open", path, 0) : 0;
    if (at < 0) return -1;
    int fd = real(path, flags, mode);
    if (fd >= 0 && fd < FILES) snprintf(paths[fd], sizeof paths[fd], "%s", inside(path) ? path : "");
    if (at == 1) die();
    return fd;
}

#define OPEN(name)                                          \
    int name(const char *path, int flags, ...) {            \
        va_list rest;                                       \
        va_start(rest, flags);                              \
        mode_t mode = (flags & O_CREAT) ? va_arg(rest, mode_t) : 0; \
        va_end(rest);                                       \
        return opened(REAL(name), path, flags, mode);       \
    }
OPEN(open)
OPEN(open64)

int close(int fd) {
    if (fd >= 0 && fd < FILES) paths[fd][0] = 0;
    return REAL(close)(fd);
}

ssize_t write(int fd, const void *bytes, size_t size) {
    if (!own(fd)) return REAL(write)(fd, bytes, size);
    int at = hit("write", paths[fd], 1);
    if (at < 0) return -1;
    if (at == 0) return REAL(write)(fd, bytes, size);
    ssize_t done = size > 1 ? REAL(write)(fd, bytes, size / 2) : 0;
    if (at == 1) die();
    if (done > 0) return done;
    errno = ENOSPC;
    return -1;
}

#define CALL(name, type, args, pass, counts, path)      \
    type name args {                                    \
        if (!(counts)) return REAL(name) pass;          \
        int at = hit(#name, path, 0);                   \
        if (at < 0) return -1;                          \
        type done = REAL(name) pass;                    \
        if (at == 1) die();                             \
        return done;                                    \
    }
CALL(read, ssize_t, (int fd, void *bytes, size_t size), (fd, bytes, size), own(fd), paths[fd])
CALL(flock, int, (int fd, int how), (fd, how), own(fd), paths[fd])
CALL(fsync, int, (int fd), (fd), own(fd), paths[fd])
CALL(fdatasync, int, (int fd), (fd), own(fd), paths[fd])
CALL(ftruncate, int, (int fd, off_t size), (fd, size), own(fd), paths[fd])
CALL(ftruncate64, int, (int fd, off64_t size), (fd, size), own(fd), paths[fd])
CALL(fchmod, int, (int fd, mode_t mode), (fd, mode), own(fd), paths[fd])
CALL(rename, int, (const char *from, const char *to), (from, to), inside(to), to)
CALL(mkdir, int, (const char *path, mode_t mode), (path, mode), inside(path), path)
CALL(unlink, int, (const char *path), (path), inside(path), path)
