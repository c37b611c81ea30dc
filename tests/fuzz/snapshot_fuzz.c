// SPDX-License-Identifier: Apache-2.0
// A shard's snapshot, in the place of the real one. Each input is read twice:
// as it is, and as if its checksums held, since hardly a mutation of them does.
//
// FUZZ_EMIT=FILE writes a snapshot of the same shard, for the corpus.
#include <stdio.h>
#include <stdlib.h>

#include "common/base/mem.h"
#include "common/base/tensorfile.h"
#include "state/snap/snap.h"
#include "tests/fuzz/fuzz.h"
#include "tests/unit/psserver/kit.h"

static bool believe; // the checksums

// kit.c's, without the harness and its main.
void t_assert_failed(const char *what, const char *file, int line)
{
    fuzz_broken(what, file, line);
}

// The linker sends snap_read.c here (--wrap).
enum sl_err __real_tensorfile_verify(const struct tensorfile *f,
                                     struct sl_error *err);
enum sl_err __wrap_tensorfile_verify(const struct tensorfile *f,
                                     struct sl_error *err);
enum sl_err __wrap_tensorfile_verify(const struct tensorfile *f,
                                     struct sl_error *err)
{
    return believe ? SL_OK : __real_tensorfile_verify(f, err);
}

// Some closures whole, one in part, Adam's slots.
static struct shard *trained(void)
{
    static const struct {
        uint64_t closure;
        uint32_t step;
    } counted[] = {{0, 0}, {0, 1}, {0, 2}, {0, 3}, {1, 1}, {2, 0}};
    struct kit k;
    struct shard *s;

    kit_init(&k);
    kit_optimizer(&k, "adam", 0.5);
    s = kit_admitted(&k);
    for (size_t i = 0; i < SL_COUNT(counted); i++)
        kit_count(s, counted[i].closure, counted[i].step, 0.25f);
    return s;
}

// Its name, without the folder.
static void emit(char name[SNAP_NAME_BYTES])
{
    struct shard *s = trained();
    struct snap_written w = {0};

    FUZZ_TRUE(snap_write(fs_posix(), fuzz_folder(), s, 1, &w, NULL) == SL_OK);
    memcpy(name, w.file, SNAP_NAME_BYTES);
    snap_written_release(&w);
    shard_unref(s);
    if (getenv("FUZZ_EMIT") != NULL) {
        char line[512];

        snprintf(line, sizeof(line), "cp '%s/%s' '%s'", fuzz_folder(), name,
                 getenv("FUZZ_EMIT"));
        FUZZ_TRUE(system(line) == 0);
    }
}

static void read_as(struct shard *s, const struct shard *fresh)
{
    struct sl_error err = SL_ERROR_INIT;
    struct wire_tag tag = {1, 1}, at_least = {0, 0};
    enum sl_err rc =
        snap_read(fs_posix(), fuzz_folder(), tag, at_least, s, &err);

    if (rc != SL_OK) {
        fuzz_refused(rc, &err);
        FUZZ_TRUE(memcmp(s->region.data, fresh->region.data, s->region.bytes) ==
                  0);
        FUZZ_TRUE(counted_steps(&s->once.counted) == 0);
        return;
    }
    // Invariant `once`, whatever the file said.
    FUZZ_TRUE(s->once.counts.applied + s->once.counts.skipped ==
              counted_steps(&s->once.counted));
    FUZZ_TRUE(wire_tag_cmp(s->from, tag) == 0);
}

static void read_values(const struct plan *plan)
{
    struct tagged_file *file = NULL;
    struct sl_error err = SL_ERROR_INIT;
    uint32_t sum = 0;

    if (snap_values(fs_posix(), fuzz_folder(), plan, (struct wire_tag){1, 1},
                    &file, &err) != SL_OK)
        return;
    for (size_t i = 0; i < file->bytes; i++)
        sum += ((const uint8_t *)file->values)[i];
    (void)sum;
    tagged_file_unref(file);
}

int LLVMFuzzerTestOneInput(const uint8_t *data, size_t size)
{
    static char name[SNAP_NAME_BYTES];
    struct shard *s, *fresh;
    struct kit k;

    if (name[0] == '\0')
        emit(name);
    fuzz_file(name, data, size);
    kit_init(&k);
    kit_optimizer(&k, "adam", 0.5);
    fresh = kit_shard(&k);
    for (int i = 0; i < 2; i++) {
        believe = i == 1;
        s = kit_shard(&k);
        read_as(s, fresh);
        read_values(&s->plan);
        shard_unref(s);
    }
    shard_unref(fresh);
    return 0;
}
