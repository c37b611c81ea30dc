// SPDX-License-Identifier: Apache-2.0
// A shard whose follower is its replica: what may be said, and when
// (state/shard/replica.h).
#include "state/shard/replica.h"

#include "tests/unit/psserver/kit.h"

enum { ORDER = 9, LOG_BYTES = 1 << 20 };

// A shard that is fed from now on.
static struct shard *fed(struct kit *k, struct shard_image *image)
{
    struct shard *s;
    bool begun = false;

    kit_init(k);
    s = kit_admitted(k);
    T_OK(shard_feed_begin(s, 1, ORDER, LOG_BYTES, 0, image, &begun, t_err()));
    T_TRUE(begun);
    return s;
}

// The same; the image is of no use.
static struct shard *replica_fed(struct kit *k)
{
    struct shard_image image;
    struct shard *s = fed(k, &image);

    shard_image_release(&image);
    return s;
}

// Whether an answer that is given now has to wait, and for what.
static bool said(struct shard *s, struct replica_mark *mark)
{
    return replica_mark(s, mark);
}

TEST(replica, P1_nothing_is_said_before_the_replica_has_it)
{
    struct replica_mark first, second;
    struct kit k;
    struct shard *s = replica_fed(&k);

    T_FALSE(said(s, &first)); // not bound
    T_TRUE(replica_bind(s, ORDER, 0, REPLICA_ACKS));
    kit_count(s, 0, 0, 1);
    T_TRUE(said(s, &first));
    kit_count(s, 0, 1, 1);
    T_TRUE(said(s, &second));
    shard_feed_acked(s, ORDER, 1); // the tag
    T_EQ(replica_state(s, &first), REPLICA_WAITS);
    shard_feed_acked(s, ORDER, 2);
    T_EQ(replica_state(s, &first), REPLICA_ACKED);
    T_EQ(replica_state(s, &second), REPLICA_WAITS);
    T_EQ(replica_lag(s), 1);
    shard_feed_acked(s, ORDER, 3);
    T_EQ(replica_state(s, &second), REPLICA_ACKED);
    T_FALSE(said(s, &second)); // a repeat tells of nothing else
    shard_close(s);
    shard_unref(s);
}

TEST(replica, P2_it_has_all_when_it_has_what_was_answered_before)
{
    struct kit k;
    struct shard *s = replica_fed(&k);

    kit_count(s, 0, 0, 1); // answered at once
    T_FALSE(replica_has_all(s, ORDER));
    T_FALSE(replica_bind(s, ORDER + 1, 0, REPLICA_ACKS));
    T_TRUE(replica_bind(s, ORDER, 0, REPLICA_ACKS));
    T_EQ(replica_bound(s), ORDER);
    T_FALSE(replica_has_all(s, ORDER));
    shard_feed_acked(s, ORDER, 1);
    T_FALSE(replica_has_all(s, ORDER));
    shard_feed_acked(s, ORDER, 2);
    T_TRUE(replica_has_all(s, ORDER));
    kit_count(s, 0, 1, 1); // not answered before
    T_TRUE(replica_has_all(s, ORDER));
    shard_unref(s);
}

TEST(replica, a_shard_is_bound_once_the_log_of_the_beginning_is_sent)
{
    struct kit k;
    struct shard *s = replica_fed(&k);

    kit_count(s, 0, 0, 1);
    kit_count(s, 0, 1, 1);
    T_FALSE(replica_bind(s, ORDER, 2, REPLICA_ACKS));
    shard_feed_acked(s, ORDER, 1);
    T_FALSE(replica_bind(s, ORDER, 2, REPLICA_ACKS));
    shard_feed_acked(s, ORDER, 2);
    kit_count(s, 0, 2, 1); // more may be in it
    T_TRUE(replica_bind(s, ORDER, 2, REPLICA_ACKS));
    shard_unref(s);
}

// Its workers wait from then on, so that it does not overflow.
TEST(replica, a_shard_is_bound_when_its_log_is_half_full)
{
    struct shard_image image;
    bool begun = false;
    struct shard *s;
    struct kit k;
    size_t each;

    kit_init(&k);
    s = kit_admitted(&k);
    T_OK(shard_feed_begin(s, 1, ORDER, LOG_BYTES, 0, &image, &begun, t_err()));
    kit_count(s, 0, 0, 1);
    each = s->feed.bytes;
    shard_image_release(&image);
    T_OK(shard_feed_begin(s, 1, ORDER + 1, 4 * each + 16, 0, &image, &begun,
                          t_err()));
    for (uint32_t step = 1; step < 3; step++) {
        kit_count(s, 0, step, 1);
        T_FALSE(replica_bind(s, ORDER + 1, 9, REPLICA_ACKS));
    }
    kit_count(s, 0, 3, 1);
    T_TRUE(replica_bind(s, ORDER + 1, 9, REPLICA_ACKS));
    for (uint32_t step = 0; step < 4; step++) // one of each worker
        kit_count(s, 1, step, 1);
    T_FALSE(replica_stands(s, ORDER + 1));
    shard_image_release(&image);
    shard_unref(s);
}

static void woken(void *arg, bool here)
{
    *(int *)arg = here;
}

// It is of low priority, and pushes would wait for it. The replica hears of the
// snapshot all the same, also of one with which no feed could begin.
TEST(replica, the_thread_of_a_snapshot_sends_nothing)
{
    struct shard_image image;
    struct kit k;
    struct shard *s = replica_fed(&k);
    bool begun = true;
    int here = 2;

    T_TRUE(replica_bind(s, ORDER, 0, REPLICA_ACKS));
    shard_feed_wake(s, woken, &here);
    kit_count(s, 0, 0, 1);
    T_EQ(here, true);
    kit_snap(fs_posix(), t_tmpdir(), s);
    T_EQ(here, false);
    here = 2;
    T_OK(shard_feed_begin(s, 1, ORDER + 1, LOG_BYTES, 0, &image, &begun,
                          t_err()));
    T_FALSE(begun);
    T_EQ(here, false);
    shard_image_release(&image);
    shard_feed_wake(s, NULL, NULL);
    shard_unref(s);
}

TEST(replica, P3_a_shard_without_its_replica_says_nothing_until_it_is_told)
{
    struct replica_mark mark;
    struct kit k;
    struct shard *s = replica_fed(&k);

    T_TRUE(replica_bind(s, ORDER, 0, REPLICA_ACKS));
    kit_count(s, 0, 0, 1);
    shard_feed_acked(s, ORDER, 2);
    T_FALSE(replica_stands(s, ORDER));
    shard_feed_stop(s, ORDER, "it does not answer");
    T_TRUE(replica_stands(s, ORDER));
    T_TRUE(said(s, &mark)); // what is counted now is in no log
    kit_count(s, 0, 1, 1);
    T_EQ(replica_state(s, &mark), REPLICA_WAITS);
    T_FALSE(replica_has_all(s, ORDER));
    T_FALSE(replica_free(s, ORDER - 1)); // a word about an older one
    T_EQ(replica_state(s, &mark), REPLICA_WAITS);
    T_TRUE(replica_free(s, ORDER));
    T_EQ(replica_state(s, &mark), REPLICA_ACKED);
    T_FALSE(said(s, &mark));
    T_EQ(replica_bound(s), 0);
    shard_unref(s);
}

TEST(replica, P3_no_other_feed_begins_before_the_shard_is_free)
{
    struct replica_mark mark;
    struct shard_image image;
    struct kit k;
    struct shard *s = replica_fed(&k);
    bool begun = true;

    T_TRUE(replica_bind(s, ORDER, 0, REPLICA_ACKS));
    kit_count(s, 0, 0, 1);
    T_TRUE(said(s, &mark));
    T_OK(shard_feed_begin(s, 1, ORDER + 1, LOG_BYTES, 0, &image, &begun,
                          t_err()));
    shard_image_release(&image);
    T_FALSE(begun);
    T_EQ(replica_state(s, &mark), REPLICA_WAITS);
    shard_close(s);
    T_EQ(replica_state(s, &mark), REPLICA_CLOSED);
    shard_unref(s);
}

// A coordinator that restarts renews what is admitted, and has the replica in
// the set.
TEST(replica, P3_a_renewal_leaves_the_feed_of_a_replica_as_it_is)
{
    struct replica_mark mark;
    struct kit k;
    struct shard *s = replica_fed(&k);

    T_TRUE(replica_bind(s, ORDER, 0, REPLICA_ACKS));
    shard_admit(s, 1);
    kit_count(s, 0, 0, 1);
    T_TRUE(said(s, &mark));
    T_FALSE(replica_stands(s, ORDER));
    shard_feed_acked(s, ORDER, 2);
    T_EQ(replica_state(s, &mark), REPLICA_ACKED);
    shard_admit(s, 2); // what follows is of another incarnation
    T_TRUE(replica_stands(s, ORDER));
    T_TRUE(said(s, &mark));
    T_EQ(replica_state(s, &mark), REPLICA_WAITS);
    shard_unref(s);
}

// Neither while the replica lacks something, nor while its feed is over.
TEST(replica, P6_what_follows_is_waited_for_by_no_answer)
{
    struct replica_mark mark;
    struct kit k;
    struct shard *s = replica_fed(&k);

    kit_count(s, 0, 0, 1);
    T_TRUE(replica_bind(s, ORDER, 0, REPLICA_FOLLOWS));
    kit_count(s, 0, 1, 1);
    T_FALSE(said(s, &mark));
    T_FALSE(replica_has_all(s, ORDER)); // P2: it is not in the set yet
    shard_feed_acked(s, ORDER, 2);      // what was answered before, and the tag
    T_TRUE(replica_has_all(s, ORDER));
    T_EQ(replica_lag(s), 1);
    s->feed.most = s->feed.bytes; // as if that were REPLICA_LOG_BYTES
    kit_count(s, 0, 2, 1);
    T_TRUE(replica_stands(s, ORDER)); // it is told (P3)
    T_FALSE(said(s, &mark));
    T_TRUE(replica_free(s, ORDER));
    T_FALSE(said(s, &mark));
    shard_unref(s);
}

// Sends the follower all that is in the log.
static enum sl_err replica_pump(struct shard *s, struct shard *to,
                                uint64_t *sent)
{
    struct wire_follow_reply reply;
    struct oplog_record *r = NULL;
    enum sl_err rc = SL_OK;

    while (rc == SL_OK) {
        T_OK(shard_feed_next(s, ORDER, *sent, &r, t_err()));
        if (r == NULL)
            return SL_OK;

        const struct sl_slice one = {r->data, r->bytes};
        const struct wire_follow m = {.job = 7,
                                      .job_incarnation = 1,
                                      .incarnation = 1,
                                      .order = ORDER,
                                      .number = *sent + 1,
                                      .shard = 2,
                                      .payload = slices_one(&one)};

        rc = shard_follow(to, &m, &reply, t_err());
        oplog_unref(r);
        if (rc == SL_OK)
            *sent = reply.applied;
    }
    return rc;
}

// The tag of a snapshot that the source took meanwhile comes with the feed,
// also of one from before it was a replica's (K7).
TEST(replica, P4_what_takes_over_has_ended_its_feed)
{
    struct snap_written written = {0};
    struct shard_image image;
    struct shard *s, *to;
    uint64_t sent = 0;
    struct kit k;

    s = fed(&k, &image);
    T_OK(snap_write_image(fs_posix(), t_tmpdir(), &image, &written, t_err()));
    T_OK(kit_load(fs_posix(), t_tmpdir(), &k, image.tag, NULL, &to, t_err()));
    snap_written_release(&written);
    shard_image_release(&image);
    shard_follow_begin(to, ORDER, 1);
    T_EQ(to->from.sequence, 1);
    kit_count(s, 0, 0, 1);
    kit_snap(fs_posix(), t_tmpdir(), s);
    T_OK(replica_pump(s, to, &sent));
    T_EQ(to->from.sequence, 1); // it may be of a move
    T_TRUE(replica_bind(s, ORDER, 0, REPLICA_ACKS));
    T_OK(replica_pump(s, to, &sent));
    T_EQ(to->from.sequence, 2);
    kit_snap(fs_posix(), t_tmpdir(), s);
    kit_count(s, 0, 1, 1);
    T_OK(replica_pump(s, to, &sent));
    T_EQ(to->from.incarnation, 1);
    T_EQ(to->from.sequence, 3);
    T_TRUE(counted_equal(&s->once.counted, &to->once.counted));
    T_FALSE(shard_follow_stop(to, ORDER + 1));
    T_TRUE(shard_follow_stop(to, ORDER));
    kit_count(s, 0, 2, 1);
    T_FAILS(SL_ESTATE, replica_pump(s, to, &sent));
    T_EQ(counted_steps(&to->once.counted), 2);
    T_FALSE(shard_follow_stop(to, ORDER)); // once
    shard_unref(s);
    shard_unref(to);
}
