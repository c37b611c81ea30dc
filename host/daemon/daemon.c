// SPDX-License-Identifier: Apache-2.0
// host/daemon/daemon.c -- the life of every daemon from its arguments to its
// exit code.
#include "host/daemon/daemon.h"

#include <errno.h> // program_invocation_short_name
#include <signal.h>
#include <stdio.h>
#include <stdlib.h>
#include <string.h>
#include <sys/resource.h>
#include <unistd.h>

#include "common/base/buf.h"
#include "common/base/clock.h"
#include "common/base/fault.h"
#include "common/base/fs.h"
#include "common/base/history.h"
#include "common/base/mem.h"
#include "host/daemon/anew.h"
#include "host/daemon/discover.h"
#include "host/daemon/sdnotify.h"
#include "host/daemon/statelock.h"
#include "common/net/rpc.h"
#include "host/store/store_place.h"

#define RESOURCES_MS 300 // between two looks, in a build with history

#define OPS_HOSTS 16
#define STOP_MS 10000 // beyond the grace, for what the end itself takes

enum phase {
    STARTING, // the loop does not run yet
    RUNNING,
    DRAINING, // hooks.drain was called; waiting for daemon_drained
    ENDING,   // the loop is about to stop
};

struct daemon {
    const struct conf_about *about;
    const struct conf_key *keys;
    const struct daemon_hooks *hooks;
    void *arg;
    int argc;
    char **argv;

    struct conf *conf;
    struct buf discovered; // what a launcher said, in a line
    struct loop *loop;
    struct rpc_tls tls; // ca_file NULL: none
    struct loop_timer *grace, *watchdog, *look;
    bool looking, insist, again; // a look is under way; it was asked for;
                                 // asked for again meanwhile
#ifdef SLUICE_HISTORY
    struct loop_timer *resources;
#endif
    struct statelock lock;
    char state_dir[4096];
    char node[256];

    struct ops *ops; // or NULL
    char *ops_file;  // owned, or NULL

    enum phase phase;
    bool started; // hooks.start has succeeded
    bool ready;
    int code;       // to exit with, unless
    bool by_signal; // the end began with `signum`
    int signum;     // the first deadly signal; 0: none
    bool anew;      // not the end: the process starts itself anew, with
    char note[96];  // this for the next life
};

static const struct conf_key daemon_keys[] = {
    {.name = "state",
     .kind = CONF_STRING,
     .help = "Folder for all that must survive a restart; without it, "
             "$STATE_DIRECTORY or ./sluice-ROLE."},
    {.name = "node",
     .kind = CONF_STRING,
     .help = "Name of this process in logs; without it, the host's name.",
     .min = 1,
     .max = 200},
    {.name = "log-format",
     .kind = CONF_CHOICE,
     .value = "auto",
     .choices = "auto|text|json",
     .help = "Form of the lines on stderr; auto is text on a terminal, JSON "
             "elsewhere."},
    {.name = "log-level",
     .kind = CONF_CHOICE,
     .value = "info",
     .choices = "debug|info|warn|error",
     .help = "Lowest level that is logged. SIGHUP reads it again."},
    {.name = "grace",
     .kind = CONF_MS,
     .value = "10s",
     .min = 0,
     .max = 3600000,
     .help = "Time to drain after SIGTERM before the process ends anyway."},
    {.name = "ops-bind",
     .kind = CONF_STRING,
     .help = "Address and port for /livez, /readyz and /metrics, without TLS, "
             "such as 127.0.0.1:9100; on loopback also for the dashboard of a "
             "coordinator. Without it there is no such port."},
    {.name = "ops-host",
     .kind = CONF_LIST,
     .help = "More host names that requests to the ops port may carry, as from "
             "a proxy before it; addresses and localhost are always accepted."},
    {.name = NULL},
};

// --- queries

struct loop *daemon_loop(struct daemon *d)
{
    return d->loop;
}

const struct conf *daemon_conf(const struct daemon *d)
{
    return d->conf;
}

enum sl_err daemon_roots(struct roots **out, const struct daemon *d,
                         const char *flag, struct sl_error *err)
{
    const char *key = flag + strlen("--");
    size_t count = conf_list_count(d->conf, key);
    enum sl_err rc = roots_new(out, d->about->program, flag, err);

    for (size_t i = 0; rc == SL_OK && i < count; i++)
        rc = roots_add(*out, conf_list_at(d->conf, key, i), err);
    return rc;
}

const char *daemon_state_dir(const struct daemon *d)
{
    return d->state_dir;
}

const struct rpc_tls *daemon_tls(const struct daemon *d)
{
    return d->tls.ca_file != NULL ? &d->tls : NULL;
}

struct http *daemon_http(struct daemon *d)
{
    return d->ops != NULL ? ops_http(d->ops) : NULL;
}

bool daemon_draining(const struct daemon *d)
{
    return d->phase >= DRAINING;
}

int daemon_pid(void)
{
    return (int)getpid();
}

// --- the end

static void end_now(struct daemon *d)
{
    if (d->phase == ENDING)
        return;
    d->phase = ENDING;
    loop_stop(d->loop);
}

void daemon_drained(struct daemon *d)
{
    if (d->phase == DRAINING)
        end_now(d);
}

static void grace_over(void *arg)
{
    struct daemon *d = arg;

    LOG(WARN, "drain took too long; ending without it", "grace_ms=%lld",
        (long long)conf_int(d->conf, "grace"));
    end_now(d);
}

static void say_reloading(void)
{
    char text[64];

    snprintf(text, sizeof(text), "RELOADING=1\nMONOTONIC_USEC=%llu",
             (unsigned long long)sl_real_us());
    (void)sdnotify(text);
}

// The unit's TimeoutStopSec is for daemons that hang: a longer --grace needs no
// other one.
static void say_stopping(uint64_t grace_ms)
{
    char text[64];

    snprintf(text, sizeof(text), "STOPPING=1\nEXTEND_TIMEOUT_USEC=%llu",
             (unsigned long long)(grace_ms + STOP_MS) * 1000);
    (void)sdnotify(text);
}

static void begin_drain(struct daemon *d)
{
    uint64_t grace_ms = (uint64_t)conf_int(d->conf, "grace");

    if (d->phase >= DRAINING)
        return;
    d->phase = DRAINING;
    if (d->anew) // for the service manager it goes on, and says READY=1 again
        say_reloading();
    else
        say_stopping(grace_ms);
    loop_timer_start(d->grace, grace_ms, 0);
    if (d->hooks->drain != NULL)
        d->hooks->drain(d, d->arg);
    else
        daemon_drained(d);
}

void daemon_stop(struct daemon *d, int code)
{
    if (d->phase >= DRAINING)
        return;
    d->code = code;
    begin_drain(d);
}

void daemon_anew(struct daemon *d, const char *note)
{
    if (d->phase >= DRAINING)
        return;
    d->anew = true;
    snprintf(d->note, sizeof(d->note), "%s", note);
    begin_drain(d);
}

void daemon_end(struct daemon *d, int code)
{
    if (d->phase >= DRAINING)
        return;
    d->code = code;
    (void)sdnotify("STOPPING=1");
    end_now(d);
}

// Does not return, unless we are process 1, for which the default action of a
// signal is nothing.
static void die_of(int signum)
{
    if (getpid() == 1)
        return;
    signal(signum, SIG_DFL);
    raise(signum);
    _exit(128 + signum);
}

static void on_deadly(struct daemon *d, int signum, const char *name)
{
    if (d->signum != 0) { // the second one
        LOG(WARN, "second signal; ending at once", "signal=%s", name);
        die_of(signum);
        _exit(128 + signum);
    }
    d->signum = signum;
    d->by_signal = d->phase < DRAINING;
    LOG(INFO, "signal; draining", "signal=%s", name);
    begin_drain(d);
}

static void on_term(void *arg)
{
    on_deadly(arg, SIGTERM, "SIGTERM");
}

static void on_int(void *arg)
{
    on_deadly(arg, SIGINT, "SIGINT");
}

// --- while it runs

void daemon_ready(struct daemon *d)
{
    if (d->ready || d->phase >= DRAINING)
        return;
    d->ready = true;
    if (d->phase == RUNNING) // else live() says it, once it hears signals
        (void)sdnotify("READY=1");
}

// systemd takes a service of Type=notify that is not ready after 90 s for
// failed and starts it again, which a long wait for a store would repeat.
void daemon_waits(struct daemon *d)
{
    char text[64];

    if (d->ready || d->phase >= DRAINING)
        return;
    snprintf(text, sizeof(text), "EXTEND_TIMEOUT_USEC=%d000000",
             DAEMON_PATIENCE_S);
    (void)sdnotify(text);
}

void daemon_status(struct daemon *d, const char *fmt, ...)
{
    char text[512] = "STATUS=";
    size_t n = strlen(text);
    va_list ap;

    va_start(ap, fmt);
    vsnprintf(text + n, sizeof(text) - n, fmt, ap);
    va_end(ap);
    (void)sdnotify(text);
}

static void on_watchdog(void *arg)
{
    (void)sdnotify("WATCHDOG=1");
}

// --- certificates that are replaced

static void
daemon_look_at_tls(void *arg) // on a pool thread: a disk may be slow
{
    tls_look(((struct daemon *)arg)->insist);
}

static void begin_look(struct daemon *d, bool insist);

static void looked(void *arg)
{
    struct daemon *d = arg;
    bool again = d->again;

    d->looking = d->insist = d->again = false;
    if (again)
        begin_look(d, true);
}

static void begin_look(struct daemon *d, bool insist)
{
    if (d->phase >= DRAINING || !tls_is_open())
        return;
    if (d->looking) {
        d->again = d->again || insist;
        return;
    }
    d->insist = insist;
    d->looking = loop_work(d->loop, daemon_look_at_tls, looked, d) == SL_OK;
}

static void daemon_on_tls_timer(void *arg)
{
    begin_look(arg, false);
}

// --- SIGHUP

static enum sl_err new_conf(struct conf **out, const struct daemon *d)
{
    struct conf *c = NULL;
    enum sl_err rc = conf_new(&c, d->about, d->keys);

    if (rc == SL_OK)
        rc = conf_add(c, daemon_keys);
    if (rc == SL_OK)
        rc = conf_add(c, discover_keys);
    if (rc == SL_OK)
        rc = conf_add(c, tls_keys);
    if (rc == SL_OK)
        rc = conf_add(c, tls_crl_keys);
    if (rc == SL_OK)
        rc = conf_add(c, rpc_limit_keys);
    if (rc == SL_OK)
        rc = conf_add(c, store_keys);
    if (rc == SL_OK)
        *out = c;
    else
        conf_free(c);
    return rc;
}

// Reads the log level again, and no other setting: their readers have borrowed
// the old values.
static void reload_level(struct daemon *d)
{
    struct sl_error err = SL_ERROR_INIT;
    enum log_level level = log_get_level();
    struct conf *c = NULL;
    enum sl_err rc = new_conf(&c, d);

    if (rc == SL_OK)
        rc = conf_load(c, fs_posix(), d->argc, d->argv, environ, &err);
    if (rc == SL_OK) {
        (void)log_level_parse(conf_str(c, "log-level"), &level);
        log_set_level(level);
    } else {
        LOG(WARN, "reload: configuration is left as it was", "error=%s",
            err.text);
    }
    conf_free(c);
}

static void on_hup(void *arg)
{
    struct daemon *d = arg;

    say_reloading();
    LOG(INFO, "reloading");
    reload_level(d);
    begin_look(d, true);
    if (d->hooks->reload != NULL)
        d->hooks->reload(d, d->arg);
    if (d->ready)
        (void)sdnotify("READY=1");
}

// --- the beginning

static int usage(const struct daemon *d, const char *text)
{
    // The name by which it was called: a package calls it sluice-worker.
    fprintf(stderr, "%s: %s\n%s: `%s --help` lists all options\n",
            d->about->program, text, d->about->program,
            program_invocation_short_name);
    return DAEMON_EXIT_USAGE;
}

// Says that there is no memory to begin with: no fault of the options.
static int poor(const struct daemon *d)
{
    fprintf(stderr, "%s: out of memory\n", d->about->program);
    return DAEMON_EXIT_FAILED;
}

static int daemon_print_conf(const struct daemon *d,
                             enum sl_err (*fn)(struct buf *,
                                               const struct conf *))
{
    struct buf out = BUF_INIT;
    enum sl_err rc = fn(&out, d->conf);

    if (rc == SL_OK)
        fwrite(buf_text(&out), 1, out.len, stdout);
    buf_release(&out);
    if (rc == SL_ENOMEM)
        return poor(d);
    return rc == SL_OK && fflush(stdout) == 0 ? DAEMON_EXIT_OK
                                              : DAEMON_EXIT_FAILED;
}

#define GO_ON (-1) // no exit code

// Reads the settings; GO_ON, or the code to exit with.
static int configure(struct daemon *d)
{
    struct sl_error err = SL_ERROR_INIT;
    enum sl_err rc;

    if (new_conf(&d->conf, d) != SL_OK)
        return poor(d);
    rc = conf_load(d->conf, fs_posix(), d->argc, d->argv, environ, &err);
    if (rc != SL_OK)
        return rc == SL_ENOMEM ? poor(d) : usage(d, err.text);
    if (conf_wants_help(d->conf))
        return daemon_print_conf(d, conf_help);
    if (conf_wants_version(d->conf))
        return daemon_print_conf(d, conf_version);
    if (conf_wants_man(d->conf))
        return daemon_print_conf(d, conf_man);
    rc = discover(d->conf, d->about->program, &d->discovered, &err);
    if (rc == SL_ENOMEM)
        return poor(d);
    if (rc != SL_OK && sl_err_transient(rc)) // a name that is not known yet
        return usage(d, err.text), DAEMON_EXIT_TRANSIENT;
    if (rc != SL_OK)
        return usage(d, err.text);
    if (conf_wants_print(d->conf))
        return daemon_print_conf(d, conf_print);
    if (conf_arg_count(d->conf) > 0) {
        sl_fail(&err, SL_EINVAL, "unexpected argument '%.100s'",
                conf_arg(d->conf, 0));
        return usage(d, err.text);
    }
    if (tls_read_conf(&d->tls, d->conf, &err) != SL_OK ||
        tls_read_crl_conf(&d->tls, d->conf, &err) != SL_OK)
        return usage(d, err.text);
    return GO_ON;
}

static void set_up_log(struct daemon *d)
{
    const char *node = conf_str(d->conf, "node");
    enum log_format format = LOG_FORMAT_AUTO;
    enum log_level level = LOG_LEVEL_INFO;

    if (node != NULL)
        snprintf(d->node, sizeof(d->node), "%s", node);
    else if (gethostname(d->node, sizeof(d->node) - 1) != 0)
        snprintf(d->node, sizeof(d->node), "unnamed");
    (void)log_format_parse(conf_str(d->conf, "log-format"), &format);
    (void)log_level_parse(conf_str(d->conf, "log-level"), &level);
    log_init(format, level, d->about->program, d->node);
}

static void set_up_process(void)
{
    struct rlimit files;

    sl_mem_keep_freed();
    signal(SIGPIPE, SIG_IGN);
    signal(SIGXFSZ, SIG_IGN); // then the write says EFBIG
    if (getrlimit(RLIMIT_NOFILE, &files) == 0) {
        files.rlim_cur = files.rlim_max;
        (void)setrlimit(RLIMIT_NOFILE, &files);
    }
}

static enum sl_err take_state_dir(struct daemon *d, struct sl_error *err)
{
    const char *dir = conf_str(d->conf, "state");
    bool others = false;
    enum sl_err rc;
    int n;

    if (dir == NULL)
        dir = getenv("STATE_DIRECTORY");
    if (d->hooks->stateless && (dir == NULL || *dir == '\0')) {
        snprintf(d->state_dir, sizeof(d->state_dir), "-");
        return SL_OK;
    }
    if (dir != NULL && *dir != '\0')
        n = snprintf(d->state_dir, sizeof(d->state_dir), "%s", dir);
    else
        n = snprintf(d->state_dir, sizeof(d->state_dir), "./sluice-%s",
                     d->about->program);
    if ((size_t)n >= sizeof(d->state_dir))
        return sl_fail(err, SL_EINVAL, "--state: the path is too long");
    rc = fs_private_folder(d->state_dir, &others, err);
    if (rc == SL_OK && others)
        LOG(WARN, "state folder is readable by other users", "folder=%s",
            d->state_dir);
    return rc == SL_OK ? statelock_take(&d->lock, d->state_dir, err) : rc;
}

static int exit_code_of(enum sl_err rc)
{
    switch (rc) {
    case SL_EINVAL:
    case SL_ENOENT:
    case SL_ENOTSUP:
    case SL_EAUTH:
    case SL_EDENIED:
    case SL_EBUSY:
        return DAEMON_EXIT_USAGE;
    default:
        return sl_err_transient(rc) ? DAEMON_EXIT_TRANSIENT
                                    : DAEMON_EXIT_FAILED;
    }
}

static enum sl_err set_up_loop(struct daemon *d, struct sl_error *err)
{
    enum sl_err rc = loop_new(&d->loop, err);

    if (rc != SL_OK)
        return rc;
    rc = loop_timer_new(&d->grace, d->loop, grace_over, d);
    if (rc == SL_OK)
        rc = loop_timer_new(&d->watchdog, d->loop, on_watchdog, d);
    if (rc == SL_OK)
        rc = loop_timer_new(&d->look, d->loop, daemon_on_tls_timer, d);
#ifdef SLUICE_HISTORY
    if (rc == SL_OK)
        rc = loop_timer_new(&d->resources, d->loop, history_resources, NULL);
    if (rc == SL_OK)
        loop_timer_start(d->resources, RESOURCES_MS, RESOURCES_MS);
#endif
    if (rc != SL_OK)
        return sl_fail(err, rc, "event loop: out of memory");
    return SL_OK;
}

// --- the ops port

static void on_checks(void *arg, struct ops_checks *c)
{
    struct daemon *d = arg;

    ops_check(c, "started", d->started && d->ready, "state is being restored");
    ops_check(c, "staying", d->phase < DRAINING, "draining");
    if (d->started && d->hooks->checks != NULL)
        d->hooks->checks(d, d->arg, c);
}

static void put_expiry(const struct daemon *d, struct expo *e)
{
    struct tls_files *files;
    time_t cert, crl;

    expo_family(e, "sluice_tls_certificate_expiry_timestamp_seconds",
                EXPO_GAUGE,
                "Time at which the certificate in use, or the revocation list, "
                "expires; absent without TLS.");
    if (daemon_tls(d) == NULL ||
        tls_files_open(&files, daemon_tls(d), NULL) != SL_OK)
        return; // what is in use is open, and not read anew
    tls_files_ends(files, &cert, &crl);
    tls_files_close(files);
    expo_value(e, (double)cert, "file", "cert", NULL);
    if (crl != 0)
        expo_value(e, (double)crl, "file", "crl", NULL);
}

static void on_measure(void *arg, struct expo *e)
{
    struct daemon *d = arg;

    put_expiry(d, e);
    if (d->started && d->hooks->measure != NULL)
        d->hooks->measure(d, d->arg, e);
}

// Writes the ops port's address to a file: with port 0 a user cannot know it. A
// full disk is only logged.
static void note_ops(struct daemon *d)
{
    struct sl_error err = SL_ERROR_INIT;
    struct fs_file *file = NULL;
    struct buf text = BUF_INIT;
    enum sl_err rc;

    if (strcmp(d->state_dir, "-") == 0)
        return;
    d->ops_file = fs_join(d->state_dir, DAEMON_OPS_FILE);
    rc = d->ops_file == NULL ? SL_ENOMEM : SL_OK;
    if (rc == SL_OK)
        rc = buf_appendf(&text, "%s\n", http_address(ops_http(d->ops)));
    if (rc == SL_OK)
        rc = fs_open(fs_private(), &file, d->ops_file, FS_WRITE, &err);
    if (rc == SL_OK)
        rc = fs_write(file, text.data, text.len, &err);
    if (rc != SL_OK)
        LOG(WARN, "address of the ops port not saved", "why=%s", err.text);
    fs_close(file);
    buf_release(&text);
}

static enum sl_err open_ops(struct daemon *d, struct sl_error *err)
{
    const char *names[OPS_HOSTS + 1] = {NULL};
    struct ops_setup setup = {.loop = d->loop,
                              .bind = conf_str(d->conf, "ops-bind"),
                              .hosts = names,
                              .role = d->about->program,
                              .checks = on_checks,
                              .measure = on_measure,
                              .arg = d};
    size_t count = conf_list_count(d->conf, "ops-host");
    enum sl_err rc;

    if (setup.bind == NULL)
        return SL_OK;
    if (count > OPS_HOSTS)
        return sl_fail(err, SL_EINVAL, "--ops-host: at most %d names",
                       OPS_HOSTS);
    for (size_t i = 0; i < count; i++)
        names[i] = conf_list_at(d->conf, "ops-host", i);
    rc = ops_new(&d->ops, &setup, err);
    if (rc == SL_OK)
        note_ops(d);
    return rc;
}

static void close_ops(struct daemon *d)
{
    ops_free(d->ops);
    d->ops = NULL;
    if (d->ops_file != NULL)
        unlink(d->ops_file);
    sl_free(d->ops_file);
    d->ops_file = NULL;
}

static enum sl_err listen_to_signals(struct daemon *d)
{
    uint64_t watchdog_ms = sdnotify_watchdog_ms();
    enum sl_err rc = loop_signal(d->loop, SIGTERM, on_term, d);

    if (rc == SL_OK)
        rc = loop_signal(d->loop, SIGINT, on_int, d);
    if (rc == SL_OK)
        rc = loop_signal(d->loop, SIGHUP, on_hup, d);
    if (watchdog_ms > 0)
        loop_timer_start(d->watchdog, watchdog_ms, watchdog_ms);
    // A daemon without TLS of its own may have files for others, such as etcd.
    loop_timer_start(d->look, 0, DAEMON_LOOK_MS);
    return rc;
}

static void tear_down(struct daemon *d)
{
    close_ops(d);
    loop_timer_free(d->grace);
    loop_timer_free(d->watchdog);
    loop_timer_free(d->look);
#ifdef SLUICE_HISTORY
    loop_timer_free(d->resources);
#endif
    loop_free(d->loop);
    statelock_release(&d->lock);
    conf_free(d->conf);
}

static void daemon_run_loop(struct daemon *d)
{
    if (d->phase == STARTING) { // start may have ended it already
        d->phase = RUNNING;
        if (d->ready)
            (void)sdnotify("READY=1");
    }
    loop_run(d->loop);
}

// From the locked folder to the end of the loop.
static enum sl_err live(struct daemon *d, struct sl_error *err)
{
    enum sl_err rc = take_state_dir(d, err);

    if (rc == SL_OK)
        rc = set_up_loop(d, err);
    if (rc == SL_OK)
        rc = open_ops(d, err);
    if (rc == SL_OK)
        rc = d->hooks->start(d, d->arg, err);
    if (rc != SL_OK)
        return rc;
    d->started = true;
    rc = listen_to_signals(d);
    if (rc != SL_OK)
        sl_fail(err, rc, "cannot listen to signals");
    if (rc == SL_OK)
        daemon_run_loop(d);
    close_ops(d);
    if (d->hooks->stop != NULL)
        d->hooks->stop(d, d->arg);
    return rc;
}

// How it ends, when everything is taken down; may not return. A signal that
// came while it was about to start anew is obeyed.
static int daemon_exit(struct daemon *d)
{
    struct sl_error err = SL_ERROR_INIT;

    if (d->by_signal || (d->anew && d->signum != 0))
        die_of(d->signum);
    if (!d->anew || d->signum != 0)
        return d->code;
    anew_exec(d->argv, d->note, &err);
    LOG(ERROR, "cannot start anew; ending", "error=%s", err.text);
    return DAEMON_EXIT_TRANSIENT;
}

// The points of a build for tests; other builds know no such word.
static bool lists_faults(int argc, char **argv)
{
    return argc == 2 && strcmp(argv[1], "--list-faults") == 0 && fault_list();
}

int daemon_main(const struct conf_about *about, const struct conf_key *keys,
                const struct daemon_hooks *hooks, void *arg, int argc,
                char **argv)
{
    struct daemon d = {.about = about,
                       .keys = keys,
                       .hooks = hooks,
                       .arg = arg,
                       .argc = argc,
                       .argv = argv,
                       .lock = STATELOCK_INIT};
    struct sl_error err = SL_ERROR_INIT;
    enum sl_err rc;
    int code;

    if (lists_faults(argc, argv))
        return DAEMON_EXIT_OK;
    code = configure(&d);
    if (code != GO_ON) {
        buf_release(&d.discovered);
        conf_free(d.conf);
        return code;
    }
    set_up_log(&d);
    if (d.discovered.len > 0)
        LOG(INFO, "discovered", "plan=%s", buf_text(&d.discovered));
    buf_release(&d.discovered);
    history_open(about->program, d.node);
    set_up_process();
    rc = live(&d, &err);
    if (rc != SL_OK) {
        LOG(ERROR, "cannot go on", "error=%s code=%s", err.text,
            sl_err_name(rc));
        d.code = exit_code_of(rc);
    } else if (d.anew && d.signum == 0) {
        LOG(INFO, "starting anew", "note=%s", d.note);
    } else {
        LOG(INFO, "ended", "code=%d", d.code);
    }
    tear_down(&d);
    return rc == SL_OK ? daemon_exit(&d) : d.code;
}
