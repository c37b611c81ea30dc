// SPDX-License-Identifier: Apache-2.0
// Whole lives of jobs, by seed: see sim.h.
//
//   SIM_SEED=n   runs that seed alone
//   SIM_SEEDS=n  how many seeds the long test runs
//   SIM_FIRST=n  from which
#include "common/run/log.h"
#include "tests/sim/sim.h"

// Virtual time after which a healed job must have finished.
#define LIMIT_US (300 * SIM_SECOND)

#if defined(__SANITIZE_ADDRESS__) || defined(__SANITIZE_THREAD__)
#define SEEDS 100
#else
#define SEEDS 2000
#endif

static uint64_t setting(const char *name, uint64_t otherwise)
{
    const char *text = getenv(name);

    return text == NULL ? otherwise : strtoull(text, NULL, 10);
}

static void again(const char *test, uint64_t seed)
{
    char text[128];

    snprintf(text, sizeof(text), "SIM_SEED=%llu %s %s",
             (unsigned long long)seed, "build/bin/sim.life", test);
    t_again(text);
}

static void add(struct seen *to, const struct seen *from)
{
#define SEEN_ADD(name) to->name += from->name;
    SEEN_MAP(SEEN_ADD)
#undef SEEN_ADD
}

static void print(const struct seen *seen)
{
#define SEEN_PRINT(name)                                                       \
    printf("    %-14s %llu\n", #name, (unsigned long long)seen->name);
    SEEN_MAP(SEEN_PRINT)
#undef SEEN_PRINT
}

// One life; what it saw is added to *seen. The trace.
static uint64_t live(uint64_t seed, enum sim_mode mode, struct seen *seen)
{
    struct sim *s = sim_new(seed, mode);
    uint64_t trace;

    if (!sim_run(s, s->knobs.faults_us)) {
        sim_heal(s);
        if (!sim_run(s, LIMIT_US))
            T_FAIL("live: the job stands still, %s", sim_story(s));
    }
    sim_check_end(s);
    add(seen, &s->seen);
    trace = s->trace;
    sim_free(s);
    return trace;
}

static void live_quietly(enum sim_mode mode)
{
    log_set_level(LOG_LEVEL_ERROR);
    for (uint64_t seed = t_seed(); seed < t_seed() + 20; seed++) {
        struct sim *s = sim_new_quiet(seed, mode);

        if (!sim_run(s, LIMIT_US))
            T_FAIL("live: the job stands still, %s", sim_story(s));
        sim_check_end(s);
        sim_run(s, 3 * SIM_SECOND);
        sim_check_collected(s);
        T_EQ(s->seen.refused, 0);
        T_EQ(s->seen.duplicates, 0);
        T_EQ(s->seen.fallbacks, 0);
        T_EQ(s->seen.counted, schedule_steps(&s->knobs.schedule) * s->shards);
        sim_free(s);
    }
}

TEST(life, quiet_jobs_finish_with_honest_numbers)
{
    live_quietly(SIM_ASYNC);
}

TEST(life, quiet_jobs_in_sync_finish_with_honest_numbers)
{
    live_quietly(SIM_SYNC);
}

TEST(life, the_same_seed_is_the_same_run)
{
    struct seen seen = {0};
    uint64_t before = 0, first, second;

    log_set_level(LOG_LEVEL_ERROR);
    for (uint64_t seed = t_seed(); seed < t_seed() + 8; seed++) {
        enum sim_mode mode = seed % 2 == 0 ? SIM_ASYNC : SIM_SYNC;

        again("same_seed", seed);
        first = live(seed, mode, &seen);
        second = live(seed, mode, &seen);
        T_EQ(first, second);
        T_NE(first, before);
        before = first;
    }
}

static void nothing(void *arg, enum log_level level, const char *line,
                    size_t len)
{
}

// A test that tries nothing proves nothing: this much, per seed on average and
// in permille, came to pass.
static void enough(const struct seen *s, enum sim_mode mode, uint64_t seeds)
{
    static const struct {
        const char *name;
        size_t at;
        uint64_t permille[2]; // async, sync
    } least[] = {
#define APART(name, async, sync)                                               \
    {                                                                          \
#name, offsetof(struct seen, name),                                    \
        {                                                                      \
            async, sync                                                        \
        }                                                                      \
    }
#define LEAST(name, permille) APART(name, permille, permille)
        LEAST(calls, 50000),       LEAST(lost, 5000),
        LEAST(replayed, 5000),     LEAST(replayed_late, 1000),
        LEAST(rubbish, 500),       LEAST(rejected, 400),
        LEAST(echoes, 300),        LEAST(intents, 20),
        LEAST(clogs, 1000),        LEAST(partitions, 1000),
        LEAST(half_open, 500),     LEAST(breaks, 1000),
        LEAST(read_faults, 500),   LEAST(write_faults, 400),
        LEAST(power_cuts, 1000),   LEAST(disks_lost, 10),
        LEAST(kills, 1000),        LEAST(pauses, 1000),
        LEAST(zombies, 500),       LEAST(boss_kills, 500),
        LEAST(double_kills, 100),  LEAST(drains, 500),
        LEAST(counted, 50000),     APART(duplicates, 1000, 500),
        LEAST(refused, 500),       LEAST(skipped, 200),
        LEAST(unadmitted, 100),    LEAST(admissions, 2000),
        LEAST(renewals, 500),      LEAST(fallbacks, 1000),
        LEAST(cuts, 2000),         LEAST(evaluations, 500),
        LEAST(completions, 10000), LEAST(void_evidence, 500),
        APART(held, 0, 20000),     APART(copies, 0, 500),
        APART(rounds, 0, 20000),   APART(backups, 0, 4000),
#undef LEAST
#undef APART
    };

    for (size_t i = 0; i < SL_COUNT(least); i++) {
        uint64_t got =
            *(const uint64_t *)(const void *)((const char *)s + least[i].at);

        if (got * 1000 < least[i].permille[mode] * seeds)
            T_FAIL("only %llu %s in %llu seeds: too little was tried",
                   (unsigned long long)got, least[i].name,
                   (unsigned long long)seeds);
    }
}

static void live_all(enum sim_mode mode, const char *test)
{
    uint64_t seeds = setting("SIM_SEEDS", SEEDS);
    uint64_t first = setting("SIM_FIRST", t_seed());
    struct seen seen = {0};

    if (getenv("SIM_SEED") != NULL) {
        first = setting("SIM_SEED", 0);
        seeds = 1;
    } else {
        log_set_sink(nothing, NULL);
    }
    for (uint64_t seed = first; seed < first + seeds; seed++) {
        again(test, seed);
        live(seed, mode, &seen);
    }
    log_set_sink(NULL, NULL);
    printf("%llu seeds from %llu:\n", (unsigned long long)seeds,
           (unsigned long long)first);
    print(&seen);
    if (seeds >= 100)
        enough(&seen, mode, seeds);
}

TEST(life, live_whatever_happens_the_job_finishes_and_all_holds)
{
    live_all(SIM_ASYNC, "live");
}

TEST(life, sync_whatever_happens_rounds_are_whole_and_all_holds)
{
    live_all(SIM_SYNC, "sync_what");
}
