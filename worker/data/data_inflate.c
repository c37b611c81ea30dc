// SPDX-License-Identifier: Apache-2.0
// worker/data/data_inflate.c -- the inflation of gzip and deflate streams
// within a ratio.
#include "worker/data/data_inflate.h"

#include <string.h>
#include <zlib.h>

#include "worker/data/data_array.h"

// zlib counts in unsigned int, so both sides are handed over in pieces.
#define PIECE ((size_t)1 << 30)

struct stream {
    z_stream z;
    size_t in_left, out_left; // beyond what z was handed
    bool ended;
};

static enum sl_err begin(struct stream *s, void *to, size_t bytes,
                         const uint8_t *from, size_t n, enum inflate_form form,
                         struct sl_error *err)
{
    int window = form == INFLATE_GZIP ? 15 + 16 : -15;

    memset(s, 0, sizeof(*s));
    s->z.next_in = (uint8_t *)from;
    s->z.next_out = to;
    s->in_left = n;
    s->out_left = bytes;
    if (inflateInit2(&s->z, window) != Z_OK)
        return sl_fail(err, SL_ENOMEM, "no memory to inflate");
    return SL_OK;
}

static void feed(struct stream *s)
{
    size_t n;

    if (s->z.avail_in == 0) {
        n = s->in_left < PIECE ? s->in_left : PIECE;
        s->z.avail_in = (unsigned)n;
        s->in_left -= n;
    }
    if (s->z.avail_out == 0) {
        n = s->out_left < PIECE ? s->out_left : PIECE;
        s->z.avail_out = (unsigned)n;
        s->out_left -= n;
    }
}

// Runs until the space is full or the data ends. A gzip file may be several
// members: the next one begins where one ended.
static enum sl_err run(struct stream *s, enum inflate_form form,
                       struct sl_error *err)
{
    for (;;) {
        int z;

        feed(s);
        z = inflate(&s->z, Z_NO_FLUSH);
        if (z == Z_STREAM_END) {
            s->ended = s->z.avail_in == 0 && s->in_left == 0;
            if (s->ended || form != INFLATE_GZIP)
                return SL_OK;
            if (inflateReset(&s->z) != Z_OK)
                return sl_fail(err, SL_EINTERNAL, "zlib cannot be reset");
            continue;
        }
        if (z == Z_BUF_ERROR && s->z.avail_out == 0 && s->out_left == 0)
            return SL_OK; // full
        if (z == Z_BUF_ERROR)
            return sl_fail(err, SL_ECORRUPT,
                           "the compressed data ends too early, after %lu "
                           "bytes came out of it",
                           s->z.total_out);
        if (z != Z_OK)
            return sl_fail(err, SL_ECORRUPT,
                           "the compressed data is damaged near its byte %lu "
                           "(%s)",
                           s->z.total_in, s->z.msg ? s->z.msg : "zlib");
    }
}

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

enum sl_err inflate_exact(void *to, size_t bytes, const uint8_t *from, size_t n,
                          enum inflate_form form, struct sl_error *err)
{
    struct stream s;
    uint8_t past;
    enum sl_err rc = begin(&s, to, bytes, from, n, form, err);

    if (rc != SL_OK)
        return rc;
    rc = run(&s, form, err);
    if (rc == SL_OK && (s.z.avail_out > 0 || s.out_left > 0)) {
        rc = sl_fail(err, SL_ECORRUPT,
                     "inflates to fewer bytes than its header promises");
    } else if (rc == SL_OK && !s.ended) {
        // Only the trailer may be left. One byte of space finds out.
        s.z.next_out = &past;
        s.z.avail_out = 1;
        rc = run(&s, form, err);
        if (rc == SL_OK && (!s.ended || s.z.avail_out == 0))
            rc = sl_fail(err, SL_ECORRUPT,
                         "holds more than its header promises");
    }
    inflateEnd(&s.z);
    return rc;
}

enum sl_err inflate_begin(void *to, size_t bytes, size_t *got,
                          const uint8_t *from, size_t n, enum inflate_form form,
                          struct sl_error *err)
{
    struct stream s;
    enum sl_err rc = begin(&s, to, bytes, from, n, form, err);

    if (rc != SL_OK)
        return rc;
    rc = run(&s, form, err);
    if (rc == SL_OK)
        *got = bytes - s.z.avail_out - s.out_left;
    inflateEnd(&s.z);
    return rc;
}
