// SPDX-License-Identifier: Apache-2.0
// host/daemon/going.c -- from a notice to the daemon's end, or back.
#include "host/daemon/going.h"

#include "common/base/clock.h"
#include "common/base/mem.h"
#include "host/notice/notice.h"

struct going {
    struct going_setup setup;
    struct notice *notice;
    struct loop_timer *timer;
    bool goes, telling, begun;
};

static void going_begin_attending(struct going *g)
{
    if (g->begun || g->goes || daemon_draining(g->setup.daemon))
        return;
    g->begun = true;
    loop_timer_stop(g->timer);
    if (g->setup.begin != NULL)
        g->setup.begin(g->setup.arg);
}

static void on_looked(void *arg)
{
    going_begin_attending(arg);
}

static void going_on_timeout(void *arg)
{
    struct going *g = arg;

    if (!g->begun) { // a source takes too long to answer
        going_begin_attending(g);
        return;
    }
    g->setup.late(g->setup.arg);
}

// Stops the daemon: its work is handed over, and the sources that wanted to
// hear it were told.
static void told(void *arg)
{
    struct going *g = arg;

    g->telling = false;
    if (g->goes)
        daemon_stop(g->setup.daemon, GOING_EXIT);
}

void going_drained(struct going *g)
{
    if (g == NULL || !g->goes || g->telling)
        return;
    loop_timer_stop(g->timer);
    g->telling = true;
    notice_may_go(g->notice, told, g);
}

static void going_drain(struct going *g, const char *why)
{
    LOG(WARN, "this machine will be taken away; draining", "why=%s", why);
    if (g->setup.drain(g->setup.arg, why))
        going_drained(g);
    else if (g->setup.late != NULL)
        loop_timer_start(g->timer, g->setup.step_ms, 0);
}

static void on_notice(void *arg, bool goes, const char *why)
{
    struct going *g = arg;

    if (daemon_draining(g->setup.daemon))
        return;
    g->goes = goes;
    if (!g->begun && g->setup.begin != NULL) {
        if (goes)
            LOG(WARN, "this machine will be taken away; not attending",
                "why=%s", why);
        going_begin_attending(g);
        return;
    }
    g->setup.changed(g->setup.arg);
    if (goes) {
        going_drain(g, why);
        return;
    }
    LOG(INFO, "notice withdrawn; this machine stays");
    loop_timer_stop(g->timer);
    g->setup.stay(g->setup.arg);
}

enum sl_err going_new(struct going **out, const struct going_setup *setup,
                      struct sl_error *err)
{
    struct going *g = sl_calloc(1, sizeof(*g));
    const struct conf *c = daemon_conf(setup->daemon);
    struct notice_setup notice = {.loop = daemon_loop(setup->daemon),
                                  .sources = conf_str(c, "preempt-source"),
                                  .azure = conf_str(c, "azure-imds-endpoint"),
                                  .changed = on_notice,
                                  .looked = on_looked,
                                  .arg = g};
    enum sl_err rc;

    if (g == NULL)
        return sl_no_memory(err);
    g->setup = *setup;
    g->begun = setup->begin == NULL;
    rc = loop_timer_new(&g->timer, notice.loop, going_on_timeout, g);
    if (rc == SL_OK)
        rc = notice_new(&g->notice, &notice, err);
    if (rc != SL_OK) {
        going_free(g);
        return rc;
    }
    if (!g->begun)
        loop_timer_start(g->timer, GOING_LOOK_MS, 0);
    *out = g;
    return SL_OK;
}

bool going_is(const struct going *g)
{
    return g != NULL && g->goes;
}

void going_measure(const struct going *g, struct expo *e)
{
    uint64_t when = g != NULL ? notice_when_us(g->notice) : 0;
    uint64_t now = sl_wall_us(sl_clock_real());

    expo_family(e, "sluice_preemption_notice_remaining_seconds", EXPO_GAUGE,
                "Time until this machine is taken away; absent without a "
                "notice or a time in it.");
    if (when != 0)
        expo_value(e, when > now ? (double)(when - now) / 1e6 : 0, NULL);
}

void going_free(struct going *g)
{
    if (g == NULL)
        return;
    notice_free(g->notice);
    loop_timer_free(g->timer);
    sl_free(g);
}
