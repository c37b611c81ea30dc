// SPDX-License-Identifier: Apache-2.0
// kernels/plans.h -- plans of a GPU, and proofs, that outlive the process.
//
// A text file, one plan per line, only ever appended to, so that the workers
// of a host may share it:
//
//     KIND LIBRARY-VERSION KEY PAYLOAD
//
// The last of several lines for one key counts. A line that is cut (the next
// writer ends it with the word "(cut)") or from another version is passed over;
// a plan from a file is still checked by its library before it runs.
//
// Threads  one; plans_open reads the file, plans_add writes to it.
// Memory   the file's text is kept.
// Errors   none that matter: without the file, plans are made anew.
#ifndef KERNELS_PLANS_H
#define KERNELS_PLANS_H

#include "common/base/buf.h"

#define PLANS_BYTES_MOST (16 << 20) // of the file; beyond, nothing is added

struct plans {
    char *path; // borrowed; NULL: nothing is kept
    struct buf text;
};

// Reads the file `path` (borrowed until plans_close) into *p, which need not be
// zeroed before. `path` NULL: nothing is kept. A missing file is an empty one;
// one that cannot be read is one log line and counts as empty. What lies beyond
// PLANS_BYTES_MOST is not read, and what others append later is not seen. Call
// plans_close in any case.
void plans_open(struct plans *p, char *path);
// Frees the text that was read; the file stays as it is.
void plans_close(struct plans *p);

// Appends the payload of the last line with this kind, version and key, as
// text, to *out and returns true. Returns false, and appends nothing, if there
// is no such line, or no memory.
bool plans_find(struct buf *out, const struct plans *p, const char *kind,
                uint64_t version, uint64_t key);

// Appends a line to the file, in one write, and to what plans_find searches;
// line ends in `payload` become blanks. Does nothing without a path, without
// memory, or once the text is over PLANS_BYTES_MOST. A failure of the file is
// one log line, and plans_find finds the line all the same.
void plans_add(struct plans *p, const char *kind, uint64_t version,
               uint64_t key, const struct buf *payload);

#endif
