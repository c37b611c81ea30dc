// SPDX-License-Identifier: Apache-2.0
// common/store/credentials_inner.h -- between the sources of keys.
//
// Threads  whoever holds the keeper's lock.
// Errors   SL_ENOENT without words: there is no such source here, ask the next.
#ifndef COMMON_STORE_CREDENTIALS_INNER_H
#define COMMON_STORE_CREDENTIALS_INNER_H

#include "common/store/credentials.h"

// NULL where it is not set, or empty.
const char *environment(const char *name);

// Copies all of it; on failure *out is empty.
enum sl_err credential_set(struct credential *out, const char *id,
                           const char *secret, const char *token,
                           struct sl_error *err);

// Of a file in the form of ~/.aws/credentials. SL_ENOENT if it is not there or
// lacks the profile; with words if `must`.
enum sl_err credential_from_file(struct credential *out, const char *path,
                                 const char *profile, bool must,
                                 struct sl_error *err);
enum sl_err credential_parse(struct credential *out, const char *path,
                             const char *text, const char *profile,
                             struct sl_error *err);

enum sl_err credential_from_container(struct credential *out,
                                      struct sl_error *err);
enum sl_err credential_from_machine(struct credential *out,
                                    struct sl_error *err);

// The JSON with which both answer. `where` is for errors.
enum sl_err credential_from_json(struct credential *out, const char *text,
                                 size_t n, const char *where,
                                 struct sl_error *err);

#endif
