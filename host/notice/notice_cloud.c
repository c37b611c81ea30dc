// SPDX-License-Identifier: Apache-2.0
// host/notice/notice_cloud.c -- what AWS and Google Cloud say.
#include <ctype.h>
#include <stdio.h>
#include <stdlib.h>
#include <string.h>

#include "common/base/clock.h"
#include "common/base/json.h"
#include "common/base/mem.h"
#include "host/notice/notice_inner.h"
#include "common/run/log.h"

#define ASK_MS 1000
#define GCP_LEAD_US 30000000 // from a preemption's notice to the end
#define URL 300

static char *notice_answer_text(struct web_answer *a)
{
    char *text = (char *)a->body.data;
    size_t n = a->body.len;

    while (n > 0 && isspace((unsigned char)text[n - 1]))
        text[--n] = '\0';
    return text;
}

// ---- AWS: a token first (IMDSv2), which a 401 says is of no use any more

struct aws {
    const char *at;
    char token[600]; // "X-aws-ec2-metadata-token: ..."; "": none
    bool rebalance;  // was said
};

static const char *aws_endpoint(void)
{
    const char *at = getenv("AWS_EC2_METADATA_SERVICE_ENDPOINT");

    return at != NULL && at[0] != '\0' ? at : "http://169.254.169.254";
}

static void aws_token(struct notice_watch *w, struct aws *aws,
                      struct web_answer *a)
{
    char url[URL];
    const struct web_ask ask = {
        .method = "PUT",
        .url = url,
        .header = {"X-aws-ec2-metadata-token-ttl-seconds: 21600"},
        .timeout_ms = ASK_MS};

    snprintf(url, sizeof(url), "%s/latest/api/token", aws->at);
    watch_ask(w, &ask, a);
    aws->token[0] = '\0';
    if (a->status == 200 && a->body.len < 512)
        snprintf(aws->token, sizeof(aws->token), "X-aws-ec2-metadata-token: %s",
                 notice_answer_text(a));
}

static void aws_get(struct notice_watch *w, struct aws *aws, const char *path,
                    struct web_answer *a)
{
    char url[URL];
    struct web_ask ask = {.method = "GET", .url = url, .timeout_ms = ASK_MS};

    for (int i = 0; i < 2; i++) {
        if (aws->token[0] == '\0') {
            aws_token(w, aws, a);
            if (a->status == 0)
                return;
            web_answer_release(a);
        }
        snprintf(url, sizeof(url), "%s/latest/meta-data/%s", aws->at, path);
        ask.header[0] = aws->token[0] != '\0' ? aws->token : NULL;
        watch_ask(w, &ask, a);
        if (a->status != 401 || i == 1)
            return;
        web_answer_release(a);
        aws->token[0] = '\0';
    }
}

static void aws_action(struct notice_watch *w, const struct web_answer *a)
{
    const char *action = "?", *time = "a time that it does not say";
    json_t *m = NULL;

    if (a->status == 404) {
        watch_stays(w);
        return;
    }
    if (a->status != 200 ||
        sl_json_parse(&m, "instance-action", (const char *)a->body.data,
                      a->body.len, NULL, NULL) != SL_OK)
        return;
    (void)sl_json_str(&action, m, "action", NULL);
    (void)sl_json_str(&time, m, "time", NULL);
    watch_goes(w, watch_time(time, WATCH_RFC3339),
               "AWS will %.20s this instance at %.40s", action, time);
    json_decref(m);
}

// Logs AWS's advice that this instance is at risk. The job goes on, because the
// instance may never be taken.
static void aws_rebalance(struct notice_watch *w, struct aws *aws)
{
    struct web_answer a;

    aws_get(w, aws, "events/recommendations/rebalance", &a);
    if (a.status == 200 && !aws->rebalance)
        LOG(WARN, "AWS says that this instance may be interrupted; training on",
            "source=aws");
    if (a.status == 200 || a.status == 404)
        aws->rebalance = a.status == 200;
    web_answer_release(&a);
}

static void aws_run(struct notice_watch *w)
{
    struct aws aws = {.at = aws_endpoint()};
    uint64_t absent = 0, pause;
    struct web_answer a;

    do {
        aws_get(w, &aws, "spot/instance-action", &a);
        aws_action(w, &a);
        pause = watch_pause(w, &absent, &a);
        web_answer_release(&a);
        if (absent == 0)
            aws_rebalance(w, &aws);
    } while (watch_wait(w, pause));
}

const struct notice_source source_aws = {.name = "aws", .run = aws_run};

// ---- Google Cloud: an answer comes when something changes

#define GCP_POLL_S 60 // as in the URL below

static const char *gcp_host(void)
{
    const char *at = getenv("GCE_METADATA_HOST");

    if (at == NULL || at[0] == '\0')
        at = getenv("GCE_METADATA_IP");
    return at != NULL && at[0] != '\0' ? at : "169.254.169.254";
}

// `etag`: an answer comes when it is another one; "": at once.
static void gcp_get(struct notice_watch *w, const char *what, const char *etag,
                    struct web_answer *a)
{
    char url[URL], flavor[16];
    bool change = etag[0] != '\0';
    const struct web_ask ask = {.method = "GET",
                                .url = url,
                                .header = {"Metadata-Flavor: Google"},
                                .timeout_ms =
                                    change ? (GCP_POLL_S + 5) * 1000 : ASK_MS};

    snprintf(url, sizeof(url), "http://%s/computeMetadata/v1/instance/%s%s%s",
             gcp_host(), what,
             change ? "?wait_for_change=true&timeout_sec=60&last_etag=" : "",
             etag);
    watch_ask(w, &ask, a);
    // A server at this address without this header is not Google Cloud's.
    if (a->status != 0 &&
        (!web_header(a, "Metadata-Flavor", flavor, sizeof(flavor)) ||
         strcmp(flavor, "Google") != 0)) {
        a->status = 0;
        snprintf(a->why, sizeof(a->why), "no Google Cloud answers there");
    }
}

static void gcp_watch(struct notice_watch *w, const char *what, const char *bad,
                      uint64_t lead_us)
{
    uint64_t absent = 0, pause, when_us = 0;
    char etag[64] = "";
    struct web_answer a;

    do {
        gcp_get(w, what, etag, &a);
        if (a.status == 200 && strcmp(notice_answer_text(&a), bad) == 0) {
            if (when_us == 0 && lead_us != 0) // it says it again later
                when_us = sl_wall_us(sl_clock_real()) + lead_us;
            watch_goes(w, when_us, "Google Cloud says %s: %s", what, bad);
        } else if (a.status == 200) {
            when_us = 0;
            watch_stays(w);
        }
        pause = watch_pause(w, &absent, &a);
        if (a.status != 200 || !web_header(&a, "ETag", etag, sizeof(etag)))
            etag[0] = '\0';
        web_answer_release(&a);
    } while (watch_wait(w, pause));
}

static void gcp_preempted(struct notice_watch *w)
{
    gcp_watch(w, "preempted", "TRUE", GCP_LEAD_US);
}

static void gcp_maintenance(struct notice_watch *w)
{
    gcp_watch(w, "maintenance-event", "TERMINATE_ON_HOST_MAINTENANCE", 0);
}

const struct notice_source source_gcp_preempted = {.name = "gcp preempted",
                                                   .run = gcp_preempted};
const struct notice_source source_gcp_maintenance = {
    .name = "gcp maintenance-event", .run = gcp_maintenance};
