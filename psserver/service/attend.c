// SPDX-License-Identifier: Apache-2.0
// psserver/service/attend.c -- the psserver's end of the Attend stream: the
// roster's messages up, the coordinator's down.
#include "psserver/service/attend.h"

#include "common/base/clock.h"
#include "common/base/mem.h"
#include "host/daemon/joining.h"
#include "stream/attendee.h"

struct attendance {
    struct joining joining;
    struct tokens *tokens;
    struct attendee *stream;
    struct roster *roster;
    void (*changed)(void *arg, bool attached);
    void *arg;
    uint64_t seq; // number of the last heartbeat
    bool draining;
};

static void attendance_notify(struct attendance *a, bool attached)
{
    if (a->changed != NULL)
        a->changed(a->arg, attached);
}

static bool attendance_on_welcome(void *arg, const Sluice__V1__Welcome *m)
{
    struct attendance *a = arg;

    if (!roster_term(a->roster, m->term))
        return false;
    if (a->tokens != NULL)
        tokens_welcome(a->tokens, m);
    if (a->joining.membership != NULL)
        joining_welcome(&a->joining, m->cluster);
    return true;
}

static void attendance_on_attached(void *arg)
{
    struct attendance *a = arg;

    attendance_notify(a, true);
    roster_attached(a->roster);
}

static void attendance_on_lost(void *arg)
{
    attendance_notify(arg, false);
}

static void attendance_on_down(void *arg, const Sluice__V1__AttendDown *m)
{
    struct attendance *a = arg;

    switch (m->kind_case) {
    case SLUICE__V1__ATTEND_DOWN__KIND_PLACE:
        roster_place(a->roster, m->place);
        break;
    case SLUICE__V1__ATTEND_DOWN__KIND_ADMIT:
        roster_admit(a->roster, m->admit);
        break;
    case SLUICE__V1__ATTEND_DOWN__KIND_RATES:
        roster_rates(a->roster, m->rates);
        break;
    case SLUICE__V1__ATTEND_DOWN__KIND_REFUSE:
        roster_refuse(a->roster, m->refuse);
        break;
    case SLUICE__V1__ATTEND_DOWN__KIND_HELLO_WANTED:
        roster_hello(a->roster, m->hello_wanted);
        break;
    case SLUICE__V1__ATTEND_DOWN__KIND_CLOSE_ROUND:
        roster_close_round(a->roster, m->close_round);
        break;
    case SLUICE__V1__ATTEND_DOWN__KIND_SNAPSHOT:
        roster_snapshot(a->roster, m->snapshot);
        break;
    case SLUICE__V1__ATTEND_DOWN__KIND_FEED:
        roster_feed(a->roster, m->feed);
        break;
    case SLUICE__V1__ATTEND_DOWN__KIND_REPLICA_OUT:
        roster_replica_out(a->roster, m->replica_out);
        break;
    case SLUICE__V1__ATTEND_DOWN__KIND_KEEP:
        roster_keep(a->roster, m->keep);
        break;
    case SLUICE__V1__ATTEND_DOWN__KIND_CLOSE_JOB:
        roster_close_job(a->roster, m->close_job);
        break;
    default: // other messages are for workers
        break;
    }
}

static void attendance_on_beat(void *arg)
{
    struct attendance *a = arg;

    roster_tick(a->roster, ++a->seq, a->draining);
}

void attendance_send(void *arg, const Sluice__V1__AttendUp *up)
{
    struct attendance *a = arg;

    (void)attendee_send(a->stream, up);
}

enum sl_err attendance_new(struct attendance **out,
                           const struct attendance_setup *setup,
                           struct sl_error *err)
{
    struct attendance *a = sl_calloc(1, sizeof(*a));
    struct attendee_setup stream = {
        .loop = setup->loop,
        .clock = sl_clock_real(),
        .channel = setup->channel,
        .role = SLUICE__V1__ROLE__ROLE_PSSERVER,
        .name = setup->name,
        .address = setup->address,
        .cluster = setup->membership == NULL ? 0 : setup->membership->cluster,
        .welcome = attendance_on_welcome,
        .attached = attendance_on_attached,
        .lost = attendance_on_lost,
        .down = attendance_on_down,
        .beat = attendance_on_beat,
        .arg = a,
    };
    enum sl_err rc;

    if (a == NULL)
        return sl_no_memory(err);
    a->joining =
        (struct joining){.loop = setup->loop, .membership = setup->membership};
    a->tokens = setup->tokens;
    a->changed = setup->changed;
    a->arg = setup->arg;
    rc = attendee_new(&a->stream, &stream, err);
    if (rc != SL_OK) {
        sl_free(a);
        return rc;
    }
    *out = a;
    return SL_OK;
}

void attendance_start(struct attendance *a, struct roster *roster)
{
    a->roster = roster;
    attendee_start(a->stream);
}

void attendance_drain(struct attendance *a, bool empties)
{
    a->draining = true;
    roster_empties(a->roster, empties);
    attendee_beat_now(a->stream);
}

void attendance_stay(struct attendance *a)
{
    a->draining = false;
    roster_empties(a->roster, false);
    attendee_beat_now(a->stream);
}

void attendance_stop(struct attendance *a)
{
    attendee_stop(a->stream);
}

void attendance_free(struct attendance *a)
{
    if (a == NULL)
        return;
    attendee_free(a->stream);
    joining_release(&a->joining);
    sl_free(a);
}
