// SPDX-License-Identifier: Apache-2.0
// coordinator/service/server.c -- the daemon: its flags, its start and its end.
#include "coordinator/service/server.h"

#include <stdatomic.h>
#include <stdio.h>
#include <string.h>
#include <unistd.h>

#include "common/base/buf.h"
#include "common/run/conf.h"
#include "common/base/fs.h"
#include "common/run/log.h"
#include "common/base/mem.h"
#include "common/net/rpc_figures.h"
#include "host/store/store_place.h"
#include "coordinator/journal/journal_copy.h"
#include "coordinator/service/begin.h"
#include "coordinator/service/lead.h"
#include "coordinator/service/quorum.h"
#include "coordinator/service/measure.h"
#include "coordinator/service/job_watch.h"
#include "coordinator/tasks/task_store.h"
#include "proto/access.h"

#define SETTLE_MS 1000
#define ENDING_MS 5

const struct conf_key server_keys[] = {
    {.name = "listen",
     .kind = CONF_LIST,
     .value = "127.0.0.1:7070",
     .help = "Addresses to listen on, host:port or unix:/path; others than "
             "local ones need TLS."},
    {.name = "store",
     .kind = CONF_STRING,
     .help = "Folder of the manifests of checkpoints, or s3://BUCKET/PREFIX; "
             "without it, STATE/store."},
    {.name = "journal",
     .kind = CONF_STRING,
     .help = "etcd://HOST:PORT[,HOST:PORT..]/PREFIX keeps the journal in etcd: "
             "several coordinators with the same one stand by for each other. "
             "Needs --store. Without it, the journal is STATE/journal.sqlite."},
    {.name = "tls-etcd",
     .kind = CONF_STRING,
     .help =
         "Folder of ca.pem, cert.pem and key.pem for calls to etcd; without "
         "it they are not encrypted, and etcd has to be on this host."},
    {.name = "etcd-ttl",
     .kind = CONF_MS,
     .value = "5s",
     .min = 1000,
     .max = 600000,
     .help = "Lease of the coordinator that leads, in whole seconds: another "
             "one takes over after this time if its host is lost. etcd grants "
             "no less than 2s as it is set up by default."},
    {.name = "advertise",
     .kind = CONF_STRING,
     .help = "Address of this coordinator in the lists of members and clients, "
             "which a standby tells them; without it, the first of --listen."},
    {.name = "resign",
     .kind = CONF_BOOL,
     .value = "no",
     .help = "End the lease of a coordinator with this --state and --journal "
             "that has died, so that another one takes over at once, and exit; "
             "for ExecStopPost= of its unit."},
    {.name = "migrate",
     .kind = CONF_CHOICE,
     .choices = "to-etcd|from-etcd",
     .help = "Copy STATE/journal.sqlite, tasks.sqlite and events.sqlite to "
             "--journal, where there are none yet, or back; check that both "
             "have the same rows, and exit. No coordinator may run."},
    {.name = "heartbeat-ms",
     .kind = CONF_INT,
     .value = "500",
     .min = 20,
     .max = 60000,
     .unit = "ms",
     .help = "Interval of heartbeats; a member that misses two is suspect."},
    {.name = "lease-ms",
     .kind = CONF_INT,
     .value = "2000",
     .min = 60,
     .max = 600000,
     .unit = "ms",
     .help =
         "Silence after which a member is lost; longer than two heartbeats."},
    {.name = "job-tokens",
     .kind = CONF_CHOICE,
     .value = "auto",
     .choices = "auto|require|accept",
     .help = "Token of its job that a worker shows to shards over TLS: require "
             "it; accept calls without one, as workers of older versions make "
             "them; or auto: require it if the cluster was created by a "
             "version that has tokens."},
    {.name = "quota",
     .kind = CONF_MULTI,
     .help =
         "Quota of a tenant: TENANT:KEY=N,KEY=N.. with the keys jobs, "
         "shards, kept, parameters, checkpoints and rows (the last three in "
         "bytes, such as 2GiB; rows on each psserver). TENANT * is every "
         "tenant without a quota of its own; - "
         "stands for callers without a tenant."},
    {.name = "audit-bytes",
     .kind = CONF_BYTES,
     .value = "64MiB",
     .min = 4096,
     .max = INT64_C(1) << 40,
     .help = "Size at which STATE/audit.log is renamed to audit.log.N and a "
             "new file begins."},
    {.name = "audit-keep",
     .kind = CONF_INT,
     .value = "0",
     .max = 999999,
     .help = "Number of renamed audit logs to keep, the newest; 0: all."},
    {.name = "observe-dir",
     .kind = CONF_STRING,
     .help =
         "Folder for the TensorBoard files of jobs that ask for them "
         "(observe.tensorboard of a job); without it such a job is refused."},
    {.name = "dashboard-actions",
     .kind = CONF_BOOL,
     .value = "no",
     .help = "Let admins drain workers and pause, resume and stop jobs from "
             "the dashboard, with a token of `sluice token`. Needs TLS."},
    {.name = "metrics-per-job",
     .kind = CONF_BOOL,
     .value = "no",
     .help = "Add figures of each running job to /metrics, with its id as a "
             "label; at most the oldest 32 jobs."},
    {.name = "io-threads",
     .kind = CONF_INT,
     .value = "1",
     .min = 1,
     .max = 64,
     .help = "Threads of the network."},
    {.name = "watchers",
     .kind = CONF_INT,
     .value = "1000",
     .min = 1,
     .max = 1000000,
     .unit = "streams",
     .help =
         "Most clients that follow jobs at the same time (`sluice watch`)."},
    {.name = "watchers-per-caller",
     .kind = CONF_INT,
     .value = "200",
     .min = 1,
     .max = 1000000,
     .unit = "streams",
     .help = "Most streams that callers with one certificate, or without any, "
             "may open."},
    {.name = NULL},
};

// ---- start

static enum sl_err server_open_store(struct server *s, const struct conf *conf,
                                     struct sl_error *err)
{
    const char *store = conf_str(conf, "store");
    enum sl_err rc = SL_OK;

    s->store = store != NULL ? sl_strdup(store)
                             : fs_join(daemon_state_dir(s->daemon), "store");
    if (s->store == NULL)
        rc = sl_fail(err, SL_ENOMEM, "paths");
    else if (store == NULL)
        rc = fs_mkdirs(fs_private(), s->store, err);
    if (rc == SL_OK) // manifests hold the path, for others to read
        rc = store_place(&s->store_fs, &s->store, conf, err);
    return rc;
}

static enum coord_tokens tokens_of(const char *word)
{
    return strcmp(word, "auto") == 0      ? COORD_TOKENS_AUTO
           : strcmp(word, "require") == 0 ? COORD_TOKENS_REQUIRE
                                          : COORD_TOKENS_ACCEPT;
}

static enum sl_err read_quotas(struct server *s, const struct conf *conf,
                               struct sl_error *err)
{
    size_t count = conf_list_count(conf, "quota");
    enum sl_err rc = SL_OK;

    s->quotas = sl_malloc_array(count, sizeof(*s->quotas));
    if (s->quotas == NULL)
        return sl_fail(err, SL_ENOMEM, "quotas");
    for (size_t i = 0; rc == SL_OK && i < count; i++) {
        rc = quota_read(&s->quotas[i], conf_list_at(conf, "quota", i), err);
        for (size_t k = 0; rc == SL_OK && k < i; k++) {
            if (strcmp(s->quotas[k].tenant, s->quotas[i].tenant) == 0)
                rc = sl_fail(err, SL_EINVAL,
                             "--quota '%.100s': this tenant has one already",
                             conf_list_at(conf, "quota", i));
        }
    }
    s->options.quotas = s->quotas;
    s->options.quotas_count = count;
    return rc;
}

static void on_refused(void *arg, const struct audit_line *line)
{
    struct server *s = arg;

    if (s->coord != NULL)
        coord_refused(s->coord, line->who->name, line->call, line->job,
                      line->why->text);
}

static enum sl_err make_feed(struct server *s, struct sl_error *err)
{
    const struct feed_options options = {
        .clock = s->options.clock,
        .folder = s->lead == NULL ? s->options.state_dir : NULL};
    enum sl_err rc = feed_new(&s->feed, &options, err);

    s->options.feed = s->feed;
    return rc;
}

static enum sl_err make_audit(struct server *s, const struct conf *conf,
                              struct sl_error *err)
{
    struct audit_options options = {
        .fs = fs_private(),
        .clock = s->options.clock,
        .folder = s->options.state_dir,
        .bytes = (uint64_t)conf_int(conf, "audit-bytes"),
        .keep = (uint32_t)conf_int(conf, "audit-keep"),
        .refused = on_refused,
        .arg = s,
    };

    return audit_new(&s->audit, &options, err);
}

static enum sl_err make_coord(struct server *s, const struct conf *conf,
                              struct sl_error *err)
{
    struct coord_options options = {
        .tokens = tokens_of(conf_str(conf, "job-tokens")),
        // A proof is some microseconds of the loop for each lease, and no
        // psserver looks at it where members show no certificate.
        .proofs = daemon_tls(s->daemon) != NULL,
        .clock = sl_clock_real(),
        .fs = s->store_fs,
        .store = s->store,
        .state_dir = daemon_state_dir(s->daemon),
        .heartbeat_ms = (uint32_t)conf_int(conf, "heartbeat-ms"),
        .lease_ms = (uint32_t)conf_int(conf, "lease-ms"),
        .settle_ms = SETTLE_MS,
        .observes = conf_str(conf, "observe-dir") != NULL,
        .stands_by = conf_str(conf, "journal") != NULL,
    };
    const struct watch_limits watchers = {
        .watchers = (unsigned)conf_int(conf, "watchers"),
        .per_caller = (unsigned)conf_int(conf, "watchers-per-caller"),
        .patience_ms = (unsigned)conf_int(conf, "peer-patience"),
    };
    enum sl_err rc;

    if (options.lease_ms <= 2 * options.heartbeat_ms)
        return sl_fail(err, SL_EINVAL,
                       "--lease-ms %u must be more than two heartbeats "
                       "(--heartbeat-ms %u)",
                       options.lease_ms, options.heartbeat_ms);
    s->options = options;
    rc = read_quotas(s, conf, err);
    if (rc == SL_OK)
        rc = attend_new(&s->attend, s->loop, err);
    if (rc == SL_OK)
        rc =
            trace_new(&s->trace, s->loop, s->attend, watchers.patience_ms, err);
    if (rc == SL_OK)
        rc = logs_new(&s->logs, s->loop, s->attend, err);
    if (rc == SL_OK)
        rc = make_audit(s, conf, err);
    if (rc == SL_OK)
        rc = make_feed(s, err);
    if (rc == SL_OK)
        rc = api_new(&s->api, s->loop, s->audit, &watchers, options.clock, err);
    if (rc == SL_OK && options.observes)
        rc = observe_new(&s->observe, s->loop, options.clock,
                         conf_str(conf, "observe-dir"), err);
    return rc == SL_OK ? begin_new(s, err) : rc;
}

// ---- the journal in etcd

static enum sl_err etcd_tls(struct buf files[3], const char *folder,
                            struct rpc_tls *out, struct sl_error *err)
{
    static const char *const names[] = {"ca.pem", "cert.pem", "key.pem"};

    for (size_t i = 0; i < SL_COUNT(names); i++) {
        if (buf_appendf(&files[i], "%s/%s", folder, names[i]) != SL_OK)
            return sl_no_memory(err);
    }
    *out = (struct rpc_tls){.ca_file = (char *)files[0].data,
                            .cert_file = (char *)files[1].data,
                            .key_file = (char *)files[2].data};
    return SL_OK;
}

// Makes the client of etcd on a thread of its own: its callers wait, and the
// loop may be one of them.
static enum sl_err server_make_etcd(struct server *s, const struct conf *conf,
                                    struct sl_error *err)
{
    static const struct rpc_io_options io = {.threads = 1, .frugal = true};
    const char *folder = conf_str(conf, "tls-etcd");
    struct buf files[3] = {BUF_INIT, BUF_INIT, BUF_INIT};
    struct rpc_tls tls;
    enum sl_err rc = rpc_io_new(&s->etcd_io, &io, err);

    if (rc == SL_OK && folder != NULL)
        rc = etcd_tls(files, folder, &tls, err);
    if (rc == SL_OK)
        rc = etcd_new(&s->etcd, s->etcd_io, conf_str(conf, "journal"),
                      folder != NULL ? &tls : NULL, err);
    if (rc == SL_OK)
        rc = quorum_new(&s->quorum, s->etcd_io, conf_str(conf, "journal"),
                        folder != NULL ? &tls : NULL, err);
    for (size_t i = 0; i < SL_COUNT(files); i++)
        buf_release(&files[i]);
    return rc;
}

static void server_free_etcd(struct server *s)
{
    quorum_free(s->quorum);
    etcd_free(s->etcd);
    rpc_io_free(s->etcd_io);
}

#define LEASE_FILE "etcd.lease" // in the state folder: of the lead

static enum sl_err server_resign(struct server *s, const struct conf *conf,
                                 struct sl_error *err)
{
    char *file = fs_join(daemon_state_dir(s->daemon), LEASE_FILE);
    enum sl_err rc =
        file == NULL ? sl_no_memory(err) : server_make_etcd(s, conf, err);

    if (rc == SL_OK)
        rc = lead_resign(s->etcd, file, err);
    server_free_etcd(s);
    sl_free(file);
    memset(s, 0, sizeof(*s));
    return rc;
}

#define JOURNAL_FILE "journal.sqlite" // in the state folder

// Copies rows of one kind; with `look`, only sees that there are none yet.
static enum sl_err server_copy(struct server *s, bool in, bool look,
                               const char *name,
                               const struct journal_kind *kind,
                               struct sl_error *err)
{
    char *file = fs_join(daemon_state_dir(s->daemon), name);
    bool none = file != NULL && look && in && !fs_exists(fs_posix(), file);
    enum sl_err rc =
        file == NULL ? sl_no_memory(err)
        : none
            ? sl_fail(err, SL_ENOENT, "there is no journal to copy: %s", file)
        : look ? journal_copy_free(s->etcd, in ? NULL : file, kind, err)
        : in   ? journal_copy_in(s->etcd, file, kind, err)
               : journal_copy_out(s->etcd, file, kind, err);

    if (rc == SL_OK && !look)
        LOG(INFO, "rows were copied; the source stays as it was",
            "from=%s to=%s", in ? file : etcd_url(s->etcd),
            in ? etcd_url(s->etcd) : file);
    sl_free(file);
    return rc;
}

// Copies the rows of every kind of file, or only looks at them. SL_ENOENT: no
// file of any kind is there.
static enum sl_err server_copy_all(struct server *s, bool in, bool look,
                                   struct sl_error *err)
{
    static const struct {
        const char *file;
        const struct journal_kind *kind;
    } kinds[] = {{FEED_FILE, &feed_store_kind},
                 {TASKS_FILE, &task_store_kind},
                 {JOURNAL_FILE, &journal_kind_own}};
    enum sl_err rc = SL_ENOENT;
    bool any = false;

    for (size_t i = 0; i < SL_COUNT(kinds) && (rc == SL_OK || rc == SL_ENOENT);
         i++) {
        rc = server_copy(s, in, look, kinds[i].file, kinds[i].kind, err);
        any = any || rc == SL_OK;
    }
    return rc == SL_ENOENT && any ? SL_OK : rc;
}

// Copies what lies in the state folder to etcd, or back, while the folder's
// lock and the leader's key say that no coordinator uses it.
static enum sl_err server_migrate(struct server *s, const struct conf *conf,
                                  struct sl_error *err)
{
    bool in = strcmp(conf_str(conf, "migrate"), "to-etcd") == 0;
    enum sl_err rc = SL_OK;

    if (conf_str(conf, "journal") == NULL)
        rc = sl_fail(err, SL_EINVAL, "--migrate needs --journal etcd://...");
    if (rc == SL_OK)
        rc = server_make_etcd(s, conf, err);
    if (rc == SL_OK) // all or none
        rc = server_copy_all(s, in, true, err);
    if (rc == SL_OK)
        rc = server_copy_all(s, in, false, err);
    server_free_etcd(s);
    memset(s, 0, sizeof(*s));
    return rc;
}

static enum sl_err server_make_lead(struct server *s, const struct conf *conf,
                                    struct sl_error *err)
{
    char *file = fs_join(daemon_state_dir(s->daemon), LEASE_FILE);
    const char *told = conf_str(conf, "advertise");
    char host[200] = "coordinator";
    const struct lead_options options = {
        .etcd = s->etcd,
        .name = host,
        .address = told != NULL ? told : conf_list_at(conf, "listen", 0),
        .file = file,
        .ttl_s = (unsigned)(conf_int(conf, "etcd-ttl") / 1000),
        .clock = sl_clock_boot(),
        .loop = s->loop,
        .beside = &feed_store_kind,
        .changed = begin_on_lead,
        .arg = s,
    };
    enum sl_err rc = SL_ENOMEM;

    (void)gethostname(host, sizeof(host) - 1);
    if (conf_int(conf, "etcd-ttl") % 1000 != 0)
        rc = sl_fail(err, SL_EINVAL, "--etcd-ttl is in whole seconds");
    else if (file != NULL)
        rc = rpc_address_check(options.address, err);
    if (rc == SL_OK)
        rc = lead_new(&s->lead, &options, err);
    sl_free(file);
    return rc;
}

// Makes what a journal in etcd needs; does nothing for one in the state folder.
static enum sl_err make_lead(struct server *s, const struct conf *conf,
                             struct sl_error *err)
{
    enum sl_err rc;

    if (conf_str(conf, "journal") == NULL)
        return SL_OK;
    if (conf_str(conf, "store") == NULL)
        return sl_fail(err, SL_EINVAL,
                       "--journal needs --store: one that every coordinator of "
                       "this cluster reaches");
    rc = server_make_etcd(s, conf, err);
    return rc == SL_OK ? server_make_lead(s, conf, err) : rc;
}

// ---- where tasks and events are kept, with --journal

// The journal of the jobs has 1 GiB in etcd, and the default quota is 2 GiB:
// these are three times in it while an image is written.
#define TASKS_ETCD_BYTES (UINT64_C(128) << 20)

static bool home_away(void *arg, struct sl_error *err)
{
    return lead_stands_by(((struct server *)arg)->lead, err);
}

static enum sl_err home_open(void *arg, struct journal **out,
                             struct sl_error *err)
{
    return lead_journal_of(((struct server *)arg)->lead, &task_store_kind, out,
                           err);
}

static enum sl_err home_open_feed(void *arg, struct journal **out,
                                  struct sl_error *err)
{
    return lead_journal_of(((struct server *)arg)->lead, &feed_store_kind, out,
                           err);
}

static bool home_crowded(void *arg, struct sl_error *err)
{
    return quorum_crowded(((struct server *)arg)->quorum, err);
}

static void home_check(void *arg)
{
    lead_check(((struct server *)arg)->lead);
}

static enum sl_err make_tasks(struct server *s, struct sl_error *err)
{
    const struct tasks_home home = {.bytes_most = TASKS_ETCD_BYTES,
                                    .away = home_away,
                                    .open = home_open,
                                    .crowded = home_crowded,
                                    .check = home_check,
                                    .arg = s};
    struct tasks_options options = {
        .clock = s->options.clock,
        .folder = s->options.state_dir,
        .lease_ms = s->options.lease_ms,
        .home = s->lead == NULL ? NULL : &home,
        .changed = notes_take,
        .arg = &s->notes,
    };

    s->notes = (struct notes){s->loop, s->api};
    s->feed_home = (struct feed_home){home_open_feed, s};
    return tasks_new(&s->tasks, &options, err);
}

static enum sl_err bind_all(struct server *s, const struct conf *conf,
                            struct sl_error *err)
{
    const struct rpc_tls *tls = daemon_tls(s->daemon);
    enum sl_err rc = SL_OK;

    for (size_t i = 0; rc == SL_OK && i < conf_list_count(conf, "listen");
         i++) {
        const char *address = conf_list_at(conf, "listen", i);
        int port = 0;

        rc = rpc_server_bind(s->rpc, address, tls, &port, err);
        if (rc == SL_OK)
            LOG(INFO, "listening", "address=%s port=%d tls=%d", address, port,
                tls != NULL);
    }
    return rc == SL_EEXIST ? SL_EBUSY : rc; // a taken port is exit 2
}

static void call_io(void *io, loop_fn fn, void *arg)
{
    rpc_io_call(io, fn, arg);
}

// Makes the I/O threads. A single one runs the loop as well: a member's message
// is received and answered by the thread that read it, so that two cores do
// 15,100 empty closures a second and not 10,800. Several decode in parallel,
// and the loop has a thread of its own.
static enum sl_err make_io(struct server *s, unsigned threads,
                           struct sl_error *err)
{
    struct rpc_io_options options = {.threads = threads, .frugal = true};
    struct loop_host host = {.call = call_io};
    enum sl_err rc;

    if (threads == 1) {
        options.pause = loop_host_pause;
        options.pause_arg = s->loop;
    }
    rc = rpc_io_new(&s->io, &options, err);
    host.arg = s->io;
    if (rc == SL_OK && threads == 1)
        loop_set_host(s->loop, &host);
    return rc;
}

// The server of this process while its port may be called: `allow` is passed
// nothing but the call.
static struct api *_Atomic told_of_refusals;

static enum sl_err allow(const char *path, const struct rpc_peer *peer,
                         struct sl_error *err)
{
    enum sl_err rc = access_allow(path, peer, err);
    struct api *api = atomic_load(&told_of_refusals);

    if (rc != SL_OK && api != NULL)
        api_refused(api, path, peer, err);
    return rc;
}

static enum sl_err make_port(struct server *s, const struct conf *conf,
                             struct sl_error *err)
{
    static const char *const services[] = {"sluice.v1.Coordinator",
                                           "sluice.v1.Jobs", "sluice.v1.Tasks"};
    struct rpc_limits limits;
    const struct rpc_server_options access = {
        .allow = allow, .shared = access_shared, .limits = &limits};
    struct rpc_table tables[6];
    enum sl_err rc = make_io(s, (unsigned)conf_int(conf, "io-threads"), err);

    if (rc == SL_OK)
        rc = introspect_new(&s->introspect, services, SL_COUNT(services), err);
    if (rc != SL_OK)
        return rc;
    tables[0] = attend_table(s->attend);
    tables[1] = api_table(s->api);
    tables[2] = introspect_table(s->introspect);
    tables[3] = tasks_table(s->tasks);
    tables[4] = trace_table(s->trace);
    tables[5] = logs_table(s->logs);
    atomic_store(&told_of_refusals, s->api);
    rpc_limits_read(&limits, conf);
    rc = rpc_server_new(&s->rpc, s->io, tables, SL_COUNT(tables), &access, err);
    return rc == SL_OK ? bind_all(s, conf, err) : rc;
}

enum sl_err server_start(struct daemon *d, void *server, struct sl_error *err)
{
    struct server *s = server;
    const struct conf *conf = daemon_conf(d);
    enum sl_err rc;

    s->daemon = d;
    s->loop = daemon_loop(d);
    if (conf_bool(conf, "resign"))
        return server_resign(s, conf, err);
    if (conf_str(conf, "migrate") != NULL)
        return server_migrate(s, conf, err);
    rc = make_lead(s, conf, err);
    if (rc == SL_OK)
        rc = server_open_store(s, conf, err);
    if (rc == SL_OK)
        rc = make_coord(s, conf, err);
    if (rc == SL_OK)
        rc = make_tasks(s, err);
    if (rc == SL_OK)
        rc = make_port(s, conf, err);
    if (rc == SL_OK)
        rc = begin_timers(s, err);
    if (rc == SL_OK) {
        rpc_server_start(s->rpc);
        rc = begin_serving(s, err);
    }
    if (rc != SL_OK)
        server_stop(d, s);
    return rc;
}

// ---- readiness and figures on the ops port

void server_checks(struct daemon *d, void *server, struct ops_checks *c)
{
    const struct server *s = server;
    bool serves = s->waits_for == SERVER_SERVES;

    if (s->lead != NULL)
        ops_check(c, "leader", s->waits_for != SERVER_WAITS_LEADER, s->waits);
    ops_check(c, "journal", s->waits_for != SERVER_WAITS_SPACE, s->waits);
    ops_check(c, "store", s->waits_for != SERVER_WAITS_STORE, s->waits);
    ops_check(c, "term", serves && coord_term(s->coord) > 0, "none was taken");
}

void server_measure(struct daemon *d, void *server, struct expo *e)
{
    struct server *s = server;

    struct coord *c = s->waits_for == SERVER_SERVES ? s->coord : NULL;

    rpc_server_measure(s->rpc, e);
    watch_measure(e);
    measure_write(c, s->journal, e);
    quorum_measure(s->quorum, e);
    if (conf_bool(daemon_conf(d), "metrics-per-job"))
        measure_jobs(c, e);
}

// ---- the end

// Returns true while a manifest is being written: its cut is this coordinator's
// to settle (K6).
static bool server_writes(const struct server *s)
{
    return s->coord != NULL && coord_writes(s->coord);
}

// Has another coordinator lead, at once: this one has said its last word.
static void server_hand_over(struct server *s)
{
    if (s->lead == NULL || server_writes(s))
        return;
    if (s->journal != NULL && !journal_failed(s->journal))
        (void)journal_flush(s->journal, NULL);
    feed_let_go(s->feed);
    lead_stop(s->lead);
}

static void on_ending(void *arg)
{
    struct server *s = arg;

    if (rpc_server_open_calls(s->rpc) == 0 && !server_writes(s)) {
        server_hand_over(s);
        loop_timer_stop(s->ending);
        daemon_drained(s->daemon);
        loop_stop(s->loop);
    }
}

// Ends the streams and calls: from here on clients and members are sent nothing
// more, and dial again.
static void begin_end(struct server *s)
{
    introspect_set_serving(s->introspect, false);
    attend_set_coord(s->attend, NULL);
    api_set_coord(s->api, NULL, NULL);
    observe_set_coord(s->observe, NULL);
    trace_set_coord(s->trace, NULL, NULL);
    logs_set_coord(s->logs, NULL, NULL);
    tasks_close(s->tasks);
    begin_stop(s);
    server_hand_over(s);
    rpc_server_stop(s->rpc);
}

void server_drain(struct daemon *d, void *server)
{
    struct server *s = server;

    begin_end(s);
    if (loop_timer_new(&s->ending, s->loop, on_ending, s) == SL_OK)
        loop_timer_start(s->ending, ENDING_MS, ENDING_MS);
    else
        daemon_drained(d);
}

// Runs the loop until no call is open: calls that wait for the loop have to be
// answered before the server can be freed.
static void run_out(struct server *s)
{
    if (s->rpc == NULL)
        return;
    begin_end(s);
    if (s->ending == NULL &&
        loop_timer_new(&s->ending, s->loop, on_ending, s) != SL_OK)
        return;
    if (rpc_server_open_calls(s->rpc) > 0) {
        loop_timer_start(s->ending, ENDING_MS, ENDING_MS);
        loop_run(s->loop);
    }
}

void server_stop(struct daemon *d, void *server)
{
    struct server *s = server;

    if (s->daemon == NULL)
        return; // nothing was started
    if (s->tick != NULL && s->again != NULL)
        run_out(s);
    if (s->lead != NULL)
        lead_stop(s->lead);
    begin_release(s);
    loop_timer_free(s->ending);
    rpc_server_free(s->rpc);
    tasks_free(s->tasks);
    atomic_store(&told_of_refusals, NULL);
    loop_turn(s->loop); // the ends of streams, posted by I/O threads
    introspect_free(s->introspect);
    loop_set_host(s->loop, NULL);
    rpc_io_free(s->io);
    api_free(s->api);
    trace_free(s->trace);
    logs_free(s->logs);
    observe_free(s->observe);
    audit_free(s->audit);
    coord_free(s->coord);
    feed_free(s->feed);
    attend_free(s->attend);
    journal_close(s->journal);
    lead_free(s->lead);
    server_free_etcd(s);
    sl_free(s->store);
    sl_free(s->quotas);
    memset(s, 0, sizeof(*s));
}
