// SPDX-License-Identifier: Apache-2.0
// safetensors. What is accepted has no hole and no overlap, and is written and
// read again as the same tensors.
#include "common/base/mem.h"
#include "common/base/tensorfile.h"
#include "tests/fuzz/fuzz.h"

static void check_tensor(const struct tensorfile *f, const uint8_t *data,
                         size_t size, const struct tensor_info *t)
{
    const uint8_t *bytes = tensorfile_data(f, t);
    uint64_t want;

    FUZZ_TRUE(bytes >= data && t->end >= t->begin);
    FUZZ_TRUE(bytes + (t->end - t->begin) <= data + size);
    FUZZ_TRUE(tensor_bytes(&want, t) == SL_OK && want == t->end - t->begin);
    FUZZ_TRUE(tensorfile_find(f, t->name) == t);
}

static void copy(struct tensorfile_writer *w, const struct tensorfile *f)
{
    for (size_t i = 0; i < tensorfile_count(f); i++) {
        const struct tensor_info *t = tensorfile_at(f, i);

        FUZZ_TRUE(tensorfile_append(w, tensorfile_data(f, t), t->end - t->begin,
                                    NULL) == SL_OK);
    }
}

static void read_copy(const struct tensorfile *f, const char *path)
{
    struct tensorfile *g = NULL;

    FUZZ_TRUE(tensorfile_open(&g, fs_posix(), path, 0, NULL) == SL_OK);
    FUZZ_TRUE(tensorfile_verify(g, NULL) == SL_OK);
    FUZZ_TRUE(tensorfile_count(g) == tensorfile_count(f));
    for (size_t i = 0; i < tensorfile_count(f); i++) {
        const struct tensor_info *t = tensorfile_at(f, i);
        const struct tensor_info *u = tensorfile_find(g, t->name);

        FUZZ_TRUE(u != NULL && u->dtype == t->dtype && u->rank == t->rank);
        FUZZ_TRUE(memcmp(u->shape, t->shape, t->rank * sizeof(t->shape[0])) ==
                  0);
        FUZZ_TRUE(memcmp(tensorfile_data(g, u), tensorfile_data(f, t),
                         t->end - t->begin) == 0);
    }
    tensorfile_close(g);
}

static void write_again(const struct tensorfile *f)
{
    struct tensor_meta meta[16];
    size_t tensors = tensorfile_count(f), keys = tensorfile_meta_count(f);
    struct tensorfile_writer *w = NULL;
    const char *path = fuzz_file("copy.safetensors", NULL, 0);

    if (tensorfile_meta(f, TENSORFILE_KEY_DATA) != NULL ||
        tensorfile_meta(f, TENSORFILE_KEY_HEADER) != NULL)
        keys = 0; // these are the writer's
    for (size_t i = 0; i < keys && i < SL_COUNT(meta); i++)
        meta[i] = tensorfile_meta_at(f, i);
    FUZZ_TRUE(tensorfile_create(&w, fs_posix(), path,
                                tensors > 0 ? tensorfile_at(f, 0) : NULL,
                                tensors, meta,
                                keys < SL_COUNT(meta) ? keys : SL_COUNT(meta),
                                true, NULL) == SL_OK);
    copy(w, f);
    FUZZ_TRUE(tensorfile_finish(w, NULL, NULL) == SL_OK);
    read_copy(f, path);
}

int LLVMFuzzerTestOneInput(const uint8_t *data, size_t size)
{
    struct tensorfile *const untouched = (struct tensorfile *)(uintptr_t)0xa5;
    struct sl_error err = SL_ERROR_INIT;
    struct tensorfile *f = untouched;
    static unsigned accepted;
    enum sl_err rc;

    fuzz_budget(65536 + 64 * size);
    rc = tensorfile_parse(&f, "fuzz.safetensors", data, size, 0, &err);
    fuzz_budget(SIZE_MAX);
    if (rc != SL_OK) {
        fuzz_refused(rc, &err);
        FUZZ_TRUE(rc == SL_ECORRUPT && f == untouched);
        return 0;
    }
    for (size_t i = 0; i < tensorfile_count(f); i++)
        check_tensor(f, data, size, tensorfile_at(f, i));
    rc = tensorfile_verify(f, &err);
    FUZZ_TRUE(rc == SL_OK || rc == SL_ENOENT || rc == SL_ECORRUPT);
    if (accepted++ % 16 == 0) // files are slow
        write_again(f);
    tensorfile_close(f);
    return 0;
}
