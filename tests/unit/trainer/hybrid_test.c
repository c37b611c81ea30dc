// SPDX-License-Identifier: Apache-2.0
#include "trainer/lease/hybrid_audit.h"

#include "common/base/mem.h"
#include "tests/harness/t.h"

enum { JOB = 7 };

static bool hear(void *arg, const Sluice__V1__AttendUp *up)
{
    (void)up;
    ++*(unsigned *)arg;
    return true;
}

static struct loop *loop_of_test(void)
{
    struct loop *l = NULL;

    T_OK(loop_new(&l, t_err()));
    return l;
}

// The coordinator of another edition may send what a group has no use for.
TEST(hybrid, an_order_to_copy_a_state_is_dropped)
{
    Sluice__V1__RingCopy copy = SLUICE__V1__RING_COPY__INIT;
    unsigned said = 0;
    struct loop *loop = loop_of_test();
    struct ring_env env = {.loop = loop,
                           .clock = sl_clock_real(),
                           .send = hear,
                           .arg = &said,
                           .address = "",
                           .host = ""};
    struct contributor by = {.ops = NULL};
    struct lease lease = {.job = JOB};
    struct hybrid *h = NULL;
    uint64_t live;

    T_OK(seat_new(&lease.seat, &env, JOB, 1));
    T_OK(hybrid_new(&h));
    hybrid_enter(h, &lease, &by);
    while (said == 0)
        loop_turn(loop);
    live = sl_mem_live();
    copy.generation = 1;
    seat_copy(lease.seat, &copy);
    T_TRUE(seat_has_news(lease.seat));
    hybrid_look(h);
    T_FALSE(seat_has_news(lease.seat));
    T_EQ(sl_mem_live(), live);
    hybrid_exit(h);
    hybrid_free(h);
    seat_retire(lease.seat);
    loop_free(loop);
}

// ---- audits

// A step of eight micro-batches, of which all parameters have come.
struct audited {
    Sluice__V1__JobOpen open;
    Sluice__V1__JobSpec spec;
    Sluice__V1__TrainSpec train;
    Sluice__V1__GroupSpec group;
    struct record record;
    struct lease lease;
    struct hybrid h;
    struct sync sync;
    struct elements ranges[2];
    float params[4], grads[4];
    struct pulse pulse;
    struct hybrid_step step;
    struct hybrid_audit audit;
};

static void audited_open(struct audited *t, char *by, uint32_t members,
                         uint32_t self, double share)
{
    *t = (struct audited){.ranges = {{0, 1}, {1, 3}}, .grads = {1, 2, 3, 4}};
    sluice__v1__job_open__init(&t->open);
    sluice__v1__job_spec__init(&t->spec);
    sluice__v1__train_spec__init(&t->train);
    sluice__v1__group_spec__init(&t->group);
    t->group.by = by;
    t->train.group = &t->group;
    t->train.has_audit = true;
    t->train.audit = share;
    t->spec.train = &t->train;
    t->open.spec = &t->spec;
    t->record.open = &t->open;
    t->lease = (struct lease){.job = JOB, .record = &t->record};
    t->h = (struct hybrid){
        .lease = &t->lease, .members = members, .self = self, .waited = 2};
    t->sync = (struct sync){.ranges = t->ranges,
                            .ranges_count = 2,
                            .params = t->params,
                            .grads = t->grads};
    t->step = (struct hybrid_step){.hybrid = &t->h,
                                   .sync = &t->sync,
                                   .pulse = &t->pulse,
                                   .head = {true, 3, 1, 0},
                                   .count = 8};
    T_OK(hybrid_audit_begin(&t->audit, &t->step, 5, t_err()));
}

// What is said of share i.
static struct lease_repeat result_of(struct audited *t, uint32_t i)
{
    T_TRUE(hybrid_audit_share(&t->audit, &t->step, i));
    hybrid_audit_range(&t->audit, &t->step, 1, true);
    hybrid_audit_range(&t->audit, &t->step, 0, true);
    hybrid_audit_note(&t->audit, &t->step, 9);
    return t->audit.results.list[t->audit.results.count - 1];
}

// Two members say the same of one share.
TEST(hybrid, A1_a_member_computes_its_share_and_those_of_the_next_members)
{
    struct audited t, other;
    struct lease_repeat a, b;

    audited_open(&t, "any", 4, 2, 1);
    T_EQ(t.audit.count, AUDITED_WORKERS);
    T_FALSE(t.audit.twice);
    a = result_of(&t, 2); // share 0
    T_EQ(a.share, 0);
    T_TRUE(a.closure == 3 && a.step == 1 && a.kind == 9 && a.sketched);
    audited_open(&other, "any", 4, 0, 1);
    b = result_of(&other, 0);
    T_MEM(&a, &b, sizeof(a));
    T_NE(result_of(&other, 1).inputs, b.inputs); // of another share
    T_FALSE(hybrid_audit_differs(&other.audit));
    hybrid_audit_release(&other.audit);
    audited_open(&other, "any", 2, 0, 1); // of another generation
    T_NE(result_of(&other, 0).inputs, b.inputs);
    hybrid_audit_release(&other.audit);
    audited_open(&other, "any", 64, 7, 1);
    T_FALSE(hybrid_audit_share(&other.audit, &other.step, 1)); // it is empty
    hybrid_audit_release(&other.audit);
    hybrid_audit_release(&t.audit);
    audited_open(&t, "any", 4, 2, 0);
    T_EQ(t.audit.count, 0);
    hybrid_audit_release(&t.audit);
}

TEST(hybrid, A5_a_share_that_has_two_results_is_known)
{
    struct audited t;

    audited_open(&t, "host", 4, 2, 1);
    T_TRUE(t.audit.twice);
    T_EQ(result_of(&t, 1).share, 2);
    T_EQ(result_of(&t, 0).share, 2);
    T_FALSE(hybrid_audit_differs(&t.audit));
    hybrid_audit_release(&t.audit);
    audited_open(&t, "host", 4, 2, 1);
    (void)result_of(&t, 1);
    T_FALSE(hybrid_audit_differs(&t.audit));
    t.grads[3] += 1;
    (void)result_of(&t, 0);
    T_TRUE(hybrid_audit_differs(&t.audit));
    hybrid_audit_release(&t.audit);
}
