// SPDX-License-Identifier: Apache-2.0
// Defaults as promised, refusals with reasons.
#include <math.h>

#include "common/base/mem.h"
#include "proto/spec.h"
#include "tests/harness/pb_text.h"
#include "tests/unit/proto/t_proto.h"

#define SPEC &sluice__v1__job_spec__descriptor

#define NAME "'name':'a'"
#define MODEL                                                                  \
    "'model':{'input_shape':[4],'layers':[{'type':'dense','units':3}]}"
#define ONE "'model':{'input_shape':[4],'layers':[{'type':'dense','units':1}]}"
#define LOSS "'loss':'sparse_categorical_crossentropy'"
#define OPTIM "'optimizer':{'type':'sgd'}"
#define DATA                                                                   \
    "'data':{'train':{'format':'synthetic','generator':'classes','classes':3," \
    "'samples':100}}"
#define SOURCE                                                                 \
    "{'format':'synthetic','generator':'classes','classes':3,'samples':100}"
#define TESTED "'data':{'train':" SOURCE ",'test':" SOURCE "}"
#define BITS                                                                   \
    "'data':{'train':{'format':'synthetic','generator':'binary',"              \
    "'samples':100},'test':{'format':'synthetic','generator':'binary',"        \
    "'samples':100}}"
#define METRICS(list) "'evaluate':{'metrics':[" list "]}"
#define EXTERNAL                                                               \
    "'model':{'type':'external','variables':[{'name':'w','shape':[3]}]},"      \
    "'data':{'train':{'samples':100}}"

static Sluice__V1__JobSpec *checked(const char *text)
{
    Sluice__V1__JobSpec *spec = (void *)t_make(SPEC, text);
    struct sl_error err = SL_ERROR_INIT;

    if (spec_check(spec, &err) != SL_OK)
        T_FAIL("%s: %s", text, err.text);
    return spec;
}

// A model with a prediction for each pixel of an image.
#define PIXELS(filters)                                                        \
    "{" NAME ",'model':{'input_shape':[2,2,1],'layers':[{'type':'conv2d',"     \
    "'filters':" #filters ",'kernel_size':1}]}," LOSS

static void refused(const char *text, const char *why)
{
    Sluice__V1__JobSpec *spec = (void *)t_make(SPEC, text);
    struct sl_error err = SL_ERROR_INIT;

    T_FAILS(SL_EINVAL, spec_check(spec, &err));
    T_STR(err.text, why);
    wire_free(&spec->base);
}

// Only who asks for what older workers do not know asks for newer ones.
TEST(spec, says_which_edition_a_worker_must_know)
{
    static const struct {
        const char *model, *loss;
        unsigned edition;
    } cases[] = {
        {MODEL, LOSS, 0},
        {MODEL, LOSS ",'label_smoothing':0,'top_k':1", 0},
        {MODEL, LOSS ",'label_smoothing':0.1", 1},
        {MODEL, LOSS ",'top_k':2", 1},
        {MODEL, LOSS ",'evaluate':{'metrics':['accuracy']}", 0},
        {MODEL, LOSS ",'evaluate':{'metrics':['accuracy','recall']}", 3},
        {ONE, "'loss':'mean_squared_error'", 0},
        {ONE, "'loss':'mean_absolute_error'", 1},
        {"'model':{'input_shape':[4],'layers':[{'type':'dense','units':3,"
         "'kernel_regularizer':{'l2':0}}]}",
         LOSS, 0},
        {"'model':{'input_shape':[4],'layers':[{'type':'dense','units':3,"
         "'kernel_regularizer':{'l2':0.1}}]}",
         LOSS, 1},
        {"'model':{'input_shape':[4,4,2],'layers':[{'type':"
         "'batch_normalization','fused':true},{'type':'flatten'},{'type':"
         "'dense','units':3}]}",
         LOSS ",'top_k':2", 5},
        {"'model':{'input_shape':[4],'layers':[{'type':"
         "'batch_normalization','fused':true},{'type':'dense','units':3}]}",
         LOSS, 0},
        {"'model':{'input_shape':[4],'edition':7,'layers':[{'type':'dense',"
         "'units':3}]}",
         LOSS, 0},
    };

    for (unsigned i = 0; i < SL_COUNT(cases); i++) {
        Sluice__V1__JobSpec *s;
        char text[500];

        snprintf(text, sizeof(text), "{" NAME ",%s,%s," OPTIM "," TESTED "}",
                 cases[i].model, cases[i].loss);
        s = checked(text);
        T_EQ(s->model->edition, cases[i].edition);
        T_EQ(s->model->has_edition != 0, cases[i].edition > 0);
        T_OK(spec_check(s, t_err())); // once more, nothing changes
        T_EQ(s->model->edition, cases[i].edition);
        wire_free(&s->base);
    }
}

TEST(spec, several_files_are_for_members_that_know_patterns)
{
    static const struct {
        const char *source;
        unsigned edition;
    } cases[] = {
        {"'csv','label_column':'y','x':'a.csv'", 0},
        {"'csv','label_column':'y','x':'a-*.csv'", MODEL_EDITION_FILES},
        {"'csv','label_column':'y','x':'{1..2}'", MODEL_EDITION_FILES},
        {"'csv','label_column':'y','x':'{1}'", 0},
        {"'tfrecord','x':'a','features':{'x':{'key':'a'},'label':{'key':'y'}}",
         MODEL_EDITION_RECORDS},
        {"'webdataset','x':'a.tar'", MODEL_EDITION_ARCHIVES},
        {"'webdataset','x':'a','features':{'x':{}}", MODEL_EDITION_ARCHIVES},
        {"'tar','x':'a.tar'", MODEL_EDITION_ARCHIVES},
        {"'tar','x':'s3://bucket/a.tar'", MODEL_EDITION_PLACES},
        {"'csv','label_column':'y','x':'https://a.b/{0..3}.csv'",
         MODEL_EDITION_PLACES},
        {"'npy','x':'a.npy','y':'s3://bucket/b.npy'", MODEL_EDITION_PLACES},
    };

    for (unsigned i = 0; i < SL_COUNT(cases); i++) {
        Sluice__V1__JobSpec *s;
        char text[500];

        snprintf(text, sizeof(text),
                 "{" NAME "," MODEL "," LOSS "," OPTIM ",'data':{'train':{"
                 "'format':%s}}}",
                 cases[i].source);
        s = checked(text);
        T_EQ(s->model->edition, cases[i].edition);
        wire_free(&s->base);
    }
}

#define PICTURES(loss, changes, more)                                          \
    "{" NAME ",'model':{'input_shape':[8,9,3],'layers':[{'type':'flatten'},{"  \
    "'type':'dense','units':3}]},'loss':'" loss "'," OPTIM ",'data':{'train':" \
    "{'format':'npz','x':'a','augment':[" changes "]" more "}}}"
#define SPARSE "sparse_categorical_crossentropy"
#define ONE_HOT "categorical_crossentropy"

#define VALIDATED(part, more)                                                  \
    "{" NAME "," MODEL "," LOSS "," OPTIM ",'data':{'validation':" part        \
    ",'train':{'format':'npz','x':'a'}" more "}}"

TEST(spec, validation_is_of_the_training_set)
{
    Sluice__V1__JobSpec *s = checked(VALIDATED("0.1", ""));

    T_EQ(s->model->edition, MODEL_EDITION_VALIDATION);
    T_STR(s->data->test->x, "a");
    T_OK(spec_check(s, t_err())); // once more, nothing changes
    wire_free(&s->base);
    refused(VALIDATED("0", ""),
            "data.validation: wants a number in (0, 1], got 0");
    refused(VALIDATED("1", ""), "data.validation: leaves nothing to train "
                                "with; give a share below 1");
    refused(VALIDATED("0.1", ",'test':{'format':'npz','x':'b'}"),
            "data.validation: takes a share of data.train; leave out "
            "data.test, or validation");
}

// A list or part that a check has made is compared with what it would make.
TEST(spec, a_comparison_without_memory_is_no_difference)
{
    static const char *const texts[] = {
        VALIDATED("0.1", ""),
        "{" NAME ",'model':{'input_shape':[4],'layers':[{'type':'embedding',"
        "'name':'users','rows':'dynamic','ids':'u','output_dim':2},{'type':"
        "'dense','units':3}]}," LOSS "," OPTIM
        ",'data':{'train':{'format':'npz','x':'a','ids':[{'name':'u'}]}}}",
    };

    for (size_t i = 0; i < SL_COUNT(texts); i++) {
        bool failed = true;

        for (uint64_t n = 1; failed; n++) {
            Sluice__V1__JobSpec *s = checked(texts[i]);
            struct sl_error err = SL_ERROR_INIT;
            enum sl_err rc;

            sl_mem_fail_at(n);
            rc = spec_check(s, &err);
            failed = sl_mem_failed();
            if (rc != (failed ? SL_ENOMEM : SL_OK))
                T_FAIL("%zu, allocation %d: %s", i, (int)n, err.text);
            wire_free(&s->base);
        }
    }
}

#define WEIGHED(loss, train, more)                                             \
    "{" NAME "," MODEL ",'loss':'" loss "'," OPTIM ",'train':{" train          \
    "},'data':{'train':{" more "}}}"
#define NPZ "'format':'npz','x':'a'"
#define CSV "'format':'csv','x':'a','label_column':'y'"

TEST(spec, weights_are_for_workers_that_know_them)
{
    static const char *const good[] = {
        WEIGHED(SPARSE, "'class_weight':[1,0.5,3]", NPZ),
        WEIGHED(SPARSE, "", NPZ ",'sample_weight':'w'"),
        WEIGHED(SPARSE, "",
                "'format':'npy','x':'a','y':'b','sample_weight':'c'"),
        WEIGHED("mean_squared_error", "", CSV ",'sample_weight':'w'")};

    for (size_t i = 0; i < SL_COUNT(good); i++) {
        Sluice__V1__JobSpec *s = checked(good[i]);

        T_EQ(s->model->edition, MODEL_EDITION_WEIGHED);
        wire_free(&s->base);
    }
}

TEST(spec, weights_that_cannot_be_are_refused)
{
    refused(WEIGHED(SPARSE, "'class_weight':[1,2]", NPZ),
            "train.class_weight: wants a number for each of 3 classes, got 2");
    refused(WEIGHED(SPARSE, "'class_weight':[1,2,-1]", NPZ),
            "train.class_weight[2]: wants a number in [0, 1e+15], got -1");
    refused(WEIGHED(SPARSE, "'class_weight':[0,0,0]", NPZ),
            "train.class_weight: all are 0, so nothing would be trained");
    refused(WEIGHED("mean_squared_error", "'class_weight':[1,2,3]", NPZ),
            "train.class_weight: wants a loss of classes, or "
            "binary_crossentropy of one output; else weights are those of "
            "samples, data.train.sample_weight");
    refused(WEIGHED("mean_squared_error", "", CSV ",'sample_weight':'y'"),
            "data.train.sample_weight: 'y' is the label_column too");
    refused(WEIGHED(SPARSE, "",
                    "'format':'npy','x':'a','y':'b','sample_weight':'c*'"),
            "data.train.sample_weight: is a pattern, and x is one file");
    refused(WEIGHED(SPARSE, "", NPZ ",'sample_weight':''"),
            "data.train.sample_weight: wants a file (idx, npy), an array of "
            "the file (npz) or a column (csv), in printable characters");
    refused(
        WEIGHED(SPARSE, "", "'format':'images','x':'a','sample_weight':'w'"),
        "data.train: takes no 'sample_weight' with images");
    refused(WEIGHED(ONE_HOT, "'class_weight':[1,2,3]",
                    NPZ ",'augment':[{'mixup':0.2}]"),
            "train.class_weight: mixup and cutmix mix samples, and their "
            "weights would have to be mixed as well; use one or the other");
}

TEST(spec, labels_of_rows_are_for_workers_that_know_them)
{
    Sluice__V1__JobSpec *s = checked(
        PIXELS(2) "," OPTIM ",'data':{'train':{'format':'npz','x':'a'}}}");

    T_EQ(s->model->edition, MODEL_EDITION_LABELS);
    wire_free(&s->base);
    refused(
        PIXELS(2) "," OPTIM ",'data':{'train':{'format':'npz','x':'a'},"
                  "'test':{'format':'npz','x':'a'}},'evaluate':{"
                  "'every_epochs':1,'metrics':['top_k']}}",
        "evaluate.metrics: top_k counts samples, and this model has several "
        "predictions for one; say top_k beside the loss, and accuracy "
        "counts it");
}

TEST(spec, augment_is_for_workers_that_know_it)
{
    static const char *const good[] = {
        PICTURES(SPARSE, "{'crop':7},{'flip':'both'},{'zoom':0.5}", ""),
        PICTURES(SPARSE, "{'translate':1},{'rotate':180},{'contrast':1}", ""),
        PICTURES(SPARSE, "{'brightness':0.1,'range':[-1,1]}", ""),
        PICTURES(ONE_HOT, "{'cutmix':1}", ""),
        "{" NAME "," MODEL ",'loss':'" ONE_HOT "'," OPTIM ",'data':{'train':"
        "{'format':'npz','x':'a','augment':[{'mixup':0.2}]}}}"};

    for (size_t i = 0; i < SL_COUNT(good); i++) {
        Sluice__V1__JobSpec *s = checked(good[i]);

        T_EQ(s->model->edition, MODEL_EDITION_AUGMENT);
        wire_free(&s->base);
    }
}

TEST(spec, augment_that_cannot_be_is_refused)
{
#define AT "data.train.augment[0]"
#define ONE_OF                                                                 \
    AT ": wants one of crop, flip, translate, rotate, zoom, brightness, "      \
       "contrast, mixup and cutmix, got "
#define RANGE_IS                                                               \
    AT ".range: wants the least and the largest value of a pixel, such as "    \
       "[0, 255], with brightness or contrast"
    refused(PICTURES(SPARSE, "{}", ""),
            ONE_OF "0; the next is an entry of its own");
    refused(PICTURES(SPARSE, "{'crop':1,'flip':'both'}", ""),
            ONE_OF "2; the next is an entry of its own");
    refused(PICTURES(SPARSE, "{'crop':8}", ""),
            AT ".crop: wants 1 to 7, got 8");
    refused(PICTURES(SPARSE, "{'flip':'up'}", ""),
            AT ".flip: unknown 'up'; known are horizontal, vertical, both");
    refused(PICTURES(SPARSE, "{'rotate':0}", ""),
            AT ".rotate: wants a number in (0, 180], got 0");
    refused(PICTURES(SPARSE, "{'zoom':1}", ""),
            AT ".zoom: wants a number in (0, 0.99], got 1");
    refused(PICTURES(SPARSE, "{'rotate':5,'range':[0,1]}", ""), RANGE_IS);
    refused(PICTURES(SPARSE, "{'contrast':1,'range':[1,1]}", ""), RANGE_IS);
    refused(PICTURES(SPARSE, "{'mixup':0.2}", ""),
            AT ".mixup: mixes labels, and with sparse_categorical_crossentropy "
               "a label is one number; use categorical_crossentropy, which "
               "reads the same labels");
    refused(PICTURES(ONE_HOT, "{'mixup':0.2},{'cutmix':1}", ""),
            "data.train.augment[1].cutmix: samples are mixed once");
    refused("{" NAME "," MODEL "," LOSS "," OPTIM ",'data':{'train':{'format':"
            "'npz','x':'a','augment':[{'crop':1}]}}}",
            AT ": wants a model that reads rows and columns of pixels, such as "
               "input_shape: [32, 32, 3]");
    refused("{" NAME "," MODEL "," LOSS "," OPTIM ",'data':{'train':{'format':"
            "'npz','x':'a'},'test':{'format':'npz','x':'a','augment':[{"
            "'mixup':1}]}}}",
            "data.test.augment: samples of a test are read as they are; only "
            "data.train has it");
}

// A pattern may not hide a place from members that know none.
TEST(spec, a_place_begins_as_one)
{
    refused("{" NAME "," MODEL "," LOSS "," OPTIM
            ",'data':{'train':{'format':'tar','x':'{s3://b/a,s3://b/c}.tar'}}}",
            "data.train: {s3://b/a,s3://b/c}.tar: a place begins with s3:// or "
            "https://, before any pattern");
    refused("{" NAME "," MODEL "," LOSS "," OPTIM
            ",'data':{'train':{'format':'tar','x':'http://b/a.tar'}}}",
            "data.train: http://b/a.tar: what comes over http:// may have been "
            "changed on its way: use https://");
}

TEST(spec, defaults)
{
    Sluice__V1__JobSpec *s =
        checked("{" NAME "," MODEL "," LOSS "," OPTIM "," DATA "}");
    struct buf text = BUF_INIT;

    T_OK(pb_text(&text, &s->base, false));
    for (uint8_t *c = text.data; *c != '\0'; c++)
        if (*c == '"')
            *c = '\'';
    T_STR(buf_text(&text),
          "{'api_version':'sluice/v1','kind':'Job','name':'a','model':{"
          "'type':'graph','input_shape':[4],'layers':[{'type':'dense',"
          "'units':3}]},'loss':'sparse_categorical_crossentropy',"
          "'from_logits':true,'optimizer':{'type':'sgd','learning_rate':0.01,"
          "'momentum':0.0,'nesterov':false},'data':{'train':{'format':"
          "'synthetic','scale':1.0,'offset':0.0,'samples':100,'seed':1,"
          "'generator':'classes',"
          "'classes':3},'skip_bad':0},'train':{'mode':'async','batch':32,'"
          "epochs':1,"
          "'steps_per_closure':16,'seed':1,'shuffle':true,'nonfinite':'skip',"
          "'max_nonfinite':100,'max_attempts':4,'max_workers':0,"
          "'window_closures':1024,'stall_seconds':60.0,'precision':'tf32',"
          "'wire':'f32','max_delay':0,'staleness':'none'},'placement':{'"
          "partitioner':'auto',"
          "'shard_bytes':0,'psservers':0,'move':'auto'},'checkpoint':{'every_"
          "epoch':"
          "true,'every_seconds':30.0,'keep':3},'evaluate':{'every_epochs':0,"
          "'batch':256,'batches_per_closure':4}}");
    buf_release(&text);
    wire_free(&s->base);
}

TEST(spec, names_have_capitals_and_underscores)
{
    static const char *const good[] = {"ResNet_50", "a", "_", "Z9-z_"};
    static const char *const bad[] = {"a b", "a/b", "..", "-a", "a-", "a.b"};
    struct sl_error err = SL_ERROR_INIT;
    char text[1000];

    for (size_t i = 0; i < SL_COUNT(good); i++) {
        snprintf(text, sizeof(text), "{'name':'%s'," EXTERNAL "," OPTIM "}",
                 good[i]);
        wire_free(&checked(text)->base);
    }
    for (size_t i = 0; i < SL_COUNT(bad); i++) {
        Sluice__V1__JobSpec *s;

        snprintf(text, sizeof(text), "{'name':'%s'," EXTERNAL "," OPTIM "}",
                 bad[i]);
        s = (void *)t_make(SPEC, text);
        T_FAILS(SL_EINVAL, spec_check(s, &err));
        wire_free(&s->base);
    }
}

TEST(spec, wire_type)
{
    Sluice__V1__JobSpec none = SLUICE__V1__JOB_SPEC__INIT;
    Sluice__V1__JobSpec *s = checked("{" NAME "," MODEL "," LOSS "," OPTIM
                                     "," DATA ",'train':{'wire':'bf16'}}");

    T_EQ(spec_wire(s), WIRE_BF16);
    T_EQ(spec_wire(&none), WIRE_F32); // of before there was such a field
    wire_free(&s->base);
}

TEST(spec, checking_twice_changes_nothing)
{
    static const char *const texts[] = {
        "{" NAME "," MODEL "," LOSS "," OPTIM "," DATA "}",
        "{" NAME "," EXTERNAL ",'optimizer':{'type':'adamw'}}",
        "{" NAME "," EXTERNAL ",'optimizer':{'type':'sgd','schedule':{'type':"
        "'piecewise_constant_decay','boundaries':[5],'values':[1,2]}}}",
        "{" NAME "," EXTERNAL ",'optimizer':{'type':'rmsprop','schedule':{"
        "'type':'polynomial_decay','decay_steps':10}},'placement':{"
        "'partitioner':'min_size'}}",
        "{" NAME "," EXTERNAL ",'optimizer':{'type':'sgd','schedule':{'type':"
        "'piecewise_linear','boundaries':[0,5],'values':[0,1]}}}",
    };

    for (unsigned i = 0; i < SL_COUNT(texts); i++) {
        Sluice__V1__JobSpec *s = checked(texts[i]);
        struct buf a = t_packed(&s->base), b;

        T_OK(spec_check(s, t_err()));
        b = t_packed(&s->base);
        T_EQ(a.len, b.len);
        T_MEM(a.data, b.data, a.len);
        T_OK(wire_check(&s->base, t_err()));
        buf_release(&a);
        buf_release(&b);
        wire_free(&s->base);
    }
}

static struct spec_optimizer optimizer(const char *fields)
{
    char text[500];
    Sluice__V1__JobSpec *s;
    struct spec_optimizer o;

    snprintf(text, sizeof(text), "{" NAME "," EXTERNAL ",'optimizer':{%s}}",
             fields);
    s = checked(text);
    T_OK(spec_optimizer(&o, s->optimizer, t_err()));
    wire_free(&s->base);
    return o;
}

TEST(spec, optimizer_defaults_are_keras)
{
    struct spec_optimizer o = optimizer("'type':'sgd'");

    T_EQ(o.optim.kind, OPTIM_SGD);
    T_NEAR(o.schedule.rate, 0.01, 0);
    T_EQ(o.schedule.kind, RATE_CONSTANT);
    o = optimizer("'type':'adam'");
    T_NEAR(o.schedule.rate, 0.001, 0);
    T_NEAR(o.optim.beta_1, 0.9, 0);
    T_NEAR(o.optim.beta_2, 0.999, 0);
    T_NEAR(o.optim.epsilon, 1e-7, 0);
    T_NEAR(o.optim.weight_decay, 0, 0);
    o = optimizer("'type':'adamw','clipnorm':2");
    T_NEAR(o.optim.weight_decay, 0.004, 0);
    T_NEAR(o.clipnorm, 2, 0);
    o = optimizer("'type':'adagrad'");
    T_NEAR(o.optim.initial_accumulator, 0.1, 0);
    T_NEAR(o.schedule.rate, 0.001, 0);
    o = optimizer("'type':'rmsprop','centered':true");
    T_NEAR(o.optim.rho, 0.9, 0);
    T_TRUE(o.optim.centered);
}

TEST(spec, schedules)
{
    struct spec_optimizer o =
        optimizer("'type':'sgd','learning_rate':0.1,'schedule':{'type':"
                  "'cosine_decay_restarts','decay_steps':4,'m_mul':0.5}");

    T_EQ(o.schedule.kind, RATE_COSINE_RESTARTS);
    T_NEAR(o.schedule.rate, 0.1, 0);
    T_NEAR(o.schedule.decay_steps, 4, 0);
    T_NEAR(o.schedule.t_mul, 2, 0);
    T_NEAR(o.schedule.m_mul, 0.5, 0);
    o = optimizer("'type':'sgd','schedule':{'type':'polynomial_decay',"
                  "'decay_steps':10}");
    T_NEAR(o.schedule.end_rate, 1e-4, 0);
    T_NEAR(o.schedule.power, 1, 0);
    o = optimizer("'type':'sgd','schedule':{'type':'piecewise_constant_decay',"
                  "'boundaries':[5,10],'values':[1,0.5,0.1]}");
    T_EQ(o.schedule.boundaries, 2);
    T_NEAR(o.schedule.value[2], 0.1, 0);
    o = optimizer("'type':'sgd','learning_rate':0,'schedule':{'type':"
                  "'cosine_decay','decay_steps':10,'warmup_target':0.1,"
                  "'warmup_steps':5}");
    T_TRUE(o.schedule.has_warmup);
    T_NEAR(o.schedule.warmup_steps, 5, 0);
}

static const struct {
    const char *fields, *why;
} wrong_optimizers[] = {
    {"'type':'adma'", "optimizer.type: unknown 'adma'; did you mean 'adam'?"},
    {"'type':'sgd','beta_1':0.5", "optimizer: takes no 'beta_1' with sgd"},
    {"'type':'adam','beta_1':1",
     "optimizer.beta_1: wants a number in [0, 1), got 1"},
    {"'type':'sgd','learning_rate':0",
     "optimizer.learning_rate: wants a number above 0, got 0"},
    {"'type':'sgd','learning_rate':'NaN'",
     "optimizer.learning_rate: wants a number above 0, got nan"},
    {"'type':'sgd','momentum':2",
     "optimizer.momentum: wants a number in [0, 1], got 2"},
    {"'type':'sgd','clipnorm':1,'clipvalue':1",
     "optimizer: at most one of clipvalue, clipnorm and global_clipnorm may be "
     "given"},
    {"'type':'sgd','schedule':{'type':'cosine'}",
     "optimizer.schedule.type: unknown 'cosine'; known are exponential_decay, "
     "piecewise_constant_decay, polynomial_decay, inverse_time_decay, "
     "cosine_decay, cosine_decay_restarts, piecewise_linear"},
    {"'type':'sgd','schedule':{'type':'cosine_decay'}",
     "optimizer.schedule.decay_steps: wants 1 to 9007199254740992, got 0"},
    {"'type':'sgd','schedule':{'type':'cosine_decay','decay_steps':1,'power':"
     "2}",
     "optimizer.schedule: takes no 'power' with cosine_decay"},
    {"'type':'sgd','schedule':{'type':'exponential_decay','decay_steps':1}",
     "optimizer.schedule.decay_rate is missing"},
    {"'type':'sgd','schedule':{'type':'cosine_decay','decay_steps':1,"
     "'warmup_steps':2}",
     "optimizer.schedule.warmup_steps: needs a warmup_target"},
    {"'type':'sgd','schedule':{'type':'piecewise_constant_decay',"
     "'boundaries':[5],'values':[1]}",
     "optimizer.schedule.values: wants one value more than boundaries (2), got "
     "1"},
    {"'type':'sgd','schedule':{'type':'piecewise_constant_decay',"
     "'boundaries':[5,5],'values':[1,2,3]}",
     "optimizer.schedule.boundaries: must rise"},
    {"'type':'sgd','schedule':{'type':'piecewise_linear','boundaries':[5],"
     "'values':[1,2]}",
     "optimizer.schedule.values: wants as many values as boundaries (1), got "
     "2"},
    {"'type':'sgd','schedule':{'type':'piecewise_linear'}",
     "optimizer.schedule.boundaries: wants 1 to 1024 values, got 0"},
    {"'type':'sgd','schedule':{'type':'piecewise_linear','boundaries':[5],"
     "'values':[-1]}",
     "optimizer.schedule.values: wants a number of at least 0, got -1"},
    {"'type':'sgd','schedule':{'type':'piecewise_linear','boundaries':[5],"
     "'values':[1],'decay_steps':2}",
     "optimizer.schedule: takes no 'decay_steps' with piecewise_linear"},
    {"'type':'sgd','learning_rate':1,'schedule':{'type':"
     "'piecewise_constant_decay','boundaries':[5],'values':[1,2]}",
     "optimizer.learning_rate: piecewise_constant_decay has its rates in "
     "values; leave learning_rate out"},
    {"'type':'sgd','groups':[{'weight_decay':1}]",
     "optimizer.groups[0]: it has no variables, e.g. variables: [\"*.bias\"]"},
    {"'type':'sgd','groups':[{'variables':['w'],'beta_1':0.5}]",
     "optimizer.groups[0]: takes no 'beta_1' with sgd"},
    {"'type':'sgd','groups':[{'variables':['w'],'weight_decay':-1}]",
     "optimizer.groups[0]: optimizer.weight_decay: wants a number of at least "
     "0, got -1"},
    {"'type':'sgd','groups':[{'variables':['w'],'learning_rate_scale':-1}]",
     "optimizer.groups[0]: learning_rate_scale: wants a number in [0, 1e+06], "
     "got -1"},
    {"'type':'sgd','groups':[{'variables':['w'],'momentum':0.9}]",
     "optimizer.groups[0]: momentum: 0.9, and the optimizer has none, so no "
     "slot for it; say optimizer.momentum, and 0 in other groups"},
    {"'type':'sgd','groups':[{'variables':['*'],'weight_decay':1},"
     "{'variables':['v']}]",
     "optimizer.groups[1].variables: no variable that is trained fits 'v'; "
     "there is e.g. 'w'"},
};

TEST(spec, points_of_a_schedule)
{
    Sluice__V1__JobSpec *s = checked(
        "{" NAME "," EXTERNAL ",'optimizer':{'type':'sgd','learning_rate':0.5,"
        "'schedule':{'type':'piecewise_linear','boundaries':[2,4],'values':"
        "[0,1]}}}");
    struct spec_optimizer o;
    struct rate kept;

    T_OK(spec_optimizer(&o, s->optimizer, t_err()));
    T_OK(rate_check(&o.schedule, t_err()));
    T_OK(rate_copy(&kept, &o.schedule));
    wire_free(&s->base);
    T_NEAR(rate_at(&kept, 0), 0, 0);
    T_NEAR(rate_at(&kept, 3), 0.25, 0);
    T_NEAR(rate_at(&kept, 9), 0.5, 0);
    rate_release(&kept);
}

TEST(spec, wrong_optimizers)
{
    static const char *const names[] = {
#define OPTIMIZER(code, name, ...) name,
#include "plan/optimizers.def"
    };
    struct buf why = BUF_INIT;

    T_OK(buf_appendf(&why, "optimizer.type is missing; known are"));
    for (unsigned i = 0; i < SL_COUNT(names); i++)
        T_OK(buf_appendf(&why, "%s %s", i > 0 ? "," : "", names[i]));
    refused("{" NAME "," EXTERNAL ",'optimizer':{}}", buf_text(&why));
    buf_release(&why);
    for (unsigned i = 0; i < SL_COUNT(wrong_optimizers); i++) {
        char text[600];

        snprintf(text, sizeof(text), "{" NAME "," EXTERNAL ",'optimizer':{%s}}",
                 wrong_optimizers[i].fields);
        refused(text, wrong_optimizers[i].why);
    }
}

static const struct {
    const char *text, *why;
} wrong[] = {
    {"{}", "name is missing"},
    {"{'api_version':'sluice/v2'}",
     "api_version: unknown 'sluice/v2'; did you mean 'sluice/v1'?"},
    {"{'name':'My Job'}", "name: wants 1 to 63 of letters, 0-9, '-' and '_', "
                          "not beginning or ending with "
                          "'-', got 'My Job'"},
    {"{" NAME "}", "model is missing: give input_shape and layers"},
    {"{" NAME "," MODEL "}",
     "loss is missing; known are sparse_categorical_crossentropy, "
     "categorical_crossentropy, binary_crossentropy, mean_squared_error, "
     "mean_absolute_error"},
    {"{" NAME "," ONE "," LOSS "}",
     "loss: sparse_categorical_crossentropy wants one output per class, got "
     "(1,) from layer 'dense'; for two classes and one output use "
     "binary_crossentropy"},
    {PIXELS(1) "}",
     "loss: sparse_categorical_crossentropy wants one output per class, got "
     "(2, 2, 1) from layer 'conv2d'; for two classes and one output use "
     "binary_crossentropy"},
    {PIXELS(2) "," OPTIM "," DATA "}",
     "data.train.format: synthetic has one label for a sample, and the outputs "
     "of layer 'conv2d' want one for each; keep them in an npy or npz"},
    {"{" NAME ",'model':{'input_shape':[4],'layers':[{'type':'dense','units':1,"
     "'activation':'softmax'}]},'loss':'binary_crossentropy'}",
     "loss: binary_crossentropy wants sigmoid at the end or no activation, but "
     "layer 'dense' ends in softmax"},
    {"{" NAME "," MODEL "," LOSS ",'from_logits':false}",
     "from_logits is false, but layer 'dense' ends in linear; the model has "
     "to end in softmax"},
    {"{" NAME "," ONE ",'loss':'mean_squared_error','from_logits':false}",
     "from_logits says nothing about mean_squared_error; leave it out"},
    {"{" NAME "," ONE ",'loss':'mean_absolute_error','from_logits':false}",
     "from_logits says nothing about mean_absolute_error; leave it out"},
    {"{" NAME "," ONE ",'loss':'mean_absolute_error','label_smoothing':0.1}",
     "label_smoothing says nothing about mean_absolute_error; leave it out"},
    {"{" NAME "," ONE ",'loss':'binary_crossentropy','top_k':2}",
     "top_k says nothing about binary_crossentropy; leave it out"},
    {"{" NAME "," MODEL "," LOSS ",'label_smoothing':1}",
     "label_smoothing: wants a number in [0, 1), got 1"},
    {"{" NAME "," MODEL "," LOSS "}",
     "optimizer is missing, e.g. optimizer: {type: adam}"},
    {"{" NAME "," MODEL "," LOSS "," OPTIM "}", "data.train is missing"},
    {"{" NAME "," EXTERNAL "," OPTIM ",'train':{'precision':'f16'}}",
     "train.precision: the model is external, so its own program decides that"},
    {"{" NAME "," EXTERNAL "," OPTIM ",'train':{'audit':0.5}}",
     "train.audit: the model is external, so its own program computes each "
     "step, once"},
    {"{" NAME "," EXTERNAL "," OPTIM ",'train':{'mode':'sync'}}",
     "train.mode: sync is for models of layers; programs of the user's train "
     "in async, hybrid, local, or in allreduce, where no gradient is late "
     "either"},
    {"{" NAME "," EXTERNAL "," OPTIM ",'train':{'mode':'local'}}",
     "optimizer: the model is external, and in local its program takes the "
     "steps with its own; leave it out, and say that of the psservers in "
     "train.outer"},
    {"{" NAME "," EXTERNAL ",'train':{'mode':'async'}}",
     "optimizer is missing, e.g. optimizer: {type: adam}"},
    {"{" NAME "," EXTERNAL ",'train':{'mode':'local','steps_per_closure':16}}",
     "train.steps_per_closure: wants 1 in local, where a closure is one "
     "contribution, got 16"},
    {"{" NAME "," EXTERNAL
     ",'train':{'mode':'local','contributions':4,'quorum':2,"
     "'inner':{'pace':'own'}}}",
     "train.inner.pace: programs say nothing of their pace; leave it out"},
    {"{" NAME "," EXTERNAL
     ",'train':{'mode':'local','contributions':4,'quorum':2,"
     "'inner':{'closure':50,'pace':'own'}}}",
     "train.inner.pace: programs say nothing of their pace; leave it out"},
    {"{" NAME "," EXTERNAL
     ",'train':{'mode':'local','outer':{'type':'sgd','clipnorm':1}}}",
     "train.outer.clipnorm: of the steps of workers; say it in optimizer"},
    {"{" NAME
     ",'model':{'type':'external','variables':[{'name':'w','shape':[3]},"
     "{'name':'mean','shape':[3],'moving':true}]},'data':{'train':{'samples':"
     "100}}," OPTIM "}",
     "model.variables[1].moving: programs push moving statistics in local "
     "alone, and train.mode is async; leave mean out of the variables"},
    {"{" NAME "," EXTERNAL "," OPTIM ",'train':{'accumulate':2}}",
     "train.accumulate: the model is external, so its own program decides "
     "that; set train.batch to the samples of a step"},
    {"{" NAME "," MODEL "," LOSS "," OPTIM ",'data':{'skip_bad':1001,'train':{"
     "'format':'csv','x':'a','label_column':'y'}}}",
     "data.skip_bad: wants 0 to 1000, got 1001"},
    {"{" NAME "," MODEL "," LOSS "," OPTIM
     ",'data':{'classes':['a'],'train':{'format':'synthetic',"
     "'generator':'classes','classes':3,'samples':100}}}",
     "data.classes: names folders of images, and data.train is of format "
     "synthetic"},
    {"{" NAME ",'model':{'type':'external','variables':[{'name':'w',"
     "'shape':[3]}]},'data':{'skip_bad':1,'train':{'samples':100}}," OPTIM "}",
     "data.skip_bad: the model is external, so its own program reads the data"},
    {"{" NAME "," EXTERNAL "," OPTIM ",'evaluate':{'every_epochs':1}}",
     "evaluate.every_epochs: the model is external, so no worker can evaluate "
     "it; its own program can, from a checkpoint (sluice export)"},
    {"{" NAME "," MODEL "," LOSS "," OPTIM "," DATA
     ",'train':{'window_closures':65536,'steps_per_closure':512}}",
     "train.window_closures: 65536 closures of 512 steps make a set of counted "
     "steps that does not fit into a message; set at most 39321 closures"},
    {"{" NAME "," EXTERNAL "," OPTIM "," LOSS "}",
     "loss: the program of an external model computes its own; leave loss, "
     "from_logits, label_smoothing and top_k out"},
};

TEST(spec, wrong_specs)
{
    for (unsigned i = 0; i < SL_COUNT(wrong); i++)
        refused(wrong[i].text, wrong[i].why);
}

// Each metric where it means something, and no default where it does not.
TEST(spec, metrics_of_an_evaluation)
{
    Sluice__V1__JobSpec *s =
        checked("{" NAME "," MODEL "," LOSS "," OPTIM "," TESTED
                "," METRICS("'top_k','precision','recall','accuracy',"
                            "'mean_absolute_error','mean_squared_error',"
                            "'root_mean_squared_error'") "}");

    T_EQ(spec_metrics(s), 0xff & ~(1u << SPEC_METRIC_AUC));
    T_EQ(spec_metrics_scored(s), spec_metrics(s) & ~1u);
    T_EQ(s->evaluate->top_k, 5);
    T_OK(spec_check(s, t_err()));
    T_EQ(s->evaluate->n_metrics, 7);
    wire_free(&s->base);
    s = checked("{" NAME "," ONE ",'loss':'binary_crossentropy'," OPTIM "," BITS
                "," METRICS("'auc'") "}");
    T_EQ(spec_metrics(s), 1u << SPEC_METRIC_AUC);
    T_FALSE(s->evaluate->has_top_k);
    wire_free(&s->base);
    s = checked("{" NAME "," MODEL "," LOSS "," OPTIM "," TESTED "}");
    T_EQ(spec_metrics(s), 0);
    wire_free(&s->base);
}

TEST(spec, metrics_that_say_nothing_are_refused)
{
#define OF(list) "{" NAME "," MODEL "," LOSS "," OPTIM "," TESTED "," list "}"
    refused(OF(METRICS("'auc'")),
            "evaluate.metrics: auc says nothing about "
            "sparse_categorical_crossentropy; that has accuracy, top_k, "
            "precision, recall, mean_absolute_error, mean_squared_error, "
            "root_mean_squared_error");
    refused("{" NAME "," ONE ",'loss':'mean_squared_error'," OPTIM
            ",'data':{'train':{'format':'npz','x':'a'},'test':{'format':'npz',"
            "'x':'b'}}," METRICS("'precision'") "}",
            "evaluate.metrics: precision says nothing about "
            "mean_squared_error; that has mean_absolute_error, "
            "mean_squared_error, root_mean_squared_error");
    refused(OF(METRICS("'recal'")),
            "evaluate.metrics: unknown 'recal'; did you mean 'recall'?");
    refused(OF(METRICS("'recall','recall'")),
            "evaluate.metrics: recall appears twice");
    refused(OF("'evaluate':{'top_k':3}"),
            "evaluate.top_k: says nothing without top_k in evaluate.metrics");
    refused(OF("'evaluate':{'metrics':['top_k'],'top_k':0}"),
            "evaluate.top_k: wants 1 to 1000000, got 0");
    refused(OF("'evaluate':{'metrics':['recall'],'every_epochs':0}"),
            "evaluate.metrics: nothing is evaluated; leave it out, or say "
            "evaluate.every_epochs or every_steps");
#undef OF
    refused("{" NAME "," MODEL "," LOSS "," OPTIM "," DATA
            "," METRICS("'recall'") "}",
            "evaluate.metrics: nothing is evaluated; give data.test");
    refused("{" NAME "," EXTERNAL "," OPTIM "," METRICS("'recall'") "}",
            "evaluate.metrics: nothing is evaluated; the program of an "
            "external model computes its own");
}

#define SET(samples)                                                           \
    "{'format':'synthetic','generator':'classes','classes':3,'samples'"        \
    ":" samples "}"
#define EVALUATED(samples, evaluate)                                           \
    "{" NAME "," MODEL "," LOSS "," OPTIM ",'data':{'train':" SET(             \
        "100") ",'test':" SET(samples) "},'evaluate':{" evaluate "}}"

// Each range is a lease: what is too many for a coordinator is said at once.
TEST(spec, an_evaluation_has_a_bound_of_ranges)
{
    static const char *const good[] = {
        EVALUATED("16777216", "'batch':1,'batches_per_closure':1"),
        EVALUATED("40000000", "'batch':1,'batches_per_closure':3"),
        EVALUATED("40000000", "'batch':1,'batches_per_closure':1,"
                              "'every_epochs':0"),
        EVALUATED("17179869184", ""),
        EVALUATED("1099511627776", "'batches_per_closure':256"),
    };

    for (unsigned i = 0; i < SL_COUNT(good); i++)
        wire_free(&checked(good[i])->base);
    refused(
        EVALUATED("40000000", "'batch':1,'batches_per_closure':1"),
        "evaluate.batches_per_closure: 1 batches of 1 samples make 40000000 "
        "ranges of the 40000000 samples of data.test; an evaluation has at "
        "most 16777216: set it to 3 or more");
    refused(
        EVALUATED("40000000",
                  "'batch':1,'batches_per_closure':1,'every_steps':7"),
        "evaluate.batches_per_closure: 1 batches of 1 samples make 40000000 "
        "ranges of the 40000000 samples of data.test; an evaluation has at "
        "most 16777216: set it to 3 or more");
    refused(EVALUATED("1099511627776", "'batches_per_closure':255"),
            "evaluate.batches_per_closure: 255 batches of 256 samples make "
            "16843010 ranges of the 1099511627776 samples of data.test; an "
            "evaluation has at most 16777216: set it to 256 or more");
}

// Else the coordinator would divide the samples by 0.
TEST(spec, a_range_of_an_evaluation_holds_samples)
{
    refused(EVALUATED("100", "'batch':0"),
            "evaluate.batch: wants 1 to 1048576, got 0");
    refused(EVALUATED("100", "'batches_per_closure':0"),
            "evaluate.batches_per_closure: wants 1 to 4096, got 0");
}

#define RECORDS "'format':'tfrecord','x':'a'"

static const struct {
    const char *train, *why;
} wrong_data[] = {
#define CSV_IDS(ids)                                                           \
    "'format':'csv','x':'a','label_column':'y','columns':['x'],'ids':[" ids "]"
    {"'x':'a'",
     "data.train.format is missing; known are idx, npy, npz, csv, "
     "libsvm, images, tfrecord, webdataset, tar, synthetic, external"},
    {"'format':'images'", "data.train.x is missing"},
    {"'format':'images','x':'a','y':'b'",
     "data.train: takes no 'y' with images"},
    {"'format':'synthetic','samples':5,'generator':'images'",
     "data.train.classes is missing"},
    {"'format':'idx','x':'a'", "data.train.y is missing"},
    {"'format':'idx','y':'a'", "data.train.x is missing"},
    {"'format':'idx','x':'a\\nb','y':'a'",
     "data.train: a file's name has a control character, or one that turns the "
     "direction of writing"},
    {"'format':'idx','x':'a','y':'\xe2\x80\xae'",
     "data.train: a file's name has a control character, or one that turns the "
     "direction of writing"},
    {"'format':'npz','x':'a','y':'b'", "data.train: takes no 'y' with npz"},
    {"'format':'npy','x':'a','y':'b','samples':3",
     "data.train: takes no 'samples' with npy"},
    {"'format':'idx','x':'a','y':'b','scale':0",
     "data.train: scale must be finite and not 0, offset finite"},
    {"'format':'idx','x':'a','y':'b','limit':0",
     "data.train.limit: wants 1 to 1099511627776, got 0"},
    {"'format':'csv','x':'a'", "data.train.label_column is missing"},
    {RECORDS "", "data.train.features is missing"},
    {RECORDS ",'features':{'label':{'key':'y'}}",
     "data.train: wants one of features.image, features.x and columns"},
    {RECORDS
     ",'columns':['a'],'features':{'x':{'key':'b'},'label':{'key':'y'}}",
     "data.train: wants one of features.image, features.x and columns"},
    {RECORDS ",'features':{'image':{'key':'b'},'x':{'key':'b'}}",
     "data.train.features: wants image or x, not both"},
    {RECORDS ",'features':{'x':{'key':'b'}}",
     "data.train.features: wants the key of the image or of x, and of the "
     "label, as in {image: {key: image/encoded}, label: {key: "
     "image/class/label}}"},
    {RECORDS ",'features':{'x':{'key':'b','size':[1,2]}}",
     "data.train.features.x: takes no 'size' with x"},
    {RECORDS ",'features':{'x':{'key':'b'},'label':{'key':''}}",
     "data.train.features.label.key: wants 1 to 200 bytes, without control "
     "characters"},
    {RECORDS ",'features':{'image':{'key':'b','size':[4,4]}}",
     "data.train.features.image.size: wants the rows and columns of "
     "model.input_shape, such as [224, 224]; images are resized to those"},
    {RECORDS ",'features':{'image':{'key':'b','decode':'jpg'}}",
     "data.train.features.image.decode: unknown 'jpg'; did you mean 'jpeg'?"},
    {RECORDS ",'features':{'x':{'key':'b'},'label':{'key':'y','field':'f'}}",
     "data.train.features.label.field: names a field of JSON, which a record "
     "has not"},
    {"'format':'csv','x':'a','label_column':'y','features':{}",
     "data.train: takes no 'features' with csv"},
    {"'format':'webdataset','x':'a','features':{'label':{'field':'f'}}",
     "data.train.features.label.field: names a field of JSON; say key: json"},
    {"'format':'tar','x':'a','features':{}",
     "data.train: takes no 'features' with tar"},
    {"'format':'npz','x':'d*/a.npz'",
     "data.train: d*/a.npz: has a '*' in a folder's name; it may stand in the "
     "last part of the path alone"},
    {"'format':'npy','x':'a','y':'{4..1}'",
     "data.train: {4..1}: has a range that falls"},
    {"'format':'csv','x':'a','label_column':'y','delimiter':';;'",
     "data.train.delimiter: wants one byte, not a quote or a line end, got "
     "';;'"},
    {"'format':'csv','x':'a','label_column':'y','columns':['x','y']",
     "data.train.columns: 'y' is the label_column too"},
    {CSV_IDS("'user','tags'"), "data.train.ids: no layer of the model reads "
                               "the ids of column 'user'; leave the column "
                               "out"},
    {"'format':'npz','x':'a','ids':['user']",
     "data.train.ids: no layer of the model reads the ids of column 'user'; "
     "leave the column out"},
    {CSV_IDS("{'name':'city','hash':'xxh64','seed':7}"),
     "data.train.ids: no layer of the model reads the ids of column 'city'; "
     "leave the column out"},
    {"'format':'npy','x':'a','y':'b','ids':['user']",
     "data.train: takes no 'ids' with npy"},
    {CSV_IDS("'y'"), "data.train.ids[0]: 'y' is the label_column too"},
    {CSV_IDS("'user','x'"), "data.train.ids[1]: 'x' is one of columns too"},
    {CSV_IDS("'user','user'"), "data.train.ids[1]: 'user' is another of ids "
                               "too"},
    {CSV_IDS("{'hash':'xxh64'}"),
     "data.train.ids[0].name: wants the name of a column, of 1 to 200 bytes, "
     "without control characters"},
    {CSV_IDS("'a\\tb'"),
     "data.train.ids[0].name: wants the name of a column, of 1 to 200 bytes, "
     "without control characters"},
    {CSV_IDS("{'name':'a','hash':'xxh65'}"),
     "data.train.ids[0].hash: unknown 'xxh65'; did you mean 'xxh64'?"},
    {CSV_IDS("{'name':'a','seed':7}"),
     "data.train.ids[0].seed: is the seed of a hash; say hash: xxh64"},
    {"'format':'npz','x':'a','ids':[{'name':'a','hash':'xxh64'}]",
     "data.train.ids[0].hash: makes ids of the text of a csv or a tfrecord; an "
     "npz or libsvm has numbers"},
    {"'format':'libsvm','x':'a','ids':[{'name':'a','hash':'xxh64'}]",
     "data.train.ids[0].hash: makes ids of the text of a csv or a tfrecord; an "
     "npz or libsvm has numbers"},
    {"'format':'libsvm','x':'a','ids':['a','b']",
     "data.train.ids: a libsvm file has one column of ids, got 2"},
    {"'format':'libsvm','x':'a','first_index':2",
     "data.train.first_index: wants 0 to 1, got 2"},
    {"'format':'libsvm','x':'a','label_column':'y'",
     "data.train: takes no 'label_column' with libsvm"},
    {"'format':'csv','x':'a','label_column':'y','first_index':0",
     "data.train: takes no 'first_index' with csv"},
    {"'format':'csv','x':'a','label_column':'y','delimiter':'|','ids':['a']",
     "data.train.delimiter: '|' separates the ids of a cell; columns need "
     "another"},
    {"'format':'synthetic','generator':'binary'",
     "data.train.samples is missing"},
    {"'format':'synthetic','samples':5",
     "data.train.generator is missing; known are binary, classes, "
     "images"},
    {"'format':'synthetic','samples':5,'generator':'classes'",
     "data.train.classes is missing"},
    {"'format':'synthetic','samples':5,'generator':'binary','classes':2",
     "data.train: takes no 'classes' with generator binary"},
    {"'format':'synthetic','samples':5,'generator':'classes','classes':4",
     "data.train.classes: 4, but layer 'dense' has 3 outputs"},
    {"'format':'external','samples':5",
     "data.train.format: wants a format that workers read with this model, got "
     "'external'"},
};

// A set to test with columns other than those of the training set.
static const char *const other_ids[] = {
    "",
    "'tags','user'",
    "'user'",
    "'user','tag'",
    "'user',{'name':'tags','hash':'xxh64'}",
};

TEST(spec, both_sets_have_the_same_ids)
{
    for (unsigned i = 0; i < SL_COUNT(other_ids); i++) {
        char text[900];

        snprintf(text, sizeof(text),
                 "{" NAME "," MODEL "," LOSS "," OPTIM
                 ",'data':{'train':{" CSV_IDS(
                     "'user','tags'") "},"
                                      "'test':{'format':'csv','x':'b','label_"
                                      "column':'y',"
                                      "'ids':[%s]}}}",
                 other_ids[i]);
        refused(text, "data.test.ids: wants the columns of data.train.ids, in "
                      "the same order and with the same hashes");
    }
}

TEST(spec, wrong_data)
{
    for (unsigned i = 0; i < SL_COUNT(wrong_data); i++) {
        char text[700];

        snprintf(text, sizeof(text),
                 "{" NAME "," MODEL "," LOSS "," OPTIM
                 ",'data':{'train':{%s}}}",
                 wrong_data[i].train);
        refused(text, wrong_data[i].why);
    }
}

static const struct {
    const char *part, *why;
} wrong_parts[] = {
    {"'observe':{'histograms':true}",
     "observe.tensorboard is missing: a folder, as 'experiments/one'"},
    {"'observe':{'tensorboard':'../up'}",
     "observe.tensorboard: '../up' is not a path below a folder: it has an "
     "empty name, '.', '..' or a '/' at its beginning; it lies below the "
     "folder of the coordinator's --observe-dir"},
    {"'observe':{'tensorboard':''}",
     "observe.tensorboard: wants 1 to 200 bytes, got 0"},
    {"'train':{'workers':{'min':2}}",
     "train.workers: says something of allreduce alone, and train.mode is "
     "async"},
    {"'train':{'mode':'allreduce','workers':{'min':3,'max':2}}",
     "train.workers.max: wants 3 to 4096, got 2"},
    {"'train':{'mode':'allreduce','max_workers':2}",
     "train.max_workers: in allreduce it is called train.workers.max"},
    {"'train':{'mode':'allreduce','on_resize':'scales'}",
     "train.on_resize: unknown 'scales'; did you mean 'scale'?"},
    {"'train':{'mode':'allreduce','on_resize':'scale','contributions':4}",
     "train.contributions: with train.on_resize scale there is one of each "
     "rank"},
    {"'train':{'mode':'allreduce','contributions':0}",
     "train.contributions: wants 1 to 65536, got 0"},
    {"'train':{'mode':'allreduce','bucket_bytes':1}",
     "train.bucket_bytes: wants 4096 to 1073741824, got 1"},
    {"'train':{'mode':'allreduce','max_delay':4}",
     "train.max_delay: nothing is late in allreduce"},
    {"'train':{'group':{'size':2}}",
     "train.group: says something of hybrid alone, and train.mode is async"},
    {"'train':{'mode':'hybrid','group':{'size':1}}",
     "train.group.size: wants 2 to 64, got 1"},
    {"'train':{'mode':'hybrid','group':{'by':'rack'}}",
     "train.group.by: unknown 'rack'; known are host, any"},
    {"'train':{'mode':'hybrid','contributions':2}",
     "train.contributions: rounds are of sync, local and allreduce, and "
     "train.mode is hybrid"},
    {"'train':{'mode':'hybrid','batch':1048576,'accumulate':5}",
     "train.accumulate: 20 micro-batches of 1048576 samples; a step has at "
     "most 16777216 samples"},
    {"'train':{'mode':'asink'}",
     "train.mode: unknown 'asink'; known are async, sync, allreduce, "
     "hybrid, local"},
    {"'train':{'mode':'sync','steps_per_closure':4}",
     "train.steps_per_closure: wants 1 in sync, where a closure is one "
     "contribution, got 4"},
    {"'train':{'mode':'sync','max_delay':4}",
     "train.max_delay: in sync no gradient is late; leave it out"},
    {"'train':{'mode':'sync','contributions':1025}",
     "train.contributions: wants 1 to 1024, got 1025"},
    {"'train':{'mode':'sync','contributions':4,'backup':5}",
     "train.backup: wants 0 to 4, got 5"},
    {"'train':{'backup':1}",
     "train.backup: copies are of the slots of a round in "
     "sync and local, and train.mode is async"},
    {"'train':{'mode':'sync','audit':1.5}",
     "train.audit: wants a number in [0, 1], got 1.5"},
    {"'train':{'audit':-1}", "train.audit: wants a number in [0, 1], got -1"},
    {"'train':{'mode':'allreduce','audit':-0.5}",
     "train.audit: wants a number in [0, 1], got -0.5"},
    {"'train':{'mode':'hybrid','audit':1.5}",
     "train.audit: wants a number in [0, 1], got 1.5"},
    {"'train':{'contributions':4}",
     "train.contributions: rounds are of sync, local "
     "and allreduce, and train.mode is async"},
    {"'train':{'mode':'local','steps_per_closure':4}",
     "train.steps_per_closure: wants 1 in local, where a closure is one "
     "contribution, got 4"},
    {"'train':{'mode':'local','inner':{'steps':0}}",
     "train.inner.steps: wants 1 to 1048576, got 0"},
    {"'train':{'mode':'local','inner':{'moments':'all'}}",
     "train.inner.moments: unknown 'all'; known are reset, keep, store"},
    {"'train':{'mode':'local','inner':{'steps':1048576}}",
     "train.inner.steps: 1048576 micro-batches of 32 samples; a step has at "
     "most 16777216 samples"},
    {"'train':{'mode':'local','accumulate':2}",
     "train.accumulate: in local each batch is a step of its worker; take a "
     "larger train.batch"},
    {"'train':{'mode':'local','outer':{'type':'sgd','clipnorm':1}}",
     "train.outer.clipnorm: of the steps of workers; say it in optimizer"},
    {"'train':{'mode':'local','outer':{'type':'sophia'}}",
     "train.outer: optimizer.type: unknown 'sophia'; known are sgd, adam, "
     "adamw, "
     "adamax, adagrad, rmsprop, nadam, lion, lamb, muon"},
    {"'train':{'mode':'local','outer':{'type':'lamb'}}",
     "train.outer: optimizer.type: lamb looks at whole variables, which "
     "psservers alone have, and what workers bring is sums of their changes; "
     "take another one"},
    {"'train':{'mode':'local','audit':0.5}",
     "train.audit: what many steps change is not compared; leave it out in "
     "local"},
    {"'train':{'mode':'local','contributions':4,'quorum':5}",
     "train.quorum: wants 1 to 4, got 5"},
    {"'train':{'mode':'local','contributions':4,'quorum':0}",
     "train.quorum: wants 1 to 4, got 0"},
    {"'train':{'mode':'local','contributions':4,'quorum':1,'grace_ms':5}",
     "train.grace_ms: only a round that may end with fewer contributions "
     "waits; set train.quorum between 1 and train.contributions, which is 4"},
    {"'train':{'mode':'local','contributions':4,'quorum':2,'grace_ms':3600001}",
     "train.grace_ms: wants 0 to 3600000, got 3600001"},
    {"'train':{'mode':'local','contributions':4,'quorum':2,'backup':1}",
     "train.backup: copies are of fixed slots; with a train.quorum no round "
     "waits for a slot: leave it out"},
    {"'train':{'mode':'local','outer':{'type':'sgd','delay':4}}",
     "train.outer.delay: is of sgd with nesterov and momentum where each "
     "contribution is an update; set train.quorum: 1, or leave it out"},
    {"'train':{'mode':'local','contributions':4,'quorum':2,"
     "'inner':{'steps':9,'closure':2}}",
     "train.inner.closure: wants a divisor of train.inner.steps, which is 9, "
     "and at least a 8th of it, got 2"},
    {"'train':{'mode':'local','contributions':4,'quorum':2,"
     "'inner':{'steps':90,'closure':2}}",
     "train.inner.closure: wants a divisor of train.inner.steps, which is 90, "
     "and at least a 8th of it, got 2"},
    {"'train':{'mode':'local','inner':{'steps':8,'closure':2}}",
     "train.inner.closure: a contribution to a round whose slots are fixed is "
     "one closure; set train.quorum below train.contributions, or leave it "
     "out"},
    {"'train':{'mode':'local','contributions':4,'quorum':2,"
     "'inner':{'steps':8,'closure':2,'pace':'fast'}}",
     "train.inner.pace: unknown 'fast'; known are equal, own"},
    {"'train':{'mode':'local','inner':{'steps':8,'pace':'own'}}",
     "train.inner.pace: slots of a fixed round are of equal steps; set "
     "train.quorum below train.contributions, and train.inner.closure to a "
     "part of train.inner.steps"},
    {"'train':{'mode':'local','contributions':4,'quorum':2,"
     "'inner':{'steps':8,'pace':'own'}}",
     "train.inner.pace: a contribution is one closure, and a slower worker "
     "cannot have fewer; set train.inner.closure to a part of "
     "train.inner.steps, which is 8"},
    {"'train':{'quorum':2}",
     "train.quorum: says something of local alone, and train.mode is async"},
    {"'train':{'outer':{'type':'sgd'}}",
     "train.outer: says something of local alone, and train.mode is async"},
    {"'train':{'mode':'sync','inner':{'steps':2}}",
     "train.inner: says something of local alone, and train.mode is sync"},
    {"'train':{'mode':'sync','max_norm_ratio':20}",
     "train.max_norm_ratio: says something of local alone, and train.mode is "
     "sync"},
    {"'train':{'mode':'sync','average':'direction'}",
     "train.average: says something of local alone, and train.mode is sync"},
    {"'train':{'mode':'local','average':'directions'}",
     "train.average: unknown 'directions'; did you mean 'direction'?"},
    {"'train':{'mode':'local','contributions':4,'quorum':1,"
     "'average':'direction'}",
     "train.average: with train.quorum 1 each contribution is an update, and "
     "nothing is averaged; set a quorum of at least 2, or leave it out"},
    {"'train':{'mode':'sync','norm':'median'}",
     "train.norm: says something of local alone, and train.mode is sync"},
    {"'train':{'mode':'local','norm':'medain'}",
     "train.norm: unknown 'medain'; did you mean 'median'?"},
    {"'train':{'mode':'local','max_norm_ratio':1}",
     "train.max_norm_ratio: wants a number above 1 and at most 1e+06, or 0, "
     "got "
     "1"},
    {"'train':{'mode':'local','max_norm_ratio':-3}",
     "train.max_norm_ratio: wants a number above 1 and at most 1e+06, or 0, "
     "got "
     "-3"},
    {"'train':{'mode':'local','contributions':200,'quorum':2,'inner':{"
     "'steps':80,'closure':10}}",
     "train.contributions: a round is of up to 1600 closures, and 1024 may be "
     "under way; set fewer contributions, a larger train.inner.closure"},
    {"'train':{'mode':'local','contributions':8,'quorum':2,"
     "'window_closures':4}",
     "train.contributions: a round is of up to 8 closures, and 4 may be under "
     "way; set fewer contributions, a larger train.inner.closure, or a larger "
     "train.window_closures"},
    {"'train':{'priority':101}", "train.priority: wants -100 to 100, got 101"},
    {"'train':{'priority':-101}",
     "train.priority: wants -100 to 100, got -101"},
    {"'train':{'batch':0}", "train.batch: wants 1 to 1048576, got 0"},
    {"'train':{'epochs':0}", "train.epochs: wants 1 to 65536, got 0"},
    {"'train':{'steps_per_closure':5000}",
     "train.steps_per_closure: wants 1 to 4096, got 5000"},
    {"'train':{'nonfinite':'skp'}",
     "train.nonfinite: unknown 'skp'; did you mean 'skip'?"},
    {"'train':{'window_closures':0}",
     "train.window_closures: wants 1 to 65536, got 0"},
    {"'train':{'accumulate':0}",
     "train.accumulate: wants 1 to 16777216, got 0"},
    {"'train':{'batch':4096,'accumulate':4097}",
     "train.accumulate: 4097 micro-batches of 4096 samples; a step has at most "
     "16777216 samples"},
    {"'train':{'max_delay':2000000}",
     "train.max_delay: wants 0 to 1048576, got 2000000"},
    {"'train':{'staleness':'invers'}",
     "train.staleness: unknown 'invers'; did you mean 'inverse'?"},
    {"'train':{'staleness':'dc'}",
     "train.staleness: dc wants train.max_delay from 1 to 64, got 0: psservers "
     "keep the parameters of that number of versions"},
    {"'train':{'staleness':'dc','max_delay':65}",
     "train.staleness: dc wants train.max_delay from 1 to 64, got 65: "
     "psservers "
     "keep the parameters of that number of versions"},
    {"'train':{'staleness_lambda':0.1}",
     "train.staleness_lambda: only dc has one, and train.staleness is none"},
    {"'train':{'wire':'bf15'}",
     "train.wire: unknown 'bf15'; did you mean 'bf16'?"},
    {"'train':{'wire':'int8'}",
     "train.wire: unknown 'int8'; known are f32, bf16, f16"},
    {"'train':{'stall_seconds':0.5}",
     "train.stall_seconds: wants a number in [1, 1e+06], got 0.5"},
    {"'train':{'precision':'f61'}",
     "train.precision: unknown 'f61'; did you mean 'f16'?"},
    {"'train':{'precision':'float64'}",
     "train.precision: 'float64' is not trained in: parameters and gradients "
     "are f32 everywhere; say f32 (sums and losses are kept in doubles where "
     "it matters)"},
    {"'train':{'precision':'mixed_float16'}",
     "train.precision: 'mixed_float16' is called f16 here"},
    {"'train':{'loss_scale':1024}",
     "train.loss_scale: only f16 has one, and train.precision is tf32"},
    {"'train':{'precision':'f16','loss_scale':0.5}",
     "train.loss_scale: wants a number in [1, 1e+30], got 0.5"},
    {"'placement':{'partitioner':'fixed'}",
     "placement.shards: wants 1 to 65536, got 0"},
    {"'placement':{'shards':4}", "placement: takes no 'shards' with auto"},
    {"'placement':{'partitioner':'max_size'}",
     "placement.max_shard_bytes is missing"},
    {"'placement':{'shard_bytes':2}",
     "placement.shard_bytes: wants 4 to 33554432, got 2"},
    {"'placement':{'move':'never'}",
     "placement.move: unknown 'never'; known are auto, manual"},
    {"'placement':{'replicas':2}",
     "placement.replicas: 2; a shard has one replica at most: give 0 or 1"},
    {"'placement':{'replicate':'ack'}",
     "placement.replicate: it wants placement.replicas: 1"},
    {"'placement':{'replicate':'follow'}",
     "placement.replicate: it wants placement.replicas: 1"},
    {"'placement':{'replicas':1,'replicate':'later'}",
     "placement.replicate: unknown 'later'; known are ack, follow"},
    {"'placement':{'replicas':1},'train':{'mode':'allreduce'}",
     "placement.replicas: mode allreduce has none; use mode async or sync, or "
     "leave replicas out"},
    {"'placement':{'replicas':1},'train':{'mode':'async','staleness':'dc',"
     "'max_delay':4}",
     "placement.replicas: a replica lacks the versions that train.staleness: "
     "dc compares with; take staleness: inverse, or leave replicas out"},
    {"'checkpoint':{'keep':0}", "checkpoint.keep: wants 1 to 1000, got 0"},
    {"'checkpoint':{'every_seconds':-1}",
     "checkpoint.every_seconds: wants a number of at least 0, got -1"},
    {"'evaluate':{'every_epochs':1}", "evaluate.every_epochs: needs data.test"},
};

TEST(spec, precision)
{
    static const struct {
        const char *train;
        enum spec_precision is;
    } cases[] = {
        {"", SPEC_TF32},
        {",'train':{'precision':'f32'}", SPEC_F32},
        {",'train':{'precision':'bf16'}", SPEC_BF16},
        {",'train':{'precision':'f16'}", SPEC_F16},
        {",'train':{'precision':'f16','loss_scale':128}", SPEC_F16},
    };
    Sluice__V1__JobSpec old = SLUICE__V1__JOB_SPEC__INIT;

    for (unsigned i = 0; i < SL_COUNT(cases); i++) {
        char text[800];
        Sluice__V1__JobSpec *s;

        snprintf(text, sizeof(text),
                 "{" NAME "," MODEL "," LOSS "," OPTIM "," DATA "%s}",
                 cases[i].train);
        s = checked(text);
        T_EQ(spec_precision(s), cases[i].is);
        T_STR(spec_precision_name(cases[i].is), s->train->precision);
        wire_free(&s->base);
    }
    T_EQ(spec_precision(&old), SPEC_TF32); // of an older journal
}

TEST(spec, wrong_parts)
{
    for (unsigned i = 0; i < SL_COUNT(wrong_parts); i++) {
        char text[800];

        snprintf(text, sizeof(text),
                 "{" NAME "," MODEL "," LOSS "," OPTIM "," DATA ",%s}",
                 wrong_parts[i].part);
        refused(text, wrong_parts[i].why);
    }
}

TEST(spec, logits_are_inferred)
{
    static const struct {
        const char *act, *loss;
        unsigned units;
        bool logits;
    } cases[] = {
        {"linear", "sparse_categorical_crossentropy", 3, true},
        {"softmax", "categorical_crossentropy", 3, false},
        {"sigmoid", "binary_crossentropy", 1, false},
        {"relu", "binary_crossentropy", 1, true},
    };

    for (unsigned i = 0; i < SL_COUNT(cases); i++) {
        char text[800];
        Sluice__V1__JobSpec *s;

        snprintf(
            text, sizeof(text),
            "{" NAME ",'model':{'input_shape':[4],'layers':[{'type':"
            "'dense','units':%u,'activation':'%s'}]},'loss':'%s'," OPTIM
            ",'data':{'train':{'format':'synthetic','samples':9,'generator':"
            "'binary'}}}",
            cases[i].units, cases[i].act, cases[i].loss);
        s = checked(text);
        T_TRUE(s->has_from_logits);
        T_EQ(s->from_logits != 0, cases[i].logits);
        T_STR(spec_loss_name(spec_loss(s)), cases[i].loss);
        wire_free(&s->base);
    }
}

TEST(spec, external_is_said_by_the_model_alone)
{
    static const struct {
        const char *text;
        bool external;
    } given[] = {
        {"{" NAME "," EXTERNAL "}", true},
        {"{" NAME "," MODEL "}", false}, // not checked: no type yet
        {"{" NAME ",'model':{'type':'graph'}}", false},
        {"{" NAME "}", false},
    };

    for (size_t i = 0; i < SL_COUNT(given); i++) {
        Sluice__V1__JobSpec *s = (void *)t_make(SPEC, given[i].text);

        T_EQ(spec_external(s), given[i].external);
        wire_free(&s->base);
    }
}

// A job that says nothing of it is as it was before there was such a thing.
TEST(spec, what_is_observed)
{
    Sluice__V1__JobSpec *s =
        checked("{" NAME "," MODEL "," LOSS "," OPTIM "," DATA
                ",'observe':{'tensorboard':'mine/one'}}");

    T_STR(s->observe->tensorboard, "mine/one");
    T_EQ(s->observe->has_histograms, true);
    T_EQ(s->observe->histograms, false);
    wire_free(&s->base);
    s = checked("{" NAME "," MODEL "," LOSS "," OPTIM "," DATA "}");
    T_EQ(s->observe == NULL, true);
    wire_free(&s->base);
}

TEST(spec, placement_rules)
{
    Sluice__V1__JobSpec *s =
        checked("{" NAME "," EXTERNAL "," OPTIM ",'placement':{'partitioner':"
                "'max_size','max_shard_bytes':1024,'max_shards':7}}");
    struct part_rule rule;
    uint64_t target;

    spec_part_rule(&rule, &target, s->placement);
    T_EQ(rule.kind, PART_MAX_SIZE);
    T_EQ(rule.shard_bytes, 1024);
    T_EQ(rule.max_shards, 7);
    wire_free(&s->base);
    s = checked("{" NAME "," EXTERNAL "," OPTIM "}");
    spec_part_rule(&rule, &target, s->placement);
    T_EQ(rule.kind, PART_AUTO);
    T_EQ(target, 0); // by the size of the model
    T_EQ(spec_loss(s), SPEC_LOSS_NONE);
    wire_free(&s->base);
}

TEST(spec, out_of_memory_at_every_step)
{
    bool failed = true;

    for (uint64_t n = 1; failed; n++) {
        Sluice__V1__JobSpec *s = (void *)t_make(
            SPEC, "{" NAME "," MODEL "," LOSS "," OPTIM "," DATA "}");
        uint64_t live = sl_mem_live();
        enum sl_err rc;

        sl_mem_fail_at(n);
        rc = spec_check(s, NULL);
        failed = sl_mem_failed();
        T_EQ(rc, failed ? SL_ENOMEM : SL_OK);
        T_GE(sl_mem_live(), live); // defaults are the spec's
        wire_free(&s->base);
    }
}

TEST(spec, survives_random_specs)
{
    for (unsigned i = 0; i < 2000; i++) {
        Sluice__V1__JobSpec *s = (void *)t_random_message(SPEC);

        sl_free(s->api_version);
        sl_free(s->kind);
        s->api_version = s->kind = NULL;
        if (s->name != NULL)
            strcpy(s->name, strlen(s->name) > 0 ? "a" : "");
        (void)spec_check(s, NULL);
        wire_free(&s->base);
    }
}

// ---- callbacks

#define TEST_DATA                                                              \
    "'data':{'train':{'format':'synthetic','generator':'classes','classes':3," \
    "'samples':100},'test':{'format':'synthetic','generator':'classes',"       \
    "'classes':3,'samples':30}}"
#define JOB(data, rest)                                                        \
    "{" NAME "," MODEL "," LOSS "," OPTIM "," data "," rest "}"

TEST(spec, callbacks_have_the_defaults_of_keras)
{
    Sluice__V1__JobSpec *spec =
        checked(JOB(TEST_DATA, "'callbacks':{'early_stopping':{},"
                               "'reduce_on_plateau':{},'best_checkpoint':"
                               "{'monitor':'val_accuracy'}}"));
    struct spec_callbacks c = spec_callbacks(spec);

    T_TRUE(c.early.watch.on && c.plateau.watch.on && c.best.on);
    T_EQ(c.early.watch.monitor, SPEC_VAL_LOSS);
    T_FALSE(c.early.watch.larger);
    T_TRUE(c.early.watch.min_delta == 0);
    T_EQ(c.early.patience, 1);
    T_FALSE(c.early.has_baseline || c.early.restores);
    T_EQ(c.plateau.patience, 10);
    T_TRUE(c.plateau.factor == 0.1 && c.plateau.watch.min_delta == 1e-4);
    T_TRUE(c.plateau.min_rate == 0 && c.plateau.cooldown == 0);
    T_TRUE(c.best.larger); // accuracy is to be large
    T_TRUE(spec_callbacks_any(&c) && spec_callbacks_wait(&c));
    T_EQ(spec->evaluate->every_epochs, 1);
    wire_free(&spec->base);
}

TEST(spec, callbacks_may_monitor_what_is_evaluated)
{
    Sluice__V1__JobSpec *spec = checked(
        JOB(TEST_DATA,
            "'evaluate':{'metrics':['precision','mean_absolute_error']},"
            "'callbacks':{'early_stopping':{'monitor':'val_precision'},"
            "'best_checkpoint':{'monitor':'val_mean_absolute_error'},"
            "'reduce_on_plateau':{'monitor':'val_precision','mode':'min'}}"));
    struct spec_callbacks c = spec_callbacks(spec);

    T_STR(spec_monitor_name(c.early.watch.monitor), "val_precision");
    T_STR(spec_monitor_name(c.best.monitor), "val_mean_absolute_error");
    T_TRUE(c.early.watch.larger);
    T_FALSE(c.best.larger);
    T_FALSE(c.plateau.watch.larger); // as it says
    wire_free(&spec->base);
}

TEST(spec, training_alone_is_judged_without_a_test_set)
{
    Sluice__V1__JobSpec *spec =
        checked(JOB(DATA, "'evaluate':{'every_steps':50},'callbacks':{"
                          "'best_checkpoint':{'monitor':'loss'}}"));
    struct spec_callbacks c = spec_callbacks(spec);

    T_EQ(spec->evaluate->every_epochs, 0);
    T_EQ(spec->evaluate->every_steps, 50);
    T_FALSE(spec_callbacks_wait(&c)); // it changes nothing of the training
    wire_free(&spec->base);
}

TEST(spec, callbacks_that_cannot_work_are_refused)
{
    static const struct {
        const char *rest, *why;
    } cases[] = {
        {"'callbacks':{}",
         "callbacks: wants early_stopping, reduce_on_plateau or "
         "best_checkpoint"},
        {"'callbacks':{'early_stopping':{'patience':0}}",
         "callbacks.early_stopping.patience: must be at least 1: it counts "
         "evaluations without an improvement"},
        {"'callbacks':{'early_stopping':{'monitor':'val_los'}}",
         "callbacks.early_stopping.monitor: unknown 'val_los'; did you mean "
         "'val_loss'?"},
        {"'callbacks':{'early_stopping':{'monitor':'val_precision'}}",
         "callbacks.early_stopping.monitor: 'val_precision' is not evaluated; "
         "say evaluate: {metrics: [precision]}"},
        {"'evaluate':{'metrics':['recall']},'callbacks':{'best_checkpoint':"
         "{'monitor':'val_top_k'}}",
         "callbacks.best_checkpoint.monitor: 'val_top_k' is not evaluated; say "
         "evaluate: {metrics: [top_k]}"},
        {"'callbacks':{'reduce_on_plateau':{'monitor':'val_auc'}}",
         "callbacks.reduce_on_plateau.monitor: there is no 'val_auc' with loss "
         "sparse_categorical_crossentropy; monitor val_loss"},
        {"'callbacks':{'early_stopping':{'monitor':'val_recal'}}",
         "callbacks.early_stopping.monitor: unknown 'val_recal'; did you mean "
         "'val_recall'?"},
        {"'callbacks':{'early_stopping':{'mode':'up'}}",
         "callbacks.early_stopping.mode: unknown 'up'; known are auto, min, "
         "max"},
        {"'callbacks':{'early_stopping':{'start_from_epoch':1}}",
         "callbacks.early_stopping.start_from_epoch: epochs count from 0 here, "
         "and there are 1: it would never begin"},
        {"'callbacks':{'early_stopping':{}},'evaluate':{'every_epochs':0}",
         "callbacks: nothing is evaluated; say evaluate.every_epochs or "
         "evaluate.every_steps"},
        {"'callbacks':{'early_stopping':{}},'evaluate':{'every_epochs':2}",
         "callbacks: nothing is evaluated: every 2 epochs, and train.epochs is "
         "1"},
        {"'callbacks':{'reduce_on_plateau':{'factor':1}}",
         "callbacks.reduce_on_plateau.factor: wants a number above 0 and below "
         "1, got 1: the learning rate is multiplied by it"},
        {"'callbacks':{'reduce_on_plateau':{'patience':0}}",
         "callbacks.reduce_on_plateau.patience: must be at least 1: it counts "
         "evaluations without an improvement"},
        {"'callbacks':{'reduce_on_plateau':{'min_lr':0.01}}",
         "callbacks.reduce_on_plateau.min_lr: 0.01 is no less than "
         "optimizer.learning_rate (0.01), so nothing would ever be reduced"},
    };

    for (unsigned i = 0; i < SL_COUNT(cases); i++) {
        char text[2048];

        snprintf(text, sizeof(text), JOB(TEST_DATA, "%s"), cases[i].rest);
        refused(text, cases[i].why);
    }
}

TEST(spec, evaluations_that_cannot_be_are_refused)
{
    refused(JOB(TEST_DATA, "'evaluate':{'every_epochs':1,'every_steps':5}"),
            "evaluate: wants every_epochs or every_steps, not both");
    refused(JOB(TEST_DATA, "'evaluate':{'every_steps':0}"),
            "evaluate.every_steps: wants 1 or more; leave it out to evaluate "
            "by epochs");
}

TEST(spec, callbacks_that_do_not_fit_the_job_are_refused)
{
    refused(JOB(DATA, "'callbacks':{'best_checkpoint':{}}"),
            "callbacks.best_checkpoint.monitor: 'val_loss' is of data.test, "
            "which is not there; add it, or monitor loss");
    refused("{" NAME "," MODEL "," LOSS ",'optimizer':{'type':'sgd','schedule':"
            "{'type':'cosine_decay','decay_steps':9}}," TEST_DATA
            ",'callbacks':{'reduce_on_plateau':{}}}",
            "callbacks.reduce_on_plateau: optimizer.schedule sets the learning "
            "rate already, as in Keras, which refuses this; leave out one of "
            "them");
    refused("{" NAME "," EXTERNAL "," OPTIM ",'callbacks':{'early_stopping':"
            "{'monitor':'loss'}}}",
            "callbacks: the model is external, so nothing of it is evaluated "
            "here; its own program can stop the job");
    refused("{" NAME "," ONE ",'loss':'mean_squared_error'," OPTIM ","
            "'data':{'train':{'format':'synthetic','generator':'binary',"
            "'samples':9}},'callbacks':{'best_checkpoint':{'monitor':"
            "'accuracy'}}}",
            "callbacks.best_checkpoint.monitor: there is no 'accuracy' with "
            "loss mean_squared_error; monitor loss");
}

// A rank that did not wait would sum what the others do not.
TEST(spec, only_rings_that_wait_want_newer_workers)
{
    static const struct {
        const char *mode, *callback;
        unsigned edition;
    } cases[] = {
        {"allreduce", "early_stopping", 2},
        {"allreduce", "best_checkpoint", 0},
        {"sync", "reduce_on_plateau", 0},
    };

    for (unsigned i = 0; i < SL_COUNT(cases); i++) {
        Sluice__V1__JobSpec *spec;
        char text[2048];

        snprintf(text, sizeof(text),
                 JOB(TEST_DATA, "'train':{'mode':'%s'},'callbacks':{'%s':{}}"),
                 cases[i].mode, cases[i].callback);
        spec = checked(text);
        T_EQ(spec->model->edition, cases[i].edition);
        wire_free(&spec->base);
    }
}

// Psservers have the outer optimizer, and its slots; a worker must know the
// mode.
TEST(spec, local_steps_have_an_optimizer_of_their_own)
{
    Sluice__V1__JobSpec *spec =
        checked(JOB(TEST_DATA, "'train':{'mode':'local'}"));
    const Sluice__V1__OptimizerSpec *outer = spec_shard_optimizer(spec);

    T_STR(outer->type, "sgd");
    T_NEAR(outer->learning_rate, 0.7, 0);
    T_NEAR(outer->momentum, 0.9, 0);
    T_TRUE(outer->nesterov);
    T_FALSE(spec->optimizer->has_momentum && spec->optimizer->momentum != 0);
    T_EQ(spec->model->edition, 14);
    T_EQ(spec_inner(spec->train).steps, 100);
    T_FALSE(spec_inner(spec->train).keep);
    T_EQ(spec_contributions(spec->train), 2);
    T_EQ(spec_step_samples(spec), 3200);
    // Values, one slot, two contributions and the values before.
    T_EQ(spec_kept_vectors(spec), 5);
    wire_free(&spec->base);
}

// That of the steps is the program's: the job has none. Moving statistics are
// kept apart from what the psservers' optimizer updates.
TEST(spec, a_program_that_steps_by_itself_has_its_own_optimizer)
{
    Sluice__V1__JobSpec *spec =
        checked("{" NAME ",'data':{'train':{'samples':100}},'model':{'type':"
                "'external','variables':[{'name':'w','shape':[3]},{'name':"
                "'mean','shape':[5],'moving':true}]},'train':{'mode':'local',"
                "'inner':{'steps':4,'moments':'keep'}}}");
    struct model *m;

    T_TRUE(spec->optimizer == NULL);
    T_STR(spec_shard_optimizer(spec)->type, "sgd");
    T_EQ(spec_step_samples(spec), 128);
    T_TRUE(spec_inner(spec->train).keep);
    T_OK(model_make(&m, spec->model, t_err()));
    T_EQ(m->elements, 8);
    T_EQ(m->trainable, 3);
    T_EQ(m->variables[1].kind, MODEL_MOVING);
    model_free(m);
    wire_free(&spec->base);
}

// A coarse code needs members that know it; what train.wire says does not.
TEST(spec, local_steps_may_travel_in_codes)
{
    static const struct {
        const char *train;
        enum wire_type up, down;
        uint32_t code;
        unsigned edition;
        uint64_t vectors; // 5: values, a slot, two contributions, those before
    } cases[] = {
        {"", WIRE_F32, WIRE_F32, 0, 14, 5},
        {",'wire':'bf16'", WIRE_BF16, WIRE_BF16, 0, 14, 5},
        {",'inner':{'up':'f32','down':'f32'}", WIRE_F32, WIRE_F32, 0, 14, 5},
        {",'inner':{'up':'bf16'}", WIRE_BF16, WIRE_F32, 0, 16, 5},
        {",'inner':{'up':'int8'},'wire':'f16'", WIRE_INT8, WIRE_F16, 0, 16, 5},
        {",'inner':{'down':'int8'}", WIRE_F32, WIRE_INT8, 3, 16, 6},
        // Without momentum there is no slot.
        {",'inner':{'up':'topk2','down':'e3m0'}", WIRE_TOPK2, WIRE_E3M0, 4, 16,
         5},
    };

    for (unsigned i = 0; i < SL_COUNT(cases); i++) {
        Sluice__V1__JobSpec *spec;
        char text[2048];

        snprintf(text, sizeof(text),
                 JOB(TEST_DATA, "'train':{'mode':'local'%s}"), cases[i].train);
        spec = checked(text);
        T_EQ(spec_inner(spec->train).up, cases[i].up);
        T_EQ(spec_inner(spec->train).down, cases[i].down);
        T_EQ(spec_down_code(spec), cases[i].code);
        T_EQ(spec_coded(spec), cases[i].edition == 16);
        T_EQ(spec->model->edition, cases[i].edition);
        T_EQ(spec_kept_vectors(spec), cases[i].vectors);
        T_NEAR(spec->train->outer->momentum,
               cases[i].up == WIRE_TOPK2 ? 0 : 0.9, 0);
        wire_free(&spec->base);
    }
    refused(JOB(TEST_DATA, "'train':{'mode':'local','inner':{'down':'topk2'}}"),
            "train.inner.down: unknown 'topk2'; known are f32, bf16, f16, "
            "int8, e3m0");
    refused(JOB(TEST_DATA, "'train':{'mode':'local','inner':{'up':'e3m1'}}"),
            "train.inner.up: unknown 'e3m1'; did you mean 'e3m0'?");
}

// With a quorum no slot is fixed; with 1 each contribution is an update, and
// the momentum that of as many as are expected.
TEST(spec, local_rounds_with_a_quorum)
{
    Sluice__V1__JobSpec *spec = checked(JOB(
        TEST_DATA, "'train':{'mode':'local','contributions':6,'quorum':4}"));

    T_TRUE(spec_open(spec->train));
    T_EQ(spec_contributions(spec->train), 0);
    T_EQ(spec_open_contributions(spec->train), 6);
    T_FALSE(spec->train->outer->has_delay);
    T_NEAR(spec->train->outer->learning_rate, 0.3, 0);
    T_EQ(spec->model->edition, 15);
    T_EQ(spec_kept_vectors(spec), 3); // values, one slot, the sum
    wire_free(&spec->base);
    spec = checked(JOB(
        TEST_DATA, "'train':{'mode':'local','contributions':6,'quorum':1}"));
    T_EQ(spec_open_contributions(spec->train), 0);
    T_EQ(spec->train->outer->delay, 6);
    T_NEAR(spec->train->outer->learning_rate, 0.3, 0);
    T_EQ(spec_kept_vectors(spec), 3); // values, two slots
    wire_free(&spec->base);
    spec = checked(JOB(
        TEST_DATA, "'train':{'mode':'local','contributions':6,'quorum':6}"));
    T_FALSE(spec_open(spec->train));
    T_NEAR(spec->train->outer->learning_rate, 0.7, 0);
    T_EQ(spec_contributions(spec->train), 6);
    T_EQ(spec->model->edition, 14);
    wire_free(&spec->base);
    // A code is of contributions to a round: each one ends its own.
    spec = checked(JOB(TEST_DATA, "'train':{'mode':'local','contributions':6,"
                                  "'quorum':1,'inner':{'up':'e3m0'}}"));
    T_EQ(spec_open_contributions(spec->train), 1);
    T_EQ(spec->model->edition, 16);
    T_EQ(spec_kept_vectors(spec), 4); // values, two slots, the sum
    wire_free(&spec->base);
    refused(JOB(TEST_DATA, "'train':{'mode':'local','contributions':6,"
                           "'quorum':1,'inner':{'down':'int8'}}"),
            "train.inner.down: int8 is of what one update changes, and with "
            "train.quorum 1 a worker misses those of all others: take f32, "
            "bf16 or f16");
}

TEST(spec, local_contributions_of_several_closures)
{
    Sluice__V1__JobSpec *spec =
        checked(JOB(TEST_DATA, "'train':{'mode':'local','contributions':6,"
                               "'quorum':4,'inner':{'steps':100,"
                               "'closure':25}}"));

    T_TRUE(spec_sets(spec->train));
    T_EQ(spec_inner(spec->train).closure, 25);
    T_EQ(spec_accumulate(spec), 25);
    T_EQ(spec->model->edition, MODEL_EDITION_SETS);
    wire_free(&spec->base);
    spec = checked("{" NAME ",'data':{'train':{'samples':100}},'model':{'type':"
                   "'external','variables':[{'name':'w','shape':[3]}]},'train':"
                   "{'mode':'local','contributions':6,'quorum':4,'norm':"
                   "'median','inner':{'steps':100,'closure':25}}}");
    T_EQ(spec->model->edition, MODEL_EDITION_PROGRAM_SETS);
    wire_free(&spec->base);
    spec = checked(JOB(TEST_DATA, "'train':{'mode':'local','inner':"
                                  "{'steps':30}}"));
    T_FALSE(spec_sets(spec->train));
    T_EQ(spec_inner(spec->train).closure, 30);
    wire_free(&spec->base);
}

// Workers need not know of it.
TEST(spec, local_averages_of_directions)
{
    Sluice__V1__JobSpec *spec =
        checked(JOB(TEST_DATA, "'train':{'mode':'local','contributions':6,"
                               "'quorum':4,'average':'direction'}"));

    T_TRUE(spec_directions(spec->train));
    T_EQ(spec->model->edition, MODEL_EDITION_OPEN);
    wire_free(&spec->base);
    spec = checked(
        JOB(TEST_DATA, "'train':{'mode':'local','average':'elements'}"));
    T_FALSE(spec_directions(spec->train));
    wire_free(&spec->base);
}

// Workers need not know of it.
TEST(spec, local_weights_by_age)
{
    Sluice__V1__JobSpec *spec =
        checked(JOB(TEST_DATA, "'train':{'mode':'local','contributions':6,"
                               "'quorum':4,'weight':'age'}"));

    T_TRUE(spec_aged(spec->train));
    T_EQ(spec->model->edition, MODEL_EDITION_OPEN);
    wire_free(&spec->base);
    spec =
        checked(JOB(TEST_DATA, "'train':{'mode':'local','weight':'samples'}"));
    T_FALSE(spec_aged(spec->train));
    wire_free(&spec->base);
    refused(JOB(TEST_DATA, "'train':{'mode':'local','weight':'age'}"),
            "train.weight: contributions of different ages meet in one round "
            "with a quorum alone; set train.quorum between 1 and "
            "train.contributions, which is 2, or leave it out");
    refused(JOB(TEST_DATA, "'train':{'mode':'local','contributions':6,"
                           "'quorum':1,'weight':'age'}"),
            "train.weight: contributions of different ages meet in one round "
            "with a quorum alone; set train.quorum between 1 and "
            "train.contributions, which is 6, or leave it out");
    refused(JOB(TEST_DATA, "'train':{'weight':'age'}"),
            "train.weight: says something of local alone, and train.mode is "
            "async");
}

// Workers must know of it.
TEST(spec, local_norms_made_as_long_as_the_median)
{
    Sluice__V1__JobSpec *spec =
        checked(JOB(TEST_DATA, "'train':{'mode':'local','norm':'median'}"));

    T_TRUE(spec_norm_median(spec->train));
    T_EQ(spec->model->edition, MODEL_EDITION_AVERAGES);
    wire_free(&spec->base);
    spec = checked("{" NAME ",'data':{'train':{'samples':100}},'model':{'type':"
                   "'external','variables':[{'name':'w','shape':[3]}]},'train':"
                   "{'mode':'local','norm':'median'}}");
    T_EQ(spec->model->edition, MODEL_EDITION_WEIGHTS);
    wire_free(&spec->base);
    spec = checked(JOB(TEST_DATA, "'train':{'mode':'local','norm':'keep'}"));
    T_FALSE(spec_norm_median(spec->train));
    T_EQ(spec->model->edition, MODEL_EDITION_LOCAL);
    wire_free(&spec->base);
}

TEST(spec, local_fragments_and_overlap)
{
    Sluice__V1__JobSpec *spec =
        checked(JOB(TEST_DATA, "'train':{'mode':'local','contributions':6,"
                               "'quorum':4,'inner':{'steps':100},"
                               "'fragments':4,'overlap':5}"));

    T_TRUE(spec_streams(spec->train));
    T_TRUE(spec_sets(spec->train));
    T_EQ(spec_fragments(spec->train), 4);
    T_EQ(spec_inner(spec->train).closure, 25);
    T_TRUE(spec_inner(spec->train).keep);
    T_NEAR(spec_inner(spec->train).blend, 0.5, 0);
    T_NEAR(spec_max_norm_ratio(spec->train), 0, 0);
    T_EQ(spec->model->edition, MODEL_EDITION_FRAGMENTS);
    wire_free(&spec->base);
    spec = checked(JOB(TEST_DATA, "'train':{'mode':'local','contributions':6,"
                                  "'quorum':4,'fragments':2}"));
    T_NEAR(spec_inner(spec->train).blend, 0, 0);
    wire_free(&spec->base);
    // A fragment is the whole, and leaves while the worker computes.
    spec = checked(JOB(TEST_DATA, "'train':{'mode':'local','contributions':6,"
                                  "'quorum':4,'overlap':99}"));
    T_TRUE(spec_streams(spec->train));
    T_FALSE(spec_sets(spec->train));
    wire_free(&spec->base);
}

#define MOMENTS(optimizer, rest)                                               \
    "{" NAME "," MODEL "," LOSS ",'optimizer':" optimizer "," TEST_DATA        \
    "," rest "}"

TEST(spec, local_moments_may_be_stored)
{
    Sluice__V1__JobSpec *spec =
        checked(MOMENTS("{'type':'adam'}", "'train':{'mode':'local',"
                                           "'inner':{'moments':'store'}}"));
    struct spec_moments m = spec_moments(spec);

    T_TRUE(spec_inner(spec->train).keep);
    T_EQ(m.vectors, 2);
    T_EQ(m.wire, WIRE_F32);
    T_EQ(m.every, 16);
    T_EQ(spec->model->edition, MODEL_EDITION_MOMENTS);
    // Values, one slot, two contributions, the values before; moments twice.
    T_EQ(spec_kept_vectors(spec), 9);
    wire_free(&spec->base);
    spec = checked(
        MOMENTS("{'type':'adam'}",
                "'train':{'mode':'local','quorum':1,"
                "'inner':{'moments':'store','moments_every':3,'up':'e3m0',"
                "'closure':25}}"));
    m = spec_moments(spec);
    T_EQ(m.wire, WIRE_BF16);
    T_EQ(m.every, 12); // closures
    // Values, two slots, the sum; moments twice, of half the size.
    T_EQ(spec_kept_vectors(spec), 6);
    wire_free(&spec->base);
    spec = checked(MOMENTS("{'type':'adam'}",
                           "'train':{'mode':"
                           "'local','inner':{'moments':'keep'}}"));
    T_EQ(spec_moments(spec).vectors, 0);
    wire_free(&spec->base);
    spec = checked(MOMENTS("{'type':'adam'}", "'train':{}"));
    T_EQ(spec_moments(spec).vectors, 0);
    wire_free(&spec->base);
}

TEST(spec, local_refuses_moments_that_nothing_keeps)
{
    refused(MOMENTS("{'type':'sgd'}", "'train':{'mode':'local',"
                                      "'inner':{'moments':'store'}}"),
            "train.inner.moments: sgd as it is set keeps no state between "
            "steps; leave it out");
    refused(MOMENTS("{'type':'adam'}", "'train':{'mode':'local',"
                                       "'inner':{'moments_every':4}}"),
            "train.inner.moments_every: says how often moments are left with "
            "the psservers; set train.inner.moments: store, or leave it out");
    refused(MOMENTS("{'type':'adam'}",
                    "'train':{'mode':'local',"
                    "'inner':{'moments':'store','moments_every':0}}"),
            "train.inner.moments_every: wants 1 to 1048576, got 0");
    refused("{" NAME ",'data':{'train':{'samples':100}},'model':{'type':"
            "'external','variables':[{'name':'w','shape':[3]}]},'train':"
            "{'mode':'local','inner':{'moments':'store'}}}",
            "train.inner.moments: a program has its optimizer's state itself; "
            "take reset or keep, and save it there");
}

#define STREAM(more)                                                           \
    JOB(TEST_DATA, "'train':{'mode':'local','contributions':6,'quorum':4,"     \
                   "'fragments':4" more "}")

TEST(spec, local_refuses_what_fragments_cannot_do)
{
    refused(STREAM(",'inner':{'steps':30}"),
            "train.fragments: wants a divisor of train.inner.steps, which is "
            "30, got 4");
    refused(STREAM(",'overlap':25"),
            "train.overlap: what was pushed has to come before the next is "
            "pushed, 25 steps later (train.inner.steps / train.fragments), got "
            "25");
    refused(STREAM(",'inner':{'closure':50}"),
            "train.inner.closure: one fragment leaves after each, so it is "
            "train.inner.steps / train.fragments, 25, got 50; leave it out");
    refused(STREAM(",'inner':{'moments':'reset'}"),
            "train.inner.moments: contributions of fragments, or with an "
            "overlap, have no common beginning; take keep or store, or leave "
            "it out");
    refused(STREAM(",'inner':{'pace':'own'}"),
            "train.inner.pace: with train.fragments a fragment leaves after "
            "each closure, at its worker's own pace; leave it out");
    refused(STREAM(",'norm':'median'"),
            "train.norm: with train.fragments a part of a contribution leaves "
            "before all of it is known; leave it out");
    refused(STREAM(",'inner':{'blend':1}"),
            "train.inner.blend: wants a share of at least 0 and below 1, got "
            "1");
    refused(STREAM(",'max_norm_ratio':5"),
            "train.max_norm_ratio: with train.fragments a part of a "
            "contribution is applied before all of it is known; leave it out");
    refused(JOB(TEST_DATA, "'train':{'mode':'local','fragments':4}"),
            "train.fragments: a round whose slots are fixed waits for whole "
            "contributions; set train.quorum below train.contributions, or "
            "leave it out");
    refused(JOB(TEST_DATA, "'train':{'mode':'local','inner':{'blend':0.5}}"),
            "train.inner.blend: a contribution without train.overlap or "
            "train.fragments begins with the psservers' parameters; leave it "
            "out");
    refused(JOB(TEST_DATA, "'train':{'mode':'async','overlap':2}"),
            "train.overlap: says something of local alone, and train.mode is "
            "async");
}

// The first group that a name fits; what it does not say is the optimizer's.
TEST(spec, groups_of_variables)
{
    Sluice__V1__JobSpec *spec = checked(
        "{" NAME ",'data':{'train':{'samples':100}},'model':{'type':"
        "'external','variables':[{'name':'a.weight','shape':[3]},{'name':"
        "'a.bias','shape':[3]},{'name':'norm1','shape':[3]}]},'train':{'mode':"
        "'allreduce'},'optimizer':{'type':'adamw','learning_rate':0.5,'groups':"
        "[{'variables':['*.bias','n?rm*'],'weight_decay':0},{'variables':['a*']"
        ","
        "'beta_1':0.8,'learning_rate_scale':0.1}]}}");
    const Sluice__V1__OptimizerSpec *o = spec->optimizer;
    struct spec_optimizer is;
    double scale;

    T_EQ(spec->model->edition, 4); // older ranks would update otherwise
    T_EQ(spec_optimizer_group(o, "a.bias"), 1);
    T_EQ(spec_optimizer_group(o, "a.weight"), 2);
    T_EQ(spec_optimizer_group(o, "norm"), 1);
    T_EQ(spec_optimizer_group(o, "nrm"), 0);
    T_EQ(spec_optimizer_group(o, "b.bias.x"), 0);
    T_OK(spec_optimizer_of(&is, &scale, o, 0, t_err()));
    T_NEAR(is.optim.weight_decay, 0.004, 0);
    T_NEAR(scale, 1, 0);
    T_OK(spec_optimizer_of(&is, &scale, o, 1, t_err()));
    T_NEAR(is.optim.weight_decay, 0, 0);
    T_NEAR(is.optim.beta_1, 0.9, 0);
    T_OK(spec_optimizer_of(&is, &scale, o, 2, t_err()));
    T_NEAR(is.optim.weight_decay, 0.004, 0);
    T_NEAR(is.optim.beta_1, 0.8, 0);
    T_NEAR(scale, 0.1, 0);
    wire_free(&spec->base);
}

// Ranks apply the optimizer, psservers else: then no worker must know it.
TEST(spec, a_rank_must_know_the_optimizer)
{
    static const char *const modes[] = {"async", "allreduce"};

    for (unsigned i = 0; i < SL_COUNT(modes); i++) {
        char text[500];
        Sluice__V1__JobSpec *spec;

        snprintf(text, sizeof(text),
                 "{" NAME "," EXTERNAL ",'train':{'mode':'%s'},"
                 "'optimizer':{'type':'adamax'}}",
                 modes[i]);
        spec = checked(text);
        T_EQ(spec->model->edition, i == 0 ? 0 : 7);
        wire_free(&spec->base);
    }
}

// Stars that could be anywhere are no reason to take long.
TEST(spec, a_name_with_many_stars_is_compared_at_once)
{
    char name[200], text[700];
    ProtobufCMessage *m;

    memset(name, 'a', sizeof(name) - 1);
    name[sizeof(name) - 1] = '\0';
    snprintf(text, sizeof(text),
             "{" NAME ",'data':{'train':{'samples':9}},'model':{'type':"
             "'external','variables':[{'name':'%s','shape':[1]}]},'optimizer':"
             "{'type':'sgd','groups':[{'weight_decay':1,'variables':["
             "'a*a*a*a*a*a*a*a*a*a*a*a*a*a*a*a*a*a*a*a*a*a*a*a*b']}]}}",
             name);
    m = t_make(SPEC, text);
    T_FAILS(SL_EINVAL, spec_check((void *)m, t_err()));
    wire_free(m);
}
