// SPDX-License-Identifier: Apache-2.0
// common/base/history.c -- the writer of a process's history: one JSON line per
// event; empty in a release.
#include "common/base/history.h"

#ifdef SLUICE_HISTORY

#include <dirent.h>
#include <fcntl.h>
#include <pthread.h>
#include <stdarg.h>
#include <stdio.h>
#include <stdlib.h>
#include <string.h>
#include <unistd.h>

#include "common/base/clock.h"
#include "common/base/pairs.h"

static struct {
    pthread_mutex_t lock; // the order of seq is that of the file
    unsigned long long seq;
    int fd;
    int bytes_fd;        // of payloads; -1: they are not kept
    long long bytes_end; // of their file
    char role[64], node[64];
} shared = {.lock = PTHREAD_MUTEX_INITIALIZER, .fd = -1, .bytes_fd = -1};

static void history_exit(const char *what)
{
    fprintf(stderr, "SLUICE_HISTORY: cannot write %s\n", what);
    _exit(2);
}

// Opens "<folder>/<role>-<pid>.<kind>".
static int history_open_file(const char *folder, const char *kind)
{
    char path[4096];
    int fd;

    snprintf(path, sizeof(path), "%s/%s-%d.%s", folder, shared.role,
             (int)getpid(), kind);
    fd = open(path, O_WRONLY | O_CREAT | O_APPEND | O_CLOEXEC, 0644);
    if (fd < 0)
        history_exit(path);
    return fd;
}

void history_open(const char *role, const char *node)
{
    const char *folder = getenv("SLUICE_HISTORY");
    const char *payloads = getenv("SLUICE_HISTORY_PAYLOADS");

    if (folder == NULL || *folder == '\0')
        return;
    snprintf(shared.role, sizeof(shared.role), "%s", role);
    snprintf(shared.node, sizeof(shared.node), "%s", node);
    shared.fd = history_open_file(folder, "jsonl");
    if (payloads == NULL || strcmp(payloads, "1") != 0)
        return;
    shared.bytes_fd = history_open_file(folder, "payloads");
    // An earlier process of this number may have written to it.
    shared.bytes_end = (long long)lseek(shared.bytes_fd, 0, SEEK_END);
    if (shared.bytes_end < 0)
        history_exit("payloads: their file has no end");
}

// Writes one piece to the side file, whole.
static void history_write_piece_locked(const uint8_t *bytes, size_t n)
{
    while (n > 0) {
        ssize_t done = write(shared.bytes_fd, bytes, n);

        if (done <= 0)
            history_exit("a payload");
        bytes += done;
        n -= (size_t)done;
    }
}

long long history_bytes(const struct sl_slices *bytes)
{
    struct slices_cursor at;
    const uint8_t *piece;
    long long begin;
    size_t n;

    if (bytes == NULL || shared.bytes_fd < 0)
        return -1;
    if (bytes->bytes > HISTORY_BYTES_MAX)
        history_exit("a payload of this size: unset SLUICE_HISTORY_PAYLOADS");
    pthread_mutex_lock(&shared.lock);
    begin = shared.bytes_end;
    slices_cursor_init(&at, bytes);
    while ((piece = slices_next(&at, bytes->bytes, &n)) != NULL)
        history_write_piece_locked(piece, n);
    shared.bytes_end += (long long)bytes->bytes;
    pthread_mutex_unlock(&shared.lock);
    return begin;
}

// What one line of /proc/self/status says, or 0.
static unsigned long long status_number(const char *key)
{
    FILE *f = fopen("/proc/self/status", "re");
    unsigned long long n = 0;
    char line[256];

    while (f != NULL && fgets(line, sizeof(line), f) != NULL)
        if (strncmp(line, key, strlen(key)) == 0)
            n = strtoull(line + strlen(key), NULL, 10);
    if (f != NULL)
        fclose(f);
    return n;
}

void history_resources(void *unused)
{
    DIR *d = history_on() ? opendir("/proc/self/fd") : NULL;
    unsigned fds = 0;

    if (d == NULL)
        return;
    while (readdir(d) != NULL)
        fds++;
    closedir(d);
    history_event("resources", " fds=%u threads=%llu resident_kib=%llu", fds,
                  status_number("Threads:"), status_number("VmRSS:"));
}

bool history_on(void)
{
    return shared.fd >= 0;
}

static void history_line_begin_locked(struct pairs *l, const char *event)
{
    char text[200];

    snprintf(text, sizeof(text), "{\"us\":%llu,\"wall\":%llu,\"seq\":%llu",
             (unsigned long long)sl_real_us(),
             (unsigned long long)sl_wall_us(sl_clock_real()), ++shared.seq);
    pairs_str(l, text);
    pairs_str(l, ",\"role\":");
    pairs_quoted(l, shared.role);
    pairs_str(l, ",\"node\":");
    pairs_quoted(l, shared.node);
    snprintf(text, sizeof(text), ",\"pid\":%d,\"event\":", (int)getpid());
    pairs_str(l, text);
    pairs_quoted(l, event);
}

void history_event(const char *event, const char *fmt, ...)
{
    struct pairs l;
    struct pairs_args a;

    l.len = 0;
    l.json = true;
    pthread_mutex_lock(&shared.lock);
    history_line_begin_locked(&l, event);
    va_start(a.ap, fmt);
    pairs_add(&l, fmt, &a);
    va_end(a.ap);
    pairs_end(&l);
    if (write(shared.fd, l.text, l.len) != (ssize_t)l.len)
        history_exit(event);
    pthread_mutex_unlock(&shared.lock);
}

#endif
