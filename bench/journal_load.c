// SPDX-License-Identifier: Apache-2.0
// bench/journal_load.c -- a coordinator's journal after many cuts: how large it
// is, and how soon a coordinator serves from it.
//
// A child writes it and dies without closing it; then a coordinator is made
// from what is there, as the daemon does at its start. With --journal it is in
// etcd, and its size is that of etcd's database.
#include <stdio.h>
#include <stdlib.h>
#include <string.h>
#include <sys/stat.h>
#include <sys/wait.h>
#include <unistd.h>

#include "bench/program.h"
#include "common/base/buf.h"
#include "common/base/json.h"
#include "common/base/mem.h"
#include "coordinator/core/coord.h"
#include "coordinator/journal/journal_etcd.h"
#include "proto/pbjson.h"
#include "proto/spec.h"

#define KEPT 3 // cuts of each job
#define EPOCHS 3

static const struct conf_about about = {
    .program = "journal_load",
    .usage = "journal_load [OPTION]...",
    .text = "Writes the journal of jobs with many cuts, and starts a "
            "coordinator from it.",
    .example = "journal_load --folder /dev/shm/j --jobs 1 --shards 64",
};

static const struct conf_key keys[] = {
    {.name = "folder",
     .kind = CONF_STRING,
     .help = "Where the journal is written; empty, and there."},
    {.name = "journal",
     .kind = CONF_STRING,
     .help = "etcd://HOST:PORT/PREFIX: the journal is there instead."},
    {.name = "jobs",
     .kind = CONF_INT,
     .value = "1",
     .min = 1,
     .max = 100000,
     .help = "Jobs that have not ended."},
    {.name = "ended",
     .kind = CONF_INT,
     .value = "0",
     .min = 0,
     .max = 1000000,
     .help = "Jobs that have, of as many shards, with the cuts they kept."},
    {.name = "shards",
     .kind = CONF_INT,
     .value = "64",
     .min = 1,
     .max = 60000,
     .help = "Shards of each."},
    {.name = "cuts",
     .kind = CONF_INT,
     .value = "1000",
     .min = 4,
     .max = 10000000,
     .help = "Cuts of each, of which three are kept."},
    {.name = NULL},
};

static struct sl_error err;

static void must(enum sl_err rc, const char *what)
{
    program_must(rc, &err, what);
}

static void *many(size_t count, size_t size)
{
    void *p = sl_calloc(count, size);

    if (p == NULL)
        program_die("out of memory");
    return p;
}

// ---- a job

static void pack_spec(struct buf *out, uint32_t shards)
{
    ProtobufCMessage *spec = NULL;
    char text[600];
    json_t *value;

    snprintf(text, sizeof(text),
             "{\"name\":\"many\",\"model\":{\"type\":\"external\","
             "\"variables\":[{\"name\":\"w\",\"shape\":[%u,16]}]},"
             "\"optimizer\":{\"type\":\"sgd\"},\"data\":{\"train\":{"
             "\"format\":\"external\",\"samples\":1000000}},"
             "\"train\":{\"batch\":1,\"epochs\":3,\"steps_per_closure\":1}}",
             shards);
    must(sl_json_parse(&value, "spec", text, strlen(text), NULL, &err),
         "the spec");
    must(pbjson_read(&spec, &sluice__v1__job_spec__descriptor, value, "job",
                     &err),
         "the spec");
    must(spec_check((Sluice__V1__JobSpec *)spec, &err), "the spec");
    must(wire_pack(spec, out), "the spec");
    wire_free(spec);
    json_decref(value);
}

// A row of the variable on each shard.
static void pack_layout(struct buf *out, uint32_t shards)
{
    Sluice__V1__CheckpointsReply l = SLUICE__V1__CHECKPOINTS_REPLY__INIT;
    Sluice__V1__Variable v = SLUICE__V1__VARIABLE__INIT, *variables[] = {&v};
    Sluice__V1__Piece *pieces = many(shards, sizeof(*pieces));
    Sluice__V1__Piece **list = many(shards, sizeof(*list));
    uint64_t shape[] = {shards, 16};

    v.name = "w";
    v.shape = shape;
    v.n_shape = 2;
    for (uint32_t i = 0; i < shards; i++) {
        sluice__v1__piece__init(&pieces[i]);
        pieces[i].first_row = pieces[i].shard = i;
        pieces[i].rows = 1;
        pieces[i].elements = 16;
        list[i] = &pieces[i];
    }
    l.variables = variables;
    l.n_variables = 1;
    l.pieces = list;
    l.n_pieces = shards;
    must(wire_pack(&l.base, out), "the layout");
    sl_free(list);
    sl_free(pieces);
}

static uint64_t add_job(struct journal *j, uint32_t shards)
{
    struct buf spec = BUF_INIT, layout = BUF_INIT;
    const char **names = many(shards, sizeof(*names));
    struct journal_job row = {
        .uid = 7, .incarnation = 1, .name = "many", .state = 1, .reason = ""};
    uint64_t id = 0;

    pack_spec(&spec, shards);
    pack_layout(&layout, shards);
    for (uint32_t i = 0; i < shards; i++)
        names[i] = "ps-0";
    row.spec = (struct journal_blob){spec.data, spec.len};
    must(journal_job_add(j, &row, &id, &err), "a job");
    must(journal_job_place(j, id,
                           (struct journal_blob){layout.data, layout.len},
                           names, shards, &err),
         "a job");
    sl_free(names);
    buf_release(&spec);
    buf_release(&layout);
    return id;
}

// ---- a cut, as large as those of a running job

static void pack_checkpoint(struct buf *out, uint64_t cut, uint32_t shards)
{
    Sluice__V1__CheckpointsReply one = SLUICE__V1__CHECKPOINTS_REPLY__INIT;
    Sluice__V1__Checkpoint c = SLUICE__V1__CHECKPOINT__INIT, *list[] = {&c};
    Sluice__V1__CheckpointShard *s = many(shards, sizeof(*s));
    Sluice__V1__CheckpointShard **each = many(shards, sizeof(*each));
    Sluice__V1__Tag tag = SLUICE__V1__TAG__INIT;
    uint8_t sha[32] = {1};

    tag.incarnation = 1;
    tag.sequence = cut;
    for (uint32_t i = 0; i < shards; i++) {
        sluice__v1__checkpoint_shard__init(&s[i]);
        s[i].shard = i;
        s[i].psserver = "ps-0";
        s[i].address = "10.20.30.40:7071";
        s[i].tag = &tag;
        s[i].folder = "/var/lib/sluice/store/many-j-1-00000007";
        s[i].file = "shard-00000.i1.n100000.safetensors";
        s[i].file_bytes = 100000000;
        s[i].sha256 = (ProtobufCBinaryData){sizeof(sha), sha};
        s[i].steps = cut;
        each[i] = &s[i];
    }
    c.cut = cut;
    c.shards = each;
    c.n_shards = shards;
    one.checkpoints = list;
    one.n_checkpoints = 1;
    must(wire_pack(&one.base, out), "a checkpoint");
    sl_free(each);
    sl_free(s);
}

// Or the last status of a job, of the same size.
static void pack_counts(struct buf *out, uint64_t job, uint32_t shards)
{
    Sluice__V1__JobStatus m = SLUICE__V1__JOB_STATUS__INIT;
    Sluice__V1__ShardStatus *s = many(shards, sizeof(*s));
    Sluice__V1__ShardStatus **each = many(shards, sizeof(*each));
    Sluice__V1__ShardCounts k = SLUICE__V1__SHARD_COUNTS__INIT;
    Sluice__V1__EpochCount epoch[EPOCHS], *epochs[EPOCHS];

    for (unsigned i = 0; i < EPOCHS; i++) {
        sluice__v1__epoch_count__init(&epoch[i]);
        epoch[i].epoch = i + 1;
        epoch[i].steps = epoch[i].samples = 1000000;
        epoch[i].digest = UINT64_MAX;
        epochs[i] = &epoch[i];
    }
    k.version = k.applied = k.counted = k.low = 1000000;
    k.epochs = epochs;
    k.n_epochs = EPOCHS;
    for (uint32_t i = 0; i < shards; i++) {
        sluice__v1__shard_status__init(&s[i]);
        s[i].shard = i;
        s[i].incarnation = 1;
        s[i].counts = &k;
        each[i] = &s[i];
    }
    m.job = job;
    m.id = "j-1";
    m.name = "many";
    m.shards = each;
    m.n_shards = shards;
    must(wire_pack(&m.base, out), "counts");
    sl_free(each);
    sl_free(s);
}

static void make_cut(struct journal *j, uint64_t job, uint64_t n,
                     uint32_t shards, struct wire_tag *tags)
{
    struct buf checkpoint = BUF_INIT, counts = BUF_INIT;
    struct journal_cut row = {.cut = n, .path = "/none/cut.json"};

    pack_checkpoint(&checkpoint, n, shards);
    pack_counts(&counts, job, shards);
    row.checkpoint = (struct journal_blob){checkpoint.data, checkpoint.len};
    row.counts = (struct journal_blob){counts.data, counts.len};
    for (uint32_t i = 0; i < shards; i++)
        tags[i] = (struct wire_tag){1, n};
    must(journal_cut_intent(j, job, &row, &err), "a cut");
    must(journal_cut_publish(j, job, n, tags, shards, &err), "a cut");
    if (n > KEPT)
        must(journal_cut_drop(j, job, n - KEPT, &err), "a cut");
    buf_release(&checkpoint);
    buf_release(&counts);
}

static uint64_t write_job(struct journal *j, uint32_t shards, uint64_t cuts,
                          struct wire_tag *tags)
{
    uint64_t job = add_job(j, shards);

    for (uint64_t n = 1; n <= cuts; n++)
        make_cut(j, job, n, shards, tags);
    return job;
}

static void end_job(struct journal *j, uint64_t job, uint32_t shards)
{
    struct journal_counters none = {0};
    struct buf final = BUF_INIT;

    pack_counts(&final, job, shards);
    must(journal_job_end(j, job, 4, "", 1,
                         (struct journal_blob){final.data, final.len}, &none,
                         &err),
         "the end of a job");
    buf_release(&final);
}

// ---- the journal

#define ETCD_MS 10000

// Makes a client of etcd, after the child was made: it has threads.
static struct etcd *open_etcd(const char *url)
{
    struct rpc_io *io = NULL;
    struct etcd *e = NULL;

    must(rpc_io_new(&io, &(struct rpc_io_options){.threads = 1}, &err),
         "threads");
    must(etcd_new(&e, io, url, NULL, &err), "etcd");
    return e;
}

// Takes the leader's key from whichever process had it, and returns its number.
static int64_t lead(struct etcd *e)
{
    const struct etcd_op del = {.what = ETCD_DELETE, .key = JOURNAL_LEADER};
    const struct etcd_op put = {.what = ETCD_PUT, .key = JOURNAL_LEADER};
    struct etcd_reply gone = {0}, made = {0};
    int64_t number;

    must(etcd_txn(e, &(struct etcd_txn){.then = &del, .then_count = 1}, ETCD_MS,
                  &gone, &err),
         "the leader's key");
    must(etcd_txn(e, &(struct etcd_txn){.then = &put, .then_count = 1}, ETCD_MS,
                  &made, &err),
         "the leader's key");
    number = made.revision;
    etcd_reply_release(&gone);
    etcd_reply_release(&made);
    return number;
}

static struct journal *open_journal(const char *path, const char *url)
{
    struct journal *j = NULL;
    struct journal_leader leader = {0};
    struct etcd *e;

    if (url == NULL) {
        must(journal_open(&j, path, &err), "the journal");
        return j;
    }
    e = open_etcd(url);
    leader.term = lead(e);
    must(journal_follow(&j, e, &journal_kind_own, &err), "the journal");
    must(journal_lead(j, &leader, &err), "the journal");
    return j;
}

static void write_journal(const char *path, const struct conf *c)
{
    uint32_t shards = (uint32_t)conf_int(c, "shards");
    struct wire_tag *tags = many(shards, sizeof(*tags));
    struct journal *j = open_journal(path, conf_str(c, "journal"));

    for (int64_t i = 0; i < conf_int(c, "ended"); i++)
        end_job(j, write_job(j, shards, KEPT, tags), shards);
    for (int64_t i = 0; i < conf_int(c, "jobs"); i++)
        write_job(j, shards, (uint64_t)conf_int(c, "cuts"), tags);
    _exit(0); // as if it was killed
}

// ---- the restart

static void no_send(void *arg, uint64_t member,
                    const Sluice__V1__AttendDown *message)
{
}

static void no_member(void *arg, uint64_t member)
{
}

static void on_fatal(void *arg, const struct sl_error *why)
{
    program_die("%s", why->text);
}

static uint64_t resident_bytes(void)
{
    unsigned long long all = 0, resident = 0;
    FILE *f = fopen("/proc/self/statm", "r");

    if (f == NULL || fscanf(f, "%llu %llu", &all, &resident) != 2)
        program_die("/proc/self/statm");
    fclose(f);
    return resident * (uint64_t)sysconf(_SC_PAGESIZE);
}

struct restart {
    double seconds;
    uint64_t bytes; // of memory that it takes
};

static struct restart restart(const char *folder, const char *path,
                              const char *url)
{
    struct coord_options options = {
        .clock = sl_clock_real(),
        .fs = fs_posix(),
        .state_dir = folder,
        .heartbeat_ms = 500,
        .lease_ms = 2000,
    };
    struct coord_io io = {
        .send = no_send,
        .hang_up = no_member,
        .cut_off = no_member,
        .changed = no_member,
        .fatal = on_fatal,
    };
    struct coord *c = NULL;
    char *store = fs_join(folder, "store");
    uint64_t resident = resident_bytes();
    struct restart r;
    double began;

    must(store == NULL ? SL_ENOMEM : fs_mkdirs(fs_posix(), store, &err),
         "the store");
    options.store = store;
    began = program_now_s();
    options.journal = open_journal(path, url);
    must(coord_new(&c, &options, &io, &err), "the coordinator");
    r.seconds = program_now_s() - began;
    r.bytes = resident_bytes() - resident;
    coord_free(c);
    journal_close(options.journal);
    sl_free(store);
    return r;
}

static uint64_t etcd_bytes(const char *url)
{
    struct etcd_status status;

    must(etcd_status(open_etcd(url), ETCD_MS, &status, &err), "etcd");
    return status.bytes;
}

static uint64_t bytes_of(const char *path, const char *more)
{
    char name[4096];
    struct stat st;

    snprintf(name, sizeof(name), "%s%s", path, more);
    return stat(name, &st) == 0 ? (uint64_t)st.st_size : 0;
}

int main(int argc, char **argv)
{
    static const struct conf_key *const tables[] = {keys, NULL};
    struct conf *c = program_options(&about, tables, argc, argv);
    const char *folder = conf_str(c, "folder"), *url = conf_str(c, "journal");
    char *path = folder == NULL ? NULL : fs_join(folder, "journal.sqlite");
    struct restart r;
    uint64_t bytes;
    int status = 0;
    pid_t child;

    if (path == NULL)
        program_die("--folder is needed");
    child = fork();
    if (child == 0)
        write_journal(path, c);
    if (child < 0 || waitpid(child, &status, 0) != child || status != 0)
        program_die("the journal was not written");
    bytes = url != NULL ? etcd_bytes(url)
                        : bytes_of(path, "") + bytes_of(path, "-wal");
    r = restart(folder, path, url);
    printf("{\"bytes\": %llu, \"restart_s\": %.3f, \"resident\": %llu}\n",
           (unsigned long long)bytes, r.seconds, (unsigned long long)r.bytes);
    sl_free(path);
    conf_free(c);
    return 0;
}
