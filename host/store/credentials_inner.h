// SPDX-License-Identifier: Apache-2.0
// host/store/credentials_inner.h -- functions that the sources of keys share.
//
// Threads  the thread that holds the keeper's lock.
// Memory   a key that is given is the caller's: credential_release.
// Errors   SL_ENOENT without a text: this source does not exist here; ask the
//          next.
#ifndef HOST_STORE_CREDENTIALS_INNER_H
#define HOST_STORE_CREDENTIALS_INNER_H

#include "host/store/credentials.h"

// Returns the value of an environment variable, borrowed from the environment;
// NULL if it is unset or empty.
const char *environment(const char *name);

// Makes *out a key of copies of the strings (`token` NULL or "": none), for
// credential_release; it does not expire. SL_EAUTH: a string has a blank, or
// what is no printable ASCII; *out is untouched. SL_ENOMEM: *out is empty.
enum sl_err credential_set(struct credential *out, const char *id,
                           const char *secret, const char *token,
                           struct sl_error *err);

// Reads the key of `profile` from the file `path`, in the form of
// ~/.aws/credentials. If the file or the profile is missing: SL_ENOENT, or, if
// it `must` be there, SL_EAUTH with a text. Other faults are SL_EAUTH.
enum sl_err credential_from_file(struct credential *out, const char *path,
                                 const char *profile, bool must,
                                 struct sl_error *err);

// Reads the key of `profile` from the text of such a file; `path` is for
// errors. SL_ENOENT, with a text: there is no such profile; SL_EAUTH: it is
// malformed or lacks a part; SL_ENOMEM.
enum sl_err credential_parse(struct credential *out, const char *path,
                             const char *text, const char *profile,
                             struct sl_error *err);

// Asks the container's service for a key, and waits for it. SL_ENOENT: the
// environment names none. SL_EAUTH, SL_EUNAVAIL as in credentials.h; SL_EAUTH
// also if the file of its token is not there; those of reading it; SL_ENOMEM.
// `err` may be NULL; on failure *out is empty or untouched.
enum sl_err credential_from_container(struct credential *out,
                                      struct sl_error *err);

// Asks for the key of the machine's role (IMDSv2), and waits for it. SL_ENOENT:
// AWS_EC2_METADATA_DISABLED is "true", there is no such service here, or the
// machine has no role. SL_EAUTH, SL_EUNAVAIL as in credentials.h; SL_ENOMEM.
enum sl_err credential_from_machine(struct credential *out,
                                    struct sl_error *err);

// Reads a key from the JSON text of a container's or a machine's service, `n`
// bytes, into *out. `where` names the service in errors. SL_EAUTH: the text is
// no set of keys, or says why the service gives none; SL_ENOMEM. On failure
// *out is empty or untouched.
enum sl_err credential_from_json(struct credential *out, const char *text,
                                 size_t n, const char *where,
                                 struct sl_error *err);

#endif
