// SPDX-License-Identifier: Apache-2.0
// client/spec/fields.h -- proto/job.proto, as it was at the build: what its
// comments say of a field. Types are the descriptors' business.
//
// Threads  any.
// Memory   in the caller's buffer.
#ifndef CLIENT_SPEC_FIELDS_H
#define CLIENT_SPEC_FIELDS_H

#include <stddef.h>

#include "common/base/buf.h"

extern const unsigned char job_proto[]; // a 0 follows the text
extern const size_t job_proto_len;      // bytes, without it

// Sets `out`, which is empty, to the comment lines right before field `field`
// of message `message` in job.proto and the one behind it, without slashes and
// with a line end between them; leaves it empty if there are none. SL_ENOENT:
// the file has no such field; SL_ENOMEM. After a failure `out` is empty, or
// holds a part.
enum sl_err fields_comment(struct buf *out, const char *message,
                           const char *field);

#endif
