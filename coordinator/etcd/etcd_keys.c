// SPDX-License-Identifier: Apache-2.0
// coordinator/etcd/etcd_keys.c -- reads and transactions.
#include "coordinator/etcd/etcd_inner.h"

#include <string.h>

#include "common/base/mem.h"

#define METHOD_RANGE "/etcdserverpb.KV/Range"
#define METHOD_TXN "/etcdserverpb.KV/Txn"

// ---- what is asked

enum sl_err etcd_key(const struct etcd *e, struct wire_arena *arena,
                     const char *key, ProtobufCBinaryData *out,
                     struct sl_error *err)
{
    size_t bytes = strlen(key);
    uint8_t *data;

    if (e->prefix_bytes + bytes >= ETCD_KEY_BYTES)
        return sl_fail(err, SL_EINVAL, "%s: a key of %zu bytes", e->url,
                       e->prefix_bytes + bytes);
    data = wire_arena_alloc(arena, e->prefix_bytes + bytes);
    if (data == NULL)
        return sl_no_memory(err);
    memcpy(data, e->prefix, e->prefix_bytes);
    memcpy(data + e->prefix_bytes, key, bytes);
    out->data = data;
    out->len = e->prefix_bytes + bytes;
    return SL_OK;
}

static enum sl_err etcd_span(const struct etcd *e, struct wire_arena *arena,
                             const struct etcd_op *op, ProtobufCBinaryData *key,
                             ProtobufCBinaryData *end, struct sl_error *err)
{
    enum sl_err rc = etcd_key(e, arena, op->key, key, err);

    if (rc == SL_OK && op->end != NULL)
        rc = etcd_key(e, arena, op->end, end, err);
    return rc;
}

// A request's operation, with a place for each kind.
struct etcd_step {
    Etcd__RequestOp op;
    union {
        Etcd__RangeRequest get;
        Etcd__PutRequest put;
        Etcd__DeleteRangeRequest del;
    };
};

static enum sl_err etcd_get_write(const struct etcd *e,
                                  struct wire_arena *arena,
                                  const struct etcd_op *op,
                                  Etcd__RangeRequest *out, struct sl_error *err)
{
    etcd__range_request__init(out);
    out->limit = op->most;
    out->revision = op->revision;
    return etcd_span(e, arena, op, &out->key, &out->range_end, err);
}

static enum sl_err etcd_put_write(const struct etcd *e,
                                  struct wire_arena *arena,
                                  const struct etcd_op *op,
                                  Etcd__PutRequest *out, struct sl_error *err)
{
    etcd__put_request__init(out);
    out->value.data = (uint8_t *)op->value.data; // not written
    out->value.len = op->value.len;
    out->lease = op->lease;
    return etcd_key(e, arena, op->key, &out->key, err);
}

static enum sl_err etcd_step_write(const struct etcd *e,
                                   struct wire_arena *arena,
                                   const struct etcd_op *op,
                                   struct etcd_step *out, struct sl_error *err)
{
    etcd__request_op__init(&out->op);
    switch (op->what) {
    case ETCD_GET:
        out->op.request_case = ETCD__REQUEST_OP__REQUEST_RANGE;
        out->op.range = &out->get;
        return etcd_get_write(e, arena, op, &out->get, err);
    case ETCD_PUT:
        out->op.request_case = ETCD__REQUEST_OP__REQUEST_PUT;
        out->op.put = &out->put;
        return etcd_put_write(e, arena, op, &out->put, err);
    default:
        etcd__delete_range_request__init(&out->del);
        out->op.request_case = ETCD__REQUEST_OP__REQUEST_DELETE_RANGE;
        out->op.delete_range = &out->del;
        return etcd_span(e, arena, op, &out->del.key, &out->del.range_end, err);
    }
}

// The operations of one branch.
struct etcd_branch {
    struct etcd_step steps[ETCD_OPS];
    Etcd__RequestOp *list[ETCD_OPS];
};

static enum sl_err etcd_branch_write(const struct etcd *e,
                                     struct wire_arena *arena,
                                     const struct etcd_op *ops, size_t count,
                                     struct etcd_branch *out,
                                     struct sl_error *err)
{
    enum sl_err rc = SL_OK;

    if (count > ETCD_OPS)
        return sl_fail(err, SL_EINVAL, "etcd: %zu operations in one call",
                       count);
    for (size_t i = 0; i < count && rc == SL_OK; i++) {
        rc = etcd_step_write(e, arena, &ops[i], &out->steps[i], err);
        out->list[i] = &out->steps[i].op;
    }
    return rc;
}

static enum sl_err etcd_if_write(const struct etcd *e, struct wire_arena *arena,
                                 const struct etcd_if *one, Etcd__Compare *out,
                                 struct sl_error *err)
{
    etcd__compare__init(out);
    if (one->what == ETCD_VERSION) {
        out->union_case = ETCD__COMPARE__UNION_VERSION;
        out->version = one->is;
    } else {
        out->target = 1;
        out->union_case = ETCD__COMPARE__UNION_CREATE_REVISION;
        out->create_revision = one->is;
    }
    return etcd_key(e, arena, one->key, &out->key, err);
}

// A transaction's request.
struct etcd_asked {
    Etcd__TxnRequest txn;
    Etcd__Compare compare[ETCD_OPS];
    Etcd__Compare *compares[ETCD_OPS];
    struct etcd_branch then, otherwise;
    struct wire_arena arena; // of keys
};

static enum sl_err etcd_asked_write(const struct etcd *e,
                                    const struct etcd_txn *txn,
                                    struct etcd_asked *out,
                                    struct sl_error *err)
{
    enum sl_err rc = SL_OK;

    etcd__txn_request__init(&out->txn);
    if (txn->if_count > ETCD_OPS)
        return sl_fail(err, SL_EINVAL, "etcd: %zu conditions in one call",
                       txn->if_count);
    for (size_t i = 0; i < txn->if_count && rc == SL_OK; i++) {
        rc = etcd_if_write(e, &out->arena, &txn->ifs[i], &out->compare[i], err);
        out->compares[i] = &out->compare[i];
    }
    if (rc == SL_OK)
        rc = etcd_branch_write(e, &out->arena, txn->then, txn->then_count,
                               &out->then, err);
    if (rc == SL_OK)
        rc = etcd_branch_write(e, &out->arena, txn->otherwise,
                               txn->otherwise_count, &out->otherwise, err);
    out->txn.n_compare = txn->if_count;
    out->txn.compare = out->compares;
    out->txn.n_success = txn->then_count;
    out->txn.success = out->then.list;
    out->txn.n_failure = txn->otherwise_count;
    out->txn.failure = out->otherwise.list;
    return rc;
}

// ---- what is answered

enum sl_err etcd_row_read(const struct etcd *e, struct wire_arena *arena,
                          const Etcd__KeyValue *kv, struct etcd_row *row,
                          struct sl_error *err)
{
    char *key;

    if (kv == NULL || kv->key.len < e->prefix_bytes ||
        kv->key.len >= ETCD_KEY_BYTES || kv->create_revision < 0 ||
        memcmp(kv->key.data, e->prefix, e->prefix_bytes) != 0)
        return sl_fail(err, SL_ECORRUPT, "etcd: a row of another prefix");
    key = wire_arena_alloc(arena, kv->key.len + 1 - e->prefix_bytes);
    if (key == NULL)
        return sl_no_memory(err);
    memcpy(key, kv->key.data + e->prefix_bytes, kv->key.len - e->prefix_bytes);
    key[kv->key.len - e->prefix_bytes] = '\0';
    *row = (struct etcd_row){
        .key = key,
        .value = {kv->value.data, kv->value.len},
        .created = kv->create_revision,
        .modified = kv->mod_revision,
        .version = kv->version,
    };
    return SL_OK;
}

static enum sl_err etcd_rows_add(const struct etcd *e, struct etcd_reply *out,
                                 const Etcd__RangeResponse *from,
                                 struct sl_error *err)
{
    enum sl_err rc = SL_OK;

    out->more = out->more || from->more;
    for (size_t i = 0; i < from->n_kvs && rc == SL_OK; i++)
        rc = etcd_row_read(e, &out->held_by->arena, from->kvs[i],
                           &out->rows[out->count++], err);
    return rc;
}

void etcd_reply_release(struct etcd_reply *r)
{
    sl_free(r->rows);
    etcd_held_free(r->held_by);
    *r = (struct etcd_reply){0};
}

// Makes space for `rows` rows of the reply `h`, which *out owns from now on.
static enum sl_err etcd_reply_begin(struct etcd_reply *out, struct etcd_held *h,
                                    const Etcd__ResponseHeader *header,
                                    size_t rows, struct sl_error *err)
{
    *out = (struct etcd_reply){.held_by = h};
    if (header == NULL || header->revision < 0)
        return sl_fail(err, SL_ECORRUPT, "etcd: an answer without a revision");
    out->revision = header->revision;
    out->rows = sl_malloc_array(rows + 1, sizeof(*out->rows));
    return out->rows == NULL ? sl_no_memory(err) : SL_OK;
}

static enum sl_err etcd_reply_end(struct etcd_reply *made, enum sl_err rc,
                                  struct etcd_reply *out)
{
    if (rc == SL_OK)
        *out = *made;
    else
        etcd_reply_release(made);
    return rc;
}

enum sl_err etcd_get(struct etcd *e, const struct etcd_op *get,
                     int64_t limit_ms, struct etcd_reply *out,
                     struct sl_error *err)
{
    const Etcd__RangeResponse *said;
    Etcd__RangeRequest request;
    struct wire_arena keys;
    struct etcd_reply made;
    struct etcd_held *h;
    enum sl_err rc;

    wire_arena_init(&keys);
    rc = etcd_get_write(e, &keys, get, &request, err);
    if (rc == SL_OK)
        rc = etcd_call(e, METHOD_RANGE, &request.base,
                       &etcd__range_response__descriptor, limit_ms, &h, err);
    wire_arena_release(&keys);
    if (rc != SL_OK)
        return rc;
    said = (const Etcd__RangeResponse *)h->message;
    rc = etcd_reply_begin(&made, h, said->header, said->n_kvs, err);
    if (rc == SL_OK)
        rc = etcd_rows_add(e, &made, said, err);
    return etcd_reply_end(&made, rc, out);
}

static enum sl_err etcd_txn_read(const struct etcd *e, struct etcd_held *h,
                                 struct etcd_reply *out, struct sl_error *err)
{
    const Etcd__TxnResponse *said = (const Etcd__TxnResponse *)h->message;
    struct etcd_reply made;
    size_t rows = 0;
    enum sl_err rc;

    for (size_t i = 0; i < said->n_responses; i++)
        if (said->responses[i]->range != NULL)
            rows += said->responses[i]->range->n_kvs;
    rc = etcd_reply_begin(&made, h, said->header, rows, err);
    made.held = said->succeeded;
    for (size_t i = 0; i < said->n_responses && rc == SL_OK; i++)
        if (said->responses[i]->range != NULL)
            rc = etcd_rows_add(e, &made, said->responses[i]->range, err);
    rc = etcd_reply_end(&made, rc, out);
    // It was done: only an error that leaves it unknown may be told.
    return rc == SL_OK ? rc : sl_prefix(err, SL_ECORRUPT, "etcd's answer");
}

enum sl_err etcd_txn(struct etcd *e, const struct etcd_txn *txn,
                     int64_t limit_ms, struct etcd_reply *out,
                     struct sl_error *err)
{
    struct etcd_asked *asked = sl_malloc(sizeof(*asked));
    struct etcd_held *h;
    enum sl_err rc;

    if (asked == NULL)
        return sl_no_memory(err);
    wire_arena_init(&asked->arena);
    rc = etcd_asked_write(e, txn, asked, err);
    if (rc == SL_OK)
        rc = etcd_call(e, METHOD_TXN, &asked->txn.base,
                       &etcd__txn_response__descriptor, limit_ms, &h, err);
    wire_arena_release(&asked->arena);
    sl_free(asked);
    return rc == SL_OK ? etcd_txn_read(e, h, out, err) : rc;
}
