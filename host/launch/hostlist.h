// SPDX-License-Identifier: Apache-2.0
// host/launch/hostlist.h -- Slurm's short form of many names: n[01-04,07].
//
//     list  = item {"," item}
//     item  = text and brackets in any order
//     bracket = "[" range {"," range} "]"
//     range = number | number "-" number
//     text  = letters, digits, ".", "-" and "_"; number = 1 to 9 digits
//
// Numbers keep their zeroes in front; several brackets of an item multiply, the
// last one fastest: r[1-2]n[0-1] is r1n0 r1n1 r2n0 r2n1.
//
// Threads  one at a time.
// Memory   hostlist_release frees; HOSTLIST_INIT or all zeroes is empty.
// Units    names; bytes.
// Errors   SL_EINVAL with `what:column: reason`; SL_ERANGE over a limit;
//          SL_ENOMEM. The list is left as it was; `err` may be NULL.
#ifndef HOST_LAUNCH_HOSTLIST_H
#define HOST_LAUNCH_HOSTLIST_H

#include <stddef.h>

#include "common/base/buf.h"
#include "common/base/status.h"

#define HOSTLIST_NAMES_MAX 65536
#define HOSTLIST_TEXT_MAX 65536
#define HOSTLIST_BYTES_MAX (4 << 20) // limit of an item's names
#define HOSTLIST_NAME_MAX 253

struct hostlist {
    struct buf names; // each ended by a 0
    size_t count;     // number of names
};
#define HOSTLIST_INIT                                                          \
    {                                                                          \
        BUF_INIT, 0                                                            \
    }

// Reads `text` as a list, in place of what *out holds; `what` names the text in
// errors. *out is for hostlist_release. "" is SL_EINVAL; a name may come twice.
enum sl_err hostlist_read(struct hostlist *out, const char *what,
                          const char *text, struct sl_error *err);
// Frees the names and leaves an empty list.
void hostlist_release(struct hostlist *list);

// Returns name `i` < count, which lives as long as the list.
const char *hostlist_at(const struct hostlist *list, size_t i);

#endif
