// SPDX-License-Identifier: Apache-2.0
// trainer/ring/seat.c -- the exchange of a rank's messages, in both directions,
// between the loop and the compute thread.
#include "trainer/ring/seat.h"

#include <pthread.h>
#include <stdatomic.h>

#include "common/base/deadline.h"
#include "common/base/list.h"
#include "common/base/mem.h"
#include "common/run/background.h"
#include "common/run/log.h"
#include "trainer/ring/say.h"

// A file that is being written: a piece of work of its own.
struct seat_file {
    struct list_node node; // in shared.files
    struct seat *seat;     // holds a reference once the loop has the file
    struct seat_request request;
    struct shard_image *image; // owned
    char *folder;              // owned
    struct snap_written written;
    enum sl_err rc;
    struct sl_error err;
};

struct seat_mail {
    struct list_node node;
    Sluice__V1__AttendUp *up; // a message; or
    struct seat_file *file;
};

struct seat_wish {
    struct list_node node;
    struct seat_request request;
};

struct seat {
    // A copy: files are still written when the lease has ended.
    struct ring_env env;
    struct say_job job;
    _Atomic unsigned refs;

    // The loop's.
    bool retired;
    struct loop_timer *timer; // until the next RingStep may be sent
    bool waiting;             // the timer runs
    uint64_t step_ms;         // when a RingStep was sent last

    struct {
        pthread_mutex_t lock;
        pthread_cond_t changed;
        uint64_t news; // counts events; seen: its value at the last seat_look
        uint64_t seen;
        uint64_t opened, uid, gone;
        struct rates rates;
        uint64_t hold;
        Sluice__V1__RingBegin *begin; // owned; of `opened`
        Sluice__V1__RingCopy *copy;   // owned; of `opened` or later
        struct list wishes;           // struct seat_wish
        struct list files;            // struct seat_file
        bool ended; // the generation under way ended since the last look
        void (*end)(void *arg);
        void *end_arg;
        // From the compute thread to the loop.
        struct list mail;           // struct seat_mail
        Sluice__V1__AttendUp *step; // the newest; owned
        bool step_now, posted;
        struct loop_task task;
    } shared;
};

static void step_again(void *arg);

enum sl_err seat_new(struct seat **out, const struct ring_env *env,
                     uint64_t job, uint64_t job_incarnation)
{
    struct seat *s = sl_calloc(1, sizeof(*s));
    enum sl_err rc;

    if (s == NULL)
        return SL_ENOMEM;
    rc = loop_timer_new(&s->timer, env->loop, step_again, s);
    if (rc != SL_OK) {
        sl_free(s);
        return rc;
    }
    s->env = *env;
    s->job = (struct say_job){job, job_incarnation};
    atomic_init(&s->refs, 1);
    pthread_mutex_init(&s->shared.lock, NULL);
    pthread_cond_init(&s->shared.changed, NULL);
    list_init(&s->shared.wishes);
    list_init(&s->shared.files);
    list_init(&s->shared.mail);
    *out = s;
    return SL_OK;
}

static void seat_signal_locked(struct seat *s)
{
    s->shared.news++;
    pthread_cond_broadcast(&s->shared.changed);
}

static void free_file(struct seat_file *f)
{
    struct seat *s = f->seat;

    shard_image_release(f->image);
    pthread_mutex_lock(&s->shared.lock);
    list_remove(&f->node);
    seat_signal_locked(s); // a wish for this part may be due
    pthread_mutex_unlock(&s->shared.lock);
    sl_free(f->image);
    sl_free(f->folder);
    snap_written_release(&f->written);
    sl_free(f);
}

static void free_message(Sluice__V1__AttendUp *up)
{
    if (up != NULL)
        wire_free(&up->base);
}

static void free_mail(struct seat_mail *m)
{
    free_message(m->up);
    if (m->file != NULL)
        free_file(m->file);
    sl_free(m);
}

static void forget_begin_locked(struct seat *s)
{
    wire_free((ProtobufCMessage *)s->shared.begin);
    s->shared.begin = NULL;
}

static void forget_copy_locked(struct seat *s)
{
    wire_free((ProtobufCMessage *)s->shared.copy);
    s->shared.copy = NULL;
}

// The last reference is let go of on the loop, where files and mail end.
static void seat_unref(struct seat *s)
{
    if (atomic_fetch_sub(&s->refs, 1) > 1)
        return;
    while (!list_empty(&s->shared.mail))
        free_mail(list_entry(list_pop_front(&s->shared.mail), struct seat_mail,
                             node));
    while (!list_empty(&s->shared.wishes))
        sl_free(list_entry(list_pop_front(&s->shared.wishes), struct seat_wish,
                           node));
    free_message(s->shared.step);
    forget_begin_locked(s);
    forget_copy_locked(s);
    pthread_mutex_destroy(&s->shared.lock);
    pthread_cond_destroy(&s->shared.changed);
    sl_free(s);
}

void seat_retire(struct seat *s)
{
    if (s == NULL)
        return;
    s->retired = true;
    loop_timer_free(s->timer);
    s->timer = NULL;
    seat_unref(s);
}

const struct ring_env *seat_env(const struct seat *s)
{
    return &s->env;
}

uint64_t seat_uid(struct seat *s)
{
    uint64_t uid;

    pthread_mutex_lock(&s->shared.lock);
    uid = s->shared.uid;
    pthread_mutex_unlock(&s->shared.lock);
    return uid;
}

// ---- the loop

static void seat_end_locked(struct seat *s)
{
    s->shared.ended = true;
    if (s->shared.end != NULL)
        s->shared.end(s->shared.end_arg);
}

void seat_open(struct seat *s, const Sluice__V1__RingOpen *m)
{
    pthread_mutex_lock(&s->shared.lock);
    if (m->generation > s->shared.opened) {
        s->shared.opened = m->generation;
        s->shared.uid = m->job_uid;
        forget_begin_locked(s);
        forget_copy_locked(s);
        seat_end_locked(s);
        seat_signal_locked(s);
    }
    pthread_mutex_unlock(&s->shared.lock);
}

void seat_begin(struct seat *s, const Sluice__V1__RingBegin *m)
{
    ProtobufCMessage *copy = NULL;

    if (wire_dup(&copy, &m->base) != SL_OK)
        return;
    pthread_mutex_lock(&s->shared.lock);
    if (m->generation == s->shared.opened) {
        forget_begin_locked(s);
        s->shared.begin = (Sluice__V1__RingBegin *)copy;
        copy = NULL;
        seat_signal_locked(s);
    }
    pthread_mutex_unlock(&s->shared.lock);
    wire_free(copy);
}

void seat_go(struct seat *s, const Sluice__V1__RingGo *m)
{
    pthread_mutex_lock(&s->shared.lock);
    if (m->generation > s->shared.gone) {
        s->shared.gone = m->generation;
        seat_signal_locked(s);
    }
    pthread_mutex_unlock(&s->shared.lock);
}

void seat_copy(struct seat *s, const Sluice__V1__RingCopy *m)
{
    ProtobufCMessage *copy = NULL;

    if (wire_dup(&copy, &m->base) != SL_OK)
        return;
    pthread_mutex_lock(&s->shared.lock);
    if (m->generation >= s->shared.opened) {
        forget_copy_locked(s);
        s->shared.copy = (Sluice__V1__RingCopy *)copy;
        copy = NULL;
        seat_signal_locked(s);
    }
    pthread_mutex_unlock(&s->shared.lock);
    wire_free(copy);
}

void seat_snapshot(struct seat *s, const Sluice__V1__SnapshotRequest *m)
{
    struct seat_wish *w = sl_calloc(1, sizeof(*w));

    if (w == NULL)
        return;
    w->request = (struct seat_request){.part = m->shard,
                                       .generation = m->incarnation,
                                       .request = m->request,
                                       .at_round = m->at_round};
    pthread_mutex_lock(&s->shared.lock);
    list_push_back(&s->shared.wishes, &w->node);
    seat_signal_locked(s);
    pthread_mutex_unlock(&s->shared.lock);
}

void seat_rates(struct seat *s, const Sluice__V1__Rates *m)
{
    struct sl_error err = SL_ERROR_INIT;
    struct rates rates;

    if (plan_rates(&rates, m->rates, m->n_rates, &err) != SL_OK) {
        LOG(ERROR, "rates not taken", "job=%llu why=%s",
            (unsigned long long)m->job, err.text);
        return;
    }
    pthread_mutex_lock(&s->shared.lock);
    s->shared.rates = rates;
    s->shared.hold = m->hold;
    seat_signal_locked(s);
    pthread_mutex_unlock(&s->shared.lock);
}

void seat_wake(struct seat *s, bool leave)
{
    pthread_mutex_lock(&s->shared.lock);
    if (leave)
        seat_end_locked(s);
    seat_signal_locked(s);
    pthread_mutex_unlock(&s->shared.lock);
}

// ---- the compute thread listens

void seat_look(struct seat *s, struct seat_news *out)
{
    pthread_mutex_lock(&s->shared.lock);
    s->shared.seen = s->shared.news;
    s->shared.ended = false;
    *out = (struct seat_news){.opened = s->shared.opened,
                              .uid = s->shared.uid,
                              .gone = s->shared.gone,
                              .rates = s->shared.rates,
                              .hold = s->shared.hold,
                              .begin = s->shared.begin,
                              .copy = s->shared.copy};
    s->shared.begin = NULL;
    s->shared.copy = NULL;
    pthread_mutex_unlock(&s->shared.lock);
}

void seat_news_release(struct seat_news *news)
{
    wire_free((ProtobufCMessage *)news->begin);
    wire_free((ProtobufCMessage *)news->copy);
    news->begin = NULL;
    news->copy = NULL;
}

bool seat_has_news(struct seat *s)
{
    bool any;

    pthread_mutex_lock(&s->shared.lock);
    any = s->shared.news != s->shared.seen;
    pthread_mutex_unlock(&s->shared.lock);
    return any;
}

bool seat_has_ended(struct seat *s)
{
    bool ended;

    pthread_mutex_lock(&s->shared.lock);
    ended = s->shared.ended;
    pthread_mutex_unlock(&s->shared.lock);
    return ended;
}

void seat_wait(struct seat *s, uint64_t ms)
{
    struct deadline until = deadline_in_ms(ms);

    pthread_mutex_lock(&s->shared.lock);
    while (s->shared.news == s->shared.seen &&
           deadline_wait(&until, &s->shared.changed, &s->shared.lock))
        ;
    pthread_mutex_unlock(&s->shared.lock);
}

void seat_wait_end(struct seat *s, uint64_t ms)
{
    struct deadline until = deadline_in_ms(ms);

    pthread_mutex_lock(&s->shared.lock);
    while (!s->shared.ended &&
           deadline_wait(&until, &s->shared.changed, &s->shared.lock))
        ;
    pthread_mutex_unlock(&s->shared.lock);
}

void seat_on_end(struct seat *s, void (*end)(void *arg), void *arg)
{
    pthread_mutex_lock(&s->shared.lock);
    s->shared.end = end;
    s->shared.end_arg = arg;
    if (end != NULL && s->shared.ended)
        end(arg);
    pthread_mutex_unlock(&s->shared.lock);
}

// Returns true if the part's file is being written: a part has one image at a
// time.
static bool is_written_locked(const struct seat *s, uint32_t part)
{
    list_for(n, &s->shared.files)
    {
        if (list_entry(n, struct seat_file, node)->request.part == part)
            return true;
    }
    return false;
}

static bool seat_is_due(const struct seat_request *r, struct wire_tag tag,
                        bool over)
{
    return r->generation < tag.incarnation ||
           (r->generation == tag.incarnation &&
            (over || r->at_round <= tag.sequence));
}

bool seat_take_request(struct seat *s, struct wire_tag tag, bool over,
                       struct seat_request *out)
{
    struct seat_wish *found = NULL;

    pthread_mutex_lock(&s->shared.lock);
    list_for(n, &s->shared.wishes)
    {
        struct seat_wish *w = list_entry(n, struct seat_wish, node);

        if (seat_is_due(&w->request, tag, over) &&
            !is_written_locked(s, w->request.part)) {
            found = w;
            break;
        }
    }
    if (found != NULL)
        list_remove(&found->node);
    pthread_mutex_unlock(&s->shared.lock);
    if (found == NULL)
        return false;
    *out = found->request;
    sl_free(found);
    return true;
}

// ---- messages to the coordinator

static bool seat_send(struct seat *s, Sluice__V1__AttendUp *up)
{
    return !s->retired && s->env.send(s->env.arg, up);
}

static void write_now(void *arg)
{
    struct seat_file *f = arg;

    const struct plan *plan = &f->image->shard->plan;
    struct fs *fs = f->seat->env.fs;

    f->rc = f->seat->env.membership == NULL
                ? SL_OK
                : membership_check(f->seat->env.membership, &f->err);
    if (f->rc == SL_OK)
        f->rc = snap_write_image(fs, f->folder, f->image, &f->written, &f->err);
    // Either our report was lost, or another rank of this store was asked
    // before us.
    if (f->rc == SL_EEXIST)
        f->rc = snap_written_find(fs, f->folder, plan, f->image->tag,
                                  &f->written, &f->err);
    shard_image_release(f->image);
}

static void write_behind(void *arg)
{
    background_run(write_now, arg);
}

static void seat_on_written(void *arg)
{
    struct seat_file *f = arg;
    struct seat *s = f->seat;
    Sluice__V1__AttendUp *up;

    if (f->rc == SL_OK) {
        up = say_snapshot(s->job, &f->request, &f->written, f->folder);
    } else {
        LOG(WARN, "part of a cut not written", "job=%llu part=%u error=%s",
            (unsigned long long)s->job.job, f->request.part, f->err.text);
        up = say_no_snapshot(s->job, &f->request, f->image->tag, f->err.text);
    }
    if (up != NULL)
        (void)seat_send(s, up);
    free_message(up);
    free_file(f);
    seat_unref(s);
}

static void begin_file(struct seat *s, struct seat_file *f)
{
    atomic_fetch_add(&s->refs, 1);
    if (loop_work(s->env.loop, write_behind, seat_on_written, f) == SL_OK)
        return;
    free_file(f);
    seat_unref(s);
}

// Sends the newest RingStep if it is time; else starts the timer.
static void say_due_step(struct seat *s)
{
    uint64_t now = sl_now_ms(s->env.clock);
    Sluice__V1__AttendUp *up;

    pthread_mutex_lock(&s->shared.lock);
    if (s->shared.step == NULL ||
        (!s->shared.step_now && now - s->step_ms < SEAT_STEP_MS)) {
        bool wait = s->shared.step != NULL && !s->waiting && !s->retired;

        pthread_mutex_unlock(&s->shared.lock);
        if (wait) {
            s->waiting = true;
            loop_timer_start(s->timer, SEAT_STEP_MS - (now - s->step_ms), 0);
        }
        return;
    }
    up = s->shared.step;
    s->shared.step = NULL;
    s->shared.step_now = false;
    pthread_mutex_unlock(&s->shared.lock);
    s->step_ms = now;
    (void)seat_send(s, up);
    free_message(up);
}

static void step_again(void *arg)
{
    struct seat *s = arg;

    s->waiting = false;
    say_due_step(s);
}

static struct seat_mail *next_mail(struct seat *s)
{
    struct list_node *n;

    pthread_mutex_lock(&s->shared.lock);
    n = list_pop_front(&s->shared.mail);
    if (n == NULL)
        s->shared.posted = false;
    pthread_mutex_unlock(&s->shared.lock);
    return n == NULL ? NULL : list_entry(n, struct seat_mail, node);
}

static void on_mail(void *arg)
{
    struct seat *s = arg;
    struct seat_mail *m;

    while ((m = next_mail(s)) != NULL) {
        if (m->up != NULL)
            (void)seat_send(s, m->up);
        if (m->file != NULL)
            begin_file(s, m->file);
        m->file = NULL;
        free_mail(m);
    }
    say_due_step(s);
    seat_unref(s);
}

static void seat_post_locked(struct seat *s)
{
    if (s->shared.posted)
        return;
    s->shared.posted = true;
    atomic_fetch_add(&s->refs, 1);
    loop_post_task(s->env.loop, &s->shared.task, on_mail, s);
}

static void mail_locked(struct seat *s, struct seat_mail *m)
{
    list_push_back(&s->shared.mail, &m->node);
    seat_post_locked(s);
}

// Has a step that is not sent yet, and that a newer one replaces, sent before
// that if it has what the newer one lacks.
static void replace_step_locked(struct seat *s, Sluice__V1__AttendUp *step)
{
    struct seat_mail *m = NULL;

    if (step != NULL && step->ring_step->n_repeats > 0)
        m = sl_calloc(1, sizeof(*m));
    if (m == NULL) {
        free_message(step);
        return;
    }
    m->up = step;
    mail_locked(s, m);
}

static void mail(struct seat *s, Sluice__V1__AttendUp *up,
                 struct seat_file *file)
{
    struct seat_mail *m = sl_calloc(1, sizeof(*m));

    if (m == NULL) {
        free_message(up);
        if (file != NULL)
            free_file(file);
        return;
    }
    m->up = up;
    m->file = file;
    pthread_mutex_lock(&s->shared.lock);
    mail_locked(s, m);
    pthread_mutex_unlock(&s->shared.lock);
}

void seat_say(struct seat *s, Sluice__V1__AttendUp *up)
{
    if (up != NULL)
        mail(s, up, NULL);
}

void seat_say_step(struct seat *s, Sluice__V1__AttendUp *up, bool now)
{
    if (up == NULL)
        return;
    pthread_mutex_lock(&s->shared.lock);
    replace_step_locked(s, s->shared.step);
    s->shared.step = up;
    s->shared.step_now = s->shared.step_now || now;
    seat_post_locked(s);
    pthread_mutex_unlock(&s->shared.lock);
}

void seat_write(struct seat *s, const struct seat_request *r,
                struct shard_image *image)
{
    struct seat_file *f = sl_calloc(1, sizeof(*f));

    if (f == NULL) {
        shard_image_release(image);
        sl_free(image);
        return;
    }
    f->seat = s;
    f->request = *r;
    f->image = image;
    f->err = (struct sl_error)SL_ERROR_INIT;
    f->folder = snap_folder(s->env.store, &image->shard->plan);
    pthread_mutex_lock(&s->shared.lock);
    list_push_back(&s->shared.files, &f->node);
    pthread_mutex_unlock(&s->shared.lock);
    if (f->folder != NULL)
        mail(s, NULL, f);
    else
        free_file(f);
}
