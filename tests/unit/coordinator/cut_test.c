// SPDX-License-Identifier: Apache-2.0
#include "coordinator/rules/cut.h"

#include "tests/harness/t.h"

static const struct schedule schedule = {
    .samples = 40, .batch = 10, .epochs = 3, .steps_per_closure = 2};

static void admit(struct evidence *e, uint32_t shard, uint64_t incarnation)
{
    struct counted c;

    T_OK(counted_init(&c, &schedule));
    evidence_admit(e, shard, incarnation, &c);
}

static struct evidence two_shards(void)
{
    struct evidence e;

    T_OK(evidence_init(&e, &schedule, 2, t_err()));
    admit(&e, 0, 1);
    admit(&e, 1, 1);
    return e;
}

// A report of `shard` at (incarnation, sequence) with the first closures full,
// of a file that needs those of `below` (NULL: none).
static enum sl_err report_with(struct cut *c, const struct evidence *e,
                               uint32_t shard, uint64_t request,
                               uint64_t incarnation, uint64_t closures,
                               Sluice__V1__SnapshotChain *below)
{
    Sluice__V1__SnapshotReport r = SLUICE__V1__SNAPSHOT_REPORT__INIT;
    Sluice__V1__ShardCounts counts = SLUICE__V1__SHARD_COUNTS__INIT;
    Sluice__V1__CountedSet set = SLUICE__V1__COUNTED_SET__INIT;
    Sluice__V1__Tag tag = SLUICE__V1__TAG__INIT;
    uint8_t sha[32] = {shard, 2, 3};

    tag.incarnation = incarnation;
    tag.sequence = 5;
    set.low = closures;
    r.shard = shard;
    r.request = request;
    r.tag = &tag;
    r.counted = &set;
    r.counts = &counts;
    r.file = "f";
    r.folder = "/d";
    r.file_bytes = 100;
    r.sha256.data = sha;
    r.sha256.len = sizeof(sha);
    r.below = below;
    return cut_take(c, &r, "ps", "addr:1", e, t_err());
}

static enum sl_err report(struct cut *c, const struct evidence *e,
                          uint32_t shard, uint64_t request,
                          uint64_t incarnation, uint64_t closures)
{
    return report_with(c, e, shard, request, incarnation, closures, NULL);
}

TEST(cut, K2_exists_when_every_shard_has_reported)
{
    struct evidence e = two_shards();
    struct cut *c = cut_new(1, 77, 2, 0);

    T_FALSE(cut_publishable(c, &e));
    T_OK(report(c, &e, 0, 77, 1, 3));
    T_FALSE(cut_publishable(c, &e));
    T_OK(report(c, &e, 1, 77, 1, 4));
    T_TRUE(cut_publishable(c, &e));
    T_EQ(cut_low(c), 3);
    T_EQ(cut_steps(c), 6);
    T_EQ(cut_epochs(c), 1);
    T_EQ(cut_file_bytes(c), 200);
    T_STR(c->shard[1].folder, "/d");
    T_EQ(c->shard[1].sha256[0], 1);
    cut_free(c);
    evidence_release(&e);
}

TEST(cut, the_files_that_a_snapshot_needs_are_in_the_cut)
{
    Sluice__V1__SnapshotChain chain = SLUICE__V1__SNAPSHOT_CHAIN__INIT;
    Sluice__V1__SnapshotFile file = SLUICE__V1__SNAPSHOT_FILE__INIT;
    Sluice__V1__SnapshotFile *files[] = {&file};
    struct evidence e = two_shards();
    struct cut *c = cut_new(1, 77, 2, 0);

    chain.files = files;
    chain.n_files = 1;
    chain.bytes = 1000;
    file.file = "base";
    T_OK(report_with(c, &e, 0, 77, 1, 3, &chain));
    T_OK(report(c, &e, 1, 77, 1, 3));
    file.file = "changed since";
    T_EQ(c->shard[0].below->n_files, 1);
    T_STR(c->shard[0].below->files[0]->file, "base");
    T_TRUE(c->shard[1].below == NULL);
    T_EQ(cut_file_bytes(c), 1200);    // a checkpoint is what it needs
    T_OK(report(c, &e, 0, 77, 1, 3)); // a whole file takes its place
    T_TRUE(c->shard[0].below == NULL);
    T_EQ(cut_file_bytes(c), 200);
    cut_free(c);
    evidence_release(&e);
}

TEST(cut, K4_publish_only_what_is_of_the_newest_incarnation_now)
{
    struct evidence e = two_shards();
    struct cut *c = cut_new(1, 77, 2, 0);

    T_OK(report(c, &e, 0, 77, 1, 3));
    T_OK(report(c, &e, 1, 77, 1, 3));
    admit(&e, 1, 2); // replaced between report and publication
    T_FALSE(cut_publishable(c, &e));
    T_FAILS(SL_ESTALE, report(c, &e, 1, 77, 1, 3)); // of the old memory
    cut_void(c, 1);
    T_OK(report(c, &e, 1, 77, 2, 0));
    T_TRUE(cut_publishable(c, &e));
    cut_free(c);
    evidence_release(&e);
}

// A file of this incarnation is a file of it, whoever asked for it; but those
// of a ring have to be of one round.
TEST(cut, K4_a_report_counts_whatever_request_asked_for_it)
{
    struct evidence e = two_shards();
    struct cut *c = cut_new(1, 77, 2, 0);

    T_OK(report(c, &e, 0, 76, 1, 3));
    T_OK(report(c, &e, 1, 77, 1, 3));
    T_TRUE(cut_publishable(c, &e));
    cut_free(c);
    evidence_release(&e);
}

TEST(cut, what_was_believed_when_it_was_asked_is_in_the_file)
{
    struct evidence e = two_shards();
    struct cut *c = cut_new(1, 77, 2, 0);
    struct evidence_item item = {.shard = 0, .incarnation = 1};
    bool full;

    T_OK(evidence_complete(&e, 0, &item, 1, &full));
    cut_ask(c, 0, &e);
    T_OK(evidence_complete(&e, 1, &item, 1, &full)); // after it was asked
    T_OK(report(c, &e, 0, 77, 1, 1));
    T_FALSE(cut_belies(c, 0, 77));
    T_OK(report(c, &e, 0, 77, 1, 0));
    T_TRUE(cut_belies(c, 0, 77));
    T_FALSE(cut_belies(c, 0, 76)); // that was asked for before
    cut_free(c);
    evidence_release(&e);
}

TEST(cut, patience_grows_with_bytes_and_with_time)
{
    struct cut *c = cut_new(1, 77, 2, 0);

    T_EQ(cut_patience_ms(c, 0), CUT_PATIENCE_MS);
    T_GT(cut_patience_ms(c, UINT64_C(10) << 30), 10 * 60000);
    c->late = 2;
    T_EQ(cut_patience_ms(c, 0), 4 * CUT_PATIENCE_MS);
    cut_free(c);
}

TEST(cut, reports_of_other_requests_or_broken_sets_are_refused)
{
    struct evidence e = two_shards();
    struct cut *c = cut_new(1, 77, 2, 0);

    c->one_round = true;
    T_FAILS(SL_ESTALE, report(c, &e, 0, 76, 1, 3));
    T_FAILS(SL_ESTALE, report(c, &e, 5, 77, 1, 3));
    T_FAILS(SL_ECORRUPT, report(c, &e, 0, 77, 1, 99)); // beyond the schedule
    T_FALSE(c->shard[0].reported);
    T_OK(report(c, &e, 0, 77, 1, 3));
    T_OK(report(c, &e, 0, 77, 1, 2)); // the newest word counts
    T_EQ(counted_low(&c->shard[0].counted), 2);
    c->writing = true;
    T_FAILS(SL_ESTALE, report(c, &e, 0, 77, 1, 3));
    cut_free(c);
    evidence_release(&e);
}

TEST(cut, E1_full_means_the_set_of_every_named_file)
{
    struct evidence e = two_shards();
    struct cut *c = cut_new(1, 77, 2, 0);

    T_OK(report(c, &e, 0, 77, 1, 6));
    T_OK(report(c, &e, 1, 77, 1, 5));
    T_FALSE(cut_full(c)); // all may be counted by now; that file lacks it
    T_OK(report(c, &e, 1, 77, 1, 6));
    T_TRUE(cut_full(c));
    cut_free(c);
    evidence_release(&e);
}

// A cut of a running job: its files are of different moments.
TEST(cut, E3_a_cut_of_unequal_shards_promises_what_all_of_them_hold)
{
    struct evidence e = two_shards();
    struct cut *c = cut_new(1, 77, 2, 0);

    T_OK(report(c, &e, 0, 77, 1, 2));
    T_OK(report(c, &e, 1, 77, 1, 5));
    T_TRUE(cut_publishable(c, &e));
    T_EQ(cut_steps(c), 4);
    T_EQ(cut_epochs(c), 1);
    cut_free(c);
    evidence_release(&e);
}

TEST(cut, C4_the_watermark_is_in_every_file)
{
    struct evidence e = two_shards();
    struct cut *c = cut_new(1, 77, 2, 0);

    T_OK(report(c, &e, 0, 77, 1, 2));
    T_OK(report(c, &e, 1, 77, 1, 5));
    T_EQ(cut_low(c), 2);
    T_OK(report(c, &e, 0, 77, 1, 6));
    T_EQ(cut_low(c), 5);
    cut_free(c);
    evidence_release(&e);
}

TEST(cut, due_at_the_end_of_epochs_by_time_and_at_last)
{
    struct cut_when w = {.every_epoch = true};

    T_EQ(cut_due(&w), CUT_NOT);
    w.epochs = 1;
    T_EQ(cut_due(&w), CUT_EPOCH);
    w.last_epochs = 1;
    T_EQ(cut_due(&w), CUT_NOT);
    w.every_epoch = false;
    w.epochs = 3;
    T_EQ(cut_due(&w), CUT_NOT);
    w.evaluate_every = 2; // an evaluation needs it
    T_EQ(cut_due(&w), CUT_EPOCH);
    w.last_epochs = 2;
    T_EQ(cut_due(&w), CUT_NOT);

    w.every_ms = 1000;
    w.since_ms = 999;
    w.steps = 10;
    T_EQ(cut_due(&w), CUT_NOT);
    w.since_ms = 1000;
    T_EQ(cut_due(&w), CUT_TIME);
    w.last_steps = 10; // nothing new
    T_EQ(cut_due(&w), CUT_NOT);
    w.asked = true;
    T_EQ(cut_due(&w), CUT_ASKED);

    w.all_counted = true;
    T_EQ(cut_due(&w), CUT_FINAL);
    w.last_full = true;
    T_EQ(cut_due(&w), CUT_NOT);
}

TEST(cut, what_was_asked_for_is_as_much_or_later)
{
    struct cut_wish none = {0}, w = {true, 10, 3}, more = {true, 8, 5};

    T_FALSE(cut_grants(&w, 3, 9, false));
    T_TRUE(cut_grants(&w, 3, 10, false)); // one that was being made
    T_TRUE(cut_grants(&w, 4, 2, false));  // a shard came back with less
    T_TRUE(cut_grants(&w, 1, 2, true));
    T_EQ(cut_wish_both(w, none).steps, 10);
    T_EQ(cut_wish_both(none, w).after, 3);
    T_EQ(cut_wish_both(w, more).steps, 10);
    T_EQ(cut_wish_both(w, more).after, 5);
}

TEST(cut, keeps_the_newest_and_what_an_evaluation_reads)
{
    bool needed[5] = {false, true, false, false, false}, drop[5];

    T_EQ(cut_prune(needed, 5, 2, drop), 2);
    T_TRUE(drop[0]);
    T_FALSE(drop[1]);
    T_TRUE(drop[2]);
    T_FALSE(drop[3]);
    T_FALSE(drop[4]);
    T_EQ(cut_prune(needed, 5, 0, drop), 3); // K7: never the last one
    T_FALSE(drop[4]);
    T_EQ(cut_prune(needed, 5, 9, drop), 0);
    T_EQ(cut_prune(needed, 0, 1, drop), 0);
}
