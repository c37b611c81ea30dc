// SPDX-License-Identifier: Apache-2.0
// tests/harness/pb_text.h -- a message as JSON's text.
//
// Threads  any.
// Errors   SL_ENOMEM; `out` may have a part of the text then.
#ifndef TESTS_HARNESS_PB_TEXT_H
#define TESTS_HARNESS_PB_TEXT_H

#include "common/base/json.h"
#include "proto/pbjson.h"

// Appends the text of `msg` to `out`, indented if `pretty`, else on one line,
// without a line end.
static inline enum sl_err pb_text(struct buf *out, const ProtobufCMessage *msg,
                                  bool pretty)
{
    json_t *value;
    enum sl_err rc = pbjson_write(&value, msg);

    if (rc != SL_OK)
        return rc;
    rc = sl_json_write(out, value, pretty);
    json_decref(value);
    return rc;
}

#endif
