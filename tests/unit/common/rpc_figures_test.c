// SPDX-License-Identifier: Apache-2.0
// Figures of a server, and what its process refused.
#include "tests/unit/common/rpc_kit.h"

#include "common/net/rpc_figures.h"
#include "common/net/wirescan.h"

static long refused_for_size(struct rpc_server *s)
{
    static const char row[] = "sluice_refused_total{reason=\"size\"} ";
    struct buf text = BUF_INIT;
    struct expo e;
    const char *at;
    long count;

    expo_begin(&e, &text, false);
    rpc_server_measure(s, &e);
    T_OK(expo_end(&e));
    at = strstr(buf_text(&text), row);
    T_ASSERT(at != NULL);
    count = strtol(at + sizeof(row) - 1, NULL, 10);
    buf_release(&text);
    return count;
}

TEST(rpc_figures, a_message_over_its_limit_counts_however_it_is_cut)
{
    static const ProtobufCMessageDescriptor any = {.name = "t.Any"};
    static const struct wire_limits limits = {.max_bytes = 6};
    static const uint8_t bytes[7];
    struct sl_error err = SL_ERROR_INIT;
    struct wire_arena arena;
    ProtobufCMessage *out;
    struct world w;

    world_open(&w, who_methods, 1, NULL, true);
    wire_arena_init(&arena);
    for (size_t cut = 0; cut <= sizeof(bytes); cut++) {
        const struct sl_slice two[] = {{bytes, cut},
                                       {bytes + cut, sizeof(bytes) - cut}};
        struct sl_slices all = slices_all(two, 2);
        long before = refused_for_size(w.server);

        T_FAILS(SL_ERANGE,
                wire_unpack_slices(&out, &arena, &any, &all, &limits, &err));
        T_STR(err.text, "t.Any: 7 bytes are over the limit of 6");
        T_EQ(refused_for_size(w.server), before + 1);
    }
    T_EQ(arena.used_bytes, 0);
    wire_arena_release(&arena);
    world_close(&w);
}
