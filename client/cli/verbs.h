// SPDX-License-Identifier: Apache-2.0
// client/cli/verbs.h -- one function per verb; the table is in
// client/verb_table.c.
//
// Threads  main.
// Memory   `cli` is borrowed for the call: filled in, with flags and words
//          checked by cli_main. A verb waits for what it asks for.
// Errors   each function runs its verb with the parsed command line, and
//          returns an exit code of cli.h; if that is not 0, stderr has the
//          reason.
#ifndef CLIENT_CLI_VERBS_H
#define CLIENT_CLI_VERBS_H

struct cli;

// Runs a cluster as children of this process until it is stopped, or with
// --detach in the background (up.c).
int verb_up(struct cli *cli);
// Becomes the daemon that a launcher's environment asks for: coordinator,
// psserver or worker (run.c). Returns only if that fails, or with
// --discover-only.
int verb_run(struct cli *cli);
// Stops the cluster that `up` has started (down.c).
int verb_down(struct cli *cli);
// Submits a job and follows it to its end (submit.c).
int verb_submit(struct cli *cli);
// Checks a job spec without a cluster (submit.c).
int verb_validate(struct cli *cli);
// Writes a job spec made from a Keras model (import.c).
int verb_import(struct cli *cli);
// Lists jobs, the newest first (jobs.c).
int verb_jobs(struct cli *cli);
// Shows a job, or the cluster (status_verb.c).
int verb_status(struct cli *cli);
// Lists the workers (members.c).
int verb_workers(struct cli *cli);
// Lists the psservers (members.c).
int verb_servers(struct cli *cli);
// Drains a worker or psserver: it is given no new work (members.c).
int verb_drain(struct cli *cli);
// Ends the drain of a member (members.c).
int verb_undrain(struct cli *cli);
// Follows a job on the screen (jobs.c).
int verb_watch(struct cli *cli);
// Shows events: what happened, when and why (events.c).
int verb_events(struct cli *cli);
// Waits for the end of jobs, without output (jobs.c).
int verb_wait(struct cli *cli);
// Ends jobs, and keeps their checkpoints (jobs.c). Goes on with the next job
// after one that fails, and returns the first failure.
int verb_stop(struct cli *cli);
// Deletes ended jobs with their checkpoints (jobs.c). Goes on as verb_stop
// does.
int verb_delete(struct cli *cli);
// Pauses a job and frees its workers (pause.c).
int verb_pause(struct cli *cli);
// Lets a paused job go on (pause.c).
int verb_resume(struct cli *cli);
// Has a checkpoint of a running job made, and waits for it (checkpoint.c).
int verb_checkpoint(struct cli *cli);
// Lists a job's checkpoints (checkpoints.c).
int verb_checkpoints(struct cli *cli);
// Shows log lines about a job or of a member (logs.c).
int verb_logs(struct cli *cli);
// Shows the quotas of tenants, and what they use (quota.c).
int verb_quota(struct cli *cli);
// Shows how large a job's sparse tables are (table_list.c).
int verb_tables(struct cli *cli);
// Lists queues of tasks, or the tasks of one; deletes a queue with all that is
// in it (tasks.c).
int verb_tasks(struct cli *cli);
// Prints a token for the dashboard (cert_token.c).
int verb_token(struct cli *cli);
// Writes a trace of what every process does for a job (trace.c).
int verb_trace(struct cli *cli);
// Writes a job's charts as one HTML file (report.c).
int verb_report(struct cli *cli);
// Writes a checkpoint as one safetensors file (export.c).
int verb_export(struct cli *cli);
// Writes each change of a sparse table into a folder (table_follow.c).
int verb_follow(struct cli *cli);
// Finds faults of this machine and the cluster (doctor.c).
int verb_doctor(struct cli *cli);
// Explains the fields of a job spec (explain.c).
int verb_explain(struct cli *cli);
// Copies a cluster's journal and checkpoints (backup.c).
int verb_backup(struct cli *cli);
// Copies a backup into empty folders (backup.c).
int verb_restore(struct cli *cli);
// Verifies that an audit log was not changed (audit.c).
int verb_audit(struct cli *cli);
// Makes certificates for a cluster of several hosts (cert.c).
int verb_cert(struct cli *cli);
// Prints a completion script for a shell (completion.c).
int verb_completion(struct cli *cli);
// Prints the version (version.c).
int verb_version(struct cli *cli);

#endif
