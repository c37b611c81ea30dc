// SPDX-License-Identifier: Apache-2.0
// client/doctor/findings.c -- the list of findings, and its printing.
#include "client/doctor/findings.h"

#include <stdarg.h>
#include <stdio.h>

#include "common/base/mem.h"

static const char *const level_names[FINDING_LEVELS] = {
    [FINDING_OK] = "ok",
    [FINDING_NOTE] = "note",
    [FINDING_WARN] = "warning",
    [FINDING_BAD] = "fault",
};

void finding(struct findings *f, enum finding_level level, const char *what,
             const char *fmt, ...)
{
    struct finding *grown =
        sl_realloc_array(f->list, f->count + 1, sizeof(*grown));
    struct finding *one;
    va_list ap;

    f->of_level[level]++;
    if (grown == NULL)
        return;
    f->list = grown;
    one = &f->list[f->count++];
    one->level = level;
    one->what = what;
    va_start(ap, fmt);
    vsnprintf(one->text, sizeof(one->text), fmt, ap);
    va_end(ap);
}

void findings_release(struct findings *f)
{
    sl_free(f->list);
    *f = (struct findings){0};
}

static enum sl_err print_json(const struct findings *f, struct sl_error *err)
{
    json_t *list = json_array();
    int failed = 0;

    for (size_t i = 0; i < f->count; i++)
        failed |= json_array_append_new(
            list,
            json_pack("{s:s, s:s, s:o}", "level", level_names[f->list[i].level],
                      "what", f->list[i].what, "text",
                      pbjson_string(f->list[i].text)));
    if (failed != 0) {
        json_decref(list);
        return sl_no_memory(err);
    }
    return out_json(json_pack("{s:o}", "findings", list), err);
}

enum sl_err findings_print(const struct findings *f, const struct out *out,
                           struct sl_error *err)
{
    struct buf text = BUF_INIT;
    enum sl_err rc = SL_OK;

    if (out->json)
        return print_json(f, err);
    for (size_t i = 0; rc == SL_OK && i < f->count; i++) {
        const struct finding *one = &f->list[i];
        const char *level = level_names[one->level];
        const char *color = out_color(level);

        rc = buf_appendf(&text, "%s%-8s%s %-12s %s\n", color, level,
                         color[0] != '\0' ? OUT_PLAIN : "", one->what,
                         one->text);
    }
    return out_text(&text, rc, err);
}
