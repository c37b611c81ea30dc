// SPDX-License-Identifier: Apache-2.0
// worker/data/data_lines.h -- a file of text whose lines are the samples: only
// data_csv.c and data_libsvm.c include it.
//
// A mark of UTF-8 in front is passed over, and so are empty lines at the end.
//
// Threads  as data.h: one at a time per data.
// Memory   lines_open fills in a zeroed struct; lines_release frees what it
//          has, also after a failure. No pointer is NULL.
// Units    lines count from 0 here, and from 1 in errors.
// Errors   as data_source.h: each names the file, and the line if it is of one.
#ifndef WORKER_DATA_DATA_LINES_H
#define WORKER_DATA_DATA_LINES_H

#include "worker/data/data_source.h"

#define LINE_BYTES ((size_t)1 << 20) // most of a line, its end included

struct text_lines {
    struct fs_file *file;
    char *path;
    uint64_t *start; // offset of each line, and the end of the last; in bytes
    size_t count, capacity;
    uint64_t bytes; // of the file
    char *text;     // of the line that was read last, followed by a 0
};

// Opens s->x, which is not NULL, and looks through the whole file for the
// beginnings of its lines. SL_ERANGE: a line is longer than LINE_BYTES, or
// there are too many; SL_ENOTSUP: the file is UTF-16; SL_ECANCELED of the
// pulse.
enum sl_err lines_open(struct text_lines *l, const struct data_source *s,
                       struct sl_error *err);
// Closes the file and frees all; all zeroes is allowed.
void lines_release(struct text_lines *l);

// Reads line number `line`, below l->count, into l->text, without its line
// break (LF or CRLF), and sets *length to its bytes, of which some may be 0.
// SL_ECORRUPT: the file has become shorter.
enum sl_err lines_read(struct text_lines *l, size_t line, size_t *length,
                       struct sl_error *err);

// Returns `code`, with `what` behind the file's name and the line.
enum sl_err lines_fail(const struct text_lines *l, uint64_t line,
                       struct sl_error *err, enum sl_err code,
                       const char *what);

// Writes the label of a line to y (data_put_number); an error names the line.
enum sl_err lines_put_label(const struct text_lines *l, size_t line,
                            const struct data *d, double value, void *y,
                            struct sl_error *err);

// Adds name, size and version of the file to the hash of d. l is open.
void lines_hash(const struct text_lines *l, struct data *d);

// Returns the bytes of memory that grow with the number of lines.
uint64_t lines_memory(const struct text_lines *l);

#endif
