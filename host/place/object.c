// SPDX-License-Identifier: Apache-2.0
// host/place/object.c -- one version of an object, and what its failures mean.
#include <inttypes.h>
#include <stdio.h>
#include <string.h>

#include "common/base/hash.h"
#include "common/base/mem.h"
#include "host/place/object.h"

#define OBJECT_MOST ((uint64_t)PIECE_BYTES << OBJECT_INDEX_BITS)

// Writes what names this version of the object.
static void object_version(char out[OBJECT_VERSION],
                           const struct s3_object *found)
{
    if (found->etag[0] != '\0')
        snprintf(out, OBJECT_VERSION, "%s", found->etag);
    else
        snprintf(out, OBJECT_VERSION, "%" PRIu64, found->mtime_s);
}

static enum sl_err object_make_id(struct object *o)
{
    char version[OBJECT_VERSION], size[24];
    const char *parts[] = {s3_scheme(&o->name), o->name.bucket, o->name.key,
                           size, version};
    struct sha256 h = {NULL};
    enum sl_err rc = sha256_init(&h);

    object_version(version, &o->found);
    snprintf(size, sizeof(size), "%" PRIu64, o->found.bytes);
    for (size_t i = 0; rc == SL_OK && i < SL_COUNT(parts); i++)
        rc = sha256_update(&h, parts[i], strlen(parts[i]) + 1);
    if (rc == SL_OK)
        rc = sha256_final(&h, o->id);
    sha256_release(&h);
    return rc;
}

enum sl_err object_new(struct object **out, struct s3 *client,
                       const struct s3_name *name,
                       const struct s3_object *found, struct sl_error *err)
{
    static _Atomic uint64_t numbers;
    struct object *o;

    if (found->etag[0] == '\0' && found->mtime_s == 0)
        return sl_fail(err, SL_ENOTSUP,
                       "%s%s/%s: the server names no version of it (neither "
                       "ETag nor Last-Modified), so a change would not be seen",
                       s3_scheme(name), name->bucket, name->key);
    if (found->bytes > OBJECT_MOST)
        return sl_fail(err, SL_ENOTSUP, "%s%s/%s: an object of over 16 TiB",
                       s3_scheme(name), name->bucket, name->key);
    o = sl_calloc(1, sizeof(*o));
    if (o == NULL)
        return sl_no_memory(err);
    o->client = client;
    o->name = *name;
    o->found = *found;
    o->last = UINT32_MAX;
    o->refs = 1;
    o->number = atomic_fetch_add(&numbers, 1) + 1;
    if (object_make_id(o) != SL_OK) {
        sl_free(o);
        return sl_no_memory(err);
    }
    *out = o;
    return SL_OK;
}

struct object *object_ref(struct object *o)
{
    atomic_fetch_add(&o->refs, 1);
    return o;
}

void object_unref(struct object *o)
{
    if (o != NULL && atomic_fetch_sub(&o->refs, 1) == 1)
        sl_free(o);
}

size_t object_piece_bytes(const struct object *o, uint32_t index)
{
    uint64_t at = (uint64_t)index * PIECE_BYTES;
    uint64_t left = o->found.bytes > at ? o->found.bytes - at : 0;

    return left < PIECE_BYTES ? (size_t)left : PIECE_BYTES;
}

// ---- one request

static bool object_is(const struct object *o, const struct s3_object *found)
{
    char ours[OBJECT_VERSION], theirs[OBJECT_VERSION];

    object_version(ours, &o->found);
    object_version(theirs, found);
    return found->bytes == o->found.bytes && strcmp(ours, theirs) == 0;
}

static enum sl_err object_replaced(const struct object *o, struct sl_error *err)
{
    return sl_fail(err, SL_ENOENT,
                   "%s%s/%s was replaced since the job opened it: put back the "
                   "version %.80s of %" PRIu64
                   " bytes, or stop the job and submit it again",
                   s3_scheme(&o->name), o->name.bucket, o->name.key,
                   o->found.etag, o->found.bytes);
}

// Returns the error of a read: none that says that the bytes which came are
// wrong, as a sample with such an error may be passed over (skip_bad).
static enum sl_err object_error(enum sl_err rc)
{
    switch (rc) {
    case SL_EAUTH:
        return SL_EDENIED;
    case SL_EDENIED:
    case SL_EUNAVAIL:
    case SL_ECANCELED:
    case SL_ENOMEM:
        return rc;
    default:
        return SL_EIO;
    }
}

// Returns the words for a request of an object that was there before: what a
// client says of its rights, or of another version, is the same on each worker.
static enum sl_err object_failed(const struct object *o, enum sl_err rc,
                                 const struct sl_error *why,
                                 struct sl_error *err)
{
    struct s3_object now;

    if (rc == SL_ENOENT)
        return sl_fail(err, rc,
                       "%.700s; the job has read it before: put it back, or "
                       "stop the job and submit it again",
                       why->text);
    if (rc == SL_EIO && s3_head(o->client, &o->name, &now, NULL) == SL_OK &&
        !object_is(o, &now))
        return object_replaced(o, err);
    return sl_fail(err, object_error(rc), "%s", why->text);
}

enum sl_err object_get(const struct object *o, uint32_t index, void *to,
                       struct sl_error *err)
{
    // A weak version fits no If-Match; then the answer's is compared alone.
    const char *etag = o->found.etag[0] == '"' ? o->found.etag : NULL;
    size_t n = object_piece_bytes(o, index), got = 0;
    struct sl_error why = SL_ERROR_INIT;
    struct s3_object found;
    enum sl_err rc =
        s3_get(o->client, &o->name, etag, (uint64_t)index * PIECE_BYTES, to, n,
               &got, &found, &why);

    if (rc != SL_OK)
        return object_failed(o, rc, &why, err);
    return got == n && object_is(o, &found) ? SL_OK : object_replaced(o, err);
}
