// SPDX-License-Identifier: Apache-2.0
// coordinator/service/denials.c -- the table of recently refused callers.
#include "coordinator/service/denials.h"

#include <pthread.h>
#include <stdio.h>
#include <string.h>

#include "common/base/mem.h"

#define JOB_BYTES 64 // of a job's name in a line

// One caller and one call.
struct denial {
    // id of its certificate; of a decided call: the caller's name
    char id[RPC_PEER_ID];
    const char *call;      // NULL: the place is free
    struct access_who who; // the caller, as far as known
    struct sl_error why;   // of the last one
    char job[JOB_BYTES];   // job of the last denied call, if that was decided
    uint64_t times;        // since it was written
    uint64_t every_ms;     // 0: DENIALS_MS
    uint64_t written_ms;   // or the begin of its count
    bool written;
    unsigned whole; // lines of single calls since written_ms
};

struct denials {
    struct audit *audit;
    const struct sl_clock *clock;
    pthread_mutex_t lock;
    struct denial list[DENIALS_CALLERS];
    struct denial others; // callers without a place of their own
};

enum sl_err denials_new(struct denials **out, struct audit *audit,
                        const struct sl_clock *clock, struct sl_error *err)
{
    struct denials *d = sl_calloc(1, sizeof(*d));

    if (d == NULL)
        return sl_fail(err, SL_ENOMEM, "the audit log");
    d->audit = audit;
    d->clock = clock;
    pthread_mutex_init(&d->lock, NULL);
    d->others.call = "(several)";
    snprintf(d->others.who.name, sizeof(d->others.who.name), "(others)");
    *out = d;
    return SL_OK;
}

// ---- what was refused

// Finds the entry of a caller and a call, or takes a free one; *is_new: its
// `who` is not filled in yet.
static struct denial *place_locked(struct denials *d, const char *id,
                                   const char *call, bool *is_new)
{
    struct denial *empty = NULL;

    *is_new = false;

    for (size_t i = 0; i < DENIALS_CALLERS; i++) {
        struct denial *one = &d->list[i];

        if (one->call == NULL)
            empty = empty != NULL ? empty : one;
        else if (strcmp(one->call, call) == 0 && strcmp(one->id, id) == 0)
            return one;
    }
    if (empty == NULL)
        return &d->others;
    *empty = (struct denial){.call = call};
    snprintf(empty->id, sizeof(empty->id), "%s", id);
    *is_new = true;
    return empty;
}

void denials_note(struct denials *d, const struct rpc_peer *peer,
                  const char *call, const struct sl_error *why)
{
    struct denial *one;
    bool is_new;

    pthread_mutex_lock(&d->lock);
    one = place_locked(d, peer->id, call, &is_new);
    // A caller without a role, or one that was revoked, has at least a text to
    // show.
    if (is_new && access_who(&one->who, peer, NULL) != SL_OK)
        snprintf(one->who.name, sizeof(one->who.name), "%.100s", peer->id);
    one->times++;
    one->why = *why;
    pthread_mutex_unlock(&d->lock);
}

static bool is_old(const struct denial *one, uint64_t now_ms)
{
    return !one->written ||
           now_ms - one->written_ms >=
               (one->every_ms != 0 ? one->every_ms : DENIALS_MS);
}

// Counts a failed call. What is counted already is written before later
// failures have lines of their own again.
static void count_failed(struct denials *d, struct denial *one)
{
    uint64_t now = sl_now_ms(d->clock);

    if (one == &d->others || one->times > 0 || !is_old(one, now))
        return;
    one->every_ms = DENIALS_FAILED_MS;
    one->written = true;
    one->written_ms = now;
    one->whole = 0;
}

bool denials_whole(struct denials *d, const struct audit_line *line)
{
    char id[RPC_PEER_ID];
    struct denial *one;
    bool is_new, whole;

    snprintf(id, sizeof(id), "%s %s of %s", access_role_name(line->who->role),
             line->who->name, line->who->tenant);
    pthread_mutex_lock(&d->lock);
    one = place_locked(d, id, line->call, &is_new);
    if (is_new)
        one->who = *line->who;
    count_failed(d, one);
    whole = one != &d->others && one->whole < DENIALS_WHOLE && one->times == 0;
    if (whole) {
        one->whole++;
    } else {
        one->times++;
        one->why = *line->why;
        snprintf(one->job, sizeof(one->job), "%s", line->job);
    }
    pthread_mutex_unlock(&d->lock);
    return whole;
}

// ---- writing the lines

// Moves a counted entry that is due to *out; returns false if it is not.
static bool denials_take_due(struct denials *d, struct denial *one,
                             bool now_all, struct denial *out)
{
    uint64_t now = sl_now_ms(d->clock);
    bool due, old;

    pthread_mutex_lock(&d->lock);
    old = is_old(one, now);
    due = one->times > 0 && (old || now_all);
    if (due) {
        *out = *one;
        one->times = 0;
        one->written = true;
        one->written_ms = now;
        one->whole = 0;
    } else if (one->times == 0 && old && one != &d->others) {
        one->call = NULL;
    }
    pthread_mutex_unlock(&d->lock);
    return due;
}

static void write_due(struct denials *d, struct denial *one, bool now_all)
{
    struct denial said;
    struct audit_line line;

    if (!denials_take_due(d, one, now_all, &said))
        return;
    line = (struct audit_line){.who = &said.who,
                               .call = said.call,
                               .job = said.job,
                               .result = said.why.code,
                               .why = &said.why,
                               .times = said.times};
    audit_write(d->audit, &line, NULL, NULL);
}

static void write_all_due(struct denials *d, bool now_all)
{
    for (size_t i = 0; i < DENIALS_CALLERS; i++)
        write_due(d, &d->list[i], now_all);
    write_due(d, &d->others, now_all);
}

void denials_tick(struct denials *d)
{
    write_all_due(d, false);
}

void denials_free(struct denials *d)
{
    if (d == NULL)
        return;
    write_all_due(d, true);
    pthread_mutex_destroy(&d->lock);
    sl_free(d);
}
