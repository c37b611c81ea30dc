// SPDX-License-Identifier: Apache-2.0
// client/files/feed_rows.h -- the table that the files of a feed are, row by
// row in rising order of hashes: the last base with the deltas behind it.
//
// Threads  one at a time. Rows are read where they are mapped.
// Memory   the files are mapped from feed_rows_open to feed_rows_release, which
//          frees; a row's values hold until then.
// Errors   SL_ECORRUPT: a file is missing, or has not the tensors and the
//          numbers of rows that index.json says; those of tensorfile_open;
//          SL_ENOMEM. They name the file. Checksums and the order of ids are
//          not checked.
#ifndef CLIENT_FILES_FEED_ROWS_H
#define CLIENT_FILES_FEED_ROWS_H

#include "client/files/table_feed.h"

struct feed_source; // a file, and the place in it

struct feed_rows {
    struct row_stream stream;
    struct feed_source *sources; // owned; the base first
    size_t count;
    uint32_t dim;
};

// Opens the files of a feed that has at least one, from its last base on;
// r->stream.next then gives the rows of the table at its last cut, and does not
// fail. *r need not be zeroed and is for feed_rows_release in any case; *f is
// not kept.
enum sl_err feed_rows_open(struct feed_rows *r, const struct table_feed *f,
                           struct sl_error *err);
void feed_rows_release(struct feed_rows *r); // all zeroes is allowed

#endif
