// SPDX-License-Identifier: Apache-2.0
// worker/data/data_example.c -- see data_example.h.
#include "worker/data/data_example.h"

#include <string.h>

enum { WIRE_VARINT = 0, WIRE_64 = 1, WIRE_BYTES = 2, WIRE_32 = 5 };

struct walk {
    const uint8_t *at, *end;
};

// A field of a message: its number, its type, and its bytes or its value.
struct example_field {
    uint64_t number;
    unsigned type;
    uint64_t value;
    struct walk bytes;
};

static bool example_walk_varint(struct walk *w, uint64_t *out)
{
    uint64_t value = 0;

    for (unsigned shift = 0; shift < 64 && w->at < w->end; shift += 7) {
        uint8_t byte = *w->at++;

        value |= (uint64_t)(byte & 127) << shift;
        if (byte < 128) {
            *out = value;
            return true;
        }
    }
    return false;
}

static bool example_walk_fixed(struct walk *w, unsigned bytes, uint64_t *out)
{
    *out = 0;
    if ((size_t)(w->end - w->at) < bytes)
        return false;
    for (unsigned i = 0; i < bytes; i++)
        *out |= (uint64_t)*w->at++ << (8 * i);
    return true;
}

static bool example_walk_bytes(struct walk *w, struct walk *out)
{
    uint64_t n;

    if (!example_walk_varint(w, &n) || n > (uint64_t)(w->end - w->at))
        return false;
    *out = (struct walk){w->at, w->at + n};
    w->at += n;
    return true;
}

// Reads the next field; the caller looks for the end.
static bool example_walk_field(struct walk *w, struct example_field *f)
{
    uint64_t tag;

    if (!example_walk_varint(w, &tag) || tag >> 3 == 0)
        return false;
    *f = (struct example_field){.number = tag >> 3, .type = tag & 7};
    switch (f->type) {
    case WIRE_VARINT:
        return example_walk_varint(w, &f->value);
    case WIRE_64:
        return example_walk_fixed(w, 8, &f->value);
    case WIRE_32:
        return example_walk_fixed(w, 4, &f->value);
    case WIRE_BYTES:
        return example_walk_bytes(w, &f->bytes);
    default:
        return false;
    }
}

// Reads a Feature: the last of its lists counts, as it is a oneof.
static bool example_feature(struct walk w, struct example_list *out)
{
    struct example_field f;

    *out = (struct example_list){.kind = EXAMPLE_MISSING};
    while (w.at < w.end) {
        if (!example_walk_field(&w, &f))
            return false;
        if (f.number <= 3 && f.type == WIRE_BYTES)
            *out = (struct example_list){.kind = (enum example_kind)f.number,
                                         .at = f.bytes.at,
                                         .end = f.bytes.end};
    }
    return true;
}

struct keys {
    const char *const *key;
    size_t count;
    struct example_list *lists;
};

// Reads an entry of the map: a key and a Feature, in any order.
static bool example_entry(struct walk w, const struct keys *k)
{
    struct walk key = {NULL, NULL}, feature = {NULL, NULL};
    struct example_list list;
    struct example_field f;

    while (w.at < w.end) {
        if (!example_walk_field(&w, &f))
            return false;
        if (f.type == WIRE_BYTES && f.number <= 2)
            *(f.number == 1 ? &key : &feature) = f.bytes;
    }
    for (size_t i = 0; i < k->count; i++) {
        size_t n = (size_t)(key.end - key.at);

        if (n == 0 || strlen(k->key[i]) != n ||
            memcmp(k->key[i], key.at, n) != 0)
            continue;
        if (!example_feature(feature, &list))
            return false;
        k->lists[i] = list;
    }
    return true;
}

static bool example_features(struct walk w, const struct keys *k)
{
    struct example_field f;

    while (w.at < w.end) {
        if (!example_walk_field(&w, &f))
            return false;
        if (f.number == 1 && f.type == WIRE_BYTES && !example_entry(f.bytes, k))
            return false;
    }
    return true;
}

enum sl_err example_find(const uint8_t *bytes, size_t n,
                         const char *const *keys, size_t count,
                         struct example_list *lists, struct sl_error *err)
{
    const struct keys k = {keys, count, lists};
    struct walk w = {bytes, bytes + n};
    struct example_field f;

    for (size_t i = 0; i < count; i++)
        lists[i] = (struct example_list){.kind = EXAMPLE_MISSING};
    while (w.at < w.end) {
        size_t at = (size_t)(w.at - bytes);

        if (!example_walk_field(&w, &f) ||
            (f.number == 1 && f.type == WIRE_BYTES &&
             !example_features(f.bytes, &k)))
            return sl_fail(err, SL_ECORRUPT,
                           "is no tf.train.Example: its field at byte %zu is "
                           "broken",
                           at);
    }
    return SL_OK;
}

enum sl_err example_next_bytes(struct example_list *l, const uint8_t **out,
                               size_t *n, bool *more)
{
    struct walk w = {l->at, l->end};
    struct example_field f = {.number = 0};

    *more = false;
    while (w.at < w.end && !*more) {
        if (!example_walk_field(&w, &f))
            return SL_ECORRUPT;
        *more = f.number == 1 && f.type == WIRE_BYTES;
    }
    l->at = w.at;
    if (*more) {
        *out = f.bytes.at;
        *n = (size_t)(f.bytes.end - f.bytes.at);
    }
    return SL_OK;
}

// Takes the next number: of the packed ones that were entered, or of the next
// field, which is one number or packed ones.
static bool example_number(struct example_list *l, unsigned type, uint64_t *out,
                           bool *more)
{
    struct walk fields = {l->at, l->end};
    struct walk packed = {l->packed, l->packed_end};
    struct example_field f = {.number = 0};
    bool ok = true;

    *more = false;
    while (ok && !*more && (packed.at < packed.end || fields.at < fields.end)) {
        if (packed.at < packed.end) {
            ok = type == WIRE_32 ? example_walk_fixed(&packed, 4, out)
                                 : example_walk_varint(&packed, out);
            *more = ok;
            continue;
        }
        ok = example_walk_field(&fields, &f);
        if (!ok || f.number != 1)
            continue;
        *more = f.type == type;
        *out = f.value;
        if (f.type == WIRE_BYTES)
            packed = f.bytes;
    }
    l->at = fields.at;
    l->packed = packed.at;
    l->packed_end = packed.end;
    return ok;
}

enum sl_err example_next_float(struct example_list *l, float *out, bool *more)
{
    uint64_t bits = 0;
    uint32_t low;
    bool ok = example_number(l, WIRE_32, &bits, more);

    low = (uint32_t)bits;
    memcpy(out, &low, sizeof(low));
    return ok ? SL_OK : SL_ECORRUPT;
}

enum sl_err example_next_int(struct example_list *l, int64_t *out, bool *more)
{
    uint64_t bits = 0;
    bool ok = example_number(l, WIRE_VARINT, &bits, more);

    *out = (int64_t)bits;
    return ok ? SL_OK : SL_ECORRUPT;
}
