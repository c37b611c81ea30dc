// SPDX-License-Identifier: Apache-2.0
// proto/wire_jobs.c -- the decoders of the control plane, and packing and
// copying of any message.
#include "proto/wire_check.h"

#include "common/base/mem.h"

// One function per line of the map.
#define WIRE_UNPACK_BODY(name, Type)                                           \
    enum sl_err wire_unpack_##name(                                            \
        Sluice__V1__##Type **out, struct wire_arena *arena,                    \
        const struct sl_slices *bytes, struct sl_error *err)                   \
    {                                                                          \
        ProtobufCMessage *m = NULL;                                            \
        enum sl_err rc = wire_unpack(                                          \
            &m, arena, &sluice__v1__##name##__descriptor, bytes, err);         \
                                                                               \
        if (rc == SL_OK)                                                       \
            *out = (Sluice__V1__##Type *)m;                                    \
        return rc;                                                             \
    }
WIRE_UNPACK_MAP(WIRE_UNPACK_BODY)

enum sl_err wire_pack(const ProtobufCMessage *msg, struct buf *out)
{
    size_t n = protobuf_c_message_get_packed_size(msg);
    uint8_t *to = buf_extend(out, n);

    if (to == NULL)
        return SL_ENOMEM;
    protobuf_c_message_pack(msg, to);
    return SL_OK;
}

enum sl_err wire_msg(struct rpc_msg *out, const ProtobufCMessage *msg)
{
    size_t n = protobuf_c_message_get_packed_size(msg);
    uint8_t *to = rpc_msg_head(out, n);

    if (to == NULL)
        return SL_ENOMEM;
    protobuf_c_message_pack(msg, to);
    return SL_OK;
}

static void *heap_alloc(void *user, size_t bytes)
{
    return sl_malloc(bytes);
}

static void heap_free(void *user, void *p)
{
    sl_free(p);
}

ProtobufCAllocator wire_heap = {heap_alloc, heap_free, NULL};

void *wire_new(const ProtobufCMessageDescriptor *of)
{
    ProtobufCMessage *m = sl_malloc(of->sizeof_message);

    if (m != NULL)
        protobuf_c_message_init(of, m);
    return m;
}

enum sl_err wire_dup(ProtobufCMessage **out, const ProtobufCMessage *msg)
{
    struct buf packed = BUF_INIT;
    ProtobufCMessage *copy;
    enum sl_err rc = wire_pack(msg, &packed);

    if (rc != SL_OK)
        return rc;
    // Our own bytes of a message that we hold: no scan needed.
    copy = protobuf_c_message_unpack(msg->descriptor, &wire_heap, packed.len,
                                     packed.data);
    buf_release(&packed);
    if (copy == NULL)
        return SL_ENOMEM;
    *out = copy;
    return SL_OK;
}

enum sl_err wire_load(ProtobufCMessage **out,
                      const ProtobufCMessageDescriptor *of, const void *data,
                      size_t size, struct sl_error *err)
{
    static const struct wire_limits limits = {
        .max_bytes = WIRE_LOAD_BYTES,
        .max_fields = WIRE_LOAD_FIELDS,
    };
    struct sl_slice slice = {data, size};
    struct sl_slices bytes = slices_one(&slice);
    struct wire_arena *arena = sl_malloc(sizeof(*arena));
    ProtobufCMessage *borrowed = NULL;
    enum sl_err rc;

    if (arena == NULL)
        return sl_fail(err, SL_ENOMEM, "%s", of->short_name);
    wire_arena_init(arena);
    rc = wire_unpack_within(&borrowed, arena, of, &bytes, &limits, err);
    if (rc == SL_OK && wire_dup(out, borrowed) != SL_OK)
        rc = sl_fail(err, SL_ENOMEM, "%s", of->short_name);
    wire_arena_release(arena);
    sl_free(arena);
    return rc;
}

void wire_free(ProtobufCMessage *msg)
{
    if (msg != NULL)
        protobuf_c_message_free_unpacked(msg, &wire_heap);
}
