// SPDX-License-Identifier: Apache-2.0
#include "host/daemon/ops.h"

#include "common/base/mem.h"
#include "tests/unit/host/http_kit.h"

struct world {
    struct talk talk;
    struct ops *ops;
    bool ready;
};

static void checks(void *arg, struct ops_checks *c)
{
    const struct world *w = arg;

    ops_check(c, "port", true, "never said");
    ops_check(c, "journal", w->ready, "no space");
}

static void measure(void *arg, struct expo *e)
{
    expo_single(e, "sluice_own", EXPO_GAUGE, "A room's own.", 42);
}

static void page(void *arg, const struct http_request *q, struct http_answer *a)
{
    http_say(a, 200, "page");
}

static const struct http_route routes[] = {
    {.path = "/page", .fn = page, .near_only = true},
    {.path = NULL},
};

static void open_world(struct world *w, const char *bind)
{
    struct ops_setup setup = {.bind = bind,
                              .role = "tester",
                              .checks = checks,
                              .measure = measure,
                              .arg = w};

    *w = (struct world){.ready = true};
    T_OK(loop_new(&w->talk.loop, t_err()));
    setup.loop = w->talk.loop;
    T_OK(ops_new(&w->ops, &setup, t_err()));
    T_OK(http_route(ops_http(w->ops), routes, w));
    w->talk.address = http_address(ops_http(w->ops));
}

static void close_world(struct world *w)
{
    ops_free(w->ops);
    loop_free(w->talk.loop);
}

TEST(ops, livez_needs_the_loop_alone)
{
    struct world w;

    open_world(&w, "127.0.0.1:0");
    w.ready = false;
    T_HAS(ask(&w.talk, "GET /livez HTTP/1.1\r\n" END), "200 OK");
    close_world(&w);
}

TEST(ops, readyz_names_its_checks)
{
    struct world w;
    const char *text;

    open_world(&w, "127.0.0.1:0");
    text = ask(&w.talk, "GET /readyz HTTP/1.1\r\n" END);
    T_HAS(text, "200 OK");
    T_HAS(text, "\r\n\r\nready\n");
    T_HAS(ask(&w.talk, "GET /readyz?verbose HTTP/1.1\r\n" END),
          "\r\n\r\n[+]port ok\n[+]journal ok\nready\n");
    w.ready = false;
    text = ask(&w.talk, "GET /readyz HTTP/1.1\r\n" END);
    T_HAS(text, "503 ");
    T_HAS(text, "[+]port ok\n[-]journal failed: no space\nnot ready\n");
    close_world(&w);
}

TEST(ops, metrics_are_text_that_prometheus_reads)
{
    struct world w;
    const char *text;

    open_world(&w, "127.0.0.1:0");
    text = ask(&w.talk, "GET /metrics HTTP/1.1\r\n" END);
    T_HAS(text, "Content-Type: text/plain; version=0.0.4; charset=utf-8\r\n");
    T_HAS(text, "sluice_build_info{version=\"" SLUICE_VERSION "\",commit=\"");
    T_HAS(text, "\",role=\"tester\"} 1\n");
    T_HAS(text, "# TYPE process_cpu_seconds_total counter\n");
    T_HAS(text, "\nsluice_own 42\n");
    T_STR(text + strlen(text) - 1, "\n");
    text = ask(&w.talk,
               "GET /metrics HTTP/1.1\r\n"
               "Accept: application/openmetrics-text; version=1.0.0\r\n" END);
    T_HAS(text, "Content-Type: application/openmetrics-text; version=1.0.0; "
                "charset=utf-8\r\n");
    T_HAS(text, "# TYPE process_cpu_seconds counter\n");
    T_STR(text + strlen(text) - 6, "# EOF\n");
    close_world(&w);
}

// Off loopback a kubelet asks by any name; pages are not there.
TEST(ops, off_loopback_there_are_three_paths)
{
    static const char *const paths[] = {"livez", "readyz", "metrics"};
    struct world w;
    char request[128];

    open_world(&w, "0.0.0.0:0");
    for (size_t i = 0; i < SL_COUNT(paths); i++) {
        snprintf(request, sizeof(request),
                 "GET /%s HTTP/1.1\r\nHost: pod.example\r\n"
                 "Connection: close\r\n\r\n",
                 paths[i]);
        T_HAS(ask(&w.talk, request), "200 OK");
    }
    T_HAS(ask(&w.talk, "GET /page HTTP/1.1\r\n" END), "404 ");
    close_world(&w);
    open_world(&w, "127.0.0.1:0");
    T_HAS(ask(&w.talk, "GET /page HTTP/1.1\r\n" END), "200 OK");
    T_HAS(ask(&w.talk, "POST /metrics HTTP/1.1\r\nContent-Length: 0\r\n" END),
          "405 ");
    close_world(&w);
}

TEST(ops, a_taken_port_is_said)
{
    struct world w;
    struct ops_setup setup = {.checks = checks, .measure = measure};
    struct ops *second;
    struct sl_error err = SL_ERROR_INIT;

    open_world(&w, "127.0.0.1:0");
    setup.loop = w.talk.loop;
    setup.bind = w.talk.address;
    T_FAILS(SL_EBUSY, ops_new(&second, &setup, &err));
    T_HAS(err.text, "--ops-bind: cannot listen on 127.0.0.1:");
    close_world(&w);
}
