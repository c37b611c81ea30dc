// SPDX-License-Identifier: Apache-2.0
// proto/curves.c -- see curves.h.
#include "proto/curves.h"

#include <math.h>
#include <stdio.h>
#include <string.h>
#include <unistd.h>

#include "common/base/buf.h"
#include "common/base/grown.h"
#include "common/base/json.h"
#include "common/base/mem.h"
#include "proto/pbjson.h"
#include "proto/spec.h"
#include "proto/tensorboard.h"
#include "proto/wire.h"

#define POINT_US 1000000 // between two points, at least, and
#define POINTS 2000      // a part of the time since the first
#define WAIT_BYTES (1u << 20)
#define SPEC_BYTES 8192 // of a text: readers want them small
#define HOST_BYTES 64

// What may be said of a run; each first value in a file says what it is.
enum tag { LOSS, ACCURACY, RATE, STALENESS, SAMPLES, WORKERS, DELAYS, TAGS };

static const char *const curve_names[TAGS] = {
    [LOSS] = "loss",
    [ACCURACY] = "metric/accuracy",
    [RATE] = "lr",
    [STALENESS] = "staleness/p50",
    [SAMPLES] = "throughput/samples_per_second",
    [WORKERS] = "workers/ready",
    [DELAYS] = "staleness",
};

struct curves_run {
    char *below; // owned
    struct grown file;
    struct buf waits;   // to be written
    unsigned files;     // made so far
    bool begun;         // its present file has its version
    unsigned said;      // bit of a tag: it was said there
    uint64_t step;      // of the last point
    bool any;           // there was one
    uint64_t wall_us;   // of the last event
    uint64_t opened_us; // of its file
};

struct curves {
    char *root; // owned
    char host[HOST_BYTES];
    const struct sl_clock *clock;
    bool histograms, told; // told: a point has the text of the spec
    uint64_t first_us, next_us;
    struct curves_run training, validation;
    size_t evaluations;                      // taken
    uint64_t delays[WIRE_STALENESS_BUCKETS]; // as they were
};

// ---- a run

// The clock of people may be set back; a file's may not.
static uint64_t wall_of(struct curves *c, struct curves_run *r)
{
    uint64_t now = sl_wall_us(c->clock);

    if (now > r->wall_us)
        r->wall_us = now;
    return r->wall_us;
}

static enum sl_err curves_begin_file(struct curves *c, struct curves_run *r,
                                     uint64_t step)
{
    struct tensorboard_at at = {wall_of(c, r), step};
    enum sl_err rc;

    if (r->begun)
        return SL_OK;
    r->said = 0;
    r->opened_us = at.wall_us;
    rc = tensorboard_version(&r->waits, at.wall_us);
    if (rc == SL_OK && step > 0)
        // A run that does not begin at step 0, as that of a resumed job, says
        // so: readers then forget what an older file says of later steps.
        rc = tensorboard_start(&r->waits, &at);
    r->begun = rc == SL_OK;
    return rc;
}

// True where the tag is new to the file.
static bool first(struct curves_run *r, enum tag tag)
{
    bool is = !(r->said & (1u << tag));

    r->said |= 1u << tag;
    return is;
}

struct scalars {
    struct tensorboard_scalar list[TAGS];
    size_t count;
};

// One that is no number says nothing.
static void curves_add_scalar(struct scalars *s, struct curves_run *r,
                              enum tag tag, double value)
{
    if (!isfinite(value))
        return;
    s->list[s->count++] = (struct tensorboard_scalar){
        curve_names[tag], (float)value, first(r, tag)};
}

// Puts a run back to what it was before a call that failed: what could not be
// made whole is not to be written, and what was not written is not said.
static enum sl_err curves_undo_failed(struct curves_run *r,
                                      const struct curves_run *before,
                                      enum sl_err rc)
{
    if (rc == SL_OK)
        return SL_OK;
    r->begun = before->begun;
    r->said = before->said;
    if (r->waits.data != NULL) {
        r->waits.len = before->waits.len;
        r->waits.data[r->waits.len] = 0;
    }
    return rc;
}

// ---- what a status says

static bool curves_has_accuracy(const Sluice__V1__JobStatus *s)
{
    return s->spec == NULL || spec_external(s->spec) ||
           spec_loss_counts(spec_loss(s->spec));
}

// Returns how many steps of the schedule of rates an update of the shards is.
static uint64_t rate_steps(const Sluice__V1__JobSpec *spec)
{
    return spec_local(spec) ? spec_inner(spec->train).steps : 1;
}

static void curves_add_rate(struct scalars *list, struct curves_run *r,
                            const Sluice__V1__JobStatus *s)
{
    struct spec_optimizer o;
    struct sl_error err = SL_ERROR_INIT;

    // A job with a rate that callbacks reduce has no schedule.
    if (s->callbacks != NULL && s->callbacks->learning_rate > 0)
        curves_add_scalar(list, r, RATE, s->callbacks->learning_rate);
    else if (s->spec != NULL && s->spec->optimizer != NULL &&
             spec_optimizer(&o, s->spec->optimizer, &err) == SL_OK)
        curves_add_scalar(list, r, RATE,
                          rate_at(&o.schedule, s->updates_applied > 0
                                                   ? (s->updates_applied - 1) *
                                                         rate_steps(s->spec)
                                                   : 0));
}

static enum sl_err training(struct curves *c, const Sluice__V1__JobStatus *s,
                            const struct tensorboard_at *at)
{
    struct curves_run *r = &c->training;
    struct scalars list = {.count = 0};

    curves_add_scalar(&list, r, LOSS, WIRE_KNOWN(s, loss));
    if (curves_has_accuracy(s))
        curves_add_scalar(&list, r, ACCURACY, WIRE_KNOWN(s, accuracy));
    curves_add_rate(&list, r, s);
    curves_add_scalar(&list, r, STALENESS, s->staleness_p50);
    curves_add_scalar(&list, r, SAMPLES, s->images_per_second);
    curves_add_scalar(&list, r, WORKERS, s->workers);
    return tensorboard_scalars(&r->waits, at, list.list, list.count);
}

// How many updates had which delay since the last point, over all shards.
static enum sl_err delays(struct curves *c, const Sluice__V1__JobStatus *s,
                          const struct tensorboard_at *at)
{
    struct tensorboard_bucket buckets[WIRE_STALENESS_BUCKETS];
    uint64_t now[WIRE_STALENESS_BUCKETS] = {0}, all = 0;
    unsigned from = 0, to = WIRE_STALENESS_BUCKETS;
    enum sl_err rc;

    for (size_t i = 0; i < s->n_shards; i++) {
        const Sluice__V1__ShardCounts *counts_of = s->shards[i]->counts;

        for (size_t b = 0; counts_of != NULL && b < counts_of->n_staleness &&
                           b < WIRE_STALENESS_BUCKETS;
             b++)
            now[b] += counts_of->staleness[b];
    }
    for (unsigned b = 0; b < WIRE_STALENESS_BUCKETS; b++) {
        uint64_t low = b == 0 ? 0 : UINT64_C(1) << (b - 1);
        // Less than before: a shard began again from a snapshot.
        uint64_t more = now[b] > c->delays[b] ? now[b] - c->delays[b] : 0;

        buckets[b] = (struct tensorboard_bucket){
            (float)low, b == 0 ? 1 : (float)(2 * low), (float)more};
        all += more;
    }
    if (all == 0) {
        memcpy(c->delays, now, sizeof(now));
        return SL_OK;
    }
    while (buckets[from].count == 0)
        from++;
    while (buckets[to - 1].count == 0)
        to--;
    rc = tensorboard_histogram(&c->training.waits, at, curve_names[DELAYS],
                               first(&c->training, DELAYS), buckets + from,
                               to - from);
    if (rc == SL_OK)
        memcpy(c->delays, now, sizeof(now));
    return rc;
}

// As a block of code: four blanks before each line.
static enum sl_err curves_add_spec_text(struct curves *c,
                                        const Sluice__V1__JobStatus *s,
                                        const struct tensorboard_at *at)
{
    struct buf plain = BUF_INIT, marked = BUF_INIT;
    json_t *object = NULL;
    enum sl_err rc = pbjson_write(&object, &s->spec->base);
    const char *line;

    if (rc == SL_OK)
        rc = sl_json_write(&plain, object, true);
    json_decref(object);
    line = buf_text(&plain);
    while (rc == SL_OK && line[0] != '\0' && marked.len < SPEC_BYTES) {
        size_t n = strcspn(line, "\n");

        rc = buf_appendf(&marked, "    %.*s\n", (int)(n < 400 ? n : 400), line);
        line += n + (line[n] == '\n');
    }
    if (rc == SL_OK && line[0] != '\0')
        rc = buf_append_str(&marked, "    ...\n");
    if (rc == SL_OK)
        rc = tensorboard_text(&c->training.waits, at, "job/spec",
                              buf_text(&marked));
    buf_release(&plain);
    buf_release(&marked);
    return rc;
}

static enum sl_err curves_add_training(struct curves *c,
                                       const Sluice__V1__JobStatus *s)
{
    struct curves_run *r = &c->training;
    struct tensorboard_at at = {0, s->steps_counted};
    const struct curves_run before = *r;
    enum sl_err rc = curves_begin_file(c, r, at.step);

    at.wall_us = wall_of(c, r);
    if (rc == SL_OK && r->any && at.step < r->step)
        rc = tensorboard_start(&r->waits, &at);
    if (rc == SL_OK && !c->told && s->spec != NULL)
        rc = curves_add_spec_text(c, s, &at);
    if (rc == SL_OK && at.step > 0)
        rc = training(c, s, &at);
    if (rc == SL_OK && at.step > 0 && c->histograms)
        rc = delays(c, s, &at);
    if (curves_undo_failed(r, &before, rc) != SL_OK)
        return rc;
    c->told = c->told || s->spec != NULL;
    r->any = true;
    r->step = at.step;
    return SL_OK;
}

// ---- evaluations

static enum sl_err curves_add_evaluation(struct curves *c,
                                         const Sluice__V1__JobStatus *s,
                                         const Sluice__V1__Evaluation *e)
{
    struct curves_run *r = &c->validation;
    struct tensorboard_at at = {
        .step = e->steps > 0    ? e->steps
                : s->epochs > 0 ? s->steps_asked / s->epochs * e->epoch
                                : 0};
    struct scalars list = {.count = 0};
    const struct curves_run before = *r;
    enum sl_err rc;

    // Epochs that one checkpoint ended are evaluated on the same parameters.
    if (r->any && at.step == r->step)
        return SL_OK;
    rc = curves_begin_file(c, r, at.step);
    at.wall_us = wall_of(c, r);
    curves_add_scalar(&list, r, LOSS, WIRE_KNOWN(e, loss));
    if (curves_has_accuracy(s))
        curves_add_scalar(&list, r, ACCURACY, WIRE_KNOWN(e, accuracy));
    if (rc == SL_OK)
        rc = tensorboard_scalars(&r->waits, &at, list.list, list.count);
    if (curves_undo_failed(r, &before, rc) != SL_OK)
        return rc;
    r->any = true;
    r->step = at.step;
    return SL_OK;
}

static enum sl_err curves_add_evaluations(struct curves *c,
                                          const Sluice__V1__JobStatus *s)
{
    enum sl_err rc = SL_OK;

    while (rc == SL_OK && c->evaluations < s->n_evaluations) {
        const Sluice__V1__Evaluation *e = s->evaluations[c->evaluations];

        // An evaluation without known values is no point.
        if (e->known_loss_case != 0 || e->known_accuracy_case != 0)
            rc = curves_add_evaluation(c, s, e);
        if (rc == SL_OK)
            c->evaluations++;
    }
    return rc;
}

// ---- the interface

bool curves_due(const struct curves *c)
{
    return sl_now_us(c->clock) >= c->next_us;
}

// Before it is placed, also one that was resumed says that it counts nothing.
// When all steps are counted, the shards have perhaps not said yet how many
// updates those were: their point is made of the last status, which has both.
static bool curves_has_moved(const struct curves *c,
                             const Sluice__V1__JobStatus *s, bool last)
{
    if (s->state == SLUICE__V1__JOB_STATE__JOB_PLACING ||
        (!last && s->steps_counted == s->steps_asked))
        return false;
    return !c->training.any || s->steps_counted != c->training.step;
}

enum sl_err curves_take(struct curves *c, const Sluice__V1__JobStatus *s,
                        bool last)
{
    uint64_t now = sl_now_us(c->clock), pause;
    enum sl_err rc = SL_OK;

    if (curves_has_moved(c, s, last) && (last || curves_due(c))) {
        rc = curves_add_training(c, s);
        if (c->first_us == 0)
            c->first_us = now;
        pause = (now - c->first_us) / POINTS;
        c->next_us = now + (pause > POINT_US ? pause : POINT_US);
    }
    return rc == SL_OK ? curves_add_evaluations(c, s) : rc;
}

bool curves_wait(const struct curves *c)
{
    return c->training.waits.len > 0 || c->validation.waits.len > 0;
}

static void curves_reset_run(struct curves_run *r)
{
    buf_reset(&r->waits);
    r->begun = false;
}

static enum sl_err create(struct curves *c, struct curves_run *r,
                          struct sl_error *err)
{
    char name[HOST_BYTES + 96];
    enum sl_err rc;

    do {
        snprintf(name, sizeof(name), "events.out.tfevents.%010llu.%s.%ld.%u",
                 (unsigned long long)(r->opened_us / 1000000), c->host,
                 (long)getpid(), r->files++);
        rc = grown_create(&r->file, c->root, r->below, name, err);
    } while (rc == SL_EEXIST && r->files % 16 != 0);
    return rc;
}

static enum sl_err write_run(struct curves *c, struct curves_run *r,
                             struct sl_error *err)
{
    enum sl_err rc = SL_OK;

    if (r->waits.len == 0)
        return SL_OK;
    if (r->file.fd < 0)
        rc = create(c, r, err);
    if (rc == SL_OK) {
        rc = grown_write(&r->file, r->waits.data, r->waits.len, err);
        if (rc == SL_OK)
            buf_reset(&r->waits);
        else if (r->file.fd < 0) // the next one begins anew
            curves_reset_run(r);
    }
    if (rc != SL_OK && r->waits.len > WAIT_BYTES) {
        grown_close(&r->file);
        curves_reset_run(r);
    }
    return rc;
}

enum sl_err curves_write(struct curves *c, struct sl_error *err)
{
    enum sl_err rc = write_run(c, &c->training, err);

    return rc == SL_OK ? write_run(c, &c->validation, err) : rc;
}

// ---- life

static char *curves_join_path(const char *below, const char *job,
                              const char *rest)
{
    struct buf b = BUF_INIT;

    if (buf_appendf(&b, "%s%s%s%s", below, below[0] != '\0' ? "/" : "", job,
                    rest) != SL_OK)
        return NULL;
    return (char *)buf_detach(&b, NULL);
}

// Sets the host's name, with any '/' replaced: it is part of a file name.
static void name_host(char host[HOST_BYTES])
{
    if (gethostname(host, HOST_BYTES - 1) != 0 || host[0] == '\0')
        strcpy(host, "host");
    host[HOST_BYTES - 1] = '\0';
    for (char *p = host; *p != '\0'; p++) {
        if (*p == '/')
            *p = '_';
    }
}

enum sl_err curves_new(struct curves **out,
                       const struct curves_options *options,
                       struct sl_error *err)
{
    enum sl_err rc = grown_check(options->below, err);
    struct curves *c;

    if (rc != SL_OK)
        return rc;
    c = sl_calloc(1, sizeof(*c));
    if (c == NULL)
        return sl_fail(err, SL_ENOMEM, "curves");
    c->clock = options->clock;
    c->histograms = options->histograms;
    c->training.file = c->validation.file = (struct grown)GROWN_INIT;
    name_host(c->host);
    c->root = sl_strdup(options->root);
    c->training.below = curves_join_path(options->below, options->job, "");
    c->validation.below =
        curves_join_path(options->below, options->job, "/validation");
    if (c->root == NULL || c->training.below == NULL ||
        c->validation.below == NULL) {
        curves_free(c);
        return sl_fail(err, SL_ENOMEM, "curves");
    }
    *out = c;
    return SL_OK;
}

static void release_run(struct curves_run *r)
{
    grown_close(&r->file);
    buf_release(&r->waits);
    sl_free(r->below);
}

void curves_free(struct curves *c)
{
    if (c == NULL)
        return;
    release_run(&c->training);
    release_run(&c->validation);
    sl_free(c->root);
    sl_free(c);
}
