// SPDX-License-Identifier: Apache-2.0
// worker/service/server.c -- the wiring of the daemon's parts, and the order in
// which they start and end.
#include "worker/service/server.h"

#include <inttypes.h>
#include <stdio.h>
#include <string.h>
#include <unistd.h>

#include "common/run/log.h"
#include "common/base/mem.h"
#include "common/base/num.h"
#include "host/daemon/anew.h"
#include "host/daemon/joining.h"
#include "host/daemon/going.h"
#include "host/place/places.h"
#include "host/store/store_place.h"
#include "common/net/rpc_figures.h"
#include "proto/access.h"
#include "proto/introspect.h"
#include "stream/attendee.h"
#include "worker/lease/compute.h"
#include "worker/data/input.h"
#include "trainer/base/figures.h"
#include "trainer/sum/ranks.h"
#include "trainer/attend/member.h"

#define GOODBYE_MS 1000 // most time for the coordinator to end the stream
#define GOES_MS 7000    // most time for the step under way, at a notice
#define QUIT_MS 10000   // most time for the compute thread to leave a step

const struct conf_about server_about = {
    .program = "worker",
    .usage = "worker [OPTION]...",
    .text = "Computes gradients: takes closures from the coordinator, reads "
            "their samples, and pushes to the psservers, step by step.",
    .example = "worker --coordinator 127.0.0.1:7070 --device cpu --threads 2",
    .after =
        "--list-devices (or --list-devices=json) shows what this host can\n"
        "compute on, and why not; with --plans FILE also the kernels that "
        "were\n"
        "found wrong on it.",
};

const struct conf_key server_keys[] = {
    {.name = "coordinator",
     .kind = CONF_STRING,
     .value = "127.0.0.1:7070",
     .help = "Address of the coordinator: host:port or unix:/path; with "
             "standby coordinators all addresses, with commas between."},
    {.name = "name",
     .kind = CONF_STRING,
     .help = "Name of this worker in reports; without it, host and process "
             "number.",
     .min = 1,
     .max = 200},
    {.name = "device",
     .kind = CONF_STRING,
     .value = "auto",
     .help = "What computes: cuda or cuda:N (a GPU, counted from 0), cpu "
             "(oneDNN), ref (plain C, slow), or auto: the best there is. "
             "Several, as in cuda:0,cuda:1, compute each step together: a "
             "part of its batch each, and one gradient leaves.",
     .min = 1,
     .max = 159},
    {.name = "on-device-loss",
     .kind = CONF_CHOICE,
     .value = "exit",
     .choices = LOST_POLICIES,
     .help = "What to do when the device fails for good, once its closure is "
             "handed back: exit with status 138, so that the service manager "
             "starts a new worker (exit); restart this process, which opens "
             "the device again (reopen); or go on without the device (cpu)."},
    {.name = "device-tries",
     .kind = CONF_INT,
     .value = "12",
     .min = 1,
     .max = 1000000,
     .help = "With reopen: number of tries in a row before it exits."},
    {.name = "device-wait",
     .kind = CONF_MS,
     .value = "5s",
     .min = 0,
     .max = 3600000,
     .help = "With reopen: time to wait before each try."},
    {.name = "autotune",
     .kind = CONF_BOOL,
     .help =
         "Time the ways to compute each product and take the fastest; on a "
         "CPU, those in 16 bits. Another start may take another way, so the "
         "last bits of results differ."},
    {.name = "workspace",
     .kind = CONF_BYTES,
     .value = "0",
     .min = 0,
     .max = INT64_C(1) << 40,
     .help = "GPU: most memory that a library's kernel may use for one product "
             "or convolution beside its tensors; with too little it does not "
             "use tensor cores. 0: a quarter of the GPU's memory, or what the "
             "job leaves."},
    {.name = "plans",
     .kind = CONF_STRING,
     .help = "File that keeps the ways that a GPU chose to compute products, "
             "and which kernels have proved right on the CPU, for all workers "
             "and later starts on this host.",
     .min = 1,
     .max = 1000},
    {.name = "threads",
     .kind = CONF_INT,
     .value = "0",
     .min = 0,
     .max = 1024,
     .unit = "threads",
     .help = "Threads that compute, of each device on the CPU; 0: one per core "
             "this process may use."},
    {.name = "isa",
     .kind = CONF_CHOICE,
     .choices = "base|avx2|avx512",
     .help = "CPU: widest instructions to use, as on a host that has no wider "
             "ones; without it, all that this host has."},
    {.name = "io-threads",
     .kind = CONF_INT,
     .value = "0",
     .min = 0,
     .max = 256,
     .unit = "threads",
     .help = "Threads that talk to psservers; 0: one per two cores."},
    {.name = "input-threads",
     .kind = CONF_INT,
     .value = "0",
     .min = 0,
     .max = INPUT_THREADS_MAX,
     .unit = "threads",
     .help = "Threads that decode images; 0: one per core this process may "
             "use, up to 16. One thread reads other data."},
    {.name = "keep",
     .kind = CONF_BYTES,
     .value = "1GiB",
     .min = 0,
     .max = INT64_C(1) << 46,
     .help = "Memory for jobs that take turns on this worker, up to 64, so "
             "that it does not build a job anew for each closure. It keeps "
             "four jobs whatever they need."},
    {.name = "data-root",
     .kind = CONF_MULTI,
     .unit = "DIR",
     .help = "Folder below which jobs may read data files; repeat for more. "
             "Without one this worker reads no files, only synthetic data."},
    {.name = "data-allow",
     .kind = CONF_MULTI,
     .unit = "PREFIX",
     .help = "Prefix of places where jobs may read data, as s3://BUCKET/FOLDER "
             "or https://HOST/FOLDER; repeat for more. Without one this worker "
             "reads nothing of the network for a job. S3 is asked with the "
             "keys of --s3-credentials, web servers without any."},
    {.name = "cache",
     .kind = CONF_STRING,
     .help = "Folder for pieces of the data at those places, which the workers "
             "of this host may share; without it each piece is fetched again.",
     .min = 1,
     .max = 1000},
    {.name = "cache-bytes",
     .kind = CONF_BYTES,
     .value = "64GiB",
     .min = (int64_t)8 << 20,
     .max = INT64_C(1) << 50,
     .help = "Most bytes of the cache: what was used longest ago goes."},
    {.name = "data-patience",
     .kind = CONF_MS,
     .value = "60s",
     .min = 1000,
     .max = 3600000,
     .help = "How long a place that does not answer is asked again, before the "
             "closure fails."},
    {.name = "weights-root",
     .kind = CONF_MULTI,
     .unit = "DIR",
     .help = "Folder below which all-reduce jobs may read their initial "
             "weights, beside the store; without one, the data roots."},
    {.name = "listen",
     .kind = CONF_STRING,
     .value = "127.0.0.1:0",
     .help = "Address for health checks, reflection and the other ranks of "
             "all-reduce jobs; nothing else needs to reach a worker. Without "
             "TLS, a local address only."},
    {.name = "advertise",
     .kind = CONF_STRING,
     .help = "Address that other ranks dial; without it, that of --listen. "
             "Needed where --listen is every address of this host."},
    {.name = "store",
     .kind = CONF_STRING,
     .help =
         "Folder, or s3://BUCKET/PREFIX, for checkpoints of all-reduce jobs, "
         "which have their parameters in the workers: one that all workers "
         "share, or one each; and for indexes of data in a bucket or on a web "
         "server. Without it this worker writes neither.",
     .min = 1,
     .max = 1000},
    {.name = "shm",
     .kind = CONF_CHOICE,
     .value = "auto",
     .choices = "auto|off",
     .help = "Share memory with psservers of this host instead of sending them "
             "bytes, and call them over a socket of our own: auto where that "
             "works, or off."},
    {.name = "shm-min",
     .kind = CONF_BYTES,
     .value = "32KiB", // a smaller payload fits the call's packet
     .min = 4,
     .max = 1 << 30,
     .help =
         "Size of a gradient below which it is sent as bytes all the same."},
    GOING_KEYS("auto", "the worker hands its leases back and exits with status "
                       "143."),
    {.name = NULL},
};

struct worker {
    struct daemon *daemon;
    char name[300];

    struct rpc_io *io;
    struct introspect *introspect;
    struct rpc_server *rpc; // health, reflection, Ranks
    int port;
    struct rpc_channel *channel; // to the coordinator
    struct attendee *attend;
    struct peers *peers;
    struct worker_member *member;
    struct going *going;
    struct roots *roots;   // folders of data
    struct places *places; // places of data; NULL: none
    struct roots *weights; // folders of weights; NULL: those of data
    struct compute *compute;

    struct ring_env ring;
    char *address, *store; // owned
    struct fs *store_fs;
    struct membership membership;
    struct joining joining;
    char host[RANKS_HOST_BYTES];
    struct ranks *ranks;

    struct loop_timer *drain_timer;
    bool closing; // attendee_close was called
    bool away;    // the device is away
};

struct worker *worker_new(void)
{
    return sl_calloc(1, sizeof(struct worker));
}

void worker_free(struct worker *w)
{
    sl_free(w);
}

// ---- start

static enum sl_err read_store(struct worker *w, struct sl_error *err)
{
    const char *said = conf_str(daemon_conf(w->daemon), "store");
    const char *state = daemon_state_dir(w->daemon);

    w->store_fs = fs_posix();
    w->joining = (struct joining){.loop = daemon_loop(w->daemon),
                                  .membership = &w->membership};
    if (said == NULL) // no store: it joins any cluster that welcomes it
        return membership_open(&w->membership, fs_posix(), NULL, NULL, NULL,
                               err);
    w->store = sl_strdup(said);
    if (w->store == NULL)
        return sl_no_memory(err);
    // The path must be absolute: reports name it to programs that run in other
    // folders.
    return joining_open(&w->membership, &w->store_fs, &w->store,
                        strcmp(state, "-") == 0 ? NULL : state,
                        daemon_conf(w->daemon), err);
}

static bool ring_send(void *arg, const Sluice__V1__AttendUp *up)
{
    struct worker *w = arg;

    return attendee_send(w->attend, up);
}

static enum sl_err start_ring(struct worker *w, struct sl_error *err)
{
    const struct conf *c = daemon_conf(w->daemon);
    enum sl_err rc = read_store(w, err);

    if (rc == SL_OK)
        rc = ranks_address(&w->address, conf_str(c, "listen"),
                           conf_str(c, "advertise"), w->port, err);
    if (rc != SL_OK)
        return rc;
    rc = ranks_host(w->host, strcmp(conf_str(c, "shm"), "off") == 0);
    if (rc != SL_OK)
        return sl_fail(err, rc, "no name for this host");
    w->ring =
        (struct ring_env){.loop = daemon_loop(w->daemon),
                          .clock = sl_clock_real(),
                          .send = ring_send,
                          .arg = w,
                          .address = w->address,
                          .host = w->host,
                          .fs = w->store_fs,
                          .store = w->store,
                          .weights = w->weights != NULL ? w->weights : w->roots,
                          .membership = &w->membership,
                          .ranks = w->ranks,
                          .io = w->io,
                          .tls = daemon_tls(w->daemon)};
    return SL_OK;
}

static enum sl_err worker_read_settings(struct worker *w, struct sl_error *err)
{
    const struct conf *c = daemon_conf(w->daemon);
    const char *name = conf_str(c, "name");
    char host[256] = "worker";

    if (conf_is_set(c, "plans") && strchr(conf_str(c, "plans"), ',') != NULL)
        return sl_fail(err, SL_EINVAL, "--plans: a path without commas");
    (void)gethostname(host, sizeof(host) - 1);
    if (name != NULL)
        snprintf(w->name, sizeof(w->name), "%s", name);
    else
        snprintf(w->name, sizeof(w->name), "%s-%d", host, (int)getpid());
    return rpc_addresses_check(conf_str(c, "coordinator"), err);
}

// Makes the places that jobs may read, if there are any.
static enum sl_err worker_read_places(struct worker *w, struct sl_error *err)
{
    const struct conf *c = daemon_conf(w->daemon);
    size_t count = conf_list_count(c, "data-allow");
    struct places_setup setup = {.store = store_setup_of(c),
                                 .cache = conf_str(c, "cache"),
                                 .cache_bytes =
                                     (uint64_t)conf_int(c, "cache-bytes")};
    struct roots_places reader;
    enum sl_err rc;

    if (count == 0)
        return setup.cache == NULL
                   ? SL_OK
                   : sl_fail(err, SL_EINVAL,
                             "--cache is of use with --data-allow alone");
    setup.store.patience_ms = (unsigned)conf_int(c, "data-patience");
    rc = places_new(&w->places, &setup, err);
    for (size_t i = 0; rc == SL_OK && i < count; i++)
        rc = places_allow(w->places, conf_list_at(c, "data-allow", i), err);
    if (rc != SL_OK)
        return rc;
    reader = places_reader(w->places);
    roots_read_places(w->roots, &reader);
    if (setup.cache == NULL)
        LOG(WARN, "data at places is fetched at each use; give --cache DIR",
            "prefixes=%zu", count);
    return SL_OK;
}

static enum sl_err worker_read_roots(struct worker *w, struct sl_error *err)
{
    enum sl_err rc = daemon_roots(&w->roots, w->daemon, "--data-root", err);

    if (rc == SL_OK &&
        conf_list_count(daemon_conf(w->daemon), "weights-root") > 0)
        rc = daemon_roots(&w->weights, w->daemon, "--weights-root", err);
    return rc == SL_OK ? worker_read_places(w, err) : rc;
}

static enum sl_err worker_start_rpc(struct worker *w, struct sl_error *err)
{
    const struct conf *c = daemon_conf(w->daemon);
    struct rpc_io_options io = {
        .threads = (unsigned)conf_int(c, "io-threads"),
    };
    struct rpc_limits limits;
    const struct rpc_server_options access = {
        .allow = access_allow, .shared = access_shared, .limits = &limits};
    const struct rpc_tls *tls = daemon_tls(w->daemon);
    struct rpc_table tables[2];
    enum sl_err rc = rpc_io_new(&w->io, &io, err);

    if (rc == SL_OK)
        rc = introspect_new(&w->introspect, NULL, 0, err);
    if (rc == SL_OK && ranks_new(&w->ranks) != SL_OK)
        rc = sl_no_memory(err);
    if (rc != SL_OK)
        return rc;
    tables[0] = introspect_table(w->introspect);
    tables[1] = ranks_table(w->ranks);
    rpc_limits_read(&limits, c);
    rc = rpc_server_new(&w->rpc, w->io, tables, SL_COUNT(tables), &access, err);
    if (rc == SL_OK)
        rc = rpc_server_bind(w->rpc, conf_str(c, "listen"), tls, &w->port, err);
    if (rc == SL_OK)
        rc = rpc_channel_new(&w->channel, w->io, conf_str(c, "coordinator"),
                             tls, &access_to_coordinator, err);
    if (rc == SL_OK)
        rc = peers_new(&w->peers, w->io, tls, err);
    if (rc == SL_OK && strcmp(conf_str(c, "shm"), "off") != 0)
        peers_share(w->peers, daemon_loop(w->daemon), sl_clock_real(),
                    (size_t)conf_int(c, "shm-min"));
    return rc;
}

static void worker_on_drained(void *arg);

// Ends the process at once. A thread that hangs in a kernel or in reading
// cannot be joined, so no part is stopped in order. A worker keeps no state;
// its service manager starts another.
static void on_stuck(void *arg)
{
    _exit(DAEMON_EXIT_TRANSIENT);
}

// Takes a welcome, and tells it to the prober, too.
static bool worker_on_welcome(void *arg, const Sluice__V1__Welcome *m)
{
    struct worker *w = arg;
    bool taken = worker_member_welcome(w->member, m);

    if (taken)
        joining_welcome(&w->joining, m->cluster);
    if (taken && !daemon_draining(w->daemon) && !w->away && !going_is(w->going))
        introspect_set_serving(w->introspect, true);
    return taken;
}

static void set_serving(struct worker *w)
{
    if (!daemon_draining(w->daemon))
        introspect_set_serving(w->introspect, !w->away && !going_is(w->going) &&
                                                  attendee_attached(w->attend));
}

static void on_going(void *arg)
{
    set_serving(arg);
}

static bool worker_goes(void *arg, const char *why)
{
    struct worker *w = arg;

    worker_member_drain(w->member, why);
    return worker_member_drained(w->member);
}

static void worker_goes_late(void *arg)
{
    struct worker *w = arg;

    LOG(WARN, "this machine will be taken away; leaving the step under way",
        "leases=%" PRIu32, worker_member_leases(w->member));
    worker_member_abandon(w->member);
}

static void worker_stays(void *arg)
{
    worker_member_stay(((struct worker *)arg)->member);
}

static void begin_attending(void *arg)
{
    attendee_start(((struct worker *)arg)->attend);
}

// Handles a device that is ready again, away for now, or of no more use: then
// another process may have better luck, a new one or this one started anew.
static void on_device(void *arg, enum compute_state state, const char *why)
{
    struct worker *w = arg;
    char note[LOST_NOTE];

    worker_member_able(w->member, state == COMPUTE_READY, why);
    w->away = state != COMPUTE_READY;
    set_serving(w);
    if (state == COMPUTE_GONE)
        daemon_stop(w->daemon, DAEMON_EXIT_TRANSIENT);
    if (state == COMPUTE_ANEW) {
        lost_note(note, compute_row(w->compute));
        daemon_anew(w->daemon, note);
    }
}

static void worker_on_lost(void *arg)
{
    struct worker *w = arg;

    introspect_set_serving(w->introspect, false);
    worker_member_lost(w->member);
}

static void worker_on_down(void *arg, const Sluice__V1__AttendDown *m)
{
    worker_member_down(((struct worker *)arg)->member, m);
}

static void worker_on_beat(void *arg)
{
    worker_member_beat(((struct worker *)arg)->member);
}

static void worker_on_renewed(void *arg)
{
    worker_member_renewed(((struct worker *)arg)->member);
}

static const char *on_hello(void *arg)
{
    return worker_member_away(((struct worker *)arg)->member);
}

// Writes the options for all backends; each takes the words with its name.
static void device_options(char *out, size_t n, const struct conf *c)
{
    const char *plans = conf_str(c, "plans"), *isa = conf_str(c, "isa");
    int64_t workspace = conf_int(c, "workspace");
    char most[48] = "";

    if (workspace > 0) // in MiB, rounded up
        snprintf(most, sizeof(most), ",cuda.workspace=%" PRId64,
                 (workspace + ((1 << 20) - 1)) >> 20);
    snprintf(out, n,
             "cpu.threads=%u%s%s,cpu.autotune=%d,cuda.autotune=%d%s%s%s%s%s",
             (unsigned)conf_int(c, "threads"), isa != NULL ? ",cpu.isa=" : "",
             isa != NULL ? isa : "", conf_bool(c, "autotune"),
             conf_bool(c, "autotune"), most,
             plans != NULL ? ",cpu.proofs=" : "", plans != NULL ? plans : "",
             plans != NULL ? ",cuda.plans=" : "", plans != NULL ? plans : "");
}

static void worker_runner_submit(void *arg, struct lease *l)
{
    compute_submit(arg, l);
}

static void worker_runner_forget(void *arg, uint64_t job)
{
    compute_forget(arg, job);
}

static const char *worker_runner_device(void *arg)
{
    return compute_device(arg);
}

static void worker_on_done(void *arg, struct lease *l)
{
    worker_member_done(((struct worker *)arg)->member, l);
}

static void worker_on_want_map(void *arg, uint64_t job, uint64_t have)
{
    worker_member_want_map(((struct worker *)arg)->member, job, have);
}

static void worker_on_found(void *arg)
{
    worker_member_found(((struct worker *)arg)->member);
}

static enum sl_err start_attending(struct worker *w, struct sl_error *err)
{
    struct attendee_setup attend = {
        .loop = daemon_loop(w->daemon),
        .clock = sl_clock_real(),
        .channel = w->channel,
        .role = SLUICE__V1__ROLE__ROLE_WORKER,
        .name = w->name,
        .device = compute_device(w->compute),
        .no_store = w->store == NULL,
        .cluster = w->membership.cluster,
        .test_kind = compute_vector(w->compute).kind,
        .test_vector = compute_vector(w->compute).output,
        .welcome = worker_on_welcome,
        .lost = worker_on_lost,
        .down = worker_on_down,
        .beat = worker_on_beat,
        .renewed = worker_on_renewed,
        .away = on_hello,
        .arg = w,
    };
    struct worker_member_runner runner = {
        .submit = worker_runner_submit,
        .forget = worker_runner_forget,
        .device = worker_runner_device,
        .arg = w->compute,
        .away = compute_away(w->compute),
    };
    enum sl_err rc = attendee_new(&w->attend, &attend, err);

    if (rc == SL_OK)
        worker_member_start(w->member, w->attend, &runner);
    return rc;
}

static enum sl_err worker_start_member(struct worker *w, struct sl_error *err)
{
    const struct conf *c = daemon_conf(w->daemon);
    char options[2200]; // a path of 1,000 bytes, twice
    struct worker_member_setup member = {
        .loop = daemon_loop(w->daemon),
        .clock = sl_clock_real(),
        .drained = worker_on_drained,
        .stuck = on_stuck,
        .grace_ms = (uint64_t)conf_int(c, "grace"),
        .ring = &w->ring,
        .arg = w,
    };
    struct compute_setup compute = {
        .loop = daemon_loop(w->daemon),
        .peers = w->peers,
        .clock = sl_clock_real(),
        .device = conf_str(c, "device"),
        .options = options,
        .input_threads = (unsigned)conf_int(c, "input-threads"),
        .keep_bytes = (uint64_t)conf_int(c, "keep"),
        .roots = w->roots,
        .index = {w->store_fs, w->store},
        .done = worker_on_done,
        .want_map = worker_on_want_map,
        .found = worker_on_found,
        .changed = on_device,
        .arg = w,
        .loss = {.policy = lost_policy_of(conf_str(c, "on-device-loss")),
                 .tries = (uint32_t)conf_int(c, "device-tries"),
                 .wait_ms = (uint64_t)conf_int(c, "device-wait")},
        .row = lost_row_of(anew_note()),
    };
    enum sl_err rc = worker_member_new(&w->member, &member);

    device_options(options, sizeof(options), c);
    if (rc != SL_OK)
        return sl_fail(err, rc, "no memory");
    rc = compute_new(&w->compute, &compute, err);
    if (rc != SL_OK)
        return rc;
    return start_attending(w, err);
}

static enum sl_err start_going(struct worker *w, struct sl_error *err)
{
    const struct conf *c = daemon_conf(w->daemon);
    uint64_t step_ms = (uint64_t)conf_int(c, "grace") * 6 / 10;
    const struct going_setup going = {
        .daemon = w->daemon,
        .drain = worker_goes,
        .late = worker_goes_late,
        .step_ms = sl_min(step_ms, GOES_MS),
        .stay = worker_stays,
        .begin = begin_attending,
        .changed = on_going,
        .arg = w,
    };

    return going_new(&w->going, &going, err);
}

static void worker_stop_parts(struct worker *w)
{
    loop_timer_free(w->drain_timer);
    going_free(w->going);
    places_leave(w->places);
    if (w->attend != NULL)
        attendee_stop(w->attend);
    if (w->member != NULL)
        worker_member_abandon(w->member);
    if (w->compute != NULL && !compute_quit(w->compute, QUIT_MS)) {
        LOG(ERROR, "ending although the compute thread hangs", "waited_ms=%d",
            QUIT_MS);
        on_stuck(w);
    }
    compute_free(w->compute);
    roots_free(w->roots);
    roots_free(w->weights);
    places_free(w->places);
    if (w->rpc != NULL)
        rpc_server_stop(w->rpc);
    rpc_server_free(w->rpc);
    ranks_free(w->ranks);
    rpc_channel_free(w->channel);
    attendee_free(w->attend);
    peers_free(w->peers);
    introspect_free(w->introspect);
    rpc_io_free(w->io);
    worker_member_free(w->member);
    sl_free(w->address);
    sl_free(w->store);
    joining_release(&w->joining);
    membership_release(&w->membership);
    *w = (struct worker){.daemon = w->daemon};
}

static enum sl_err worker_on_start(struct daemon *d, void *arg,
                                   struct sl_error *err)
{
    struct worker *w = arg;
    enum sl_err rc;

    w->daemon = d;
    rc = worker_read_settings(w, err);
    if (rc == SL_OK)
        rc = worker_read_roots(w, err);
    if (rc == SL_OK)
        rc = worker_start_rpc(w, err);
    if (rc == SL_OK)
        rc = start_ring(w, err);
    if (rc == SL_OK)
        rc = worker_start_member(w, err);
    if (rc == SL_OK)
        rc = start_going(w, err);
    if (rc != SL_OK) {
        worker_stop_parts(w);
        return rc;
    }
    rpc_server_start(w->rpc);
    DAEMON_STARTED(
        d,
        "name=%s coordinator=%s device=%s listen=%s port=%d tls=%d "
        "io_threads=%u data_roots=%zu",
        w->name, rpc_channel_address(w->channel), compute_device(w->compute),
        conf_str(daemon_conf(d), "listen"), w->port, daemon_tls(d) != NULL,
        rpc_io_threads(w->io), roots_count(w->roots));
    daemon_ready(d); // leases come when the coordinator has some
    return SL_OK;
}

// ---- drain

static void goodbye_over(void *arg)
{
    struct worker *w = arg;

    daemon_drained(w->daemon);
}

// Ends the stream in order when no lease is held, so that the last messages
// arrive.
static void worker_on_drained(void *arg)
{
    struct worker *w = arg;

    if (!daemon_draining(w->daemon)) {
        going_drained(w->going);
        return;
    }
    if (!w->closing && attendee_close(w->attend)) {
        w->closing = true;
        if (w->drain_timer != NULL)
            loop_timer_stop(w->drain_timer);
        loop_timer_free(w->drain_timer);
        w->drain_timer = NULL;
        if (loop_timer_new(&w->drain_timer, daemon_loop(w->daemon),
                           goodbye_over, w) == SL_OK) {
            loop_timer_start(w->drain_timer, GOODBYE_MS, 0);
            return;
        }
    }
    daemon_drained(w->daemon);
}

// Leaves a step that does not end (a shard does not answer).
static void drain_over(void *arg)
{
    struct worker *w = arg;

    LOG(WARN, "drain: leaving the step under way", "leases=%" PRIu32,
        worker_member_leases(w->member));
    places_leave(w->places);
    worker_member_abandon(w->member);
}

static void worker_drain(struct daemon *d, void *arg)
{
    struct worker *w = arg;
    uint64_t grace = (uint64_t)conf_int(daemon_conf(d), "grace");

    introspect_set_serving(w->introspect, false);
    worker_member_drain(w->member, "");
    if (worker_member_drained(w->member)) {
        worker_on_drained(w);
        return;
    }
    if (loop_timer_new(&w->drain_timer, daemon_loop(d), drain_over, w) == SL_OK)
        loop_timer_start(w->drain_timer, grace * 6 / 10, 0);
}

// ---- checks for the ops port

static void worker_checks(struct daemon *d, void *arg, struct ops_checks *c)
{
    const struct worker *w = arg;
    struct sl_error err = SL_ERROR_INIT;

    ops_check(c, "device", !w->away, compute_away(w->compute));
    ops_check(c, "registered", attendee_attached(w->attend),
              "waiting for the coordinator");
    ops_check(c, "notice", !going_is(w->going),
              "this machine is about to be taken away");
    ops_check(c, "data", roots_there(w->roots, &err) == SL_OK, err.text);
}

static void worker_measure(struct daemon *d, void *arg, struct expo *e)
{
    const struct worker *w = arg;

    rpc_server_measure(w->rpc, e);
    figures_write(e);
    going_measure(w->going, e);
    expo_single(e, "sluice_worker_leases", EXPO_GAUGE,
                "Leases that this worker holds.",
                (double)worker_member_leases(w->member));
    places_measure(w->places, e);
}

static void worker_on_stop(struct daemon *d, void *arg)
{
    worker_stop_parts(arg);
}

const struct daemon_hooks server_hooks = {
    .stateless = true,
    .start = worker_on_start,
    .drain = worker_drain,
    .stop = worker_on_stop,
    .checks = worker_checks,
    .measure = worker_measure,
};
