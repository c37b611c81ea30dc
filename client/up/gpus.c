// SPDX-License-Identifier: Apache-2.0
// client/up/gpus.c -- the question of which GPUs there are, asked of the worker
// program, and the reading of its answer.
#include "client/up/gpus.h"

#include <stdio.h>
#include <stdlib.h>
#include <string.h>

#include "client/cli/command.h"
#include "common/base/json.h"

// Opening eight GPUs one after the other takes its time.
#define LIST_MS 60000

// 0: all.
static enum sl_err read_wanted(unsigned *out, const char *wanted,
                               struct sl_error *err)
{
    char *end = NULL;
    unsigned long n = strtoul(wanted, &end, 10);

    if (strcmp(wanted, "all") == 0) {
        *out = 0;
        return SL_OK;
    }
    if (wanted[0] < '0' || wanted[0] > '9' || *end != '\0' || n < 1 ||
        n > GPUS_MOST)
        return sl_fail(err, SL_EINVAL, "--gpus: \"%s\" is not all or 1 to %d",
                       wanted, GPUS_MOST);
    *out = (unsigned)n;
    return SL_OK;
}

// Adds the device if it is a usable GPU; else remembers why it is not.
static void gpus_add_device(struct gpus *g, char why[200], const json_t *device)
{
    const char *name, *reason;
    unsigned ordinal;
    bool usable;

    if (sl_json_str(&name, device, "device", NULL) != SL_OK ||
        sl_json_bool(&usable, device, "usable", NULL) != SL_OK ||
        strncmp(name, "cuda", 4) != 0)
        return;
    if (usable && sscanf(name, "cuda:%u", &ordinal) == 1 &&
        g->count < GPUS_MOST)
        g->ordinal[g->count++] = ordinal;
    else if (!usable && sl_json_str(&reason, device, "why", NULL) == SL_OK)
        snprintf(why, 200, "%s", reason);
}

static const char *find_array(const char *listing, size_t *len)
{
    const char *line = listing;

    while (*line != '\0' && *line != '[') {
        line += strcspn(line, "\n");
        line += *line == '\n';
    }
    *len = strcspn(line, "\n");
    return line;
}

enum sl_err gpus_choose(struct gpus *out, const char *listing,
                        const char *wanted, struct sl_error *err)
{
    struct gpus g = {.count = 0};
    char why[200] = "this worker knows no cuda";
    unsigned want = 0;
    size_t len;
    const char *text = find_array(listing, &len);
    json_t *list = NULL;
    enum sl_err rc = read_wanted(&want, wanted, err);

    if (rc == SL_OK)
        rc =
            sl_json_parse(&list, "worker --list-devices", text, len, NULL, err);
    if (rc != SL_OK)
        return rc;
    for (size_t i = 0; i < json_array_size(list); i++)
        gpus_add_device(&g, why, json_array_get(list, i));
    json_decref(list);
    if (g.count == 0)
        return sl_fail(err, SL_ENOTSUP,
                       "--gpus %s: no usable GPU on this host (%s); leave "
                       "--gpus out to compute on the CPU",
                       wanted, why);
    if (want > g.count)
        return sl_fail(err, SL_ENOTSUP,
                       "--gpus %s: this host has %u that can be used", wanted,
                       g.count);
    if (want > 0)
        g.count = want;
    *out = g;
    return SL_OK;
}

enum sl_err gpus_find(struct gpus *out, const char *worker, const char *wanted,
                      struct sl_error *err)
{
    const char *const args[] = {worker, "--list-devices=json", NULL};
    struct buf text = BUF_INIT;
    unsigned want;
    enum sl_err rc = read_wanted(&want, wanted, err);

    if (rc == SL_OK)
        rc = command_run(args, LIST_MS, &text, err);
    if (rc == SL_OK)
        rc = gpus_choose(out, buf_text(&text), wanted, err);
    buf_release(&text);
    return rc;
}

unsigned gpus_workers(const struct gpus *g, unsigned each)
{
    return (g->count + each - 1) / each;
}

void gpus_list(char out[GPUS_LIST], const struct gpus *g, unsigned each,
               unsigned worker)
{
    size_t at = 0;

    for (unsigned i = worker * each; i < (worker + 1) * each; i++) {
        if (i < g->count)
            at += (size_t)snprintf(out + at, GPUS_LIST - at, "%scuda:%u",
                                   at > 0 ? "," : "", g->ordinal[i]);
    }
}
