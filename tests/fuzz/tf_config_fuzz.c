// SPDX-License-Identifier: Apache-2.0
// TF_CONFIG of a TensorFlow cluster.
#include "host/launch/tf_config.h"

#include "common/base/buf.h"
#include "common/net/rpc.h"
#include "tests/fuzz/fuzz.h"

#define UNTOUCHED 0xa5

// Every address can be dialled, and this task is one of those that are listed;
// a map may lack others.
static void check_lists(const struct tf_config *tf)
{
    for (enum tf_type type = TF_CHIEF; type < TF_TYPES; type++)
        for (unsigned i = 0; i < tf_config_count(tf, type); i++)
            FUZZ_TRUE((json_is_object(tf->lists[type]) &&
                       tf_config_address(tf, type, i) == NULL) ||
                      rpc_address_check(tf_config_address(tf, type, i), NULL) ==
                          SL_OK);
    FUZZ_TRUE(tf_config_count(tf, TF_CHIEF) <= 1);
    FUZZ_TRUE(tf->index < tf_config_count(tf, tf->type) ||
              (tf->type == TF_EVALUATOR && tf->lists[tf->type] == NULL));
}

// What jansson writes of it is the same.
static void check_again(const struct tf_config *tf)
{
    struct tf_config again = {.root = NULL};
    struct buf text = BUF_INIT;

    FUZZ_TRUE(sl_json_write(&text, tf->root, false) == SL_OK);
    if (text.len <= TF_BYTES_MAX) {
        FUZZ_TRUE(tf_config_read(&again, buf_text(&text), text.len, NULL) ==
                  SL_OK);
        FUZZ_TRUE(again.type == tf->type && again.index == tf->index);
        tf_config_release(&again);
    }
    buf_release(&text);
}

int LLVMFuzzerTestOneInput(const uint8_t *data, size_t size)
{
    struct sl_error err = SL_ERROR_INIT;
    struct tf_config tf;
    enum sl_err rc;

    memset(&tf, UNTOUCHED, sizeof(tf));
    fuzz_budget(((size_t)1 << 16) + 64 * size);
    rc = tf_config_read(&tf, (const char *)data, size, &err);
    fuzz_budget(SIZE_MAX);
    if (rc == SL_OK) {
        check_lists(&tf);
        check_again(&tf);
        tf_config_release(&tf);
    } else {
        fuzz_refused(rc, &err);
        FUZZ_TRUE(rc == SL_EINVAL || rc == SL_ERANGE);
        FUZZ_TRUE(fuzz_all(&tf, UNTOUCHED, sizeof(tf)));
    }
    return 0;
}
