// SPDX-License-Identifier: Apache-2.0
// client/verbs.c -- the table of verbs and their flags.
#include "client/verbs.h"
#include "common/store/place.h"

#include "client/cli.h"
#include "client/gpus.h"
#include "common/launch/launch.h"

#define SET_KEY                                                                \
    {                                                                          \
        .name = "set", .kind = CONF_MULTI,                                     \
        .help = "Override a key of the spec: train.epochs=2."                  \
    }
#define PERIOD_KEY                                                             \
    {                                                                          \
        .name = "period", .kind = CONF_MS, .value = "30s", .min = 100,         \
        .max = 86400000, .help = "Between progress lines off a terminal."      \
    }
#define SUMMARY_KEY                                                            \
    {                                                                          \
        .name = "summary", .kind = CONF_STRING,                                \
        .help = "Write the end's numbers here (JSON); -: stdout."              \
    }
#define DIR_KEY                                                                \
    {                                                                          \
        .name = "dir", .kind = CONF_STRING, .value = "./cluster",              \
        .help = "Folder of the cluster."                                       \
    }
#define GRACE_KEY                                                              \
    {                                                                          \
        .name = "grace", .kind = CONF_MS, .value = "10s", .min = 100,          \
        .max = 600000, .help = "For each role to end; then it is killed."      \
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
     .help = "Below them jobs may have data read."},
    {.name = "listen",
     .kind = CONF_STRING,
     .help = "host:port (open to every user here) or unix:/path; without it "
             "a socket of your own."},
    {.name = "threads",
     .kind = CONF_INT,
     .value = "0",
     .min = 0,
     .max = 1024,
     .help = "That each worker computes on; 0: cores / workers."},
    {.name = "device",
     .kind = CONF_STRING,
     .value = "auto",
     .help = "What workers compute with: auto, cuda:N, cpu or ref, or several "
             "for one step as in cpu,cpu.",
     .min = 1,
     .max = 159},
    {.name = "gpus",
     .kind = CONF_STRING,
     .help = "One worker per GPU: all of this host, or so many. Others only "
             "if --workers says so.",
     .min = 1,
     .max = 8},
    {.name = "gpus-per-worker",
     .kind = CONF_INT,
     .value = "1",
     .min = 1,
     .max = GPUS_PER_WORKER,
     .help = "So many compute each step together, as one worker."},
    {.name = "detach",
     .kind = CONF_BOOL,
     .value = "no",
     .help = "Return when all is ready; 'sluice down' stops it."},
    {.name = "log-bytes",
     .kind = CONF_BYTES,
     .value = "16MiB",
     .min = 65536,
     .max = INT64_C(1) << 40,
     .help = "Of DIR/log/NAME.log; what was before is NAME.log.1."},
    GRACE_KEY,
    {.name = NULL},
};

static const struct conf_key logs_keys[] = {
    DIR_KEY,
    {.name = "follow",
     .letter = 'f',
     .kind = CONF_BOOL,
     .value = "no",
     .help = "Go on with the lines that come, as the coordinator hears them."},
    {.name = NULL}};

static const struct conf_key run_keys[] = {
    {.name = "discover",
     .kind = CONF_CHOICE,
     .value = "auto",
     .choices = LAUNCH_SOURCES,
     .help = "Whose environment is read (docs/launchers.md)."},
    {.name = "role",
     .kind = CONF_CHOICE,
     .value = "auto",
     .choices = LAUNCH_ROLES,
     .help = "Of all ranks; auto: rank 0 coordinates, psservers follow, then "
             "workers."},
    {.name = "psservers",
     .kind = CONF_INT,
     .value = "1",
     .min = 0,
     .max = LAUNCH_PSSERVERS_MAX,
     .help = "How many ranks are psservers."},
    {.name = "base-port",
     .kind = CONF_INT,
     .value = "7070",
     .min = 1,
     .max = 65535,
     .help = "The coordinator's; psserver I has this and I + 1 more."},
    {.name = "service",
     .kind = CONF_STRING,
     .value = "coordinator",
     .help = "With dns: the name that the coordinator has.",
     .min = 1,
     .max = 253},
    DIR_KEY,
    {.name = "certs",
     .kind = CONF_STRING,
     .help = "Folder of 'sluice cert init': the role's own are shown.",
     .min = 1,
     .max = 3000},
    {.name = "discover-only",
     .kind = CONF_BOOL,
     .value = "no",
     .help = "Print what was found, from where, and what it would start."},
    {.name = NULL},
};

static const struct conf_key down_keys[] = {DIR_KEY, GRACE_KEY, {.name = NULL}};

static const struct conf_key submit_keys[] = {
    SET_KEY,
    {.name = "wait",
     .kind = CONF_BOOL,
     .value = "yes",
     .help = "Follow to the end; --no-wait prints only the id."},
    {.name = "follow",
     .kind = CONF_BOOL,
     .value = "yes",
     .help = "The default, for those who like to say it."},
    {.name = "dry-run",
     .kind = CONF_BOOL,
     .value = "no",
     .help = "Check and explain the placement, submit nothing."},
    {.name = "resume",
     .kind = CONF_STRING,
     .help = "Start from this cut: a manifest, or an ended job."},
    {.name = "weights",
     .kind = CONF_STRING,
     .help = "Start with the values of this safetensors file, as 'export' "
             "writes it; who keeps them must find it."},
    {.name = "request-id",
     .kind = CONF_STRING,
     .help = "Submissions with the same word are one job.",
     .min = 1,
     .max = 64},
    {.name = "wait-for-coordinator",
     .kind = CONF_MS,
     .min = 0,
     .max = 86400000,
     .help = "If nobody listens yet; else --timeout."},
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
     .help = "Lose what was trained since the last checkpoint."},
    {.name = NULL},
};

static const struct conf_key audit_keys[] = {
    {.name = "after",
     .kind = CONF_STRING,
     .min = 64,
     .max = 64,
     .help = "Hash of the line before the first one, whose file is gone."},
    {.name = NULL},
};

static const struct conf_key pause_keys[] = {
    {.name = "now",
     .kind = CONF_BOOL,
     .value = "no",
     .help =
         "Do not wait for a checkpoint. Of an allreduce job the steps since "
         "the last one are done again."},
    {.name = "why",
     .kind = CONF_STRING,
     .help = "For those who look at the job meanwhile.",
     .min = 1,
     .max = 200},
    {.name = NULL},
};

static const struct conf_key checkpoint_keys[] = {
    {.name = "wait",
     .kind = CONF_BOOL,
     .value = "yes",
     .help = "Until it is published; --no-wait only asks for it."},
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
     .help = "The newest so many."},
    {.name = "all",
     .kind = CONF_BOOL,
     .value = "false",
     .help = "All of them."},
    {.name = "name", .kind = CONF_STRING, .help = "Those of this name alone."},
    {.name = NULL},
};

static const struct conf_key tasks_keys[] = {
    {.name = "limit",
     .kind = CONF_INT,
     .value = "100",
     .min = 1,
     .max = 10000,
     .help = "The oldest so many of a queue."},
    {.name = "delete",
     .kind = CONF_STRING,
     .help = "Delete this queue, with all its tasks and results.",
     .min = 1,
     .max = 200},
    {.name = "tenant",
     .kind = CONF_STRING,
     .help = "Whose queue, for those who see all.",
     .min = 1,
     .max = 64},
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
     .help = "End when so many steps are counted."},
    {.name = "tensorboard",
     .kind = CONF_STRING,
     .help = "Folder for curves: event files of the runs JOB and "
             "JOB/validation."},
    {.name = "histograms",
     .kind = CONF_BOOL,
     .value = "no",
     .help = "With --tensorboard: of the delays of updates, too."},
    SUMMARY_KEY,
    PERIOD_KEY,
    {.name = NULL},
};

#define ROLE_KEY                                                               \
    {                                                                          \
        .name = "role", .kind = CONF_STRING, .min = 1, .max = 10,              \
        .help = "worker or psserver, where both have the name."                \
    }

static const struct conf_key drain_keys[] = {
    {.name = "why",
     .kind = CONF_STRING,
     .help = "For those who look at the member meanwhile.",
     .min = 1,
     .max = 200},
    ROLE_KEY,
    {.name = NULL},
};

static const struct conf_key undrain_keys[] = {ROLE_KEY, {.name = NULL}};

static const struct conf_key events_keys[] = {
    {.name = "follow",
     .letter = 'f',
     .kind = CONF_BOOL,
     .value = "no",
     .help = "Go on with what happens, to the end of the job, or for ever."},
    {.name = "last",
     .kind = CONF_INT,
     .value = "1000",
     .min = 1,
     .max = 1000,
     .help = "Begin with the newest so many."},
    {.name = "after",
     .kind = CONF_INT,
     .value = "0",
     .min = 0,
     .max = INT64_MAX,
     .help = "Begin after the event of this id, with all that are kept."},
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
     .help = "For how long."},
    {.name = NULL},
};

static const struct conf_key token_keys[] = {
    {.name = "for",
     .kind = CONF_MS,
     .value = "1h",
     .min = 1000,
     .max = 86400000,
     .help = "Until it ends."},
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
     .help = "File to write, '-': stdout; default JOB.safetensors."},
    {.name = "cut",
     .kind = CONF_INT,
     .value = "0",
     .min = 0,
     .max = INT64_MAX,
     .help = "Which checkpoint; 0: the one that the job ended with."},
    {.name = "best",
     .kind = CONF_BOOL,
     .help = "The best one, of a job with callbacks.best_checkpoint."},
    {.name = "from",
     .kind = CONF_STRING,
     .help = "Read this manifest's files, of a folder or s3://BUCKET/..; no "
             "coordinator needed."},
    STORE_KEYS,
    {.name = NULL},
};

static const struct conf_key doctor_keys[] = {
    {.name = "state",
     .kind = CONF_STRING,
     .help = "Also measure this state folder."},
    {.name = "store",
     .kind = CONF_STRING,
     .help = "Is the store on another disk than --state? Of one in S3: may "
             "files be written there?"},
    STORE_KEYS,
    {.name = "certs",
     .kind = CONF_STRING,
     .help = "Say whose certificates of this folder would be refused."},
    {.name = NULL},
};

static const struct conf_key explain_keys[] = {
    {.name = "schema",
     .kind = CONF_BOOL,
     .value = "no",
     .help = "Print a JSON schema of all of it, for editors."},
    {.name = NULL},
};

static const struct conf_key backup_keys[] = {
    {.name = "state",
     .kind = CONF_STRING,
     .help = "The coordinator's state folder; that of 'up': DIR/coordinator.",
     .min = 1,
     .max = 4096},
    {.name = "store",
     .kind = CONF_STRING,
     .help =
         "The folder of checkpoints; that of 'up': DIR/checkpoints. Without "
         "it the journal alone.",
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
     .help = "Of whom it is; a worker attends under it. '*': any.",
     .min = 1,
     .max = 100},
    {.name = "tenant",
     .kind = CONF_STRING,
     .help = "Whose jobs a submitter or viewer sees.",
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
             "process, starts again what dies, and stops all of it, in "
             "order, at Ctrl-C.",
     .example = "sluice up --psservers 2 --workers 3 --dir ./cluster",
     .keys = up_keys,
     .exits = conflict_interrupt,
     .run = verb_up},
    {.name = "run",
     .usage = "sluice run [OPTION]... [-- OPTION OF THE DAEMON]...",
     .brief = "start the daemon that a launcher wants here",
     .text = "Becomes the coordinator, a psserver or a worker, as TF_CONFIG, "
             "Slurm, torchrun, MPI, SkyPilot or Kubernetes says in the "
             "environment. What the daemon takes beside stands after --, or is "
             "in its SLUICE_ variables.",
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
     .text = "Ends the 'sluice up' that runs in a folder, and waits for it.",
     .example = "sluice down --dir ./cluster",
     .keys = down_keys,
     .exits = not_found,
     .run = verb_down},
    {.name = "submit",
     .usage = "sluice submit FILE [OPTION]...",
     .brief = "submit a job and follow it to its end",
     .text = "Checks a job spec (YAML or JSON, '-' for standard input), "
             "submits it and follows the job to its end. With --resume the "
             "new job goes on where a cut of another one stands, on as many "
             "psservers as there are now; 'sluice checkpoints JOB' lists cuts.",
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
             "json the whole spec with every default filled in.",
     .example = "sluice validate examples/fashion-cnn.yaml",
     .keys = set_keys,
     .min_args = 1,
     .max_args = 1,
     .json = true,
     .exits = not_found,
     .run = verb_validate},
    {.name = "explain",
     .usage = "sluice explain [FIELD] [OPTION]...",
     .brief = "say what may stand in a job spec",
     .text = "Says of a field of a job spec what it means, its type and its "
             "default; of one that has keys, and without a field, all keys. "
             "An editor that knows YAML takes the schema: in a file of YAML, "
             "'# yaml-language-server: $schema=job.schema.json'.",
     .example = "sluice explain train.mode\n"
                "         sluice explain --schema > job.schema.json",
     .keys = explain_keys,
     .max_args = 1,
     .exits = not_found,
     .run = verb_explain},
    {.name = "import",
     .usage = "sluice import FILE [OPTION]...",
     .brief = "make a job spec of a Keras model",
     .text = "Makes of what model.to_json() writes in Keras 2 or 3 ('-' for "
             "standard input) a job spec for our workers. Optimizer and loss "
             "are those it was compiled with, unless --base or --set say "
             "others; where samples are is yours to say. What a job cannot "
             "have is refused. The result goes back with "
             "sluice.keras.load_weights.",
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
     .text = "Lists the coordinator's jobs, newest first. If there are more "
             "than it lists, it says so; in JSON \"more\" is true then.",
     .example = "sluice jobs --limit 5\nsluice jobs --name fashion --all",
     .keys = jobs_keys,
     .remote = true,
     .json = true,
     .lists = {LIST_JOBS},
     .run = verb_jobs},
    {.name = "status",
     .usage = "sluice status [JOB] [OPTION]...",
     .brief = "of a job, or of the cluster",
     .text = "Without JOB: the coordinator and who is attached to it. With "
             "JOB (an id, or a name that only one job has): its numbers and "
             "its shards, in two lines where there are more than 16; with "
             "-o name its id.",
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
     .text = "Follows a job to its end, or until so many steps are counted. "
             "With -o json each line is a status, and the last the summary. "
             "Several jobs are followed one after another.",
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
     .text = "Lists the workers that are attached: their state, what they hold "
             "and compute with; and those that were lost within the last hour, "
             "when and how.",
     .example = "sluice workers -o wide",
     .remote = true,
     .json = true,
     .lists = {LIST_WORKERS},
     .run = verb_workers},
    {.name = "servers",
     .usage = "sluice servers [OPTION]...",
     .brief = "list the psservers",
     .text = "Lists the psservers that are attached, and those that are lost: "
             "within the last hour, or while shards of a job wait for them. "
             "deploy/RUNBOOK.md says what to do about one that does not come "
             "back.",
     .example = "sluice servers",
     .remote = true,
     .json = true,
     .lists = {LIST_SERVERS},
     .run = verb_servers},
    {.name = "drain",
     .usage = "sluice drain NAME [OPTION]...",
     .brief = "give nothing more to a worker or psserver",
     .text = "A worker ends what it computes and is given nothing more, so it "
             "can be stopped and nothing is done again. A psserver keeps its "
             "shards and gets none of new jobs. It is the name that is "
             "drained, over restarts of anybody, until 'sluice undrain NAME'.",
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
     .text = "Takes back what 'sluice drain NAME' has done. A worker that "
             "drains by itself (a notice, a signal) goes on draining.",
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
     .brief = "what happened, when, and why",
     .text = "Prints what happened to a job, or to all of them and the "
             "cluster: who came and went, what was lost, retried, moved, saved "
             "and refused, with times and reasons. It goes back over restarts "
             "of the coordinator.",
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
     .brief = "wait for a job's end, in silence",
     .text = "Waits until each job has ended. Exits with 0 if all have "
             "finished.",
     .example = "sluice wait j-1 && sluice export j-1",
     .min_args = 1,
     .max_args = 1000,
     .remote = true,
     .exits = found_interrupt,
     .run = verb_wait},
    {.name = "stop",
     .usage = "sluice stop JOB... [OPTION]...",
     .brief = "end a job; its checkpoints stay",
     .text = "Makes a checkpoint of what is counted, and ends the job. Its "
             "checkpoints stay until it is deleted.",
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
     .brief = "forget an ended job and its checkpoints",
     .text = "Deletes a job that has ended, and all its checkpoints.",
     .example = "sluice delete j-1",
     .min_args = 1,
     .max_args = 1000,
     .remote = true,
     .exits = found_conflict,
     .run = verb_delete},
    {.name = "pause",
     .usage = "sluice pause JOB [OPTION]...",
     .brief = "let a job lie still, its workers go",
     .text = "Makes a checkpoint of a job, and then gives nothing of it to "
             "workers any more until 'sluice resume JOB', also over restarts. "
             "Its parameters stay on their psservers; of an allreduce job they "
             "stay in the checkpoint alone.",
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
     .brief = "set a paused job going again",
     .text = "Sets a job going again that 'sluice pause' has paused. (One that "
             "has ended goes on as another job: 'sluice submit FILE --resume "
             "JOB'.)",
     .example = "sluice resume j-1",
     .min_args = 1,
     .max_args = 1,
     .remote = true,
     .json = true,
     .exits = found_conflict,
     .run = verb_resume},
    {.name = "checkpoint",
     .usage = "sluice checkpoint JOB [OPTION]...",
     .brief = "make a checkpoint of a job that goes on",
     .text = "Has a checkpoint made that holds what is counted by now, waits "
             "until it is published and prints its manifest. With --timeout "
             "it waits no longer than that; the checkpoint is made all the "
             "same.",
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
     .text = "Lists the cuts of a job, oldest first. 'whole': all shards hold "
             "the same steps, those of a full epoch.",
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
     .brief = "what the daemons said of a job",
     .text = "Prints the lines of the log about one job, of all daemons, or of "
             "one daemon (w-3, ps-0, coordinator), in the order of their "
             "times; with -o json as they were written, an object each. Where "
             "the folder of a 'sluice up' is at hand (--dir) its files have "
             "them. Otherwise, and with --follow, the coordinator is asked, "
             "which asks the daemons of all hosts for the newest that they "
             "keep (256 KiB each); of certificates it needs an admin's. Who "
             "does not answer is named and left out.",
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
     .brief = "what tenants have, and may have",
     .text = "Lists what each tenant has, of what it may have (coordinator "
             "--quota); of a submitter its own alone. jobs, shards and "
             "parameters (with the optimizer's slots) are of jobs that have "
             "not ended. checkpoints are what is stored of ended jobs, and of "
             "others what checkpoint.keep may come to. '-' has no tenant.",
     .example = "sluice quota",
     .remote = true,
     .json = true,
     .lists = {LIST_TENANTS},
     .run = verb_quota},
    {.name = "tasks",
     .usage = "sluice tasks [QUEUE] [OPTION]...",
     .brief = "queues of tasks, or the tasks of one",
     .text = "Lists the queues of tasks (docs/tasks.md) with what they keep: "
             "pending, leased to a worker, and ended with a result that its "
             "client has not received. With QUEUE, its tasks; 'lost' is how "
             "many workers fell silent while they did one.",
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
     .brief = "write a job's charts as one page",
     .text = "Writes the curves, the closures over workers, the events and the "
             "checkpoints of a job into one file, which any browser shows, "
             "without a network.",
     .example = "sluice report j-1 -o report.html",
     .keys = report_keys,
     .min_args = 1,
     .max_args = 1,
     .remote = true,
     .exits = not_found,
     .run = verb_report},
    {.name = "trace",
     .usage = "sluice trace JOB [OPTION]...",
     .brief = "write what every process does for a job",
     .text = "Has all workers, psservers and the coordinator note what they do "
             "for a job, for some seconds, and writes it on one clock as a "
             "Chrome trace, which https://ui.perfetto.dev opens.",
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
     .text = "Writes the variables of a checkpoint by name, in Keras' "
             "layout, into one safetensors file: from the psservers, or "
             "with --from straight from a manifest's files.",
     .example = "sluice export j-1 --to model.safetensors",
     .keys = export_keys,
     .max_args = 1,
     .remote = true,
     .json = true,
     .exits = not_found,
     .run = verb_export},
    {.name = "doctor",
     .usage = "sluice doctor [OPTION]...",
     .brief = "look for what is wrong here",
     .text = "Checks this machine and the way to the coordinator: programs, "
             "devices, certificates, limits, disks, members. Each fault is "
             "named, with what to do.",
     .example = "sluice doctor --state ./cluster/ps-0",
     .keys = doctor_keys,
     .json = true,
     .run = verb_doctor},
    {.name = "backup",
     .usage = "sluice backup DIR --state STATE [--store STORE]",
     .brief = "copy a cluster's journal and checkpoints",
     .text = "Copies the coordinator's journal, then the store, into a folder "
             "that it makes, while jobs run, and checks that each job's newest "
             "checkpoint is there. The copy holds the cluster's key.",
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
     .brief = "put a backup into empty folders",
     .text = "Copies a backup to where a new coordinator and new psservers of "
             "the same names look. Checkpoints that were made after the "
             "journal was copied are left out.",
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
     .brief = "make certificates for a cluster of many hosts",
     .text = "init: a private authority and one certificate per role, valid on "
             "all hosts named. issue: one more, of a role and a name. renew: "
             "one, or all of the folder. revoke: one; gives ca.crl for "
             "--tls-crl. Needs the openssl command.",
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
     .text =
         "Prints a token that speaks for our certificate for a while, where "
         "none can be shown: an admin's lets the page of a coordinator with "
         "--dashboard-actions drain workers and pause, resume and stop "
         "jobs. It is signed with the certificate's key; nobody is asked. "
         "Whoever has it can use it until it ends.",
     .example = "sluice token --for 30m --tls-ca ca.crt --tls-cert ann.crt \\\n"
                "         --tls-key ann.key",
     .keys = token_keys,
     .json = true,
     .exits = found_denied,
     .run = verb_token},
    {.name = "audit",
     .usage = "sluice audit verify [FILE]... [OPTION]...",
     .brief = "check that an audit log was not changed",
     .text = "Reads a coordinator's audit.log (of its state folder; without "
             "FILE, of ./cluster), in which each line holds the hash of the "
             "one before, with the audit.log.N beside it that were full before "
             "it; of several FILEs these alone, the oldest first. Says how "
             "many lines hold and the last hash.",
     .example = "sluice audit verify /var/lib/sluice/coordinator/audit.log",
     .keys = audit_keys,
     .min_args = 1,
     .max_args = 100000,
     .json = true,
     .exits = not_found,
     .run = verb_audit},
    {.name = "completion",
     .usage = "sluice completion bash|zsh|fish",
     .brief = "print what completes commands in a shell",
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
