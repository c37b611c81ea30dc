// SPDX-License-Identifier: Apache-2.0
// Follows a job of a coordinator that is played here: it says a few statuses,
// goes away, and comes back on the same address.
#include "client/show/follow.h"

#include <signal.h>
#include <stdatomic.h>
#include <sys/resource.h>
#include <unistd.h>

#include "client/show/progress.h"
#include "common/base/mem.h"
#include "common/run/log.h"
#include "tests/harness/t.h"

#define LONG_MS 30000

struct played {
    struct rpc_io *io;
    struct rpc_server *server;
    char address[256];
    _Atomic unsigned watched;     // streams opened
    _Atomic uint64_t first, last; // step of the first and the last status
    _Atomic bool stays;           // the stream stays open after `last`
};

static void on_end(struct rpc_stream *stream, enum sl_err code,
                   const struct sl_error *err, void *user)
{
}

static void say(struct rpc_stream *stream, uint64_t step, bool end)
{
    Sluice__V1__JobStatus s = SLUICE__V1__JOB_STATUS__INIT;
    struct rpc_msg msg;

    s.job = 1;
    s.id = (char *)"j-1";
    s.name = (char *)"toy";
    s.state = end ? SLUICE__V1__JOB_STATE__JOB_FINISHED
                  : SLUICE__V1__JOB_STATE__JOB_RUNNING;
    s.steps_asked = 10;
    s.steps_counted = step;
    rpc_msg_init(&msg);
    T_ASSERT(wire_msg(&msg, &s.base) == SL_OK);
    if (rpc_stream_send(stream, &msg) != SL_OK)
        rpc_msg_drop(&msg);
}

static void watch(struct rpc_stream *stream, void *arg)
{
    static const struct rpc_stream_events events = {.on_end = on_end};
    struct played *p = arg;

    rpc_stream_set(stream, &events, p);
    atomic_fetch_add(&p->watched, 1);
    for (uint64_t i = p->first; i <= p->last; i++)
        say(stream, i, i == 10);
    if (!p->stays)
        rpc_stream_finish(stream, SL_OK, NULL);
}

static void start(struct played *p)
{
    static const struct rpc_method methods[] = {
        {.path = WIRE_WATCH, .kind = RPC_SERVER_STREAM, .open = watch}};
    struct rpc_table table = {methods, 1, p};

    T_OK(rpc_server_new(&p->server, p->io, &table, 1, NULL, t_err()));
    T_OK(rpc_server_bind(p->server, p->address, NULL, NULL, t_err()));
    rpc_server_start(p->server);
}

struct world {
    struct played played;
    struct conf *conf;
    struct api_client *api;
    struct follow_stream *follow;
};

static const struct conf_key keys[] = {
    {.name = "coordinator", .kind = CONF_STRING},
    {.name = "timeout", .kind = CONF_MS, .value = "10s"},
    {.name = "tls-ca", .kind = CONF_STRING},
    {.name = "tls-cert", .kind = CONF_STRING},
    {.name = "tls-key", .kind = CONF_STRING},
    {.name = NULL},
};

static void begin(struct world *w, uint64_t first, uint64_t last, bool stays)
{
    static const struct conf_about about = {"t", "t", "t", "t", NULL};
    char flag[300];
    char *argv[] = {(char *)"t", flag, NULL};

    *w = (struct world){
        .played = {.first = first, .last = last, .stays = stays}};
    snprintf(w->played.address, sizeof(w->played.address), "unix:%s",
             t_path("c.sock"));
    snprintf(flag, sizeof(flag), "--coordinator=%s", w->played.address);
    T_OK(follow_block(t_err()));
    T_OK(rpc_io_new(&w->played.io, NULL, t_err()));
    start(&w->played);
    T_OK(conf_new(&w->conf, &about, keys));
    T_OK(conf_load(w->conf, NULL, 2, argv, NULL, t_err()));
    T_OK(api_open(&w->api, w->conf, t_err()));
    T_OK(follow_open(&w->follow, w->api, "j-1", false, t_err()));
}

static void end(struct world *w)
{
    follow_close(w->follow);
    api_close(w->api);
    conf_free(w->conf);
    rpc_server_free(w->played.server);
    rpc_io_free(w->played.io);
}

// Older statuses may be dropped for newer ones; the last one never is.
static void expect_step(struct world *w, uint64_t step, bool back)
{
    struct follow_event event;
    bool was_back = false;

    do {
        follow_next(w->follow, LONG_MS, &event);
        T_EQ(event.kind, FOLLOW_STATUS);
        was_back = was_back || event.back;
        T_LE(event.status->steps_counted, step);
    } while (event.status->steps_counted < step);
    T_EQ(was_back, back);
}

TEST(follow, statuses_come_and_nothing_is_nothing)
{
    struct world w;
    struct follow_event event;

    begin(&w, 1, 3, true);
    expect_step(&w, 3, false);
    follow_next(w.follow, 0, &event);
    T_EQ(event.kind, FOLLOW_NOTHING);
    end(&w);
}

TEST(follow, a_coordinator_that_comes_back_is_found_again)
{
    struct world w;
    struct follow_event event;

    begin(&w, 1, 2, true);
    expect_step(&w, 2, false);
    rpc_server_free(w.played.server);
    w.played.server = NULL;
    follow_next(w.follow, LONG_MS, &event);
    T_EQ(event.kind, FOLLOW_AWAY);

    // Said once, however often dialling fails.
    follow_next(w.follow, 700, &event);
    T_EQ(event.kind, FOLLOW_NOTHING);
    w.played.first = 9;
    w.played.last = 10;
    start(&w.played);
    expect_step(&w, 10, true);
    T_GE(w.played.watched, 2);
    end(&w);
}

TEST(follow, an_orderly_end_in_mid_job_is_no_end_of_the_job)
{
    struct world w;
    struct follow_event event;

    begin(&w, 4, 4, false);
    expect_step(&w, 4, false);
    follow_next(w.follow, LONG_MS, &event);
    T_EQ(event.kind, FOLLOW_AWAY);
    end(&w);
}

TEST(follow, ctrl_c_is_an_event)
{
    struct world w;
    struct follow_event event;

    begin(&w, 1, 1, true);
    expect_step(&w, 1, false);
    kill(getpid(), SIGINT);
    follow_next(w.follow, LONG_MS, &event);
    T_EQ(event.kind, FOLLOW_INTERRUPT);
    T_EQ(event.signum, SIGINT);
    end(&w);
}

TEST(follow, an_unknown_job_is_the_end)
{
    struct world w;
    struct follow_event event;

    begin(&w, 1, 1, true);
    expect_step(&w, 1, false);
    follow_close(w.follow);
    // No method of this name is answered any more: not transient.
    rpc_server_free(w.played.server);
    T_OK(rpc_server_new(&w.played.server, w.played.io, NULL, 0, NULL, t_err()));
    T_OK(rpc_server_bind(w.played.server, w.played.address, NULL, NULL,
                         t_err()));
    rpc_server_start(w.played.server);
    T_OK(follow_open(&w.follow, w.api, "j-1", false, t_err()));
    do
        follow_next(w.follow, LONG_MS, &event);
    while (event.kind == FOLLOW_AWAY || event.kind == FOLLOW_NOTHING);
    T_EQ(event.kind, FOLLOW_FAILED);
    end(&w);
}

// The log is the process's: its verb decides what it shows.
TEST(follow, to_open_leaves_the_log_as_it_is)
{
    struct world w;

    log_set_level(LOG_LEVEL_INFO);
    begin(&w, 1, 1, true);
    T_EQ(log_get_level(), LOG_LEVEL_INFO);
    end(&w);
}

static bool blocks_ctrl_c(void)
{
    sigset_t now;

    T_ASSERT(sigprocmask(SIG_BLOCK, NULL, &now) == 0);
    return sigismember(&now, SIGINT) == 1 && sigismember(&now, SIGTERM) == 1;
}

// As where a process has no descriptor left.
static void fail_to_open(void)
{
    struct sl_error err = SL_ERROR_INIT;
    struct follow_stream *f = NULL;
    struct rlimit was, none;
    enum sl_err rc;

    T_ASSERT(getrlimit(RLIMIT_NOFILE, &was) == 0);
    none = (struct rlimit){.rlim_cur = 0, .rlim_max = was.rlim_max};
    T_ASSERT(setrlimit(RLIMIT_NOFILE, &none) == 0);
    rc = follow_open(&f, NULL, "j-1", false, &err);
    T_ASSERT(setrlimit(RLIMIT_NOFILE, &was) == 0);
    T_FAILS(SL_EIO, rc);
    T_PTR(f, NULL);
}

TEST(follow, what_cannot_be_opened_leaves_signals_as_they_were)
{
    follow_unblock();
    fail_to_open();
    T_FALSE(blocks_ctrl_c());
    T_OK(follow_block(t_err()));
    fail_to_open();
    T_TRUE(blocks_ctrl_c());
    follow_unblock();
}

// submit blocks them before it says that Ctrl-C detaches.
TEST(follow, a_watch_that_cannot_begin_leaves_ctrl_c_to_the_process)
{
    const struct follow_options options = {.histograms = false};

    T_OK(follow_block(t_err()));
    sl_mem_fail_at(1);
    T_TRUE(follow_job(NULL, NULL, "j-1", &options) != 0);
    T_TRUE(sl_mem_failed());
    sl_mem_fail_at(0);
    T_FALSE(blocks_ctrl_c());
}
