// SPDX-License-Identifier: Apache-2.0
// client/cli/listing.c -- any list, in any form.
// Calls up: listing_kinds.c, since the columns are those of the table of kinds.
#include "client/cli/listing.h"

#include "client/cli/say.h"

enum sl_err list_table(struct buf *out, enum list_kind kind, bool wide,
                       ProtobufCMessage *const *items, size_t count,
                       struct sl_error *err)
{
    const struct list_format *l = &lists[kind];
    struct table t;
    enum sl_err rc;

    if (count == 0)
        return SL_OK;
    table_init(&t, l->right, l->head);
    t.shown = wide ? 0 : l->narrow;
    t.room = wide ? 0 : out_room();
    for (size_t i = 0; i < count; i++)
        l->row(&t, items[i]);
    rc = table_text(out, &t);
    table_release(&t);
    return rc == SL_OK ? rc : sl_fail(err, rc, "out of memory for the output");
}

enum sl_err list_names(enum list_kind kind, ProtobufCMessage *const *items,
                       size_t count, struct sl_error *err)
{
    struct buf text = BUF_INIT;
    char space[LIST_NAME];
    enum sl_err rc = SL_OK;

    for (size_t i = 0; rc == SL_OK && i < count; i++)
        rc = buf_appendf(&text, "%s\n", lists[kind].name(space, items[i]));
    return out_text(&text, rc, err);
}

enum sl_err list_print(const struct out *o, enum list_kind kind,
                       const ProtobufCMessage *reply,
                       ProtobufCMessage *const *items, size_t count,
                       const char *none, struct sl_error *err)
{
    struct buf text = BUF_INIT;
    enum sl_err rc;

    if (o->json)
        return out_list(o, reply, items, count, err);
    if (o->form == OUT_NAME)
        return list_names(kind, items, count, err);
    if (count == 0) {
        cli_say("%s", none);
        return SL_OK;
    }
    rc = list_table(&text, kind, o->form == OUT_WIDE, items, count, err);
    if (rc == SL_OK)
        return out_text(&text, rc, err);
    buf_release(&text);
    return rc;
}

// "a, b and c"
static enum sl_err list_join_words(struct buf *out, const char *const *from)
{
    enum sl_err rc = SL_OK;

    for (size_t i = 0; rc == SL_OK && from[i] != NULL; i++)
        rc = buf_appendf(out, "%s%s",
                         i == 0                ? ""
                         : from[i + 1] != NULL ? ", "
                                               : " and ",
                         from[i]);
    return rc;
}

enum sl_err list_forms(struct buf *out, enum list_kind kind)
{
    const struct list_format *l = &lists[kind];
    bool wide = kind != LIST_NONE && l->head[l->narrow] != NULL;
    enum sl_err rc;

    if (kind == LIST_NONE)
        return SL_OK;
    rc = buf_appendf(out, "Of %s", l->called);
    if (rc == SL_OK && wide)
        rc = buf_append_str(out, " -o wide also shows ");
    if (rc == SL_OK && wide)
        rc = list_join_words(out, l->head + l->narrow);
    if (rc == SL_OK && l->name_is != NULL)
        rc = buf_appendf(out, "%s -o name prints %s alone", wide ? "," : "",
                         l->name_is);
    if (rc == SL_OK)
        rc = buf_appendf(out, "%s -o jsonl a line each.",
                         wide || l->name_is != NULL ? "," : "");
    return rc;
}
