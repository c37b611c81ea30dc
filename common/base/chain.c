// SPDX-License-Identifier: Apache-2.0
// common/base/chain.c -- the writer of such files, which begins where the last
// line ends, and their reader.
#include "common/base/chain.h"

#include <inttypes.h>
#include <stdio.h>
#include <string.h>

#include "common/base/buf.h"
#include "common/base/mem.h"

#define TAIL ",\"hash\":\"" // then the hash, then `"}`
#define TAIL_BYTES (sizeof(TAIL) - 1 + SHA256_HEX - 1 + 2)
#define FILE_MAX ((size_t)1 << 30)
#define READ_BYTES ((size_t)256 << 10)

struct chain {
    struct fs_file *file;
    struct chain_end end;
    uint64_t bytes;
};

void chain_begin(struct chain_end *end)
{
    end->lines = 0;
    memset(end->hash, '0', SHA256_HEX - 1);
    end->hash[SHA256_HEX - 1] = '\0';
}

static enum sl_err chain_hash_text(char out[SHA256_HEX], const char *text,
                                   size_t n)
{
    uint8_t digest[SHA256_BYTES];
    enum sl_err rc = sha256_bytes(digest, text, n);

    if (rc == SL_OK)
        hex_encode(out, digest, sizeof(digest));
    return rc;
}

// The number and the hashes of a line of n bytes, without its newline; false if
// it is none, or its own hash is another.
static bool chain_parse_line(const char *line, size_t n, uint64_t *number,
                             char prev[SHA256_HEX], char own[SHA256_HEX])
{
    char head[SHA256_HEX + 40];
    char want[SHA256_HEX];
    int at = 0;

    if (n <= TAIL_BYTES || n > CHAIN_LINE_BYTES ||
        strncmp(line + n - TAIL_BYTES, TAIL, sizeof(TAIL) - 1) != 0 ||
        memcmp(line + n - 2, "\"}", 2) != 0)
        return false;
    snprintf(head, sizeof(head), "%.*s",
             (int)(n < sizeof(head) ? n : sizeof(head) - 1), line);
    if (sscanf(head, "{\"n\":%" SCNu64 ",\"prev\":\"%64[0-9a-f]\"%n", number,
               prev, &at) != 2 ||
        at == 0)
        return false;
    memcpy(own, line + n - 2 - (SHA256_HEX - 1), SHA256_HEX - 1);
    own[SHA256_HEX - 1] = '\0';
    return chain_hash_text(want, line, n - TAIL_BYTES) == SL_OK &&
           strcmp(want, own) == 0;
}

// ---- reading

// One pass over a file.
struct chain_pass {
    const char *path;
    struct chain_end end;
    uint64_t lines; // of this file, that hold
    bool first;     // only the first line is wanted
};

// Why a whole line does not follow the one before.
static enum sl_err chain_explain_break(const struct chain_pass *p,
                                       uint64_t number, struct sl_error *err)
{
    if (p->lines > 0 || number <= p->end.lines + 1)
        return sl_fail(err, SL_ECORRUPT,
                       "%s: line %" PRIu64
                       " does not follow the one before: lines were taken out, "
                       "put in or moved%s",
                       p->path, p->lines + 1,
                       p->lines == 0 && number == 1 && p->end.lines > 0
                           ? ", or a new log was begun with it"
                           : "");
    if (number == p->end.lines + 2)
        return sl_fail(err, SL_ECORRUPT,
                       "%s begins with number %" PRIu64
                       ": the line before it is missing",
                       p->path, number);
    return sl_fail(err, SL_ECORRUPT,
                   "%s begins with number %" PRIu64 ": the lines %" PRIu64
                   " to %" PRIu64 " before it are missing",
                   p->path, number, p->end.lines + 1, number - 1);
}

static enum sl_err chain_follow_line(struct chain_pass *p, const char *line,
                                     size_t n, struct sl_error *err)
{
    char prev[SHA256_HEX], own[SHA256_HEX];
    uint64_t number;

    if (!chain_parse_line(line, n, &number, prev, own) || number == 0)
        return sl_fail(err, SL_ECORRUPT,
                       "%s: line %" PRIu64
                       " was changed, or is no line of an audit log",
                       p->path, p->lines + 1);
    if (p->first) {
        p->end.lines = number - 1;
        memcpy(p->end.hash, prev, sizeof(prev));
        return SL_OK;
    }
    if (strcmp(prev, p->end.hash) != 0 || number != p->end.lines + 1)
        return chain_explain_break(p, number, err);
    p->end.lines = number;
    p->lines++;
    memcpy(p->end.hash, own, sizeof(own));
    return SL_OK;
}

// The whole lines of n bytes; *used of them.
static enum sl_err follow_all(struct chain_pass *p, const char *text, size_t n,
                              size_t *used, struct sl_error *err)
{
    enum sl_err rc = SL_OK;
    const char *stop;

    *used = 0;
    while (rc == SL_OK && !(p->first && *used > 0) &&
           (stop = memchr(text + *used, '\n', n - *used)) != NULL) {
        rc = chain_follow_line(p, text + *used, (size_t)(stop - text) - *used,
                               err);
        *used = (size_t)(stop - text) + 1;
    }
    return rc;
}

static enum sl_err chain_follow_blocks(struct chain_pass *p, struct fs_file *f,
                                       char *space, struct sl_error *err)
{
    uint64_t at = 0;
    size_t got = 0, used = 0;
    enum sl_err rc;

    do {
        rc = fs_pread(f, at, space, READ_BYTES, &got, err);
        if (rc == SL_OK)
            rc = follow_all(p, space, got, &used, err);
        if (rc != SL_OK || (p->first && used > 0))
            return rc;
        at += used;
    } while (used > 0);
    return got == 0 ? SL_OK
                    : sl_fail(err, SL_ECORRUPT, "%s: line %" PRIu64 " %s",
                              p->path, p->lines + 1,
                              got < READ_BYTES ? "is cut short"
                                               : "is no line of an audit log");
}

static enum sl_err chain_follow_file(struct chain_pass *p, struct fs *fs,
                                     struct sl_error *err)
{
    char *space = sl_malloc(READ_BYTES);
    struct fs_file *f = NULL;
    enum sl_err rc = space == NULL ? sl_no_memory(err)
                                   : fs_open(fs, &f, p->path, FS_READ, err);

    if (rc == SL_OK)
        rc = chain_follow_blocks(p, f, space, err);
    fs_close(f);
    sl_free(space);
    return rc;
}

enum sl_err chain_verify(struct fs *fs, const char *path, struct chain_end *end,
                         struct sl_error *err)
{
    struct chain_pass p = {.path = path, .end = *end};
    enum sl_err rc = chain_follow_file(&p, fs, err);

    if (rc == SL_OK)
        *end = p.end;
    return rc;
}

enum sl_err chain_first(struct fs *fs, const char *path,
                        struct chain_end *before, struct sl_error *err)
{
    struct chain_pass p = {.path = path, .first = true};
    enum sl_err rc;

    chain_begin(&p.end);
    rc = chain_follow_file(&p, fs, err);
    if (rc == SL_OK)
        *before = p.end;
    return rc;
}

// ---- writing

// The file's last bytes; *at is where they begin.
static enum sl_err read_tail(struct fs *fs, const char *path, char *space,
                             size_t size, size_t *got, uint64_t *bytes,
                             struct sl_error *err)
{
    struct fs_file *f = NULL;
    enum sl_err rc = fs_open(fs, &f, path, FS_READ, err);

    if (rc == SL_OK)
        rc = fs_size(f, bytes, err);
    if (rc == SL_OK)
        rc = fs_pread(f, *bytes > size ? *bytes - size : 0, space, size, got,
                      err);
    fs_close(f);
    return rc;
}

static enum sl_err cut_off(struct fs *fs, const char *path, size_t bytes,
                           struct sl_error *err)
{
    struct buf text = BUF_INIT;
    enum sl_err rc = fs_read_all(fs, path, FILE_MAX, &text, err);

    if (rc == SL_OK)
        rc = fs_write_durable(fs, path, text.data, text.len - bytes, err);
    buf_release(&text);
    return rc;
}

static const char *line_before(const char *begins, const char *end)
{
    while (end > begins && end[-1] != '\n')
        end--;
    return end;
}

enum sl_err chain_find_end(struct chain_end *end, struct fs *fs,
                           const char *path, struct sl_error *err)
{
    char space[2 * CHAIN_LINE_BYTES + 2], prev[SHA256_HEX];
    const char *last, *line;
    struct sl_error why = SL_ERROR_INIT;
    uint64_t bytes = 0;
    size_t got = 0;
    // Only SL_ENOENT means no lines: after a disk's error a new chain would be
    // begun behind an old one.
    enum sl_err rc =
        read_tail(fs, path, space, sizeof(space), &got, &bytes, &why);

    if (rc == SL_ENOENT)
        return SL_OK;
    if (rc != SL_OK)
        return sl_fail(err, rc, "%s", why.text);
    last = line_before(space, space + got);
    if (last == space && got == sizeof(space))
        return sl_fail(err, SL_ECORRUPT, "%s holds no lines", path);
    if (last != space + got)
        rc = cut_off(fs, path, (size_t)(space + got - last), err);
    if (rc != SL_OK || last == space)
        return rc;
    line = line_before(space, last - 1);
    if (!chain_parse_line(line, (size_t)(last - 1 - line), &end->lines, prev,
                          end->hash))
        return sl_fail(err, SL_ECORRUPT, "%s: its last line was changed", path);
    return SL_OK;
}

enum sl_err chain_open(struct chain **out, struct fs *fs, const char *path,
                       const struct chain_end *before, struct sl_error *err)
{
    struct chain *c = sl_calloc(1, sizeof(*c));
    enum sl_err rc;

    if (c == NULL)
        return sl_no_memory(err);
    chain_begin(&c->end);
    if (before != NULL)
        c->end = *before;
    rc = chain_find_end(&c->end, fs, path, err);
    if (rc == SL_OK)
        rc = fs_open(fs, &c->file, path, FS_APPEND, err);
    if (rc == SL_OK)
        rc = fs_size(c->file, &c->bytes, err);
    if (rc != SL_OK) {
        fs_close(c->file);
        sl_free(c);
        return rc;
    }
    *out = c;
    return SL_OK;
}

void chain_free(struct chain *c)
{
    if (c == NULL)
        return;
    fs_close(c->file);
    sl_free(c);
}

uint64_t chain_bytes(const struct chain *c)
{
    return c->bytes;
}

enum sl_err chain_add(struct chain *c, const char *body, struct sl_error *err)
{
    char hash[SHA256_HEX];
    struct buf line = BUF_INIT;
    enum sl_err rc = buf_appendf(&line, "{\"n\":%" PRIu64 ",\"prev\":\"%s\",%s",
                                 c->end.lines + 1, c->end.hash, body);

    if (rc == SL_OK && line.len + TAIL_BYTES > CHAIN_LINE_BYTES)
        rc = sl_fail(err, SL_ERANGE, "a line of %zu bytes", line.len);
    if (rc == SL_OK)
        rc = chain_hash_text(hash, buf_text(&line), line.len);
    if (rc == SL_OK)
        rc = buf_appendf(&line, TAIL "%s\"}\n", hash);
    if (rc == SL_OK)
        rc = fs_write(c->file, line.data, line.len, err);
    if (rc == SL_OK) {
        c->end.lines++;
        c->bytes += line.len;
        memcpy(c->end.hash, hash, sizeof(hash));
    }
    buf_release(&line);
    return rc;
}

enum sl_err chain_sync(struct chain *c, struct sl_error *err)
{
    return fs_sync(c->file, err);
}
