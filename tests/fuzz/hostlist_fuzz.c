// SPDX-License-Identifier: Apache-2.0
// Slurm's short form of many names.
#include "host/launch/hostlist.h"

#include "common/base/buf.h"
#include "tests/fuzz/fuzz.h"

#define SHORT 16 // names whose list is read again

// The names, written out, are the same list.
static void check_again(const struct hostlist *list)
{
    struct hostlist again = HOSTLIST_INIT;
    struct buf text = BUF_INIT;

    for (size_t i = 0; i < list->count; i++) {
        size_t n = strlen(hostlist_at(list, i));

        FUZZ_TRUE(n > 0 && n <= HOSTLIST_NAME_MAX);
        FUZZ_TRUE(buf_appendf(&text, "%s%s", i > 0 ? "," : "",
                              hostlist_at(list, i)) == SL_OK);
    }
    FUZZ_TRUE(hostlist_read(&again, "again", buf_text(&text), NULL) == SL_OK);
    FUZZ_TRUE(again.count == list->count);
    FUZZ_TRUE(again.names.len == list->names.len &&
              memcmp(again.names.data, list->names.data, list->names.len) == 0);
    hostlist_release(&again);
    buf_release(&text);
}

int LLVMFuzzerTestOneInput(const uint8_t *data, size_t size)
{
    struct sl_error err = SL_ERROR_INIT;
    struct hostlist list;
    struct buf text = BUF_INIT;
    enum sl_err rc;

    FUZZ_TRUE(buf_append(&text, data, size) == SL_OK);
    list = (struct hostlist)HOSTLIST_INIT;
    rc = hostlist_read(&list, "NODES", buf_text(&text), &err);
    if (rc == SL_OK) {
        FUZZ_TRUE(list.count > 0 && list.count <= HOSTLIST_NAMES_MAX);
        if (list.count <= SHORT)
            check_again(&list);
        hostlist_release(&list);
    } else {
        fuzz_refused(rc, &err);
        FUZZ_TRUE(rc == SL_EINVAL || rc == SL_ERANGE);
        FUZZ_TRUE(list.count == 0 && list.names.data == NULL);
    }
    buf_release(&text);
    return 0;
}
