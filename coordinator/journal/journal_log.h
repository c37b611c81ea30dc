// SPDX-License-Identifier: Apache-2.0
// coordinator/journal/journal_log.h -- records in etcd: writing one exactly
// once under a term, and reading one. For journal_etcd.c and journal_image.c.
//
// Threads  any; a writer belongs to one thread at a time.
// Memory   a struct log_read owns its row and bytes (log_read_release).
// Errors   those of journal_etcd.h. Outputs are set on SL_OK alone, but for
//          log_read.
#ifndef COORDINATOR_JOURNAL_JOURNAL_LOG_H
#define COORDINATOR_JOURNAL_JOURNAL_LOG_H

#include "common/net/wirescan.h"
#include "coordinator/journal/journal_etcd.h"
#include "coordinator/journal/record.pb-c.h"

#define LOG_KEY_BYTES 64
#define LOG_READ_MS 5000 // limit of one read

// Where the records of one kind lie: below the kind's folder.
struct log_place {
    struct etcd *etcd;
    const struct journal_kind *kind;
};

// The writer of one record or image.
struct log_writer {
    struct log_place place;
    struct journal_leader leader;
    uint64_t until_ms; // when its put gives up, by the monotonic clock
    bool full;         // out: it failed because etcd has no space left
};

// Begins a writer; *place and *leader are copied, what they point at is
// borrowed until its last put. Each of its puts gives up after 10 s, or when
// leader->left_ms, called on the thread of the put, returns 0 or less. There is
// nothing to release.
void log_writer_init(struct log_writer *w, const struct log_place *place,
                     const struct journal_leader *leader);

// A value to be put, and further operations of its transaction.
struct log_put {
    const char *key;
    struct sl_slice value;
    int64_t version; // of the key before the put; 0: no such key
    const struct etcd_op *also;
    size_t also_count;
};

// Puts a value once, with the operations put->also in the same transaction, if
// the key of the writer's leadership is still there. Waits. A failure without
// an answer is settled by asking again; a key that has this value already is
// SL_OK. SL_ESTALE: another coordinator leads; SL_ECORRUPT: the key has another
// value than that of put->version or this one; SL_EUNAVAIL: etcd is full, and
// w->full is set; SL_EINVAL: more operations than ETCD_OPS, the put included;
// none of these wrote anything. SL_ETIMEDOUT: no answer came in time, or the
// leadership ended, so the value may be there or not. So it may after any error
// with which etcd, full as it had said, did not say whether the value is there:
// SL_EUNAVAIL too, and w->full is false then. Other errors of etcd_txn, after
// which it is not there.
enum sl_err log_put(struct log_writer *w, const struct log_put *put,
                    struct sl_error *err);

// Sets the nonce of a record, random, which names the folder of its parts.
// SL_EIO: the system gives no randomness; the nonce is undefined then.
enum sl_err log_nonce(Journal__Record *record, struct sl_error *err);

// Puts `record` as log_put does, with the bytes `data`: in parts before the
// record itself if one value cannot hold them. Sets format, parts, bytes, crc
// and data of *record, the other fields of which are set before (its nonce by
// log_nonce), and which comes without parts and data, and the value of *put,
// which is freed on return. Errors of log_put; SL_ENOMEM. Parts may be left in
// etcd by a failure, until the next image. `image`: it is an image of all rows.
enum sl_err log_put_record(struct log_writer *w, struct log_put *put,
                           Journal__Record *record, bool image,
                           struct sl_slice data, struct sl_error *err);

// Writes the whole name of the key `name` below the kind's folder. Names that
// are too long are cut, here and in the next three functions.
void log_name(char out[LOG_KEY_BYTES], const struct log_place *at,
              const char *name);

// Writes the key of the record of number `sequence`, below "log/", so that keys
// sort as numbers do.
void log_key(char out[LOG_KEY_BYTES], const struct log_place *at,
             uint64_t sequence);

// Writes the name of the folder of a record's parts, with "/" at the end, from
// its nonce and, unless `image` says that it is one, its sequence.
void log_folder(char out[LOG_KEY_BYTES], const struct log_place *at,
                const Journal__Record *record, bool image);

// Writes the key behind all keys of that folder, for the `end` of an etcd_op.
void log_folder_end(char out[LOG_KEY_BYTES], const struct log_place *at,
                    const Journal__Record *record, bool image);

// A record that was read.
struct log_read {
    struct wire_arena arena;
    Journal__Record *record; // in the arena
    uint8_t *bytes;          // its data, of record->bytes; sqlite3_malloc64's
};

// Reads the value of `row` as a record into *out, without its bytes.
// SL_ENOTSUP: a newer coordinator wrote it; SL_ECORRUPT: it is no record, or
// there is no memory for it; SL_ENOMEM. *out is set up in any case, for
// log_read_release; after a failure its record is undefined.
enum sl_err log_read(struct log_read *out, const struct log_place *at,
                     const struct etcd_row *row, struct sl_error *err);

// Reads the bytes of a record, or of an image, into r->bytes, and its parts as
// they were at `revision`, once for each log_read; r->bytes is set after a
// failure, too, undefined, and log_read_release frees it. Waits for etcd.
// SL_ERANGE: etcd_compacted, so all is to be read anew; SL_ECORRUPT: a part is
// gone, or the checksum does not hold; SL_ENOMEM; errors of etcd_get.
enum sl_err log_read_bytes(struct log_read *r, const struct log_place *at,
                           const struct etcd_row *row, int64_t revision,
                           bool image, struct sl_error *err);

// Frees the row and the bytes of *r, which log_read has set up; once.
void log_read_release(struct log_read *r);

#endif
