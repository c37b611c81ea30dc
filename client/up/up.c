// SPDX-License-Identifier: Apache-2.0
// client/up/up.c -- the supervisor of a local cluster: its daemons, signals and
// end.
#include "client/up/up.h"

#include <poll.h>
#include <signal.h>
#include <stdio.h>
#include <string.h>
#include <sys/signalfd.h>
#include <sys/socket.h>
#include <sys/wait.h>
#include <unistd.h>

#include "client/cli/cli.h"
#include "client/up/logfile.h"
#include "client/cli/verbs.h"
#include "common/base/cgroup.h"
#include "common/base/clock.h"
#include "common/base/mem.h"
#include "common/base/rng.h"
#include "host/daemon/daemon.h"
#include "host/daemon/sdnotify.h"
#include "common/net/ownsock.h"

#define START_MS 60000  // until all children must be ready
#define KILLED_MS 10000 // until a killed process must be gone
#define POLL_MS 1000
#define LOGS_MS 1000
#define LOG_LINES 8

static const char *const role_names[CHILD_ROLES] = {
    [CHILD_WORKER] = "worker",
    [CHILD_PSSERVER] = "psserver",
    [CHILD_COORDINATOR] = "coordinator",
};

static unsigned running(const struct up *u, enum child_role role)
{
    unsigned n = 0;

    for (unsigned i = 0; i < u->count; i++)
        n += u->children[i].role == role && u->children[i].pid > 0;
    return n;
}

static void signal_all(const struct up *u, enum child_role role, int signum)
{
    for (unsigned i = 0; i < u->count; i++)
        if (u->children[i].role == role && u->children[i].pid > 0)
            kill(u->children[i].pid, signum);
}

// ---- stopping

static void stop_role(struct up *u, enum child_role role)
{
    u->stopping = role;
    u->deadline_ms = sl_real_ms() + (uint64_t)conf_int(u->conf, "grace");
    signal_all(u, role, u->killing ? SIGKILL : SIGTERM);
}

// Goes on to the next role when no child of this role is left.
static void go_on_stopping(struct up *u)
{
    while (running(u, u->stopping) == 0) {
        if (u->stopping == CHILD_COORDINATOR) {
            u->phase = UP_DONE;
            return;
        }
        stop_role(u, (enum child_role)(u->stopping + 1));
    }
    if (sl_real_ms() < u->deadline_ms)
        return;
    if (!u->killing)
        cli_say("%u %s%s did not end within %llu s; killing",
                running(u, u->stopping), role_names[u->stopping],
                running(u, u->stopping) == 1 ? "" : "s",
                (unsigned long long)conf_int(u->conf, "grace") / 1000);
    signal_all(u, u->stopping, SIGKILL);
    u->deadline_ms = sl_real_ms() + KILLED_MS;
}

static void begin_stopping(struct up *u, int code)
{
    u->phase = UP_STOPPING;
    u->code = code;
    sdnotify("STOPPING=1");
    stop_role(u, CHILD_WORKER);
}

// ---- starting

// A cluster that does not come up is taken down again, with the reason.
static void fail_start(struct up *u, const struct child *c, const char *why)
{
    struct buf text = BUF_INIT;

    if (u->phase >= UP_STOPPING)
        return;
    cli_say("sluice: %s %s before it was ready; its log %s ends with:", c->name,
            why, c->log);
    if (child_log_tail(&text, c, LOG_LINES) == SL_OK)
        out_tell_lines(buf_text(&text));
    buf_release(&text);
    begin_stopping(u, CLI_EXIT_FAILED);
}

static void up_start_child(struct up *u, struct child *c)
{
    struct sl_error err = SL_ERROR_INIT;

    if (child_start(c, u->env, sl_real_ms(), &err) == SL_OK)
        return;
    cli_say("sluice: %s: %s", c->name, err.text);
    if (u->phase < UP_RUNNING)
        begin_stopping(u, CLI_EXIT_FAILED);
    else
        c->start_at_ms = sl_real_ms() + POLL_MS;
}

static void start_rest(struct up *u)
{
    u->phase = UP_STARTING_REST;
    u->deadline_ms = sl_real_ms() + START_MS;
    for (unsigned i = 1; i < u->count && u->phase == UP_STARTING_REST; i++)
        up_start_child(u, &u->children[i]);
}

// Where the coordinator shows itself; "" if it did not say.
static void read_ops(const struct up *u, char *out, size_t bytes)
{
    char *path = updir_path(&u->dir, "coordinator/" DAEMON_OPS_FILE);
    FILE *f = path != NULL ? fopen(path, "re") : NULL;

    out[0] = '\0';
    if (f != NULL && fgets(out, (int)bytes, f) != NULL)
        out[strcspn(out, "\n")] = '\0';
    if (f != NULL)
        fclose(f);
    sl_free(path);
}

static void up_announce_ready(struct up *u)
{
    char ops[128];
    unsigned workers = running(u, CHILD_WORKER);
    unsigned servers = running(u, CHILD_PSSERVER);
    bool tcp = strncmp(u->address, "unix:", 5) != 0;
    bool usual = conf_str(u->conf, "listen") == NULL ||
                 strcmp(u->address, OWNSOCK_PORT) == 0;
    struct sl_error err = SL_ERROR_INIT;
    char how[1100] = "Ctrl-C";

    if (u->ready >= 0)
        snprintf(how, sizeof(how), "sluice down --dir %.1000s",
                 conf_str(u->conf, "dir"));
    u->phase = UP_RUNNING;
    if (updir_write(&u->dir, "address", u->address, &err) != SL_OK)
        cli_say("sluice: %s", err.text);
    printf("Ready: coordinator at %s, %u psserver%s, %u worker%s, in %s\n"
           "Next:  sluice %s%s%ssubmit examples/fashion-mlp.yaml   "
           "(%s stops the cluster)\n",
           u->address, servers, servers == 1 ? "" : "s", workers,
           workers == 1 ? "" : "s", u->dir.path, usual ? "" : "--coordinator ",
           usual ? "" : u->address, usual ? "" : " ", how);
    read_ops(u, ops, sizeof(ops));
    if (ops[0] != '\0')
        printf("Look:  http://%s/ (and /metrics, /readyz?verbose)\n", ops);
    if (tcp)
        printf("Note:  every user of this machine may submit jobs there, which "
               "read what you may read; without --listen only you may\n");
    if (u->dir.others)
        printf("Note:  other users may look into %s; chmod 700 changes that\n",
               u->dir.path);
    fflush(stdout);
    sdnotify("READY=1");
    if (u->ready >= 0)
        up_detached(u);
}

static void go_on_starting(struct up *u)
{
    for (unsigned i = 0; i < u->count; i++) {
        struct child *c = &u->children[i];

        if (c->state == CHILD_READY)
            continue;
        if (sl_real_ms() >= u->deadline_ms)
            fail_start(u, c, "was not ready in time,");
        return;
    }
    up_announce_ready(u);
}

// ---- what happens to children

static struct child *child_of(struct up *u, pid_t pid)
{
    for (unsigned i = 0; i < u->count; i++)
        if (u->children[i].pid == pid && pid > 0)
            return &u->children[i];
    return NULL;
}

static void up_child_ready(struct up *u, struct child *c)
{
    if (!child_ready(c))
        return;
    if (u->phase == UP_STARTING_COORDINATOR)
        start_rest(u);
    else if (u->phase == UP_RUNNING)
        cli_say("%s is back (pid %d)", c->name, (int)c->pid);
}

static void say_death(const struct child *c, const char *why, uint64_t now)
{
    if (c->state == CHILD_GIVEN_UP)
        cli_say("%s %s too often: no replacement is started; see %s", c->name,
                why, c->log);
    else if (c->start_at_ms > now)
        cli_say("%s %s; starting a replacement in %.1f s", c->name, why,
                (double)(c->start_at_ms - now) / 1000);
    else
        cli_say("%s %s; starting a replacement", c->name, why);
}

// Appends, to how a child was killed, that the kernel did it for want of
// memory: it counts a kill before it sends the signal.
static void add_memory(struct up *u, char *why, size_t size)
{
    size_t n = strlen(why);
    struct cgroup_memory now;

    cgroup_memory(&now, "");
    if (now.oom_file[0] == '\0') {
        snprintf(why + n, size - n,
                 ", perhaps by the kernel for want of memory (`dmesg`)");
    } else if (now.oom_kills > u->oom_kills) {
        u->oom_kills++; // of several, each child is told one
        snprintf(why + n, size - n,
                 ", by the kernel for want of memory (oom_kill in %.300s is "
                 "%llu now; the limit is %llu MiB): it needs more, or a "
                 "smaller model or batch",
                 now.oom_file, (unsigned long long)now.oom_kills,
                 (unsigned long long)now.limit_bytes >> 20);
    }
}

static void reap(struct up *u, struct child *c)
{
    char why[CHILD_WHY + 600];
    uint64_t now = sl_real_ms();
    int status;

    if (c->pid == 0 || waitpid(c->pid, &status, WNOHANG) != c->pid)
        return;
    child_ended(c, status, now, sl_mix64(sl_real_us()));
    child_why(why, status);
    if (WIFSIGNALED(status) && WTERMSIG(status) == SIGKILL)
        add_memory(u, why, sizeof(why));
    if (u->phase < UP_RUNNING)
        fail_start(u, c, why);
    else if (u->phase == UP_RUNNING)
        say_death(c, why, now);
}

static void restart_due(struct up *u)
{
    for (unsigned i = 0; i < u->count; i++) {
        struct child *c = &u->children[i];

        if (c->pid == 0 && c->state == CHILD_WAITING &&
            c->start_at_ms <= sl_real_ms())
            up_start_child(u, c);
    }
}

// ---- events

static void on_notify(struct up *u)
{
    char text[4096], control[CMSG_SPACE(sizeof(struct ucred))];
    struct iovec part = {text, sizeof(text) - 1};

    for (;;) {
        struct msghdr msg = {.msg_iov = &part,
                             .msg_iovlen = 1,
                             .msg_control = control,
                             .msg_controllen = sizeof(control)};
        ssize_t n = recvmsg(u->notify, &msg, MSG_CMSG_CLOEXEC);
        struct cmsghdr *c = n >= 0 ? CMSG_FIRSTHDR(&msg) : NULL;
        struct ucred who;
        struct child *child;

        if (n < 0)
            return;
        if (c == NULL || c->cmsg_type != SCM_CREDENTIALS)
            continue;
        memcpy(&who, CMSG_DATA(c), sizeof(who));
        text[n] = '\0';
        child = child_of(u, who.pid);
        if (child != NULL && strstr(text, "READY=1") != NULL)
            up_child_ready(u, child);
    }
}

static void up_on_signal(struct up *u, int signum)
{
    bool again;

    if (signum == SIGCHLD)
        return; // every turn of the loop reaps
    // A script that is interrupted together with us may send SIGTERM in turn:
    // only the same signal again is impatience.
    again = (u->signals_seen >> signum & 1) != 0;
    u->signals_seen |= UINT64_C(1) << signum;
    if (u->phase == UP_STOPPING && !again)
        return;
    if (u->phase == UP_STOPPING) {
        cli_say("Killing what is left");
        u->killing = true;
        for (int role = 0; role < CHILD_ROLES; role++)
            signal_all(u, (enum child_role)role, SIGKILL);
        return;
    }
    cli_say("Stopping: workers, psservers, coordinator (Ctrl-C again kills)");
    // An interrupted cluster that has stopped in order has done what it was
    // asked to.
    begin_stopping(u,
                   u->phase == UP_RUNNING ? CLI_EXIT_OK : CLI_EXIT_INTERRUPTED);
}

static void on_signals(struct up *u)
{
    struct signalfd_siginfo info;

    while (read(u->signals, &info, sizeof(info)) == sizeof(info))
        up_on_signal(u, (int)info.ssi_signo);
}

static int wait_ms(const struct up *u)
{
    uint64_t next = POLL_MS, now = sl_real_ms();

    for (unsigned i = 0; u->phase == UP_RUNNING && i < u->count; i++) {
        const struct child *c = &u->children[i];

        if (c->pid != 0 || c->state != CHILD_WAITING)
            continue;
        if (c->start_at_ms <= now)
            return 0;
        if (c->start_at_ms - now < next)
            next = c->start_at_ms - now;
    }
    return (int)next;
}

// Bounds the logs of all children and up.log, every LOGS_MS.
static void bound_logs(struct up *u)
{
    uint64_t most = (uint64_t)conf_int(u->conf, "log-bytes");
    struct sl_error err = SL_ERROR_INIT;
    char *own;

    if (sl_real_ms() < u->logs_ms)
        return;
    u->logs_ms = sl_real_ms() + LOGS_MS;
    for (unsigned i = 0; i < u->count; i++)
        if (logfile_bound(u->children[i].log, most, &err) != SL_OK)
            cli_say("sluice: %s", err.text);
    own = updir_path(&u->dir, "log/up.log");
    if (own != NULL && u->ready >= 0)
        (void)logfile_bound(own, most, &err); // no place to report an error
    sl_free(own);
}

void up_run(struct up *u)
{
    struct cgroup_memory at_first;

    cgroup_memory(&at_first, "");
    u->oom_kills = at_first.oom_kills;
    u->phase = UP_STARTING_COORDINATOR;
    u->deadline_ms = sl_real_ms() + START_MS;
    up_start_child(u, &u->children[0]);
    while (u->phase != UP_DONE) {
        struct pollfd polled[] = {
            {.fd = u->signals, .events = POLLIN},
            {.fd = u->notify, .events = POLLIN},
        };

        poll(polled, SL_COUNT(polled), wait_ms(u));
        on_signals(u);
        on_notify(u);
        for (unsigned i = 0; i < u->count; i++)
            reap(u, &u->children[i]);
        if (u->phase < UP_RUNNING)
            go_on_starting(u);
        else if (u->phase == UP_RUNNING)
            restart_due(u);
        if (u->phase == UP_STOPPING)
            go_on_stopping(u);
        bound_logs(u);
    }
}

int verb_up(struct cli *cli)
{
    struct sl_error err = SL_ERROR_INIT;
    struct up u;
    int code, ready = -1;

    if (conf_bool(cli->conf, "detach") && !up_detach(&ready, &code))
        return code;
    if (up_setup(&u, cli->conf, &err) != SL_OK) {
        code = cli_fail(&err);
        // No child runs yet: the folder's files can go.
        up_release(&u);
        return code;
    }
    u.ready = ready;
    up_run(&u);
    code = u.code;
    up_release(&u);
    if (code == CLI_EXIT_OK)
        cli_say("Stopped; state and checkpoints are in %s",
                conf_str(cli->conf, "dir"));
    return code;
}
