// SPDX-License-Identifier: Apache-2.0
// client/cli/verbs.h -- one function per verb; the table is in
// client/verb_table.c.
//
// Threads  main.
// Memory   `cli` is borrowed for the call: filled in, with flags and words
//          checked by cli_main. A verb waits for what it asks for.
// Errors   each function runs its verb with the parsed command line. It returns
//          CLI_EXIT_OK if all that it does was done; CLI_EXIT_USAGE for words
//          or flags that do not fit; else what cli_exit_of makes of the error,
//          where nothing else is said. If it is not 0, stderr has the reason.
//
// A verb with JOB takes a job's id, or a name that only one job has; results go
// to stdout in the form of -o, news to stderr.
#ifndef CLIENT_CLI_VERBS_H
#define CLIENT_CLI_VERBS_H

struct cli;

// Runs a cluster as children of this process, in the folder --dir, until a
// signal stops it, or with --detach in the background (up.c): it returns then
// when all is ready. CLI_EXIT_FAILED: the cluster did not come up;
// CLI_EXIT_INTERRUPTED: a signal came before it was up.
int verb_up(struct cli *cli);
// Becomes the daemon that a launcher's environment asks for: coordinator,
// psserver or worker (run.c). Returns only if that fails, with --discover-only,
// which prints what would be started, or if there is nothing to start (an
// evaluator). CLI_EXIT_USAGE: also, nothing was found in the environment.
int verb_run(struct cli *cli);
// Stops the cluster that `up` has started in --dir, by SIGTERM, and waits for
// its end, four times --grace at most (down.c). CLI_EXIT_NOT_FOUND: none runs;
// CLI_EXIT_DENIED: of another user; CLI_EXIT_UNAVAILABLE: it still runs.
int verb_down(struct cli *cli);
// Checks the spec in FILE, with --set, submits it and follows the job to its
// end (submit.c): returns as follow_job then. With --no-wait prints the job's
// id instead, with --dry-run what the coordinator says of the placement, and
// submits nothing. Waits for a coordinator that is not there yet, for
// --wait-for-coordinator or else --timeout.
int verb_submit(struct cli *cli);
// Checks the spec in FILE, with --set, without a cluster, and prints the
// model's variables, in JSON the spec with all defaults (submit.c).
int verb_validate(struct cli *cli);
// Makes a job spec of the Keras model in FILE, with --base and --set, checks it
// and writes it to the file -o or stdout (import.c). What neither says, as
// data, is left out and named on stderr; that is no failure.
int verb_import(struct cli *cli);
// Lists jobs, the newest first: --limit of them or --all, or those called
// --name (jobs.c).
int verb_jobs(struct cli *cli);
// Shows JOB with its shards, of which many are two lines without --shards, or
// without JOB the coordinator and its members (status_verb.c).
int verb_status(struct cli *cli);
// Lists the workers, or with --suspect those that an audit found wrong
// (members.c).
int verb_workers(struct cli *cli);
// Lists the psservers, also those that were lost lately (members.c).
int verb_servers(struct cli *cli);
// Drains the worker or psserver NAME: it is given no new work (members.c). Does
// not wait until it has none. OK, too, if it was drained already.
int verb_drain(struct cli *cli);
// Ends the drain of the member NAME (members.c). OK, too, if there was none.
int verb_undrain(struct cli *cli);
// Follows each JOB on the screen to its end, or to --until-step, one after
// another (jobs.c). Returns the first code of follow_job that is not 0; goes on
// with the next job but after CLI_EXIT_UNAVAILABLE, SIGINT and SIGTERM.
// CLI_EXIT_USAGE: also, --summary or --tensorboard with several jobs.
int verb_watch(struct cli *cli);
// Prints the newest events, --last of them or those after --after, of JOB or of
// all, the oldest first (events.c). With --follow goes on, also while the
// coordinator is away, until JOB has ended; without JOB until a signal.
int verb_events(struct cli *cli);
// Waits for the end of each JOB, without output; returns as verb_watch, 0 if
// all finished (jobs.c).
int verb_wait(struct cli *cli);
// Ends each JOB after a last checkpoint, with --now without, waits for its end
// and keeps its checkpoints (jobs.c). Goes on with the next job after one that
// fails, unless the coordinator is away or stdout takes no more, and returns
// the first failure.
int verb_stop(struct cli *cli);
// Deletes each ended JOB with its checkpoints (jobs.c). Goes on as verb_stop
// does.
int verb_delete(struct cli *cli);
// Pauses JOB and frees its workers; waits until that holds, which is after a
// checkpoint or with --now without one, for ever or for a --timeout that was
// set (pause.c). CLI_EXIT_FAILED: it is not paused, as when it was resumed
// meanwhile; CLI_EXIT_UNAVAILABLE: also, not within --timeout.
int verb_pause(struct cli *cli);
// Lets the paused JOB go on (pause.c). CLI_EXIT_FAILED: it is paused still.
int verb_resume(struct cli *cli);
// Has a checkpoint of the running JOB made, waits for it as verb_pause does and
// prints the path of its manifest; with --no-wait only asks for it
// (checkpoint.c). CLI_EXIT_UNAVAILABLE: not within --timeout; it is made all
// the same.
int verb_checkpoint(struct cli *cli);
// Lists the checkpoints of JOB, the oldest first (checkpoints.c).
int verb_checkpoints(struct cli *cli);
// Prints log lines about JOB, an id, or of a member, by their times: from the
// files of a local cluster if --dir is given, or is there and no --coordinator
// is given, else through the coordinator (logs.c). CLI_EXIT_NOT_FOUND: there is
// no line. With --follow asks the coordinator, and goes on until a signal.
int verb_logs(struct cli *cli);
// Shows the quotas of tenants, and what they use (quota.c).
int verb_quota(struct cli *cli);
// Shows how large the sparse tables of JOB are, of all psservers together or
// --by-psserver (table_list.c).
int verb_tables(struct cli *cli);
// Lists queues of tasks, or with QUEUE its tasks, the oldest --limit of them;
// with --delete QUEUE deletes a queue with all that is in it (tasks.c).
int verb_tasks(struct cli *cli);
// Prints a token for the dashboard, which stands for the certificate --tls-cert
// for the time --for; asks no coordinator (cert_token.c).
int verb_token(struct cli *cli);
// Records for --seconds what every process does for JOB, and writes it as a
// Chrome trace to the file -o, else trace.json (trace.c). Processes without
// spans are named on stderr; that is no failure.
int verb_trace(struct cli *cli);
// Writes the charts of JOB as one HTML file, -o, else report.html (report.c).
int verb_report(struct cli *cli);
// Writes a checkpoint of JOB (--cut, --best, else the one that it ended with,
// or the last), or that of the manifest --from without a coordinator, as one
// safetensors file, --to, or "j-N.safetensors" here: its variables, or the rows
// of --table, or what of them changed --since a cut (export.c).
int verb_export(struct cli *cli);
// Writes --table of JOB into the folder --to, and after each checkpoint what
// changed, until the job ends; with --once what is new now (table_follow.c).
// Once it has begun, it tries again after failures that may pass.
int verb_follow(struct cli *cli);
// Finds faults of this machine and the cluster, and prints them (doctor.c).
// CLI_EXIT_FAILED: there is at least one, of FINDING_BAD; warnings are none.
int verb_doctor(struct cli *cli);
// Explains the field FIELD of a job spec with the keys below it, or all; with
// --schema prints a JSON schema (explain.c).
int verb_explain(struct cli *cli);
// Copies the journal of --state and the checkpoints of --store (without it the
// journal alone) into the new folder DIR, while jobs may run (backup.c). After
// a failure the copies of the journal are removed; files of the store stay.
// CLI_EXIT_CONFLICT: DIR has a journal, or a checkpoint went meanwhile.
int verb_backup(struct cli *cli);
// Copies the backup DIR into the empty folders --state and --store, but for
// checkpoints that are newer than its journal (backup.c). After a failure the
// copies of the journal are removed; files of the store stay.
// CLI_EXIT_CONFLICT: --state has a journal, or --store such a file.
int verb_restore(struct cli *cli);
// Verifies that an audit log, `audit verify [FILE]...`, was not changed, and
// prints how many lines hold (audit.c). One FILE, or that of ./cluster without
// any, stands for the full logs beside it, too; several are read as given, the
// oldest first, and for themselves alone. CLI_EXIT_FAILED: it was
// changed, or its beginning is missing and not named with --after.
int verb_audit(struct cli *cli);
// Makes an authority with certificates (`cert init DIR`), one more certificate
// (issue), or renews or revokes them; needs the openssl command (cert.c). Sets
// the umask to 077. CLI_EXIT_CONFLICT: what it would overwrite is there.
int verb_cert(struct cli *cli);
// Prints a completion script for a shell: bash, zsh or fish (completion.c).
int verb_completion(struct cli *cli);
// Prints the version (version.c).
int verb_version(struct cli *cli);

#endif
