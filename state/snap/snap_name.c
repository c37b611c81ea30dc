// SPDX-License-Identifier: Apache-2.0
// state/snap/snap_name.c -- the names of snapshot files and folders, to and
// from tags.
#include <ctype.h>
#include <inttypes.h>
#include <stdio.h>
#include <string.h>

#include "common/base/buf.h"
#include "common/base/mem.h"
#include "state/snap/snap.h"

#define NAME_CUT 64 // of the job's name, in the folder's

size_t snap_records_bytes(const struct shard *shard)
{
    size_t most = 0;

    for (size_t i = 0; i < shard->tables.count; i++) {
        size_t stride = rowset_stride(shard->tables.sets[i]);

        most = stride > most ? stride : most;
    }
    return most * SNAP_RECORDS;
}

void snap_file_name(char out[SNAP_NAME_BYTES], uint32_t shard,
                    struct wire_tag tag)
{
    snprintf(out, SNAP_NAME_BYTES,
             "shard-%" PRIu32 ".i%" PRIu64 ".n%" PRIu64 ".safetensors", shard,
             tag.incarnation, tag.sequence);
}

bool snap_file_parse(const char *name, uint32_t *shard, struct wire_tag *tag)
{
    char again[SNAP_NAME_BYTES];
    struct wire_tag t;
    uint32_t s;

    if (sscanf(name, "shard-%" SCNu32 ".i%" SCNu64 ".n%" SCNu64, &s,
               &t.incarnation, &t.sequence) != 3)
        return false;
    // The one spelling that we write: no sign, no leading zero, no rest.
    snap_file_name(again, s, t);
    if (strcmp(again, name) != 0)
        return false;
    *shard = s;
    *tag = t;
    return true;
}

// A name that is safe as part of a path: it cannot leave the folder, hide or
// look like an option.
static void safe_name(char out[NAME_CUT + 1], const char *name)
{
    size_t n = 0;

    for (; name[n] != '\0' && n < NAME_CUT; n++) {
        unsigned char c = (unsigned char)name[n];
        bool plain = c < 0x80 && (isalnum(c) || c == '_' ||
                                  (n > 0 && (c == '-' || c == '.')));

        out[n] = plain ? (char)c : '_';
    }
    out[n] = '\0';
}

static void folder_tail(char *out, size_t size, uint64_t job, uint64_t uid)
{
    snprintf(out, size, "-j-%" PRIu64 "-%08" PRIx32, job, (uint32_t)uid);
}

char *snap_folder(const char *store, const struct plan *plan)
{
    char name[NAME_CUT + 1], tail[48];
    struct buf b = BUF_INIT;
    size_t n;

    safe_name(name, plan->job_name);
    folder_tail(tail, sizeof(tail), plan->job, plan->job_uid);
    if (buf_appendf(&b, "%s/%s%s", store, name, tail) != SL_OK) {
        buf_release(&b);
        return NULL;
    }
    return (char *)buf_detach(&b, &n);
}

bool snap_folder_is(const char *name, uint64_t job, uint64_t uid)
{
    size_t n = strlen(name), t;
    char tail[48];

    folder_tail(tail, sizeof(tail), job, uid);
    t = strlen(tail);
    return n >= t && strcmp(name + n - t, tail) == 0;
}

// Folders are absolute in what is recorded, stores elsewhere have a scheme.
struct fs *snap_fs_of(struct fs *fs, const char *store, const char *path)
{
    return path[0] == '/' && strstr(store, "://") != NULL ? fs_posix() : fs;
}
