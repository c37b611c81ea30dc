// SPDX-License-Identifier: Apache-2.0
// common/base/remote.h -- names of files that do not lie on this host:
// "s3://BUCKET/KEY" and "https://HOST/PATH".
//
// These are the words alone, for those that check a job's spec.
// host/place/places.h reads the files.
//
// Threads  any.
// Memory   paths are read only during the call; `err` may be NULL.
// Errors   SL_EINVAL says what a place looks like.
#ifndef COMMON_BASE_REMOTE_H
#define COMMON_BASE_REMOTE_H

#include <stdbool.h>

#include "common/base/status.h"

// Returns true if `path` names a place, well or badly: it begins with "s3://",
// "https://" or "http://".
bool remote_is(const char *path);

// Checks a place, for which remote_is is true, and which may be a pattern
// (common/base/paths.h): it has a bucket or host without a pattern and without
// '@', and a key or path. SL_EINVAL for any "http://", and at a web server for
// '?', '#' and, as it lists no names, '*'.
enum sl_err remote_check(const char *path, struct sl_error *err);

#endif
