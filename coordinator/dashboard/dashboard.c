// SPDX-License-Identifier: Apache-2.0
// coordinator/dashboard/dashboard.c -- see dashboard.h: the page, and the table
// of its routes.
#include "coordinator/dashboard/dashboard.h"

#include "host/page/page.h"
#include "common/run/conf.h"
#include "coordinator/dashboard/actions.h"
#include "coordinator/dashboard/lists.h"

#define LOOK_MS 200

// Lets a page run, show and ask for nothing but what this server serves.
static const struct http_header policy[] = {
    {"Content-Security-Policy",
     "default-src 'none'; script-src 'self'; style-src 'self'; "
     "connect-src 'self'; img-src 'self' data:; base-uri 'none'; "
     "form-action 'none'; frame-ancestors 'none'"},
    {NULL, NULL},
};

static void dashboard_serve_fixed(struct http_answer *a, const char *type,
                                  const unsigned char *bytes, size_t n)
{
    a->type = type;
    a->fixed = bytes;
    a->fixed_bytes = n;
}

static void serve_html(void *arg, const struct http_request *q,
                       struct http_answer *a)
{
    dashboard_serve_fixed(a, "text/html; charset=utf-8", page_html,
                          page_html_len);
}

static void serve_css(void *arg, const struct http_request *q,
                      struct http_answer *a)
{
    dashboard_serve_fixed(a, "text/css; charset=utf-8", page_css, page_css_len);
}

static void serve_js(void *arg, const struct http_request *q,
                     struct http_answer *a)
{
    dashboard_serve_fixed(a, "text/javascript; charset=utf-8", page_js,
                          page_js_len);
}

// Serves the chart library. Without one the file is empty, and the page has
// tables.
static void serve_chart(void *arg, const struct http_request *q,
                        struct http_answer *a)
{
    dashboard_serve_fixed(a, "text/javascript; charset=utf-8", page_chart,
                          page_chart_len);
}

static const struct http_route routes[] = {
    {.path = "/", .fn = serve_html, .near_only = true, .headers = policy},
    {.path = "/page.css", .fn = serve_css, .near_only = true},
    {.path = "/page.js", .fn = serve_js, .near_only = true},
    {.path = "/chart.js", .fn = serve_chart, .near_only = true},
    {.path = "/api/v1/overview", .fn = lists_overview, .near_only = true},
    {.path = "/api/v1/pace", .fn = lists_pace, .near_only = true},
    {.path = "/api/v1/jobs", .fn = lists_jobs, .near_only = true},
    {.path = "/api/v1/jobs/*", .fn = lists_job, .near_only = true},
    {.path = "/api/v1/cluster", .fn = lists_cluster, .near_only = true},
    {.path = "/api/v1/members", .fn = lists_members, .near_only = true},
    {.path = "/api/v1/map", .fn = lists_map, .near_only = true},
    {.path = "/api/v1/events", .fn = lists_events, .near_only = true},
    {.path = "/api/v1/actions", .fn = actions_list, .near_only = true},
    {.path = "/api/v1/actions/*",
     .fn = actions_do,
     .methods = HTTP_POST,
     .near_only = true},
    {.path = NULL},
};

// Reads the certificates that tokens are checked by; without those there are no
// actions.
static enum sl_err open_actions(struct dashboard *d, const struct http *http,
                                struct sl_error *err)
{
    const struct rpc_tls *tls = daemon_tls(d->server->daemon);

    if (!conf_bool(daemon_conf(d->server->daemon), "dashboard-actions"))
        return SL_OK;
    if (tls == NULL)
        return sl_fail(err, SL_EINVAL,
                       "--dashboard-actions: tokens are made from certificates "
                       "(`sluice cert init`), so it needs --tls-ca, --tls-cert "
                       "and --tls-key");
    if (!http_is_near(http))
        return sl_fail(err, SL_EINVAL,
                       "--dashboard-actions: there is no dashboard at %s, "
                       "which others can reach; let --ops-bind be on loopback",
                       http_address(http));
    return tls_files_open(&d->files, tls, err);
}

static void dashboard_on_look(void *dashboard)
{
    lists_pace_take(dashboard);
    dashboard_look(dashboard);
}

enum sl_err dashboard_open(struct dashboard *d, struct http *http,
                           struct server *server, struct sl_error *err)
{
    enum sl_err rc;

    *d = (struct dashboard){.server = server};
    list_init(&d->viewers);
    track_init(&d->pace, sizeof(struct pace_point), PACE_POINTS);
    rc = open_actions(d, http, err);
    if (rc != SL_OK)
        return rc;
    rc = loop_timer_new(&d->look, server->loop, dashboard_on_look, d);
    if (rc == SL_OK)
        rc = http_route(http, routes, d);
    if (rc != SL_OK) {
        dashboard_close(d);
        return sl_fail(err, rc, "the dashboard: out of memory");
    }
    loop_timer_start(d->look, LOOK_MS, LOOK_MS);
    return SL_OK;
}

void dashboard_close(struct dashboard *d)
{
    loop_timer_free(d->look);
    d->look = NULL;
    tls_files_close(d->files);
    d->files = NULL;
    track_release(&d->pace);
    lists_forget_cluster(d);
    news_release(&d->news);
}
