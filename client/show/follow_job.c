// SPDX-License-Identifier: Apache-2.0
// client/show/follow_job.c -- follows a job on the screen: progress,
// evaluations, the closing table, summary.json.
#include <signal.h>
#include <stdio.h>
#include <stdlib.h>
#include <string.h>
#include <unistd.h>

#include "client/cli/cli.h"
#include "client/show/follow.h"
#include "client/show/progress.h"
#include "client/show/summary.h"
#include "client/cli/target.h"
#include "common/base/fault.h"
#include "common/base/clock.h"
#include "common/base/fs.h"
#include "common/base/json.h"
#include "proto/curves.h"

#define REDRAW_MS 200 // at most 5 redraws a second: more would only flicker
#define WAIT_MS 1000

struct follow_view {
    struct cli *cli;
    struct api_client *api;
    const char *id;
    const struct follow_options *options;
    uint64_t drawn_ms;     // when a line was last shown; 0: never
    size_t evaluations;    // shown so far
    size_t rates;          // likewise
    bool line_open;        // a progress line stands without its line end
    bool cancelled;        // we asked the coordinator to stop the job
    struct curves *curves; // from the first status on; owned, NULL: none
    bool no_curves;        // writing curves failed, which was reported
};

enum sl_err follow_can_write(const struct follow_options *options,
                             struct sl_error *err)
{
    enum sl_err rc =
        options->summary != NULL ? target_check(options->summary, err) : SL_OK;

    if (rc == SL_OK && options->tensorboard != NULL)
        rc = fs_mkdirs(fs_posix(), options->tensorboard, err);
    return rc;
}

// Standard output is one JSON text, or will be: nothing else goes there.
static bool stdout_is_json(const struct follow_view *v)
{
    const char *summary = v->options->summary;

    return v->cli->out.json || (summary != NULL && target_is_stdout(summary));
}

// ---- lines

static void close_line(struct follow_view *v)
{
    if (v->line_open)
        fputs("\r\033[K", stderr);
    v->line_open = false;
}

// For programs: each status that a terminal would show.
static void draw_json(struct follow_view *v, const Sluice__V1__JobStatus *s)
{
    json_t *object = NULL;

    if (pbjson_write(&object, &s->base) == SL_OK)
        (void)out_json_line(object, NULL); // a pipe that is closed ends us
}

static void follow_draw_progress(struct follow_view *v,
                                 const Sluice__V1__JobStatus *s, bool now)
{
    uint64_t at = sl_real_ms();
    uint64_t pause = v->cli->out.err_tty && !v->options->lines
                         ? REDRAW_MS
                         : (uint64_t)v->options->period_ms;
    struct buf line = BUF_INIT;

    if (v->options->quiet ||
        (!now && v->drawn_ms != 0 && at - v->drawn_ms < pause))
        return;
    if (v->options->lines) {
        draw_json(v, s);
        v->drawn_ms = at;
        return;
    }
    if (progress_line(&line, s) == SL_OK && line.len > 0) {
        size_t n = line.len;

        if (v->cli->out.err_tty) {
            fputs("\r\033[K", stderr);
            n = progress_fit(buf_text(&line), (size_t)out_columns() - 1);
        }
        out_tell(buf_text(&line), n, v->cli->out.err_tty ? "" : "\n");
        fflush(stderr);
        v->line_open = v->cli->out.err_tty;
        v->drawn_ms = at;
    }
    buf_release(&line);
}

// Evaluations are data: stdout, unless that will be JSON. True: some are new.
static bool show_evaluations(struct follow_view *v,
                             const Sluice__V1__JobStatus *s)
{
    struct buf line = BUF_INIT;
    size_t before = v->evaluations;

    if (v->options->quiet)
        return false;
    while (v->evaluations < s->n_evaluations) {
        const Sluice__V1__Evaluation *e = s->evaluations[v->evaluations++];

        buf_reset(&line);
        if (progress_evaluation(&line, s, e) != SL_OK)
            break;
        close_line(v);
        if (stdout_is_json(v))
            out_tell(buf_text(&line), line.len, "\n");
        else if (buf_append_char(&line, '\n') == SL_OK)
            (void)out_write(buf_text(&line), line.len, NULL);
    }
    while (s->callbacks != NULL && v->rates < s->callbacks->n_rates) {
        buf_reset(&line);
        if (progress_rate(&line, s, v->rates++) != SL_OK)
            break;
        close_line(v);
        cli_say("%s", buf_text(&line));
    }
    buf_release(&line);
    return v->evaluations > before;
}

// ---- curves

static enum sl_err draw_curves(struct follow_view *v,
                               const Sluice__V1__JobStatus *s, bool last,
                               struct sl_error *err)
{
    struct curves_options options = {
        .root = v->options->tensorboard,
        .below = "",
        .job = s->id,
        .histograms = v->options->histograms,
        .clock = sl_clock_real(),
    };
    enum sl_err rc =
        v->curves == NULL ? curves_new(&v->curves, &options, err) : SL_OK;

    if (rc == SL_OK && curves_take(v->curves, s, last) != SL_OK)
        rc = sl_fail(err, SL_ENOMEM, "no memory for a point of a curve");
    return rc == SL_OK ? curves_write(v->curves, err) : rc;
}

// A folder that is full or gone does not end the watching: it is said once, and
// tried again with the next status.
static void keep_curves(struct follow_view *v, const Sluice__V1__JobStatus *s,
                        bool last)
{
    struct sl_error err = SL_ERROR_INIT;
    bool failed;

    if (v->options->tensorboard == NULL)
        return;
    failed = draw_curves(v, s, last, &err) != SL_OK;
    if (failed != v->no_curves) {
        close_line(v);
        cli_say(failed ? "Curves cannot be written, trying again: %s"
                       : "Curves are written again%s",
                failed ? err.text : "");
    }
    v->no_curves = failed;
}

// ---- the end

static enum sl_err write_summary(const char *path,
                                 const Sluice__V1__JobStatus *s,
                                 struct sl_error *err)
{
    json_t *object = NULL;
    struct buf text = BUF_INIT;
    enum sl_err rc = summary_json(&object, s);

    if (rc == SL_OK)
        rc = sl_json_write(&text, object, true);
    if (rc == SL_OK)
        rc = buf_append_char(&text, '\n');
    if (rc != SL_OK)
        sl_fail(err, rc, "%s: out of memory", path);
    else
        rc = target_write(path, text.data, text.len, err);
    buf_release(&text);
    json_decref(object);
    return rc;
}

static enum sl_err print_summary(struct follow_view *v,
                                 const Sluice__V1__JobStatus *s,
                                 struct sl_error *err)
{
    struct buf text = BUF_INIT;
    json_t *object = NULL;
    enum sl_err rc;

    if (v->cli->out.json) {
        rc = summary_json(&object, s);
        if (rc != SL_OK)
            return sl_fail(err, rc, "out of memory");
        return v->options->lines ? out_json_line(object, err)
                                 : out_json(object, err);
    }
    rc = summary_text(&text, s);
    return out_text(&text, rc, err);
}

// Tells the job's end; for a summary it takes the last status again, now with
// every shard's counts. Else it asks for nothing: the job may be deleted by
// now.
static int follow_finish_job(struct follow_view *v,
                             const Sluice__V1__JobStatus *s)
{
    Sluice__V1__JobRequest request = SLUICE__V1__JOB_REQUEST__INIT;
    Sluice__V1__JobStatus *whole;
    struct sl_error err = SL_ERROR_INIT;
    enum sl_err rc = SL_OK;

    request.id = (char *)v->id;
    request.shards = true;
    request.spec = true;
    if (v->options->summary != NULL || v->options->summary_text) {
        rc = api_get(v->api, &request, &whole, &err);
        if (rc == SL_OK)
            s = whole;
    }
    if (rc == SL_OK && v->options->summary != NULL)
        rc = write_summary(v->options->summary, s, &err);
    if (rc == SL_OK && v->options->summary_text &&
        (v->cli->out.json || !stdout_is_json(v)))
        rc = print_summary(v, s, &err);
    if (rc != SL_OK)
        return cli_fail(&err);
    if (s->state == SLUICE__V1__JOB_STATE__JOB_FINISHED)
        return CLI_EXIT_OK;
    cli_say("sluice: job %s has %s%s%s", v->id, progress_state(s->state),
            s->reason[0] != '\0' ? ": " : "", s->reason);
    return CLI_EXIT_FAILED;
}

// ---- Ctrl-C

// True: go on following.
static bool interrupted(struct follow_view *v)
{
    Sluice__V1__StopRequest request = SLUICE__V1__STOP_REQUEST__INIT;
    Sluice__V1__JobStatus *status;
    struct sl_error err = SL_ERROR_INIT;

    close_line(v);
    if (v->options->cancel && !v->cancelled) {
        request.id = (char *)v->id;
        v->cancelled = true;
        follow_unblock();
        if (api_stop(v->api, &request, &status, &err) == SL_OK) {
            cli_say("Stopping %s; Ctrl-C again leaves without waiting", v->id);
            (void)follow_block(&err);
            return true;
        }
        cli_fail(&err);
    }
    FAULT("watch.detach");
    cli_say("Detached: job %s goes on. Follow it again with 'sluice watch %s', "
            "end it with 'sluice stop %s'",
            v->id, v->id, v->id);
    return false;
}

// ---- events

static bool reached(const struct follow_view *v, const Sluice__V1__JobStatus *s)
{
    return v->options->until_step > 0 &&
           s->steps_counted >= v->options->until_step;
}

// True: the story is over, *code is its end.
static bool on_status(struct follow_view *v, const struct follow_event *event,
                      int *code)
{
    const Sluice__V1__JobStatus *s = event->status;

    if (event->back) {
        close_line(v);
        cli_say("The coordinator is back");
    }
    follow_draw_progress(v, s, show_evaluations(v, s) || reached(v, s));
    keep_curves(v, s, reached(v, s) || progress_ended(s->state));
    if (reached(v, s)) {
        if (v->line_open)
            fputc('\n', stderr);
        *code = CLI_EXIT_OK;
        return true;
    }
    if (progress_ended(s->state)) {
        close_line(v);
        follow_unblock();
        *code = follow_finish_job(v, s);
        if (v->options->until_step > 0 && *code == CLI_EXIT_OK) {
            cli_say("sluice: job %s ended at step %llu, before step %llu",
                    v->id, (unsigned long long)s->steps_counted,
                    (unsigned long long)v->options->until_step);
            *code = CLI_EXIT_FAILED;
        }
        return true;
    }
    return false;
}

static bool follow_on_event(struct follow_view *v, struct follow_event *event,
                            int *code)
{
    switch (event->kind) {
    case FOLLOW_STATUS:
        return on_status(v, event, code);
    case FOLLOW_AWAY:
        close_line(v);
        cli_say("The coordinator at %s is away%s%s; the job is safe, waiting "
                "for it to come back",
                api_address(v->api), event->err.text[0] != '\0' ? ": " : "",
                event->err.text);
        return false;
    case FOLLOW_INTERRUPT:
        *code = event->signum == SIGTERM ? FOLLOW_EXIT_TERMINATED
                                         : CLI_EXIT_INTERRUPTED;
        return !interrupted(v);
    case FOLLOW_FAILED:
        close_line(v);
        *code = cli_fail(&event->err);
        return true;
    case FOLLOW_NOTHING:
        return false;
    }
    return false;
}

int follow_job(struct cli *cli, struct api_client *api, const char *id,
               const struct follow_options *options)
{
    struct follow_view v = {
        .cli = cli, .api = api, .id = id, .options = options};
    struct sl_error err = SL_ERROR_INIT;
    struct follow_stream *f = NULL;
    struct follow_event event;
    int code = CLI_EXIT_FAILED;

    if (follow_open(&f, api, id, options->histograms, &err) != SL_OK) {
        follow_unblock(); // the caller may have blocked them for the watch
        return cli_fail(&err);
    }
    do {
        follow_next(f, WAIT_MS, &event);
    } while (!follow_on_event(&v, &event, &code));
    // From here on a second Ctrl-C ends us at once.
    follow_unblock();
    follow_close(f);
    curves_free(v.curves);
    return code;
}
