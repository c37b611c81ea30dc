// SPDX-License-Identifier: Apache-2.0
// Models with several outputs: what is set of their losses, and what cannot be.
#include "proto/spec.h"
#include "tests/harness/pb_text.h"
#include "tests/unit/proto/t_proto.h"

#define SPEC &sluice__v1__job_spec__descriptor
#define REST "'optimizer':{'type':'sgd'}"
#define NPZ "'data':{'train':{'format':'npz','x':'a'}}"
#define LAYERS                                                                 \
    "'layers':[{'type':'dense','name':'h','units':4},"                         \
    "{'type':'dense','name':'kind','units':3,'activation':'softmax',"          \
    "'inputs':['h']},"                                                         \
    "{'type':'dense','name':'size','units':2,'inputs':['h']}]"
#define JOB(losses, more, data)                                                \
    "{'name':'a','model':{'input_shape':[4]," LAYERS "},'losses':[" losses     \
    "]," REST "," data more "}"
#define KIND "{'output':'kind','loss':'sparse_categorical_crossentropy'}"
#define SIZE "{'output':'size','loss':'mean_squared_error','weight':0.25}"
#define CSV(columns) "'data':{'train':{'format':'csv','x':'a'," columns "}}"
#define THREE "'label_columns':['k','s','t']"

static void refused(const char *text, const char *why)
{
    Sluice__V1__JobSpec *spec = (void *)t_make(SPEC, text);
    struct sl_error err = SL_ERROR_INIT;

    T_FAILS(SL_EINVAL, spec_check(spec, &err));
    T_STR(err.text, why);
    wire_free(&spec->base);
}

// Checking twice changes nothing.
TEST(spec_losses, outputs_and_defaults_are_set)
{
    Sluice__V1__JobSpec *s = (void *)t_make(SPEC, JOB(KIND "," SIZE, "", NPZ));
    struct spec_head heads[MODEL_OUTPUTS_MAX];

    for (int i = 0; i < 2; i++) {
        T_OK(spec_check(s, t_err()));
        T_EQ(s->model->n_outputs, 2);
        T_STR(s->model->outputs[0], "kind");
        T_STR(s->model->outputs[1], "size");
        T_EQ(s->model->edition, MODEL_EDITION_OUTPUTS);
        T_TRUE(s->losses[0]->has_weight && s->losses[0]->has_from_logits);
        T_EQ(spec_loss(s), SPEC_LOSS_SEVERAL);
        T_TRUE(!spec_loss_counts(spec_loss(s)));
    }
    T_EQ(spec_heads(heads, s), 2);
    T_EQ(heads[0].loss, SPEC_LOSS_SPARSE_CATEGORICAL_CROSSENTROPY);
    T_TRUE(!heads[0].from_logits);
    T_NEAR(heads[0].weight, 1, 0);
    T_EQ(heads[1].loss, SPEC_LOSS_MEAN_SQUARED_ERROR);
    T_NEAR(heads[1].weight, 0.25, 0);
    wire_free(&s->base);
}

TEST(spec_losses, columns_of_a_label_are_as_many_as_its_numbers)
{
    Sluice__V1__JobSpec *s =
        (void *)t_make(SPEC, JOB(KIND "," SIZE, "", CSV(THREE)));

    T_OK(spec_check(s, t_err()));
    wire_free(&s->base);
    refused(JOB(KIND "," SIZE, "", CSV("'label_columns':['k','s']")),
            "data.train.label_columns: a label is 2 numbers, and the losses of "
            "the outputs read 3");
    refused(JOB(KIND "," SIZE, "", CSV("'label_column':'k'")),
            "data.train.label_column: a label is 1 numbers, and the losses of "
            "the outputs read 3");
    refused(JOB(KIND "," SIZE, "", CSV(THREE ",'label_column':'k'")),
            "data.train: has label_column and label_columns; say one of them");
    refused(JOB(KIND "," SIZE, "", CSV("'label_columns':['k','s','k']")),
            "data.train.label_columns: 'k' appears twice");
    refused(JOB(KIND "," SIZE, "", CSV(THREE ",'columns':['s']")),
            "data.train.columns: 's' is one of label_columns too");
    refused(JOB(KIND "," SIZE, "", CSV(THREE ",'sample_weight':'t'")),
            "data.train.sample_weight: 't' is one of label_columns too");
}

TEST(spec_losses, what_cannot_be_is_refused)
{
    refused(JOB(KIND "," SIZE, ",'loss':'mean_squared_error'", NPZ),
            "losses: has the loss of each output; leave loss, from_logits, "
            "label_smoothing and top_k out");
    refused(JOB(KIND, "", NPZ),
            "losses: has one loss; say it as `loss`, and its output as "
            "model.output");
    refused(JOB(KIND ",{'loss':'mean_squared_error'}", "", NPZ),
            "losses[1].output is missing");
    refused(JOB(KIND "," KIND, "", NPZ),
            "losses[1].output: 'kind' is that of losses[0] too; an output has "
            "one loss");
    refused(JOB(KIND ",{'output':'x','loss':'mean_squared_error'}", "", NPZ),
            "losses[1].output: there is no layer 'x'");
    refused(JOB(KIND ",{'output':'h','loss':'mean_squared_error'}", "", NPZ),
            "layer 'size' (dense) leads nowhere: no layer reads it, "
            "and it is no output");
    refused(JOB(KIND ",{'output':'size'}", "", NPZ),
            "losses[1].loss is missing; known are "
            "sparse_categorical_crossentropy, categorical_crossentropy, "
            "binary_crossentropy, mean_squared_error, mean_absolute_error");
    refused(JOB(KIND ",{'output':'size','loss':'mean_squared_error',"
                     "'weight':-1}",
                "", NPZ),
            "losses[1].weight: wants a number in [0, 1e+15], got -1");
    refused(JOB("{'output':'kind','loss':'mean_squared_error','weight':0},"
                "{'output':'size','loss':'mean_squared_error','weight':0}",
                "", NPZ),
            "losses: all weights are 0, so nothing would be trained");
    refused(
        JOB("{'output':'kind','loss':'binary_crossentropy'}," SIZE, "", NPZ),
        "losses[0].loss: binary_crossentropy wants sigmoid at the end or "
        "no activation, but layer 'kind' ends in softmax");
    refused(JOB(KIND ",{'output':'size','loss':'mean_squared_error',"
                     "'label_smoothing':0.1}",
                "", NPZ),
            "losses[1].label_smoothing says nothing about mean_squared_error; "
            "leave it out");
    refused(JOB(KIND "," SIZE, ",'train':{'class_weight':[1,2,3]}", NPZ),
            "train.class_weight: is of one output, and losses has those of "
            "several; weigh samples, with data.train.sample_weight");
    refused(JOB(KIND "," SIZE, ",'evaluate':{'metrics':['auc']}",
                "'data':{'train':{'format':'npz','x':'a'},"
                "'test':{'format':'npz','x':'a'}}"),
            "evaluate.metrics: are those of one output; with losses, the loss "
            "alone is told");
    refused(
        JOB(KIND "," SIZE, "", "'data':{'train':{'format':'images','x':'a'}}"),
        "data.train.format: images has one label for a sample, and the "
        "losses of the outputs read 3 numbers; keep them in an npy or npz, "
        "or in label_columns of a csv");
}

TEST(spec_losses, layers_behind_a_softmax_leave_its_loss_no_logits)
{
    refused("{'name':'a','model':{'input_shape':[4],'layers':["
            "{'type':'dense','name':'kind','units':3,'activation':'softmax'},"
            "{'type':'dense','name':'size','units':2}]},'losses':[" KIND
            "," SIZE "]," REST "," NPZ "}",
            "losses[0].loss: other layers read layer 'kind' behind its "
            "softmax; make the layer before it, without an activation, the "
            "output");
}

TEST(spec_losses, an_output_of_the_model_itself_is_said_there_alone)
{
    refused("{'name':'a','model':{'input_shape':[4],'output':'kind'," LAYERS
            "},'losses':[" KIND "," SIZE "]," REST "," NPZ "}",
            "model.output: losses name the outputs; leave it out");
}
