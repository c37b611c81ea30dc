// SPDX-License-Identifier: Apache-2.0
// worker/compile/compile_loss.c -- the losses of the outputs: their inputs,
// labels and gradients.
//
// With a loss for each output (o->heads) a sample's label is one row of reals:
// the labels of all outputs, one behind the other, where those of classes have
// a number for each class (data.h).
#include "common/base/mem.h"
#include "worker/compile/compile_build.h"

_Static_assert(PROGRAM_HEADS_MAX == MODEL_OUTPUTS_MAX + 1,
               "a head for each output, and one for the penalties");

// The loss of one output, while its ops are described.
struct loss_head {
    uint32_t node; // of the output
    uint32_t number;
    struct spec_head is;
    size_t label; // number of the label's first real
    size_t wide;  // reals of a whole label, without a weight; 0: its own alone
};

static struct spec_head loss_head_of(const struct compile_options *o,
                                     uint32_t number)
{
    return o->heads != NULL ? o->heads[number]
                            : (struct spec_head){.loss = o->loss,
                                                 .from_logits = o->from_logits,
                                                 .smoothing = o->smoothing,
                                                 .weight = 1};
}

void compile_loss_take_acts(struct build *b)
{
    for (uint32_t i = 0; i < b->model->outputs; i++) {
        const struct model_node *node = &b->model->nodes[b->model->output[i]];
        struct spec_head h = loss_head_of(b->o, i);

        if (h.from_logits || node->users != 1)
            continue;
        b->loss_act[b->model->output[i]] =
            spec_loss_has_classes(h.loss)
                ? node->act == MODEL_ACT_SOFTMAX
                : h.loss == SPEC_LOSS_BINARY_CROSSENTROPY &&
                      node->act == MODEL_ACT_SIGMOID;
    }
}

// Returns the rows of a sample's outputs: each is a prediction of its own.
static uint64_t compile_loss_rows(const struct model_node *node)
{
    const struct model_shape *out = &node->out;

    return out->rank == 0 ? 1
                          : model_shape_elements(out) / out->dim[out->rank - 1];
}

// Wants the labels of several outputs.
static void wants_joined(struct data_want *out, const struct model *model,
                         const struct spec_head *heads)
{
    out->labels = DATA_VALUES;
    out->parts = model->outputs;
    for (uint32_t i = 0; i < model->outputs; i++) {
        const struct model_shape *s = &model->nodes[model->output[i]].out;
        uint64_t numbers = spec_label_numbers(heads[i].loss, s);

        out->part[i] = (struct data_label_part){
            .numbers = numbers,
            .classes =
                heads[i].loss == SPEC_LOSS_SPARSE_CATEGORICAL_CROSSENTROPY
                    ? model_shape_elements(s) / numbers
                    : 0};
        out->outputs += numbers;
    }
}

enum sl_err compile_wants(struct data_want *out, const struct model *model,
                          enum spec_loss loss, const struct spec_head *heads,
                          struct sl_error *err)
{
    const struct model_shape *in = &model->nodes[0].out;
    const struct model_node *node = &model->nodes[model->output[0]];

    if (in->rank > DATA_RANK)
        return sl_fail(err, SL_ENOTSUP,
                       "samples of %u dimensions; at most %d are read",
                       in->rank, DATA_RANK);
    *out = (struct data_want){.rank = in->rank};
    for (uint32_t i = 0; i < in->rank; i++)
        out->dim[i] = in->dim[i];
    if (heads != NULL) {
        wants_joined(out, model, heads);
        return SL_OK;
    }
    out->outputs = model_shape_elements(&node->out);
    if (spec_loss_has_classes(loss)) {
        out->rows = compile_loss_rows(node);
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
static void categorical(struct build *b, const struct loss_head *h,
                        struct kern_desc *d)
{
    const struct model_node *node = &b->model->nodes[h->node];
    bool sparse = h->is.loss == SPEC_LOSS_SPARSE_CATEGORICAL_CROSSENTROPY;

    if (node->out.rank == 0) {
        compile_fail(b, h->node, SL_ENOTSUP,
                     "a categorical loss wants an output for each class");
        return;
    }
    if (!h->is.from_logits && !b->loss_act[h->node])
        compile_fail(b, h->node, SL_ENOTSUP,
                     "a categorical loss wants logits; end with activation "
                     "softmax, or set from_logits: true");
    kern_desc_xent(d, (int64_t)(b->o->batch * compile_loss_rows(node)),
                   (int64_t)node->out.dim[node->out.rank - 1],
                   sparse && h->wide == 0, 0);
    kern_desc_smooth(d, (float)h->is.smoothing);
    if (b->o->top_k > 1)
        kern_desc_top(d, (int32_t)b->o->top_k);
}

static void compile_loss_describe(struct build *b, const struct loss_head *h,
                                  struct kern_desc *d)
{
    const struct model_node *node = &b->model->nodes[h->node];
    int64_t dim[KERN_DIMS];
    unsigned nd = compile_dims(b, &node->out, dim);

    if (spec_loss_has_classes(h->is.loss)) {
        categorical(b, h, d);
    } else if (h->is.loss == SPEC_LOSS_BINARY_CROSSENTROPY) {
        kern_desc_bce(d,
                      h->is.from_logits || b->loss_act[h->node]
                          ? KERN_BCE_LOGITS
                          : KERN_BCE_PROBABILITIES,
                      nd, dim, 0);
        kern_desc_smooth(d, (float)h->is.smoothing);
    } else {
        kern_desc_mse(d, nd, dim, 0);
        if (h->is.loss == SPEC_LOSS_MEAN_ABSOLUTE_ERROR)
            kern_desc_absolute(d);
    }
}

// Copies the loss's input to the program's outputs, for metrics beside the
// loss.
static void tell_outputs(struct build *b, uint32_t node, uint32_t logits,
                         int64_t count)
{
    size_t bytes = (size_t)count * sizeof(float);
    struct kern_shape flat = kern_shape(KERN_F32, 1, &count);
    struct kern_desc d;

    if (!b->o->outputs)
        return;
    b->p->per_sample =
        (uint32_t)model_shape_elements(&b->model->nodes[node].out);
    b->p->logits = b->o->from_logits || b->loss_act[node];
    b->p->outputs = sl_calloc((size_t)count, sizeof(*b->p->outputs));
    if (b->p->outputs == NULL) {
        compile_fail(b, node, SL_ENOMEM, "no memory for its outputs");
        return;
    }
    kern_desc_axpby(&d, &flat, &flat, 1, 0);
    compile_emit(
        b, node, &d,
        (struct build_ref[]){WHOLE(logits),
                             WHOLE(compile_at(b, PROGRAM_OUTPUTS, 0, bytes))});
}

// A loss's labels, and their weights.
struct loss_labels {
    uint32_t labels, weights; // weights: only where samples have some
};

// Copies reals that lie in rows of `wide` from byte `at` of the labels on: the
// first dim[2] of each of dim[0] rows, dim[1] times. Returns the copy.
static uint32_t loss_copy(struct build *b, const struct loss_head *h, size_t at,
                          const int64_t dim[3], int64_t wide)
{
    struct kern_shape to = kern_shape(KERN_F32, 3, dim);
    struct kern_shape from = to;
    uint32_t copy = compile_tensor(b, (size_t)kern_shape_count(&to) * b->real),
             labels;
    struct kern_desc d;

    from.stride[0] = wide;
    from.stride[1] = 0;
    // A tensor of its own: what the program reads of the labels ends with it.
    labels = compile_at(b, PROGRAM_LABELS, at,
                        (size_t)kern_shape_extent(&from) * b->real);
    kern_desc_axpby(&d, &from, &to, 1, 0);
    compile_emit(b, h->node, &d,
                 (struct build_ref[]){WHOLE(labels), WHOLE(copy)});
    return copy;
}

// Finds the labels of a batch as the loss, *d, reads them, in the labels of
// several outputs: a copy, and of the weight of each sample as many as it has
// rows.
static struct loss_labels loss_labels_joined(struct build *b,
                                             const struct loss_head *h,
                                             struct kern_desc *d)
{
    int64_t n = b->o->batch, rows = d->io[0].dim[0] / n;
    int64_t each = kern_shape_count(&d->io[0]) / n;
    int64_t wide = (int64_t)h->wide + (b->o->weighted ? 1 : 0);
    struct loss_labels l = {.labels = NO_TENSOR};

    l.labels =
        loss_copy(b, h, h->label * b->real, (int64_t[]){n, 1, each}, wide);
    if (!b->o->weighted)
        return l;
    kern_desc_weigh(d);
    l.weights =
        loss_copy(b, h, h->wide * b->real, (int64_t[]){n, rows, 1}, wide);
    return l;
}

// Finds the labels of a batch as the loss, *d, reads them. A row's label has
// `each` numbers, and with weights one more, its weight: then integers stay
// where they are, and are read in pairs.
static struct loss_labels
loss_labels(struct build *b, const struct loss_head *h, struct kern_desc *d)
{
    bool sparse = d->io[1].dtype == KERN_I32;
    int64_t rows = d->io[0].dim[0];
    int64_t each = sparse ? 1 : kern_shape_count(&d->io[0]) / rows;
    int64_t wide = each + (b->o->weighted ? 1 : 0);
    size_t number = sparse ? sizeof(int32_t) : b->real;
    struct loss_labels l = {.labels = NO_TENSOR};

    if (b->o->weighted && b->real != sizeof(float))
        compile_fail(b, h->node, SL_ENOTSUP, "weights are of 32 bits");
    if (b->rc != SL_OK)
        return l;
    if (h->wide > 0)
        return loss_labels_joined(b, h, d);
    l.labels = compile_at(b, PROGRAM_LABELS, 0, (size_t)(rows * wide) * number);
    if (!b->o->weighted)
        return l;
    kern_desc_weigh(d);
    l.weights =
        loss_copy(b, h, (size_t)each * number, (int64_t[]){rows, 1, 1}, wide);
    if (!sparse)
        l.labels = loss_copy(b, h, 0, (int64_t[]){rows, 1, each}, wide);
    return l;
}

// Computes the loss of an output in f32, in any precision of the layers.
static void compile_loss(struct build *b, const struct loss_head *h)
{
    const struct model_node *node = &b->model->nodes[h->node];
    uint64_t elements = model_shape_elements(&node->out);
    int64_t count = (int64_t)(b->o->batch * elements);
    enum kern_dtype is = compile_dtype(b, h->node);
    size_t bytes = (size_t)count * b->real;
    struct loss_labels y;
    struct build_ref io[KERN_IO];
    uint32_t logits, dlogits;
    struct kern_desc d;
    unsigned n = 0;

    if (b->rc != SL_OK)
        return;
    compile_loss_describe(b, h, &d);
    y = loss_labels(b, h, &d);
    logits = compile_cast(b, h->node, b->value[h->node], count, is, KERN_F32);
    tell_outputs(b, h->node, logits, count);
    dlogits = compile_tensor(b, bytes);
    io[n++] = WHOLE(logits);
    io[n++] = WHOLE(y.labels);
    io[n++] = WHOLE(compile_scale_of(b, h->number));
    if (b->o->weighted)
        io[n++] = WHOLE(y.weights);
    io[n++] = WHOLE(dlogits);
    io[n++] = WHOLE(compile_stats_of(b, h->number));
    compile_emit(b, h->node, &d, io);
    b->grad[h->node] = dlogits;
    if (b->o->train)
        b->grad[h->node] =
            compile_cast(b, h->node, dlogits, count, KERN_F32, is);
}

// Returns the reals of the labels of all outputs.
static size_t labels_wide(const struct model *m)
{
    size_t wide = 0;

    for (uint32_t i = 0; i < m->outputs; i++)
        wide += (size_t)model_shape_elements(&m->nodes[m->output[i]].out);
    return wide;
}

void compile_losses(struct build *b)
{
    const struct model *m = b->model;
    struct program *p = b->p;
    bool joined = b->o->heads != NULL;
    size_t wide = joined ? labels_wide(m) : 0, label = 0;

    p->heads = m->outputs;
    for (uint32_t i = 0; i < m->outputs; i++)
        p->head[i] = (struct program_head){
            .rows = (double)compile_loss_rows(&m->nodes[m->output[i]]),
            .weight = loss_head_of(b->o, i).weight};
    // A weight of an output is none of the penalties.
    if (joined && compile_has_penalties(m)) {
        b->penalties = p->heads++;
        p->head[b->penalties] = (struct program_head){1, 1};
    }
    for (uint32_t i = 0; i < m->outputs; i++) {
        const struct loss_head h = {.node = m->output[i],
                                    .number = i,
                                    .is = loss_head_of(b->o, i),
                                    .label = label,
                                    .wide = wide};

        compile_loss(b, &h);
        label += (size_t)model_shape_elements(&m->nodes[h.node].out);
    }
    if (b->rc == SL_OK)
        compile_penalties(b);
}
