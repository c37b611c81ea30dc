// SPDX-License-Identifier: Apache-2.0
// The scan before unpacking: what it lets through, protobuf-c can take without
// a limit of its own. Byte 0 chooses the message, byte 1 the limits.
#include <stdlib.h>

#include "common/net/wirescan.h"
#include "proto/wire.h"
#include "tests/fuzz/fuzz.h"

#define DESCRIPTOR(name, Type) &sluice__v1__##name##__descriptor,
static const ProtobufCMessageDescriptor *const descriptors[] = {
    WIRE_UNPACK_MAP(DESCRIPTOR) & sluice__v1__push_request__descriptor,
    &sluice__v1__ask_reply__descriptor,
    &sluice__v1__pull_request__descriptor,
};

// Unpacked without our arena, as anybody would; then packed and scanned.
static void unpack_freely(const ProtobufCMessageDescriptor *d,
                          const uint8_t *bytes, size_t size,
                          const struct wire_limits *limits)
{
    ProtobufCMessage *m = protobuf_c_message_unpack(d, NULL, size, bytes);
    uint8_t *packed;
    size_t n;

    if (m == NULL) // UTF-8 and the like are not the scan's business
        return;
    n = protobuf_c_message_get_packed_size(m);
    packed = malloc(n + 1);
    FUZZ_TRUE(packed != NULL);
    FUZZ_TRUE(protobuf_c_message_pack(m, packed) == n);
    if (n <= limits->max_bytes)
        FUZZ_TRUE(wire_scan(d, packed, n, limits, NULL) == SL_OK ||
                  limits->max_fields < 65536);
    free(packed);
    protobuf_c_message_free_unpacked(m, NULL);
}

int LLVMFuzzerTestOneInput(const uint8_t *data, size_t size)
{
    struct wire_limits limits = {.max_bytes = 1u << 20};
    struct sl_error err = SL_ERROR_INIT;
    const ProtobufCMessageDescriptor *d;
    enum sl_err rc;

    if (size < 2)
        return 0;
    d = descriptors[data[0] % SL_COUNT(descriptors)];
    limits.max_depth = data[1] & 7;
    limits.max_fields = data[1] & 8 ? 64 : 65536;
    data += 2;
    size -= 2;
    fuzz_budget(0);
    rc = wire_scan(d, data, size, &limits, &err);
    if (rc == SL_OK)
        unpack_freely(d, data, size, &limits);
    else
        fuzz_refused(rc, &err);
    return 0;
}
