// SPDX-License-Identifier: Apache-2.0
// worker/data/data_tfrecord.c -- files of tf.train.Example records.
//
// The heads of the records are looked through once; a sample is then read,
// checked and decoded by itself. The checksum of a record's bytes is compared
// when it is read, that of its length when the file is opened: a wrong length
// leaves the rest of its file without a place.
#include <math.h>
#include <string.h>

#include "common/base/mem.h"
#include "common/base/tfrecord.h"
#include "worker/data/data_decode.h"
#include "worker/data/data_example.h"
#include "worker/data/data_records.h"

// What is looked for in each record, in this order.
struct tfrecord_keys {
    const char **key; // an owned array of owned keys
    size_t count;
    size_t x;   // keys of numbers or of the image, which are first
    size_t ids; // of ids, which come next; the label's is last
};

struct tfrecord {
    struct data data;
    struct records records;
    struct tfrecord_keys wanted;
    struct decoders decoders;
    uint32_t shape[3];
    enum data_decode decode;
    bool image;
    int64_t first; // the label that is class 0
    struct pulse *pulse;
};

static struct tfrecord *tfrecord_of(const struct data *d)
{
    return sl_container_of((struct data *)(uintptr_t)d, struct tfrecord, data);
}

// ---- values

static const char *tfrecord_kind(enum example_kind kind)
{
    static const char *const names[] = {
        [EXAMPLE_MISSING] = "is missing",
        [EXAMPLE_BYTES] = "is a list of bytes",
        [EXAMPLE_FLOATS] = "is a list of floats",
        [EXAMPLE_INTS] = "is a list of integers",
    };

    return names[kind];
}

static enum sl_err tfrecord_wrong(const char *key, const char *what,
                                  struct sl_error *err)
{
    return sl_fail(err, SL_EINVAL, "feature '%.60s' %s", key, what);
}

// Takes the next number of a list of floats or integers.
static enum sl_err tfrecord_number(struct example_list *l, double *out,
                                   bool *more)
{
    int64_t whole = 0;
    float real = 0;
    enum sl_err rc = l->kind == EXAMPLE_FLOATS
                         ? example_next_float(l, &real, more)
                         : example_next_int(l, &whole, more);

    *out = l->kind == EXAMPLE_FLOATS ? (double)real : (double)whole;
    return rc;
}

// Reads a list of numbers to out[0 .. most - 1], less `first`, and sets *n to
// their number.
static enum sl_err tfrecord_numbers(const char *key, struct example_list *l,
                                    double first, float *out, size_t most,
                                    size_t *n, struct sl_error *err)
{
    bool more = true;
    double value;

    *n = 0;
    if (l->kind != EXAMPLE_FLOATS && l->kind != EXAMPLE_INTS)
        return sl_fail(err, SL_EINVAL,
                       "feature '%.60s' %s; floats or integers are expected",
                       key, tfrecord_kind(l->kind));
    while (more) {
        if (tfrecord_number(l, &value, &more) != SL_OK)
            return tfrecord_wrong(key, "has a broken list", err);
        if (more && !isfinite(value))
            return tfrecord_wrong(key, "has a number that is not finite", err);
        if (more && *n == most)
            return sl_fail(err, SL_EINVAL,
                           "feature '%.60s' has more numbers than the %zu that "
                           "the model reads",
                           key, most);
        if (more)
            out[(*n)++] = (float)(value - first);
    }
    return SL_OK;
}

static enum sl_err tfrecord_read_numbers(const struct tfrecord *t,
                                         struct example_list *lists, float *x,
                                         struct sl_error *err)
{
    const struct data *d = &t->data;
    size_t have = 0, n = 0;
    enum sl_err rc = SL_OK;

    for (size_t i = 0; rc == SL_OK && i < t->wanted.x; i++) {
        rc = tfrecord_numbers(t->wanted.key[i], &lists[i], 0, x + have,
                              d->features - have, &n, err);
        have += n;
    }
    if (rc == SL_OK && have < d->features)
        return sl_fail(err, SL_EINVAL,
                       "has %zu numbers in its features; the model reads %zu",
                       have, d->features);
    for (size_t i = 0; rc == SL_OK && i < have; i++)
        x[i] = x[i] * d->scale + d->offset;
    return rc;
}

static enum sl_err tfrecord_read_image(const struct tfrecord *t,
                                       struct decoder *decoder,
                                       struct example_list *l, void *x,
                                       struct sl_error *err)
{
    const uint8_t *bytes = NULL;
    size_t n = 0;
    bool more = false;
    enum sl_err rc = SL_OK;

    if (l->kind != EXAMPLE_BYTES)
        return sl_fail(err, SL_EINVAL,
                       "feature '%.60s' %s; bytes are expected of an image",
                       t->wanted.key[0], tfrecord_kind(l->kind));
    rc = example_next_bytes(l, &bytes, &n, &more);
    if (rc != SL_OK || !more)
        return tfrecord_wrong(t->wanted.key[0], "has no bytes", err);
    rc = data_put_image(decoder, &t->data, t->shape, t->decode, bytes, n, x,
                        err);
    return rc == SL_OK
               ? rc
               : sl_prefix(err, rc, "feature '%.60s'", t->wanted.key[0]);
}

// Appends the ids of a list to a bag: integers, or bytes that are hashed.
static enum sl_err tfrecord_read_ids(struct data_ids *ids,
                                     struct example_list *l,
                                     struct sl_error *err)
{
    const uint8_t *bytes = NULL;
    size_t n = 0, count = 0;
    int64_t id = 0;
    bool more = true;
    enum sl_err rc = SL_OK;

    buf_reset(&ids->bag);
    if (l->kind == EXAMPLE_MISSING) // a bag without ids
        return SL_OK;
    if (l->kind != (ids->how.hashed ? EXAMPLE_BYTES : EXAMPLE_INTS))
        return sl_fail(err, SL_EINVAL,
                       "feature '%.60s' %s; ids are integers, or with hash: "
                       "xxh64 bytes",
                       ids->how.name, tfrecord_kind(l->kind));
    while (rc == SL_OK && more) {
        rc = ids->how.hashed ? example_next_bytes(l, &bytes, &n, &more)
                             : example_next_int(l, &id, &more);
        if (rc != SL_OK)
            return tfrecord_wrong(ids->how.name, "has a broken list", err);
        if (more && ++count > IDS_BAG_MAX)
            return tfrecord_wrong(ids->how.name, "has over 1000000 ids", err);
        if (more && ids->how.hashed)
            id = (int64_t)ids_hash(&ids->how, bytes, n);
        if (more && buf_append(&ids->bag, &id, sizeof(id)) != SL_OK)
            return sl_no_memory(err);
    }
    return rc;
}

static enum sl_err tfrecord_read_label(const struct tfrecord *t,
                                       struct example_list *l, void *y,
                                       struct sl_error *err)
{
    const struct data *d = &t->data;
    const char *key = t->wanted.key[t->wanted.count - 1];
    bool values = d->want.labels == DATA_VALUES;
    size_t most = values ? (size_t)d->want.outputs : 1, n = 0;
    float one = 0;
    enum sl_err rc = tfrecord_numbers(key, l, (double)t->first,
                                      values ? y : &one, most, &n, err);

    if (rc == SL_OK && n < most)
        return sl_fail(err, SL_EINVAL,
                       "feature '%.60s' has %zu numbers; %zu are expected of "
                       "a label",
                       key, n, most);
    return rc != SL_OK || values ? rc : data_put_class(d, (double)one, y, err);
}

// ---- a record

static enum sl_err tfrecord_load(const struct tfrecord *t,
                                 const struct data_extent *r, struct decoder *d,
                                 struct sl_error *err)
{
    const uint8_t *bytes;
    enum sl_err rc;

    if (r->bytes == RECORD_MISSING) // no scan adds one, but an index may
        return sl_fail(err, SL_ECORRUPT, "the index of the records is wrong");
    rc = image_space(&d->file, (size_t)r->bytes + TFRECORD_TAIL, err);

    if (rc == SL_OK)
        rc = records_load(&t->records, r, TFRECORD_TAIL, d->file.at, err);
    bytes = d->file.at;
    if (rc == SL_OK && !tfrecord_whole(bytes, r->bytes, bytes + r->bytes))
        rc = sl_fail(err, SL_ECORRUPT,
                     "its bytes do not fit their checksum; the file is "
                     "damaged");
    return rc;
}

static enum sl_err tfrecord_read_with(struct tfrecord *t,
                                      const struct data_extent *r,
                                      struct decoder *decoder, void *x, void *y,
                                      struct sl_error *err)
{
    struct example_list lists[DATA_KEYS_MAX];
    const struct tfrecord_keys *w = &t->wanted;
    enum sl_err rc = tfrecord_load(t, r, decoder, err);

    if (rc == SL_OK)
        rc = example_find(decoder->file.at, r->bytes, w->key, w->count, lists,
                          err);
    if (rc == SL_OK)
        rc = t->image ? tfrecord_read_image(t, decoder, &lists[0], x, err)
                      : tfrecord_read_numbers(t, lists, x, err);
    for (size_t i = 0; rc == SL_OK && i < w->ids; i++)
        rc = tfrecord_read_ids(&t->data.ids[i], &lists[w->x + i], err);
    if (rc == SL_OK)
        rc = tfrecord_read_label(t, &lists[w->count - 1], y, err);
    return rc;
}

static enum sl_err tfrecord_read(struct data *d, uint64_t number, void *x,
                                 void *y, struct sl_error *err)
{
    struct tfrecord *t = tfrecord_of(d);
    const struct data_extent *r = &t->records.at[number];
    struct decoder *decoder = decoders_take(&t->decoders);
    enum sl_err rc;

    if (decoder == NULL)
        return sl_no_memory(err);
    rc = tfrecord_read_with(t, r, decoder, x, y, err);
    decoders_give(&t->decoders, decoder);
    return rc == SL_OK ? rc : records_blame(&t->records, r, rc, err);
}

static void tfrecord_expect(struct data *d, uint64_t number)
{
    struct tfrecord *t = tfrecord_of(d);

    records_expect(&t->records, &t->records.at[number]);
}

static uint64_t tfrecord_memory(const struct data *d)
{
    return tfrecord_of(d)->records.capacity * sizeof(struct data_extent);
}

static void tfrecord_release(struct data *d)
{
    struct tfrecord *t = tfrecord_of(d);

    decoders_release(&t->decoders);
    records_release(&t->records);
    for (size_t i = 0; i < t->wanted.count; i++)
        sl_free((char *)(uintptr_t)t->wanted.key[i]);
    sl_free(t->wanted.key);
}

static const struct data_ops tfrecord_ops = {
    .read = tfrecord_read,
    .expect = tfrecord_expect,
    .memory = tfrecord_memory,
    .release = tfrecord_release,
};

// ---- opening

static enum sl_err tfrecord_scan_one(struct tfrecord *t, struct records_scan *s,
                                     uint32_t file, uint64_t *at,
                                     struct sl_error *err)
{
    const uint8_t *head = NULL;
    uint64_t bytes = 0;
    enum sl_err rc = records_scan_bytes(s, *at, TFRECORD_HEAD, &head, err);

    if (rc != SL_OK)
        return rc;
    if (*at == 0 && head[0] == 0x1f && head[1] == 0x8b)
        return sl_fail(err, SL_ENOTSUP,
                       "is compressed as a whole, so no sample can be read by "
                       "itself; unpack it with gunzip");
    if (!tfrecord_head(head, &bytes))
        return sl_fail(err, SL_ECORRUPT,
                       "byte %llu: the length of a record does not fit its "
                       "checksum; it is damaged, or no TFRecord file",
                       (unsigned long long)*at);
    if (bytes > RECORD_BYTES)
        return sl_fail(err, SL_ERANGE, "byte %llu: a record of over %llu bytes",
                       (unsigned long long)*at,
                       (unsigned long long)RECORD_BYTES);
    *at += TFRECORD_HEAD;
    if (bytes + TFRECORD_TAIL > s->size - *at)
        return sl_fail(err, SL_ECORRUPT,
                       "is cut short: the record at byte %llu goes on beyond "
                       "the end",
                       (unsigned long long)*at - TFRECORD_HEAD);
    rc = records_add(&t->records,
                     (struct data_extent){*at, (uint32_t)bytes, file}, err);
    *at += bytes + TFRECORD_TAIL;
    return rc;
}

static enum sl_err tfrecord_scan(void *arg, struct records_scan *s,
                                 uint32_t file, struct sl_error *err)
{
    struct tfrecord *t = arg;
    uint64_t at = 0;
    enum sl_err rc = SL_OK;

    while (rc == SL_OK && at < s->size) {
        rc = tfrecord_scan_one(t, s, file, &at, err);
        if (rc == SL_OK && t->records.count % 1024 == 0)
            rc = pulse_piece(t->pulse, err);
    }
    return rc;
}

static enum sl_err tfrecord_add_key(struct tfrecord_keys *w, const char *key,
                                    struct sl_error *err)
{
    w->key[w->count] = sl_strdup(key);
    if (w->key[w->count] == NULL)
        return sl_no_memory(err);
    w->count++;
    return SL_OK;
}

static enum sl_err tfrecord_choose(struct tfrecord *t,
                                   const struct data_source *s,
                                   struct sl_error *err)
{
    const struct data_feature *one =
        s->image.key != NULL ? &s->image : &s->number;
    struct tfrecord_keys *w = &t->wanted;
    size_t n = s->columns_count + s->ids_count + 2;
    enum sl_err rc = SL_OK;

    if ((one->key == NULL) == (s->columns_count == 0) || s->label.key == NULL)
        return sl_fail(err, SL_EINVAL,
                       "data of format tfrecord needs the keys of its features "
                       "and of its label");
    if (n > DATA_KEYS_MAX)
        return sl_fail(err, SL_ERANGE, "over %d features are read",
                       DATA_KEYS_MAX - 1);
    w->key = sl_calloc(n, sizeof(*w->key));
    if (w->key == NULL)
        return sl_no_memory(err);
    if (one->key != NULL)
        rc = tfrecord_add_key(w, one->key, err);
    for (size_t i = 0; rc == SL_OK && i < s->columns_count; i++)
        rc = tfrecord_add_key(w, s->columns[i], err);
    w->x = w->count;
    for (size_t i = 0; rc == SL_OK && i < s->ids_count; i++)
        rc = tfrecord_add_key(w, s->ids[i].name, err);
    w->ids = w->count - w->x;
    return rc == SL_OK ? tfrecord_add_key(w, s->label.key, err) : rc;
}

static enum sl_err tfrecord_open(struct tfrecord *t,
                                 const struct data_source *s,
                                 struct sl_error *err)
{
    enum sl_err rc = tfrecord_choose(t, s, err);

    t->image = s->image.key != NULL;
    t->decode = s->image.decode;
    t->first = s->label.first;
    if (rc == SL_OK && t->image && t->decode != DATA_DECODE_RAW)
        rc = decoder_shape(&t->data.want, t->shape, err);
    if (rc == SL_OK && s->x == NULL)
        rc =
            sl_fail(err, SL_EINVAL, "data of format tfrecord needs the path x");
    if (rc == SL_OK)
        rc = data_set_ids(&t->data, s, err);
    if (rc == SL_OK)
        rc = records_open(&t->records, s, err);
    if (rc == SL_OK)
        rc = records_scan(&t->records, "tfrecord", tfrecord_scan, t, err);
    if (rc == SL_OK)
        rc = data_set_samples(&t->data, t->records.count, s, err);
    if (rc == SL_OK)
        records_hash(&t->records, &t->data);
    return rc;
}

enum sl_err data_open_tfrecord(struct data **out, const struct data_source *s,
                               const struct data_want *want,
                               struct sl_error *err)
{
    struct tfrecord *t = sl_calloc(1, sizeof(*t));
    enum sl_err rc;

    if (t == NULL)
        return sl_no_memory(err);
    data_init(&t->data, &tfrecord_ops, s, want);
    decoders_init(&t->decoders, s->depth);
    t->pulse = s->pulse;
    rc = tfrecord_open(t, s, err);
    if (rc != SL_OK) {
        data_free(&t->data);
        return rc;
    }
    t->data.u8 = t->image && want->u8;
    t->data.shared = t->data.ids_count == 0; // bags belong to the data
    *out = &t->data;
    return SL_OK;
}
