// SPDX-License-Identifier: Apache-2.0
// client/trace/tracefile.c -- see tracefile.h.
#include "client/trace/tracefile.h"

#include <inttypes.h>
#include <stdio.h>
#include <stdlib.h>
#include <string.h>

#include "common/base/json.h"
#include "common/base/mem.h"
#include "common/run/spans.h"

#define NAMES_MOST 256 // all members together
#define CALLS_MOST 4096
#define SLACK_US 1000 // beside what the clocks may be wrong by

struct process {
    uint32_t number;
    char *name, *role, *missing; // owned; missing: NULL, it is there
    bool clock;
    int64_t offset_us;
    uint64_t trip_us, lost;
    size_t spans;
};

struct tracefile_slice {
    uint32_t process, name, lane; // places in the arrays
    int64_t ts;
    uint64_t us;
    uint64_t closure; // these three: plus 1; 0: none
    uint32_t step, shard;
    bool met; // an arrow begins or ends here
};

struct tracefile {
    struct process *processes; // owned
    size_t count;
    char *names[NAMES_MOST]; // owned
    size_t n_names;
    struct tracefile_slice *slices; // owned
    size_t n_slices, cap;
    size_t cut; // spans left out beyond the limit
};

// ---- what came

static void *copy_of(const char *text)
{
    return sl_strdup(text);
}

static enum sl_err process_of(struct tracefile *t,
                              const Sluice__V1__TraceReply *r, uint32_t *out)
{
    struct process new = {.number = r->number}, *more;

    for (size_t i = 0; i < t->count; i++) {
        if (t->processes[i].number == r->number) {
            *out = (uint32_t)i;
            return SL_OK;
        }
    }
    more = sl_realloc_array(t->processes, t->count + 1, sizeof(*more));
    if (more == NULL)
        return SL_ENOMEM;
    t->processes = more;
    new.name = copy_of(r->name);
    new.role = copy_of(r->role);
    if (new.name == NULL || new.role == NULL) {
        sl_free(new.name);
        sl_free(new.role);
        return SL_ENOMEM;
    }
    *out = (uint32_t)t->count;
    t->processes[t->count++] = new;
    return SL_OK;
}

// Finds or adds a name; when the table is full, takes the last name.
static enum sl_err tracefile_find_name(struct tracefile *t, const char *name,
                                       uint32_t *out)
{
    size_t i = 0;

    while (i < t->n_names && strcmp(t->names[i], name) != 0)
        i++;
    if (i == NAMES_MOST)
        i--;
    if (i == t->n_names) {
        t->names[i] = copy_of(name);
        if (t->names[i] == NULL)
            return SL_ENOMEM;
        t->n_names++;
    }
    *out = (uint32_t)i;
    return SL_OK;
}

static enum sl_err tracefile_reserve(struct tracefile *t, size_t more)
{
    size_t cap = t->cap;
    struct tracefile_slice *grown;

    if (t->n_slices + more <= cap)
        return SL_OK;
    while (cap < t->n_slices + more)
        cap = cap == 0 ? 4096 : 2 * cap;
    grown = sl_realloc_array(t->slices, cap, sizeof(*grown));
    if (grown == NULL)
        return SL_ENOMEM;
    t->slices = grown;
    t->cap = cap;
    return SL_OK;
}

static void tracefile_add_span(struct tracefile *t,
                               const Sluice__V1__TraceReply *r,
                               const Sluice__V1__TraceSpan *s, uint32_t process,
                               const uint32_t *names)
{
    // Start and begin are below 2^53, but adding the offset may overflow.
    int64_t ts =
        (int64_t)((uint64_t)s->start_us + (uint64_t)r->offset_us - r->began_us);

    t->slices[t->n_slices++] = (struct tracefile_slice){.process = process,
                                                        .name = names[s->name],
                                                        .lane = s->lane,
                                                        .ts = ts,
                                                        .us = s->us,
                                                        .closure = s->closure,
                                                        .step = s->step,
                                                        .shard = s->shard};
}

enum sl_err tracefile_add(struct tracefile *t, const Sluice__V1__TraceReply *r)
{
    uint32_t names[NAMES_MOST], process;
    size_t n = r->n_spans;
    enum sl_err rc = process_of(t, r, &process);
    struct process *p;

    for (size_t i = 0; rc == SL_OK && i < r->n_names && i < NAMES_MOST; i++)
        rc = tracefile_find_name(t, r->names[i], &names[i]);
    if (rc == SL_OK && n > TRACEFILE_SPANS - t->n_slices) {
        t->cut += n - (TRACEFILE_SPANS - t->n_slices);
        n = TRACEFILE_SPANS - t->n_slices;
    }
    if (rc == SL_OK)
        rc = tracefile_reserve(t, n);
    if (rc != SL_OK)
        return rc;
    p = &t->processes[process];
    p->clock = r->clock;
    p->offset_us = r->offset_us;
    p->trip_us = r->round_trip_us;
    p->lost = r->lost;
    p->spans += n;
    if (r->missing[0] != '\0' && p->missing == NULL &&
        (p->missing = copy_of(r->missing)) == NULL)
        return SL_ENOMEM;
    for (size_t i = 0; i < n; i++)
        tracefile_add_span(t, r, r->spans[i], process, names);
    return SL_OK;
}

struct tracefile_sums tracefile_sums(const struct tracefile *t)
{
    struct tracefile_sums sums = {.spans = t->n_slices};

    for (size_t i = 0; i < t->count; i++) {
        sums.processes += t->processes[i].spans > 0;
        sums.missing += t->processes[i].missing != NULL;
    }
    return sums;
}

const char *tracefile_missing(const struct tracefile *t, size_t n,
                              const char **name)
{
    for (size_t i = 0; i < t->count; i++) {
        if (t->processes[i].missing != NULL && n-- == 0) {
            *name = t->processes[i].name;
            return t->processes[i].missing;
        }
    }
    return NULL;
}

// ---- lanes

static int64_t end_of(const struct tracefile_slice *s)
{
    return s->ts + (int64_t)s->us;
}

static int tracefile_compare(int64_t a, int64_t b)
{
    return a < b ? -1 : a > b;
}

// By process and lane; what begins together: the longer one first.
static int by_lane(const void *a, const void *b)
{
    const struct tracefile_slice *x = a, *y = b;
    int c = tracefile_compare(x->process, y->process);

    if (c == 0)
        c = tracefile_compare(x->lane, y->lane);
    if (c == 0)
        c = tracefile_compare(x->ts, y->ts);
    return c != 0 ? c : tracefile_compare(end_of(y), end_of(x));
}

static int tracefile_by_time(const void *a, const void *b)
{
    const struct tracefile_slice *x = a, *y = b;
    int c = tracefile_compare(x->process, y->process);

    return c != 0 ? c : tracefile_compare(x->ts, y->ts);
}

#define DEEP 64

// Moves what overlaps and does not nest in its lane to the calls.
static void keep_nested(struct tracefile_slice *s, size_t n)
{
    int64_t ends[DEEP];
    unsigned deep = 0;
    uint32_t lane = 0; // of the slice before, as it arrived

    for (size_t i = 0; i < n; i++) {
        if (i == 0 || s[i].process != s[i - 1].process || s[i].lane != lane)
            deep = 0;
        lane = s[i].lane;
        if (s[i].lane >= SPANS_CALL)
            continue;
        while (deep > 0 && ends[deep - 1] <= s[i].ts)
            deep--;
        if (deep == DEEP || (deep > 0 && end_of(&s[i]) > ends[deep - 1]))
            s[i].lane = SPANS_CALL;
        else
            ends[deep++] = end_of(&s[i]);
    }
}

// Each call gets the first lane that is free. The last lane takes what has no
// other, and then does not nest; so many calls at once no process has.
static void spread_calls(struct tracefile_slice *s, size_t n)
{
    static int64_t free_at[CALLS_MOST];
    unsigned lanes = 0;

    for (size_t i = 0; i < n; i++) {
        unsigned lane = 0;

        if (i == 0 || s[i].process != s[i - 1].process)
            lanes = 0;
        if (s[i].lane < SPANS_CALL)
            continue;
        while (lane < lanes && free_at[lane] > s[i].ts)
            lane++;
        if (lane == CALLS_MOST)
            lane--;
        else if (lane == lanes)
            lanes++;
        free_at[lane] = end_of(&s[i]);
        s[i].lane = SPANS_CALL + lane;
    }
}

static void set_lanes(struct tracefile *t)
{
    qsort(t->slices, t->n_slices, sizeof(*t->slices), by_lane);
    keep_nested(t->slices, t->n_slices);
    qsort(t->slices, t->n_slices, sizeof(*t->slices), tracefile_by_time);
    spread_calls(t->slices, t->n_slices);
    qsort(t->slices, t->n_slices, sizeof(*t->slices), by_lane);
}

// ---- arrows

static int by_key(const struct tracefile_slice *x,
                  const struct tracefile_slice *y)
{
    if (x->closure != y->closure)
        return x->closure < y->closure ? -1 : 1;
    if (x->step != y->step)
        return x->step < y->step ? -1 : 1;
    return tracefile_compare(x->shard, y->shard);
}

static int by_key_and_time(const void *a, const void *b)
{
    const struct tracefile_slice *x = *(const struct tracefile_slice *const *)a,
                                 *y = *(const struct tracefile_slice *const *)b;
    int c = by_key(x, y);

    return c != 0 ? c : tracefile_compare(x->ts, y->ts);
}

// The slices of a name on processes of a role, by their key and time.
static size_t tracefile_find_slices(struct tracefile *t, const char *name,
                                    const char *role,
                                    struct tracefile_slice **list)
{
    size_t n = 0;

    for (size_t i = 0; i < t->n_slices; i++) {
        struct tracefile_slice *s = &t->slices[i];

        if (strcmp(t->names[s->name], name) == 0 &&
            strcmp(t->processes[s->process].role, role) == 0)
            list[n++] = s;
    }
    qsort(list, n, sizeof(struct tracefile_slice *), by_key_and_time);
    return n;
}

static int64_t slack(const struct tracefile *t, const struct tracefile_slice *a,
                     const struct tracefile_slice *b)
{
    uint64_t trips = t->processes[a->process].trip_us / 2 +
                     t->processes[b->process].trip_us / 2;

    return SLACK_US + (int64_t)(trips < INT64_MAX / 4 ? trips : INT64_MAX / 4);
}

// Returns true if `apply` is where `push` arrived. A push that was sent again
// has several.
static bool meets(const struct tracefile *t, const struct tracefile_slice *push,
                  const struct tracefile_slice *apply)
{
    int64_t more = slack(t, push, apply);

    return !apply->met && by_key(push, apply) == 0 &&
           apply->ts >= push->ts - more && apply->ts <= end_of(push) + more;
}

static enum sl_err write_arrow(struct buf *out, const struct tracefile *t,
                               const struct tracefile_slice *s,
                               const struct tracefile_slice *f, size_t id)
{
    enum sl_err rc = buf_appendf(
        out,
        ",\n{\"ph\":\"s\",\"name\":\"push\",\"cat\":\"rpc\",\"id\":%zu,"
        "\"pid\":%u,\"tid\":%u,\"ts\":%" PRId64 "}",
        id, t->processes[s->process].number, s->lane, s->ts);

    if (rc != SL_OK)
        return rc;
    return buf_appendf(
        out,
        ",\n{\"ph\":\"f\",\"bp\":\"e\",\"name\":\"push\",\"cat\":\"rpc\","
        "\"id\":%zu,\"pid\":%u,\"tid\":%u,\"ts\":%" PRId64 "}",
        id, t->processes[f->process].number, f->lane, f->ts);
}

static enum sl_err write_arrows(struct tracefile *t, struct buf *out)
{
    size_t most = t->n_slices > 0 ? t->n_slices : 1, pushes, applies, id = 0;
    struct tracefile_slice **list = sl_malloc_array(2 * most, sizeof(*list));
    struct tracefile_slice **to = list + most;
    enum sl_err rc = list == NULL ? SL_ENOMEM : SL_OK;

    pushes = rc == SL_OK ? tracefile_find_slices(t, "push", "worker", list) : 0;
    applies =
        rc == SL_OK ? tracefile_find_slices(t, "apply", "psserver", to) : 0;
    for (size_t i = 0, first = 0; rc == SL_OK && i < pushes; i++) {
        size_t k;

        while (first < applies && by_key(to[first], list[i]) < 0)
            first++;
        for (k = first; k < applies && by_key(to[k], list[i]) == 0; k++) {
            if (meets(t, list[i], to[k]))
                break;
        }
        if (k == applies || by_key(to[k], list[i]) != 0)
            continue;
        to[k]->met = true;
        rc = write_arrow(out, t, list[i], to[k], ++id);
    }
    sl_free(list);
    return rc;
}

// ---- the text

static enum sl_err quote(struct buf *out, const char *text)
{
    return sl_json_quote(out, text, strlen(text));
}

static enum sl_err write_process(struct buf *out, const struct process *p,
                                 bool first)
{
    enum sl_err rc = buf_appendf(
        out, "%s\n {\"pid\":%u,\"role\":\"%s\",\"name\":", first ? "" : ",",
        p->number, p->role);

    if (rc == SL_OK)
        rc = quote(out, p->name);
    if (rc == SL_OK && p->clock)
        rc = buf_appendf(
            out, ",\"offset_us\":%" PRId64 ",\"round_trip_us\":%" PRIu64,
            p->offset_us, p->trip_us);
    if (rc == SL_OK)
        rc = buf_appendf(out, ",\"spans\":%zu,\"lost\":%" PRIu64, p->spans,
                         p->lost);
    if (rc == SL_OK && p->missing != NULL) {
        rc = buf_append_str(out, ",\"missing\":");
        if (rc == SL_OK)
            rc = quote(out, p->missing);
    }
    return rc == SL_OK ? buf_append_char(out, '}') : rc;
}

static enum sl_err write_head(struct tracefile *t, const char *job,
                              struct buf *out)
{
    enum sl_err rc = buf_append_str(
        out, "{\"displayTimeUnit\":\"ms\",\"otherData\":{\"job\":");

    if (rc == SL_OK)
        rc = quote(out, job);
    if (rc == SL_OK)
        rc = buf_appendf(out,
                         ",\"clock\":\"coordinator\",\"cut\":%zu,"
                         "\"processes\":[",
                         t->cut);
    for (size_t i = 0; rc == SL_OK && i < t->count; i++)
        rc = write_process(out, &t->processes[i], i == 0);
    return rc == SL_OK ? buf_append_str(out, "]},\n\"traceEvents\":[") : rc;
}

static enum sl_err tracefile_write_name(struct buf *out, const char *kind,
                                        uint32_t pid, uint32_t tid,
                                        const char *name)
{
    bool first = out->data[out->len - 1] == '[';
    enum sl_err rc = buf_appendf(
        out,
        "%s\n{\"ph\":\"M\",\"name\":\"%s\",\"pid\":%u,\"tid\":%u,\"args\":"
        "{\"name\":",
        first ? "" : ",", kind, pid, tid);

    if (rc == SL_OK)
        rc = quote(out, name);
    return rc == SL_OK ? buf_append_str(out, "}}") : rc;
}

static const char *lane_name(char out[32], uint32_t lane)
{
    if (lane == SPANS_LOOP)
        return "loop";
    if (lane == SPANS_COMPUTE)
        return "compute";
    if (lane < SPANS_IO)
        snprintf(out, 32, "input %u", lane - SPANS_INPUT);
    else if (lane < SPANS_CALL)
        snprintf(out, 32, "io %u", lane - SPANS_IO);
    else
        snprintf(out, 32, "call %u", lane - SPANS_CALL);
    return out;
}

static const char *category(const char *name)
{
    static const char *const calls[] = {"push", "pull", "ask"};

    for (size_t i = 0; i < SL_COUNT(calls); i++) {
        if (strcmp(calls[i], name) == 0)
            return "rpc";
    }
    return strcmp(name, "forward") == 0 || strcmp(name, "backward") == 0
               ? "compute"
               : "sluice";
}

static enum sl_err write_slice(struct buf *out, const struct tracefile *t,
                               const struct tracefile_slice *s)
{
    const char *name = t->names[s->name], *comma = "";
    enum sl_err rc = buf_append_str(out, ",\n{\"ph\":\"X\",\"name\":");

    if (rc == SL_OK)
        rc = quote(out, name);
    if (rc == SL_OK)
        rc = buf_appendf(out,
                         ",\"cat\":\"%s\",\"pid\":%u,\"tid\":%u,\"ts\":%" PRId64
                         ",\"dur\":%" PRIu64 ",\"args\":{",
                         category(name), t->processes[s->process].number,
                         s->lane, s->ts, s->us);
    if (rc == SL_OK && s->closure > 0) {
        rc = buf_appendf(out, "\"closure\":%" PRIu64, s->closure - 1);
        comma = ",";
    }
    if (rc == SL_OK && s->step > 0) {
        rc = buf_appendf(out, "%s\"step\":%u", comma, s->step - 1);
        comma = ",";
    }
    if (rc == SL_OK && s->shard > 0)
        rc = buf_appendf(out, "%s\"shard\":%u", comma, s->shard - 1);
    return rc == SL_OK ? buf_append_str(out, "}}") : rc;
}

static enum sl_err write_slices(struct tracefile *t, struct buf *out)
{
    enum sl_err rc = SL_OK;

    for (size_t i = 0; rc == SL_OK && i < t->n_slices; i++) {
        const struct tracefile_slice *s = &t->slices[i];
        char lane[32];

        if (i == 0 || s->process != s[-1].process || s->lane != s[-1].lane)
            rc = tracefile_write_name(out, "thread_name",
                                      t->processes[s->process].number, s->lane,
                                      lane_name(lane, s->lane));
        if (rc == SL_OK)
            rc = write_slice(out, t, s);
    }
    return rc;
}

enum sl_err tracefile_write(struct tracefile *t, const char *job,
                            struct buf *out)
{
    enum sl_err rc;

    set_lanes(t);
    rc = write_head(t, job, out);
    for (size_t i = 0; rc == SL_OK && i < t->count; i++)
        rc = tracefile_write_name(out, "process_name", t->processes[i].number,
                                  0, t->processes[i].name);
    if (rc == SL_OK)
        rc = write_slices(t, out);
    if (rc == SL_OK)
        rc = write_arrows(t, out);
    return rc == SL_OK ? buf_append_str(out, "\n]}\n") : rc;
}

// ---- life

enum sl_err tracefile_new(struct tracefile **out)
{
    struct tracefile *t = sl_calloc(1, sizeof(*t));

    if (t == NULL)
        return SL_ENOMEM;
    *out = t;
    return SL_OK;
}

void tracefile_free(struct tracefile *t)
{
    if (t == NULL)
        return;
    for (size_t i = 0; i < t->count; i++) {
        sl_free(t->processes[i].name);
        sl_free(t->processes[i].role);
        sl_free(t->processes[i].missing);
    }
    for (size_t i = 0; i < t->n_names; i++)
        sl_free(t->names[i]);
    sl_free(t->processes);
    sl_free(t->slices);
    sl_free(t);
}
