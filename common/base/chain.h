// SPDX-License-Identifier: Apache-2.0
// common/base/chain.h -- a file of lines, each of which holds the hash of the
// one before.
//
//     {"n":2,"prev":"<hash of line 1>",BODY,"hash":"<hash of what is before>"}
//
// Whoever changes, takes out or puts in a line must write all later ones anew,
// and then the last hash is another. Keep that one elsewhere now and then:
// against somebody who cuts lines off the end nothing in the file helps.
//
// A chain may go on in another file: the first line there follows the last one
// of the file before, in its number and its hash.
//
// Threads  one at a time.
// Memory   chain_free frees; a body is borrowed.
// Errors   SL_ECORRUPT names the line; of the file system as they come.
#ifndef COMMON_BASE_CHAIN_H
#define COMMON_BASE_CHAIN_H

#include <stdint.h>

#include "common/base/fs.h"
#include "common/base/hash.h"

#define CHAIN_LINE_BYTES 4096 // of the longest line

struct chain;

struct chain_end {
    uint64_t lines;        // of the chain so far
    char hash[SHA256_HEX]; // of the last one; zeros before the first
};

// Before the first line.
void chain_begin(struct chain_end *end);

// Goes on with a file, or begins one, where *before is (NULL: a new chain). A
// line that a crash cut short is taken off. SL_ECORRUPT if the last line is
// none.
enum sl_err chain_open(struct chain **out, struct fs *fs, const char *path,
                       const struct chain_end *before, struct sl_error *err);
void chain_free(struct chain *c); // NULL is allowed

// Appends a line. `body` is members of a JSON object: "\"who\":\"ann\"". After
// a failure the chain can only be synced and freed.
enum sl_err chain_add(struct chain *c, const char *body, struct sl_error *err);

// Makes all lines durable that were appended.
enum sl_err chain_sync(struct chain *c, struct sl_error *err);

// Where the chain ends in a file; without lines, or without a file: where
// *end is already.
enum sl_err chain_find_end(struct chain_end *end, struct fs *fs,
                           const char *path, struct sl_error *err);

uint64_t chain_bytes(const struct chain *c); // of the file

// Reads all of a file that goes on where *end is, which is its end then;
// untouched on failure. SL_ECORRUPT says which line does not follow, and what
// is missing before the first.
enum sl_err chain_verify(struct fs *fs, const char *path, struct chain_end *end,
                         struct sl_error *err);

// The hash that the first line of a file wants before it, and the number of
// that one (0: it begins a chain). SL_ECORRUPT if it is no line.
enum sl_err chain_first(struct fs *fs, const char *path,
                        struct chain_end *before, struct sl_error *err);

#endif
