// SPDX-License-Identifier: Apache-2.0
// client/show/report.h -- what a coordinator knows of one job as one page,
// which needs nothing else: the dashboard's files and the data in one.
//
// The page's policy names its two scripts and its style by their hashes, and
// allows nothing else; the data is no script.
//
// Threads  pure.
// Memory   text is appended to the caller's buffer.
// Errors   SL_ENOMEM; SL_ENOTSUP if libcrypto refuses SHA-256.
#ifndef CLIENT_SHOW_REPORT_H
#define CLIENT_SHOW_REPORT_H

#include <jansson.h>

#include "common/base/buf.h"
#include "common/base/status.h"

// Appends the page, HTML that any browser opens, with `data` in it: what the
// dashboard would ask the coordinator for; `data` is borrowed. After a failure
// *out is as it was.
enum sl_err report_page(struct buf *out, const json_t *data);

#endif
