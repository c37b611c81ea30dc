// SPDX-License-Identifier: Apache-2.0
// tests/unit/client/tracefile_test.c -- pieces in, the rules of a viewer out.
#include "client/trace/tracefile.h"

#include <jansson.h>

#include "common/base/json.h"
#include "common/run/spans.h"
#include "tests/harness/t.h"

#define SPANS 64

static struct tracefile *file;
static struct buf text;
static json_t *root, *events;

// A piece of one process.
static struct piece {
    Sluice__V1__TraceReply reply;
    Sluice__V1__TraceSpan span[SPANS], *list[SPANS];
    char *names[4];
} piece;

static void begin(uint32_t number, char *name, char *role, int64_t offset)
{
    static char *const words[] = {"push", "apply", "forward", "a \"b\"\n"};

    sluice__v1__trace_reply__init(&piece.reply);
    piece.reply.number = number;
    piece.reply.name = name;
    piece.reply.role = role;
    piece.reply.began_us = 1000000;
    piece.reply.clock = true;
    piece.reply.offset_us = offset;
    piece.reply.round_trip_us = 100;
    memcpy(piece.names, words, sizeof(words));
    piece.reply.names = piece.names;
    piece.reply.n_names = 4;
    piece.reply.spans = piece.list;
}

static Sluice__V1__TraceSpan *span(uint32_t name, uint32_t lane, uint64_t start,
                                   uint64_t us)
{
    Sluice__V1__TraceSpan *s = &piece.span[piece.reply.n_spans];

    sluice__v1__trace_span__init(s);
    s->name = name;
    s->lane = lane;
    s->start_us = start;
    s->us = us;
    piece.list[piece.reply.n_spans++] = s;
    return s;
}

static void add(void)
{
    T_OK(tracefile_add(file, &piece.reply));
}

static void set_up(void)
{
    T_OK(tracefile_new(&file));
    buf_init(&text);
}

static void write_and_read(void)
{
    struct sl_json_limits limits = {.bytes = 1 << 20};

    T_OK(tracefile_write(file, "j-1", &text));
    T_OK(sl_json_parse(&root, "trace", buf_text(&text), text.len, &limits,
                       t_err()));
    events = json_object_get(root, "traceEvents");
}

static void tear_down(void)
{
    json_decref(root);
    buf_release(&text);
    tracefile_free(file);
}

static json_int_t number(const json_t *e, const char *key)
{
    return json_integer_value(json_object_get(e, key));
}

// The n-th event of a phase, in the order of the file.
static json_t *event(const char *phase, unsigned n)
{
    size_t i;
    json_t *e;

    json_array_foreach(events, i, e)
    {
        if (strcmp(json_string_value(json_object_get(e, "ph")), phase) == 0 &&
            n-- == 0)
            return e;
    }
    return NULL;
}

TEST(tracefile, what_overlaps_has_lanes_of_its_own)
{
    set_up();
    begin(2, "w-0", "worker", 0);
    span(2, 2, 1000100, 50); // ends within the next
    span(2, 2, 1000000, 120);
    span(2, 2, 1000000, 300); // holds both
    span(2, 2, 1000300, 10);  // begins where that ends
    span(0, SPANS_CALL, 1000000, 100);
    span(0, SPANS_CALL, 1000050, 100);
    span(0, SPANS_CALL, 1000100, 100);
    add();
    write_and_read();
    T_EQ(number(event("X", 0), "dur"), 300);
    T_EQ(number(event("X", 1), "dur"), 120);
    T_EQ(number(event("X", 2), "dur"), 10);
    for (unsigned i = 0; i < 3; i++)
        T_EQ(number(event("X", i), "tid"), SPANS_COMPUTE);
    T_EQ(number(event("X", 3), "tid"), SPANS_CALL);
    T_EQ(number(event("X", 3), "ts"), 0);
    T_EQ(number(event("X", 4), "tid"), SPANS_CALL); // free again
    T_EQ(number(event("X", 4), "ts"), 100);
    T_EQ(number(event("X", 5), "tid"), SPANS_CALL + 1);
    T_EQ(number(event("X", 6), "tid"), SPANS_CALL + 2); // the one that ended
                                                        // within the next
    T_EQ(event("X", 7) == NULL, true);
    tear_down();
}

// Times of a member are shifted; a push that was sent again has two arrows, one
// whose apply is not there has none.
TEST(tracefile, arrows_lead_from_pushes_to_applies)
{
    Sluice__V1__TraceSpan *s;

    set_up();
    begin(3, "ps-0", "psserver", -500000);
    for (unsigned i = 0; i < 2; i++) {
        s = span(1, 10, 1500110 + i * 5000, 20); // 1000110 of our clock
        s->closure = 4;
        s->step = 1;
        s->shard = 1;
    }
    s = span(1, 10, 1500200, 20); // of another shard
    s->closure = 4;
    s->step = 1;
    s->shard = 2;
    add();
    begin(2, "w-0", "worker", 0);
    for (unsigned i = 0; i < 2; i++) {
        s = span(0, SPANS_CALL, 1000100 + i * 5000, 50);
        s->closure = 4;
        s->step = 1;
        s->shard = 1;
    }
    s = span(0, SPANS_CALL, 1000100, 50); // nobody applied it
    s->closure = 9;
    s->step = 1;
    s->shard = 1;
    add();
    write_and_read();
    for (unsigned i = 0; i < 2; i++) {
        T_EQ(number(event("s", i), "ts"), 100 + 5000 * i);
        T_EQ(number(event("s", i), "pid"), 2);
        T_EQ(number(event("f", i), "ts"), 110 + 5000 * i);
        T_EQ(number(event("f", i), "pid"), 3);
        T_EQ(number(event("s", i), "id"), number(event("f", i), "id"));
    }
    T_EQ(event("s", 2) == NULL, true);
    T_EQ(event("f", 2) == NULL, true);
    tear_down();
}

TEST(tracefile, who_is_missing_is_named)
{
    const char *name = NULL;
    json_t *list, *p;

    set_up();
    begin(2, "w-0", "worker", 0);
    span(3, 2, 1000000, 1);
    add();
    begin(5, "w-3", "worker", 0);
    piece.reply.clock = false;
    piece.reply.missing = "it went away";
    piece.reply.last = true;
    add();
    T_STR(tracefile_missing(file, 0, &name), "it went away");
    T_STR(name, "w-3");
    T_EQ(tracefile_missing(file, 1, &name) == NULL, true);
    T_EQ(tracefile_sums(file).processes, 1);
    T_EQ(tracefile_sums(file).missing, 1);
    write_and_read();
    list = json_object_get(json_object_get(root, "otherData"), "processes");
    p = json_array_get(list, 0);
    T_EQ(number(p, "round_trip_us"), 100);
    p = json_array_get(list, 1);
    T_EQ(json_object_get(p, "offset_us") == NULL, true);
    T_STR(json_string_value(json_object_get(p, "missing")), "it went away");
    // A name that has to be quoted.
    T_STR(json_string_value(json_object_get(event("X", 0), "name")),
          "a \"b\"\n");
    tear_down();
}

TEST(tracefile, random_pieces_nest)
{
    set_up();
    for (unsigned p = 0; p < 20; p++) {
        begin(2 + p % 3, "w-0", "worker", (int64_t)t_below(2000) - 1000);
        for (unsigned i = 0; i < SPANS; i++)
            span((uint32_t)t_below(4), (uint32_t)t_below(120),
                 1000000 + t_below(300), t_below(40));
        add();
    }
    write_and_read();
    T_EQ(event("X", 20 * SPANS - 1) != NULL, true);
    for (size_t i = 0; i < json_array_size(events); i++) {
        json_t *a = json_array_get(events, i), *b;
        json_int_t end = number(a, "ts") + number(a, "dur");

        if (json_object_get(a, "dur") == NULL)
            continue;
        for (size_t k = i + 1; k < json_array_size(events); k++) {
            b = json_array_get(events, k);
            if (json_object_get(b, "dur") == NULL ||
                number(b, "pid") != number(a, "pid") ||
                number(b, "tid") != number(a, "tid"))
                continue;
            T_EQ(number(b, "ts") >= end ||
                     number(b, "ts") + number(b, "dur") <= end,
                 true);
        }
    }
    tear_down();
}
