// SPDX-License-Identifier: Apache-2.0
// client/verb_table.c -- the table of verbs and their flags.
#include "client/cli/verbs.h"
#include "host/store/store_place.h"

#include "client/cli/cli.h"
#include "client/files/table_feed.h"
#include "client/up/gpus.h"
#include "host/launch/launch.h"

#define SET_KEY                                                                \
    {                                                                          \
        .name = "set", .kind = CONF_MULTI,                                     \
        .help = "Override a key of the spec: train.epochs=2."                  \
    }
#define PERIOD_KEY                                                             \
    {                                                                          \
        .name = "period", .kind = CONF_MS, .value = "30s", .min = 100,         \
        .max = 86400000,                                                       \
        .help =                                                                \
            "Time between two lines of progress where stdout is no terminal."  \
    }
#define SUMMARY_KEY                                                            \
    {                                                                          \
        .name = "summary", .kind = CONF_STRING,                                \
        .help = "File for the ended job's summary (JSON); -: stdout."          \
    }
#define DIR_KEY                                                                \
    {                                                                          \
        .name = "dir", .kind = CONF_STRING, .value = "./cluster",              \
        .help = "Folder of the cluster."                                       \
    }
#define GRACE_KEY                                                              \
    {                                                                          \
        .name = "grace", .kind = CONF_MS, .value = "10s", .min = 100,          \
        .max = 600000,                                                         \
        .help = "Time that each role has to end before it is killed."          \
    }

static const struct conf_key up_keys[] = {
    {.name = "psservers",
     .kind = CONF_INT,
     .value = "1",
     .min = 1,
     .max = 64,
     .help = "Parameter servers to start."},
    {.name = "workers",
     .kind = CONF_INT,
     .value = "2",
     .min = 0,
     .max = 256,
     .help = "Workers to start."},
    DIR_KEY,
    {.name = "store",
     .kind = CONF_STRING,
     .help = "Folder of checkpoints, or s3://BUCKET/PREFIX.",
     .min = 1,
     .max = 1000},
    {.name = "data-root",
     .kind = CONF_MULTI,
     .unit = "DIR",
     .value = "/",
     .help = "Folder below which jobs may read data."},
    {.name = "listen",
     .kind = CONF_STRING,
     .help = "host:port (open to every user here) or unix:/path; without it, a "
             "socket of your own."},
    {.name = "threads",
     .kind = CONF_INT,
     .value = "0",
     .min = 0,
     .max = 1024,
     .help = "Threads of each worker; 0: cores / workers."},
    {.name = "device",
     .kind = CONF_STRING,
     .value = "auto",
     .help = "Device of each worker: auto, cuda:N, cpu or ref; a list such as "
             "cpu,cpu shares each step.",
     .min = 1,
     .max = 159},
    {.name = "gpus",
     .kind = CONF_STRING,
     .help = "Start a worker per GPU: all, or a number of them. Others start "
             "only with --workers.",
     .min = 1,
     .max = 8},
    {.name = "gpus-per-worker",
     .kind = CONF_INT,
     .value = "1",
     .min = 1,
     .max = GPUS_PER_WORKER,
     .help = "GPUs that compute each step together, as one worker."},
    {.name = "detach",
     .kind = CONF_BOOL,
     .value = "no",
     .help = "Return when all is ready; 'sluice down' stops it."},
    {.name = "log-bytes",
     .kind = CONF_BYTES,
     .value = "16MiB",
     .min = 65536,
     .max = INT64_C(1) << 40,
     .help = "Size at which DIR/log/NAME.log is renamed to NAME.log.1."},
    GRACE_KEY,
    {.name = NULL},
};

static const struct conf_key logs_keys[] = {
    DIR_KEY,
    {.name = "follow",
     .letter = 'f',
     .kind = CONF_BOOL,
     .value = "no",
     .help = "Go on printing new lines as the coordinator receives them."},
    {.name = NULL}};

static const struct conf_key run_keys[] = {
    {.name = "discover",
     .kind = CONF_CHOICE,
     .value = "auto",
     .choices = LAUNCH_SOURCES,
     .help = "Launcher that sets the environment variables to read "
             "(docs/launchers.md)."},
    {.name = "role",
     .kind = CONF_CHOICE,
     .value = "auto",
     .choices = LAUNCH_ROLES,
     .help = "Role of this process; auto: rank 0 coordinates, the next ranks "
             "are psservers, the others workers."},
    {.name = "psservers",
     .kind = CONF_INT,
     .value = "1",
     .min = 0,
     .max = LAUNCH_PSSERVERS_MAX,
     .help = "Number of ranks that are psservers."},
    {.name = "base-port",
     .kind = CONF_INT,
     .value = "7070",
     .min = 1,
     .max = 65535,
     .help =
         "Port of the coordinator; psserver I listens on this port + I + 1."},
    {.name = "service",
     .kind = CONF_STRING,
     .value = "coordinator",
     .help = "With --discover dns: the DNS name of the coordinator.",
     .min = 1,
     .max = 253},
    DIR_KEY,
    {.name = "certs",
     .kind = CONF_STRING,
     .help = "Folder made by 'sluice cert init'; the daemon shows the "
             "certificate of its role.",
     .min = 1,
     .max = 3000},
    {.name = "discover-only",
     .kind = CONF_BOOL,
     .value = "no",
     .help = "Print what was found and where, and the command that would "
             "start; start nothing."},
    {.name = NULL},
};

static const struct conf_key down_keys[] = {DIR_KEY, GRACE_KEY, {.name = NULL}};

static const struct conf_key submit_keys[] = {
    SET_KEY,
    {.name = "wait",
     .kind = CONF_BOOL,
     .value = "yes",
     .help = "Follow to the end; --no-wait only prints the id."},
    {.name = "follow",
     .kind = CONF_BOOL,
     .value = "yes",
     .help = "Same as --wait, the default."},
    {.name = "dry-run",
     .kind = CONF_BOOL,
     .value = "no",
     .help = "Check and explain the placement; submit nothing."},
    {.name = "resume",
     .kind = CONF_STRING,
     .help = "Start from this checkpoint's manifest, or a job's."},
    {.name = "weights",
     .kind = CONF_STRING,
     .help = "Start with the values of this safetensors file."},
    {.name = "table-weights",
     .kind = CONF_MULTI,
     .unit = "TABLE=FILE",
     .help = "Start with the rows of this file (export --table)."},
    {.name = "request-id",
     .kind = CONF_STRING,
     .help = "Submissions with the same word are one job.",
     .min = 1,
     .max = 64},
    {.name = "wait-for-coordinator",
     .kind = CONF_MS,
     .min = 0,
     .max = 86400000,
     .help = "Wait so long until it listens; without it, --timeout."},
    {.name = "queue",
     .kind = CONF_BOOL,
     .value = "no",
     .help = "Queued jobs run one by one, by train.priority."},
    SUMMARY_KEY,
    PERIOD_KEY,
    {.name = "cancel-on-interrupt",
     .kind = CONF_BOOL,
     .value = "no",
     .help = "Ctrl-C stops the job instead of detaching."},
    {.name = NULL},
};

static const struct conf_key stop_keys[] = {
    {.name = "now",
     .kind = CONF_BOOL,
     .value = "no",
     .help = "End at once, without a checkpoint: training since the last one "
             "is lost."},
    {.name = NULL},
};

static const struct conf_key audit_keys[] = {
    {.name = "after",
     .kind = CONF_STRING,
     .min = 64,
     .max = 64,
     .help = "Hash of the last line of an older file that is gone; the first "
             "line must follow it."},
    {.name = NULL},
};

static const struct conf_key pause_keys[] = {
    {.name = "now",
     .kind = CONF_BOOL,
     .value = "no",
     .help = "Do not wait for a checkpoint. An allreduce job repeats its steps "
             "since the last one."},
    {.name = "why",
     .kind = CONF_STRING,
     .help = "Reason that 'sluice status' shows meanwhile.",
     .min = 1,
     .max = 200},
    {.name = NULL},
};

static const struct conf_key checkpoint_keys[] = {
    {.name = "wait",
     .kind = CONF_BOOL,
     .value = "yes",
     .help =
         "Wait until the checkpoint is published; --no-wait only asks for it."},
    {.name = NULL},
};

static const struct conf_key set_keys[] = {SET_KEY, {.name = NULL}};

static const struct conf_key import_keys[] = {
    {.name = "output",
     .letter = 'o',
     .kind = CONF_STRING,
     .value = "-",
     .help = "File to write, JSON if it ends in .json; -: stdout.",
     .min = 1,
     .max = 4096},
    {.name = "base",
     .kind = CONF_STRING,
     .help = "Take all but the model from this job spec."},
    SET_KEY,
    {.name = NULL},
};

static const struct conf_key jobs_keys[] = {
    {.name = "limit",
     .kind = CONF_INT,
     .value = "20",
     .min = 1,
     .max = 1000,
     .help = "Number of jobs to list, newest first."},
    {.name = "all",
     .kind = CONF_BOOL,
     .value = "false",
     .help = "List all jobs."},
    {.name = "name",
     .kind = CONF_STRING,
     .help = "List only jobs of this name."},
    {.name = NULL},
};

static const struct conf_key tasks_keys[] = {
    {.name = "limit",
     .kind = CONF_INT,
     .value = "100",
     .min = 1,
     .max = 10000,
     .help = "Number of tasks of a queue to list, oldest first."},
    {.name = "delete",
     .kind = CONF_STRING,
     .help = "Delete this queue, with all its tasks and results.",
     .min = 1,
     .max = 200},
    {.name = "tenant",
     .kind = CONF_STRING,
     .help = "Tenant of the queue, for callers that see all tenants.",
     .min = 1,
     .max = 64},
    {.name = NULL},
};

static const struct conf_key tables_keys[] = {
    {.name = "by-psserver",
     .kind = CONF_BOOL,
     .value = "no",
     .help = "List what each psserver has of each table."},
    {.name = NULL},
};

static const struct conf_key status_keys[] = {
    {.name = "shards",
     .kind = CONF_BOOL,
     .value = "no",
     .help = "List each shard of the job, also where there are many."},
    {.name = NULL},
};

static const struct conf_key watch_keys[] = {
    {.name = "until-step",
     .kind = CONF_INT,
     .value = "0",
     .min = 0,
     .max = INT64_MAX,
     .help = "Stop following once this many steps are counted."},
    {.name = "tensorboard",
     .kind = CONF_STRING,
     .help = "Folder for curves: event files of the runs JOB and "
             "JOB/validation."},
    {.name = "histograms",
     .kind = CONF_BOOL,
     .value = "no",
     .help =
         "With --tensorboard: also write histograms of the delays of updates."},
    SUMMARY_KEY,
    PERIOD_KEY,
    {.name = NULL},
};

#define ROLE_KEY                                                               \
    {                                                                          \
        .name = "role", .kind = CONF_STRING, .min = 1, .max = 10,              \
        .help = "worker or psserver; needed where one of each has the name."   \
    }

static const struct conf_key drain_keys[] = {
    {.name = "why",
     .kind = CONF_STRING,
     .help = "Reason that lists of members show meanwhile.",
     .min = 1,
     .max = 200},
    ROLE_KEY,
    {.name = NULL},
};

static const struct conf_key workers_keys[] = {
    {.name = "suspect",
     .kind = CONF_BOOL,
     .value = "no",
     .help = "List only workers that an audit (train.audit) found wrong, with "
             "what was found, and what they contributed that is in doubt."},
    {.name = NULL},
};

static const struct conf_key undrain_keys[] = {ROLE_KEY, {.name = NULL}};

static const struct conf_key events_keys[] = {
    {.name = "follow",
     .letter = 'f',
     .kind = CONF_BOOL,
     .value = "no",
     .help = "Go on printing new events until the job ends; without JOB, until "
             "Ctrl-C."},
    {.name = "last",
     .kind = CONF_INT,
     .value = "1000",
     .min = 1,
     .max = 1000,
     .help = "Number of past events to begin with."},
    {.name = "after",
     .kind = CONF_INT,
     .value = "0",
     .min = 0,
     .max = INT64_MAX,
     .help = "Begin after the event with this id."},
    {.name = NULL},
};

static const struct conf_key trace_keys[] = {
    {.name = "output",
     .letter = 'o',
     .kind = CONF_STRING,
     .value = "trace.json",
     .help = "File to write; -: stdout.",
     .min = 1,
     .max = 4096},
    {.name = "seconds",
     .kind = CONF_INT,
     .value = "5",
     .min = 1,
     .max = 60,
     .unit = "s",
     .help = "Time to record."},
    {.name = NULL},
};

static const struct conf_key token_keys[] = {
    {.name = "for",
     .kind = CONF_MS,
     .value = "1h",
     .min = 1000,
     .max = 86400000,
     .help = "Time until the token ends."},
    {.name = NULL},
};

static const struct conf_key report_keys[] = {
    {.name = "output",
     .letter = 'o',
     .kind = CONF_STRING,
     .value = "report.html",
     .help = "File to write; -: stdout.",
     .min = 1,
     .max = 4096},
    {.name = NULL},
};

static const struct conf_key export_keys[] = {
    {.name = "to",
     .kind = CONF_STRING,
     .help = "File to write; -: stdout. Default JOB.safetensors."},
    {.name = "cut",
     .kind = CONF_INT,
     .value = "0",
     .min = 0,
     .max = INT64_MAX,
     .help = "Number of the checkpoint; 0: the last one."},
    {.name = "best",
     .kind = CONF_BOOL,
     .help = "The best checkpoint, by callbacks.best_checkpoint."},
    {.name = "table",
     .kind = CONF_STRING,
     .help = "Sparse table whose rows to export, not variables."},
    {.name = "since",
     .kind = CONF_STRING,
     .help = "Earlier checkpoint: write what of --table changed."},
    {.name = "from",
     .kind = CONF_STRING,
     .help = "Read the files of this manifest, in a folder or s3://BUCKET/.., "
             "without a coordinator."},
    STORE_KEYS,
    {.name = NULL},
};

static const struct conf_key follow_keys[] = {
    {.name = "table", .kind = CONF_STRING, .help = "Sparse table to follow."},
    {.name = "to",
     .kind = CONF_STRING,
     .help = "New or empty folder, or one that follows this table."},
    {.name = "once",
     .kind = CONF_BOOL,
     .value = "no",
     .help = "Write what is new at the last checkpoint, and end."},
    {.name = "compact",
     .kind = CONF_INT,
     .value = "64",
     .min = 1,
     .max = FEED_DELTAS_MOST,
     .help = "Deltas after which the whole table is written anew; it is too "
             "when they are larger than the last whole one."},
    STORE_KEYS,
    {.name = NULL},
};

static const struct conf_key doctor_keys[] = {
    {.name = "state",
     .kind = CONF_STRING,
     .help = "State folder; measures its disk as well."},
    {.name = "store",
     .kind = CONF_STRING,
     .help = "Store to check: whether a folder lies on another disk than "
             "--state, whether a bucket may be written."},
    STORE_KEYS,
    {.name = "data-allow",
     .kind = CONF_MULTI,
     .unit = "PREFIX",
     .help = "Place that a worker's --data-allow names: whether it answers, "
             "and lets this host read; repeat for more."},
    {.name = "certs",
     .kind = CONF_STRING,
     .help = "Folder of certificates; names those that a daemon would refuse."},
    {.name = NULL},
};

static const struct conf_key explain_keys[] = {
    {.name = "schema",
     .kind = CONF_BOOL,
     .value = "no",
     .help = "Print a JSON schema of the job spec, for editors."},
    {.name = NULL},
};

static const struct conf_key backup_keys[] = {
    {.name = "state",
     .kind = CONF_STRING,
     .help = "State folder of the coordinator; 'sluice up' has it in "
             "DIR/coordinator.",
     .min = 1,
     .max = 4096},
    {.name = "store",
     .kind = CONF_STRING,
     .help = "Folder of checkpoints; 'sluice up' has it in DIR/checkpoints. "
             "Without it only the journal is copied.",
     .min = 1,
     .max = 4096},
    {.name = NULL},
};

static const struct conf_key cert_keys[] = {
    {.name = "host",
     .kind = CONF_LIST,
     .help = "Name or address of a host; repeat for each."},
    {.name = "role",
     .kind = CONF_STRING,
     .help = "admin, submitter, viewer, worker, psserver or coordinator.",
     .min = 1,
     .max = 32},
    {.name = "name",
     .kind = CONF_STRING,
     .help = "Name in the certificate, under which a worker attends; '*': any "
             "name.",
     .min = 1,
     .max = 100},
    {.name = "tenant",
     .kind = CONF_STRING,
     .help = "Tenant of the jobs that a submitter or viewer sees.",
     .min = 1,
     .max = 64},
    {.name = NULL},
};

static const int unavailable[] = {CLI_EXIT_UNAVAILABLE, 0};
static const int not_found[] = {CLI_EXIT_NOT_FOUND, 0};
static const int conflict_interrupt[] = {CLI_EXIT_CONFLICT,
                                         CLI_EXIT_INTERRUPTED, 0};
static const int found_conflict[] = {CLI_EXIT_NOT_FOUND, CLI_EXIT_CONFLICT, 0};
static const int found_denied[] = {CLI_EXIT_NOT_FOUND, CLI_EXIT_DENIED, 0};
static const int found_conflict_interrupt[] = {
    CLI_EXIT_NOT_FOUND, CLI_EXIT_CONFLICT, CLI_EXIT_INTERRUPTED, 0};
static const int found_interrupt[] = {CLI_EXIT_NOT_FOUND, CLI_EXIT_INTERRUPTED,
                                      0};

const struct cli_verb cli_verbs[] = {
    {.name = "up",
     .usage = "sluice up [OPTION]...",
     .brief = "start a cluster on this machine",
     .text = "Starts a coordinator, psservers and workers as children of this "
             "process, restarts each one that dies, and stops all of them, in "
             "order, at Ctrl-C.",
     .example = "sluice up --psservers 2 --workers 3 --dir ./cluster",
     .keys = up_keys,
     .exits = conflict_interrupt,
     .run = verb_up},
    {.name = "run",
     .usage = "sluice run [OPTION]... [-- OPTION OF THE DAEMON]...",
     .brief = "start the daemon that a launcher's environment asks for",
     .text = "Becomes the coordinator, a psserver or a worker, as TF_CONFIG, "
             "Slurm, torchrun, MPI, SkyPilot or Kubernetes says in the "
             "environment. Other options of the daemon follow --, or are in "
             "its SLUICE_ variables.",
     .example = "srun sluice run --psservers 2 --dir /mnt/cluster\n"
                "         sluice run --discover-only -o json",
     .keys = run_keys,
     .max_args = 1000,
     .json = true,
     .exits = unavailable,
     .run = verb_run},
    {.name = "down",
     .usage = "sluice down [OPTION]...",
     .brief = "stop the cluster that 'up' started",
     .text =
         "Stops the 'sluice up' that runs in a folder, and waits for its end.",
     .example = "sluice down --dir ./cluster",
     .keys = down_keys,
     .exits = not_found,
     .run = verb_down},
    {.name = "submit",
     .usage = "sluice submit FILE [OPTION]...",
     .brief = "submit a job and follow it to its end",
     .text = "Checks a job spec (YAML or JSON, '-' for standard input), "
             "submits it and follows the job to its end. With --resume the new "
             "job starts from a checkpoint, on as many psservers as there are "
             "now ('sluice checkpoints JOB').",
     .example =
         "sluice submit examples/fashion-cnn.yaml --set "
         "train.epochs=2\n         sluice submit examples/fashion-cnn.yaml "
         "--resume j-1",
     .keys = submit_keys,
     .min_args = 1,
     .max_args = 1,
     .remote = true,
     .json = true,
     .exits = conflict_interrupt,
     .run = verb_submit},
    {.name = "validate",
     .usage = "sluice validate FILE [OPTION]...",
     .brief = "check a job spec here, without a cluster",
     .text = "Checks a job spec and prints the model's variables; with -o "
             "json, the whole spec with every default filled in.",
     .example = "sluice validate examples/fashion-cnn.yaml",
     .keys = set_keys,
     .min_args = 1,
     .max_args = 1,
     .json = true,
     .exits = not_found,
     .run = verb_validate},
    {.name = "explain",
     .usage = "sluice explain [FIELD] [OPTION]...",
     .brief = "explain the fields of a job spec",
     .text = "Explains a field of a job spec: its meaning, type and default, "
             "and the keys below it. Without FIELD, lists all keys. Editors "
             "that know YAML can use the schema: begin the file with '# "
             "yaml-language-server: $schema=job.schema.json'.",
     .example = "sluice explain train.mode\n"
                "         sluice explain --schema > job.schema.json",
     .keys = explain_keys,
     .max_args = 1,
     .exits = not_found,
     .run = verb_explain},
    {.name = "import",
     .usage = "sluice import FILE [OPTION]...",
     .brief = "make a job spec from a Keras model",
     .text = "Makes a job spec from the JSON that model.to_json() of Keras 2 "
             "or 3 writes ('-' for standard input). Optimizer and loss are "
             "those of model.compile(), unless --base or --set gives others; "
             "you name the files of the samples. A layer or option that a job "
             "cannot have is refused. sluice.keras.load_weights() loads the "
             "trained weights into Keras.",
     .example = "sluice import model.keras.json -o job.yaml --set "
                "data.train.format=npz\n         --set data.train.x=train.npz",
     .keys = import_keys,
     .min_args = 1,
     .max_args = 1,
     .exits = not_found,
     .run = verb_import},
    {.name = "jobs",
     .usage = "sluice jobs [OPTION]...",
     .brief = "list jobs, newest first",
     .text = "Lists the coordinator's jobs, newest first, and says if there "
             "are more; in JSON, \"more\" is true then.",
     .example = "sluice jobs --limit 5\nsluice jobs --name fashion --all",
     .keys = jobs_keys,
     .remote = true,
     .json = true,
     .lists = {LIST_JOBS},
     .run = verb_jobs},
    {.name = "status",
     .usage = "sluice status [JOB] [OPTION]...",
     .brief = "show a job or the cluster",
     .text = "Without JOB, shows the coordinator and its members. With JOB (an "
             "id, or a name that only one job has), shows its numbers and its "
             "shards; more than 16 shards are two lines. With -o name, prints "
             "the job's id.",
     .example = "sluice status j-1 -o json",
     .keys = status_keys,
     .max_args = 1,
     .remote = true,
     .json = true,
     .lists = {LIST_MEMBERS, LIST_SHARDS},
     .exits = not_found,
     .run = verb_status},
    {.name = "watch",
     .usage = "sluice watch JOB... [OPTION]...",
     .brief = "follow a job on the screen",
     .text = "Follows a job to its end, or to a number of steps. With -o json "
             "each line is a status, and the last line the summary. Several "
             "jobs are followed one after another.",
     .example = "sluice watch j-1 --until-step 1000",
     .keys = watch_keys,
     .min_args = 1,
     .max_args = 1000,
     .remote = true,
     .json = true,
     .exits = found_interrupt,
     .run = verb_watch},
    {.name = "workers",
     .usage = "sluice workers [OPTION]...",
     .brief = "list the workers",
     .text = "Lists the attached workers with their state, leases and device, "
             "and the workers that were lost within the last hour, with time "
             "and cause.",
     .example = "sluice workers -o wide",
     .keys = workers_keys,
     .remote = true,
     .json = true,
     .lists = {LIST_WORKERS},
     .run = verb_workers},
    {.name = "servers",
     .usage = "sluice servers [OPTION]...",
     .brief = "list the psservers",
     .text = "Lists the attached psservers, and lost ones: those lost within "
             "the last hour, and those that shards of a job wait for. What "
             "each does is of the last seconds: processor cores, and pushes "
             "that its shards were asked to take. "
             "deploy/RUNBOOK.md says what to do about a psserver that does not "
             "come back.",
     .example = "sluice servers",
     .remote = true,
     .json = true,
     .lists = {LIST_SERVERS},
     .run = verb_servers},
    {.name = "drain",
     .usage = "sluice drain NAME [OPTION]...",
     .brief = "give no new work to a worker or psserver",
     .text = "A drained worker ends its leases and gets no new ones, so it can "
             "be stopped without repeated work. The shards of a drained "
             "psserver move to other psservers, and it gets none of new jobs; "
             "'sluice servers' says when it has none left. The name stays "
             "drained, also "
             "after restarts of the member or the coordinator, until 'sluice "
             "undrain NAME'.",
     .example = "sluice drain w-7 --why 'a new disk'",
     .keys = drain_keys,
     .min_args = 1,
     .max_args = 1,
     .remote = true,
     .json = true,
     .exits = not_found,
     .run = verb_drain},
    {.name = "undrain",
     .usage = "sluice undrain NAME [OPTION]...",
     .brief = "take a drained member back",
     .text = "Ends the effect of 'sluice drain NAME'. A worker that drains by "
             "itself (after a notice or a signal) goes on draining.",
     .example = "sluice undrain w-7",
     .keys = undrain_keys,
     .min_args = 1,
     .max_args = 1,
     .remote = true,
     .json = true,
     .exits = not_found,
     .run = verb_undrain},
    {.name = "events",
     .usage = "sluice events [JOB] [OPTION]...",
     .brief = "show what happened, when and why",
     .text = "Prints the events of a job, or of all jobs and the cluster: "
             "members that came and went, and work that was lost, retried, "
             "moved, saved or refused, with times and reasons. Events from "
             "before a restart of the coordinator are kept.",
     .example = "sluice events j-1 --follow",
     .keys = events_keys,
     .max_args = 1,
     .remote = true,
     .json = true,
     .lists = {LIST_EVENTS},
     .exits = found_interrupt,
     .run = verb_events},
    {.name = "wait",
     .usage = "sluice wait JOB... [OPTION]...",
     .brief = "wait for the end of jobs without output",
     .text = "Waits until each job has ended. Exits with 0 if all of them "
             "finished.",
     .example = "sluice wait j-1 && sluice export j-1",
     .min_args = 1,
     .max_args = 1000,
     .remote = true,
     .exits = found_interrupt,
     .run = verb_wait},
    {.name = "stop",
     .usage = "sluice stop JOB... [OPTION]...",
     .brief = "end a job and keep its checkpoints",
     .text = "Makes a last checkpoint and ends the job. Its checkpoints stay "
             "until the job is deleted.",
     .example = "sluice stop j-1",
     .keys = stop_keys,
     .min_args = 1,
     .max_args = 1000,
     .remote = true,
     .json = true,
     .exits = found_conflict,
     .run = verb_stop},
    {.name = "delete",
     .usage = "sluice delete JOB... [OPTION]...",
     .brief = "delete an ended job and its checkpoints",
     .text = "Deletes a job that has ended, and all its checkpoints.",
     .example = "sluice delete j-1",
     .min_args = 1,
     .max_args = 1000,
     .remote = true,
     .exits = found_conflict,
     .run = verb_delete},
    {.name = "pause",
     .usage = "sluice pause JOB [OPTION]...",
     .brief = "pause a job and free its workers",
     .text = "Makes a checkpoint of a job, then gives its work to no worker "
             "until 'sluice resume JOB', also after restarts. Its parameters "
             "stay on their psservers; those of an allreduce job are only in "
             "the checkpoint.",
     .example = "sluice pause j-1 --why 'the GPUs are needed'",
     .keys = pause_keys,
     .min_args = 1,
     .max_args = 1,
     .remote = true,
     .json = true,
     .exits = found_conflict,
     .run = verb_pause},
    {.name = "resume",
     .usage = "sluice resume JOB [OPTION]...",
     .brief = "let a paused job go on",
     .text = "Lets a job go on that 'sluice pause' has paused. (An ended job "
             "goes on as a new one: 'sluice submit FILE --resume JOB'.)",
     .example = "sluice resume j-1",
     .min_args = 1,
     .max_args = 1,
     .remote = true,
     .json = true,
     .exits = found_conflict,
     .run = verb_resume},
    {.name = "checkpoint",
     .usage = "sluice checkpoint JOB [OPTION]...",
     .brief = "make a checkpoint of a running job",
     .text = "Makes a checkpoint of all steps counted so far, waits until it "
             "is published and prints the path of its manifest. After "
             "--timeout it stops waiting; the checkpoint is made all the same.",
     .example = "sluice checkpoint j-1",
     .keys = checkpoint_keys,
     .min_args = 1,
     .max_args = 1,
     .remote = true,
     .json = true,
     .exits = found_conflict,
     .run = verb_checkpoint},
    {.name = "checkpoints",
     .usage = "sluice checkpoints JOB [OPTION]...",
     .brief = "list a job's checkpoints",
     .text = "Lists the checkpoints of a job, oldest first. 'whole' means that "
             "all shards hold the same steps, those of full epochs.",
     .example = "sluice checkpoints j-1",
     .min_args = 1,
     .max_args = 1,
     .remote = true,
     .json = true,
     .lists = {LIST_CHECKPOINTS},
     .exits = not_found,
     .run = verb_checkpoints},
    {.name = "logs",
     .usage = "sluice logs JOB|MEMBER [OPTION]...",
     .brief = "show log lines about a job or of a member",
     .text =
         "Prints log lines about one job, from all daemons, or those of one "
         "daemon (w-3, ps-0, coordinator), in the order of their times; with "
         "-o json, an object per line. Reads the files of a 'sluice up' if its "
         "folder is here (--dir). Otherwise, and with --follow, asks the "
         "coordinator, which asks the daemons of all hosts for the newest 256 "
         "KiB that each keeps; this needs an admin's certificate. A daemon "
         "that does not answer is named and left out.",
     .example = "sluice logs j-1 --follow",
     .keys = logs_keys,
     .min_args = 1,
     .max_args = 1,
     .remote = true,
     .json = true,
     .exits = found_conflict_interrupt,
     .run = verb_logs},
    {.name = "quota",
     .usage = "sluice quota [OPTION]...",
     .brief = "show the quotas of tenants and what they use",
     .text = "Lists what each tenant uses of its quota (coordinator --quota); "
             "a submitter sees only its own tenant. Jobs, shards and "
             "parameters (with the optimizer's slots) are those of jobs that "
             "have not ended. Checkpoints are the bytes stored for ended jobs, "
             "and what checkpoint.keep allows for others. '-' stands for "
             "callers without a tenant.",
     .example = "sluice quota",
     .remote = true,
     .json = true,
     .lists = {LIST_TENANTS},
     .run = verb_quota},
    {.name = "tables",
     .usage = "sluice tables JOB [OPTION]...",
     .brief = "show how large a job's sparse tables are",
     .text =
         "Lists the sparse tables of a job (docs/tables.md), as psservers "
         "reported them last: rows, ids that wait for a row, rows gained or "
         "lost per minute (over the last one or two), the memory of all "
         "this, and the rows that lie on disk. Since their shards were loaded: "
         "rows that were admitted and evicted, and gradients that changed no "
         "row.",
     .example = "sluice tables j-1 --by-psserver",
     .keys = tables_keys,
     .min_args = 1,
     .max_args = 1,
     .remote = true,
     .json = true,
     .lists = {LIST_TABLES},
     .exits = not_found,
     .run = verb_tables},
    {.name = "tasks",
     .usage = "sluice tasks [QUEUE] [OPTION]...",
     .brief = "list queues of tasks, or the tasks of one",
     .text =
         "Lists the queues of tasks (docs/tasks.md) with the number of their "
         "tasks: pending, leased to a worker, and ended with a result that the "
         "client has not received. With QUEUE, lists its tasks; 'lost' counts "
         "the workers that fell silent while they had the task.",
     .example = "sluice tasks eval",
     .keys = tasks_keys,
     .max_args = 1,
     .remote = true,
     .json = true,
     .lists = {LIST_QUEUES, LIST_TASKS},
     .exits = not_found,
     .run = verb_tasks},
    {.name = "report",
     .usage = "sluice report JOB [OPTION]...",
     .brief = "write a job's charts as one HTML file",
     .text = "Writes a job's curves, the closures of each worker, its events "
             "and checkpoints as one HTML file that any browser opens, without "
             "a network.",
     .example = "sluice report j-1 -o report.html",
     .keys = report_keys,
     .min_args = 1,
     .max_args = 1,
     .remote = true,
     .exits = not_found,
     .run = verb_report},
    {.name = "trace",
     .usage = "sluice trace JOB [OPTION]...",
     .brief = "record what every process does for a job",
     .text = "Records for some seconds what all workers, psservers and the "
             "coordinator do for a job, and writes it on one clock as a Chrome "
             "trace, which https://ui.perfetto.dev opens.",
     .example = "sluice trace j-1 --seconds 5 -o trace.json",
     .keys = trace_keys,
     .min_args = 1,
     .max_args = 1,
     .remote = true,
     .exits = found_conflict,
     .run = verb_trace},
    {.name = "export",
     .usage = "sluice export [JOB] [OPTION]...",
     .brief = "write a checkpoint as one safetensors file",
     .text =
         "Writes the variables of a checkpoint by name, in Keras' layout, into "
         "one safetensors file; with --from, straight from a manifest's files.",
     .example = "sluice export j-1 --to model.safetensors",
     .keys = export_keys,
     .max_args = 1,
     .remote = true,
     .json = true,
     .exits = not_found,
     .run = verb_export},
    {.name = "follow",
     .usage = "sluice follow JOB --table TABLE --to DIR [OPTION]...",
     .brief = "write each change of a sparse table into a folder",
     .text =
         "Writes a sparse table into a folder and after each checkpoint the "
         "rows that changed and the ids that went, until the job ends. "
         "Goes on where it was when it is started again.",
     .example = "sluice follow j-1 --table users --to users",
     .keys = follow_keys,
     .min_args = 1,
     .max_args = 1,
     .remote = true,
     .exits = found_conflict,
     .run = verb_follow},
    {.name = "doctor",
     .usage = "sluice doctor [OPTION]...",
     .brief = "find faults of this machine and the cluster",
     .text = "Checks this machine and the way to the coordinator: programs, "
             "devices, certificates, limits, disks, members. Names each fault "
             "and what to do about it.",
     .example = "sluice doctor --state ./cluster/ps-0",
     .keys = doctor_keys,
     .json = true,
     .run = verb_doctor},
    {.name = "backup",
     .usage = "sluice backup DIR --state STATE [--store STORE]",
     .brief = "copy a cluster's journal and checkpoints",
     .text = "Copies the coordinator's journal, then the store, into a new "
             "folder while jobs run, and checks that the newest checkpoint of "
             "each job is there. The copy holds the cluster's secret key.",
     .example = "sluice backup /backup/sluice "
                "--state ./cluster/coordinator \\\n"
                "             --store ./cluster/checkpoints",
     .keys = backup_keys,
     .min_args = 1,
     .max_args = 1,
     .exits = found_conflict,
     .run = verb_backup},
    {.name = "restore",
     .usage = "sluice restore DIR --state STATE [--store STORE]",
     .brief = "copy a backup into empty folders",
     .text = "Copies a backup into the state folder and store of a new "
             "coordinator and new psservers of the same names. Checkpoints "
             "made after the journal was copied are left out.",
     .example = "sluice restore /backup/sluice "
                "--state ./cluster/coordinator \\\n"
                "             --store ./cluster/checkpoints",
     .keys = backup_keys,
     .min_args = 1,
     .max_args = 1,
     .exits = found_conflict,
     .run = verb_restore},
    {.name = "cert",
     .usage = "sluice cert init|issue|renew|revoke DIR [OPTION]...",
     .brief = "make certificates for a cluster of several hosts",
     .text = "init makes a private authority and one certificate per role, "
             "valid on all hosts named. issue makes one more, of a role and a "
             "name. renew makes one or all certificates of the folder anew. "
             "revoke revokes one and writes ca.crl for --tls-crl. Needs the "
             "openssl command.",
     .example = "sluice cert init ./certs --host ps1.lan --host 10.0.0.5\n"
                "         sluice cert issue ./certs --role worker --name w7",
     .keys = cert_keys,
     .min_args = 2,
     .max_args = 2,
     .json = true,
     .exits = found_conflict,
     .run = verb_cert},
    {.name = "token",
     .usage = "sluice token [OPTION]...",
     .brief = "print a token for the dashboard",
     .text = "Prints a token that stands for your certificate for a while. "
             "With an admin's token the page of a coordinator with "
             "--dashboard-actions can drain workers and pause, resume and stop "
             "jobs. The certificate's key signs the token on this machine. "
             "Every caller that has the token can use it until it ends.",
     .example = "sluice token --for 30m --tls-ca ca.crt --tls-cert ann.crt \\\n"
                "         --tls-key ann.key",
     .keys = token_keys,
     .json = true,
     .exits = found_denied,
     .run = verb_token},
    {.name = "audit",
     .usage = "sluice audit verify [FILE]... [OPTION]...",
     .brief = "verify that an audit log was not changed",
     .text =
         "Verifies a coordinator's audit.log (without FILE, that of ./cluster) "
         "and the full audit.log.N files beside it: each line holds the hash "
         "of the line before. Several FILEs are read as given, oldest first. "
         "Prints the number of lines that hold and the last hash.",
     .example = "sluice audit verify /var/lib/sluice/coordinator/audit.log",
     .keys = audit_keys,
     .min_args = 1,
     .max_args = 100000,
     .json = true,
     .exits = not_found,
     .run = verb_audit},
    {.name = "completion",
     .usage = "sluice completion bash|zsh|fish",
     .brief = "print a completion script for a shell",
     .text = "Prints a script that completes verbs, options, and the names of "
             "jobs and members in this shell.",
     .example = "sluice completion bash > sluice.bash; . ./sluice.bash",
     .min_args = 1,
     .max_args = 1,
     .run = verb_completion},
    {.name = "version",
     .usage = "sluice version",
     .brief = "print the version",
     .text = "Prints the version.",
     .example = "sluice version",
     .json = true,
     .run = verb_version},
    {.name = NULL},
};
