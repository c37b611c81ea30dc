// SPDX-License-Identifier: Apache-2.0
#include "proto/logged.h"

#include <string.h>

#include "common/run/log.h"
#include "tests/harness/t.h"

static uint8_t space[WIRE_LOG_BYTES];

static void swallow(void *arg, enum log_level level, const char *line,
                    size_t len)
{
}

// Messages of the lines behind *after, "first,second,".
static const char *take(uint64_t *after, uint64_t job, bool *more)
{
    static char names[256];
    Sluice__V1__LogLines lines = logged_take(space, *after, job);
    const char *at = (const char *)lines.text.data;
    const char *end = at + lines.text.len;

    names[0] = '\0';
    for (; at < end;
         at = (const char *)memchr(at, '\n', (size_t)(end - at)) + 1) {
        const char *msg = strstr(at, "\"msg\":\"") + 7;
        size_t n = strlen(names), size = (size_t)(strchr(msg, '"') - msg);

        T_LT(n + size + 2, sizeof(names));
        memcpy(names + n, msg, size);
        memcpy(names + n + size, ",", 2);
    }
    *after = lines.last;
    if (more != NULL)
        *more = lines.more;
    return names;
}

// Begins to log for a test. Returns the number of the last line before: lines
// of other tests may be kept still.
static uint64_t begin(void)
{
    Sluice__V1__LogLines lines = SLUICE__V1__LOG_LINES__INIT;

    log_init(LOG_FORMAT_JSON, LOG_LEVEL_INFO, "worker", "w-0");
    log_set_sink(swallow, NULL);
    LOG(INFO, "before", "job=%d", 7);
    do
        lines = logged_take(space, lines.last, 0);
    while (lines.more);
    return lines.last;
}

TEST(logged, a_job_is_a_number_or_an_id_and_no_text)
{
    uint64_t from = begin(), after = from;

    LOG(INFO, "number", "job=%d", 7);
    LOG(INFO, "id", "job=j-%d why=%s", 7, "x");
    LOG(INFO, "longer", "job=%d", 77);
    LOG(INFO, "longer-id", "job=j-%d", 70);
    LOG(INFO, "text", "why=%s", "it said \"job\":7, and \"job\":\"j-7\"");
    LOG(INFO, "none");
    T_STR(take(&after, 7, NULL), "number,id,");
    T_STR(take(&after, 7, NULL), "");
    after = from;
    T_STR(take(&after, 70, NULL), "longer-id,");
    after = from;
    T_STR(take(&after, 0, NULL), "number,id,longer,longer-id,text,none,");
}

// Nothing of the job in one piece does not say that nothing comes.
TEST(logged, there_is_more_until_there_is_not)
{
    static char text[LOG_LINE / 2];
    uint64_t after = begin();
    bool more = true;
    unsigned pieces = 0;

    memset(text, 'x', sizeof(text) - 1);
    for (size_t bytes = 0; bytes < LOG_KEPT / 2; bytes += sizeof(text))
        LOG(INFO, "long", "text=%s", text);
    LOG(INFO, "last", "job=%d", 9);
    while (more) {
        const char *names = take(&after, 9, &more);

        T_STR(names, more ? "" : "last,");
        pieces++;
    }
    T_GT(pieces, 2);
}
