// SPDX-License-Identifier: Apache-2.0
// coordinator/feed/traces.c -- three rings of each job, and the names in them.
#include "coordinator/feed/traces.h"

#include <string.h>

#include "common/base/mem.h"

#define MINUTE_US UINT64_C(60000000)

struct traces_of {
    struct list_node node; // in traces.used
    uint64_t uid;
    struct track spans, seconds, minutes;
};

static const char *const ends[] = {
#define SPAN_WORD(end, word) word,
    SPAN_ENDS(SPAN_WORD)
#undef SPAN_WORD
};

const char *lease_span_word(enum lease_span_end end)
{
    return ends[end];
}

const char *lease_span_kind(enum work_kind kind)
{
    return kind == WORK_PROBE      ? "probe"
           : kind == WORK_EVALUATE ? "evaluate"
           : kind == WORK_RING     ? "ring"
                                   : "train";
}

void traces_init(struct traces *ts)
{
    memset(ts, 0, sizeof(*ts));
    map_init(&ts->of_job);
    map_init(&ts->names);
    list_init(&ts->used);
}

// ---- names

static struct traces_name *name_ref(struct traces *ts, uint64_t identity,
                                    const char *text)
{
    struct traces_name *name = map_get(&ts->names, identity);

    if (name == NULL) {
        name = sl_malloc(sizeof(*name) + strlen(text) + 1);
        if (name == NULL)
            return NULL;
        name->refs = 0;
        strcpy(name->text, text);
        if (map_put(&ts->names, identity, name) != SL_OK) {
            sl_free(name);
            return NULL;
        }
    }
    name->refs++;
    return name;
}

static void name_unref(struct traces *ts, uint64_t identity)
{
    struct traces_name *name = map_get(&ts->names, identity);

    if (name != NULL && --name->refs == 0)
        sl_free(map_remove(&ts->names, identity));
}

// ---- jobs

static size_t traces_job_bytes(const struct traces_of *of)
{
    return sizeof(*of) + track_bytes(&of->spans) + track_bytes(&of->seconds) +
           track_bytes(&of->minutes);
}

static void traces_drop_job(struct traces *ts, struct traces_of *of)
{
    for (uint64_t i = track_first(&of->spans); i <= of->spans.added; i++)
        name_unref(ts,
                   ((struct lease_span *)track_at(&of->spans, i))->identity);
    ts->bytes -= traces_job_bytes(of);
    track_release(&of->spans);
    track_release(&of->seconds);
    track_release(&of->minutes);
    list_remove(&of->node);
    map_remove(&ts->of_job, of->uid);
    sl_free(of);
}

void traces_release(struct traces *ts)
{
    struct list_node *n;

    while ((n = list_first(&ts->used)) != NULL)
        traces_drop_job(ts, list_entry(n, struct traces_of, node));
    map_release(&ts->of_job);
    map_release(&ts->names);
    traces_init(ts);
}

void traces_forget(struct traces *ts, uint64_t uid)
{
    struct traces_of *of = map_get(&ts->of_job, uid);

    if (of != NULL)
        traces_drop_job(ts, of);
}

static struct traces_of *used(struct traces *ts, uint64_t uid)
{
    struct traces_of *of = map_get(&ts->of_job, uid);

    if (of == NULL) {
        of = sl_calloc(1, sizeof(*of));
        if (of == NULL || map_put(&ts->of_job, uid, of) != SL_OK) {
            sl_free(of);
            return NULL;
        }
        of->uid = uid;
        track_init(&of->spans, sizeof(struct lease_span), TRACES_SPANS);
        track_init(&of->seconds, sizeof(struct curve_point), TRACES_SECONDS);
        track_init(&of->minutes, sizeof(struct curve_point), TRACES_MINUTES);
        ts->bytes += traces_job_bytes(of);
    }
    list_remove(&of->node);
    list_push_back(&ts->used, &of->node);
    return of;
}

// Adds an item to one of a job's tracks; other jobs lose theirs if space is
// short.
static void *traces_add_item(struct traces *ts, struct traces_of *of,
                             struct track *track)
{
    size_t before = traces_job_bytes(of);
    void *item = track_add(track);

    ts->bytes += traces_job_bytes(of) - before;
    while (ts->bytes > TRACES_BYTES && list_first(&ts->used) != &of->node)
        traces_drop_job(
            ts, list_entry(list_first(&ts->used), struct traces_of, node));
    return item;
}

// ---- what is added

void traces_span(struct traces *ts, uint64_t uid, const struct lease_span *span,
                 const char *worker)
{
    struct traces_of *of = used(ts, uid);
    struct traces_name *name =
        of == NULL ? NULL : name_ref(ts, span->identity, worker);
    struct lease_span *to;

    if (name == NULL)
        return;
    if (track_full(&of->spans)) {
        to = track_at(&of->spans, track_first(&of->spans));
        name_unref(ts, to->identity);
    }
    to = traces_add_item(ts, of, &of->spans);
    if (to == NULL) {
        name_unref(ts, span->identity);
        return;
    }
    *to = *span;
    to->worker = name;
}

static void add_point(struct traces *ts, struct traces_of *of,
                      struct track *track, const struct curve_point *point)
{
    struct curve_point *to = traces_add_item(ts, of, track);

    if (to != NULL)
        *to = *point;
}

static bool same_minute(const struct track *minutes, uint64_t wall_us)
{
    const struct curve_point *last =
        minutes->added == 0 ? NULL : track_at(minutes, minutes->added);

    return last != NULL && last->wall_us / MINUTE_US == wall_us / MINUTE_US;
}

bool traces_point(struct traces *ts, uint64_t uid,
                  const struct curve_point *point, bool final)
{
    struct traces_of *of = used(ts, uid);
    bool minute;

    if (of == NULL)
        return false;
    minute = final || !same_minute(&of->minutes, point->wall_us);
    add_point(ts, of, &of->seconds, point);
    if (minute)
        add_point(ts, of, &of->minutes, point);
    return minute;
}

void traces_minute(struct traces *ts, uint64_t uid,
                   const struct curve_point *point)
{
    struct traces_of *of = used(ts, uid);

    if (of != NULL)
        add_point(ts, of, &of->minutes, point);
}

// ---- reading

const struct track *traces_spans(const struct traces *ts, uint64_t uid)
{
    const struct traces_of *of = map_get(&ts->of_job, uid);

    return of == NULL ? NULL : &of->spans;
}

const struct track *traces_curve(const struct traces *ts, uint64_t uid,
                                 bool minutes)
{
    const struct traces_of *of = map_get(&ts->of_job, uid);

    return of == NULL ? NULL : minutes ? &of->minutes : &of->seconds;
}
