// SPDX-License-Identifier: Apache-2.0
// client/cli/verbs.h -- one function per verb; the table is in
// client/verb_table.c.
//
// Threads  main.
// Memory   `cli` is borrowed for the call: filled in, with flags and words
//          checked by cli_main. A verb waits for what it asks for.
// Errors   each returns an exit code of cli.h and has said why.
#ifndef CLIENT_CLI_VERBS_H
#define CLIENT_CLI_VERBS_H

struct cli;

// Each runs its verb with the parsed command line and returns the exit code.
// Those of stop and delete go on with the next job after one that fails, and
// return the first failure.
int verb_up(struct cli *cli);          // up.c
int verb_run(struct cli *cli);         // run.c
int verb_down(struct cli *cli);        // down.c
int verb_submit(struct cli *cli);      // submit.c
int verb_validate(struct cli *cli);    // submit.c
int verb_import(struct cli *cli);      // import.c
int verb_jobs(struct cli *cli);        // jobs.c
int verb_status(struct cli *cli);      // status_verb.c
int verb_workers(struct cli *cli);     // members.c
int verb_servers(struct cli *cli);     // members.c
int verb_drain(struct cli *cli);       // members.c
int verb_undrain(struct cli *cli);     // members.c
int verb_watch(struct cli *cli);       // jobs.c
int verb_events(struct cli *cli);      // events.c
int verb_wait(struct cli *cli);        // jobs.c
int verb_stop(struct cli *cli);        // jobs.c
int verb_delete(struct cli *cli);      // jobs.c
int verb_pause(struct cli *cli);       // pause.c
int verb_resume(struct cli *cli);      // pause.c
int verb_checkpoint(struct cli *cli);  // checkpoint.c: has a cut made
int verb_checkpoints(struct cli *cli); // checkpoints.c: lists cuts
int verb_logs(struct cli *cli);        // logs.c
int verb_quota(struct cli *cli);       // quota.c
int verb_tables(struct cli *cli);      // table_list.c
int verb_tasks(struct cli *cli);       // tasks.c
int verb_token(struct cli *cli);       // cert_token.c
int verb_trace(struct cli *cli);       // trace.c
int verb_report(struct cli *cli);      // report.c
int verb_export(struct cli *cli);      // export.c
int verb_follow(struct cli *cli);      // table_follow.c
int verb_doctor(struct cli *cli);      // doctor.c
int verb_explain(struct cli *cli);     // explain.c
int verb_backup(struct cli *cli);      // backup.c
int verb_restore(struct cli *cli);     // backup.c
int verb_audit(struct cli *cli);       // audit.c
int verb_cert(struct cli *cli);        // cert.c
int verb_completion(struct cli *cli);  // completion.c
int verb_version(struct cli *cli);     // version.c

#endif
