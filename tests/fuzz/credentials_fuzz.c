// SPDX-License-Identifier: Apache-2.0
// Keys for S3: a file of profiles, or what a metadata service or STS answers.
// Byte 0: which. What is taken can be a line of a request.
#include "common/base/mem.h"
#include "host/store/credentials_inner.h"
#include "tests/fuzz/fuzz.h"

static void check_line(const char *text)
{
    FUZZ_TRUE(text != NULL);
    for (; *text != '\0'; text++)
        FUZZ_TRUE(*text > ' ' && *text <= '~');
}

int LLVMFuzzerTestOneInput(const uint8_t *data, size_t size)
{
    struct credential key = {NULL, NULL, NULL, 0};
    struct sl_error err = SL_ERROR_INIT;
    char *text;
    enum sl_err rc;

    if (size == 0)
        return 0;
    text = sl_strndup((const char *)data + 1, size - 1);
    FUZZ_TRUE(text != NULL);
    if (data[0] == '2')
        rc = credential_from_sts(&key, text, strlen(text), "there", &err);
    else if (data[0] & 1)
        rc = credential_from_json(&key, text, strlen(text), "there", &err);
    else
        rc = credential_parse(&key, "file", text, "default", &err);
    if (rc == SL_OK) {
        check_line(key.id);
        check_line(key.secret);
        if (key.token != NULL)
            check_line(key.token);
    } else {
        fuzz_refused(rc, &err);
        FUZZ_TRUE(key.id == NULL && key.secret == NULL && key.token == NULL);
    }
    credential_release(&key);
    sl_free(text);
    return 0;
}
