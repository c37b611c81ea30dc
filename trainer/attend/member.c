// SPDX-License-Identifier: Apache-2.0
// trainer/attend/member.c -- the worker's dealings with the coordinator: leases
// in, outcomes out, revocations, drain.
#include "trainer/attend/member.h"

#include <inttypes.h>
#include <stdio.h>
#include <unistd.h>

#include "common/base/fault.h"
#include "common/base/history.h"
#include "common/run/log.h"
#include "common/base/map.h"
#include "common/base/mem.h"
#include "proto/spec.h"
#include "trainer/attend/outbox.h"
#include "trainer/attend/report.h"
#include "trainer/base/figures.h"
#include "trainer/ring/files.h"

#define UNHEARD_MS 1000 // most time for the coordinator to hear of a drain

struct worker_member {
    struct worker_member_setup setup;
    struct attendee *attend;
    struct worker_member_runner runner;
    uint64_t term;      // newest term seen
    bool by_map;        // the coordinator understands Complete.map_version
    uint32_t lease_ms;  // length of a lease, as the coordinator says
    struct map records; // job -> struct record, a reference each
    struct list leases; // struct lease: held or running
    uint32_t leases_count;
    struct outbox *outbox;
    bool draining;
    uint64_t said; // the heartbeat that says so: leases before its
                   // acknowledgement were given without knowing of it
    struct loop_timer *unheard;
    bool told;                    // `drained` was called
    bool away;                    // the device is away
    char why[SL_ERROR_TEXT + 40]; // reason for no new leases; else empty
};

// ---- leases

static struct lease *find_lease(struct worker_member *m, uint64_t job,
                                uint64_t closure, struct wire_attempt attempt)
{
    list_for(n, &m->leases)
    {
        struct lease *l = list_entry(n, struct lease, node);

        if (l->job == job && l->closure == closure &&
            wire_attempt_cmp(l->attempt, attempt) == 0)
            return l;
    }
    return NULL;
}

bool worker_member_drained(const struct worker_member *m)
{
    return m->draining && m->leases_count == 0 &&
           (!attendee_attached(m->attend) ||
            attendee_heard(m->attend) >= m->said);
}

static void note_drained(struct worker_member *m)
{
    if (m->told || m->attend == NULL || !worker_member_drained(m))
        return;
    m->told = true;
    if (m->setup.drained != NULL)
        m->setup.drained(m->setup.arg);
}

// Stops waiting for the coordinator to acknowledge the drain.
static void unheard(void *arg)
{
    struct worker_member *m = arg;

    m->said = 0;
    note_drained(m);
}

static void close_lease(struct lease *l, enum gate_reason why)
{
    gate_close(&l->gate, why);
    record_wake(l->record);
    if (l->seat != NULL)
        seat_wake(l->seat, true);
}

// Returns the job's newest ring lease, or NULL.
static struct lease *worker_member_ring_lease(struct worker_member *m,
                                              uint64_t job)
{
    struct lease *found = NULL;

    list_for(n, &m->leases)
    {
        struct lease *l = list_entry(n, struct lease, node);

        if (l->job == job && l->kind == LEASE_RING)
            found = l;
    }
    return found;
}

// Makes way for a new lease of a ring's job. A coordinator that has come back
// gives the ring's lease anew: the old one ends, and leaves its state to it.
// Other leases of the job run within the ring's lease.
static void settle_ring(struct worker_member *m, struct lease *l)
{
    struct lease *ring = worker_member_ring_lease(m, l->job);

    if (ring == NULL)
        return;
    if (l->kind == LEASE_RING)
        close_lease(ring, GATE_ENDED);
    else
        seat_wake(ring->seat, false);
}

static void on_lease(struct worker_member *m, const Sluice__V1__Lease *msg)
{
    struct record *record = map_get(&m->records, msg->job);
    struct sl_error err = SL_ERROR_INIT;
    struct lease *l = NULL;
    enum sl_err rc;

    if (msg->term < m->term) // I5
        return;
    if (find_lease(m, msg->job, msg->closure, wire_attempt_of(msg->attempt)))
        return; // the message came twice
    if (record == NULL)
        rc = sl_fail(&err, SL_ESTATE,
                     "a lease of job %" PRIu64 " came before its JobOpen",
                     msg->job);
    else
        rc = lease_new(&l, msg, record, &err);
    if (rc == SL_OK && l->kind == LEASE_RING)
        rc = lease_sit(l, m->setup.ring, &err);
    if (rc != SL_OK) {
        LOG(WARN, "lease refused",
            "job=%" PRIu64 " closure=%" PRIu64 " error=%s", msg->job,
            msg->closure, err.text);
        err.code = rc;
        outbox_say(m->outbox, report_refused(msg, &err));
        lease_free(l);
        return;
    }
    atomic_store(&l->gate.lease_ends_ms,
                 attendee_renewed_ms(m->attend) + m->lease_ms);
    if (m->draining)
        gate_close(&l->gate, GATE_DRAIN);
    FAULT("task.leased");
    HISTORY("leased",
            "job=%" PRIu64 " closure=%" PRIu64 " term=%" PRIu64 " n=%" PRIu64,
            l->job, l->closure, l->attempt.term, l->attempt.n);
    (void)lease_still_ms(l, sl_now_ms(m->setup.clock));
    if (l->kind == LEASE_RING)
        settle_ring(m, l);
    list_push_back(&m->leases, &l->node);
    m->leases_count++;
    m->runner.submit(m->runner.arg, l);
    if (l->kind != LEASE_RING)
        settle_ring(m, l);
}

static const char *const kinds[] = {"train", "evaluate", "probe", "ring"};

static void log_outcome(const struct lease *l)
{
    switch (l->outcome.kind) {
    case OUTCOME_FAILED:
        LOG(WARN, "attempt failed",
            "job=%" PRIu64 " closure=%" PRIu64 " kind=%s code=%s error=%s",
            l->job, l->closure, kinds[l->kind],
            sl_err_name(l->outcome.err.code), l->outcome.err.text);
        return;
    case OUTCOME_HAND_BACK:
        LOG(INFO, "closure handed back",
            "job=%" PRIu64 " closure=%" PRIu64 " kind=%s reason=%s", l->job,
            l->closure, kinds[l->kind], l->outcome.err.text);
        return;
    case OUTCOME_COMPLETE:
    case OUTCOME_DROPPED:
        LOG(DEBUG, "closure done",
            "job=%" PRIu64 " closure=%" PRIu64 " kind=%s dropped=%d", l->job,
            l->closure, kinds[l->kind], l->outcome.kind == OUTCOME_DROPPED);
        return;
    }
}

// With more leases than this still to run, the coordinator gives no new ones
// yet (coordinator/rules/dispatch.h), so it does not wait for what is complete.
#define LEASES_ENOUGH 4

static unsigned held_ms(const struct lease *l)
{
    return spec_contributions(l->record->open->spec->train) > 0
               ? OUTBOX_ROUNDS_MS
               : OUTBOX_WAIT_MS;
}

void worker_member_done(void *arg, struct lease *l)
{
    struct worker_member *m = arg;

    list_remove(&l->node);
    m->leases_count--;
    log_outcome(l);
    HISTORY("ended",
            "job=%" PRIu64 " closure=%" PRIu64 " term=%" PRIu64 " n=%" PRIu64
            " kind=%d outcome=%d",
            l->job, l->closure, l->attempt.term, l->attempt.n, (int)l->kind,
            (int)l->outcome.kind);
    if (m->leases_count > LEASES_ENOUGH)
        outbox_hold(m->outbox, report_outcome(l, m->by_map), held_ms(l));
    else
        outbox_say(m->outbox, report_outcome(l, m->by_map));
    FAULT("task.reported");
    lease_free(l);
    note_drained(m);
}

// ---- jobs

static void on_job_open(struct worker_member *m,
                        const Sluice__V1__JobOpen *open)
{
    struct record *r = NULL;
    struct sl_error err = SL_ERROR_INIT;
    enum sl_err rc = record_new(&r, open, &err);

    if (rc == SL_OK) {
        struct record *before = map_remove(&m->records, open->job);

        if (before != NULL)
            record_follow(r, before);
        record_unref(before);
        rc = map_put(&m->records, open->job, r);
        if (rc != SL_OK)
            record_unref(r);
    }
    if (rc != SL_OK) {
        LOG(ERROR, "job not opened", "job=%" PRIu64 " code=%s error=%s",
            open->job, sl_err_name(rc), err.text);
        return;
    }
    LOG(INFO, "job opened",
        "job=%" PRIu64 " name=%s shards=%" PRIu32 " placed=%d", open->job,
        open->job_name, r->layout.shards_count, r->placed);
}

static void on_map(struct worker_member *m, const Sluice__V1__JobMap *map)
{
    struct record *r = map_get(&m->records, map->job);
    bool fits = r == NULL || record_map(r, map);

    // Leases hold the record that they were made with.
    list_for(n, &m->leases)
    {
        struct lease *l = list_entry(n, struct lease, node);

        if (l->job == map->job && l->record != r)
            fits &= record_map(l->record, map);
    }
    if (!fits)
        worker_member_want_map(m, map->job, 0);
}

static void worker_member_end_job(struct worker_member *m, uint64_t job)
{
    struct record *r = map_remove(&m->records, job);

    list_for(n, &m->leases)
    {
        struct lease *l = list_entry(n, struct lease, node);

        if (l->job == job)
            close_lease(l, GATE_ENDED);
    }
    if (r == NULL)
        return;
    LOG(INFO, "job closed", "job=%" PRIu64 " name=%s", job, r->open->job_name);
    record_unref(r);
    m->runner.forget(m->runner.arg, job);
}

static void on_revoke(struct worker_member *m, const Sluice__V1__Revoke *msg)
{
    struct lease *l;

    if (msg->whole_job) {
        worker_member_end_job(m, msg->job);
        return;
    }
    l = find_lease(m, msg->job, msg->closure, wire_attempt_of(msg->attempt));
    if (l != NULL)
        close_lease(l, GATE_REVOKED);
}

// ---- rings

static void on_keep(struct worker_member *m, const Sluice__V1__Keep *msg)
{
    struct lease *l = worker_member_ring_lease(m, msg->job);
    struct files_job j;

    if (l == NULL || msg->term < m->term)
        return;
    j = (struct files_job){l->record->open->job_name, msg->job,
                           seat_uid(l->seat)};
    files_keep(m->setup.ring, j, msg);
}

static void on_close_job(struct worker_member *m,
                         const Sluice__V1__CloseJob *msg)
{
    if (msg->delete_snapshots && msg->term >= m->term && m->setup.ring != NULL)
        files_delete(m->setup.ring, msg->job, msg->job_uid);
}

// Hands a message to the ring lease that it is for, if we still hold that.
static void on_ring(struct worker_member *m, const Sluice__V1__AttendDown *d)
{
    struct lease *l;

    switch (d->kind_case) {
    case SLUICE__V1__ATTEND_DOWN__KIND_RING_OPEN:
        l = worker_member_ring_lease(m, d->ring_open->job);
        if (l != NULL && d->ring_open->term >= m->term) // I5
            seat_open(l->seat, d->ring_open);
        return;
    case SLUICE__V1__ATTEND_DOWN__KIND_RING_BEGIN:
        l = worker_member_ring_lease(m, d->ring_begin->job);
        if (l != NULL && d->ring_begin->term >= m->term)
            seat_begin(l->seat, d->ring_begin);
        return;
    case SLUICE__V1__ATTEND_DOWN__KIND_RING_GO:
        l = worker_member_ring_lease(m, d->ring_go->job);
        if (l != NULL && d->ring_go->term >= m->term)
            seat_go(l->seat, d->ring_go);
        return;
    case SLUICE__V1__ATTEND_DOWN__KIND_RING_COPY:
        l = worker_member_ring_lease(m, d->ring_copy->job);
        if (l != NULL && d->ring_copy->term >= m->term)
            seat_copy(l->seat, d->ring_copy);
        return;
    case SLUICE__V1__ATTEND_DOWN__KIND_RATES:
        l = worker_member_ring_lease(m, d->rates->job);
        if (l != NULL && d->rates->term >= m->term)
            seat_rates(l->seat, d->rates);
        return;
    case SLUICE__V1__ATTEND_DOWN__KIND_SNAPSHOT:
        l = worker_member_ring_lease(m, d->snapshot->job);
        if (l != NULL)
            seat_snapshot(l->seat, d->snapshot);
        return;
    case SLUICE__V1__ATTEND_DOWN__KIND_KEEP:
        on_keep(m, d->keep);
        return;
    case SLUICE__V1__ATTEND_DOWN__KIND_CLOSE_JOB:
        on_close_job(m, d->close_job);
        return;
    default: // other messages are for psservers
        return;
    }
}

void worker_member_down(void *arg, const Sluice__V1__AttendDown *d)
{
    struct worker_member *m = arg;

    switch (d->kind_case) {
    case SLUICE__V1__ATTEND_DOWN__KIND_JOB_OPEN:
        on_job_open(m, d->job_open);
        return;
    case SLUICE__V1__ATTEND_DOWN__KIND_MAP:
        on_map(m, d->map);
        return;
    case SLUICE__V1__ATTEND_DOWN__KIND_LEASES:
        for (size_t i = 0; i < d->leases->n_lease; i++)
            on_lease(m, d->leases->lease[i]);
        return;
    case SLUICE__V1__ATTEND_DOWN__KIND_REVOKE:
        on_revoke(m, d->revoke);
        return;
    default:
        on_ring(m, d);
        return;
    }
}

// ---- the stream

bool worker_member_welcome(void *arg, const Sluice__V1__Welcome *w)
{
    struct worker_member *m = arg;

    if (w->term < m->term)
        return false;
    m->term = w->term;
    m->lease_ms = w->lease_ms;
    m->by_map = w->complete_by_map;
    list_for(n, &m->leases)
    {
        struct lease *l = list_entry(n, struct lease, node);

        if (atomic_load(&l->running))
            atomic_store(&l->gate.left, true);
        else
            close_lease(l, GATE_ENDED);
    }
    // The stream says `attached` only after this: reports that are kept go with
    // the first renewal.
    return true;
}

void worker_member_lost(void *arg)
{
    struct worker_member *m = arg;

    m->told = false; // a goodbye that was waited for will not come
    note_drained(m);
}

void worker_member_renewed(void *arg)
{
    struct worker_member *m = arg;
    uint64_t ends = attendee_renewed_ms(m->attend) + m->lease_ms;

    list_for(n, &m->leases) atomic_store(
        &list_entry(n, struct lease, node)->gate.lease_ends_ms, ends);
    outbox_attached(m->outbox);
    note_drained(m);
}

// Returns a lease that hangs by its job's rule, or NULL.
static struct lease *hanging(struct worker_member *m, uint64_t now)
{
    struct lease *found = NULL;

    list_for(n, &m->leases)
    {
        struct lease *l = list_entry(n, struct lease, node);
        uint64_t limit = spec_stall_ms(l->record->open->spec);
        uint64_t still = lease_still_ms(l, now);

        if (limit > 0 && still >= limit + m->setup.grace_ms)
            found = l;
    }
    return found;
}

static bool any_taken(const struct worker_member *m)
{
    list_for(n, &m->leases)
    {
        struct lease *l = list_entry(n, struct lease, node);

        if (atomic_load(&l->gate.closed) != GATE_OPEN)
            return true;
    }
    return false;
}

// Reports a compute thread that hangs in a lease that was taken from us: such a
// thread cannot be ended, only the process can.
static void worker_member_check_hang(struct worker_member *m)
{
    uint64_t now = sl_now_ms(m->setup.clock);
    struct lease *l = hanging(m, now);

    if (l == NULL || !any_taken(m) || m->setup.stuck == NULL)
        return;
    LOG(ERROR, "compute thread hangs",
        "job=%" PRIu64 " closure=%" PRIu64 " kind=%s step=%" PRIu32
        " first=%" PRIu64 " count=%" PRIu64 " still_ms=%" PRIu64,
        l->job, l->closure, kinds[l->kind], atomic_load(&l->gate.pulse.step),
        l->first, l->count, now - l->moved_ms);
    m->setup.stuck(m->setup.arg);
}

#define BEAT_LEASES 8

void worker_member_beat(void *arg)
{
    struct worker_member *m = arg;
    Sluice__V1__Heartbeat beat = SLUICE__V1__HEARTBEAT__INIT;
    Sluice__V1__LeaseProgress progress[BEAT_LEASES], *list[BEAT_LEASES];
    Sluice__V1__StepMetrics metrics[BEAT_LEASES];
    Sluice__V1__Attempt attempts[BEAT_LEASES];
    struct record_left_out left[BEAT_LEASES];
    char trouble[BEAT_LEASES][GATE_TROUBLE], left_out[500];
    struct report_bad bad[BEAT_LEASES];
    size_t count = 0;

    worker_member_check_hang(m);
    outbox_flush(m->outbox); // completed leases are not listed any more
    list_for(n, &m->leases)
    {
        struct lease *l = list_entry(n, struct lease, node);
        struct lease_metrics seen = lease_progress(l);
        Sluice__V1__LeaseProgress *p = &progress[count];

        if (count == BEAT_LEASES)
            break;
        sluice__v1__lease_progress__init(p);
        lease_say_metrics(&metrics[count], &seen);
        attempts[count] = wire_attempt_msg(l->attempt);
        p->job = l->job;
        p->closure = l->closure;
        p->attempt = &attempts[count];
        p->metrics = &metrics[count];
        p->progress = atomic_load(&l->gate.pulse.beats);
        p->waits = atomic_load(&l->gate.pulse.waits);
        gate_trouble_read(&l->gate, trouble[count]);
        p->waits_for = trouble[count];
        left[count] = record_left_out(l->record);
        p->left_out = left[count].what;
        p->left_out_set = left[count].set;
        report_bad(&metrics[count], &bad[count], l);
        list[count++] = p;
    }
    beat.leases = list;
    beat.n_leases = count;
    beat.draining = m->draining || m->away;
    beat.why = m->why;
    beat.device = (char *)m->runner.device(m->runner.arg);
    figures_read_left_out(left_out, sizeof(left_out));
    beat.left_out = left_out;
    wire_usage(&beat);
    attendee_heartbeat(m->attend, &beat);
    for (size_t i = 0; i < count; i++)
        report_bad_free(&bad[i]);
}

void worker_member_want_map(void *arg, uint64_t job, uint64_t have)
{
    struct worker_member *m = arg;
    Sluice__V1__AttendUp up = SLUICE__V1__ATTEND_UP__INIT;
    Sluice__V1__MapWanted wanted = SLUICE__V1__MAP_WANTED__INIT;

    wanted.job = job;
    wanted.have_version = have;
    up.kind_case = SLUICE__V1__ATTEND_UP__KIND_MAP_WANTED;
    up.map_wanted = &wanted;
    (void)attendee_send(m->attend, &up); // if not attached, sync asks again
}

// ---- the device

void worker_member_found(void *arg)
{
    struct worker_member *m = arg;

    if (m->attend != NULL)
        attendee_beat_now(m->attend);
}

static void note_away(struct worker_member *m, bool away, const char *why)
{
    m->away = away;
    m->why[0] = '\0';
    if (away)
        snprintf(m->why, sizeof(m->why), "its device is lost: %s", why);
}

const char *worker_member_away(void *arg)
{
    return ((struct worker_member *)arg)->why;
}

void worker_member_able(struct worker_member *m, bool able, const char *why)
{
    note_away(m, !able, why);
    if (m->attend != NULL)
        attendee_beat_now(m->attend);
}

// ---- life

static bool worker_member_send(void *arg, const Sluice__V1__AttendUp *up)
{
    return attendee_send(((struct worker_member *)arg)->attend, up);
}

enum sl_err worker_member_new(struct worker_member **out,
                              const struct worker_member_setup *setup)
{
    struct worker_member *m = sl_calloc(1, sizeof(*m));
    enum sl_err rc;

    if (m == NULL)
        return SL_ENOMEM;
    m->setup = *setup;
    map_init(&m->records);
    list_init(&m->leases);
    rc = outbox_new(&m->outbox, setup->loop, setup->clock, worker_member_send,
                    m);
    if (rc == SL_OK)
        rc = loop_timer_new(&m->unheard, setup->loop, unheard, m);
    if (rc != SL_OK) {
        outbox_free(m->outbox);
        sl_free(m);
        return rc;
    }
    *out = m;
    return SL_OK;
}

void worker_member_start(struct worker_member *m, struct attendee *attend,
                         const struct worker_member_runner *runner)
{
    m->attend = attend;
    m->runner = *runner;
    note_away(m, runner->away[0] != '\0', runner->away);
}

void worker_member_drain(struct worker_member *m, const char *why)
{
    FAULT("notice.drain");
    m->draining = true;
    m->told = false;
    if (!m->away)
        snprintf(m->why, sizeof(m->why), "%s", why);
    // Sent before leases are handed back: else the coordinator has more for us.
    attendee_beat_now(m->attend);
    m->said = attendee_beats(m->attend);
    loop_timer_start(m->unheard, UNHEARD_MS, 0);
    list_for(n, &m->leases)
    {
        struct lease *l = list_entry(n, struct lease, node);

        if (atomic_load(&l->running)) {
            atomic_store(&l->gate.draining, true);
            if (l->seat != NULL)
                seat_wake(l->seat, false);
        } else {
            close_lease(l, GATE_DRAIN);
        }
    }
}

void worker_member_stay(struct worker_member *m)
{
    m->draining = false;
    if (!m->away)
        m->why[0] = '\0';
    list_for(n, &m->leases)
    {
        struct lease *l = list_entry(n, struct lease, node);

        atomic_store(&l->gate.draining, false);
    }
    attendee_beat_now(m->attend);
}

void worker_member_abandon(struct worker_member *m)
{
    list_for(n, &m->leases)
        close_lease(list_entry(n, struct lease, node), GATE_DRAIN);
}

uint32_t worker_member_leases(const struct worker_member *m)
{
    return m->leases_count;
}

void worker_member_free(struct worker_member *m)
{
    size_t at = 0;
    uint64_t job;
    void *record;

    if (m == NULL)
        return;
    outbox_free(m->outbox);
    loop_timer_free(m->unheard);
    while (map_next(&m->records, &at, &job, &record))
        record_unref(record);
    map_release(&m->records);
    sl_free(m);
}
