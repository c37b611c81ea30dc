// SPDX-License-Identifier: Apache-2.0
// host/store/s3_upload.c -- an object in parts (CreateMultipartUpload).
#include <stdio.h>
#include <string.h>

#include "common/base/mem.h"
#include "host/store/s3.h"
#include "host/store/xml.h"

#define PARTS 10000            // S3's own bound
#define FINISH_STALL_MS 120000 // large objects are put together in silence
#define ABORT_MS 5000

static enum sl_err take_id(void *arg, const char *path, const char *value)
{
    struct s3_upload *u = arg;

    if (u->id != NULL || *value == '\0' ||
        strcmp(path, "InitiateMultipartUploadResult/UploadId") != 0)
        return SL_OK;
    u->id = sl_strdup(value);
    return u->id == NULL ? SL_ENOMEM : SL_OK;
}

enum sl_err s3_upload_begin(struct s3_upload *u, struct s3 *s,
                            const struct s3_name *name, struct sl_error *err)
{
    const struct s3_ask ask = {.method = "POST",
                               .name = &u->name,
                               .query = {{"uploads", ""}},
                               .header = {{"x-amz-meta-sluice", u->mark}},
                               .body = ""};
    struct s3_answer a;
    enum sl_err rc;

    *u = (struct s3_upload){.s = s, .name = *name};
    s3_mark(u->mark);
    rc = s3_call(s, &ask, &a, err);
    if (rc == SL_OK)
        rc = xml_walk(buf_text(&a.web.body), a.web.body.len, take_id, u, err);
    if (rc == SL_OK && u->id == NULL)
        rc = sl_fail(err, SL_ECORRUPT,
                     "s3://%s/%s: the answer to an upload has no id",
                     name->bucket, name->key);
    s3_answer_release(&a);
    return rc;
}

// What becomes a part of a document.
static bool is_etag(const char *text)
{
    return *text != '\0' && strpbrk(text, "<>&") == NULL;
}

static enum sl_err keep_etag(struct s3_upload *u, unsigned number,
                             const struct s3_answer *a, struct sl_error *err)
{
    char etag[S3_ETAG], *copy;
    char **more;

    if (!web_header(&a->web, "ETag", etag, sizeof(etag)) || !is_etag(etag))
        return sl_fail(err, SL_ECORRUPT, "s3://%s/%s: a part got no ETag",
                       u->name.bucket, u->name.key);
    copy = sl_strdup(etag);
    more = copy != NULL && number > u->count
               ? sl_realloc_array(u->etag, number, sizeof(*more))
               : u->etag;
    if (copy == NULL || more == NULL) {
        sl_free(copy);
        return sl_fail(err, SL_ENOMEM, "out of memory for an upload");
    }
    u->etag = more;
    while (u->count < number)
        u->etag[u->count++] = NULL;
    sl_free(u->etag[number - 1]); // the part was sent before
    u->etag[number - 1] = copy;
    return SL_OK;
}

enum sl_err s3_upload_part(struct s3_upload *u, unsigned number,
                           const void *bytes, size_t n, struct sl_error *err)
{
    char text[16];
    const struct s3_ask ask = {
        .method = "PUT",
        .name = &u->name,
        .query = {{"partNumber", text}, {"uploadId", u->id}},
        .body = bytes,
        .body_bytes = n};
    struct s3_answer a;
    enum sl_err rc;

    if (number < 1 || number > PARTS)
        return sl_fail(err, SL_ERANGE,
                       "s3://%s/%s: an object has parts 1 to %d, and no %u",
                       u->name.bucket, u->name.key, PARTS, number);
    snprintf(text, sizeof(text), "%u", number);
    rc = s3_call(u->s, &ask, &a, err);
    if (rc == SL_OK)
        rc = keep_etag(u, number, &a, err);
    s3_answer_release(&a);
    return rc;
}

static enum sl_err list_parts(struct buf *out, const struct s3_upload *u)
{
    enum sl_err rc = buf_append_str(
        out, "<CompleteMultipartUpload "
             "xmlns=\"http://s3.amazonaws.com/doc/2006-03-01/\">");

    for (unsigned i = 0; rc == SL_OK && i < u->count; i++)
        rc = buf_appendf(out,
                         "<Part><PartNumber>%u</PartNumber><ETag>%s</ETag>"
                         "</Part>",
                         i + 1, u->etag[i]);
    return rc == SL_OK ? buf_append_str(out, "</CompleteMultipartUpload>") : rc;
}

enum sl_err s3_upload_finish(struct s3_upload *u, bool fresh,
                             struct sl_error *err)
{
    struct buf parts = BUF_INIT;
    struct s3_ask ask = {.method = "POST",
                         .name = &u->name,
                         .query = {{"uploadId", u->id}},
                         .stall_ms = FINISH_STALL_MS};
    struct sl_error why = SL_ERROR_INIT;
    struct s3_answer a;
    enum sl_err rc = list_parts(&parts, u);

    if (rc != SL_OK) {
        buf_release(&parts);
        return sl_fail(err, rc, "out of memory for an upload");
    }
    if (fresh)
        ask.header[0] = (struct sigv4_pair){"if-none-match", "*"};
    ask.body = parts.data;
    ask.body_bytes = parts.len;
    rc = s3_call(u->s, &ask, &a, &why);
    // Perhaps an earlier try finished the upload and its answer was lost: then
    // the upload is gone, or the name is taken by our object.
    if ((rc == SL_EEXIST || rc == SL_ENOENT) &&
        s3_is_ours(u->s, &u->name, u->mark))
        rc = SL_OK;
    if (rc == SL_EEXIST)
        s3_taken(&u->name, err);
    else if (rc != SL_OK) // a missing upload is SL_EIO, not a missing name
        rc = sl_fail(err, rc == SL_ENOENT ? SL_EIO : rc, "%s", why.text);
    if (rc == SL_OK) {
        sl_free(u->id); // nothing is left to abort
        u->id = NULL;
    }
    s3_answer_release(&a);
    buf_release(&parts);
    return rc;
}

void s3_upload_end(struct s3_upload *u)
{
    const struct s3_ask ask = {.method = "DELETE",
                               .name = &u->name,
                               .query = {{"uploadId", u->id}},
                               .patience_ms = ABORT_MS};
    struct s3_answer a;

    if (u->id != NULL) {
        (void)s3_call(u->s, &ask, &a, NULL); // the bucket's rule clears it
        s3_answer_release(&a);
    }
    for (unsigned i = 0; i < u->count; i++)
        sl_free(u->etag[i]);
    sl_free(u->etag);
    sl_free(u->id);
    *u = (struct s3_upload){.id = NULL};
}
