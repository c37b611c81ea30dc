// SPDX-License-Identifier: Apache-2.0
// coordinator/service/lead.c -- the choice of a leader, its lease, and its end.
#include "coordinator/service/lead.h"

#include <pthread.h>
#include <stdio.h>
#include <stdlib.h>
#include <string.h>
#include <unistd.h>

#include "common/base/buf.h"
#include "common/base/deadline.h"
#include "common/base/fs.h"
#include "common/base/mem.h"
#include "common/run/log.h"
#include "coordinator/journal/journal_etcd.h"
#include "coordinator/rules/tenure.h"

#define LEAD_CALL_MS 2000
#define LEAD_RESIGN_MS 1000
#define LEAD_AGAIN_MS 250 // until etcd is asked again after a failure
#define LEAD_LOOK_MS 5000 // a standby looks that often, if it hears nothing
#define BESIDE_READS 3    // tries, when a standby is chosen
#define LEAD_EXIT 1
#define LEAD_WHO 640 // bytes of what the key's value says

struct lead {
    struct lead_options o; // its strings are owned
    pthread_t follower, keeper;
    bool follows, keeps; // the threads were started
    bool stopped;
    // the follower's
    struct journal *journal, *beside;
    struct etcd_watch *on_key, *on_log;
    bool told_trouble;
    bool cleared; // the lease of an earlier process is given up

    struct {
        pthread_mutex_t lock;
        pthread_cond_t changed;
        bool ending;          // lead_stop was called
        bool moved;           // the key has changed, or a watch ended
        bool grown;           // the log has more records
        int64_t lease;        // 0: none
        int64_t term;         // create revision of the own key; 0: not chosen
        struct tenure tenure; // of `lease`
        struct journal *chose, *beside; // for lead_take
        char who[LEAD_WHO];             // what lead_waits says
        bool posted;
        struct loop_task task;
    } shared;
};

static uint64_t lead_now_us(const struct lead *l)
{
    return sl_now_us(l->o.clock);
}

static void lead_lock(struct lead *l)
{
    pthread_mutex_lock(&l->shared.lock);
}

static void lead_unlock(struct lead *l)
{
    pthread_mutex_unlock(&l->shared.lock);
}

// Ends the process: the next one stands by. No other thread says a word after
// it, and what is not written yet will not be.
static void lead_end(const char *why)
{
    LOG(ERROR, "this coordinator leads no more and ends", "why=%s", why);
    _exit(LEAD_EXIT);
}

static bool lead_is_ending(struct lead *l)
{
    bool ending;

    lead_lock(l);
    ending = l->shared.ending;
    lead_unlock(l);
    return ending;
}

// ---- what the loop is told

static void lead_on_loop(void *arg)
{
    struct lead *l = arg;
    bool ending;

    lead_lock(l);
    l->shared.posted = false;
    ending = l->shared.ending;
    lead_unlock(l);
    if (!ending)
        l->o.changed(l->o.arg);
}

// Has the loop called. The caller holds the lock.
static void lead_post(struct lead *l)
{
    if (l->shared.posted || l->shared.ending)
        return;
    l->shared.posted = true;
    loop_post_task(l->o.loop, &l->shared.task, lead_on_loop, l);
}

static void lead_say(struct lead *l, const char *who)
{
    lead_lock(l);
    if (strcmp(l->shared.who, who) != 0) {
        snprintf(l->shared.who, sizeof(l->shared.who), "%s", who);
        lead_post(l);
    }
    lead_unlock(l);
}

// Notes which coordinator leads, by the value of its key.
static void lead_say_leader(struct lead *l, const struct sl_slice *value)
{
    char text[LEAD_WHO] = "", address[300] = "", name[100] = "";
    char who[LEAD_WHO];
    size_t n = value->len < sizeof(text) - 1 ? value->len : sizeof(text) - 1;

    if (n > 0) // an empty value has no address
        memcpy(text, value->data, n);
    if (sscanf(text, "%299s %99s", address, name) == 2)
        snprintf(who, sizeof(who), "%s (%s)", address, name);
    else
        snprintf(who, sizeof(who),
                 "none that is known: the key %s/%s is not "
                 "a coordinator's",
                 etcd_url(l->o.etcd), JOURNAL_LEADER);
    lead_say(l, who);
}

void lead_waits(struct lead *l, char *out, size_t size)
{
    lead_lock(l);
    snprintf(out, size, RPC_STANDBY "%s", l->shared.who);
    lead_unlock(l);
}

// ---- the own clock

static int64_t lead_left_ms(void *arg)
{
    struct lead *l = arg;
    int64_t left;

    lead_lock(l);
    left = tenure_left_ms(&l->shared.tenure, lead_now_us(l));
    lead_unlock(l);
    return left;
}

void lead_check(struct lead *l)
{
    bool over;

    if (l == NULL)
        return;
    lead_lock(l);
    over = l->shared.term != 0 && !l->shared.ending &&
           tenure_left_ms(&l->shared.tenure, lead_now_us(l)) == 0;
    lead_unlock(l);
    if (over)
        lead_end("its lease is over by its own clock (H4)");
}

// Renews the lease once. The caller holds the lock, which is free meanwhile.
static void lead_renew(struct lead *l)
{
    struct sl_error err = SL_ERROR_INIT;
    uint64_t sent = lead_now_us(l);
    int64_t limit = tenure_limit_ms(&l->shared.tenure, sent);
    int64_t granted = 0;
    enum sl_err rc;

    lead_unlock(l);
    rc = etcd_lease_renew(l->o.etcd, l->shared.lease, limit, &granted, &err);
    lead_lock(l);
    if (rc == SL_OK) {
        tenure_renewed(&l->shared.tenure, sent, granted);
        return;
    }
    if (rc == SL_ENOENT && !l->shared.ending)
        lead_end("etcd has ended its lease");
    LOG(WARN, "the lease was not renewed", "why=%s", err.text);
    tenure_failed(&l->shared.tenure, lead_now_us(l));
}

static void *lead_keep(void *arg)
{
    struct lead *l = arg;

    lead_lock(l);
    while (!l->shared.ending) {
        uint64_t now = lead_now_us(l);
        int64_t wait = tenure_wait_ms(&l->shared.tenure, now);
        struct deadline d = deadline_in_ms((uint64_t)wait);

        if (tenure_left_ms(&l->shared.tenure, now) == 0)
            lead_end("its lease is over by its own clock (H4)");
        if (wait == 0)
            lead_renew(l);
        else
            deadline_wait(&d, &l->shared.changed, &l->shared.lock);
    }
    lead_unlock(l);
    return NULL;
}

// ---- what etcd tells

static void lead_note(struct lead *l, bool *what)
{
    lead_lock(l);
    *what = true;
    pthread_cond_broadcast(&l->shared.changed);
    lead_unlock(l);
}

// The key has changed. A leader's own is still there, or the leader ends: but
// for what was before it was chosen, of which it may hear late.
static void lead_key_changed(void *arg, const struct etcd_change *change)
{
    struct lead *l = arg;
    bool lost;

    lead_lock(l);
    lost = l->shared.term != 0 && !l->shared.ending &&
           change->row.modified > l->shared.term &&
           (change->deleted || change->row.created > l->shared.term);
    lead_unlock(l);
    if (lost)
        lead_end("its key in etcd is gone: its lease was revoked, or has "
                 "ended");
    lead_note(l, &l->shared.moved);
}

static void lead_log_changed(void *arg, const struct etcd_change *change)
{
    struct lead *l = arg;

    lead_note(l, &l->shared.grown);
}

static void lead_watch_ended(void *arg, enum sl_err code,
                             const struct sl_error *err)
{
    struct lead *l = arg;

    lead_note(l, &l->shared.moved);
}

static void lead_unwatch(struct lead *l)
{
    etcd_watch_close(l->on_key);
    etcd_watch_close(l->on_log);
    l->on_key = l->on_log = NULL;
}

// Watches the key and the log from the revision `after` on, which it is not
// told of again (H6).
static enum sl_err lead_watch(struct lead *l, int64_t after,
                              struct sl_error *err)
{
    static const struct etcd_watch_events key = {.changed = lead_key_changed,
                                                 .ended = lead_watch_ended};
    static const struct etcd_watch_events log = {.changed = lead_log_changed,
                                                 .ended = lead_watch_ended};
    enum sl_err rc;

    lead_unwatch(l);
    rc = etcd_watch_open(&l->on_key, l->o.etcd, JOURNAL_LEADER, NULL, after + 1,
                         &key, l, err);
    if (rc == SL_OK)
        rc = etcd_watch_open(&l->on_log, l->o.etcd, "log/", "log0", after + 1,
                             &log, l, err);
    return rc;
}

// ---- the follower

// Looks at the key and watches it. Sets *held if a coordinator leads.
static enum sl_err lead_look(struct lead *l, bool *held, struct sl_error *err)
{
    const struct etcd_op get = {.what = ETCD_GET, .key = JOURNAL_LEADER};
    struct etcd_reply reply = {0};
    enum sl_err rc;

    lead_lock(l);
    l->shared.moved = l->shared.grown = false;
    lead_unlock(l);
    rc = etcd_get(l->o.etcd, &get, LEAD_CALL_MS, &reply, err);
    if (rc == SL_OK)
        rc = lead_watch(l, reply.revision, err);
    *held = rc == SL_OK && reply.count > 0;
    if (*held)
        lead_say_leader(l, &reply.rows[0].value);
    else if (rc == SL_OK)
        lead_say(l, "none that is known: no coordinator leads");
    etcd_reply_release(&reply);
    return rc;
}

// Reads what *journal has of new rows of that kind; NULL: begins it.
static enum sl_err lead_follow_on(struct lead *l, struct journal **journal,
                                  const struct journal_kind *kind,
                                  struct sl_error *err)
{
    enum sl_err rc;

    if (*journal == NULL)
        return journal_follow(journal, l->o.etcd, kind, err);
    rc = journal_follow_on(*journal, err);
    if (rc != SL_OK && journal_failed(*journal)) {
        journal_close(*journal);
        *journal = NULL;
    }
    return rc;
}

// Reads what is new of the rows beside the journal. Without them it can lead as
// well, so a failure is tried again at the next look, and is no trouble.
static void lead_follow_beside(struct lead *l)
{
    struct sl_error err = SL_ERROR_INIT;

    if (l->o.beside != NULL)
        (void)lead_follow_on(l, &l->beside, l->o.beside, &err);
}

// Sets *term to the create revision of the key if its value is `value`, which
// has the number of our lease in it; else to 0.
static enum sl_err lead_read_own(struct lead *l, const char *value,
                                 int64_t *term, struct sl_error *err)
{
    const struct etcd_op get = {.what = ETCD_GET, .key = JOURNAL_LEADER};
    struct etcd_reply reply = {0};
    enum sl_err rc = etcd_get(l->o.etcd, &get, LEAD_CALL_MS, &reply, err);

    *term = 0;
    if (rc == SL_OK && reply.count > 0 &&
        reply.rows[0].value.len == strlen(value) &&
        memcmp(reply.rows[0].value.data, value, strlen(value)) == 0)
        *term = reply.rows[0].created;
    etcd_reply_release(&reply);
    return rc;
}

// Makes the key if it is not there. Sets *term to its create revision, 0 if
// another coordinator was first. If the outcome is not known, it looks (H6).
static enum sl_err lead_make_key(struct lead *l, int64_t lease, int64_t *term,
                                 struct sl_error *err)
{
    char value[LEAD_WHO];
    enum sl_err rc;

    snprintf(value, sizeof(value), "%s %s %llx", l->o.address, l->o.name,
             (unsigned long long)lease);
    rc = journal_claim(l->o.etcd, lease, value, LEAD_CALL_MS, term, err);
    return rc != SL_OK && etcd_unknown(rc, err)
               ? lead_read_own(l, value, term, err)
               : rc;
}

// Notes the lease for lead_resign. It waits for no disk: the file is of use on
// a host that lives, while the lease lasts.
static enum sl_err lead_note_lease(struct lead *l, int64_t lease,
                                   struct sl_error *err)
{
    struct fs_file *f = NULL;
    char text[32];
    enum sl_err rc = fs_open(fs_private(), &f, l->o.file, FS_WRITE, err);

    snprintf(text, sizeof(text), "%llx\n", (unsigned long long)lease);
    if (rc == SL_OK)
        rc = fs_write(f, text, strlen(text), err);
    fs_close(f);
    return rc;
}

// From here on this process leads: what it learns of the end of its lease or
// key ends it. SL_EUNAVAIL: it was stopped meanwhile.
static enum sl_err lead_begin(struct lead *l, int64_t lease, int64_t term,
                              uint64_t sent_us, int64_t granted_s)
{
    bool ending;

    lead_lock(l);
    ending = l->shared.ending;
    l->shared.lease = lease;
    l->shared.term = ending ? 0 : term;
    tenure_renewed(&l->shared.tenure, sent_us, granted_s);
    lead_unlock(l);
    if (ending)
        return SL_EUNAVAIL;
    if (pthread_create(&l->keeper, NULL, lead_keep, l) != 0)
        lead_end("there is no thread that could renew its lease");
    pthread_setname_np(l->keeper, "lease");
    l->keeps = true;
    return SL_OK;
}

// Tries to be chosen. Sets *chosen if it was.
static enum sl_err lead_campaign(struct lead *l, bool *chosen,
                                 struct sl_error *err)
{
    uint64_t sent = lead_now_us(l);
    int64_t lease = 0, granted = 0, term = 0;
    enum sl_err rc = etcd_lease_grant(l->o.etcd, l->o.ttl_s, LEAD_CALL_MS,
                                      &lease, &granted, err);

    *chosen = false;
    if (rc != SL_OK)
        return rc;
    rc = lead_note_lease(l, lease, err);
    if (rc == SL_OK)
        rc = lead_make_key(l, lease, &term, err);
    if (rc == SL_OK && term != 0)
        rc = lead_begin(l, lease, term, sent, granted);
    *chosen = rc == SL_OK && term != 0;
    if (!*chosen) // a late transaction finds no lease, then, and fails
        (void)etcd_lease_revoke(l->o.etcd, lease, LEAD_CALL_MS, NULL);
    return rc;
}

static enum sl_err lead_journal(struct lead *l, struct journal *j,
                                struct sl_error *err)
{
    struct journal_leader leader = {.left_ms = lead_left_ms, .arg = l};

    lead_lock(l);
    leader.term = l->shared.term;
    lead_unlock(l);
    return journal_lead(j, &leader, err);
}

void lead_fail(struct lead *l, const char *why)
{
    (void)etcd_lease_revoke(l->o.etcd, l->shared.lease, LEAD_RESIGN_MS, NULL);
    lead_end(why);
}

bool lead_stands_by(void *lead, struct sl_error *err)
{
    struct lead *l = lead;
    bool by;

    lead_lock(l);
    by = l->shared.term == 0;
    if (by)
        sl_fail(err, SL_EUNAVAIL, RPC_STANDBY "%s", l->shared.who);
    lead_unlock(l);
    return by;
}

// Reads the rows beside the journal to their end, as the one that leads.
static void lead_take_beside(struct lead *l)
{
    struct sl_error err = SL_ERROR_INIT;

    if (l->o.beside == NULL)
        return;
    // A member that went away with the leader may have been asked first.
    for (unsigned i = 0; i < BESIDE_READS && !lead_is_ending(l); i++) {
        if (l->beside == NULL)
            lead_follow_beside(l);
        if (l->beside != NULL && lead_journal(l, l->beside, &err) == SL_OK)
            return;
        journal_close(l->beside);
        l->beside = NULL;
    }
    LOG(WARN, "what is kept beside the journal is not read", "why=%s",
        err.text[0] != '\0' ? err.text : "etcd does not answer");
}

// Reads the journal to its end (H3), and gives it to the loop.
static void lead_take_over(struct lead *l)
{
    struct sl_error err = SL_ERROR_INIT;
    uint64_t from_ms = sl_real_ms();

    LOG(INFO, "chosen to lead", "etcd=%s revision=%lld", etcd_url(l->o.etcd),
        (long long)l->shared.term);
    lead_say(l, "none that is known: this coordinator takes over");
    etcd_watch_close(l->on_log); // this process writes the records from now on
    l->on_log = NULL;
    if (lead_journal(l, l->journal, &err) != SL_OK && !lead_is_ending(l))
        lead_fail(l, err.text);
    lead_take_beside(l);
    LOG(INFO, "the journal is read", "ms=%llu",
        (unsigned long long)(sl_real_ms() - from_ms));
    lead_lock(l);
    l->shared.chose = l->journal;
    l->shared.beside = l->beside;
    l->journal = l->beside = NULL;
    lead_post(l);
    lead_unlock(l);
}

// Says whether it is of no use to ask again.
static bool lead_is_final(enum sl_err rc)
{
    return rc == SL_ENOTSUP || rc == SL_ECORRUPT || rc == SL_EDENIED ||
           rc == SL_EAUTH;
}

// A failure is logged once, and so is its end.
static void lead_trouble(struct lead *l, enum sl_err rc,
                         const struct sl_error *err)
{
    char who[LEAD_WHO];

    if (rc == SL_OK) {
        if (l->told_trouble)
            LOG(INFO, "etcd answers again", "etcd=%s", etcd_url(l->o.etcd));
        l->told_trouble = false;
        return;
    }
    if (lead_is_final(rc))
        lead_end(err->text);
    if (!l->told_trouble)
        LOG(WARN, "etcd does not answer", "why=%s", err->text);
    l->told_trouble = true;
    snprintf(who, sizeof(who), "none that is known: %.300s", err->text);
    lead_say(l, who);
}

// Gives up the lease that the process before this one noted in its folder, and
// did not live to give up: one that leads and was killed, and has no unit that
// calls --resign, is followed by another as soon as it starts again.
static enum sl_err lead_clear(struct lead *l, struct sl_error *err)
{
    enum sl_err rc;

    if (l->cleared)
        return SL_OK;
    rc = lead_resign(l->o.etcd, l->o.file, err);
    l->cleared = rc == SL_OK;
    return rc;
}

// Looks once, follows the journal, and campaigns if there is no leader. The
// first time it reads the journal first: one that it cannot read must not be
// led.
static enum sl_err lead_round(struct lead *l, bool *chosen,
                              struct sl_error *err)
{
    bool held = false;
    enum sl_err rc = lead_clear(l, err);

    *chosen = false;
    if (rc == SL_OK)
        rc = lead_look(l, &held, err);
    if (rc == SL_OK && (held || l->journal == NULL))
        rc = lead_follow_on(l, &l->journal, &journal_kind_own, err);
    if (rc == SL_OK && held)
        lead_follow_beside(l);
    if (rc == SL_OK && !held)
        rc = lead_campaign(l, chosen, err);
    return rc;
}

// Follows the journal until the key changes, or for LEAD_LOOK_MS.
static enum sl_err lead_stand(struct lead *l, struct sl_error *err)
{
    struct deadline d = deadline_in_ms(LEAD_LOOK_MS);
    enum sl_err rc = SL_OK;
    bool waits = true;

    lead_lock(l);
    while (rc == SL_OK && waits && !l->shared.moved && !l->shared.ending) {
        if (!l->shared.grown) {
            waits = deadline_wait(&d, &l->shared.changed, &l->shared.lock);
            continue;
        }
        l->shared.grown = false;
        lead_unlock(l);
        rc = lead_follow_on(l, &l->journal, &journal_kind_own, err);
        lead_lock(l);
    }
    lead_unlock(l);
    return rc;
}

static void lead_pause(struct lead *l)
{
    struct deadline d = deadline_in_ms(LEAD_AGAIN_MS);

    lead_lock(l);
    while (!l->shared.ending &&
           deadline_wait(&d, &l->shared.changed, &l->shared.lock))
        ;
    lead_unlock(l);
}

static void *lead_follow(void *arg)
{
    struct lead *l = arg;
    bool chosen = false;

    while (!chosen && !lead_is_ending(l)) {
        struct sl_error err = SL_ERROR_INIT;
        enum sl_err rc = lead_round(l, &chosen, &err);

        if (rc == SL_OK && !chosen)
            rc = lead_stand(l, &err);
        if (!lead_is_ending(l))
            lead_trouble(l, rc, &err);
        if (rc != SL_OK)
            lead_pause(l);
    }
    if (chosen && !lead_is_ending(l))
        lead_take_over(l);
    return NULL;
}

// ---- its life

static enum sl_err lead_copy(struct lead *l, const struct lead_options *o,
                             struct sl_error *err)
{
    l->o = *o;
    l->o.name = sl_strdup(o->name);
    l->o.address = sl_strdup(o->address);
    l->o.file = sl_strdup(o->file);
    return l->o.name == NULL || l->o.address == NULL || l->o.file == NULL
               ? sl_no_memory(err)
               : SL_OK;
}

enum sl_err lead_new(struct lead **out, const struct lead_options *options,
                     struct sl_error *err)
{
    struct lead *l = sl_calloc(1, sizeof(*l));

    if (l == NULL)
        return sl_no_memory(err);
    pthread_mutex_init(&l->shared.lock, NULL);
    pthread_cond_init(&l->shared.changed, NULL);
    if (lead_copy(l, options, err) != SL_OK) {
        lead_free(l);
        return SL_ENOMEM;
    }
    snprintf(l->shared.who, sizeof(l->shared.who),
             "none that is known: %.300s is asked", etcd_url(l->o.etcd));
    *out = l;
    return SL_OK;
}

enum sl_err lead_start(struct lead *l, struct sl_error *err)
{
    if (pthread_create(&l->follower, NULL, lead_follow, l) != 0)
        return sl_fail(err, SL_ENOMEM, "no thread for the choice of a leader");
    pthread_setname_np(l->follower, "leader");
    l->follows = true;
    return SL_OK;
}

struct journal *lead_take(struct lead *l, struct journal **beside)
{
    struct journal *j;

    lead_lock(l);
    j = l->shared.chose;
    *beside = l->shared.beside;
    l->shared.chose = l->shared.beside = NULL;
    lead_unlock(l);
    return j;
}

enum sl_err lead_journal_of(struct lead *l, const struct journal_kind *kind,
                            struct journal **out, struct sl_error *err)
{
    struct journal *j = NULL;
    enum sl_err rc = journal_follow(&j, l->o.etcd, kind, err);

    if (rc == SL_OK)
        rc = lead_journal(l, j, err);
    if (rc == SL_OK)
        *out = j;
    else
        journal_close(j);
    return rc;
}

void lead_stop(struct lead *l)
{
    int64_t lease;

    if (l->stopped)
        return;
    l->stopped = true;
    lead_lock(l);
    l->shared.ending = true;
    lease = l->shared.lease;
    pthread_cond_broadcast(&l->shared.changed);
    lead_unlock(l);
    if (lease != 0 &&
        etcd_lease_revoke(l->o.etcd, lease, LEAD_RESIGN_MS, NULL) == SL_OK)
        (void)fs_unlink(fs_private(), l->o.file, NULL);
    if (l->follows)
        pthread_join(l->follower, NULL);
    if (l->keeps)
        pthread_join(l->keeper, NULL);
    lead_unwatch(l);
}

void lead_free(struct lead *l)
{
    if (l == NULL)
        return;
    journal_close(l->journal);
    journal_close(l->beside);
    journal_close(l->shared.chose);
    journal_close(l->shared.beside);
    pthread_cond_destroy(&l->shared.changed);
    pthread_mutex_destroy(&l->shared.lock);
    sl_free((char *)l->o.name);
    sl_free((char *)l->o.address);
    sl_free((char *)l->o.file);
    sl_free(l);
}

enum sl_err lead_resign(struct etcd *etcd, const char *file,
                        struct sl_error *err)
{
    struct buf text = BUF_INIT;
    enum sl_err rc = fs_read_all(fs_private(), file, 64, &text, err);
    int64_t lease = 0;

    if (rc == SL_OK && buf_append_char(&text, '\0') == SL_OK)
        lease = (int64_t)strtoull((const char *)text.data, NULL, 16);
    buf_release(&text);
    if (rc == SL_ENOENT)
        return SL_OK;
    if (rc == SL_OK && lease != 0)
        rc = etcd_lease_revoke(etcd, lease, LEAD_CALL_MS, err);
    if (rc != SL_OK && rc != SL_ENOENT)
        return rc;
    return fs_unlink(fs_private(), file, err);
}
