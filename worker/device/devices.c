// SPDX-License-Identifier: Apache-2.0
// worker/device/devices.c -- the report of --list-devices, as text and as JSON.
#include "worker/device/devices.h"

#include <inttypes.h>
#include <stdio.h>
#include <string.h>

#include "common/base/json.h"
#include "kernels/kern.h"
#include "worker/device/team.h"

struct device_found {
    char device[48]; // "cuda:1"
    bool usable;
    struct kern_info info;
    char about[160];
    char why[SL_ERROR_TEXT];
};

static const struct {
    enum kern_dtype t;
    const char *name;
} dtypes[] = {{KERN_F32, "f32"}, {KERN_F16, "f16"}, {KERN_BF16, "bf16"}};

static enum sl_err devices_put_text(struct buf *out,
                                    const struct device_found *f)
{
    if (!f->usable)
        return buf_appendf(out, "%-8s not usable here: %s\n", f->device,
                           f->why);
    if (f->info.bytes == 0)
        return buf_appendf(out, "%-8s %s\n", f->device, f->info.name);
    return buf_appendf(out, "%-8s %s, %" PRIu64 " MiB%s%s\n", f->device,
                       f->info.name, f->info.bytes >> 20,
                       f->about[0] != '\0' ? ", " : "", f->about);
}

static enum sl_err put_quoted(struct buf *out, const char *key,
                              const char *text)
{
    enum sl_err rc = buf_appendf(out, ",\"%s\":", key);

    return rc == SL_OK ? sl_json_quote(out, text, strlen(text)) : rc;
}

static enum sl_err devices_put_json(struct buf *out,
                                    const struct device_found *f)
{
    const char *comma = "";
    enum sl_err rc = buf_appendf(out, "%s{\"device\":\"%s\",\"usable\":%s",
                                 out->len > 1 ? "," : "", f->device,
                                 f->usable ? "true" : "false");

    if (rc == SL_OK && !f->usable)
        rc = put_quoted(out, "why", f->why);
    if (rc == SL_OK && f->usable)
        rc = put_quoted(out, "name", f->info.name);
    if (rc == SL_OK && f->usable && f->about[0] != '\0')
        rc = put_quoted(out, "about", f->about);
    if (rc == SL_OK && f->usable)
        rc = buf_appendf(out, ",\"bytes\":%" PRIu64 ",\"dtypes\":[",
                         f->info.bytes);
    for (unsigned i = 0; i < SL_COUNT(dtypes) && f->usable; i++) {
        if (rc != SL_OK || !(f->info.dtypes & 1u << dtypes[i].t))
            continue;
        rc = buf_appendf(out, "%s\"%s\"", comma, dtypes[i].name);
        comma = ",";
    }
    if (rc == SL_OK)
        rc = buf_append_str(out, f->usable ? "]}" : "}");
    return rc;
}

static void devices_probe(struct device_found *f)
{
    struct sl_error err = SL_ERROR_INIT;
    struct kern_dev *dev = NULL;

    f->usable = kern_open(&dev, f->device, NULL, &err) == SL_OK;
    if (f->usable) {
        dev->backend->info(&f->info, dev);
        kern_about(f->about, sizeof(f->about), dev);
    } else {
        snprintf(f->why, sizeof(f->why), "%s", err.text);
    }
    kern_close(dev);
}

// The devices of one backend that a worker may drive together, for people.
struct together {
    unsigned count;
    char names[160];
};

static void note_usable(struct together *t, const char *device)
{
    size_t at = strlen(t->names);

    if (t->count == TEAM_MOST)
        return;
    snprintf(t->names + at, sizeof(t->names) - at, "%s%s",
             t->count > 0 ? "," : "", device);
    t->count++;
}

static enum sl_err put_together(struct buf *out, const struct together *t)
{
    return t->count < 2
               ? SL_OK
               : buf_appendf(out,
                             "together --device %s: a part of each batch for "
                             "each, and one gradient\n",
                             t->names);
}

// Lists all devices of one backend, or says that it has none.
static enum sl_err list_backend(struct buf *out, const struct kern_backend *b,
                                bool json)
{
    struct device_found f = {.usable = false};
    struct together together = {.count = 0};
    int count = b->probe(f.why, sizeof(f.why));
    enum sl_err rc = SL_OK;

    if (count <= 0)
        snprintf(f.device, sizeof(f.device), "%s", b->name);
    for (int i = 0; rc == SL_OK && i < (count > 0 ? count : 1); i++) {
        if (count > 0) {
            if (b->host)
                snprintf(f.device, sizeof(f.device), "%s", b->name);
            else
                snprintf(f.device, sizeof(f.device), "%.32s:%d", b->name, i);
            devices_probe(&f);
            if (f.usable && !b->host)
                note_usable(&together, f.device);
        }
        rc = json ? devices_put_json(out, &f) : devices_put_text(out, &f);
    }
    if (rc == SL_OK && !json)
        rc = put_together(out, &together);
    return rc;
}

enum sl_err devices_list(struct buf *out, bool json)
{
    const struct kern_backend *b;
    enum sl_err rc = json ? buf_append_char(out, '[') : SL_OK;

    for (unsigned i = 0; rc == SL_OK && (b = kern_backend_at(i)) != NULL; i++)
        rc = list_backend(out, b, json);
    if (rc == SL_OK && json)
        rc = buf_append_str(out, "]\n");
    return rc;
}
