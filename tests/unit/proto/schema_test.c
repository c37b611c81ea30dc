// SPDX-License-Identifier: Apache-2.0
// What must hold of the schema itself, from the descriptors that the build
// embeds: no recursion, shallow nesting, and a registry (proto/REGISTRY.md)
// that says what the .proto files say. SCHEMA_PRINT=1 prints its lines.
#include "proto/descriptor_set.h"
#include "proto/wire.h"
#include "proto/wire_check.h"
#include "tests/harness/t.h"
#include "tests/unit/proto/matrix.h"

#define MESSAGES_MAX 400
#define FIELDS_MAX 128 // as in proto/pbjson_read.c

// ---- descriptor.proto, as far as it is needed

struct span {
    const uint8_t *at, *end;
};

struct item {
    unsigned number;
    uint64_t value;
    struct span span; // of a length-delimited field
};

static uint64_t varint(struct span *s)
{
    uint64_t value = 0;

    for (unsigned shift = 0;; shift += 7) {
        T_ASSERT(s->at < s->end && shift < 64);
        value |= (uint64_t)(*s->at & 0x7f) << shift;
        if (!(*s->at++ & 0x80))
            return value;
    }
}

static bool next(struct span *s, struct item *out)
{
    uint64_t key;

    if (s->at == s->end)
        return false;
    key = varint(s);
    out->number = (unsigned)(key >> 3);
    T_ASSERT((key & 7) == 0 || (key & 7) == 2);
    out->value = varint(s);
    if ((key & 7) == 2) {
        out->span = (struct span){s->at, s->at + out->value};
        s->at += out->value;
    }
    return true;
}

// Names live as long as the program.
static char pool[1 << 17];
static size_t pool_used;

static char *keep(size_t bytes)
{
    char *at = pool + pool_used;

    pool_used += bytes + 1;
    T_ASSERT(pool_used <= sizeof(pool));
    return at;
}

static char *text_of(struct span s)
{
    size_t n = (size_t)(s.end - s.at);

    return memcpy(keep(n), s.at, n);
}

struct field {
    char *name, *type; // type: full name of a message, or NULL
    uint64_t number;
};

struct message {
    char *name; // ".sluice.v1.Attempt"
    struct field field[FIELDS_MAX];
    unsigned fields;
    bool is_enum;
};

struct method {
    char *path, *input, *output;
    bool up, down; // streams
};

static struct schema {
    struct message message[MESSAGES_MAX];
    unsigned messages;
    struct method method[64];
    unsigned methods;
} schema;

static char *join(const char *a, const char *b, const char *c)
{
    size_t na = strlen(a), nb = strlen(b), nc = strlen(c);
    char *text = keep(na + nb + nc);

    memcpy(text, a, na);
    memcpy(text + na, b, nb);
    memcpy(text + na + nb, c, nc);
    return text;
}

static void read_field(struct message *m, struct span s, bool is_enum)
{
    struct field *f = &m->field[m->fields++];
    struct item i;

    T_ASSERT(m->fields <= FIELDS_MAX);
    while (next(&s, &i)) {
        if (i.number == 1)
            f->name = text_of(i.span);
        else if (i.number == (is_enum ? 2 : 3))
            f->number = i.value;
        else if (i.number == 6 && !is_enum)
            f->type = text_of(i.span);
    }
}

static void read_message(const char *scope, struct span s, bool is_enum)
{
    struct message *m = &schema.message[schema.messages++];
    struct span again = s;
    struct item i;

    T_ASSERT(schema.messages <= MESSAGES_MAX);
    m->is_enum = is_enum;
    while (next(&s, &i))
        if (i.number == 1)
            m->name = join(scope, ".", text_of(i.span));
    while (next(&again, &i)) {
        if (i.number == 2)
            read_field(m, i.span, is_enum);
        else if (!is_enum && (i.number == 3 || i.number == 4))
            read_message(m->name, i.span, i.number == 4);
    }
}

static void read_service(const char *package, struct span s)
{
    char *service = NULL;
    struct item i, j;

    while (next(&s, &i)) {
        struct method *m = &schema.method[schema.methods];

        if (i.number == 1)
            service = text_of(i.span);
        if (i.number != 2)
            continue;
        schema.methods++;
        while (next(&i.span, &j)) {
            if (j.number == 1)
                m->path = join(join("/", package, "."), service,
                               join("/", text_of(j.span), ""));
            else if (j.number == 2)
                m->input = text_of(j.span);
            else if (j.number == 3)
                m->output = text_of(j.span);
            else if (j.number == 5)
                m->up = j.value;
            else if (j.number == 6)
                m->down = j.value;
        }
    }
}

static void read_schema(void)
{
    struct span all = {sluice_descriptor_set,
                       sluice_descriptor_set + sluice_descriptor_set_len};
    struct item file, i;

    if (schema.messages > 0)
        return;
    while (next(&all, &file)) {
        struct span s = file.span, again = file.span;
        char *package = "";

        while (next(&s, &i))
            if (i.number == 2)
                package = text_of(i.span);
        while (next(&again, &i)) {
            if (i.number == 4 || i.number == 5)
                read_message(join(".", package, ""), i.span, i.number == 5);
            else if (i.number == 6)
                read_service(package, i.span);
        }
    }
}

static const struct message *find(const char *name)
{
    for (unsigned i = 0; i < schema.messages; i++)
        if (strcmp(schema.message[i].name, name) == 0)
            return &schema.message[i];
    T_FAIL("no message %s", name);
}

// Levels below m. A message that reaches itself runs out of `left`.
static unsigned depth(const struct message *m, unsigned left)
{
    unsigned deepest = 0;

    if (left == 0)
        T_FAIL("%s reaches itself, or is nested too deep", m->name);
    for (unsigned i = 0; i < m->fields; i++) {
        const struct message *inner =
            m->field[i].type != NULL ? find(m->field[i].type) : NULL;

        if (inner != NULL && !inner->is_enum) {
            unsigned d = 1 + depth(inner, left - 1);

            deepest = d > deepest ? d : deepest;
        }
    }
    return deepest;
}

TEST(schema, no_message_reaches_itself_and_nesting_is_shallow)
{
    read_schema();
    T_GT(schema.messages, 50);
    for (unsigned i = 0; i < schema.messages; i++)
        T_LE(depth(&schema.message[i], WIRE_MAX_DEPTH + 1), WIRE_MAX_DEPTH);
}

TEST(schema, numbers_are_given_once)
{
    read_schema();
    for (unsigned i = 0; i < schema.messages; i++) {
        const struct message *m = &schema.message[i];

        for (unsigned a = 0; a < m->fields; a++)
            for (unsigned b = 0; b < a; b++)
                T_NE(m->field[a].number, m->field[b].number);
    }
}

TEST(schema, payloads_are_the_last_fields)
{
    read_schema();
    for (unsigned i = 0; i < schema.messages; i++) {
        const struct message *m = &schema.message[i];

        for (unsigned a = 0; a < m->fields; a++)
            if (strcmp(m->field[a].name, "payload") == 0 &&
                strncmp(m->name, ".sluice.", 8) == 0) {
                T_EQ(m->field[a].number, 15);
                T_EQ(a, m->fields - 1);
            }
    }
}

// access_test.c calls each with every role.
TEST(schema, methods_are_in_the_matrix_of_roles)
{
    unsigned ours = 0, listed = 0;

    read_schema();
    matrix_read();
    for (unsigned i = 0; i < schema.methods; i++) {
        bool found = false;

        for (size_t m = 0; m < matrix_count; m++)
            found |= strcmp(schema.method[i].path, matrix[m].path) == 0;
        if (!found)
            T_FAIL("%s has no row in docs/security.md", schema.method[i].path);
        ours += strncmp(schema.method[i].path, "/sluice.", 8) == 0;
    }
    for (size_t m = 0; m < matrix_count; m++)
        listed += strncmp(matrix[m].path, "/sluice.", 8) == 0;
    T_EQ(ours, listed);
}

// ---- rules against descriptors

static bool is_integer(const ProtobufCFieldDescriptor *f)
{
    switch (f->type) {
    case PROTOBUF_C_TYPE_BOOL:
    case PROTOBUF_C_TYPE_ENUM:
    case PROTOBUF_C_TYPE_FLOAT:
    case PROTOBUF_C_TYPE_DOUBLE:
    case PROTOBUF_C_TYPE_STRING:
    case PROTOBUF_C_TYPE_BYTES:
    case PROTOBUF_C_TYPE_MESSAGE:
        return false;
    default:
        return true;
    }
}

static void check_rule(const struct wire_rules *rules, size_t at)
{
    const struct wire_rule *r = &rules->rules[at];
    const ProtobufCFieldDescriptor *f =
        protobuf_c_message_descriptor_get_field(rules->of, r->number);
    bool fits = f != NULL;

    switch (fits ? r->kind : 0) {
    case RULE_COUNT:
        fits = f->label == PROTOBUF_C_LABEL_REPEATED;
        break;
    case RULE_RANGE:
        fits = is_integer(f) || f->type == PROTOBUF_C_TYPE_ENUM;
        break;
    case RULE_KNOWN:
    case RULE_OPAQUE:
        fits = is_integer(f) && (r->by != NULL) == (r->kind == RULE_KNOWN);
        break;
    case RULE_BYTES:
        fits = f->type == PROTOBUF_C_TYPE_BYTES;
        break;
    case RULE_FILL:
    case RULE_REQUIRED:
        fits = f->type == PROTOBUF_C_TYPE_MESSAGE &&
               f->label != PROTOBUF_C_LABEL_REPEATED;
        break;
    case RULE_ANY_FLOAT:
        fits = f->type == PROTOBUF_C_TYPE_DOUBLE;
        break;
    default:
        fits = fits && f->type == PROTOBUF_C_TYPE_STRING;
    }
    if (!fits)
        T_FAIL("%s: the rule for field %u does not fit it", rules->of->name,
               r->number);
}

static unsigned checked;

static void check_rules(const ProtobufCMessageDescriptor *of)
{
    const struct wire_rules *rules = wire_rules_of(of);

    for (size_t i = 0; rules != NULL && i < rules->count; i++, checked++) {
        const struct wire_rule *r = &rules->rules[i], *before = r - 1;

        check_rule(rules, i);
        if (i > 0 &&
            (r->number < before->number ||
             (r->number == before->number && before->kind != RULE_COUNT)))
            T_FAIL("%s: the rule for field %u is out of order", of->name,
                   r->number);
    }
    for (unsigned i = 0; i < of->n_fields; i++)
        if (of->fields[i].type == PROTOBUF_C_TYPE_MESSAGE)
            check_rules(of->fields[i].descriptor);
}

TEST(schema, rules_fit_their_fields)
{
#define ROOT(name, Type) check_rules(&sluice__v1__##name##__descriptor);
    WIRE_UNPACK_MAP(ROOT)
#undef ROOT
    T_GT(checked, 100);
}

// ---- bounds: every number that a daemon reads has one

// What comes to daemons beside what wire_unpack_* reads: the data plane, by
// hand (wire_ps.h).
static const ProtobufCMessageDescriptor *const data_plane[] = {
    &sluice__v1__ask_request__descriptor,
    &sluice__v1__ask_reply__descriptor,
    &sluice__v1__push_request__descriptor,
    &sluice__v1__push_reply__descriptor,
    &sluice__v1__pull_request__descriptor,
    &sluice__v1__pull_reply__descriptor,
    &sluice__v1__piece_request__descriptor,
    &sluice__v1__state_reply__descriptor,
};

static const struct wire_rule *rule_of(const struct wire_rules *rules,
                                       uint32_t number, bool count)
{
    for (size_t i = 0; rules != NULL && i < rules->count; i++) {
        const struct wire_rule *r = &rules->rules[i];

        if (r->number == number && (r->kind == RULE_COUNT) == count)
            return r;
    }
    return NULL;
}

static const char *kind_name(const struct wire_rule *r)
{
    return r->kind == RULE_COUNT   ? "count"
           : r->kind == RULE_RANGE ? "range"
           : r->kind == RULE_KNOWN ? "known"
                                   : "opaque";
}

// SCHEMA_BOUNDS=1: a line for each, which programs read (tests/fuzz/bounds.py).
static void tell_bound(const ProtobufCMessageDescriptor *of,
                       const ProtobufCFieldDescriptor *f,
                       const struct wire_rule *r)
{
    if (getenv("SCHEMA_BOUNDS") != NULL)
        printf("bound %s %s %s %llu %llu %s\n", of->short_name, f->name,
               kind_name(r), (unsigned long long)r->min,
               (unsigned long long)r->max, r->by != NULL ? r->by : "-");
}

static unsigned unbounded;

static void want_bound(const ProtobufCMessageDescriptor *of,
                       const ProtobufCFieldDescriptor *f, bool count)
{
    const struct wire_rule *r = rule_of(wire_rules_of(of), f->id, count);

    if (r != NULL) {
        tell_bound(of, f, r);
        return;
    }
    unbounded++;
    fprintf(stderr, "%s.%s (%u) has no bound of its %s\n", of->short_name,
            f->name, f->id, count ? "count" : "value");
}

static const ProtobufCMessageDescriptor *seen[MESSAGES_MAX];
static unsigned seen_count;

static void want_bounds(const ProtobufCMessageDescriptor *of)
{
    const struct wire_rules *rules = wire_rules_of(of);

    for (unsigned i = 0; i < seen_count; i++)
        if (seen[i] == of)
            return;
    T_LT(seen_count, MESSAGES_MAX);
    seen[seen_count++] = of;
    for (unsigned i = 0; i < of->n_fields; i++) {
        const ProtobufCFieldDescriptor *f = &of->fields[i];
        bool shown = rules != NULL && rules->shown;

        if (f->label == PROTOBUF_C_LABEL_REPEATED && !shown)
            want_bound(of, f, true);
        if (is_integer(f) && !shown)
            want_bound(of, f, false);
        if (f->type == PROTOBUF_C_TYPE_MESSAGE)
            want_bounds(f->descriptor);
    }
}

TEST(schema, every_number_that_a_daemon_reads_has_a_bound)
{
#define ROOT(name, Type) want_bounds(&sluice__v1__##name##__descriptor);
    WIRE_UNPACK_MAP(ROOT)
#undef ROOT
    for (unsigned i = 0; i < SL_COUNT(data_plane); i++)
        want_bounds(data_plane[i]);
    T_GT(seen_count, 100);
    T_EQ(unbounded, 0);
}

// ---- registry

static char registry[1 << 17];

// An entry may be broken into lines, which are indented: they are joined.
static void read_registry(void)
{
    FILE *f = fopen(REGISTRY_PATH, "rb");
    size_t read, n = 0;

    T_TRUE(f != NULL);
    read = fread(registry, 1, sizeof(registry) - 1, f);
    fclose(f);
    T_TRUE(read > 0);
    registry[read] = '\0';
    for (size_t i = 0; i < read; i++) {
        if (strncmp(registry + i, "\n  ", 3) == 0)
            i += 2;
        registry[n++] = registry[i];
    }
    registry[n] = '\0';
}

static unsigned lines; // of the registry that the schema has

static void expect(const char *line)
{
    lines++;
    if (getenv("SCHEMA_PRINT") != NULL)
        printf("%s\n", line);
    else if (strstr(registry, line) == NULL)
        T_FAIL("proto/REGISTRY.md lacks (SCHEMA_PRINT=1 prints all)\n%s", line);
}

static const char *after_package(const char *name)
{
    return strncmp(name, ".sluice.v1.", 11) == 0 ? name + 11 : name + 1;
}

static void expect_message(const struct message *m)
{
    char line[4096];
    size_t n = 0;

    n +=
        (size_t)snprintf(line, sizeof(line), "- `%s`:", after_package(m->name));
    for (unsigned i = 0; i < m->fields; i++)
        n += (size_t)snprintf(line + n, sizeof(line) - n, "%s %s %llu",
                              i > 0 ? "," : "", m->field[i].name,
                              (unsigned long long)m->field[i].number);
    snprintf(line + n, sizeof(line) - n, "%s.\n", m->fields > 0 ? "" : " -");
    line[strlen(line) - 1] = '\0';
    expect(line);
}

static void expect_method(const struct method *m)
{
    char line[400];

    snprintf(line, sizeof(line), "| `%s` | %s%s | %s%s |", m->path,
             m->up ? "stream " : "", after_package(m->input),
             m->down ? "stream " : "", after_package(m->output));
    expect(line);
}

TEST(schema, the_registry_says_what_the_protos_say)
{
    unsigned there = 0;

    read_registry();
    read_schema();
    lines = 0;
    for (unsigned i = 0; i < schema.methods; i++)
        if (strncmp(schema.method[i].path, "/sluice.", 8) == 0)
            expect_method(&schema.method[i]);
    for (unsigned i = 0; i < schema.messages; i++)
        if (strncmp(schema.message[i].name, ".sluice.", 8) == 0)
            expect_message(&schema.message[i]);
    for (const char *at = registry; (at = strstr(at, "\n| `")) != NULL; at++)
        there++;
    for (const char *at = registry; (at = strstr(at, "\n- `")) != NULL; at++)
        there++;
    if (getenv("SCHEMA_PRINT") == NULL && there != lines)
        T_FAIL("the registry has %u lines, the schema %u: one is stale", there,
               lines);
}
