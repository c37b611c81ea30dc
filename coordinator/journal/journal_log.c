// SPDX-License-Identifier: Apache-2.0
// coordinator/journal/journal_log.c -- records in etcd.
//
// A write without an answer may have been done, may be done later, or never.
// It is sent again with its conditions unchanged: the key is to have the
// version that it had before. So of all attempts one is done at most, and an
// attempt that is refused reads which value is there. "No space left" needs a
// read of its own, because etcd also says so after it has written.
#include "coordinator/journal/journal_log.h"

#include <poll.h>
#include <stdio.h>
#include <string.h>
#include <unistd.h>

#include "common/base/clock.h"
#include "common/base/crc.h"
#include "common/base/mem.h"
#include "common/base/num.h"
#include "coordinator/journal/journal_sql.h"

#define FORMAT 1
#define GIVE_UP_MS 10000
#define TRY_MS 3000 // one attempt: then another member is asked
#define PAUSE_MS 50 // between attempts that fail at once
#define PART_BYTES ETCD_VALUE_BYTES
#define IMAGE_BYTES_MOST ((uint64_t)1 << 30) // SQLite's limit in memory
#define PARTS_READ 16                        // per call

// ---- names

void log_name(char out[LOG_KEY_BYTES], const struct log_place *at,
              const char *name)
{
    snprintf(out, LOG_KEY_BYTES, "%s%s", at->kind->folder, name);
}

void log_key(char out[LOG_KEY_BYTES], const struct log_place *at,
             uint64_t sequence)
{
    snprintf(out, LOG_KEY_BYTES, "%slog/%016llx", at->kind->folder,
             (unsigned long long)sequence);
}

static void log_folder_write(char out[LOG_KEY_BYTES],
                             const struct log_place *at,
                             const Journal__Record *record, bool image,
                             char last)
{
    if (image)
        snprintf(out, LOG_KEY_BYTES, "%sbases/%016llx%c", at->kind->folder,
                 (unsigned long long)record->nonce, last);
    else
        snprintf(out, LOG_KEY_BYTES, "%spart/%016llx-%016llx%c",
                 at->kind->folder, (unsigned long long)record->sequence,
                 (unsigned long long)record->nonce, last);
}

void log_folder(char out[LOG_KEY_BYTES], const struct log_place *at,
                const Journal__Record *record, bool image)
{
    log_folder_write(out, at, record, image, '/');
}

void log_folder_end(char out[LOG_KEY_BYTES], const struct log_place *at,
                    const Journal__Record *record, bool image)
{
    log_folder_write(out, at, record, image, '/' + 1);
}

static void log_part(char out[LOG_KEY_BYTES], const char *folder, uint32_t part)
{
    snprintf(out, LOG_KEY_BYTES, "%.48s%06x", folder, part);
}

// ---- writing

void log_writer_init(struct log_writer *w, const struct log_place *place,
                     const struct journal_leader *leader)
{
    *w = (struct log_writer){
        .place = *place,
        .leader = *leader,
    };
}

// Returns the ms that the writer has left, at most `most`.
static int64_t log_left_ms(const struct log_writer *w, int64_t most)
{
    int64_t left = (int64_t)w->until_ms - (int64_t)sl_real_ms();
    int64_t leads =
        w->leader.left_ms == NULL ? left : w->leader.left_ms(w->leader.arg);

    if (leads < left)
        left = leads;
    return left < most ? left : most;
}

static const struct etcd_row *log_find(const struct etcd_reply *reply,
                                       const char *key)
{
    for (size_t i = 0; i < reply->count; i++)
        if (strcmp(reply->rows[i].key, key) == 0)
            return &reply->rows[i];
    return NULL;
}

static bool log_is_there(const struct etcd_reply *reply,
                         const struct log_put *put)
{
    const struct etcd_row *row = log_find(reply, put->key);

    return row != NULL && row->value.len == put->value.len &&
           memcmp(row->value.data, put->value.data, put->value.len) == 0;
}

// Returns what an answer says of the put.
static enum sl_err log_judge(const struct log_writer *w,
                             const struct log_put *put,
                             const struct etcd_reply *reply,
                             struct sl_error *err)
{
    const struct etcd_row *leader;

    if (reply->held || log_is_there(reply, put))
        return SL_OK;
    leader = log_find(reply, JOURNAL_LEADER);
    if (leader == NULL || leader->created != w->leader.term)
        return sl_fail(err, SL_ESTALE,
                       "the %s in %s is another coordinator's by now: nothing "
                       "was written",
                       w->place.kind->name, etcd_url(w->place.etcd));
    return sl_fail(err, SL_ECORRUPT,
                   "the %s in %s: %s is there with another value, which no "
                   "coordinator of this term wrote",
                   w->place.kind->name, etcd_url(w->place.etcd), put->key);
}

static enum sl_err log_refuse_full(struct log_writer *w, struct sl_error *err)
{
    w->full = true;
    return sl_fail(err, SL_EUNAVAIL,
                   "the %s: no space left in %s: compact and defragment etcd, "
                   "then disarm its alarm",
                   w->place.kind->name, etcd_url(w->place.etcd));
}

// Returns what became of a put that etcd answered with "no space".
static enum sl_err log_settle_full(struct log_writer *w,
                                   const struct log_put *put,
                                   struct sl_error *err)
{
    const struct etcd_op get = {.what = ETCD_GET, .key = put->key};
    struct etcd_reply reply = {0};
    enum sl_err rc =
        sl_fail(err, SL_ETIMEDOUT, "the %s: this coordinator leads no longer",
                w->place.kind->name);
    bool there;

    while (rc != SL_OK && log_left_ms(w, TRY_MS) > 0) {
        rc = etcd_get(w->place.etcd, &get, log_left_ms(w, TRY_MS), &reply, err);
        if (rc != SL_OK)
            poll(NULL, 0, PAUSE_MS);
    }
    if (rc != SL_OK)
        return rc;
    there = log_is_there(&reply, put);
    etcd_reply_release(&reply);
    return there ? SL_OK : log_refuse_full(w, err);
}

static enum sl_err log_try(struct log_writer *w, const struct log_put *put,
                           int64_t limit_ms, struct etcd_reply *reply,
                           struct sl_error *err)
{
    const struct etcd_if ifs[] = {
        {ETCD_CREATED, JOURNAL_LEADER, w->leader.term},
        {ETCD_VERSION, put->key, put->version},
    };
    const struct etcd_op look[] = {
        {.what = ETCD_GET, .key = JOURNAL_LEADER},
        {.what = ETCD_GET, .key = put->key},
    };
    struct etcd_op then[ETCD_OPS] = {
        {.what = ETCD_PUT, .key = put->key, .value = put->value}};
    const struct etcd_txn txn = {ifs,  SL_COUNT(ifs), then, put->also_count + 1,
                                 look, SL_COUNT(look)};

    if (put->also_count >= ETCD_OPS)
        return sl_fail(err, SL_EINVAL, "a record with too many operations");
    for (size_t i = 0; i < put->also_count; i++)
        then[i + 1] = put->also[i];
    return etcd_txn(w->place.etcd, &txn, limit_ms, reply, err);
}

enum sl_err log_put(struct log_writer *w, const struct log_put *put,
                    struct sl_error *err)
{
    struct sl_error why = {SL_ETIMEDOUT, "this coordinator leads no longer"};
    struct etcd_reply reply = {0};
    enum sl_err rc;
    int64_t left;

    w->until_ms = sl_real_ms() + GIVE_UP_MS;
    while ((left = log_left_ms(w, TRY_MS)) > 0) {
        rc = log_try(w, put, left, &reply, &why);
        if (rc == SL_OK) {
            rc = log_judge(w, put, &reply, err);
            etcd_reply_release(&reply);
            return rc;
        }
        if (etcd_full(&why))
            return log_settle_full(w, put, err);
        if (!etcd_unknown(rc, &why) && rc != SL_EBUSY)
            return sl_fail(err, rc, "the %s: %s", w->place.kind->name,
                           why.text);
        poll(NULL, 0, PAUSE_MS);
    }
    return sl_fail(err, SL_ETIMEDOUT,
                   "the %s: etcd does not say whether it has a record: %s",
                   w->place.kind->name, why.text);
}

enum sl_err log_nonce(Journal__Record *record, struct sl_error *err)
{
    if (getentropy(&record->nonce, sizeof(record->nonce)) != 0)
        return sl_fail(err, SL_EIO, "the journal: no randomness");
    return SL_OK;
}

static enum sl_err log_put_parts(struct log_writer *w,
                                 const Journal__Record *record, bool image,
                                 struct sl_slice data, struct sl_error *err)
{
    char folder[LOG_KEY_BYTES], key[LOG_KEY_BYTES];
    enum sl_err rc = SL_OK;

    log_folder(folder, &w->place, record, image);
    for (uint32_t i = 0; i < record->parts && rc == SL_OK; i++) {
        size_t at = (size_t)i * PART_BYTES;
        struct log_put put = {
            .key = key,
            .value = {data.data + at, sl_min(data.len - at, PART_BYTES)},
        };

        log_part(key, folder, i);
        rc = log_put(w, &put, err);
    }
    return rc;
}

enum sl_err log_put_record(struct log_writer *w, struct log_put *put,
                           Journal__Record *record, bool image,
                           struct sl_slice data, struct sl_error *err)
{
    size_t bytes;
    uint8_t *value;
    enum sl_err rc = SL_OK;

    record->format = FORMAT;
    record->bytes = data.len;
    record->crc = crc32c(0, data.data, data.len);
    if (data.len <= PART_BYTES) {
        record->data.data = (uint8_t *)data.data; // not written
        record->data.len = data.len;
    } else {
        record->parts = (uint32_t)((data.len + PART_BYTES - 1) / PART_BYTES);
        rc = log_put_parts(w, record, image, data, err);
    }
    if (rc != SL_OK)
        return rc;
    bytes = journal__record__get_packed_size(record);
    value = sl_malloc(bytes);
    if (value == NULL)
        return sl_no_memory(err);
    journal__record__pack(record, value);
    put->value = (struct sl_slice){value, bytes};
    rc = log_put(w, put, err);
    sl_free(value);
    return rc;
}

// ---- reading

static enum sl_err log_spoilt(const struct log_place *at, const char *key,
                              const char *what, struct sl_error *err)
{
    return sl_fail(err, SL_ECORRUPT, "the %s in %s: %s: %s", at->kind->name,
                   etcd_url(at->etcd), key, what);
}

static enum sl_err log_check(const Journal__Record *r,
                             const struct log_place *at, const char *key,
                             struct sl_error *err)
{
    uint64_t parts = (r->bytes + PART_BYTES - 1) / PART_BYTES;

    if (r->format > FORMAT || r->schema > (uint32_t)at->kind->schema)
        return sl_fail(err, SL_ENOTSUP,
                       "%s has schema %u of the %s, this program knows %d: it "
                       "was written by a newer coordinator",
                       etcd_url(at->etcd), r->schema, at->kind->name,
                       at->kind->schema);
    if (r->format == 0 || r->bytes > IMAGE_BYTES_MOST ||
        (r->parts == 0 ? r->data.len != r->bytes : r->parts != parts))
        return log_spoilt(at, key, "its lengths do not agree", err);
    return SL_OK;
}

// Copies the parts of `reply` to their places, from part *next on.
static enum sl_err log_join(const Journal__Record *r, uint8_t *bytes,
                            const char *folder, const struct etcd_reply *reply,
                            uint32_t *next)
{
    char key[LOG_KEY_BYTES];

    for (size_t i = 0; i < reply->count; i++, ++*next) {
        size_t at = (size_t)*next * PART_BYTES;
        const struct sl_slice *value = &reply->rows[i].value;

        log_part(key, folder, *next);
        if (*next >= r->parts || strcmp(key, reply->rows[i].key) != 0 ||
            value->len != sl_min(r->bytes - at, PART_BYTES))
            return SL_ECORRUPT;
        memcpy(bytes + at, value->data, value->len);
    }
    return reply->count == 0 ? SL_ECORRUPT : SL_OK;
}

static enum sl_err log_read_parts(struct log_read *out,
                                  const struct log_place *at, int64_t revision,
                                  bool image, struct sl_error *err)
{
    char folder[LOG_KEY_BYTES], end[LOG_KEY_BYTES], key[LOG_KEY_BYTES];
    struct etcd_reply reply = {0};
    enum sl_err rc = SL_OK;
    uint32_t next = 0;

    log_folder(folder, at, out->record, image);
    log_folder_end(end, at, out->record, image);
    while (next < out->record->parts && rc == SL_OK) {
        const struct etcd_op get = {.what = ETCD_GET,
                                    .key = key,
                                    .end = end,
                                    .most = PARTS_READ,
                                    .revision = revision};

        log_part(key, folder, next);
        rc = etcd_get(at->etcd, &get, LOG_READ_MS, &reply, err);
        if (rc != SL_OK)
            return rc;
        rc = log_join(out->record, out->bytes, folder, &reply, &next);
        etcd_reply_release(&reply);
    }
    return rc == SL_OK ? rc : log_spoilt(at, folder, "a part is gone", err);
}

enum sl_err log_read(struct log_read *out, const struct log_place *at,
                     const struct etcd_row *row, struct sl_error *err)
{
    static const struct wire_limits limits = {.max_bytes = ETCD_REPLY_BYTES};
    ProtobufCMessage *message;
    enum sl_err rc;

    wire_arena_init(&out->arena);
    out->bytes = NULL;
    rc =
        wire_unpack_checked(&message, &out->arena, &journal__record__descriptor,
                            row->value.data, row->value.len, &limits, err);
    if (rc == SL_ENOMEM)
        return sl_no_memory(err);
    if (rc != SL_OK)
        return log_spoilt(at, row->key, "it is no record", err);
    out->record = (Journal__Record *)message;
    return log_check(out->record, at, row->key, err);
}

enum sl_err log_read_bytes(struct log_read *r, const struct log_place *at,
                           const struct etcd_row *row, int64_t revision,
                           bool image, struct sl_error *err)
{
    const Journal__Record *record = r->record;
    enum sl_err rc = SL_OK;

    r->bytes = sqlite3_malloc64(record->bytes + 1);
    if (r->bytes == NULL)
        return sl_no_memory(err);
    if (record->parts > 0)
        rc = log_read_parts(r, at, revision, image, err);
    else if (record->bytes > 0)
        memcpy(r->bytes, record->data.data, record->bytes);
    if (rc == SL_OK && crc32c(0, r->bytes, record->bytes) != record->crc)
        rc = log_spoilt(at, row->key, "its checksum does not hold", err);
    return rc;
}

void log_read_release(struct log_read *r)
{
    sqlite3_free(r->bytes);
    wire_arena_release(&r->arena);
}
