// SPDX-License-Identifier: Apache-2.0
#include "tests/unit/psserver/kit.h"

#include "common/base/base64.h"
#include "common/base/buf.h"
#include "common/base/mem.h"
#include "common/base/tensorfile.h"
#include "kernels/half.h"
#include "plan/tables.h"
#include "state/shard/counts.h"

void kit_clear(struct kit *k)
{
    memset(k, 0, sizeof(*k));
    sluice__v1__shard_spec__init(&k->spec);
    sluice__v1__optimizer_spec__init(&k->optimizer);
    sluice__v1__geometry__init(&k->geometry);
    k->geometry.samples = 40;
    k->geometry.batch = 1;
    k->geometry.epochs = 3;
    k->geometry.steps_per_closure = 4;
    k->spec.job = 7;
    k->spec.job_incarnation = 1;
    k->spec.shard = 2;
    k->spec.seed = 11;
    k->spec.job_name = (char *)"kit";
    k->spec.job_uid = UINT64_C(0x1122334455667788);
    k->spec.geometry = &k->geometry;
    k->spec.optimizer = &k->optimizer;
    k->spec.variables = k->variable_list;
    k->spec.variable_ids = k->variable_ids;
    k->spec.pieces = k->piece_list;
    kit_optimizer(k, "sgd", 1.0);
}

void kit_init(struct kit *k)
{
    Sluice__V1__Variable *moving;

    kit_clear(k);
    kit_variable(k, "dense/kernel", (uint64_t[]){5, 7, 0});
    moving = kit_variable(k, "norm/moving_mean", (uint64_t[]){3, 0});
    moving->kind = SLUICE__V1__VARIABLE_KIND__VARIABLE_MOVING;
    moving->momentum = 0.5;
    kit_variable(k, "dense/bias", (uint64_t[]){9, 0});
}

Sluice__V1__Variable *kit_variable(struct kit *k, const char *name,
                                   const uint64_t *shape)
{
    size_t n = k->spec.n_variables++;
    Sluice__V1__Variable *v = &k->variables[n];

    T_ASSERT(n < KIT_VARIABLES);
    sluice__v1__variable__init(v);
    v->name = (char *)name;
    v->shape = k->shapes[n];
    for (; shape[v->n_shape] != 0; v->n_shape++)
        v->shape[v->n_shape] = shape[v->n_shape];
    k->variable_list[n] = v;
    k->variable_ids[n] = (uint32_t)n + 10;
    k->spec.n_variable_ids = n + 1;

    sluice__v1__piece__init(&k->pieces[n]);
    k->pieces[n].variable = k->variable_ids[n];
    k->pieces[n].shard = k->spec.shard;
    k->piece_list[n] = &k->pieces[n];
    k->spec.n_pieces = n + 1;
    kit_rows(k, 0, v->n_shape == 0 ? 1 : shape[0]);
    return v;
}

void kit_rows(struct kit *k, uint64_t first, uint64_t rows)
{
    size_t n = k->spec.n_pieces - 1;
    const Sluice__V1__Variable *v = &k->variables[n];

    k->pieces[n].first_row = first;
    k->pieces[n].rows = rows;
    k->pieces[n].elements = rows;
    for (size_t i = 1; i < v->n_shape; i++)
        k->pieces[n].elements *= v->shape[i];
}

Sluice__V1__Table *kit_table(struct kit *k, const char *name, uint32_t dim)
{
    size_t n = k->spec.n_tables++;
    Sluice__V1__OptimizerSpec *o = &k->table_optimizers[n];
    Sluice__V1__Table *t = &k->tables[n];

    T_ASSERT(n < KIT_TABLES);
    sluice__v1__optimizer_spec__init(o);
    o->type = (char *)"rowwise_adagrad";
    o->epsilon = 1e-8;
    sluice__v1__table__init(t);
    t->name = (char *)name;
    t->dim = dim;
    t->buckets = 8;
    t->optimizer = o;
    t->scale = 1;
    t->min_count = 1;
    t->probability = 1;
    k->table_list[n] = t;
    k->spec.tables = k->table_list;
    k->spec.shards = 4;
    return t;
}

struct plan_table kit_plan_table(const char *name, const struct plan *plan,
                                 uint32_t number, uint32_t dim)
{
    struct plan_table t = {
        .name = sl_strdup(name),
        .spec = {
            .table = number,
            .dim = dim,
            .buckets = 8,
            .shards = 1,
            .seed = plan->seed,
            .initial = {SLUICE__V1__INIT_KIND__INIT_CONSTANT, KIT_FIRST, 0},
            .scale = 1,
            .min_count = 1,
            .probability = 1}};

    row_rule_defaults(&t.spec.rule, ROW_RULE_OPTIM, OPTIM_SGD);
    T_ASSERT(t.name != NULL);
    return t;
}

int kit_ids_by_hash(const void *a, const void *b)
{
    uint64_t x = table_hash(*(const uint64_t *)a);
    uint64_t y = table_hash(*(const uint64_t *)b);

    return x < y ? -1 : x > y;
}

void kit_optimizer(struct kit *k, const char *name, double rate)
{
    Sluice__V1__OptimizerSpec *o = &k->optimizer;

    sluice__v1__optimizer_spec__init(o);
    o->type = (char *)name;
    o->has_learning_rate = 1;
    o->learning_rate = rate;
    o->has_beta_1 = o->has_beta_2 = o->has_epsilon = o->has_rho = 1;
    o->beta_1 = o->rho = 0.9;
    o->beta_2 = 0.999;
    o->epsilon = 1e-7;
    o->has_initial_accumulator_value = 1;
    o->initial_accumulator_value = 0.1;
    o->has_momentum = 1;
    o->momentum = 0;
    if (strcmp(name, "adamw") == 0) {
        o->has_weight_decay = 1;
        o->weight_decay = 0.004;
    }
}

struct shard *kit_shard(struct kit *k)
{
    struct sl_error err = SL_ERROR_INIT;
    struct shard *s = NULL;
    struct plan plan;
    enum sl_err rc = plan_read(&plan, &k->spec, &err);

    if (rc != SL_OK)
        fprintf(stderr, "kit: %s\n", err.text);
    T_ASSERT(rc == SL_OK);
    T_ASSERT(shard_new(&s, &plan) == SL_OK);
    return s;
}

struct shard *kit_admitted(struct kit *k)
{
    struct shard *s = kit_shard(k);

    shard_admit(s, 1);
    return s;
}

// Not with the loops that are tested.
static void write_values(uint8_t *to, enum wire_type type, const float *values,
                         size_t n)
{
    uint16_t h;

    if (type == WIRE_F32)
        memcpy(to, values, n * sizeof(float));
    for (size_t i = 0; type != WIRE_F32 && i < n; i++) {
        h = type == WIRE_BF16 ? half_to_bf16(values[i])
                              : half_to_f16(values[i]);
        memcpy(to + 2 * i, &h, 2);
    }
}

void kit_payload_init(struct kit_payload *p, const float *values, size_t n,
                      size_t cut)
{
    kit_payload_wire(p, WIRE_F32, values, n, cut);
}

void kit_payload_wire(struct kit_payload *p, enum wire_type type,
                      const float *values, size_t n, size_t cut)
{
    size_t bytes = n * wire_type_bytes(type), count;

    if (cut == 0)
        cut = bytes + 1;
    count = bytes / cut + 1;
    p->block = sl_malloc(bytes + 3);
    p->bytes = p->block + 1;
    write_values(p->bytes, type, values, n);
    p->at = sl_calloc(count, sizeof(*p->at));
    for (size_t i = 0; i < count; i++) {
        size_t left = bytes - i * cut;

        p->at[i].data = p->bytes + i * cut;
        p->at[i].len = left < cut ? left : cut;
    }
    p->slices = slices_all(p->at, count);
}

void kit_payload_equal(struct kit_payload *p, float value, size_t n, size_t cut)
{
    float *values = sl_malloc_array(n, sizeof(*values));

    for (size_t i = 0; i < n; i++)
        values[i] = value;
    kit_payload_init(p, values, n, cut);
    sl_free(values);
}

void kit_payload_release(struct kit_payload *p)
{
    sl_free(p->block);
    sl_free(p->at);
}

struct wire_push kit_push(uint64_t closure, uint32_t step,
                          const struct kit_payload *payload)
{
    struct wire_push push = {
        .job = 7,
        .job_incarnation = 1,
        .shard = 2,
        .incarnation = 1,
        .closure = closure,
        .step = step,
        .attempt = {1, 1},
        .samples = 1,
        .digest = schedule_digest(0, closure * 4 + step),
        .skip = payload == NULL,
    };

    if (payload != NULL)
        push.payload = payload->slices;
    return push;
}

struct wire_ask kit_ask(uint64_t closure, uint64_t n)
{
    return (struct wire_ask){
        .job = 7,
        .job_incarnation = 1,
        .shard = 2,
        .incarnation = 1,
        .closure = closure,
        .attempt = {1, n},
    };
}

void kit_count(struct shard *s, uint64_t closure, uint32_t step, float value)
{
    struct wire_push_reply reply;
    struct kit_payload payload;
    struct wire_push push;

    kit_payload_equal(&payload, value, s->plan.elements, 0);
    push = kit_push(closure, step, &payload);
    push.incarnation = s->incarnation;
    T_ASSERT(shard_push(s, &push, &reply, NULL, NULL) == SL_OK);
    T_ASSERT(reply.result == WIRE_PUSH_COUNTED);
    kit_payload_release(&payload);
}

void kit_long_closures(struct kit *k)
{
    k->geometry = (Sluice__V1__Geometry)SLUICE__V1__GEOMETRY__INIT;
    k->geometry.samples = 4096 * 10;
    k->geometry.batch = 1;
    k->geometry.epochs = 5000;
    k->geometry.steps_per_closure = 4096;
}

void kit_count_too_much(struct shard *s)
{
    struct once_step step = {.skip = true, .samples = 1};

    for (uint64_t i = 0; i < 7700; i++) {
        step.closure = 2 * i + 1;
        T_ASSERT(once_reserve(&s->once, step.closure) == SL_OK);
        once_add(&s->once, &step);
    }
}

static const char *packed_text(struct buf *out, const ProtobufCMessage *m)
{
    struct buf packed = BUF_INIT;

    T_ASSERT(wire_pack(m, &packed) == SL_OK);
    T_ASSERT(base64_encode(out, packed.data, packed.len) == SL_OK);
    buf_release(&packed);
    return buf_text(out);
}

struct wire_tag kit_snap_too_much(struct fs *fs, const char *folder,
                                  struct shard *s)
{
    struct wire_tag tag = kit_snap(fs, folder, s);
    struct buf set_text = BUF_INIT, counts_text = BUF_INIT;
    struct tensor_info tensors[KIT_VARIABLES];
    struct tensor_meta meta[64];
    struct tensorfile_writer *w = NULL;
    struct wire_counted set = {0};
    struct counts_msg counts = {0};
    struct tensorfile *f = NULL;
    char name[SNAP_NAME_BYTES];
    size_t n = 0;
    char *path;

    snap_file_name(name, s->plan.shard, tag);
    path = fs_join(folder, name);
    T_ASSERT(tensorfile_open(&f, fs, path, 0, NULL) == SL_OK);
    T_ASSERT(fs_unlink(fs, path, NULL) == SL_OK);
    kit_count_too_much(s);
    T_ASSERT(wire_counted_init(&set, &s->once.counted) == SL_OK);
    T_ASSERT(counts_of_once(&counts, &s->once) == SL_OK);
    for (size_t i = 0; i < tensorfile_meta_count(f); i++) {
        struct tensor_meta m = tensorfile_meta_at(f, i);

        if (strcmp(m.key, SNAP_KEY_COUNTED) == 0)
            m.value = packed_text(&set_text, &set.msg.base);
        if (strcmp(m.key, SNAP_KEY_COUNTS) == 0)
            m.value = packed_text(&counts_text, &counts.msg.base);
        if (strcmp(m.key, TENSORFILE_KEY_DATA) != 0 &&
            strcmp(m.key, TENSORFILE_KEY_HEADER) != 0)
            meta[n++] = m;
    }
    for (size_t i = 0; i < tensorfile_count(f); i++)
        tensors[i] = *tensorfile_at(f, i);
    T_ASSERT(tensorfile_create(&w, fs, path, tensors, tensorfile_count(f), meta,
                               n, true, NULL) == SL_OK);
    T_ASSERT(tensorfile_append(w, s->memory.values, shard_bytes(s), NULL) ==
             SL_OK);
    T_ASSERT(tensorfile_finish(w, NULL, NULL) == SL_OK);
    tensorfile_close(f);
    counts_release(&counts);
    wire_counted_release(&set);
    buf_release(&set_text);
    buf_release(&counts_text);
    sl_free(path);
    return tag;
}

struct wire_tag kit_snap(struct fs *fs, const char *folder, struct shard *s)
{
    struct snap_written w = {0};
    struct sl_error err = SL_ERROR_INIT;
    enum sl_err rc = snap_write(fs, folder, s, s->incarnation, &w, &err);
    struct wire_tag tag = w.tag;

    if (rc != SL_OK)
        fprintf(stderr, "kit: %s\n", err.text);
    T_ASSERT(rc == SL_OK);
    snap_written_release(&w);
    return tag;
}

static void remember(void *arg, const char *file, const struct sl_error *why)
{
    struct buf *text = arg;

    if (text != NULL)
        (void)buf_appendf(text, "%s: %s\n", file, why->text);
}

enum sl_err kit_load(struct fs *fs, const char *folder, struct kit *k,
                     struct wire_tag at_least, struct buf *passed,
                     struct shard **out, struct sl_error *err)
{
    struct shard *s = kit_shard(k);
    enum sl_err rc =
        snap_load(fs, folder, at_least, false, s, remember, passed, err);

    *out = rc == SL_OK ? s : NULL;
    if (rc != SL_OK)
        shard_unref(s);
    return rc;
}

void kit_keep_init(struct kit_keep *k, uint64_t term, struct wire_tag tag)
{
    k->msg = (Sluice__V1__Keep)SLUICE__V1__KEEP__INIT;
    k->tag = wire_tag_msg(tag);
    k->list[0] = &k->tag;
    k->msg.term = term;
    k->msg.job = 7;
    k->msg.shard = 2;
    k->msg.n_tags = 1;
    k->msg.tags = k->list;
}
