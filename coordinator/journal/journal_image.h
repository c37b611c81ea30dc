// SPDX-License-Identifier: Apache-2.0
// coordinator/journal/journal_image.h -- an image of all rows, which takes the
// place of the records before it. For journal_etcd.c.
//
// Threads  the journal's; an image that is started has a thread of its own,
//          which touches nothing of the journal.
// Memory   an image owns its bytes.
// Errors   those of journal_etcd.h.
#ifndef COORDINATOR_JOURNAL_JOURNAL_IMAGE_H
#define COORDINATOR_JOURNAL_JOURNAL_IMAGE_H

#include <pthread.h>
#include <stdatomic.h>

#include "coordinator/journal/journal_log.h"

struct journal_image {
    struct log_writer writer;
    Journal__Record record; // its schema, layout, sequence, last_number
    int64_t version;        // of the key "base" before; 0: no such key
    uint64_t holds;         // bytes of records since the image before
    struct sl_slice bytes;  // sqlite3_serialize's, owned
    bool threaded;
    pthread_t thread;
    atomic_bool done; // rc and err are set
    enum sl_err rc;
    struct sl_error err;
};

// Writes the image to etcd, makes it the one in force, and deletes the records
// that it holds and older images, all at once. Waits. The result is in
// image->rc and image->err, and image->done is set last; all other fields are
// set before.
void image_write(struct journal_image *image);

// Calls image_write on a thread of its own, and does not wait for it; if the
// system gives no thread, calls it here. image->done tells when it is over.
void image_start(struct journal_image *image);

// Waits for the thread, if image_start made one, and frees the image with its
// bytes; NULL is allowed.
void image_free(struct journal_image *image);

#endif
