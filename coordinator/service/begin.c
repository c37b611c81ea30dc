// SPDX-License-Identifier: Apache-2.0
// coordinator/service/begin.c -- making a coord from the journal and the
// store's answers; its calls to the network; the waits without one.
#include "coordinator/service/begin.h"

#include <stdio.h>
#include <string.h>
#include <sys/statvfs.h>
#include <unistd.h>

#include "common/base/fs.h"
#include "common/base/mem.h"
#include "common/run/log.h"
#include "coordinator/core/recovery/stored.h"
#include "coordinator/service/lead.h"
#include "coordinator/service/quorum.h"

#define TICK_MS 50
#define AGAIN_MS 500
// Space for a checkpoint of the WAL and the largest transaction: with less the
// journal would be full again at once.
#define FULL_BYTES (8ull << 20)

// ---- waiting

static void note_space(struct server *s, const struct sl_error *err)
{
    s->waits_for = SERVER_WAITS_SPACE;
    if (s->lead != NULL)
        snprintf(s->waits, sizeof(s->waits), "%.500s", err->text);
    else
        snprintf(s->waits, sizeof(s->waits), "%.300s; it needs %llu bytes",
                 err->text, FULL_BYTES);
}

static void note_store(struct server *s, const struct sl_error *err)
{
    s->waits_for = SERVER_WAITS_STORE;
    snprintf(
        s->waits, sizeof(s->waits),
        "the coordinator waits for its store: %.500s; it goes on by itself "
        "when that answers, which 'sluice doctor --store %.200s' tries",
        err->text, s->store);
}

static void note_leader(struct server *s)
{
    s->waits_for = SERVER_WAITS_LEADER;
    lead_waits(s->lead, s->waits, sizeof(s->waits));
}

static void begin_log_wait(struct server *s)
{
    if (s->waits_for == SERVER_WAITS_LEADER) {
        LOG(INFO, "standing by", "state=%s", s->waits);
        return; // standing by is no event for people
    }
    if (s->waits_for == SERVER_WAITS_SPACE)
        LOG(ERROR, "no space for the journal", "why=%s", s->waits);
    else
        LOG(WARN, "the store does not answer", "why=%s", s->waits);
    feed_event(s->feed, &(struct event){.kind = EVENT_COORDINATOR_WAITS},
               s->waits);
}

// Announces the wait before anything is torn down: the caller may be inside a
// call of the coord's.
static void begin_announce_wait(struct server *s)
{
    begin_log_wait(s);
    introspect_set_serving(s->introspect, false);
    daemon_status(s->daemon, "waiting: %s", s->waits);
    attend_send_away(s->attend, s->waits);
    api_set_coord(s->api, NULL, s->waits);
    observe_set_coord(s->observe, NULL);
    trace_set_coord(s->trace, NULL, s->waits);
    logs_set_coord(s->logs, NULL, s->waits);
    loop_timer_stop(s->tick);
    loop_timer_start(s->again, AGAIN_MS, AGAIN_MS);
}

static void begin_wait_for(struct server *s,
                           void (*note)(struct server *s,
                                        const struct sl_error *err),
                           const struct sl_error *err)
{
    enum server_waits had = s->waits_for;

    note(s, err);
    if (s->waits_for != had) // once per reason, however often it is tried
        begin_announce_wait(s);
}

static void begin_give_up(struct server *s, const struct sl_error *err)
{
    LOG(ERROR, "cannot go on", "why=%s", err->text);
    // etcd may have the record all the same, so no client hears that it failed.
    if (s->lead != NULL && s->journal != NULL && journal_failed(s->journal))
        lead_fail(s->lead, err->text); // H2
    daemon_end(s->daemon, DAEMON_EXIT_FAILED);
}

// ---- the coord's calls to the outside

static enum sl_err io_work(void *arg, void (*work)(void *),
                           void (*done)(void *), void *task)
{
    struct server *s = arg;

    return loop_work(s->loop, work, done, task);
}

static void io_send(void *arg, uint64_t member,
                    const Sluice__V1__AttendDown *message)
{
    struct server *s = arg;

    lead_check(s->lead); // H4
    attend_send(s->attend, member, message);
}

static void io_hang_up(void *arg, uint64_t member)
{
    attend_hang_up(((struct server *)arg)->attend, member);
}

static void io_cut_off(void *arg, uint64_t member)
{
    attend_cut_off(((struct server *)arg)->attend, member);
}

static const char *io_certificate(void *arg, uint64_t member)
{
    return attend_certificate(((struct server *)arg)->attend, member);
}

static void io_changed(void *arg, uint64_t job)
{
    struct server *s = arg;

    api_changed(s->api, job);
    observe_changed(s->observe, job);
}

static bool io_trouble(void *arg, size_t i, char *out, size_t size)
{
    return quorum_trouble(((struct server *)arg)->quorum, i, out, size);
}

static void io_fatal(void *arg, const struct sl_error *err)
{
    struct server *s = arg;

    if (journal_full(s->journal) && s->again != NULL)
        begin_wait_for(s, note_space, err);
    else
        begin_give_up(s, err);
}

// ---- making a coord

static enum sl_err open_journal(struct server *s, struct sl_error *err)
{
    char *path;
    enum sl_err rc;

    if (s->lead != NULL)
        return lead_journal_of(s->lead, &journal_kind_own, &s->journal, err);
    path = fs_join(daemon_state_dir(s->daemon), "journal.sqlite");
    rc = path == NULL ? sl_fail(err, SL_ENOMEM, "paths")
                      : journal_open(&s->journal, path, err);
    sl_free(path);
    // daemon.h takes "not supported" for a matter of usage; this is not one.
    return rc == SL_ENOTSUP ? SL_ESTATE : rc;
}

// Draws the seed and collects the questions to the store.
static enum sl_err open_questions(struct server *s, struct sl_error *err)
{
    struct coord_options *o = &s->options;

    o->journal = s->journal;
    if (getentropy(&o->seed, sizeof(o->seed)) != 0 ||
        getentropy(o->secret, sizeof(o->secret)) != 0)
        return sl_fail(err, SL_EIO, "no randomness for the ids of jobs");
    return stored_new(&s->stored, s->journal, o->fs, o->store, o->seed, err);
}

// Makes the coord from the contents of the journal and the store.
static enum sl_err begin_coord(struct server *s, struct sl_error *err)
{
    struct coord_io io = {
        .arg = s,
        .send = io_send,
        .hang_up = io_hang_up,
        .cut_off = io_cut_off,
        .certificate = io_certificate,
        .work = io_work,
        .changed = io_changed,
        .trouble = io_trouble,
        .fatal = io_fatal,
    };
    enum sl_err rc;

    s->options.stored = s->stored;
    rc = coord_new(&s->coord, &s->options, &io, err);
    s->options.stored = NULL;
    stored_free(s->stored);
    s->stored = NULL;
    if (rc == SL_OK) {
        attend_set_coord(s->attend, s->coord);
        api_set_coord(s->api, s->coord, NULL);
        observe_set_coord(s->observe, s->coord);
        trace_set_coord(s->trace, s->coord, NULL);
        logs_set_coord(s->logs, s->coord, NULL);
    }
    return rc;
}

// Says whether the journal is full, or could not be opened for want of space.
static bool lacks_space(const struct server *s, enum sl_err rc)
{
    return s->journal == NULL ? rc == SL_EUNAVAIL : journal_full(s->journal);
}

enum sl_err begin_new(struct server *s, struct sl_error *err)
{
    struct sl_error why = SL_ERROR_INIT;
    enum sl_err rc;

    if (s->lead != NULL) {
        note_leader(s);
        return SL_OK;
    }
    rc = open_journal(s, err);
    if (rc == SL_OK)
        rc = open_questions(s, err);
    if (rc == SL_OK && stored_look(s->stored, &why) != SL_OK) {
        note_store(s, &why);
        return SL_OK;
    }
    if (rc == SL_OK)
        rc = begin_coord(s, err);
    if (rc == SL_OK || !lacks_space(s, rc))
        return rc;
    note_space(s, err);
    return SL_OK;
}

static void begin_on_tick(void *arg)
{
    struct server *s = arg;

    loop_doing(s->loop, "tick");
    coord_tick(s->coord);
    api_tick(s->api);
}

static void begin_start_ticks(struct server *s)
{
    s->waits_for = SERVER_SERVES;
    s->waits[0] = '\0';
    loop_timer_stop(s->again);
    loop_timer_start(s->tick, TICK_MS, TICK_MS);
    introspect_set_serving(s->introspect, true);
    daemon_status(s->daemon, "term %llu",
                  (unsigned long long)coord_term(s->coord));
    daemon_ready(s->daemon);
}

enum sl_err begin_serving(struct server *s, struct sl_error *err)
{
    if (s->coord == NULL)
        begin_announce_wait(s);
    if (s->lead != NULL) {
        daemon_ready(s->daemon); // a standby works as it should
        return lead_start(s->lead, err);
    }
    if (s->coord == NULL)
        return SL_OK;
    begin_start_ticks(s);
    LOG(INFO, "coordinator serves", "term=%llu store=%s",
        (unsigned long long)coord_term(s->coord), s->store);
    return SL_OK;
}

// ---- making the next coord, while calls are answered

struct begin_asking {
    struct server *server; // NULL: the server ends
    struct stored *stored; // owned
    enum sl_err rc;
    struct sl_error err;
};

static void asking_free(struct begin_asking *a)
{
    stored_free(a->stored);
    sl_free(a);
}

static void ask_work(void *arg)
{
    struct begin_asking *a = arg;

    a->rc = stored_look(a->stored, &a->err);
}

static void begin_resume_serving(struct server *s)
{
    const char *what =
        s->waits_for == SERVER_WAITS_SPACE    ? "space for the journal again"
        : s->waits_for == SERVER_WAITS_LEADER ? "this coordinator leads"
                                              : "the store answers again";

    begin_start_ticks(s);
    LOG(INFO, what, "term=%llu", (unsigned long long)coord_term(s->coord));
}

static void ask_done(void *arg)
{
    struct begin_asking *a = arg;
    struct server *s = a->server;
    struct sl_error err = SL_ERROR_INIT;

    if (s == NULL) {
        asking_free(a);
        return;
    }
    s->asking = NULL;
    s->stored = a->stored;
    a->stored = NULL;
    if (a->rc != SL_OK)
        begin_wait_for(s, note_store, &a->err);
    else if (begin_coord(s, &err) == SL_OK)
        begin_resume_serving(s);
    else if (journal_full(s->journal))
        begin_wait_for(s, note_space, &err);
    else
        begin_give_up(s, &err);
    asking_free(a);
}

// Asks the store on a pool thread; takes s->stored.
static enum sl_err begin_ask_store(struct server *s, struct sl_error *err)
{
    struct begin_asking *a = sl_calloc(1, sizeof(*a));

    if (a == NULL)
        return sl_fail(err, SL_ENOMEM, "no memory for a question to the store");
    a->server = s;
    a->stored = s->stored;
    if (loop_work(s->loop, ask_work, ask_done, a) != SL_OK) {
        sl_free(a);
        return sl_fail(err, SL_ENOMEM, "no pool thread");
    }
    s->stored = NULL;
    s->asking = a;
    return SL_OK;
}

// Makes a coord of the journal of a coordinator that was chosen.
static void begin_take_over(struct server *s, struct journal *journal)
{
    struct sl_error err = SL_ERROR_INIT;
    enum sl_err rc;

    s->journal = journal;
    api_set_lead(s->api, s->lead);
    rc = open_questions(s, &err);
    if (rc == SL_OK)
        rc = begin_ask_store(s, &err);
    if (rc != SL_OK)
        begin_give_up(s, &err);
}

void begin_on_lead(void *arg)
{
    struct server *s = arg;
    struct journal *events, *journal = lead_take(s->lead, &events);
    char now[SL_ERROR_TEXT];

    if (s->journal != NULL || s->waits_for != SERVER_WAITS_LEADER)
        return; // it takes over, or leads
    lead_waits(s->lead, now, sizeof(now));
    if (strcmp(now, s->waits) != 0) {
        note_leader(s);
        begin_announce_wait(s);
    }
    if (journal != NULL) {
        feed_keep(s->feed, &s->feed_home, events);
        begin_take_over(s, journal);
    }
}

static bool begin_has_space(const struct server *s)
{
    struct statvfs disk;
    struct etcd_status etcd;

    if (s->lead != NULL)
        return etcd_status(s->etcd, AGAIN_MS, &etcd, NULL) == SL_OK &&
               !etcd.full;
    return statvfs(daemon_state_dir(s->daemon), &disk) == 0 &&
           (unsigned long long)disk.f_bavail * disk.f_frsize >= FULL_BYTES;
}

// Opens the journal again as after a crash: from what was committed, under the
// next term.
static enum sl_err open_again(struct server *s, struct sl_error *err)
{
    enum sl_err rc = open_journal(s, err);

    if (rc == SL_OK)
        rc = open_questions(s, err);
    if (rc == SL_OK) // a call that comes meanwhile frees no more space
        snprintf(s->waits, sizeof(s->waits),
                 "there is space for the journal again; reading the store "
                 "%.200s",
                 s->store);
    return rc;
}

static void begin_on_retry(void *arg)
{
    struct server *s = arg;
    struct sl_error err = SL_ERROR_INIT;
    enum sl_err rc = SL_OK;

    daemon_waits(s->daemon);
    if (s->waits_for == SERVER_WAITS_LEADER || s->asking != NULL ||
        (s->coord != NULL && coord_writes(s->coord)))
        return;
    coord_free(s->coord);
    s->coord = NULL;
    if (s->waits_for == SERVER_WAITS_SPACE) {
        stored_free(s->stored);
        journal_close(s->journal);
        s->stored = NULL;
        s->journal = NULL;
        if (!begin_has_space(s))
            return;
        rc = open_again(s, &err);
        if (rc == SL_EUNAVAIL || (rc == SL_ETIMEDOUT && s->journal == NULL))
            return; // it was full again, or etcd was slow
    }
    if (rc == SL_OK)
        rc = begin_ask_store(s, &err);
    if (rc == SL_OK || rc == SL_ENOMEM)
        return; // tried again at the next tick
    loop_timer_stop(s->again);
    begin_give_up(s, &err);
}

enum sl_err begin_timers(struct server *s, struct sl_error *err)
{
    enum sl_err rc = loop_timer_new(&s->tick, s->loop, begin_on_tick, s);

    if (rc == SL_OK)
        rc = loop_timer_new(&s->again, s->loop, begin_on_retry, s);
    return rc == SL_OK ? rc : sl_fail(err, rc, "no timers");
}

// ---- the end

void begin_stop(struct server *s)
{
    loop_timer_stop(s->tick);
    loop_timer_stop(s->again);
    if (s->asking != NULL)
        s->asking->server = NULL;
    s->asking = NULL;
}

void begin_release(struct server *s)
{
    loop_timer_free(s->tick);
    loop_timer_free(s->again);
    stored_free(s->stored);
    s->tick = s->again = NULL;
    s->stored = NULL;
}
