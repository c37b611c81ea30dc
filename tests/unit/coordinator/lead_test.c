// SPDX-License-Identifier: Apache-2.0
// Which coordinator leads: see coordinator/service/lead.h. With a real etcd.
// (What ends a process is looked at by tests/system/standby_test.py.)
#include "coordinator/service/lead.h"

#include <poll.h>
#include <stdio.h>
#include <string.h>

#include "common/base/fs.h"
#include "coordinator/journal/journal_etcd.h"
#include "tests/harness/t.h"
#include "tests/unit/coordinator/etcd_kit.h"

#define STANDBYS 4
#define LIMIT_MS 60000

struct standby {
    struct lead *lead;
    struct etcd *etcd;
    struct journal *journal; // of the one that was chosen
    char address[32];
};

static struct standbys {
    struct loop *loop;
    struct standby all[STANDBYS];
    struct standby *leads; // NULL: none
} s;

static void on_changed(void *arg)
{
    struct standby *one = arg;
    struct journal *beside, *j = lead_take(one->lead, &beside);

    if (j == NULL)
        return;
    T_TRUE(s.leads == NULL); // there is no other
    one->journal = j;
    s.leads = one;
}

static void start(unsigned i)
{
    struct standby *one = &s.all[i];
    struct lead_options o = {.name = "host",
                             .address = one->address,
                             .ttl_s = 60,
                             .clock = sl_clock_boot(),
                             .loop = s.loop,
                             .changed = on_changed,
                             .arg = one};
    char file[32];

    snprintf(file, sizeof(file), "lease-%u", i);
    snprintf(one->address, sizeof(one->address), "10.0.0.%u:7070", i);
    one->etcd = kit_etcd_client();
    o.etcd = one->etcd;
    o.file = t_path(file);
    T_OK(lead_new(&one->lead, &o, t_err()));
}

static void go(void)
{
    memset(&s, 0, sizeof(s));
    T_OK(loop_new(&s.loop, t_err()));
    for (unsigned i = 0; i < STANDBYS; i++)
        start(i);
    for (unsigned i = 0; i < STANDBYS; i++)
        T_OK(lead_start(s.all[i].lead, t_err()));
}

static void begin(void)
{
    kit_etcd(0);
    go();
}

static void stop(struct standby *one)
{
    if (one->lead == NULL)
        return;
    lead_stop(one->lead);
    if (s.leads == one)
        s.leads = NULL; // another one may be chosen from now on
    loop_turn(s.loop);
    journal_close(one->journal);
    lead_free(one->lead);
    etcd_free(one->etcd);
    memset(one, 0, sizeof(*one));
}

static void end(void)
{
    for (unsigned i = 0; i < STANDBYS; i++)
        stop(&s.all[i]);
    loop_free(s.loop);
}

// All that stand by know the one that leads.
static bool is_settled(void)
{
    char want[100], said[500];

    if (s.leads == NULL)
        return false;
    snprintf(want, sizeof(want), RPC_STANDBY "%s (host)", s.leads->address);
    for (unsigned i = 0; i < STANDBYS; i++) {
        if (s.all[i].lead == NULL || &s.all[i] == s.leads)
            continue;
        lead_waits(s.all[i].lead, said, sizeof(said));
        if (strcmp(said, want) != 0)
            return false;
    }
    return true;
}

static void settle(void)
{
    for (int i = 0; i < LIMIT_MS && !is_settled(); i++) {
        loop_turn(s.loop);
        poll(NULL, 0, 1);
    }
    T_TRUE(is_settled());
}

TEST(lead, H6_one_of_those_that_look_at_once_is_chosen)
{
    begin();
    settle();
    loop_turn(s.loop);
    lead_check(s.leads->lead); // its lease holds
    lead_check(NULL);
    end();
}

TEST(lead, one_that_stops_is_followed_by_another)
{
    uint64_t term = 0;

    begin();
    for (uint64_t i = 1; i <= STANDBYS; i++) {
        settle();
        T_OK(journal_next_term(s.leads->journal, &term, t_err()));
        T_EQ(term, i);
        stop(s.leads);
    }
    end();
}

// Makes the key as a coordinator that has died left it, whose lease lasts ten
// times as long as a test. Writes the lease's number to `file`, and to `text`.
static void died(struct etcd *e, const char *file, char *text, size_t size)
{
    int64_t lease = 0, granted = 0;
    struct etcd_op op = {.what = ETCD_PUT, .key = JOURNAL_LEADER};
    struct etcd_reply reply = {0};

    T_OK(etcd_lease_grant(e, LIMIT_MS / 100, LIMIT_MS, &lease, &granted,
                          t_err()));
    op.lease = lease;
    T_OK(etcd_txn(e, &(struct etcd_txn){.then = &op, .then_count = 1}, LIMIT_MS,
                  &reply, t_err()));
    etcd_reply_release(&reply);
    snprintf(text, size, "%llx\n", (unsigned long long)lease);
    T_OK(fs_write_durable(fs_private(), t_path(file), text, strlen(text),
                          t_err()));
}

TEST(lead, one_that_starts_again_gives_up_the_lease_that_it_had)
{
    char text[32];

    died(kit_etcd(0), "lease-2", text, sizeof(text));
    go();
    settle();
    end();
}

TEST(lead, the_lease_of_one_that_died_is_given_up_by_its_file)
{
    struct etcd *e = kit_etcd(0);
    struct etcd_op op;
    struct etcd_reply reply = {0};
    char text[32];

    died(e, "lease", text, sizeof(text));
    T_OK(lead_resign(e, t_path("lease"), t_err()));
    op = (struct etcd_op){.what = ETCD_GET, .key = JOURNAL_LEADER};
    T_OK(etcd_get(e, &op, LIMIT_MS, &reply, t_err()));
    T_EQ(reply.count, 0);
    etcd_reply_release(&reply);
    T_OK(lead_resign(e, t_path("lease"), t_err())); // there is no file any more
    T_OK(fs_write_durable(fs_private(), t_path("lease"), text, strlen(text),
                          t_err()));
    T_OK(lead_resign(e, t_path("lease"), t_err())); // nor the lease
}
