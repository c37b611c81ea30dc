// SPDX-License-Identifier: Apache-2.0
// worker/data/data_lines.c -- one scan at the start finds where each line
// begins; a line is then read by itself.
#include "worker/data/data_lines.h"

#include <string.h>

#include "common/base/fs.h"
#include "common/base/mem.h"

#define LINES_MAX ((size_t)1 << 29) // 4 GiB of offsets
#define CHUNK ((size_t)1 << 18)

enum sl_err lines_fail(const struct text_lines *l, uint64_t line,
                       struct sl_error *err, enum sl_err code, const char *what)
{
    return sl_fail(err, code, "%s: line %llu: %s", l->path,
                   (unsigned long long)line + 1, what);
}

static enum sl_err lines_add(struct text_lines *l, uint64_t offset)
{
    if (l->count + 2 > l->capacity) {
        size_t capacity = l->capacity == 0 ? 1024 : l->capacity * 2;
        uint64_t *more = sl_realloc_array(l->start, capacity, sizeof(*more));

        if (more == NULL)
            return SL_ENOMEM;
        l->start = more;
        l->capacity = capacity;
    }
    l->start[l->count++] = offset;
    return SL_OK;
}

// Finds the lines of one chunk that begins at `base`. *begin: where the
// current line began.
static enum sl_err lines_scan_chunk(struct text_lines *l, const char *chunk,
                                    size_t n, uint64_t base, uint64_t *begin,
                                    struct sl_error *err)
{
    const char *p = chunk, *end = chunk + n;

    while ((p = memchr(p, '\n', (size_t)(end - p))) != NULL) {
        uint64_t next = base + (uint64_t)(++p - chunk);

        if (next - *begin > LINE_BYTES)
            break;
        if (l->count == LINES_MAX)
            return lines_fail(
                l, l->count, err, SL_ERANGE,
                "the file has more than 536870912 lines; save it as npy");
        if (lines_add(l, *begin) != SL_OK)
            return sl_fail(err, SL_ENOMEM, "no memory for the lines of %s",
                           l->path);
        *begin = next;
    }
    // Checks the last line of the chunk, too: a file without line breaks is not
    // read on.
    return base + n - *begin > LINE_BYTES
               ? lines_fail(l, l->count, err, SL_ERANGE, "is longer than 1 MiB")
               : SL_OK;
}

// Passes over the mark of UTF-8 and refuses the two of UTF-16.
static enum sl_err lines_check_mark(const struct text_lines *l,
                                    const char *chunk, size_t n,
                                    uint64_t *begin, struct sl_error *err)
{
    if (n >= 3 && memcmp(chunk, "\xef\xbb\xbf", 3) == 0)
        *begin = 3;
    if (n >= 2 && (memcmp(chunk, "\xff\xfe", 2) == 0 ||
                   memcmp(chunk, "\xfe\xff", 2) == 0))
        return lines_fail(
            l, 0, err, SL_ENOTSUP,
            "the file is UTF-16; save it as UTF-8 (iconv -f UTF-16 -t "
            "UTF-8)");
    return SL_OK;
}

static enum sl_err lines_scan(struct text_lines *l, struct pulse *pulse,
                              struct sl_error *err)
{
    char *chunk = sl_malloc(CHUNK);
    uint64_t base = 0, begin = 0;
    size_t got = CHUNK;
    enum sl_err rc = chunk == NULL ? sl_no_memory(err) : SL_OK;

    while (rc == SL_OK && got == CHUNK) {
        rc = fs_pread(l->file, base, chunk, CHUNK, &got, err);
        if (rc == SL_OK && base == 0)
            rc = lines_check_mark(l, chunk, got, &begin, err);
        if (rc == SL_OK)
            rc = lines_scan_chunk(l, chunk, got, base, &begin, err);
        base += got;
        if (rc == SL_OK)
            rc = pulse_piece(pulse, err);
    }
    sl_free(chunk);
    if (rc != SL_OK)
        return rc;
    if (base > begin) // the last line has no line break
        rc = lines_add(l, begin);
    if (rc == SL_OK) {
        rc = lines_add(l, base); // end of the last line
        l->count--;
    }
    l->bytes = base;
    return rc == SL_OK ? SL_OK : sl_fail(err, rc, "no memory");
}

enum sl_err lines_read(struct text_lines *l, size_t line, size_t *length,
                       struct sl_error *err)
{
    size_t n = (size_t)(l->start[line + 1] - l->start[line]), got = 0;
    enum sl_err rc = fs_pread(l->file, l->start[line], l->text, n, &got, err);

    if (rc != SL_OK)
        return rc;
    if (got < n)
        return lines_fail(
            l, line, err, SL_ECORRUPT,
            "is cut short; the file has changed since it was opened");
    if (n > 0 && l->text[n - 1] == '\n')
        n--;
    if (n > 0 && l->text[n - 1] == '\r')
        n--;
    l->text[n] = '\0';
    *length = n;
    return SL_OK;
}

// Drops empty lines at the end, as editors leave them.
static enum sl_err lines_drop_empty(struct text_lines *l, struct sl_error *err)
{
    size_t length = 0;
    enum sl_err rc = SL_OK;

    while (l->count > 0 &&
           l->start[l->count] - l->start[l->count - 1] <= sizeof("\r\n") - 1) {
        rc = lines_read(l, l->count - 1, &length, err);
        if (rc != SL_OK || length > 0)
            break;
        l->count--;
    }
    return rc;
}

enum sl_err lines_open(struct text_lines *l, const struct data_source *s,
                       struct sl_error *err)
{
    enum sl_err rc;

    l->path = sl_strdup(s->x);
    l->text = sl_malloc(LINE_BYTES + 1);
    if (l->path == NULL || l->text == NULL)
        return sl_no_memory(err);
    rc = roots_file(s->roots, &l->file, s->x, err);
    if (rc == SL_OK)
        rc = lines_scan(l, s->pulse, err);
    return rc == SL_OK ? lines_drop_empty(l, err) : rc;
}

void lines_release(struct text_lines *l)
{
    fs_close(l->file);
    sl_free(l->path);
    sl_free(l->start);
    sl_free(l->text);
}

enum sl_err lines_put_label(const struct text_lines *l, size_t line,
                            const struct data *d, double value, void *y,
                            struct sl_error *err)
{
    enum sl_err rc = data_put_number(d, value, y, err);

    return rc == SL_OK ? rc
                       : sl_prefix(err, rc, "%s: line %zu", l->path, line + 1);
}

void lines_hash(const struct text_lines *l, struct data *d)
{
    data_hash_name(d, l->path);
    data_hash_number(d, l->bytes);
    data_hash_version(d, fs_version(l->file));
}

uint64_t lines_memory(const struct text_lines *l)
{
    return l->capacity * sizeof(*l->start);
}
