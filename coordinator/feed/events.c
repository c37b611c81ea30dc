// SPDX-License-Identifier: Apache-2.0
// coordinator/feed/events.c -- the list of all events, and those of each job.
#include "coordinator/feed/events.h"

#include <string.h>

#include "common/base/mem.h"
#include "common/base/utf8.h"

struct events_of {
    struct list list;
    size_t count;
    uint64_t uid;
};

static const struct {
    const char *word;
    enum event_level level;
} kinds[] = {
#define EVENT_ROW(kind, word, level) {word, EVENT_##level},
    EVENT_KINDS(EVENT_ROW)
#undef EVENT_ROW
};

const char *event_word(enum event_kind kind)
{
    return kinds[kind].word;
}

const char *event_level(enum event_kind kind)
{
    static const char *const names[] = {"info", "warn", "error"};

    return names[kinds[kind].level];
}

bool event_find(const char *word, enum event_kind *out)
{
    for (unsigned i = 0; i < EVENT_KINDS_COUNT; i++) {
        if (strcmp(kinds[i].word, word) == 0) {
            *out = (enum event_kind)i;
            return true;
        }
    }
    return false;
}

void events_init(struct events *es)
{
    memset(es, 0, sizeof(*es));
    list_init(&es->all);
    map_init(&es->of_job);
}

void events_release(struct events *es)
{
    struct list_node *n;

    while ((n = list_pop_front(&es->all)) != NULL)
        sl_free(list_entry(n, struct event, node));
    map_release_owned(&es->of_job);
    events_init(es);
}

static struct events_of *of_job(struct events *es, uint64_t uid)
{
    struct events_of *of = map_get(&es->of_job, uid);

    if (of != NULL)
        return of;
    of = sl_calloc(1, sizeof(*of));
    if (of == NULL)
        return NULL;
    list_init(&of->list);
    of->uid = uid;
    if (map_put(&es->of_job, uid, of) != SL_OK) {
        sl_free(of);
        return NULL;
    }
    return of;
}

static uint64_t events_drop(struct events *es, struct event *e)
{
    uint64_t id = e->id;

    list_remove(&e->node);
    list_remove(&e->on_job);
    es->count--;
    if (--e->of->count == 0)
        sl_free(map_remove(&es->of_job, e->of->uid));
    sl_free(e);
    return id;
}

void events_clean(char line[EVENT_TEXT], char member[EVENT_TEXT],
                  const struct event *said, const char *text)
{
    // Any peer may have sent them.
    utf8_line(line, EVENT_TEXT, text);
    utf8_line(member, EVENT_TEXT, said->member == NULL ? "" : said->member);
}

static struct event *event_copy(const struct event *said, const char *text)
{
    char line[EVENT_TEXT], member[EVENT_TEXT];
    size_t n, m;
    struct event *e;

    events_clean(line, member, said, text);
    n = strlen(line) + 1;
    m = strlen(member) + 1;
    e = sl_malloc(sizeof(*e) + n + m);
    if (e == NULL)
        return NULL;
    *e = *said;
    memcpy(e->text, line, n);
    memcpy(e->text + n, member, m);
    e->member = e->text + n;
    return e;
}

const struct event *events_add(struct events *es, const struct event *said,
                               const char *text, uint64_t dropped[2])
{
    struct event *e = event_copy(said, text);
    struct events_of *of = e == NULL ? NULL : of_job(es, said->uid);

    dropped[0] = dropped[1] = 0;
    if (of == NULL) {
        sl_free(e);
        return NULL;
    }
    e->of = of;
    if (e->id == 0)
        e->id = es->last_id + 1;
    if (e->id > es->last_id)
        es->last_id = e->id;
    list_push_back(&es->all, &e->node);
    list_push_back(&of->list, &e->on_job);
    es->count++;
    if (++of->count > EVENTS_OF_JOB)
        dropped[0] = events_drop(
            es, list_entry(list_first(&of->list), struct event, on_job));
    if (es->count > EVENTS_ALL)
        dropped[1] = events_drop(
            es, list_entry(list_first(&es->all), struct event, node));
    return e;
}

// ---- reading

static struct event *last(const struct events *es, uint64_t uid)
{
    const struct events_of *of =
        map_get(&es->of_job, uid == EVENTS_OF_NONE ? 0 : uid);

    if (uid == 0)
        return list_empty(&es->all)
                   ? NULL
                   : list_entry(es->all.head.prev, struct event, node);
    return of == NULL ? NULL
                      : list_entry(of->list.head.prev, struct event, on_job);
}

static struct event *before(const struct events *es, uint64_t uid,
                            const struct event *e)
{
    struct list_node *n = uid == 0 ? e->node.prev : e->on_job.prev;

    if (uid == 0)
        return n == &es->all.head ? NULL : list_entry(n, struct event, node);
    return n == &e->of->list.head ? NULL : list_entry(n, struct event, on_job);
}

const struct event *events_next(const struct events *es, uint64_t uid,
                                const struct event *e)
{
    struct list_node *n = uid == 0 ? e->node.next : e->on_job.next;

    if (uid == 0)
        return n == &es->all.head ? NULL : list_entry(n, struct event, node);
    return n == &e->of->list.head ? NULL : list_entry(n, struct event, on_job);
}

const struct event *events_after(const struct events *es, uint64_t uid,
                                 uint64_t after)
{
    struct event *e = last(es, uid), *found = NULL;

    for (; e != NULL && e->id > after; e = before(es, uid, e))
        found = e;
    return found;
}

const struct event *events_last(const struct events *es, uint64_t uid,
                                size_t count)
{
    struct event *e = last(es, uid), *found = NULL;

    for (; e != NULL && count > 0; e = before(es, uid, e), count--)
        found = e;
    return found;
}
