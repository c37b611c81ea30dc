// SPDX-License-Identifier: Apache-2.0
// psserver/service/server.c -- the wiring of the daemon's parts, and the order
// in which they start and end.
#include "psserver/service/server.h"

#include <stdio.h>
#include <string.h>

#include "common/base/buf.h"
#include "common/base/cgroup.h"
#include "common/run/log.h"
#include "common/base/mem.h"
#include "common/net/rpc_figures.h"
#include "host/daemon/joining.h"
#include "host/daemon/going.h"
#include "proto/access.h"
#include "proto/introspect.h"
#include "psserver/service/api.h"
#include "psserver/service/attend.h"
#include "psserver/service/identity.h"
#include "psserver/local/local_shared.h"
#include "psserver/roster/roster.h"
#include "state/rows/row_disk.h"
#include "state/rows/row_memory.h"
#include "state/shard/shard_store.h"

#define DRAIN_LOOK_MS 20    // how often a drain looks for open calls
#define DRAIN_CALLS_MS 2000 // how long it waits for them
#define EMPTY_LOOK_MS 100   // how often --drain looks for shards
#define CALM_LOOKS 20       // without a shard, after which none will come

const struct conf_about server_about = {
    .program = "psserver",
    .usage = "psserver [OPTION]...",
    .text = "Keeps shards of the parameters of training jobs: applies what "
            "workers push, once, and writes snapshots.",
    .example = "psserver --coordinator 127.0.0.1:7070 --state /var/lib/ps0",
};

const struct conf_key server_keys[] = {
    {.name = "coordinator",
     .kind = CONF_STRING,
     .value = "127.0.0.1:7070",
     .help = "Address of the coordinator: host:port or unix:/path; with "
             "standby coordinators all addresses, with commas between."},
    {.name = "listen",
     .kind = CONF_STRING,
     .value = "127.0.0.1:0",
     .help = "Address to answer workers at; port 0 takes a free one. Without "
             "TLS, a local address only."},
    {.name = "advertise",
     .kind = CONF_STRING,
     .help = "Address that workers dial; without it, that of --listen."},
    {.name = "name",
     .kind = CONF_STRING,
     .help = "Name under which shards are placed here. The state folder keeps "
             "it, so give it at the first start or never."},
    {.name = "store",
     .kind = CONF_STRING,
     .help = "Folder of snapshots, or s3://BUCKET/PREFIX; without it, store in "
             "the state folder."},
    {.name = "deltas",
     .kind = CONF_INT,
     .value = "16",
     .min = 0,
     .max = SHARD_CHAIN_MOST - 1,
     .unit = "files",
     .help =
         "Most snapshots of a shard with sparse tables, one behind another, "
         "that have only the rows which changed since the one before; 0: "
         "each snapshot is whole, as psservers of older versions read it."},
    {.name = "drain",
     .kind = CONF_BOOL,
     .value = "false",
     .help = "After SIGTERM, stay until all shards have moved to other "
             "psservers, for at most half of --grace."},
    {.name = "weights-root",
     .kind = CONF_MULTI,
     .unit = "DIR",
     .help = "Folder below which jobs may read their initial weights, beside "
             "the store. Without it they may name any file that this user may "
             "read; with TLS no reason is given for a file that was not read."},
    {.name = "io-threads",
     .kind = CONF_INT,
     .value = "0",
     .min = 0,
     .max = 256,
     .unit = "threads",
     .help = "Threads that answer workers; 0: one per two cores."},
    {.name = "rows-memory",
     .kind = CONF_BYTES,
     .value = "0",
     .min = 0,
     .max = INT64_MAX,
     .help = "Most memory for rows of sparse tables, of all jobs together; a "
             "push that needs more fails its job. 0: four fifths of what the "
             "process may use, less the shards' values and slots."},
    {.name = "rows-dir",
     .kind = CONF_STRING,
     .help = "Folder on a local SSD for rows that have no place in that "
             "memory; it holds nothing that a restart needs. Without it they "
             "fail their job."},
    {.name = "rows-disk",
     .kind = CONF_BYTES,
     .value = "0",
     .min = 0,
     .max = INT64_MAX,
     .help = "Most bytes in --rows-dir, of all jobs together; 0: as many as "
             "the disk has."},
    {.name = "shm",
     .kind = CONF_CHOICE,
     .value = "auto",
     .choices = "auto|off",
     .help = "Share memory with workers of this host instead of sending them "
             "bytes, and take their small calls over a socket of our own: auto "
             "where they ask for it, or off."},
    GOING_KEYS("signal", "the shards move to other psservers, for at most half "
                         "of --grace, and the psserver exits with status 143."),
    {.name = NULL},
};

struct psserver {
    struct daemon *daemon;
    char *name, *folder, *address; // owned
    struct fs *fs; // file system of `folder`, which may be in S3
    struct membership membership;
    struct roots *weights; // NULL: no --weights-root

    struct rpc_io *io;
    struct shard_table *store;
    struct local *local;   // NULL: no memory is shared
    struct tokens *tokens; // NULL: callers show no certificates
    struct shards_api *api;
    struct introspect *introspect;
    struct rpc_server *rpc;
    struct rpc_channel *channel; // to the coordinator
    struct attendance *attend;
    struct roster *roster;

    bool attached;

    struct loop_timer *drain_timer;
    unsigned drain_looks;
    struct going *going;
    struct loop_timer *empty_timer;
    uint64_t empty_looks;
    unsigned calm; // looks without a shard
    bool emptied;  // it has waited for its shards to move away
};

struct psserver *psserver_new(void)
{
    return sl_calloc(1, sizeof(struct psserver));
}

void psserver_free(struct psserver *s)
{
    sl_free(s);
}

// ---- settings

static enum sl_err psserver_read_settings(struct psserver *s,
                                          struct sl_error *err)
{
    const struct conf *c = daemon_conf(s->daemon);
    const char *store = conf_str(c, "store");
    enum sl_err rc = rpc_addresses_check(conf_str(c, "coordinator"), err);

    if (rc == SL_OK)
        rc = identity_name(&s->name, fs_private(), daemon_state_dir(s->daemon),
                           conf_str(c, "name"), err);
    if (rc != SL_OK)
        return rc;
    s->folder = store != NULL ? sl_strdup(store)
                              : fs_join(daemon_state_dir(s->daemon), "store");
    if (s->folder == NULL)
        return sl_no_memory(err);
    if (store == NULL)
        rc = fs_mkdirs(fs_private(), s->folder, err);
    if (rc != SL_OK)
        return rc;
    // The path must be absolute: reports name it to programs that run in other
    // folders.
    return joining_open(&s->membership, &s->fs, &s->folder,
                        daemon_state_dir(s->daemon), c, err);
}

// Reads --weights-root. Without it weights are read from any folder.
static enum sl_err psserver_read_roots(struct psserver *s, struct sl_error *err)
{
    return conf_list_count(daemon_conf(s->daemon), "weights-root") == 0
               ? SL_OK
               : daemon_roots(&s->weights, s->daemon, "--weights-root", err);
}

// Sets the address that workers dial: --advertise, or --listen with the port in
// use.
static enum sl_err make_address(struct psserver *s, const char *listen,
                                int port, struct sl_error *err)
{
    const char *said = conf_str(daemon_conf(s->daemon), "advertise");
    const char *colon = strrchr(listen, ':');
    struct buf b = BUF_INIT;
    enum sl_err rc;
    size_t n;

    if (said != NULL) {
        s->address = sl_strdup(said);
        return s->address == NULL ? SL_ENOMEM : rpc_address_check(said, err);
    }
    if (strncmp(listen, "0.0.0.0:", 8) == 0 || strncmp(listen, "[::]:", 5) == 0)
        return sl_fail(err, SL_EINVAL,
                       "--listen %s is every address of this host; say with "
                       "--advertise which one workers should dial",
                       listen);
    if (strncmp(listen, "unix:", 5) == 0 || colon == NULL)
        rc = buf_append_str(&b, listen);
    else
        rc = buf_appendf(&b, "%.*s:%d", (int)(colon - listen), listen, port);
    s->address = (char *)buf_detach(&b, &n);
    return rc;
}

// ---- start

// Ready: known to the coordinator, or serving on without one.
static void psserver_set_serving(struct psserver *s)
{
    introspect_set_serving(s->introspect,
                           !daemon_draining(s->daemon) && !going_is(s->going) &&
                               (s->attached || roster_admitted(s->roster) > 0));
}

static void psserver_on_attached(void *arg, bool attached)
{
    struct psserver *s = arg;

    s->attached = attached;
    psserver_set_serving(s);
    daemon_status(s->daemon, "%s as %s, %zu shards",
                  attached ? "attached" : "waiting for the coordinator",
                  s->name, roster_admitted(s->roster));
}

// Starts the sharing of memory. On a host where it fails workers send bytes.
static void psserver_start_local(struct psserver *s)
{
    struct sl_error err = SL_ERROR_INIT;
    char *folder, *path = NULL;
    enum sl_err rc = SL_ENOMEM;

    if (strcmp(conf_str(daemon_conf(s->daemon), "shm"), "off") == 0)
        return;
    folder = sl_strdup(daemon_state_dir(s->daemon));
    if (folder != NULL)
        rc = fs_absolute(&folder, &err); // workers run in other folders
    if (rc == SL_OK)
        path = fs_join(folder, "local.sock");
    if (path != NULL)
        rc = local_new(&s->local, daemon_loop(s->daemon), path, s->name, &err);
    if (s->local == NULL)
        LOG(INFO, "shared memory with workers cannot be set up", "why=%s",
            err.text);
    sl_free(folder);
    sl_free(path);
}

static enum sl_err psserver_start_rpc(struct psserver *s, struct sl_error *err)
{
    const struct conf *c = daemon_conf(s->daemon);
    static const char *const services[] = {API_SERVICE};
    struct shards_api_setup setup = {.loop = daemon_loop(s->daemon),
                                     .fs = s->fs,
                                     .store = s->store,
                                     .folder = s->folder,
                                     .name = s->name,
                                     .local = s->local,
                                     .tokens = s->tokens};
    const char *listen = conf_str(c, "listen");
    struct rpc_limits limits;
    const struct rpc_server_options access = {
        .allow = access_allow, .shared = access_shared, .limits = &limits};
    struct rpc_table tables[2];
    int port = 0;
    enum sl_err rc = shards_api_new(&s->api, &setup);

    if (rc == SL_OK)
        rc = introspect_new(&s->introspect, services, SL_COUNT(services), err);
    if (rc != SL_OK)
        return rc;
    tables[0] = shards_api_table(s->api);
    tables[1] = introspect_table(s->introspect);
    rpc_limits_read(&limits, c);
    rc = rpc_server_new(&s->rpc, s->io, tables, SL_COUNT(tables), &access, err);
    if (rc == SL_OK)
        rc = rpc_server_bind(s->rpc, listen, daemon_tls(s->daemon), &port, err);
    return rc != SL_OK ? rc : make_address(s, listen, port, err);
}

static enum sl_err psserver_start_control(struct psserver *s,
                                          struct sl_error *err)
{
    const struct conf *c = daemon_conf(s->daemon);
    struct attendance_setup up = {.loop = daemon_loop(s->daemon),
                                  .name = s->name,
                                  .address = s->address,
                                  .membership = &s->membership,
                                  .tokens = s->tokens,
                                  .changed = psserver_on_attached,
                                  .arg = s};
    struct roster_setup down = {
        .loop = daemon_loop(s->daemon),
        .fs = s->fs,
        .store = s->store,
        .folder = s->folder,
        .membership = &s->membership,
        .send = attendance_send,
        .deltas = (unsigned)conf_int(c, "deltas"),
        .applied = shards_api_applied,
        .applied_arg = s->api,
        .acked = shards_api_acked,
        .acked_arg = s->api,
        .io = s->io,
        .tls = daemon_tls(s->daemon),
        .weights = s->weights != NULL ? s->weights : roots_all(),
        .weights_secret = s->weights == NULL && daemon_tls(s->daemon) != NULL};
    enum sl_err rc;

    rc = rpc_channel_new(&s->channel, s->io, conf_str(c, "coordinator"),
                         daemon_tls(s->daemon), &access_to_coordinator, err);
    if (rc != SL_OK)
        return rc;
    up.channel = s->channel;
    rc = attendance_new(&s->attend, &up, err);
    if (rc != SL_OK)
        return rc;
    down.arg = s->attend;
    return roster_new(&s->roster, &down);
}

static void psserver_stop_parts(struct psserver *s)
{
    going_free(s->going);
    loop_timer_free(s->drain_timer);
    loop_timer_free(s->empty_timer);
    if (s->attend != NULL)
        attendance_stop(s->attend);
    if (s->rpc != NULL)
        rpc_server_stop(s->rpc);
    if (s->api != NULL)
        shards_api_stop(s->api);
    local_serve(s->local, NULL);
    // Waits for the calls under way, which use what is freed below it.
    rpc_server_free(s->rpc);
    rpc_channel_free(s->channel);
    attendance_free(s->attend);
    roster_free(s->roster);
    store_free(s->store);
    shards_api_free(s->api);
    tokens_free(s->tokens);
    local_free(s->local);
    introspect_free(s->introspect);
    rpc_io_free(s->io);
    sl_free(s->name);
    sl_free(s->folder);
    sl_free(s->address);
    roots_free(s->weights);
    membership_release(&s->membership);
    *s = (struct psserver){0};
}

// Files of rows are of this user alone, as snapshots need not be.
static enum sl_err psserver_read_rows(struct psserver *s, struct sl_error *err)
{
    const struct conf *c = daemon_conf(s->daemon);
    const char *folder = conf_str(c, "rows-dir");
    struct cgroup_memory memory;
    enum sl_err rc = SL_OK;
    bool others;

    cgroup_memory(&memory, "");
    row_memory_set((uint64_t)conf_int(c, "rows-memory"), memory.limit_bytes);
    if (folder == NULL)
        return SL_OK;
    rc = fs_private_folder(folder, &others, err);
    if (rc != SL_OK)
        return sl_prefix(err, rc, "--rows-dir");
    row_disk_set(fs_private(), folder, (uint64_t)conf_int(c, "rows-disk"));
    rc = row_disk_tidy(err);
    return rc == SL_OK ? rc : sl_prefix(err, rc, "--rows-dir");
}

static enum sl_err psserver_start_parts(struct psserver *s,
                                        struct sl_error *err)
{
    struct rpc_io_options io = {0};
    enum sl_err rc = psserver_read_settings(s, err);

    if (rc == SL_OK)
        rc = psserver_read_roots(s, err);
    if (rc == SL_OK)
        rc = psserver_read_rows(s, err);
    if (rc != SL_OK)
        return rc;
    io.threads = (unsigned)conf_int(daemon_conf(s->daemon), "io-threads");
    rc = rpc_io_new(&s->io, &io, err);
    if (rc == SL_OK)
        rc = store_new(&s->store);
    if (rc != SL_OK)
        return rc;
    psserver_start_local(s);
    if (daemon_tls(s->daemon) != NULL) {
        s->tokens = tokens_new();
        if (s->tokens == NULL)
            return sl_no_memory(err);
    }
    rc = psserver_start_rpc(s, err);
    if (rc == SL_OK)
        rc = psserver_start_control(s, err);
    return rc;
}

// ---- drain: no new calls, open calls end, new counts go to disk

static void saved(void *arg)
{
    struct psserver *s = arg;

    daemon_drained(s->daemon);
}

static void drain_look(void *arg)
{
    struct psserver *s = arg;

    if (rpc_server_open_calls(s->rpc) > 0 &&
        ++s->drain_looks < DRAIN_CALLS_MS / DRAIN_LOOK_MS)
        return;
    loop_timer_stop(s->drain_timer);
    roster_save(s->roster, saved, s);
}

static void end_calls(struct psserver *s)
{
    if (s->empty_timer != NULL)
        loop_timer_stop(s->empty_timer);
    rpc_server_drain(s->rpc);
    attendance_drain(s->attend, false);
    if (loop_timer_new(&s->drain_timer, daemon_loop(s->daemon), drain_look,
                       s) != SL_OK) {
        roster_save(s->roster, saved, s);
        return;
    }
    loop_timer_start(s->drain_timer, 0, DRAIN_LOOK_MS);
}

// Returns true if no shard is here, or none will move away: the coordinator is
// not there. At a notice, which may be older than the process, shards may still
// come from the coordinator.
static bool is_empty(struct psserver *s)
{
    bool none = s->attached ? roster_admitted(s->roster) == 0
                            : daemon_draining(s->daemon);

    s->calm = none ? s->calm + 1 : 0;
    return s->calm > (daemon_draining(s->daemon) ? 0 : CALM_LOOKS);
}

// Waits for the shards to move away; what is left is saved as ever.
static void empty_look(void *arg)
{
    struct psserver *s = arg;
    uint64_t most =
        (uint64_t)conf_int(daemon_conf(s->daemon), "grace") / 2 / EMPTY_LOOK_MS;

    if (!is_empty(s) && ++s->empty_looks < most)
        return;
    LOG(INFO, "shards have moved away", "left=%zu", roster_admitted(s->roster));
    loop_timer_stop(s->empty_timer);
    s->emptied = true;
    if (daemon_draining(s->daemon))
        end_calls(s);
    else
        going_drained(s->going);
}

// Has the shards move away: empty_look goes on. Returns false if that was done.
static bool begin_emptying(struct psserver *s)
{
    if (s->emptied || (s->empty_timer == NULL &&
                       loop_timer_new(&s->empty_timer, daemon_loop(s->daemon),
                                      empty_look, s) != SL_OK))
        return false;
    attendance_drain(s->attend, true);
    loop_timer_start(s->empty_timer, 0, EMPTY_LOOK_MS);
    return true;
}

static void psserver_drain(struct daemon *d, void *arg)
{
    struct psserver *s = arg;

    introspect_set_serving(s->introspect, false);
    if (!conf_bool(daemon_conf(d), "drain") || !begin_emptying(s))
        end_calls(s);
}

// ---- a notice that the machine will be taken away

static bool psserver_goes(void *arg, const char *why)
{
    (void)why;
    return !begin_emptying(arg);
}

static void psserver_stays(void *arg)
{
    struct psserver *s = arg;

    if (s->empty_timer != NULL)
        loop_timer_stop(s->empty_timer);
    s->empty_looks = s->calm = 0;
    s->emptied = false;
    attendance_stay(s->attend);
}

static void psserver_on_going(void *arg)
{
    psserver_set_serving(arg);
}

static enum sl_err psserver_start_going(struct psserver *s,
                                        struct sl_error *err)
{
    const struct going_setup going = {.daemon = s->daemon,
                                      .drain = psserver_goes,
                                      .stay = psserver_stays,
                                      .changed = psserver_on_going,
                                      .arg = s};

    return going_new(&s->going, &going, err);
}

static enum sl_err psserver_start(struct daemon *d, void *arg,
                                  struct sl_error *err)
{
    struct psserver *s = arg;
    enum sl_err rc;

    s->daemon = d;
    rc = psserver_start_parts(s, err);
    if (rc == SL_OK)
        rc = psserver_start_going(s, err);
    if (rc != SL_OK) {
        psserver_stop_parts(s);
        return rc;
    }
    rpc_server_start(s->rpc);
    local_serve(s->local, s->rpc);
    attendance_start(s->attend, s->roster);
    LOG(INFO, "serving", "name=%s address=%s store=%s tls=%d io_threads=%u",
        s->name, s->address, s->folder, daemon_tls(d) != NULL,
        rpc_io_threads(s->io));
    daemon_ready(d); // shards come when the coordinator places them
    return SL_OK;
}

// ---- checks for the ops port

// Reports readiness. A server that holds shards answers workers with or without
// a coordinator.
static void psserver_check_ready(struct daemon *d, void *arg,
                                 struct ops_checks *c)
{
    const struct psserver *s = arg;
    struct sl_error err = SL_ERROR_INIT;

    ops_check(c, "state", roster_failed(s->roster) == 0,
              "a shard cannot be loaded; the log says why");
    ops_check(c, "space", !roster_full(s->roster),
              "the last snapshot found no space on the disk");
    ops_check(c, "map", s->attached || roster_admitted(s->roster) > 0,
              "waiting for the coordinator");
    ops_check(c, "notice", !going_is(s->going),
              "this machine is about to be taken away");
    if (s->weights != NULL)
        ops_check(c, "weights", roots_there(s->weights, &err) == SL_OK,
                  err.text);
    ops_check(c, "port", s->rpc != NULL, NULL);
}

static void psserver_measure(struct daemon *d, void *arg, struct expo *e)
{
    const struct psserver *s = arg;

    rpc_server_measure(s->rpc, e);
    shards_api_measure(s->api, e);
    roster_measure(s->roster, e);
    going_measure(s->going, e);
}

static void psserver_stop(struct daemon *d, void *arg)
{
    (void)d;
    psserver_stop_parts(arg);
}

const struct daemon_hooks server_hooks = {.start = psserver_start,
                                          .drain = psserver_drain,
                                          .stop = psserver_stop,
                                          .checks = psserver_check_ready,
                                          .measure = psserver_measure};
