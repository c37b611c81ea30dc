// SPDX-License-Identifier: Apache-2.0
// An environment, a variable a line, as every source and as auto.
#include "host/launch/launch.h"

#include "common/base/buf.h"
#include "common/net/rpc.h"
#include "tests/fuzz/fuzz.h"

#define UNTOUCHED 0xa5
#define VARS 32

static enum sl_err resolve(struct launch_host *out, const char *name,
                           struct sl_error *err)
{
    if (strlen(name) % 7 == 3)
        return sl_fail(err, SL_EUNAVAIL, "'%s' does not resolve", name);
    *out = (struct launch_host){.count = 1, .loopback = strlen(name) % 2 == 0};
    snprintf(out->full, sizeof(out->full), "%s", name);
    return SL_OK;
}

// Splits at newlines, in place.
static void split(char *env[VARS + 1], char *text)
{
    size_t n = 0;

    while (n < VARS && *text != '\0') {
        char *end = text + strcspn(text, "\n");

        env[n++] = text;
        if (*end == '\0')
            break;
        *end = '\0';
        text = end + 1;
    }
    env[n] = NULL;
}

// What a daemon is told it can read, and anything can be printed.
static void check_plan(const struct launch_plan *plan)
{
    struct launch_setting told[LAUNCH_SETTINGS];
    unsigned n = launch_settings(told, plan);
    struct buf out = BUF_INIT;
    json_t *json = launch_json(plan);

    FUZZ_TRUE(json != NULL);
    FUZZ_TRUE(plan->role != LAUNCH_NO_ROLE && plan->source != LAUNCH_AUTO);
    for (unsigned i = 0; i < n; i++)
        FUZZ_TRUE(strcmp(told[i].key, "name") == 0 ||
                  rpc_address_check(told[i].value, NULL) == SL_OK);
    FUZZ_TRUE(plan->role == LAUNCH_EVALUATOR || plan->coordinator[0] != '\0');
    FUZZ_TRUE(plan->name[0] != '\0' && plan->from[0] != '\0');
    FUZZ_TRUE(launch_line(&out, plan) == SL_OK);
    FUZZ_TRUE(launch_text(&out, plan) == SL_OK);
    json_decref(json);
    buf_release(&out);
}

static void find(char *const *env, enum launch_source source,
                 enum launch_role role)
{
    const struct launch_asked asked = {.source = source,
                                       .role = role,
                                       .psservers = 1,
                                       .port = 7070,
                                       .service = "coordinator",
                                       .host = "here",
                                       .env = env,
                                       .resolve = resolve};
    struct sl_error err = SL_ERROR_INIT;
    struct launch_plan plan;
    enum sl_err rc;

    memset(&plan, UNTOUCHED, sizeof(plan));
    rc = launch_find(&plan, &asked, &err);
    if (rc == SL_OK) {
        check_plan(&plan);
    } else {
        fuzz_refused(rc, &err);
        FUZZ_TRUE(fuzz_all(&plan, UNTOUCHED, sizeof(plan)));
    }
}

int LLVMFuzzerTestOneInput(const uint8_t *data, size_t size)
{
    char *env[VARS + 1];
    struct buf text = BUF_INIT;

    FUZZ_TRUE(buf_append(&text, data, size) == SL_OK);
    FUZZ_TRUE(buf_append_char(&text, '\0') == SL_OK);
    split(env, (char *)text.data);
    for (int source = LAUNCH_AUTO; source <= LAUNCH_DNS; source++) {
        find(env, (enum launch_source)source, LAUNCH_NO_ROLE);
        find(env, (enum launch_source)source, LAUNCH_WORKER);
    }
    buf_release(&text);
    return 0;
}
