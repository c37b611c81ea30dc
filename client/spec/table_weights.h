// SPDX-License-Identifier: Apache-2.0
// client/spec/table_weights.h -- files with the rows that sparse tables start
// with, one for each table.
//
// Threads  main.
// Memory   table_weights_release, and until then the spec is borrowed; the
//          struct may move.
// Errors   SL_EINVAL names the file, and the table or value that does not fit,
//          or the text: no table of the model, or one that has a file already;
//          SL_ECORRUPT: no safetensors file; SL_ENOENT, SL_EIO; SL_ENOMEM.
//          *out is all zeroes after a failure; `err` may be NULL.
#ifndef CLIENT_SPEC_TABLE_WEIGHTS_H
#define CLIENT_SPEC_TABLE_WEIGHTS_H

#include "client/spec/weights.h"

struct table_weights {
    Sluice__V1__TableFile **list; // for a request; owned
    size_t count;
    struct table_weights_file *files; // owned
};

// Reads files of rows into *out: each of said[count] is "TABLE=FILE". Compares
// each file with its table of the checked spec: it must have ids, finite values
// of the table's dim, and no more rows than max_rows. Does not look for ids
// that stand twice: the psserver that gets them does. Maps and reads the whole
// files. *out need not be zeroed.
enum sl_err table_weights_read(struct table_weights *out, struct fs *fs,
                               const char *const *said, size_t count,
                               const Sluice__V1__JobSpec *spec,
                               struct sl_error *err);
void table_weights_release(struct table_weights *t); // zeroes are allowed

#endif
