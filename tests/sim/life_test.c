// SPDX-License-Identifier: Apache-2.0
// Whole lives of jobs, by seed: see sim.h.
//
//   SIM_SEED=n   runs that seed alone
//   SIM_SEEDS=n  how many seeds the long test runs
//   SIM_FIRST=n  from which
//   SIM_FLIPS=n  how many results in a thousand are wrong, to be found
//   SOAK_LOSSES=n  how many workers the soak loses: a month has 100000
#include "common/run/log.h"
#include "tests/sim/soak.h"

// Virtual time after which a healed job must have finished.
#define LIMIT_US (300 * SIM_SECOND)

// The sanitizer asks of each path, not how often it is taken: the plain build
// does.
#if defined(__SANITIZE_ADDRESS__)
#define SEEDS 40
#define AUDITED_LIVES 40
#define SOAK_LOSSES 200
#define WRONG_LIVES 4
#else
#define SEEDS 300
#define AUDITED_LIVES 120
#define SOAK_LOSSES 1000
#define WRONG_LIVES 20
#endif
#define SEEDS_HYBRID (SEEDS * 3 / 4) // its jobs take longer

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

// The life of s; what it saw is added to *seen. The trace.
static uint64_t live_out(struct sim *s, struct seen *seen)
{
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

static uint64_t live(uint64_t seed, enum sim_mode mode, struct seen *seen)
{
    return live_out(sim_new(seed, mode), seen);
}

// Neither grows with what was lost: from a tenth of it on they are the same,
// but for what happens to be under way, until the coordinator is killed.
static void check_flat(const struct soak *k)
{
    const struct soak_books *early = &k->at[SOAK_PARTS / 10];
    const struct soak_books *late = &k->at[SOAK_PARTS - 1];

    T_GE(k->count, SOAK_PARTS);
    T_LE(late->allocations, early->allocations + early->allocations / 4);
    T_LE(late->bytes, early->bytes + early->bytes / 4);
}

static void live_quietly(enum sim_mode mode)
{
    unsigned least;

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
        // Of each shard, or of each rank: those who came late have copied.
        least = mode == SIM_RING ? 1 : s->shards;
        T_GE(s->seen.counted, schedule_steps(&s->knobs.schedule) * least);
        T_TRUE(mode == SIM_RING ||
               s->seen.counted ==
                   schedule_steps(&s->knobs.schedule) * s->shards);
        T_EQ(s->seen.broken, 0);
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

TEST(life, quiet_jobs_in_allreduce_finish_with_honest_numbers)
{
    live_quietly(SIM_RING);
}

TEST(life, quiet_jobs_with_open_rounds_finish_with_honest_numbers)
{
    live_quietly(SIM_OPEN);
}

TEST(life, quiet_jobs_in_hybrid_finish_with_honest_numbers)
{
    live_quietly(SIM_HYBRID);
}

TEST(life, the_same_seed_is_the_same_run)
{
    struct seen seen = {0};
    uint64_t before = 0, first, second;

    log_set_level(LOG_LEVEL_ERROR);
    for (uint64_t seed = t_seed(); seed < t_seed() + 8; seed++) {
        static const enum sim_mode modes[] = {SIM_ASYNC, SIM_SYNC, SIM_RING,
                                              SIM_HYBRID, SIM_OPEN};
        enum sim_mode mode = modes[seed % SL_COUNT(modes)];

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

#define RARE 10

// A test that tries nothing proves nothing: this much, per seed on average and
// in permille, came to pass.
struct least {
    const char *name;
    size_t at;
    uint64_t permille[4]; // async, sync, allreduce, hybrid
};

#define APART(name, async, sync, ring, hybrid)                                 \
    {                                                                          \
#name, offsetof(struct seen, name),                                    \
        {                                                                      \
            async, sync, ring, hybrid                                          \
        }                                                                      \
    }

static const struct least leasts[] = {
    APART(calls, 50000, 50000, 200000, 100000),
    APART(lost, 5000, 5000, 8000, 3000),
    APART(replayed, 5000, 5000, 0, 3000),
    APART(replayed_late, 1000, 1000, 0, 800),
    APART(rubbish, 500, 500, 0, 300),
    APART(rejected, 400, 400, 0, 300),
    APART(echoes, 300, 300, 0, 300),
    APART(intents, 20, 20, 10, 10),
    APART(clogs, 1000, 1000, 1000, 1000),
    APART(partitions, 1000, 1000, 1000, 1000),
    APART(half_open, 500, 500, 500, 500),
    APART(breaks, 1000, 1000, 1000, 1000),
    APART(read_faults, 500, 500, 500, 500),
    APART(write_faults, 400, 400, 200, 400),
    APART(power_cuts, 1000, 1000, 1000, 1000),
    APART(disks_lost, 10, 10, 0, 10),
    APART(kills, 1000, 1000, 1000, 1000),
    APART(pauses, 1000, 1000, 1000, 1000),
    APART(zombies, 500, 500, 500, 500),
    APART(boss_kills, 500, 500, 500, 500),
    APART(double_kills, 100, 100, 100, 100),
    APART(drains, 500, 500, 500, 500),
    APART(counted, 50000, 50000, 40000, 25000),
    APART(duplicates, 1000, 500, 0, 400),
    APART(refused, 500, 500, 0, 200),
    APART(skipped, 200, 200, 0, 200),
    APART(unadmitted, 100, 100, 0, 50),
    APART(admissions, 2000, 2000, 0, 2000),
    APART(renewals, 500, 500, 0, 500),
    APART(fallbacks, 1000, 1000, 0, 1000),
    APART(cuts, 2000, 2000, 1500, 2000),
    APART(evaluations, 500, 500, 500, 500),
    APART(completions, 10000, 10000, 1500, 8000),
    APART(void_evidence, 500, 500, 0, 500),
    APART(by_range, 5000, 0, 0, 0),
    APART(rows, 10000, 0, 0, 0),
    APART(round_waits, 0, 10000, 0, 0),
    APART(before_round, 0, 1000, 0, 0),
    APART(broken_links, 10, 50, 0, 0),
    APART(held, 0, 20000, 0, 0),
    APART(copies, 0, 500, 0, 0),
    APART(rounds, 0, 20000, 0, 0),
    APART(backups, 0, 4000, 0, 0),
    APART(ahead, 0, 1000, 0, 0),
    APART(repeats, 5000, 10000, 5000, 0),
    APART(flips, 50, 200, 50, 0),
    APART(doubtful, 20, 0, 0, 0),
    APART(suspects, 10, 10, 10, 0),
    APART(far, 0, 500, 0, 0),
    APART(generations, 0, 0, 5000, 0),
    APART(ring_rounds, 0, 0, 15000, 0),
    APART(base_files, 0, 0, 100, 0),
    APART(base_copies, 0, 0, 2500, 0), // by ranks that did not hold it
    APART(copied_ahead, 0, 0, 1000, 0),
    APART(died_copying, 0, 0, 20, 0),
    APART(broken, 0, 0, 400, 400),
    APART(groups, 0, 0, 0, 5000),
    APART(group_steps, 0, 0, 0, 5000),
    APART(lost_steps, 0, 0, 0, 1000),
    APART(parted, 0, 0, 0, 500),
    APART(shares, 0, 0, 0, 5000),
};

static void enough(const struct seen *s, enum sim_mode mode, uint64_t seeds)
{
    for (size_t i = 0; i < SL_COUNT(leasts); i++) {
        uint64_t got =
            *(const uint64_t *)(const void *)((const char *)s + leasts[i].at);
        uint64_t least = leasts[i].permille[mode] * seeds / 1000;

        // Few seeds say nothing of what is rare.
        if (got < least && least >= RARE)
            T_FAIL("only %llu %s in %llu seeds: too little was tried",
                   (unsigned long long)got, leasts[i].name,
                   (unsigned long long)seeds);
    }
}

static void live_all(enum sim_mode mode, const char *test, uint64_t seeds)
{
    uint64_t first = setting("SIM_FIRST", t_seed());
    struct seen seen = {0};

    seeds = setting("SIM_SEEDS", seeds);
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
    live_all(SIM_ASYNC, "live", SEEDS);
}

TEST(life, sync_whatever_happens_rounds_are_whole_and_all_holds)
{
    live_all(SIM_SYNC, "sync_what", SEEDS);
}

TEST(life, open_whatever_happens_each_contribution_is_in_one_round)
{
    uint64_t first = setting("SIM_FIRST", t_seed());
    uint64_t seeds = setting("SIM_SEEDS", SEEDS / 4);
    struct seen seen = {0};

    log_set_sink(nothing, NULL);
    for (uint64_t seed = first; seed < first + seeds; seed++) {
        again("open_what", seed);
        live(seed, SIM_OPEN, &seen);
    }
    log_set_sink(NULL, NULL);
    printf("    %llu lives: %llu held, %llu rounds, %llu of them ended by a "
           "message\n",
           (unsigned long long)seeds, (unsigned long long)seen.held,
           (unsigned long long)seen.rounds, (unsigned long long)seen.told);
    if (seeds >= 100) {
        T_GE(seen.held, 10 * seeds);
        T_GE(seen.told, seeds);
        T_GT(seen.rounds, seen.told + seeds);
        T_GE(seen.fallbacks, seeds);
    }
}

// Two rounds of four, each of which one contribution skips: that is chance,
// but no parameter has moved, so the job has failed. All else holds of it. A
// change of what a life asks of its disk wants another seed: the first of 1, 2,
// ... whose life is of this kind.
TEST(life, rounds_that_are_all_skipped_fail_the_job_at_its_end)
{
    const uint64_t seed = 1161;
    struct seen seen = {0};

    log_set_sink(nothing, NULL);
    again("sync_what", seed);
    live(seed, SIM_SYNC, &seen);
    log_set_sink(NULL, NULL);
    T_GE(seen.skipped, 4);
    T_EQ(seen.all_skipped, 1);
}

// With one wrong worker no other is ever blamed (boss.c looks after each call),
// and the counts are exact: whatever the mode, with workers that come late and
// hosts of several kinds. SIM_MODE=n lives in one mode alone.
static void blame_nobody(enum sim_mode mode, uint64_t seeds)
{
    static const char *const names[] = {"async", "sync", "allreduce", "hybrid"};
    uint64_t first = setting("SIM_FIRST", t_seed());
    struct seen seen = {0};

    for (uint64_t seed = first; seed < first + seeds; seed++) {
        again("audits_what", seed);
        (void)live_out(sim_new_wrong(seed, mode), &seen);
    }
    printf("    %llu lives in %s: %llu results compared, %llu wrong ones "
           "given, %llu workers found\n",
           (unsigned long long)seeds, names[mode],
           (unsigned long long)seen.audits, (unsigned long long)seen.flips,
           (unsigned long long)seen.suspects);
    if (seeds >= 100) // few seeds say nothing of what is rare
        T_GE(seen.suspects * 10, seeds);
}

TEST(life, audits_whatever_happens_blame_no_worker_that_is_right)
{
    log_set_sink(nothing, NULL);
    for (enum sim_mode mode = SIM_ASYNC; mode <= SIM_HYBRID; mode++)
        if (setting("SIM_MODE", mode) == mode)
            blame_nobody(mode, setting("SIM_SEEDS", SEEDS / 20));
    log_set_sink(NULL, NULL);
}

#define WRONG_FLIPS 25 // permille

// What it took to find the worker, in one life.
struct taken {
    uint64_t audits, results, wrong;
};

static int by_audits(const void *a, const void *b)
{
    const struct taken *x = a, *y = b;

    return (x->audits > y->audits) - (x->audits < y->audits);
}

static void print_taken(const struct sim_audited *how, struct taken *t,
                        uint64_t n)
{
    static const char *const names[] = {"a bit flips", "a lane is stuck",
                                        "a core rounds wrongly"};
    struct taken sum = {0};

    qsort(t, n, sizeof(*t), by_audits);
    for (uint64_t i = 0; i < n; i++) {
        sum.audits += t[i].audits;
        sum.results += t[i].results;
        sum.wrong += t[i].wrong;
    }
    printf("    %s (%u permille), rounds of %u (0: async), %u kinds: %llu of "
           "%llu found, after %.0f "
           "audits (95 %%: %llu), in %.1f results of it, %.1f of them wrong\n",
           names[how->wrong], how->wrong == SIM_FLIP ? how->flips : 1000,
           how->contributions, how->kinds == 0 ? 1 : how->kinds,
           (unsigned long long)n, (unsigned long long)n,
           (double)sum.audits / (double)n,
           (unsigned long long)t[(n * 95 + 99) / 100 - 1].audits,
           (double)sum.results / (double)n, (double)sum.wrong / (double)n);
    // The first wrong result tells where two others computed the slot, and the
    // second one where one did, unless it was the same; a lease has three. By
    // hosts of other kinds it is told if one of the higher bits is wrong.
    T_LE(sum.wrong, (how->wrong == SIM_FLIP ? 1 : 3) * 3 * n *
                        (how->contributions == 2 ? 2 : 1) *
                        (how->kinds > 1 ? 3 : 1));
}

// Runs the job until the worker is found.
static struct taken find_wrong(uint64_t seed, const struct sim_audited *how)
{
    struct sim *s = sim_new_audited(seed, how);
    struct taken t;

    while (s->seen.suspects == 0)
        if (sim_run(s, SIM_SECOND))
            T_FAIL("the job has finished, and the worker is not found");
    t = (struct taken){s->seen.audits, s->seen.repeats_wrong, s->seen.flips};
    sim_free(s);
    return t;
}

// Finds the worker in each of many lives, in rounds of `size`, and prints what
// it took; 0: async. SIM_SEEDS=200 SIM_FLIPS=1 makes the figures of
// docs/modes.md.
static void find_in_lives(unsigned wrong, unsigned size, unsigned kinds)
{
    uint64_t lives = setting("SIM_SEEDS", WRONG_LIVES);
    unsigned flips = (unsigned)setting("SIM_FLIPS", WRONG_FLIPS);
    struct taken *taken = calloc(lives, sizeof(*taken));
    struct soak soak = {.minutes = 1u << 30}; // nobody dies
    struct sim_audited how = {.mode = size == 0 ? SIM_ASYNC : SIM_SYNC,
                              .wrong = (enum sim_wrong)wrong,
                              .contributions = size,
                              .kinds = kinds,
                              .soak = &soak};

    T_ASSERT(taken != NULL && lives > 0 && flips > 0);
    how.flips = flips;
    how.closures = 50 * 1000 / flips * (size == 0 ? 1 : size);
    for (uint64_t i = 0; i < lives; i++)
        taken[i] = find_wrong(t_seed() + i, &how);
    print_taken(&how, taken, lives);
    free(taken);
}

TEST(life, A2_A6_audits_find_a_worker_that_is_wrong)
{
    log_set_sink(nothing, NULL);
    again("A2_A6_audits", t_seed());
    for (unsigned wrong = SIM_FLIP; wrong <= SIM_FMA; wrong++)
        for (unsigned size = 2; size <= 4; size++)
            find_in_lives(wrong, size, 0);
    log_set_sink(NULL, NULL);
}

// Two hosts are of one kind and two of another; or each is of its own.
TEST(life, A2_audits_find_a_worker_among_hosts_of_other_kinds)
{
    log_set_sink(nothing, NULL);
    again("A2_audits_find_a_worker_among", t_seed());
    for (unsigned size = 3; size <= 4; size++) {
        find_in_lives(SIM_FLIP, size, 2);
        find_in_lives(SIM_LANE, size, 2);
        find_in_lives(SIM_LANE, size, 4);
    }
    log_set_sink(NULL, NULL);
}

// In async it contradicts itself. A lane that is stuck is so both times: that
// is not found.
TEST(life, A5_a_worker_that_is_wrong_now_and_then_finds_itself)
{
    log_set_sink(nothing, NULL);
    again("A5_a_worker", t_seed());
    for (unsigned wrong = SIM_FLIP; wrong <= SIM_FMA; wrong++)
        if (wrong != SIM_LANE)
            find_in_lives(wrong, 0, 0);
    log_set_sink(NULL, NULL);
}

// Of a worker that gives a wrong result now and then nearly each one is found,
// and no other is; the counts are exact. Prints after how many wrong results.
static void find_in_short_lives(const struct sim_audited *how, const char *who)
{
    uint64_t wrong = 0, found = 0, flips = 0;

    log_set_sink(nothing, NULL);
    for (uint64_t seed = t_seed(); seed < t_seed() + AUDITED_LIVES; seed++) {
        struct sim *s = sim_new_audited(seed, how);

        if (!sim_run(s, LIMIT_US))
            T_FAIL("live: the job stands still, %s", sim_story(s));
        sim_check_end(s);
        wrong += s->seen.flips > 0;
        found += s->seen.suspects;
        flips += s->seen.flips;
        sim_free(s);
    }
    log_set_sink(NULL, NULL);
    printf("    %llu of %u %s gave a wrong result, %llu were found, after "
           "%.1f wrong ones each\n",
           (unsigned long long)wrong, AUDITED_LIVES, who,
           (unsigned long long)found, (double)flips / (double)found);
    T_GE(wrong, AUDITED_LIVES / 4);
    T_GE(found * 10, wrong * 9);
    T_LE(flips * 4, found * 5);
}

TEST(life, A2_audits_find_a_rank_that_is_wrong_now_and_then)
{
    const struct sim_audited how = {
        .mode = SIM_RING, .wrong = SIM_FLIP, .flips = 10, .contributions = 4};

    find_in_short_lives(&how, "ranks");
}

// By two other members; where groups are of one host, by its own word.
TEST(life, A2_A5_audits_find_a_member_that_is_wrong_now_and_then)
{
    struct sim_audited how = {
        .mode = SIM_HYBRID, .wrong = SIM_FLIP, .flips = 10};

    find_in_short_lives(&how, "members");
    how.by_host = true;
    find_in_short_lives(&how, "members of one host");
}

TEST(life, ring_whatever_happens_states_are_of_one_line_and_all_holds)
{
    live_all(SIM_RING, "ring_what", SEEDS);
}

TEST(life, hybrid_whatever_happens_only_leaders_compute_and_all_holds)
{
    live_all(SIM_HYBRID, "hybrid_what", SEEDS_HYBRID);
}

static void scale_soak(uint64_t minutes)
{
    struct soak soak = {.losses = setting("SOAK_LOSSES", SOAK_LOSSES),
                        .minutes = minutes};
    struct sim *s;
    uint64_t began;

    log_set_sink(nothing, NULL);
    s = sim_new_soak(t_seed(), &soak);
    began = sim_now(s);
    while (!sim_run(s, 3600 * SIM_SECOND))
        T_LT(sim_now(s) - began, 90 * 24 * 3600 * SIM_SECOND);
    sim_check_end(s);
    check_flat(&soak);
    printf("    %llu workers and %llu psservers lost in %llu hours, %llu "
           "steps each done once, %llu pushes, %llu of them again\n",
           (unsigned long long)soak.lost, (unsigned long long)soak.servers_lost,
           (unsigned long long)((sim_now(s) - began) / (3600 * SIM_SECOND)),
           (unsigned long long)schedule_steps(&s->knobs.schedule),
           (unsigned long long)soak.pushed, (unsigned long long)soak.again);
    sim_free(s);
    log_set_sink(NULL, NULL);
}

TEST(life, scale_soak_no_loss_of_a_worker_costs_the_job)
{
    scale_soak(30);
}

// One of six attempts at a step ends so: four in a row are nothing.
TEST(life, chance_is_not_poison_where_workers_last_five_minutes)
{
    scale_soak(5);
}
