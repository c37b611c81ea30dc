// SPDX-License-Identifier: Apache-2.0
// Each case is a real process: a child runs daemon_main, the parent is its
// service manager at the other end of NOTIFY_SOCKET and waits for its words.
#include "host/daemon/daemon.h"

#include <errno.h>
#include <fcntl.h>
#include <signal.h>
#include <sys/socket.h>
#include <sys/un.h>
#include <sys/wait.h>
#include <unistd.h>

#include "common/base/buf.h"
#include "common/base/fs.h"
#include "common/base/mem.h"
#include "host/daemon/sdnotify.h"
#include "tests/harness/t.h"

enum how {
    OBEY,        // ready at once, drained at once
    NEVER_DRAIN, // waits for the grace or for a second signal
    FAIL_BUSY,
    FAIL_CORRUPT,
    FAIL_UNAVAIL,
    STOP_SELF,  // daemon_stop(1) when it runs
    END_SELF,   // daemon_end(0)
    ANEW_SELF,  // daemon_anew, and then it waits for the grace
    WAIT_FIRST, // says that it waits, and then as OBEY
};

struct room {
    enum how how;
    bool drained, stopped;
};

static const struct conf_about about = {
    .program = "tester", .usage = "tester", .text = "A daemon."};
static const struct conf_key keys[] = {
    {.name = "grace", .kind = CONF_MS, .value = "1h", .help = "Own default."},
    {.name = NULL}};

static struct daemon *self;

static void stop_self(void *arg)
{
    struct room *room = arg;

    if (room->how == STOP_SELF)
        daemon_stop(self, DAEMON_EXIT_FAILED);
    else if (room->how == END_SELF)
        daemon_end(self, DAEMON_EXIT_OK);
    else
        daemon_anew(self, "a second life");
}

static enum sl_err start(struct daemon *d, void *arg, struct sl_error *err)
{
    struct room *room = arg;

    self = d;
    switch (room->how) {
    case FAIL_BUSY:
        return sl_fail(err, SL_EBUSY, "the port is taken");
    case FAIL_CORRUPT:
        return sl_fail(err, SL_ECORRUPT, "the journal is broken");
    case FAIL_UNAVAIL:
        return sl_fail(err, SL_EUNAVAIL, "nobody answers");
    case STOP_SELF:
    case END_SELF:
    case ANEW_SELF:
        return loop_post(daemon_loop(d), stop_self, room);
    default:
        break;
    }
    DAEMON_STARTED(d, "bind=%s", "nowhere");
    daemon_status(d, "node %s", conf_str(daemon_conf(d), "node"));
    if (room->how == WAIT_FIRST)
        daemon_waits(d);
    daemon_ready(d);
    daemon_ready(d); // only the first counts
    daemon_waits(d); // no more
    return SL_OK;
}

static void drain(struct daemon *d, void *arg)
{
    struct room *room = arg;

    room->drained = true;
    T_ASSERT(daemon_draining(d));
    if (room->how != NEVER_DRAIN && room->how != ANEW_SELF)
        daemon_drained(d);
    else
        daemon_status(d, "draining");
}

static void stop(struct daemon *d, void *arg)
{
    struct room *room = arg;

    T_ASSERT(room->how == END_SELF || room->drained);
    room->stopped = true;
}

static void reload(struct daemon *d, void *arg)
{
    daemon_status(d, "level %d", (int)log_get_level());
}

static const struct daemon_hooks hooks = {
    .start = start, .drain = drain, .stop = stop, .reload = reload};
static const struct daemon_hooks stateless = {
    .stateless = true, .start = start, .drain = drain, .stop = stop};

// --- the parent's side

static int manager; // socket that the daemon notifies

static void be_manager(void)
{
    struct sockaddr_un at = {.sun_family = AF_UNIX};
    struct timeval limit = {.tv_sec = 60};

    snprintf(at.sun_path, sizeof(at.sun_path), "%s", t_path("notify"));
    manager = socket(AF_UNIX, SOCK_DGRAM | SOCK_CLOEXEC, 0);
    T_EQ(bind(manager, (struct sockaddr *)&at, sizeof(at)), 0);
    T_EQ(setsockopt(manager, SOL_SOCKET, SO_RCVTIMEO, &limit, sizeof(limit)),
         0);
    setenv("NOTIFY_SOCKET", at.sun_path, 1);
}

static void expect(const char *want)
{
    char text[600];
    ssize_t n;

    do // with a limit of time it ends where this process was stopped
        n = recv(manager, text, sizeof(text) - 1, 0);
    while (n < 0 && errno == EINTR);
    T_GT(n, 0);
    text[n] = '\0';
    T_TRUE(strncmp(text, want, strlen(want)) == 0);
}

static int run(const struct daemon_hooks *with, enum how how, int argc,
               char **argv)
{
    struct room room = {.how = how};

    return daemon_main(&about, keys, with, &room, argc, argv);
}

static pid_t spawn(enum how how, const char *flag)
{
    const char *state = t_path("state"), *out = t_path("stdout"),
               *log = t_path("log");
    pid_t pid;

    fflush(NULL);
    pid = fork();
    if (pid == 0) {
        char *argv[] = {(char *)"tester", (char *)"--state", (char *)state,
                        (char *)flag, NULL};
        int fd = open(log, O_WRONLY | O_CREAT | O_APPEND, 0600);

        dup2(fd, STDERR_FILENO);
        dup2(open(out, O_WRONLY | O_CREAT | O_TRUNC, 0600), STDOUT_FILENO);
        _exit(run(&hooks, how, flag != NULL ? 4 : 3, argv));
    }
    return pid;
}

// Prints the configuration in a process whose n-th allocation fails. Returns
// its exit status, and 100 more where it did not get there.
static pid_t spawn_poor(uint64_t n, const char *log)
{
    pid_t pid;

    fflush(NULL);
    pid = fork();
    if (pid == 0) {
        char *argv[] = {(char *)"tester", (char *)"--print-config", NULL};
        int code;

        dup2(open(log, O_WRONLY | O_CREAT | O_TRUNC, 0600), STDERR_FILENO);
        dup2(open("/dev/null", O_WRONLY), STDOUT_FILENO);
        sl_mem_fail_at(n);
        code = run(&hooks, OBEY, 2, argv);
        fflush(NULL);
        _exit(code + (sl_mem_failed() ? 0 : 100));
    }
    return pid;
}

static int wait_for(pid_t pid)
{
    int status;

    T_EQ(waitpid(pid, &status, 0), pid);
    return WIFSIGNALED(status) ? -WTERMSIG(status) : WEXITSTATUS(status);
}

static void log_has(const char *want)
{
    struct buf b = BUF_INIT;

    T_OK(fs_read_all(fs_posix(), t_path("log"), 1 << 20, &b, t_err()));
    T_HAS(buf_text(&b), want);
    buf_release(&b);
}

TEST(daemon, who_waits_before_it_is_ready_is_given_time)
{
    pid_t pid;

    be_manager();
    pid = spawn(WAIT_FIRST, NULL);
    expect("STATUS");
    expect("EXTEND_TIMEOUT_USEC=60000000");
    expect("READY=1");
    kill(pid, SIGTERM);
    T_EQ(wait_for(pid), -SIGTERM);
    close(manager);
}

TEST(daemon, term_drains_and_is_raised_again)
{
    pid_t pid;

    be_manager();
    pid = spawn(OBEY, "--node=n1");
    expect("STATUS=node n1");
    expect("READY=1");
    kill(pid, SIGTERM);
    expect("STOPPING=1");
    T_EQ(wait_for(pid), -SIGTERM);
    log_has("\"role\":\"tester\",\"node\":\"n1\",\"msg\":\"started\"");
    log_has("\"bind\":\"nowhere\"");
    close(manager);
}

TEST(daemon, certificates_come_all_three_or_not_at_all)
{
    pid_t pid = spawn(OBEY, "--tls-cert=x.crt");

    T_EQ(wait_for(pid), DAEMON_EXIT_USAGE);
    log_has("--tls-ca, --tls-cert and --tls-key");
}

TEST(daemon, interrupt_too)
{
    pid_t pid;

    be_manager();
    pid = spawn(OBEY, NULL);
    expect("STATUS");
    expect("READY=1");
    kill(pid, SIGINT);
    T_EQ(wait_for(pid), -SIGINT);
    close(manager);
}

TEST(daemon, a_second_signal_ends_at_once)
{
    pid_t pid;

    be_manager();
    pid = spawn(NEVER_DRAIN, NULL); // grace: one hour
    expect("STATUS");
    expect("READY=1");
    kill(pid, SIGTERM);
    expect("STOPPING=1\nEXTEND_TIMEOUT_USEC=3610000000"); // and 10 s
    expect("STATUS=draining");
    kill(pid, SIGTERM);
    T_EQ(wait_for(pid), -SIGTERM);
    log_has("second signal");
    close(manager);
}

TEST(daemon, grace_ends)
{
    pid_t pid;

    be_manager();
    pid = spawn(NEVER_DRAIN, "--grace=1ms");
    expect("STATUS");
    expect("READY=1");
    kill(pid, SIGTERM);
    T_EQ(wait_for(pid), -SIGTERM);
    log_has("drain took too long");
    close(manager);
}

TEST(daemon, hup_reloads_the_level)
{
    const char *file = t_path("conf");
    char flag[600];
    pid_t pid;

    be_manager();
    T_OK(fs_write_durable(fs_posix(), file, "log-level = warn\n", 17, t_err()));
    snprintf(flag, sizeof(flag), "--config=%s", file);
    pid = spawn(OBEY, flag);
    expect("STATUS");
    expect("READY=1");
    T_OK(
        fs_write_durable(fs_posix(), file, "log-level = debug\n", 18, t_err()));
    kill(pid, SIGHUP);
    expect("RELOADING=1\nMONOTONIC_USEC=");
    expect("STATUS=level 0");
    expect("READY=1");
    kill(pid, SIGTERM);
    T_EQ(wait_for(pid), -SIGTERM);
    close(manager);
}

TEST(daemon, its_own_end)
{
    unsetenv("NOTIFY_SOCKET");
    T_EQ(wait_for(spawn(STOP_SELF, NULL)), DAEMON_EXIT_FAILED);
    T_EQ(wait_for(spawn(END_SELF, NULL)), DAEMON_EXIT_OK);
}

TEST(daemon, a_signal_ends_one_that_is_about_to_start_anew)
{
    pid_t pid;

    be_manager();
    pid = spawn(ANEW_SELF, "--grace=1h");
    expect("RELOADING=1\nMONOTONIC_USEC="); // and not STOPPING=1
    expect("STATUS=draining");
    kill(pid, SIGTERM);
    kill(pid, SIGINT); // it is not waited for any longer
    T_LT(wait_for(pid), 0);
    close(manager);
}

TEST(daemon, failures_to_start)
{
    unsetenv("NOTIFY_SOCKET");
    T_EQ(wait_for(spawn(FAIL_BUSY, NULL)), DAEMON_EXIT_USAGE);
    log_has("the port is taken");
    T_EQ(wait_for(spawn(FAIL_CORRUPT, NULL)), DAEMON_EXIT_FAILED);
    T_EQ(wait_for(spawn(FAIL_UNAVAIL, NULL)), DAEMON_EXIT_TRANSIENT);
    T_EQ(wait_for(spawn(OBEY, "--grcae=1s")), DAEMON_EXIT_USAGE);
    log_has("did you mean '--grace'?");
    T_EQ(wait_for(spawn(OBEY, "argument")), DAEMON_EXIT_USAGE);
    log_has("unexpected argument 'argument'");
}

// It is no mistake of who started it: a unit that does not restart after 2
// would stay down.
TEST(daemon, without_memory_it_does_not_blame_its_options)
{
    const char *log = t_path("log");
    uint64_t n = 1;
    int code;

    unsetenv("NOTIFY_SOCKET");
    for (; (code = wait_for(spawn_poor(n, log))) < 100; n++) {
        struct buf b = BUF_INIT;

        T_EQ(code, DAEMON_EXIT_FAILED);
        T_OK(fs_read_all(fs_posix(), log, 1 << 20, &b, t_err()));
        T_HAS(buf_text(&b), "tester: out of memory");
        buf_release(&b);
        T_LT(n, 2000u);
    }
    T_EQ(code, 100 + DAEMON_EXIT_OK);
    T_GT(n, 3u);
}

TEST(daemon, answers_instead_of_running)
{
    struct buf b = BUF_INIT;

    unsetenv("NOTIFY_SOCKET");
    T_EQ(wait_for(spawn(OBEY, "--help")), DAEMON_EXIT_OK);
    T_OK(fs_read_all(fs_posix(), t_path("stdout"), 1 << 20, &b, t_err()));
    T_HAS(buf_text(&b), "Usage: tester");
    T_HAS(buf_text(&b), "Own default.");
    T_TRUE(strstr(buf_text(&b), "How long to drain") == NULL);
    T_EQ(wait_for(spawn(OBEY, "--version")), DAEMON_EXIT_OK);
    T_EQ(wait_for(spawn(OBEY, "--print-config")), DAEMON_EXIT_OK);
    T_FALSE(fs_exists(fs_posix(), t_path("state"))); // touched nothing
    buf_release(&b);
}

TEST(daemon, one_process_per_state_folder)
{
    pid_t first;

    be_manager();
    first = spawn(OBEY, NULL);
    expect("STATUS");
    expect("READY=1");
    T_EQ(wait_for(spawn(OBEY, NULL)), DAEMON_EXIT_USAGE);
    log_has("is held by process ");
    kill(first, SIGTERM);
    T_EQ(wait_for(first), -SIGTERM);
    close(manager);
}

TEST(daemon, a_stateless_one_makes_no_folder)
{
    const char *dir = t_tmpdir();
    pid_t pid;

    unsetenv("NOTIFY_SOCKET");
    fflush(NULL);
    pid = fork();
    if (pid == 0) {
        char *argv[] = {(char *)"tester", NULL};

        _exit(chdir(dir) == 0 ? run(&stateless, END_SELF, 1, argv) : 99);
    }
    T_EQ(wait_for(pid), DAEMON_EXIT_OK);
    T_FALSE(fs_exists(fs_posix(), t_path("sluice-tester")));
}

TEST(daemon, feeds_the_watchdog)
{
    pid_t pid;

    be_manager();
    setenv("WATCHDOG_USEC", "4000", 1);
    pid = spawn(OBEY, NULL);
    unsetenv("WATCHDOG_USEC");
    expect("STATUS");
    expect("READY=1");
    expect("WATCHDOG=1");
    expect("WATCHDOG=1");
    kill(pid, SIGKILL);
    T_EQ(wait_for(pid), -SIGKILL);
    close(manager);
}

TEST(sdnotify, without_a_manager)
{
    unsetenv("NOTIFY_SOCKET");
    T_FAILS(SL_ENOENT, sdnotify("READY=1"));
    setenv("NOTIFY_SOCKET", "relative", 1);
    T_FAILS(SL_ENOENT, sdnotify("READY=1"));
    setenv("NOTIFY_SOCKET", t_path("nobody"), 1);
    T_FAILS(SL_EIO, sdnotify("READY=1"));
    unsetenv("NOTIFY_SOCKET");
    setenv("WATCHDOG_USEC", "5000000", 1);
    setenv("WATCHDOG_PID", "1", 1);
    T_EQ(sdnotify_watchdog_ms(), getpid() == 1 ? 2500 : 0);
    unsetenv("WATCHDOG_PID");
    T_EQ(sdnotify_watchdog_ms(), 2500);
    unsetenv("WATCHDOG_USEC");
    T_EQ(sdnotify_watchdog_ms(), 0);
}
