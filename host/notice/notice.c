// SPDX-License-Identifier: Apache-2.0
// host/notice/notice.c -- which sources are watched.
#include <stdio.h>
#include <stdlib.h>
#include <string.h>

#include "common/base/mem.h"
#include "host/notice/notice_inner.h"
#include "common/run/log.h"

// ---- which

static const struct notice_source *const by_name[] = {
    &source_aws, &source_azure, &source_file, &source_exec};

static enum sl_err notice_add_watch(struct notice *n,
                                    const struct notice_source *source,
                                    const char *what, struct sl_error *err)
{
    struct notice_watch *w = &n->watch[n->count];

    if (n->count == WATCHES)
        return sl_fail(err, SL_ERANGE, "more than %d sources of notices",
                       WATCHES);
    *w = (struct notice_watch){.notice = n, .source = source};
    if (what != NULL) {
        w->what = sl_strdup(what);
        if (w->what == NULL)
            return sl_no_memory(err);
    }
    n->count++;
    return SL_OK;
}

static bool notice_file_contains(const char *path, const char *word)
{
    char text[256];
    FILE *f = fopen(path, "re");
    bool found = false;

    if (f == NULL)
        return false;
    if (fgets(text, sizeof(text), f) != NULL)
        found = strstr(text, word) != NULL;
    fclose(f);
    return found;
}

#define DMI "/sys/class/dmi/id/"

// Returns the name of the cloud this machine is in, without using the network.
static const char *cloud(void)
{
    if (getenv("AWS_EC2_METADATA_SERVICE_ENDPOINT") != NULL)
        return "aws";
    if (getenv("GCE_METADATA_HOST") != NULL ||
        getenv("GCE_METADATA_IP") != NULL)
        return "gcp";
    if (notice_file_contains(DMI "sys_vendor", "Amazon EC2") ||
        notice_file_contains(DMI "bios_vendor", "Amazon EC2"))
        return "aws";
    if (notice_file_contains(DMI "product_name", "Google Compute Engine"))
        return "gcp";
    // The tag that Azure gives all of its machines.
    if (notice_file_contains(DMI "chassis_asset_tag",
                             "7783-7084-3265-9085-8269-3286-77"))
        return "azure";
    return "signal";
}

static enum sl_err notice_add_word(struct notice *n, const char *word,
                                   struct sl_error *err)
{
    const char *colon = strchr(word, ':');
    size_t len = colon != NULL ? (size_t)(colon - word) : strlen(word);
    enum sl_err rc;

    if (strcmp(word, "auto") == 0)
        word = cloud(), len = strlen(word);
    if (word[0] == '\0' || strcmp(word, "signal") == 0)
        return SL_OK;
    if (strcmp(word, "gcp") == 0) {
        rc = notice_add_watch(n, &source_gcp_preempted, NULL, err);
        return rc == SL_OK
                   ? notice_add_watch(n, &source_gcp_maintenance, NULL, err)
                   : rc;
    }
    for (size_t i = 0; i < sizeof(by_name) / sizeof(by_name[0]); i++) {
        const struct notice_source *s = by_name[i];
        bool takes = s == &source_file || s == &source_exec;

        if (strlen(s->name) != len || memcmp(s->name, word, len) != 0)
            continue;
        if (takes != (colon != NULL) || (takes && colon[1] == '\0'))
            return sl_fail(err, SL_EINVAL, "%s: write %s", word,
                           takes ? "file:PATH or exec:COMMAND" : s->name);
        if (s == &source_azure)
            return notice_add_watch(n, s, n->setup.azure, err);
        return notice_add_watch(n, s, takes ? colon + 1 : NULL, err);
    }
    return sl_fail(err, SL_EINVAL,
                   "no source of notices is called %s; there are: auto, aws, "
                   "gcp, azure, file:PATH, exec:COMMAND, signal",
                   word);
}

// A command may have commas in it: exec: is the last.
static enum sl_err add_words(struct notice *n, const char *sources,
                             struct sl_error *err)
{
    char *all = sl_strdup(sources), *word = all;
    enum sl_err rc = all == NULL ? sl_no_memory(err) : SL_OK;

    while (rc == SL_OK && word != NULL) {
        char *comma = strncmp(word, "exec:", 5) == 0 ? NULL : strchr(word, ',');

        if (comma != NULL)
            *comma = '\0';
        rc = notice_add_word(n, word, err);
        word = comma != NULL ? comma + 1 : NULL;
    }
    sl_free(all);
    return rc;
}

// ---- life

static void *notice_watch_run(void *arg)
{
    struct notice_watch *w = arg;

    w->source->run(w);
    return NULL;
}

static enum sl_err notice_start_watches(struct notice *n, struct sl_error *err)
{
    for (size_t i = 0; i < n->count; i++) {
        struct notice_watch *w = &n->watch[i];

        w->web = web_new();
        if (w->web == NULL)
            return sl_fail(err, SL_ENOMEM, "no memory to ask for notices");
        if (pthread_create(&w->thread, NULL, notice_watch_run, w) != 0)
            return sl_fail(err, SL_ENOMEM, "no thread to ask for notices");
        pthread_setname_np(w->thread, "notice");
        w->started = true;
        LOG(INFO, "watching for notices that this machine will be taken away",
            "source=%s what=%s", w->source->name,
            w->what != NULL ? w->what : "");
    }
    return SL_OK;
}

enum sl_err notice_new(struct notice **out, const struct notice_setup *setup,
                       struct sl_error *err)
{
    struct notice *n = sl_calloc(1, sizeof(*n));
    enum sl_err rc;

    if (n == NULL)
        return sl_no_memory(err);
    n->setup = *setup;
    pthread_mutex_init(&n->lock, NULL);
    pthread_cond_init(&n->changed, NULL);
    rc = add_words(n, setup->sources, err);
    if (rc == SL_OK)
        rc = notice_start_watches(n, err);
    if (rc != SL_OK) {
        notice_free(n);
        return rc;
    }
    *out = n;
    pthread_mutex_lock(&n->lock);
    watches_post_locked(n); // without sources `looked` is due at once
    pthread_mutex_unlock(&n->lock);
    return SL_OK;
}

void notice_may_go(struct notice *n, loop_fn told, void *arg)
{
    n->told = told;
    n->told_arg = arg;
    pthread_mutex_lock(&n->lock);
    n->may_go = true;
    pthread_cond_broadcast(&n->changed);
    watches_post_locked(n);
    pthread_mutex_unlock(&n->lock);
    for (size_t i = 0; i < n->count; i++)
        web_wake(n->watch[i].web);
}

void notice_free(struct notice *n)
{
    bool posted;

    if (n == NULL)
        return;
    pthread_mutex_lock(&n->lock);
    n->over = true;
    posted = n->posted;
    pthread_cond_broadcast(&n->changed);
    pthread_mutex_unlock(&n->lock);
    for (size_t i = 0; i < n->count; i++) {
        struct notice_watch *w = &n->watch[i];

        if (w->web != NULL)
            web_wake(w->web);
        if (w->started)
            pthread_join(w->thread, NULL);
        web_free(w->web);
        sl_free(w->what);
    }
    if (!posted) // else the posted task frees it
        watches_release(n);
}
