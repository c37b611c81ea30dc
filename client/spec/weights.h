// SPDX-License-Identifier: Apache-2.0
// client/spec/weights.h -- a safetensors file with the values that a job starts
// with.
//
// Threads  main.
// Memory   weights_release; the struct must not move: `file` points into it.
// Errors   of weights_read: SL_EINVAL names the variable that does not fit, and
//          how; SL_ECORRUPT: no safetensors file; SL_ENOENT, SL_EIO; SL_ENOMEM.
//          *out is all zeroes after them. `err` may be NULL.
#ifndef CLIENT_SPEC_WEIGHTS_H
#define CLIENT_SPEC_WEIGHTS_H

#include "common/base/fs.h"
#include "common/base/hash.h"
#include "common/base/status.h"
#include "proto/wire.h"

struct weights {
    Sluice__V1__WeightsFile file; // borrows from what follows
    char *path;                   // whole; owned
    char *folder;                 // owned
    uint8_t sha256[SHA256_BYTES];
    size_t others; // tensors that are no variables of the model
};

// Reads file `path` of the real file system, by `fs`, and compares it with the
// model of a checked spec: every variable must be in it, F32, in Keras' layout,
// and finite. Maps and reads the whole file. *out need not be zeroed.
enum sl_err weights_read(struct weights *out, struct fs *fs, const char *path,
                         const Sluice__V1__JobSpec *spec, struct sl_error *err);

// Sets *out to the absolute path, folder and name of the existing file `path`,
// links followed, without size and hash (weights_seal). *out need not be
// zeroed. SL_ENOENT, SL_EIO: the path; SL_ENOMEM; then *out is for
// weights_release.
enum sl_err weights_name(struct weights *out, const char *path,
                         struct sl_error *err);

// Sets the size and the SHA-256 in w->file, which weights_name has set, and
// reads the whole file for that. Errors of `fs`: neither means anything then.
enum sl_err weights_seal(struct weights *w, struct fs *fs,
                         struct sl_error *err);
void weights_release(struct weights *w); // all zeroes is allowed

#endif
