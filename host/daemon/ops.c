// SPDX-License-Identifier: Apache-2.0
// host/daemon/ops.c -- see ops.h.
#include "host/daemon/ops.h"

#include <string.h>

#include "common/base/clock.h"
#include "common/base/mem.h"
#include "common/run/held.h"
#include "common/run/log.h"

#define BEAT_MS 500 // how often it is seen how late the loop is

struct ops {
    struct ops_setup setup;
    struct http *http;
    struct loop_timer *beat;
    uint64_t beat_us; // when it was due
    struct histogram lag;
};

static void ops_on_beat(void *arg)
{
    struct ops *o = arg;
    uint64_t now = sl_real_us();

    histogram_add(&o->lag, now > o->beat_us ? now - o->beat_us : 0);
    o->beat_us = now + BEAT_MS * 1000;
    loop_timer_start(o->beat, BEAT_MS, 0);
}

// ---- probes

// Answers /livez. The loop itself answers, so after a standstill the request
// may run before the beat that proves the loop alive.
static void livez(void *arg, const struct http_request *q,
                  struct http_answer *a)
{
    const struct ops *o = arg;

    if (sl_real_us() > o->beat_us + OPS_STILL_MS * 1000)
        http_say(a, 503, "the loop stood still");
    else
        http_say(a, 200, "ok");
}

void ops_check(struct ops_checks *c, const char *name, bool ok, const char *why)
{
    c->failed = c->failed || !ok;
    if (ok)
        (void)buf_appendf(&c->text, "[+]%s ok\n", name);
    else
        (void)buf_appendf(&c->text, "[-]%s failed%s%s\n", name,
                          why != NULL ? ": " : "", why != NULL ? why : "");
}

static void readyz(void *arg, const struct http_request *q,
                   struct http_answer *a)
{
    const struct ops *o = arg;
    struct ops_checks c = {.text = BUF_INIT};

    o->setup.checks(o->setup.arg, &c);
    a->status = c.failed ? 503 : 200;
    if (c.failed || http_query(q, "verbose") != NULL)
        (void)buf_append(&a->body, c.text.data, c.text.len);
    (void)buf_append_str(&a->body, c.failed ? "not ready\n" : "ready\n");
    buf_release(&c.text);
}

// ---- figures

static void put_common(struct ops *o, struct expo *e)
{
    expo_family(e, "sluice_build_info", EXPO_GAUGE,
                "Always 1; the labels name the running program.");
    expo_value(e, 1, "version", SLUICE_VERSION, "commit", SLUICE_COMMIT, "role",
               o->setup.role, NULL);
    ops_process(e);
    expo_family(e, "sluice_event_loop_lag_seconds", EXPO_HISTOGRAM,
                "Delay between the time that a timer was due and its start.");
    expo_histogram(e, &o->lag, NULL);
    held_measure(e);
    expo_single(e, "sluice_log_dropped_total", EXPO_COUNTER,
                "Log lines that the daemon could not write.",
                (double)log_dropped());
    expo_family(e, "sluice_http_connections", EXPO_GAUGE,
                "Connections to the ops port, by kind.");
    expo_value(e, http_connections(o->http) - http_viewers(o->http), "kind",
               "request", NULL);
    expo_value(e, http_viewers(o->http), "kind", "events", NULL);
}

static void ops_serve_metrics(void *arg, const struct http_request *q,
                              struct http_answer *a)
{
    struct ops *o = arg;
    const char *accept = http_header(q, "Accept");
    bool open = accept != NULL &&
                strstr(accept, "application/openmetrics-text") != NULL;
    struct expo e;

    expo_begin(&e, &a->body, open);
    put_common(o, &e);
    o->setup.measure(o->setup.arg, &e);
    if (expo_end(&e) != SL_OK) {
        http_say(a, 503, "out of memory");
        return;
    }
    a->type = open ? "application/openmetrics-text; version=1.0.0; "
                     "charset=utf-8"
                   : "text/plain; version=0.0.4; charset=utf-8";
}

// ---- its life

static const struct http_route routes[] = {
    {.path = "/livez", .fn = livez, .any_host = true},
    {.path = "/readyz", .fn = readyz, .any_host = true},
    {.path = "/metrics", .fn = ops_serve_metrics, .any_host = true},
    {.path = NULL},
};

enum sl_err ops_new(struct ops **out, const struct ops_setup *setup,
                    struct sl_error *err)
{
    struct http_setup http = {
        .loop = setup->loop, .bind = setup->bind, .hosts = setup->hosts};
    struct ops *o = sl_calloc(1, sizeof(*o));
    enum sl_err rc = o == NULL ? SL_ENOMEM : SL_OK;

    if (rc != SL_OK)
        return sl_fail(err, rc, "ops port: out of memory");
    o->setup = *setup;
    o->lag.bounds = histogram_durations;
    o->lag.unit = 1e-6;
    rc = http_new(&o->http, &http, err);
    if (rc == SL_OK)
        rc = http_route(o->http, routes, o);
    if (rc == SL_OK)
        rc = loop_timer_new(&o->beat, setup->loop, ops_on_beat, o);
    if (rc != SL_OK) {
        ops_free(o);
        return sl_prefix(err, rc, "--ops-bind");
    }
    o->beat_us = sl_real_us();
    loop_timer_start(o->beat, 0, 0);
    LOG(INFO, "ops port", "address=%s near=%d", http_address(o->http),
        http_is_near(o->http));
    *out = o;
    return SL_OK;
}

struct http *ops_http(struct ops *o)
{
    return o->http;
}

void ops_free(struct ops *o)
{
    if (o == NULL)
        return;
    http_free(o->http);
    loop_timer_free(o->beat);
    sl_free(o);
}
