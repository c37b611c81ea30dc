// SPDX-License-Identifier: Apache-2.0
// host/store/credentials.h -- the keys with which requests are signed.
//
// Sources, in this order; the first that exists is asked, and no other:
//
//   1. a file that was named (then nothing else)
//   2. AWS_ACCESS_KEY_ID, AWS_SECRET_ACCESS_KEY, AWS_SESSION_TOKEN
//   3. STS, for the role AWS_ROLE_ARN and the token in the file
//      AWS_WEB_IDENTITY_TOKEN_FILE
//   4. AWS_SHARED_CREDENTIALS_FILE or ~/.aws/credentials, if it has the profile
//      AWS_PROFILE ("default"); if either variable is set, it must have it
//   5. a container's: AWS_CONTAINER_CREDENTIALS_RELATIVE_URI or _FULL_URI, with
//      AWS_CONTAINER_AUTHORIZATION_TOKEN or _TOKEN_FILE
//   6. the role of the machine, by IMDSv2, unless AWS_EC2_METADATA_DISABLED is
//      true
//
// A file is read again after five minutes. Keys that expire are renewed five
// minutes before, or at half of what they have left, if that is later; while
// that fails the old ones are used up to their end, and the log says so; those
// without an end, as a file's, are not used then. No key is in an error, ever.
//
// Threads  any; one renews, the others wait for it, and fail with it.
// Memory   credentials_free; a key: credential_release, which wipes it.
// Errors   SL_EAUTH lists the sources that were tried, or says what is wrong
//          with the one that exists; SL_EUNAVAIL: a service did not answer, or
//          gives no keys any more; SL_ENOMEM. `err` may be NULL; a key that is
//          not given is empty, or untouched.
#ifndef HOST_STORE_CREDENTIALS_H
#define HOST_STORE_CREDENTIALS_H

#include <stdint.h>

#include "common/base/status.h"

struct credentials;

struct credential {
    char *id, *secret;  // owned
    char *token;        // owned; NULL: none
    uint64_t expires_s; // since 1970; 0: never
};

// Makes a keeper of keys, for credentials_free; `file`, which is copied, is the
// named file of source 1, or NULL. Reads no source yet. SL_ENOMEM.
enum sl_err credentials_new(struct credentials **out, const char *file,
                            struct sl_error *err);
// Wipes the key in use and frees the keeper. NULL is allowed.
void credentials_free(struct credentials *c);

// Copies the key in use to *out, for credential_release, after reading or
// renewing it where due. May wait for a service.
enum sl_err credentials_get(struct credentials *c, struct credential *out,
                            struct sl_error *err);

// Wipes and frees the key's strings and makes it all zeroes, which is allowed.
void credential_release(struct credential *key);

// Notes that a service refused the key in use, whichever that is by now: the
// next credentials_get reads it anew. While that fails the old one is given
// until its end; one without an end is given no more, and credentials_get
// fails. Waits while another thread reads the key.
void credentials_refused(struct credentials *c);

#endif
