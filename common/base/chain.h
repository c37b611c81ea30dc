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
    uint64_t lines;
    char hash[SHA256_HEX]; // of the last one; zeros of an empty file
};

// Goes on with a file, or begins one. A line that a crash cut short is taken
// off. SL_ECORRUPT if the last line is none.
enum sl_err chain_open(struct chain **out, struct fs *fs, const char *path,
                       struct sl_error *err);
void chain_free(struct chain *c); // NULL is allowed

// Appends a line and makes it durable. `body` is members of a JSON object:
// "\"who\":\"ann\"". After a failure the chain can only be freed.
enum sl_err chain_add(struct chain *c, const char *body, struct sl_error *err);

// Reads all of a file.
enum sl_err chain_verify(struct fs *fs, const char *path, struct chain_end *out,
                         struct sl_error *err);

#endif
