// SPDX-License-Identifier: Apache-2.0
// host/store/credentials_inner.h -- functions that the sources of keys share.
//
// Threads  the thread that holds the keeper's lock.
// Memory   a key that is given is the caller's: credential_release.
// Errors   SL_ENOENT without a text: this source does not exist here; ask the
//          next.
#ifndef HOST_STORE_CREDENTIALS_INNER_H
#define HOST_STORE_CREDENTIALS_INNER_H

#include "common/base/buf.h"
#include "host/store/credentials.h"

// Returns the value of an environment variable, borrowed from the environment;
// NULL if it is unset or empty.
const char *environment(const char *name);

// Overwrites the bytes of *b, in which a secret may be, and releases it.
void credential_wipe(struct buf *b);

// Returns true if secrets may be sent to `url`: https, or plain HTTP of this
// host or of the agents of containers at their own addresses; and with no more
// than a host and a port before the path.
bool credential_may_ask(const char *url);

// Returns the seconds since 1970 of "2026-07-01T12:34:56Z"; 0 if the text is no
// time. What follows the seconds is not looked at: the time is UTC.
uint64_t credential_time(const char *text);

// Appends the host of Amazon's service ("s3") in a region to *out. SL_EINVAL:
// there is no region of such a name; SL_ENOMEM.
enum sl_err amazon_host(struct buf *out, const char *service,
                        const char *region, struct sl_error *err);

// Makes *out a key of copies of the strings (`token` NULL or "": none), for
// credential_release; it does not expire. SL_EAUTH: a string has a blank, or
// what is no printable ASCII; *out is untouched. SL_ENOMEM: *out is empty.
enum sl_err credential_set(struct credential *out, const char *id,
                           const char *secret, const char *token,
                           struct sl_error *err);

// Reads the key of `profile` from the file `path`, in the form of
// ~/.aws/credentials. If the file or the profile is missing: SL_ENOENT, or, if
// it `must` be there, SL_EAUTH with a text. Other faults, want of memory too,
// are SL_EAUTH. On failure *out is empty or untouched.
enum sl_err credential_from_file(struct credential *out, const char *path,
                                 const char *profile, bool must,
                                 struct sl_error *err);

// Reads the key of `profile` from the text of such a file; `path` is for
// errors. SL_ENOENT, with a text: there is no such profile; SL_EAUTH: it is
// malformed or lacks a part; SL_ENOMEM.
enum sl_err credential_parse(struct credential *out, const char *path,
                             const char *text, const char *profile,
                             struct sl_error *err);

// Asks STS for keys of the role AWS_ROLE_ARN, in exchange for the token in the
// file AWS_WEB_IDENTITY_TOKEN_FILE, which it reads, and waits for them.
// SL_ENOENT: the environment names no such file. SL_EAUTH, SL_EUNAVAIL as in
// credentials.h; SL_ENOMEM. `err` may be NULL; on failure *out is empty or
// untouched.
enum sl_err credential_from_web_identity(struct credential *out,
                                         struct sl_error *err);

// Appends the URL of STS to *out: AWS_ENDPOINT_URL_STS or AWS_ENDPOINT_URL;
// else Amazon's of AWS_REGION or AWS_DEFAULT_REGION, as far as
// AWS_STS_REGIONAL_ENDPOINTS is not "legacy". SL_EAUTH: a token may not be sent
// there, or the region is none; SL_ENOMEM. After a failure *out may have a
// part.
enum sl_err credential_sts_url(struct buf *out, struct sl_error *err);

// Reads a key from the XML text of STS, `n` bytes, into *out. `where` names STS
// in errors. SL_EAUTH: the text is no set of keys with an end; SL_ENOMEM. On
// failure *out is empty or untouched.
enum sl_err credential_from_sts(struct credential *out, const char *text,
                                size_t n, const char *where,
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
