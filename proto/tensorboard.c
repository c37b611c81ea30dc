// SPDX-License-Identifier: Apache-2.0
// proto/tensorboard.c -- see tensorboard.h.
#include "proto/tensorboard.h"

#include <string.h>

#include "common/base/mem.h"
#include "common/base/tfrecord.h"
#include "proto/tensorboard.pb-c.h"
#include "proto/wire.h"

#define SCALARS_MAX 32
#define START 1
enum { FLOAT = 1, STRING = 7 };  // of TensorFlow's types
enum { A_SCALAR = 1, A_TENSOR }; // data_class

typedef Sluice__Tensorboard__Event event;

// One value of a summary, with its metadata, tensor and shape.
struct summary_value {
    Sluice__Tensorboard__Summary__Value msg;
    Sluice__Tensorboard__SummaryMetadata metadata;
    Sluice__Tensorboard__SummaryMetadata__PluginData plugin;
    Sluice__Tensorboard__TensorProto tensor;
    Sluice__Tensorboard__TensorShapeProto shape;
    Sluice__Tensorboard__TensorShapeProto__Dim dim[2];
    Sluice__Tensorboard__TensorShapeProto__Dim *dims[2];
};

static void tensorboard_init_value(struct summary_value *v, const char *tag,
                                   const char *plugin, int data_class,
                                   bool first)
{
    sluice__tensorboard__summary__value__init(&v->msg);
    sluice__tensorboard__summary_metadata__init(&v->metadata);
    sluice__tensorboard__summary_metadata__plugin_data__init(&v->plugin);
    sluice__tensorboard__tensor_proto__init(&v->tensor);
    sluice__tensorboard__tensor_shape_proto__init(&v->shape);
    for (unsigned i = 0; i < SL_COUNT(v->dim); i++) {
        sluice__tensorboard__tensor_shape_proto__dim__init(&v->dim[i]);
        v->dims[i] = &v->dim[i];
    }
    v->shape.dim = v->dims;
    v->tensor.tensor_shape = &v->shape;
    v->msg.tag = (char *)tag;
    v->msg.tensor = &v->tensor;
    if (!first)
        return;
    v->plugin.plugin_name = (char *)plugin;
    v->metadata.plugin_data = &v->plugin;
    v->metadata.data_class = data_class;
    v->msg.metadata = &v->metadata;
}

static enum sl_err tensorboard_append_event(struct buf *out, const event *e)
{
    struct buf bytes = BUF_INIT;
    enum sl_err rc = wire_pack(&e->base, &bytes);

    if (rc == SL_OK)
        rc = tfrecord_append(out, bytes.data, bytes.len);
    buf_release(&bytes);
    return rc;
}

static event event_at(const struct tensorboard_at *at)
{
    event e = SLUICE__TENSORBOARD__EVENT__INIT;

    e.wall_time = (double)at->wall_us / 1e6;
    e.step = (int64_t)at->step;
    return e;
}

static enum sl_err append_values(struct buf *out,
                                 const struct tensorboard_at *at,
                                 Sluice__Tensorboard__Summary__Value **values,
                                 size_t count)
{
    Sluice__Tensorboard__Summary summary = SLUICE__TENSORBOARD__SUMMARY__INIT;
    event e = event_at(at);

    summary.n_value = count;
    summary.value = values;
    e.what_case = SLUICE__TENSORBOARD__EVENT__WHAT_SUMMARY;
    e.summary = &summary;
    return tensorboard_append_event(out, &e);
}

static enum sl_err append_one(struct buf *out, const struct tensorboard_at *at,
                              struct summary_value *v)
{
    Sluice__Tensorboard__Summary__Value *values[] = {&v->msg};

    return append_values(out, at, values, 1);
}

enum sl_err tensorboard_version(struct buf *out, uint64_t wall_us)
{
    event e = event_at(&(struct tensorboard_at){.wall_us = wall_us});
    Sluice__Tensorboard__SourceMetadata source =
        SLUICE__TENSORBOARD__SOURCE_METADATA__INIT;

    source.writer = "sluice";
    e.what_case = SLUICE__TENSORBOARD__EVENT__WHAT_FILE_VERSION;
    e.file_version = "brain.Event:2";
    e.source_metadata = &source;
    return tensorboard_append_event(out, &e);
}

enum sl_err tensorboard_start(struct buf *out, const struct tensorboard_at *at)
{
    event e = event_at(at);
    Sluice__Tensorboard__SessionLog log =
        SLUICE__TENSORBOARD__SESSION_LOG__INIT;

    log.status = START;
    e.what_case = SLUICE__TENSORBOARD__EVENT__WHAT_SESSION_LOG;
    e.session_log = &log;
    return tensorboard_append_event(out, &e);
}

enum sl_err tensorboard_scalars(struct buf *out,
                                const struct tensorboard_at *at,
                                const struct tensorboard_scalar *scalars,
                                size_t count)
{
    struct summary_value *v = sl_malloc_array(count, sizeof(*v));
    Sluice__Tensorboard__Summary__Value *values[SCALARS_MAX];
    float said[SCALARS_MAX];
    enum sl_err rc;

    if (v == NULL || count == 0 || count > SCALARS_MAX) {
        sl_free(v);
        return count == 0 ? SL_OK : SL_ENOMEM;
    }
    for (size_t i = 0; i < count; i++) {
        tensorboard_init_value(&v[i], scalars[i].tag, "scalars", A_SCALAR,
                               scalars[i].first);
        said[i] = scalars[i].value;
        v[i].tensor.dtype = FLOAT;
        v[i].tensor.n_float_val = 1;
        v[i].tensor.float_val = &said[i];
        values[i] = &v[i].msg;
    }
    rc = append_values(out, at, values, count);
    sl_free(v);
    return rc;
}

enum sl_err tensorboard_histogram(struct buf *out,
                                  const struct tensorboard_at *at,
                                  const char *tag, bool first,
                                  const struct tensorboard_bucket *buckets,
                                  size_t count)
{
    float rows[3 * TENSORBOARD_BUCKETS_MAX];
    struct summary_value v;

    if (count > TENSORBOARD_BUCKETS_MAX)
        count = TENSORBOARD_BUCKETS_MAX;
    for (size_t i = 0; i < count; i++) {
        rows[3 * i] = buckets[i].left;
        rows[3 * i + 1] = buckets[i].right;
        rows[3 * i + 2] = buckets[i].count;
    }
    tensorboard_init_value(&v, tag, "histograms", A_TENSOR, first);
    v.tensor.dtype = FLOAT;
    v.tensor.n_float_val = 3 * count;
    v.tensor.float_val = rows;
    v.shape.n_dim = 2;
    v.dim[0].size = (int64_t)count;
    v.dim[1].size = 3;
    return append_one(out, at, &v);
}

enum sl_err tensorboard_text(struct buf *out, const struct tensorboard_at *at,
                             const char *tag, const char *text)
{
    ProtobufCBinaryData bytes = {strlen(text), (uint8_t *)text};
    struct summary_value v;

    tensorboard_init_value(&v, tag, "text", A_TENSOR, true);
    v.tensor.dtype = STRING;
    v.tensor.n_string_val = 1;
    v.tensor.string_val = &bytes;
    v.shape.n_dim = 1;
    v.dim[0].size = 1;
    return append_one(out, at, &v);
}
