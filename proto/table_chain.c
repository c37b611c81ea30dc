// SPDX-License-Identifier: Apache-2.0
// proto/table_chain.c -- see table_chain.h.
//
// Files are looked at from the newest one on. What a delta names, as a record
// or as gone, is remembered; a record in a file below is live if its id is not.
#include "proto/table_chain.h"

#include <inttypes.h>
#include <stdio.h>
#include <string.h>

#include "common/base/mem.h"
#include "common/base/num.h"
#include "plan/tables.h"
#include "proto/table_rows.h"

#define HEADER_MOST ((size_t)64 << 20)
#define RECORDS_AT_ONCE 1024

// No variable's name has a '#'.
const char *const table_whole_prefix[TABLE_PARTS] = {TABLE_ROWS_TENSOR,
                                                     "#waiting."};
const char *const table_changed_prefix[TABLE_PARTS] = {"#rows_changed.",
                                                       "#waiting_changed."};
const char *const table_gone_prefix[TABLE_PARTS] = {"#rows_gone.",
                                                    "#waiting_gone."};

// ---- which files

// Reads "<file>:<hex>", and the ',' behind it if another one follows. The file
// is in the folder: its name has no '/'.
static const char *link_read(struct table_chain_link *out, const char *at)
{
    size_t name = strcspn(at, ":/,");
    char hex[SHA256_HEX];

    if (at[name] != ':' || name == 0 || name >= sizeof(out->file) ||
        at[0] == '.' || strnlen(at + name + 1, SHA256_HEX) < SHA256_HEX - 1)
        return NULL;
    memcpy(out->file, at, name);
    out->file[name] = '\0';
    memcpy(hex, at + name + 1, SHA256_HEX - 1);
    hex[SHA256_HEX - 1] = '\0';
    if (hex_decode(out->sha256, SHA256_BYTES, hex) != SL_OK)
        return NULL;
    at += name + SHA256_HEX;
    if (*at == '\0')
        return at;
    return *at == ',' && at[1] != '\0' ? at + 1 : NULL;
}

enum sl_err table_chain_links(struct table_chain_link *out, size_t *count,
                              const struct tensorfile *f, struct sl_error *err)
{
    const char *at = tensorfile_meta(f, TABLE_CHAIN_KEY);
    size_t n = 0;

    if (at != NULL && *at == '\0')
        at = NULL;
    for (; at != NULL && *at != '\0'; n++) {
        at = n < TABLE_CHAIN_FILES ? link_read(&out[n], at) : NULL;
        if (at == NULL)
            return sl_fail(err, SL_ECORRUPT,
                           "metadata: file %zu of " TABLE_CHAIN_KEY
                           " is no name and hash",
                           n + 1);
    }
    *count = n;
    return SL_OK;
}

// Opens file `n` below, and checks that as many are below it as remain.
static enum sl_err chain_open_one(struct table_chain *c, size_t n, size_t count,
                                  const struct table_chain_link *link,
                                  struct fs *fs, const char *path,
                                  struct sl_error *err)
{
    struct table_chain_link below[TABLE_CHAIN_FILES];
    size_t more = 0;
    enum sl_err rc = sha256_file_is(fs, path, link->sha256, "delta", err);

    if (rc == SL_OK)
        rc = c->mapped
                 ? tensorfile_open(&c->below[n], fs, path, HEADER_MOST, err)
                 : tensorfile_open_unmapped(&c->below[n], fs, path, HEADER_MOST,
                                            err);
    if (rc != SL_OK)
        return rc;
    c->count = n + 1;
    rc = table_chain_links(below, &more, c->below[n], err);
    if (rc == SL_OK && more != count - 1 - n)
        rc = sl_fail(err, SL_ECORRUPT, "%s has %zu files below it, and not %zu",
                     path, more, count - 1 - n);
    return rc;
}

enum sl_err table_chain_open(struct table_chain *out,
                             const struct tensorfile *top, struct fs *fs,
                             const char *folder, bool mapped,
                             struct sl_error *err)
{
    struct table_chain_link link[TABLE_CHAIN_FILES];
    struct table_chain made = {.top = top, .mapped = mapped};
    size_t count = 0;
    enum sl_err rc = table_chain_links(link, &count, top, err);

    for (size_t i = 0; rc == SL_OK && i < count; i++) {
        char *path = fs_join(folder, link[i].file);

        rc = path == NULL
                 ? sl_no_memory(err)
                 : chain_open_one(&made, i, count, &link[i], fs, path, err);
        sl_free(path);
    }
    if (rc == SL_OK)
        *out = made;
    else
        table_chain_close(&made);
    return rc;
}

enum sl_err table_chain_beside(struct table_chain *out,
                               const struct tensorfile *top, struct fs *fs,
                               const char *path, bool mapped,
                               struct sl_error *err)
{
    const char *slash = strrchr(path, '/');
    char *folder = sl_strndup(path, slash == NULL ? 0 : (size_t)(slash - path));
    enum sl_err rc = folder == NULL
                         ? sl_no_memory(err)
                         : table_chain_open(out, top, fs, folder, mapped, err);

    sl_free(folder);
    return rc;
}

void table_chain_close(struct table_chain *c)
{
    for (size_t i = 0; i < c->count; i++)
        tensorfile_close(c->below[i]);
    c->count = 0;
}

// ---- the ids that files above have named

// Open addressing; 0 is a free place, and the id 0 a flag. Programs choose ids,
// but not the salt, so they cannot choose ids that meet at one place.
struct id_set {
    uint64_t *id; // owned
    uint64_t last, salt;
    bool zero;
};

static enum sl_err id_set_init(struct id_set *s, uint64_t most,
                               struct sl_error *err)
{
    unsigned bits = 4;

    while ((UINT64_C(1) << bits) < 2 * most)
        bits++;
    *s = (struct id_set){.last = (UINT64_C(1) << bits) - 1};
    s->id = sl_calloc(UINT64_C(1) << bits, sizeof(*s->id));
    s->salt = sl_mix64((uintptr_t)s->id ^ (uintptr_t)s);
    return s->id == NULL ? sl_no_memory(err) : SL_OK;
}

// Returns the place of an id, or the free one for it.
static uint64_t *id_set_at(const struct id_set *s, uint64_t id)
{
    uint64_t at = sl_mix64(id ^ s->salt) & s->last;

    while (s->id[at] != 0 && s->id[at] != id)
        at = (at + 1) & s->last;
    return &s->id[at];
}

static bool id_set_has(const struct id_set *s, uint64_t id)
{
    return id == 0 ? s->zero : *id_set_at(s, id) == id;
}

static void id_set_add(struct id_set *s, uint64_t id)
{
    if (id == 0)
        s->zero = true;
    else
        *id_set_at(s, id) = id;
}

// ---- which records are live

// Goes over a tensor of records, or of ids.
struct ids_walk {
    const struct table_chain *chain;
    const struct tensorfile *file;
    const struct tensor_info *tensor;
    size_t stride;  // bytes from one id to the next
    uint8_t *space; // owned: RECORDS_AT_ONCE of them; NULL: the file is mapped
    uint64_t next;
};

static enum sl_err ids_walk_init(struct ids_walk *w,
                                 const struct table_chain *c,
                                 const struct tensorfile *f,
                                 const struct tensor_info *t,
                                 struct sl_error *err)
{
    *w = (struct ids_walk){.chain = c, .file = f, .tensor = t};
    w->stride = t->rank > 1 ? (size_t)t->shape[1] : sizeof(uint64_t);
    if (c->mapped)
        return SL_OK;
    w->space = sl_malloc_array(w->stride, RECORDS_AT_ONCE);
    return w->space == NULL ? sl_no_memory(err) : SL_OK;
}

// Reads the next n ids, at `*at`; 0 behind the last one.
static enum sl_err ids_walk_next(struct ids_walk *w, const uint8_t **at,
                                 size_t *n, struct sl_error *err)
{
    uint64_t from = w->next * w->stride;

    *n = (size_t)sl_min(w->tensor->shape[0] - w->next, RECORDS_AT_ONCE);
    w->next += *n;
    *at = w->space;
    if (*n == 0)
        return SL_OK;
    if (w->space != NULL)
        return tensorfile_read(w->file, w->tensor, from, w->space,
                               *n * w->stride, err);
    *at = tensorfile_data(w->file, w->tensor) + from;
    return SL_OK;
}

// Adds the ids of a tensor to the set.
static enum sl_err id_set_take(struct id_set *s, const struct table_chain *c,
                               const struct tensorfile *f,
                               const struct tensor_info *t,
                               struct sl_error *err)
{
    struct ids_walk w;
    const uint8_t *at;
    size_t n = 1;
    enum sl_err rc = ids_walk_init(&w, c, f, t, err);

    while (rc == SL_OK && n > 0) {
        rc = ids_walk_next(&w, &at, &n, err);
        for (size_t i = 0; rc == SL_OK && i < n; i++)
            id_set_add(s, table_id(at + i * w.stride, 0));
    }
    sl_free(w.space);
    return rc;
}

// Marks the records of a segment with ids that the set lacks, and counts them.
static enum sl_err segment_mark(struct table_segment *g,
                                const struct id_set *above,
                                const struct table_chain *c, uint64_t *records,
                                struct sl_error *err)
{
    struct ids_walk w;
    const uint8_t *at;
    size_t n = 1;
    enum sl_err rc;

    g->live = sl_calloc(g->tensor->shape[0] / 64 + 1, sizeof(*g->live));
    if (g->live == NULL)
        return sl_no_memory(err);
    rc = ids_walk_init(&w, c, g->file, g->tensor, err);
    while (rc == SL_OK && n > 0) {
        uint64_t first = w.next;

        rc = ids_walk_next(&w, &at, &n, err);
        for (size_t i = 0; rc == SL_OK && i < n; i++) {
            uint64_t live = !id_set_has(above, table_id(at + i * w.stride, 0));

            g->live[(first + i) / 64] |= live << (first + i) % 64;
            *records += live;
        }
    }
    sl_free(w.space);
    return rc;
}

static const struct tensorfile *chain_file(const struct table_chain *c,
                                           size_t i)
{
    return i == 0 ? c->top : c->below[i - 1];
}

// Returns the ids that a file says are gone; NULL: it has no such tensor.
static const struct tensor_info *find_gone(const struct tensorfile *f,
                                           unsigned part, const char *table)
{
    char name[32 + WIRE_NAME_BYTES];
    const struct tensor_info *t;
    int n =
        snprintf(name, sizeof(name), "%s%s", table_gone_prefix[part], table);

    t = n < 0 || (size_t)n >= sizeof(name) ? NULL : tensorfile_find(f, name);
    return t != NULL && t->dtype == TENSOR_U64 && t->rank == 1 ? t : NULL;
}

// Finds the tensors of each file. All but the last one are deltas.
static enum sl_err live_find(struct table_live *l, const struct table_chain *c,
                             unsigned part, const char *table, uint64_t *ids,
                             struct sl_error *err)
{
    for (size_t i = 0; i <= c->count; i++) {
        bool whole = i == c->count;
        const struct tensorfile *f = chain_file(c, i);
        const struct tensor_info *gone = find_gone(f, part, table), *t;

        t = table_rows_find(
            f, whole ? table_whole_prefix[part] : table_changed_prefix[part],
            table);
        if (t == NULL || (!whole && gone == NULL) ||
            (i > 0 && t->shape[1] != l->record_bytes) || t->shape[1] < 8)
            return sl_fail(err, i == 0 ? SL_ENOENT : SL_ECORRUPT,
                           "the snapshot, or file %zu below it, has no records "
                           "of a table of this name and form",
                           i);
        l->record_bytes = (uint32_t)t->shape[1];
        l->segment[i] = (struct table_segment){.file = f, .tensor = t};
        *ids += whole ? 0 : t->shape[0] + gone->shape[0];
    }
    return SL_OK;
}

// Marks file `i` by what those above it have named, and adds what it names.
static enum sl_err live_mark(struct table_live *l, struct id_set *above,
                             const struct table_chain *c, size_t i,
                             unsigned part, const char *table,
                             struct sl_error *err)
{
    struct table_segment *g = &l->segment[i];
    enum sl_err rc = segment_mark(g, above, c, &l->records, err);

    l->count = i + 1;
    if (rc != SL_OK || i == c->count)
        return rc;
    rc = id_set_take(above, c, g->file, g->tensor, err);
    if (rc == SL_OK)
        rc = id_set_take(above, c, g->file, find_gone(g->file, part, table),
                         err);
    return rc;
}

enum sl_err table_live_init(struct table_live *out, const struct table_chain *c,
                            unsigned part, const char *table,
                            struct sl_error *err)
{
    struct table_live made = {.count = 1};
    struct id_set above;
    uint64_t ids = 0;
    enum sl_err rc = live_find(&made, c, part, table, &ids, err);

    if (rc == SL_OK && c->count == 0) {
        made.records = made.segment[0].tensor->shape[0];
        *out = made;
        return SL_OK;
    }
    if (rc == SL_OK)
        rc = id_set_init(&above, ids, err);
    if (rc != SL_OK)
        return rc;
    for (size_t i = 0; rc == SL_OK && i <= c->count; i++)
        rc = live_mark(&made, &above, c, i, part, table, err);
    sl_free(above.id);
    if (rc == SL_OK)
        *out = made;
    else
        table_live_release(&made);
    return rc;
}

void table_live_release(struct table_live *l)
{
    for (size_t i = 0; i < l->count; i++)
        sl_free(l->segment[i].live);
    l->count = 0;
}

// ---- reading them

// Returns the first record from `at` on whose bit is `live`, or `end`.
static uint64_t bit_find(const struct table_segment *g, uint64_t at,
                         uint64_t end, bool live)
{
    uint64_t flip = live ? 0 : UINT64_MAX;

    if (g->live == NULL)
        return live ? at : end;
    while (at < end) {
        uint64_t word = (g->live[at / 64] ^ flip) >> at % 64;

        if (word != 0)
            return sl_min(at + (uint64_t)__builtin_ctzll(word), end);
        at += 64 - at % 64;
    }
    return end;
}

bool table_live_next(const struct table_live *l, struct table_live_at *at,
                     uint64_t most, struct table_run *out)
{
    for (; at->segment < l->count; at->segment++, at->record = 0) {
        const struct table_segment *g = &l->segment[at->segment];
        uint64_t end = g->tensor->shape[0];
        uint64_t first = bit_find(g, at->record, end, true);

        if (first >= end)
            continue;
        end = bit_find(g, first, first + sl_min(most, end - first), false);
        *out = (struct table_run){g, first, end - first};
        at->record = end;
        return true;
    }
    return false;
}

// Steps over live records of a segment; returns how many it left.
static uint64_t segment_skip(const struct table_segment *g, uint64_t skip,
                             uint64_t *record)
{
    uint64_t end = g->tensor->shape[0];

    if (g->live == NULL) {
        *record = sl_min(skip, end);
        return skip - *record;
    }
    for (*record = 0; *record < end; *record += 64) {
        uint64_t live = (uint64_t)__builtin_popcountll(g->live[*record / 64]);

        if (live > skip)
            break;
        skip -= live;
    }
    for (; skip > 0 && *record < end; ++*record)
        skip -= g->live[*record / 64] >> *record % 64 & 1;
    return skip;
}

struct table_live_at table_live_seek(const struct table_live *l, uint64_t first)
{
    struct table_live_at at = {0};

    for (; at.segment < l->count; at.segment++) {
        first = segment_skip(&l->segment[at.segment], first, &at.record);
        if (at.record < l->segment[at.segment].tensor->shape[0])
            return at;
    }
    return at;
}

const uint8_t *table_run_data(const struct table_run *run)
{
    const struct tensor_info *t = run->segment->tensor;

    return tensorfile_data(run->segment->file, t) + run->first * t->shape[1];
}
