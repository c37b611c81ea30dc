// SPDX-License-Identifier: Apache-2.0
// worker/data/data_tar.c -- see data_tar.h.
#include "worker/data/data_tar.h"

#include <string.h>

#define PAX_BYTES ((uint64_t)32 << 10)
#define SIZE_MOST ((uint64_t)1 << 46)

// Fields of a header.
enum { NAME = 0, SIZE = 124, SUM = 148, TYPE = 156, MAGIC = 257, PREFIX = 345 };

static enum sl_err tar_broken(uint64_t at, const char *what,
                              struct sl_error *err)
{
    return sl_fail(err, SL_ECORRUPT, "byte %llu: %s", (unsigned long long)at,
                   what);
}

// ---- headers

// Reads octal digits with blanks around them, or, after a first byte of 0x80,
// a big-endian number.
static bool tar_number(const uint8_t *p, size_t n, uint64_t *out)
{
    uint64_t value = 0;
    size_t i = 0;

    if (p[0] == 0x80) {
        for (i = 1; i < n; i++) {
            if (value >> 56 != 0)
                return false;
            value = value << 8 | p[i];
        }
        *out = value;
        return true;
    }
    while (i < n && p[i] == ' ')
        i++;
    for (; i < n && p[i] >= '0' && p[i] <= '7'; i++) {
        if (value >> 61 != 0)
            return false;
        value = value << 3 | (uint64_t)(p[i] - '0');
    }
    *out = value;
    return i == n || p[i] == ' ' || p[i] == '\0';
}

// Compares the checksum of a header: the sum of its bytes, with blanks for
// itself; old programs summed them as signed.
static bool tar_sum_fits(const uint8_t *p)
{
    uint64_t said;
    int64_t sum = 0, with_signs = 0;

    for (size_t i = 0; i < TAR_BLOCK; i++) {
        uint8_t byte = i >= SUM && i < SUM + 8 ? ' ' : p[i];

        sum += byte;
        with_signs += (int8_t)byte;
    }
    return tar_number(p + SUM, 8, &said) &&
           ((int64_t)said == sum || (int64_t)said == with_signs);
}

static bool tar_is_zero(const uint8_t *p)
{
    for (size_t i = 0; i < TAR_BLOCK; i++)
        if (p[i] != 0)
            return false;
    return true;
}

// Sets the member's name: that of a long name or pax, or the header's.
static void tar_take_name(struct tar *t, const uint8_t *p)
{
    size_t prefix = strnlen((const char *)p + PREFIX, 155);
    size_t name = strnlen((const char *)p + NAME, 100), n = 0;

    if (t->next[0] != '\0') {
        memcpy(t->name, t->next, sizeof(t->name));
        return;
    }
    if (memcmp(p + MAGIC, "ustar\0", 6) == 0 && prefix > 0) {
        memcpy(t->name, p + PREFIX, prefix);
        t->name[prefix] = '/';
        n = prefix + 1;
    }
    memcpy(t->name + n, p + NAME, name);
    t->name[n + name] = '\0';
}

// ---- what stands before a member

static enum sl_err tar_set_next(struct tar *t, const uint8_t *name, size_t n,
                                struct sl_error *err)
{
    n = strnlen((const char *)name, n);
    if (n >= TAR_NAME_BYTES)
        return sl_fail(err, SL_ERANGE, "byte %llu: a name of over %d bytes",
                       (unsigned long long)t->at, TAR_NAME_BYTES - 1);
    memcpy(t->next, name, n);
    t->next[n] = '\0';
    return SL_OK;
}

static bool tar_key_is(const uint8_t *key, size_t n, const char *word)
{
    return n == strlen(word) && memcmp(key, word, n) == 0;
}

static enum sl_err tar_pax_value(struct tar *t, const uint8_t *key,
                                 size_t key_bytes, const uint8_t *value,
                                 size_t n, struct sl_error *err)
{
    uint64_t size = 0;

    if (key_bytes >= 10 && memcmp(key, "GNU.sparse", 10) == 0)
        return sl_fail(err, SL_ENOTSUP,
                       "byte %llu: a sparse file; pack it without --sparse",
                       (unsigned long long)t->at);
    if (tar_key_is(key, key_bytes, "path"))
        return tar_set_next(t, value, n, err);
    if (!tar_key_is(key, key_bytes, "size"))
        return SL_OK;
    for (size_t i = 0; i < n; i++) {
        if (value[i] < '0' || value[i] > '9' || size > SIZE_MOST)
            return tar_broken(t->at, "a pax size that is no number", err);
        size = size * 10 + (uint64_t)(value[i] - '0');
    }
    t->size = size;
    t->has_size = true;
    return SL_OK;
}

// Reads "17 path=some/name\n" again and again.
static enum sl_err tar_pax(struct tar *t, const uint8_t *p, size_t n,
                           struct sl_error *err)
{
    enum sl_err rc = SL_OK;

    while (rc == SL_OK && n > 0 && *p != '\0') {
        size_t record = 0, head = 0;
        const uint8_t *equals;

        while (head < n && head < 6 && p[head] >= '0' && p[head] <= '9')
            record = record * 10 + (size_t)(p[head++] - '0');
        if (head == n || p[head] != ' ' || record <= head + 1 || record > n ||
            p[record - 1] != '\n')
            return tar_broken(t->at, "a broken pax header", err);
        head++;
        equals = memchr(p + head, '=', record - head);
        if (equals == NULL)
            return tar_broken(t->at, "a broken pax header", err);
        rc = tar_pax_value(t, p + head, (size_t)(equals - p) - head, equals + 1,
                           (size_t)(p + record - 1 - (equals + 1)), err);
        p += record;
        n -= record;
    }
    return rc;
}

// Reads what a header of type 'x' or 'L' says of the next member.
static enum sl_err tar_read_next(struct tar *t, char type, uint64_t bytes,
                                 struct sl_error *err)
{
    const uint8_t *p = NULL;
    enum sl_err rc;

    if (bytes > PAX_BYTES)
        return sl_fail(err, SL_ERANGE,
                       "byte %llu: a name or pax header of over %llu bytes",
                       (unsigned long long)t->at,
                       (unsigned long long)PAX_BYTES);
    rc = records_scan_bytes(t->scan, t->at + TAR_BLOCK, (size_t)bytes, &p, err);
    if (rc != SL_OK)
        return rc;
    return type == 'x' ? tar_pax(t, p, (size_t)bytes, err)
                       : tar_set_next(t, p, (size_t)bytes, err);
}

// ---- members

static const char *tar_kind(char type)
{
    switch (type) {
    case '1':
    case '2':
        return "a link";
    case '3':
    case '4':
    case '6':
        return "a device or a FIFO";
    case 'S':
        return "a sparse file";
    default:
        return "of a type that is not read";
    }
}

static enum sl_err tar_refuse(const struct tar *t, char type,
                              struct sl_error *err)
{
    return sl_fail(err, SL_ENOTSUP,
                   "byte %llu: the member is %s; pack files alone (tar "
                   "--dereference)",
                   (unsigned long long)t->at, tar_kind(type));
}

// Reads the header `p`, of a member with `bytes` bytes; *found: it is a regular
// file.
static enum sl_err tar_take(struct tar *t, const uint8_t *p, uint64_t bytes,
                            bool *found, struct sl_error *err)
{
    char type = (char)p[TYPE];

    *found = false;
    switch (type) {
    case 'x':
    case 'L':
        return tar_read_next(t, type, bytes, err);
    case 'g':
    case 'K':
        return SL_OK;
    case '0':
    case '7':
    case '\0':
        *found = true;
        break;
    case '5':
        break;
    default:
        return tar_refuse(t, type, err);
    }
    tar_take_name(t, p);
    t->next[0] = '\0';
    t->has_size = false;
    return SL_OK;
}

static bool tar_is_head(char type)
{
    return type == 'x' || type == 'L' || type == 'g' || type == 'K';
}

// Checks a header and computes how many bytes its member has.
static enum sl_err tar_check(const struct tar *t, const uint8_t *p,
                             uint64_t *bytes, struct sl_error *err)
{
    if (t->at == 0 && p[0] == 0x1f && p[1] == 0x8b)
        return sl_fail(err, SL_ENOTSUP,
                       "is compressed as a whole, so no member can be read by "
                       "itself; unpack it with gunzip");
    if (!tar_sum_fits(p) || !tar_number(p + SIZE, 12, bytes))
        return tar_broken(t->at,
                          "no header of a tar is here: its checksum or its "
                          "size is wrong",
                          err);
    if (t->has_size && !tar_is_head((char)p[TYPE]))
        *bytes = t->size;
    if (*bytes > SIZE_MOST || *bytes > t->scan->size - t->at - TAR_BLOCK)
        return tar_broken(t->at, "the member goes on beyond the end", err);
    return SL_OK;
}

enum sl_err tar_next(struct tar *t, struct tar_member *out, bool *more,
                     struct sl_error *err)
{
    const uint8_t *p = NULL;
    uint64_t bytes = 0;
    unsigned zeroes = 0;
    enum sl_err rc = SL_OK;

    *more = false;
    while (rc == SL_OK && !*more && t->at < t->scan->size && zeroes < 2) {
        rc = records_scan_bytes(t->scan, t->at, TAR_BLOCK, &p, err);
        if (rc == SL_OK && tar_is_zero(p)) {
            zeroes++;
            t->at += TAR_BLOCK;
            continue;
        }
        if (rc == SL_OK)
            rc = tar_check(t, p, &bytes, err);
        if (rc == SL_OK)
            rc = tar_take(t, p, bytes, more, err);
        out->offset = t->at + TAR_BLOCK;
        t->at = out->offset + (bytes + TAR_BLOCK - 1) / TAR_BLOCK * TAR_BLOCK;
        zeroes = 0;
    }
    out->bytes = bytes;
    out->name = strncmp(t->name, "./", 2) == 0 ? t->name + 2 : t->name;
    return rc;
}
