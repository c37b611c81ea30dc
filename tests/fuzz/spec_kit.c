// SPDX-License-Identifier: Apache-2.0
#include "tests/fuzz/spec_kit.h"

#include "client/spec/specfile.h"
#include "common/base/buf.h"
#include "proto/pbjson.h"
#include "proto/spec.h"
#include "proto/wire.h"
#include "tests/fuzz/fuzz.h"

static void pack(struct buf *out, const ProtobufCMessage *m)
{
    buf_reset(out);
    FUZZ_TRUE(wire_pack(m, out) == SL_OK);
}

// A checked spec: checking twice changes nothing, the coordinator accepts its
// bytes, and what plain C asks of it can be answered.
static void check_accepted(Sluice__V1__JobSpec *spec)
{
    struct buf first = BUF_INIT, second = BUF_INIT;
    struct wire_arena arena;
    Sluice__V1__JobSpec *read = NULL;
    struct spec_optimizer optimizer;
    struct sl_error err = SL_ERROR_INIT;
    struct model *model = NULL;
    struct sl_slice one;
    struct sl_slices all;

    pack(&first, &spec->base);
    FUZZ_TRUE(spec_check(spec, NULL) == SL_OK);
    pack(&second, &spec->base);
    FUZZ_TRUE(first.len == second.len &&
              memcmp(first.data, second.data, first.len) == 0);
    one = (struct sl_slice){first.data, first.len};
    all = slices_one(&one);
    wire_arena_init(&arena);
    if (wire_unpack_job_spec(&read, &arena, &all, &err) != SL_OK)
        fuzz_broken(err.text, __FILE__, __LINE__);
    FUZZ_TRUE(spec->optimizer == NULL ||
              spec_optimizer(&optimizer, spec->optimizer, NULL) == SL_OK);
    FUZZ_TRUE(model_make(&model, spec->model, NULL) == SL_OK);
    model_free(model);
    wire_arena_release(&arena);
    buf_release(&first);
    buf_release(&second);
}

static void read_spec(const char *name, const json_t *root)
{
    ProtobufCMessage *spec = NULL;
    struct sl_error err = SL_ERROR_INIT;
    enum sl_err rc =
        pbjson_read(&spec, &sluice__v1__job_spec__descriptor, root, name, &err);

    if (rc == SL_OK)
        rc = spec_check((Sluice__V1__JobSpec *)spec, &err);
    if (rc == SL_OK)
        check_accepted((Sluice__V1__JobSpec *)spec);
    else
        fuzz_refused(rc, &err);
    wire_free(spec);
}

void spec_text(const char *name, const uint8_t *data, size_t size)
{
    struct sl_error err = SL_ERROR_INIT;
    struct buf text = BUF_INIT;
    json_t *root = NULL, *lines = NULL;
    enum sl_err rc;

    // As fs_read_all gives it: with a 0 behind it.
    FUZZ_TRUE(buf_append(&text, data, size) == SL_OK);
    rc = specfile_parse(&root, &lines, name, buf_text(&text), size, &err);
    if (rc == SL_OK) {
        read_spec(name, root);
        FUZZ_TRUE(specfile_paths(root, "/folder", &err) == SL_OK ||
                  err.code != SL_OK);
    } else {
        fuzz_refused(rc, &err);
        FUZZ_TRUE(root == NULL && lines == NULL);
    }
    json_decref(root);
    json_decref(lines);
    buf_release(&text);
}
