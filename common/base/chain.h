// SPDX-License-Identifier: Apache-2.0
// common/base/chain.h -- a file of lines, each of which holds the hash of the
// one before.
//
//     {"n":2,"prev":"<hash of line 1>",BODY,"hash":"<hash of what is before>"}
//
// An attacker who changes, removes or inserts a line must write all later ones
// anew, and then the last hash is another. Keep a copy of the last hash
// elsewhere now and then: the file alone does not show that lines were cut off
// its end.
//
// A chain may go on in another file: the first line there follows the last one
// of the file before, in its number and its hash.
//
// Threads  one at a time. All but chain_begin and chain_bytes do I/O and wait.
// Memory   chain_free frees (without a sync); texts are read only during the
//          call, the struct fs is borrowed.
// Errors   SL_ECORRUPT names the line; those of the file system unchanged.
//          `err` may be NULL, and SL_ENOMEM and those of hash.h may leave it
//          without text. What a failure leaves in outputs is said below.
#ifndef COMMON_BASE_CHAIN_H
#define COMMON_BASE_CHAIN_H

#include <stdint.h>

#include "common/base/fs.h"
#include "common/base/hash.h"

#define CHAIN_LINE_BYTES 4096 // limit of a line

struct chain;

struct chain_end {
    uint64_t lines;        // number of lines in the chain so far
    char hash[SHA256_HEX]; // hash of the last line; zeros before the first
};

// Sets *end to what a new chain has before its first line: 0 lines, and as
// hash a text of 64 digits '0'. Any thread; cannot fail.
void chain_begin(struct chain_end *end);

// Opens a file to append lines, or makes one that goes on after *before (NULL:
// a new chain), which is not read where the file has lines. Removes a line that
// a crash cut short, by writing the file anew (SL_ERANGE: it has over 1 GiB).
// SL_ECORRUPT if the last line is malformed; no other line is checked. The name
// of a file that it makes is durable after fs_sync_dir, which the caller does.
// A failure leaves *out as it was.
enum sl_err chain_open(struct chain **out, struct fs *fs, const char *path,
                       const struct chain_end *before, struct sl_error *err);
// Closes the file and frees; syncs nothing. NULL is allowed.
void chain_free(struct chain *c);

// Appends a line. `body` is one or more members of a JSON object, without a
// newline: "\"user\":\"ann\""; it is not checked. SL_ERANGE: the line has more
// than CHAIN_LINE_BYTES, and nothing changes. After another failure (SL_ENOMEM,
// or the file system's) the chain can only be synced and freed. Durable after
// chain_sync.
enum sl_err chain_add(struct chain *c, const char *body, struct sl_error *err);

// Makes all appended lines durable; waits for the disk. Fails as fs_sync does.
enum sl_err chain_sync(struct chain *c, struct sl_error *err);

// Sets *end to the end of the chain in a file. Leaves *end as it is if the file
// is missing or has no lines. Like chain_open it removes a line that was cut
// short, so it writes. SL_ECORRUPT leaves *end undefined; other failures leave
// it as it was.
enum sl_err chain_find_end(struct chain_end *end, struct fs *fs,
                           const char *path, struct sl_error *err);

// Returns the length of the file, in bytes.
uint64_t chain_bytes(const struct chain *c);

// Checks every line of a file that goes on after *end, and sets *end to its
// end; unchanged on failure. SL_ECORRUPT names the line that does not follow or
// is cut short, or the lines that are missing before the first. SL_ENOENT:
// there is no such file.
enum sl_err chain_verify(struct fs *fs, const char *path, struct chain_end *end,
                         struct sl_error *err);

// Sets *before to the hash and the number of the line that the first line of a
// file follows (number 0: it begins a chain, or has no line). SL_ECORRUPT if
// that line is malformed, SL_ENOENT without the file. A failure leaves *before
// as it was.
enum sl_err chain_first(struct fs *fs, const char *path,
                        struct chain_end *before, struct sl_error *err);

#endif
