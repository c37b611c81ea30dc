// SPDX-License-Identifier: Apache-2.0
// worker/compile/compile_loss.c -- the loss: its inputs, labels and gradient.
#include "common/base/mem.h"
#include "worker/compile/compile_build.h"

bool compile_loss_takes_act(const struct model *m,
                            const struct compile_options *o)
{
    const struct model_node *node = &m->nodes[m->output];

    if (o->from_logits || node->users != 1)
        return false;
    if (spec_loss_has_classes(o->loss))
        return node->act == MODEL_ACT_SOFTMAX;
    return o->loss == SPEC_LOSS_BINARY_CROSSENTROPY &&
           node->act == MODEL_ACT_SIGMOID;
}

// Returns the rows of a sample's outputs: each is a prediction of its own.
static uint64_t compile_loss_rows(const struct model *m)
{
    const struct model_shape *out = &m->nodes[m->output].out;

    return out->rank == 0 ? 1
                          : model_shape_elements(out) / out->dim[out->rank - 1];
}

enum sl_err compile_wants(struct data_want *out, const struct model *model,
                          enum spec_loss loss, struct sl_error *err)
{
    const struct model_shape *in = &model->nodes[0].out;

    if (in->rank > DATA_RANK)
        return sl_fail(err, SL_ENOTSUP,
                       "samples of %u dimensions; at most %d are read",
                       in->rank, DATA_RANK);
    *out = (struct data_want){.rank = in->rank};
    for (uint32_t i = 0; i < in->rank; i++)
        out->dim[i] = in->dim[i];
    out->outputs = model_shape_elements(&model->nodes[model->output].out);
    if (spec_loss_has_classes(loss)) {
        out->rows = compile_loss_rows(model);
        out->outputs /= out->rows;
    }
    if (loss == SPEC_LOSS_SPARSE_CATEGORICAL_CROSSENTROPY)
        out->labels = DATA_INDEX;
    else if (loss == SPEC_LOSS_CATEGORICAL_CROSSENTROPY)
        out->labels = DATA_ONE_HOT;
    else
        out->labels = DATA_VALUES;
    return SL_OK;
}

// Describes softmax and cross-entropy in one op, on the softmax's input.
static void categorical(struct build *b, struct kern_desc *d)
{
    const struct model_node *node = &b->model->nodes[b->model->output];

    if (node->out.rank == 0) {
        compile_fail(b, b->model->output, SL_ENOTSUP,
                     "a categorical loss wants an output for each class");
        return;
    }
    if (!b->o->from_logits && !b->loss_has_act)
        compile_fail(b, b->model->output, SL_ENOTSUP,
                     "a categorical loss wants logits; end with activation "
                     "softmax, or set from_logits: true");
    kern_desc_xent(d, (int64_t)(b->o->batch * compile_loss_rows(b->model)),
                   (int64_t)node->out.dim[node->out.rank - 1],
                   b->o->loss == SPEC_LOSS_SPARSE_CATEGORICAL_CROSSENTROPY, 0);
    kern_desc_smooth(d, (float)b->o->smoothing);
    if (b->o->top_k > 1)
        kern_desc_top(d, (int32_t)b->o->top_k);
}

static void compile_loss_describe(struct build *b, struct kern_desc *d)
{
    const struct model_node *node = &b->model->nodes[b->model->output];
    int64_t dim[KERN_DIMS];
    unsigned nd = compile_dims(b, &node->out, dim);

    if (spec_loss_has_classes(b->o->loss)) {
        categorical(b, d);
    } else if (b->o->loss == SPEC_LOSS_BINARY_CROSSENTROPY) {
        kern_desc_bce(d,
                      b->o->from_logits || b->loss_has_act
                          ? KERN_BCE_LOGITS
                          : KERN_BCE_PROBABILITIES,
                      nd, dim, 0);
        kern_desc_smooth(d, (float)b->o->smoothing);
    } else {
        kern_desc_mse(d, nd, dim, 0);
        if (b->o->loss == SPEC_LOSS_MEAN_ABSOLUTE_ERROR)
            kern_desc_absolute(d);
    }
}

// Copies the loss's input to the program's outputs, for metrics beside the
// loss.
static void tell_outputs(struct build *b, uint32_t logits, int64_t count)
{
    const struct model *m = b->model;
    size_t bytes = (size_t)count * sizeof(float);
    struct kern_shape flat = kern_shape(KERN_F32, 1, &count);
    struct kern_desc d;

    if (!b->o->outputs)
        return;
    b->p->per_sample = (uint32_t)model_shape_elements(&m->nodes[m->output].out);
    b->p->logits = b->o->from_logits || b->loss_has_act;
    b->p->outputs = sl_calloc((size_t)count, sizeof(*b->p->outputs));
    if (b->p->outputs == NULL) {
        compile_fail(b, m->output, SL_ENOMEM, "no memory for its outputs");
        return;
    }
    kern_desc_axpby(&d, &flat, &flat, 1, 0);
    compile_emit(
        b, m->output, &d,
        (struct build_ref[]){WHOLE(logits),
                             WHOLE(compile_at(b, PROGRAM_OUTPUTS, 0, bytes))});
}

// A loss's labels, and their weights.
struct loss_labels {
    uint32_t labels, weights; // weights: only where samples have some
};

// Copies `rows` rows of `each` floats, which lie in rows of `wide` from byte
// `at` of the labels on. Returns the copy.
static uint32_t loss_copy(struct build *b, size_t at, int64_t rows,
                          int64_t each, int64_t wide)
{
    struct kern_shape to = kern_shape(KERN_F32, 2, (int64_t[]){rows, each});
    struct kern_shape from = to;
    uint32_t copy = compile_tensor(b, kern_shape_bytes(&to)), labels;
    struct kern_desc d;

    from.stride[0] = wide;
    // A tensor of its own: what the program reads of the labels ends with it.
    labels = compile_at(b, PROGRAM_LABELS, at,
                        (size_t)kern_shape_extent(&from) * sizeof(float));
    kern_desc_axpby(&d, &from, &to, 1, 0);
    compile_emit(b, b->model->output, &d,
                 (struct build_ref[]){WHOLE(labels), WHOLE(copy)});
    return copy;
}

// Finds the labels of a batch as the loss, *d, reads them. A row's label has
// `each` numbers, and with weights one more, its weight: then integers stay
// where they are, and are read in pairs.
static struct loss_labels loss_labels(struct build *b, struct kern_desc *d)
{
    bool sparse = d->io[1].dtype == KERN_I32;
    int64_t rows = d->io[0].dim[0];
    int64_t each = sparse ? 1 : kern_shape_count(&d->io[0]) / rows;
    int64_t wide = each + (b->o->weighted ? 1 : 0);
    size_t number = sparse ? sizeof(int32_t) : b->real;
    struct loss_labels l = {
        .labels =
            compile_at(b, PROGRAM_LABELS, 0, (size_t)(rows * wide) * number)};

    if (!b->o->weighted || b->rc != SL_OK)
        return l;
    if (b->real != sizeof(float)) {
        compile_fail(b, b->model->output, SL_ENOTSUP, "weights are of 32 bits");
        return l;
    }
    kern_desc_weigh(d);
    l.weights = loss_copy(b, (size_t)each * number, rows, 1, wide);
    if (!sparse)
        l.labels = loss_copy(b, 0, rows, each, wide);
    return l;
}

// Computes the loss in f32, in any precision of the layers.
void compile_loss(struct build *b)
{
    const struct model *m = b->model;
    const struct model_node *node = &m->nodes[m->output];
    uint64_t elements = model_shape_elements(&node->out);
    int64_t count = (int64_t)(b->o->batch * elements);
    enum kern_dtype is = compile_dtype(b, m->output);
    size_t bytes = (size_t)count * b->real;
    struct loss_labels y;
    struct build_ref io[KERN_IO];
    uint32_t logits, dlogits, stats;
    struct kern_desc d;
    unsigned n = 0;

    b->p->loss_rows = (double)compile_loss_rows(m);
    if (b->rc != SL_OK)
        return;
    compile_loss_describe(b, &d);
    y = loss_labels(b, &d);
    stats = compile_at(b, PROGRAM_STATS, 0, 2 * sizeof(double));
    logits =
        compile_cast(b, m->output, b->value[m->output], count, is, KERN_F32);
    tell_outputs(b, logits, count);
    dlogits = compile_tensor(b, bytes);
    io[n++] = WHOLE(logits);
    io[n++] = WHOLE(y.labels);
    io[n++] = WHOLE(compile_at(b, PROGRAM_SCALE, 0, b->real));
    if (b->o->weighted)
        io[n++] = WHOLE(y.weights);
    io[n++] = WHOLE(dlogits);
    io[n++] = WHOLE(stats);
    compile_emit(b, m->output, &d, io);
    compile_penalties(b, stats);
    b->grad[m->output] = dlogits;
    if (b->o->train)
        b->grad[m->output] =
            compile_cast(b, m->output, dlogits, count, KERN_F32, is);
}
