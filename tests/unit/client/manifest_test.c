// SPDX-License-Identifier: Apache-2.0
#include "client/files/cut_manifest.h"

#include "common/base/mem.h"
#include "tests/harness/t.h"

#define SHA "000102030405060708090a0b0c0d0e0f101112131415161718191a1b1c1d1e1f"

// As the coordinator writes it, without what a reader need not know.
static const char good[] =
    "{\"format\":1,\"job\":5,\"cut\":3,"
    "\"variables\":[{\"name\":\"w\",\"shape\":[4],\"kind\":\"trainable\"}],"
    "\"pieces\":[{\"variable\":0,\"first_row\":0,\"rows\":3,\"shard\":0,"
    "\"elements\":3},{\"variable\":0,\"first_row\":3,\"rows\":1,\"shard\":1,"
    "\"elements\":1}],"
    "\"shards\":[{\"shard\":1,\"folder\":\"/nowhere\",\"file\":\"b\","
    "\"sha256\":\"" SHA "\",\"counts\":{\"counted\":7}},"
    "{\"shard\":0,\"folder\":\"/nowhere\",\"file\":\"a\","
    "\"sha256\":\"" SHA "\",\"counts\":{\"counted\":9}}]}";

static enum sl_err read_text(struct checkpoint_manifest *m, const char *text)
{
    T_OK(fs_write_durable(fs_posix(), t_path("cut-3.json"), text, strlen(text),
                          t_err()));
    return manifest_read(m, fs_posix(), t_path("cut-3.json"), t_err());
}

TEST(manifest, is_read)
{
    struct checkpoint_manifest m;

    T_OK(read_text(&m, good));
    T_EQ(m.cut, 3);
    T_EQ(m.job, 5);
    T_EQ(m.layout.elements, 4);
    T_EQ(m.layout.shards_count, 2);
    T_EQ(m.shards[0].steps, 9);
    T_EQ(m.shards[1].steps, 7);
    T_EQ(m.shards[1].sha256[31], 0x1f);
    T_STR(m.shards[0].path, "/nowhere/a");
    manifest_release(&m);
}

// A folder that was copied elsewhere can still be read.
TEST(manifest, files_beside_it_are_found)
{
    struct checkpoint_manifest m;

    T_OK(fs_write_durable(fs_posix(), t_path("a"), "x", 1, t_err()));
    T_OK(read_text(&m, good));
    T_STR(m.shards[0].path, t_path("a"));
    T_STR(m.shards[1].path, "/nowhere/b");
    manifest_release(&m);
}

// Replaces one text in the good manifest by another.
static enum sl_err read_with(const char *old, const char *new)
{
    struct checkpoint_manifest m;
    char text[2048];
    const char *at = strstr(good, old);

    T_TRUE(at != NULL);
    snprintf(text, sizeof(text), "%.*s%s%s", (int)(at - good), good, new,
             at + strlen(old));
    return read_text(&m, text);
}

TEST(manifest, what_does_not_hold_is_refused)
{
    T_FAILS(SL_ENOTSUP, read_with("\"format\":1", "\"format\":3"));
    T_FAILS(SL_ECORRUPT, read_with("\"format\":1,", ""));
    T_FAILS(SL_ECORRUPT,
            read_with("\"shard\":1,\"folder\"", "\"shard\":0,\"folder\""));
    T_FAILS(SL_ECORRUPT,
            read_with("\"shard\":1,\"folder\"", "\"shard\":2,\"folder\""));
    T_FAILS(SL_ECORRUPT, read_with("\"file\":\"b\"", "\"file\":\"../b\""));
    T_FAILS(SL_ECORRUPT, read_with("\"sha256\":\"00", "\"sha256\":\"0"));
    T_FAILS(SL_ECORRUPT, read_with("\"pieces\"", "\"bits\""));
    T_FAILS(SL_EINVAL, read_with("\"rows\":3", "\"rows\":2"));
    T_FAILS(SL_EINVAL, read_with("{\"format\"", "\"format\""));
}

// A manifest of another program may have its hashes in base64.
TEST(manifest, out_of_memory_at_every_step)
{
    static const char text[] =
        "{\"format\":1,\"job\":5,\"cut\":3,"
        "\"variables\":[{\"name\":\"w\",\"shape\":[4],"
        "\"kind\":\"trainable\"}],"
        "\"pieces\":[{\"variable\":0,\"first_row\":0,\"rows\":4,\"shard\":0,"
        "\"elements\":4}],"
        "\"shards\":[{\"shard\":0,\"folder\":\"/nowhere\",\"file\":\"a\","
        "\"sha256\":\"AAECAwQFBgcICQoLDA0ODxAREhMUFRYXGBkaGxwdHh8=\"}],"
        "\"spec\":{\"name\":\"n\"}}";
    struct checkpoint_manifest m;
    bool failed = true;

    T_OK(fs_write_durable(fs_posix(), t_path("a"), "x", 1, t_err()));
    T_OK(read_text(&m, text));
    T_EQ(m.shards[0].sha256[31], 0x1f);
    T_STR(m.spec->name, "n");
    manifest_release(&m);
    for (uint64_t n = 1; failed; n++) {
        uint64_t live = sl_mem_live();
        enum sl_err rc;

        sl_mem_fail_at(n);
        rc = manifest_read(&m, fs_posix(), t_path("cut-3.json"), NULL);
        failed = sl_mem_failed();
        T_EQ(rc, failed ? SL_ENOMEM : SL_OK);
        if (failed)
            T_EQ(sl_mem_live(), live);
    }
    T_STR(m.shards[0].path, t_path("a"));
    manifest_release(&m);
}
