// SPDX-License-Identifier: Apache-2.0
// What docs/wire.md says of numbers, against what the daemons compute.
#include <inttypes.h>
#include <stdio.h>
#include <stdlib.h>
#include <string.h>

#include "plan/order.h"
#include "plan/schedule.h"
#include "tests/harness/t.h"

static unsigned seen; // lines of each kind, as bits

static void check_mix64(const char *line)
{
    uint64_t x, want;

    T_EQ(sscanf(line, "mix64 %" SCNx64 " = %" SCNx64, &x, &want), 2);
    T_EQ(sl_mix64(x), want);
}

static void check_digest(const char *line)
{
    uint64_t epoch, sample, want;

    T_EQ(sscanf(line, "digest %" SCNu64 " %" SCNu64 " = %" SCNx64, &epoch,
                &sample, &want),
         3);
    T_EQ(schedule_digest(epoch, sample), want);
}

static void check_order(const char *line)
{
    uint64_t seed, epoch, n, position = 0;
    struct order o;
    char *at;

    T_EQ(sscanf(line, "order %" SCNu64 " %" SCNu64 " %" SCNu64, &seed, &epoch,
                &n),
         3);
    T_OK(order_init(&o, seed, epoch, n));
    at = strchr(line, '=') + 1;
    while (*at == ' ')
        T_EQ(order_at(&o, position++), strtoull(at, &at, 10));
    T_GE(position, n < 8 ? n : 8);
}

static void check_step(const char *line)
{
    struct schedule s = {.epochs = 100};
    uint64_t closure, epoch, first, count, got_first, got_count;
    uint32_t step;

    T_EQ(sscanf(line,
                "step %" SCNu64 " %" SCNu64 " %" SCNu64 " %" SCNu64 " %" SCNu32
                " = %" SCNu64 " %" SCNu64 " %" SCNu64,
                &s.samples, &s.batch, &s.steps_per_closure, &closure, &step,
                &epoch, &first, &count),
         8);
    T_OK(schedule_check(&s, t_err()));
    schedule_step_range(&s, closure, step, &got_first, &got_count);
    T_EQ(schedule_epoch(&s, closure), epoch);
    T_EQ(got_first, first);
    T_EQ(got_count, count);
}

static const struct {
    const char *word;
    void (*check)(const char *line);
} kinds[] = {{"mix64 ", check_mix64},
             {"digest ", check_digest},
             {"order ", check_order},
             {"step ", check_step}};

static void check_line(const char *line)
{
    for (size_t i = 0; i < SL_COUNT(kinds); i++) {
        if (strncmp(line, kinds[i].word, strlen(kinds[i].word)) != 0)
            continue;
        kinds[i].check(line);
        seen |= 1u << i;
        return;
    }
    T_FAIL("a vector of no kind: %s", line);
}

TEST(vectors, of_the_page)
{
    FILE *f = fopen(WIRE_PAGE, "re");
    bool inside = false;
    char line[1024];

    T_TRUE(f != NULL);
    while (fgets(line, sizeof(line), f) != NULL) {
        if (strncmp(line, "```", 3) == 0)
            inside = strcmp(line, "```vectors\n") == 0;
        else if (inside)
            check_line(line);
    }
    fclose(f);
    T_EQ(seen, (1u << SL_COUNT(kinds)) - 1);
}
