// SPDX-License-Identifier: Apache-2.0
// proto/wire_check.c -- the walk over any message, by its descriptor and its
// rules.
//
// The walk is recursive: the schema is at most WIRE_MAX_DEPTH deep (a test
// checks that), and the scan before has refused what is deeper.
#include "proto/wire_check.h"

#include <math.h>
#include <stdarg.h>
#include <stdio.h>
#include <string.h>

#include "common/base/utf8.h"
#include "proto/field.h"

// What a failing line is about.
struct checked_field {
    const ProtobufCMessageDescriptor *of;
    const ProtobufCFieldDescriptor *field;
    struct sl_error *err;
};

#define REFUSE(p, ...) wire_refuse(p, SL_EINVAL, __VA_ARGS__)

static enum sl_err wire_refuse(const struct checked_field *p, enum sl_err code,
                               const char *fmt, ...)
    __attribute__((format(printf, 3, 4)));

static enum sl_err wire_refuse(const struct checked_field *p, enum sl_err code,
                               const char *fmt, ...)
{
    char what[200];
    va_list ap;

    va_start(ap, fmt);
    vsnprintf(what, sizeof(what), fmt, ap);
    va_end(ap);
    return sl_fail(p->err, code, "%s.%s %s", p->of->short_name, p->field->name,
                   what);
}

static enum sl_err wire_check_name(const struct checked_field *p,
                                   const char *text,
                                   const struct wire_rule *rule)
{
    size_t len = strlen(text);

    if (len < rule->min)
        return REFUSE(p, "is missing");
    if (len > rule->max)
        return REFUSE(p, "has %zu bytes; at most %llu", len,
                      (unsigned long long)rule->max);
    if (!utf8_plain(text, len))
        return REFUSE(p, "has a control character");
    if (len > 0 && (text[0] == ' ' || text[len - 1] == ' '))
        return REFUSE(p, "begins or ends with a blank");
    return SL_OK;
}

static enum sl_err wire_check_file_name(const struct checked_field *p,
                                        const char *text,
                                        const struct wire_rule *rule)
{
    if (text[0] == '.' || strchr(text, '/') != NULL)
        return REFUSE(p, "is '%.60s', not the name of a file", text);
    return wire_check_name(p, text, rule);
}

static enum sl_err check_address(const struct checked_field *p,
                                 const char *text, const struct wire_rule *rule)
{
    struct sl_error why = SL_ERROR_INIT;
    enum sl_err rc = wire_check_name(p, text, rule);

    if (rc != SL_OK || text[0] == '\0')
        return rc;
    if (rpc_address_check(text, &why) != SL_OK)
        return REFUSE(p, "is no address: %.150s", why.text);
    return SL_OK;
}

static enum sl_err check_string(const struct checked_field *p, const char *text,
                                const struct wire_rule *rule)
{
    size_t len = strlen(text);
    uint64_t max =
        rule != NULL && rule->kind == RULE_TEXT ? rule->max : WIRE_TEXT_BYTES;

    if (len > max)
        return REFUSE(p, "has %zu bytes; at most %llu", len,
                      (unsigned long long)max);
    if (!utf8_valid(text, len))
        return REFUSE(p, "is not UTF-8");
    if (rule == NULL)
        return SL_OK;
    switch (rule->kind) {
    case RULE_NAME:
        return wire_check_name(p, text, rule);
    case RULE_FILE:
        return wire_check_file_name(p, text, rule);
    case RULE_ADDRESS:
        return check_address(p, text, rule);
    default:
        return SL_OK;
    }
}

static enum sl_err check_bytes(const struct checked_field *p,
                               const ProtobufCBinaryData *bytes,
                               const struct wire_rule *rule)
{
    uint64_t min = 0, max = WIRE_TEXT_BYTES;

    if (rule != NULL && rule->kind == RULE_BYTES) {
        min = rule->min;
        max = rule->max;
    }
    if (bytes->len < min || bytes->len > max)
        return REFUSE(p, "has %zu bytes; %llu to %llu are allowed", bytes->len,
                      (unsigned long long)min, (unsigned long long)max);
    return SL_OK;
}

static enum sl_err check_signed(const struct checked_field *p, int64_t value,
                                const struct wire_rule *rule)
{
    // The amount is unsigned: -value would overflow for INT64_MIN.
    uint64_t amount = value < 0 ? -(uint64_t)value : (uint64_t)value;

    if (amount <= rule->max)
        return SL_OK;
    return REFUSE(p, "is %lld; its magnitude must be at most %llu",
                  (long long)value, (unsigned long long)rule->max);
}

static enum sl_err check_number(const struct checked_field *p, const void *at,
                                const struct wire_rule *rule)
{
    uint64_t value = field_number(p->field, at);

    if (p->field->type == PROTOBUF_C_TYPE_ENUM &&
        protobuf_c_enum_descriptor_get_value(p->field->descriptor,
                                             (int)value) == NULL)
        return REFUSE(p, "is %d, which this version does not know", (int)value);
    if (rule == NULL || rule->kind != RULE_RANGE)
        return SL_OK;
    if (field_is_signed(p->field))
        return check_signed(p, (int64_t)value, rule);
    if (value < rule->min && value == 0)
        return REFUSE(p, "is missing");
    if (value < rule->min || value > rule->max)
        return REFUSE(p, "is %llu; %llu to %llu are allowed",
                      (unsigned long long)value, (unsigned long long)rule->min,
                      (unsigned long long)rule->max);
    return SL_OK;
}

static enum sl_err check_value(const struct checked_field *p, void *at,
                               const struct wire_rule *rule,
                               struct wire_arena *arena)
{
    switch (p->field->type) {
    case PROTOBUF_C_TYPE_MESSAGE:
        return wire_fix(*(ProtobufCMessage **)at, arena, p->err);
    case PROTOBUF_C_TYPE_STRING:
        return check_string(p, *(char **)at, rule);
    case PROTOBUF_C_TYPE_BYTES:
        return check_bytes(p, at, rule);
    case PROTOBUF_C_TYPE_DOUBLE:
        if (!isfinite(*(double *)at) &&
            (rule == NULL || rule->kind != RULE_ANY_FLOAT))
            return REFUSE(p, "is not finite");
        return SL_OK;
    case PROTOBUF_C_TYPE_FLOAT:
        return isfinite(*(float *)at) ? SL_OK : REFUSE(p, "is not finite");
    default:
        return check_number(p, at, rule);
    }
}

// An absent message: added, refused, or as it should be.
static enum sl_err wire_check_absent(const struct checked_field *p,
                                     ProtobufCMessage *m,
                                     const struct wire_rule *rule,
                                     struct wire_arena *arena)
{
    const ProtobufCMessageDescriptor *of = p->field->descriptor;
    ProtobufCMessage *empty;

    if (rule == NULL ||
        (rule->kind != RULE_FILL && rule->kind != RULE_REQUIRED))
        return SL_OK;
    if (rule->kind == RULE_REQUIRED || arena == NULL)
        return REFUSE(p, "is missing");
    empty = wire_arena_alloc(arena, of->sizeof_message);
    if (empty == NULL)
        return wire_refuse(p, SL_ENOMEM, "cannot be added: out of memory");
    protobuf_c_message_init(of, empty);
    *(ProtobufCMessage **)field_at(m, p->field, 0) = empty;
    return SL_OK;
}

// The rules of one field: for its number of values, and for each value.
struct field_rules {
    const struct wire_rule *count, *value; // NULL: any
};

// Takes the field's rules from those that are left, which are in its order.
static struct field_rules next_rules(const struct wire_rule **left,
                                     const struct wire_rule *end,
                                     uint32_t number)
{
    struct field_rules out = {NULL, NULL};

    for (; *left < end && (*left)->number <= number; ++*left) {
        if ((*left)->number == number && (*left)->kind == RULE_COUNT)
            out.count = *left;
        else if ((*left)->number == number)
            out.value = *left;
    }
    return out;
}

static enum sl_err check_field(const struct checked_field *p,
                               ProtobufCMessage *m, struct field_rules rules,
                               struct wire_arena *arena)
{
    size_t count = field_count(m, p->field);

    if (rules.count != NULL &&
        (count < rules.count->min || count > rules.count->max))
        return REFUSE(p, "has %zu values; %llu to %llu are allowed", count,
                      (unsigned long long)rules.count->min,
                      (unsigned long long)rules.count->max);
    if (count == 0 && p->field->type == PROTOBUF_C_TYPE_MESSAGE &&
        p->field->label != PROTOBUF_C_LABEL_REPEATED)
        return wire_check_absent(p, m, rules.value, arena);
    for (size_t i = 0; i < count; i++) {
        enum sl_err rc =
            check_value(p, field_at(m, p->field, i), rules.value, arena);

        if (rc != SL_OK)
            return rc;
    }
    return SL_OK;
}

enum sl_err wire_fix(ProtobufCMessage *m, struct wire_arena *arena,
                     struct sl_error *err)
{
    const struct wire_rules *rules = wire_rules_of(m->descriptor);
    const struct wire_rule *left = rules == NULL ? NULL : rules->rules;
    const struct wire_rule *end = rules == NULL ? NULL : left + rules->count;
    struct checked_field p = {m->descriptor, NULL, err};

    for (unsigned i = 0; i < m->descriptor->n_fields; i++) {
        enum sl_err rc;

        p.field = &m->descriptor->fields[i];
        rc = check_field(&p, m, next_rules(&left, end, p.field->id), arena);
        if (rc != SL_OK)
            return rc;
    }
    if (rules == NULL || rules->check == NULL)
        return SL_OK;
    return rules->check(m, err);
}

enum sl_err wire_check(const ProtobufCMessage *msg, struct sl_error *err)
{
    // Without an arena nothing is written.
    return wire_fix((ProtobufCMessage *)msg, NULL, err);
}

enum sl_err wire_unpack_within(ProtobufCMessage **out, struct wire_arena *arena,
                               const ProtobufCMessageDescriptor *of,
                               const struct sl_slices *bytes,
                               const struct wire_limits *limits,
                               struct sl_error *err)
{
    ProtobufCMessage *m = NULL;
    enum sl_err rc;

    rc = wire_unpack_slices(&m, arena, of, bytes, limits, err);
    if (rc == SL_OK)
        rc = wire_fix(m, arena, err);
    if (rc == SL_OK)
        *out = m;
    return rc;
}

// Returns the limits of a message type: a reply about a job may hold all its
// shards and epochs.
static const struct wire_limits *limits_of(const ProtobufCMessageDescriptor *of)
{
    static const struct wire_limits reply = {
        .max_bytes = RPC_DATA_BYTES,
        .max_fields = WIRE_LOAD_FIELDS,
    };

    return of == &sluice__v1__job_status__descriptor ||
                   of == &sluice__v1__list_reply__descriptor ||
                   of == &sluice__v1__checkpoints_reply__descriptor ||
                   of == &sluice__v1__timeline_reply__descriptor
               ? &reply
               : NULL;
}

enum sl_err wire_unpack(ProtobufCMessage **out, struct wire_arena *arena,
                        const ProtobufCMessageDescriptor *of,
                        const struct sl_slices *bytes, struct sl_error *err)
{
    return wire_unpack_within(out, arena, of, bytes, limits_of(of), err);
}
