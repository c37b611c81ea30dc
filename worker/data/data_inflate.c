// SPDX-License-Identifier: Apache-2.0
// worker/data/data_inflate.c -- the inflation of gzip and deflate streams
// within a ratio.
#include "worker/data/data_inflate.h"

#include <string.h>
#include <zlib.h>

#include "common/base/mem.h"
#include "common/base/num.h"

#define IN_BYTES ((uint64_t)1 << 20)
// zlib counts in unsigned int, so the other side is handed over in pieces.
#define OUT_BYTES ((size_t)64 << 20)

struct inflater {
    z_stream z;
    struct inflate_source from;
    uint64_t taken; // bytes of from.bytes that were read
    uint8_t *in;    // owned
    uint32_t crc;
    bool ended; // the stream has ended; the file may go on
};

enum sl_err inflate_bounds(uint64_t bytes, uint64_t compressed,
                           struct sl_error *err)
{
    if (bytes > ARRAY_INFLATE_BYTES)
        return sl_fail(err, SL_ERANGE,
                       "inflates to more than the limit of %llu bytes; store "
                       "it uncompressed",
                       (unsigned long long)ARRAY_INFLATE_BYTES);
    if (bytes / ARRAY_INFLATE_RATIO > compressed)
        return sl_fail(err, SL_ERANGE,
                       "%llu bytes claim to inflate to over %d times as much; "
                       "store it uncompressed",
                       (unsigned long long)compressed, ARRAY_INFLATE_RATIO);
    return SL_OK;
}

enum sl_err inflater_new(struct inflater **out,
                         const struct inflate_source *from,
                         struct sl_error *err)
{
    int window = from->form == INFLATE_GZIP ? 15 + 16 : -15;
    struct inflater *s = sl_calloc(1, sizeof(*s));

    if (s == NULL)
        return sl_fail(err, SL_ENOMEM, "no memory to inflate");
    s->from = *from;
    s->crc = (uint32_t)crc32(0, NULL, 0);
    s->in = sl_malloc((size_t)sl_min(from->bytes, IN_BYTES) + 1);
    if (s->in == NULL || inflateInit2(&s->z, window) != Z_OK) {
        sl_free(s->in);
        sl_free(s);
        return sl_fail(err, SL_ENOMEM, "no memory to inflate");
    }
    *out = s;
    return SL_OK;
}

void inflater_free(struct inflater *s)
{
    if (s == NULL)
        return;
    inflateEnd(&s->z);
    sl_free(s->in);
    sl_free(s);
}

static bool all_taken(const struct inflater *s)
{
    return s->z.avail_in == 0 && s->taken == s->from.bytes;
}

// Reads the next piece of the file, if the last one is used up.
static enum sl_err inflater_fill_input(struct inflater *s, struct sl_error *err)
{
    size_t want = (size_t)sl_min(s->from.bytes - s->taken, IN_BYTES), got = 0;
    enum sl_err rc;

    if (s->z.avail_in > 0 || want == 0)
        return SL_OK;
    rc = fs_pread(s->from.file, s->from.offset + s->taken, s->in, want, &got,
                  err);
    if (rc == SL_OK && got < want)
        rc = sl_fail(err, SL_ECORRUPT, "ends at byte %llu",
                     (unsigned long long)(s->from.offset + s->taken + got));
    if (rc != SL_OK)
        return rc;
    s->taken += got;
    s->z.next_in = s->in;
    s->z.avail_in = (unsigned)got;
    return pulse_piece(s->from.pulse, err);
}

// Judges zlib's result. A gzip file may have several members: the next one
// begins where one ended.
static enum sl_err inflater_check_result(struct inflater *s, int z,
                                         struct sl_error *err)
{
    if (z == Z_STREAM_END) {
        s->ended = s->from.form != INFLATE_GZIP || all_taken(s);
        if (s->ended || inflateReset(&s->z) == Z_OK)
            return SL_OK;
        return sl_fail(err, SL_EINTERNAL, "zlib cannot be reset");
    }
    if (z == Z_OK || (z == Z_BUF_ERROR && !all_taken(s)))
        return SL_OK;
    if (z == Z_BUF_ERROR)
        return sl_fail(err, SL_ECORRUPT,
                       "the compressed data ends too early, after %lu bytes "
                       "came out of it",
                       s->z.total_out);
    return sl_fail(err, SL_ECORRUPT,
                   "the compressed data is damaged near its byte %lu (%s)",
                   s->z.total_in, s->z.msg ? s->z.msg : "zlib");
}

enum sl_err inflater_read(struct inflater *s, void *to, size_t bytes,
                          size_t *got, struct sl_error *err)
{
    uint8_t *at = to;
    enum sl_err rc = SL_OK;

    *got = 0;
    while (rc == SL_OK && *got < bytes && !s->ended) {
        size_t space = (size_t)sl_min(bytes - *got, OUT_BYTES), more;

        rc = inflater_fill_input(s, err);
        if (rc != SL_OK)
            break;
        s->z.next_out = at + *got;
        s->z.avail_out = (unsigned)space;
        rc = inflater_check_result(s, inflate(&s->z, Z_NO_FLUSH), err);
        more = space - s->z.avail_out;
        s->crc = (uint32_t)crc32_z(s->crc, at + *got, more);
        *got += more;
    }
    return rc;
}

// Checks that only the trailer is left, by asking for one byte more.
static enum sl_err nothing_more(struct inflater *s, struct sl_error *err)
{
    uint8_t past;
    uint32_t crc = s->crc;
    size_t got = 0;
    enum sl_err rc = inflater_read(s, &past, 1, &got, err);

    s->crc = crc;
    return rc != SL_OK || (got == 0 && all_taken(s))
               ? rc
               : sl_fail(err, SL_ECORRUPT,
                         "holds more than its header promises");
}

enum sl_err inflater_rows(struct inflater *s, struct array *a,
                          const uint8_t *begin, size_t n, struct sl_error *err)
{
    size_t got = 0;
    enum sl_err rc;

    if (n > a->bytes)
        return sl_fail(err, SL_ECORRUPT, "holds more than its header promises");
    a->memory = array_memory(a->bytes);
    if (a->memory == NULL)
        return sl_fail(err, SL_ENOMEM, "no memory for its %llu bytes",
                       (unsigned long long)a->bytes);
    memcpy(a->memory, begin, n);
    rc = inflater_read(s, a->memory + n, (size_t)a->bytes - n, &got, err);
    if (rc == SL_OK && n + got < a->bytes)
        rc = sl_fail(err, SL_ECORRUPT,
                     "inflates to fewer bytes than its header promises");
    return rc == SL_OK ? nothing_more(s, err) : rc;
}

uint32_t inflater_crc(const struct inflater *s)
{
    return s->crc;
}

struct pulse *inflater_pulse(const struct inflater *s)
{
    return s->from.pulse;
}
