// SPDX-License-Identifier: Apache-2.0
// kernels/plans.c -- the text file of plans: read once, searched by key,
// appended to.
#include "kernels/plans.h"

#include <errno.h>
#include <fcntl.h>
#include <inttypes.h>
#include <stdio.h>
#include <string.h>
#include <sys/uio.h>
#include <unistd.h>

#include "common/run/log.h"

#define CUT " (cut)\n" // ends a line that was cut, before the next one

static void plans_log_failure(const struct plans *p, const char *what)
{
    LOG(WARN, "plans and proofs are not saved", "file=%s call=%s error=%s",
        p->path, what, strerror(errno));
}

static void plans_read_file(struct plans *p, int fd)
{
    uint8_t part[16384];
    ssize_t n;

    while ((n = read(fd, part, sizeof(part))) > 0)
        if (p->text.len > PLANS_BYTES_MOST ||
            buf_append(&p->text, part, (size_t)n) != SL_OK)
            return;
    if (n < 0)
        plans_log_failure(p, "read");
}

// Leaves the whole lines in the text.
static void plans_drop_cut(struct buf *text)
{
    const char *line = buf_text(text), *end;
    size_t kept = 0;

    for (; (end = strchr(line, '\n')) != NULL; line = end + 1) {
        size_t n = (size_t)(end + 1 - line);

        if (n >= strlen(CUT) &&
            memcmp(end + 1 - strlen(CUT), CUT, strlen(CUT)) == 0)
            continue;
        memmove(text->data + kept, line, n);
        kept += n;
    }
    text->len = kept;
    if (text->data)
        text->data[kept] = '\0';
}

void plans_open(struct plans *p, char *path)
{
    int fd;

    *p = (struct plans){.path = path};
    buf_init(&p->text);
    if (!path)
        return;
    fd = open(path, O_RDONLY | O_CLOEXEC);
    if (fd < 0) {
        if (errno != ENOENT)
            plans_log_failure(p, "open");
        return;
    }
    plans_read_file(p, fd);
    if (p->text.len <= PLANS_BYTES_MOST)
        plans_drop_cut(&p->text);
    close(fd);
}

void plans_close(struct plans *p)
{
    buf_release(&p->text);
}

static int plans_format_head(char *to, size_t n, const char *kind,
                             uint64_t version, uint64_t key)
{
    return snprintf(to, n, "%s %" PRIu64 " %016" PRIx64 " ", kind, version,
                    key);
}

bool plans_find(struct buf *out, const struct plans *p, const char *kind,
                uint64_t version, uint64_t key)
{
    const char *line = buf_text(&p->text), *found = NULL, *end;
    char want[64];
    size_t n =
        (size_t)plans_format_head(want, sizeof(want), kind, version, key);

    for (; (end = strchr(line, '\n')) != NULL; line = end + 1)
        if (strncmp(line, want, n) == 0)
            found = line + n;
    if (!found)
        return false;
    return buf_append(out, found, (size_t)(strchr(found, '\n') - found)) ==
           SL_OK;
}

// A payload on one line: JSON has no line ends but between its tokens.
static enum sl_err plans_compose_line(struct buf *line, const char *start,
                                      const struct buf *payload)
{
    enum sl_err rc = buf_append_str(line, start);

    if (rc == SL_OK)
        rc = buf_append(line, payload->data, payload->len);
    for (size_t i = 0; rc == SL_OK && i < line->len; i++)
        if (line->data[i] == '\n' || line->data[i] == '\r')
            line->data[i] = ' ';
    return rc == SL_OK ? buf_append_char(line, '\n') : rc;
}

// Returns true if the file ends within a line: its writer was killed, or the
// disk was full.
static bool plans_ends_cut(int fd)
{
    char last = '\n';

    return lseek(fd, -1, SEEK_END) >= 0 && read(fd, &last, 1) == 1 &&
           last != '\n';
}

static void plans_write_line(const struct plans *p, const struct buf *line)
{
    int fd = open(p->path, O_RDWR | O_APPEND | O_CREAT | O_CLOEXEC, 0666);
    bool cut = fd >= 0 && plans_ends_cut(fd);
    struct iovec parts[] = {{CUT, cut ? strlen(CUT) : 0},
                            {line->data, line->len}};
    ssize_t n = fd >= 0 ? writev(fd, parts, 2) : -1;

    if (n >= 0 && (size_t)n < parts[0].iov_len + line->len) {
        errno = ENOSPC;
        n = -1;
    }
    if (n < 0)
        plans_log_failure(p, fd < 0 ? "open" : "write");
    if (fd >= 0)
        close(fd);
}

void plans_add(struct plans *p, const char *kind, uint64_t version,
               uint64_t key, const struct buf *payload)
{
    struct buf line = BUF_INIT;
    char start[64];

    if (!p->path || p->text.len > PLANS_BYTES_MOST)
        return;
    plans_format_head(start, sizeof(start), kind, version, key);
    if (plans_compose_line(&line, start, payload) == SL_OK &&
        buf_append(&p->text, line.data, line.len) == SL_OK)
        plans_write_line(p, &line);
    buf_release(&line);
}
