// SPDX-License-Identifier: Apache-2.0
// coordinator/feed/writer.h -- a thread that writes the feed's rows to their
// file, or to etcd, so that no other thread waits for it.
//
// Rows that come while it writes are one transaction, the next. A file that
// cannot be written is logged once, and so is that it can be again; it is
// opened again with rows that come 5 s later, and rows that it did not take are
// lost to it.
//
// Threads  writer_put: one, and writer_free after its last call; the thread is
//          inside.
// Memory   at most WRITER_ROWS rows wait, the newest are lost beyond that.
// Errors   only writer_new's, which leaves *out as it was; `err` may be NULL.
//          The log tells of a file that cannot be written.
#ifndef COORDINATOR_FEED_WRITER_H
#define COORDINATOR_FEED_WRITER_H

#include "coordinator/feed/feed_store.h"

#define WRITER_ROWS 20000

struct writer;

// Starts the thread. `path`, or *home (`home` NULL: the file is used), is
// copied. `store` is taken over, also by a call that fails; NULL: it is opened
// when there are rows to write. *out is for writer_free. SL_ENOMEM, also if no
// thread can be had.
enum sl_err writer_new(struct writer **out, const char *path,
                       const struct feed_home *home, struct feed_store *store,
                       struct sl_error *err);

// Waits until the thread has written the rows that wait, closes the store and
// frees the writer. Waits for the disk, but not for a file that cannot be
// written to come back: its rows are lost. NULL is allowed.
void writer_free(struct writer *w);

// Queues a row to be written soon, after those that came before, and takes it
// over; when WRITER_ROWS wait the row is freed instead. Waits for no disk.
void writer_put(struct writer *w, struct feed_row *row);

#endif
