// SPDX-License-Identifier: Apache-2.0
#include "proto/manifest.h"

#include "proto/wire.h"
#include "tests/harness/t.h"

#define VARIABLES "\"variables\":[{\"name\":\"w\",\"shape\":[4]}]"
#define PIECE(rows)                                                            \
    "{\"variable\":0,\"first_row\":0,\"rows\":" #rows                          \
    ",\"shard\":0,\"elements\":4}"

static enum sl_err parse(json_t **root, const char *text, struct sl_error *err)
{
    const char *path = t_path("cut-3.json");

    T_OK(fs_write_durable(fs_posix(), path, text, strlen(text), t_err()));
    return manifest_parse(root, fs_posix(), path, err);
}

TEST(manifest, its_format_is_one_that_we_know)
{
    struct sl_error err = SL_ERROR_INIT;
    json_t *root = NULL;
    uint64_t job = 0;

    T_OK(parse(&root, "{\"format\":1,\"job\":5}", t_err()));
    T_OK(sl_json_u64(&job, root, "job", t_err()));
    T_EQ(job, 5);
    json_decref(root);
    root = NULL;
    T_FAILS(SL_ENOTSUP, parse(&root, "{\"format\":3}", &err));
    T_HAS(err.text, t_path("cut-3.json"));
    T_HAS(err.text, "format 3 is newer");
    T_FAILS(SL_ECORRUPT, parse(&root, "{\"job\":5}", &err));
    T_HAS(err.text, "not a manifest");
    T_FAILS(SL_ECORRUPT, parse(&root, "{\"format\":\"1\"}", &err));
    T_FAILS(SL_EINVAL, parse(&root, "{\"format\":1", &err));
    T_HAS(err.text, t_path("cut-3.json"));
    T_FAILS(SL_ENOENT, manifest_parse(&root, fs_posix(), t_path("no"), &err));
    T_TRUE(root == NULL);
}

// Reads variables and pieces, and returns what that said.
static enum sl_err read_layout(Sluice__V1__CheckpointsReply **out,
                               const char *text, struct sl_error *err)
{
    json_t *root = NULL;
    enum sl_err rc;

    T_OK(sl_json_parse(&root, "m", text, strlen(text), NULL, t_err()));
    *out = wire_new(&sluice__v1__checkpoints_reply__descriptor);
    rc = manifest_layout(*out, root, err);
    json_decref(root);
    return rc;
}

TEST(manifest, variables_and_pieces_are_read)
{
    Sluice__V1__CheckpointsReply *found;

    T_OK(read_layout(&found, "{" VARIABLES ",\"pieces\":[" PIECE(4) "]}",
                     t_err()));
    T_EQ(found->n_variables, 1);
    T_STR(found->variables[0]->name, "w");
    T_EQ(found->n_pieces, 1);
    T_EQ(found->pieces[0]->rows, 4);
    wire_free(&found->base);
}

TEST(manifest, what_is_missing_or_not_valid_is_refused_by_its_key)
{
    static const struct {
        const char *text;
        enum sl_err rc;
        const char *says;
    } bad[] = {
        {"{\"pieces\":[]}", SL_ECORRUPT, "'variables' is missing"},
        {"{" VARIABLES "}", SL_ECORRUPT, "'pieces' is missing"},
        {"{" VARIABLES ",\"pieces\":[]}", SL_ECORRUPT, "'pieces' is missing"},
        {"{" VARIABLES ",\"pieces\":{\"a\":1}}", SL_ECORRUPT, "'pieces'"},
        {"{" VARIABLES ",\"pieces\":[" PIECE(4) ",7]}", SL_EINVAL, "pieces:"},
        {"{" VARIABLES ",\"pieces\":[" PIECE(0) "]}", SL_EINVAL, "pieces:"},
        {"{" VARIABLES ",\"pieces\":[{\"rwos\":1}]}", SL_EINVAL, "'rwos'"},
    };

    for (size_t i = 0; i < SL_COUNT(bad); i++) {
        Sluice__V1__CheckpointsReply *found;
        struct sl_error err = SL_ERROR_INIT;

        T_FAILS(bad[i].rc, read_layout(&found, bad[i].text, &err));
        T_HAS(err.text, bad[i].says);
        wire_free(&found->base);
    }
}
