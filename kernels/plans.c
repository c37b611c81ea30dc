// SPDX-License-Identifier: Apache-2.0
// kernels/plans.c -- the text file of plans: read once, searched by key,
// appended to.
#include "kernels/plans.h"

#include <errno.h>
#include <fcntl.h>
#include <inttypes.h>
#include <stdio.h>
#include <string.h>
#include <unistd.h>

#include "common/run/log.h"

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

void plans_add(struct plans *p, const char *kind, uint64_t version,
               uint64_t key, const struct buf *payload)
{
    struct buf line = BUF_INIT;
    char start[64];
    int fd;

    if (!p->path || p->text.len > PLANS_BYTES_MOST)
        return;
    plans_format_head(start, sizeof(start), kind, version, key);
    if (plans_compose_line(&line, start, payload) == SL_OK &&
        buf_append(&p->text, line.data, line.len) == SL_OK) {
        fd = open(p->path, O_WRONLY | O_APPEND | O_CREAT | O_CLOEXEC, 0666);
        if (fd < 0 || write(fd, line.data, line.len) != (ssize_t)line.len)
            plans_log_failure(p, fd < 0 ? "open" : "write");
        if (fd >= 0)
            close(fd);
    }
    buf_release(&line);
}
