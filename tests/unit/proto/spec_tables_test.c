// SPDX-License-Identifier: Apache-2.0
// Tables of a spec: what is filled in, and what is refused with its reason.
#include "plan/tables.h"
#include "proto/spec.h"
#include "tests/unit/proto/t_proto.h"

#define SPEC &sluice__v1__job_spec__descriptor
#define SAMPLES "'data':{'train':{'samples':1000}}"
#define SGD "'optimizer':{'type':'sgd','learning_rate':0.5,'momentum':0.9}"
#define VARIABLES "'type':'external','variables':[{'name':'w','shape':[3]}]"

// Makes a job of these tables; `rest` begins with a comma.
static Sluice__V1__JobSpec *tables_make(const char *tables, const char *rest)
{
    char text[4000];

    snprintf(text, sizeof(text),
             "{'name':'a','model':{" VARIABLES ",'tables':[%s]}%s}", tables,
             rest);
    return (void *)t_make(SPEC, text);
}

static Sluice__V1__JobSpec *tables_checked(const char *tables, const char *rest)
{
    Sluice__V1__JobSpec *spec = tables_make(tables, rest);

    T_OK(spec_check(spec, t_err()));
    return spec;
}

static void tables_refused(const char *tables, const char *rest,
                           const char *why)
{
    Sluice__V1__JobSpec *spec = tables_make(tables, rest);
    struct sl_error err = SL_ERROR_INIT;

    T_FAILS(SL_EINVAL, spec_check(spec, &err));
    T_STR(err.text, why);
    wire_free(&spec->base);
}

TEST(spec_tables, a_table_that_says_little_gets_the_rest)
{
    Sluice__V1__JobSpec *spec = tables_checked(
        "{'name':'users','dim':16},{'name':'w2','dim':3}", "," SGD "," SAMPLES);
    Sluice__V1__Table t;

    for (int again = 0; again < 2; again++) {
        T_EQ(spec->model->edition, MODEL_EDITION_TABLES);
        T_EQ(spec->model->n_tables, 2);
        spec_table(&t, spec, 0);
        T_STR(t.name, "users");
        T_EQ(t.dim, 16);
        T_EQ(t.buckets, TABLE_BUCKETS);
        T_EQ(t.init, SLUICE__V1__INIT_KIND__INIT_UNIFORM);
        T_NEAR(t.init_a, -0.05, 1e-12);
        T_NEAR(t.init_b, 0.05, 1e-12);
        T_STR(t.optimizer->type, "sgd");
        T_NEAR(t.optimizer->momentum, 0.9, 1e-12);
        T_NEAR(t.scale, 1, 1e-12);
        T_EQ(t.min_count, 1);
        T_NEAR(t.probability, 1, 0);
        T_EQ(t.max_rows + t.unused_steps, 0);
        T_NEAR(t.least_norm, 0, 0);
        T_OK(spec_check(spec, t_err()));
    }
    wire_free(&spec->base);
}

TEST(spec_tables, a_model_may_have_tables_alone)
{
    static const char job[] =
        "{'name':'a','model':{'type':'external','tables':[{'name':'users',"
        "'dim':16}]}," SGD "," SAMPLES "%s}";
    static const char *const wrong[] = {
        ",'placement':{'partitioner':'fixed','shards':2}",
        ",'placement':{'shard_bytes':1048576}",
    };
    struct sl_error err = SL_ERROR_INIT;
    char text[1000];
    Sluice__V1__JobSpec *spec;

    snprintf(text, sizeof(text), job, ",'placement':{'psservers':2}");
    spec = (void *)t_make(SPEC, text);
    for (int again = 0; again < 2; again++) {
        T_OK(spec_check(spec, t_err()));
        T_EQ(spec->model->edition, MODEL_EDITION_BESIDE);
        T_TRUE(spec_rows_only(spec));
    }
    wire_free(&spec->base);
    for (size_t i = 0; i < SL_COUNT(wrong); i++) {
        snprintf(text, sizeof(text), job, wrong[i]);
        spec = (void *)t_make(SPEC, text);
        T_FAILS(SL_EINVAL, spec_check(spec, &err));
        T_HAS(err.text, "placement: it says how variables are cut");
        wire_free(&spec->base);
    }
    spec = (void *)t_make(
        SPEC, "{'name':'a','model':{'type':'external','tables':[{'name':"
              "'users','dim':16}]},'optimizer':{'type':'adam','learning_rate':"
              "0.1,'groups':[{'variables':['*.bias']}]}," SAMPLES "}");
    T_FAILS(SL_EINVAL, spec_check(spec, &err));
    T_HAS(err.text, "optimizer.groups: they are of variables");
    wire_free(&spec->base);
    snprintf(text, sizeof(text), job,
             ",'train':{'mode':'allreduce','contributions':2}");
    spec = (void *)t_make(SPEC, text);
    T_FAILS(SL_EINVAL, spec_check(spec, &err));
    T_HAS(err.text, "the model has tables alone; list model.variables");
    wire_free(&spec->base);
}

TEST(spec_tables, a_table_that_says_all_is_told_so)
{
    Sluice__V1__JobSpec *spec = tables_checked(
        "{'name':'a/b','dim':4,'buckets':10,'initializer':'lecun_normal',"
        "'optimizer':{'type':'ftrl','learning_rate':0.25,'l1':0.1,'l2':0.2,"
        "'l2_shrinkage':0.3,'beta':0.4,'learning_rate_power':-0.25},"
        "'admit':{'min_count':3,'probability':0.5},'evict':{'max_rows':99,"
        "'unused_steps':7,'least_norm':0.01}}",
        "," SGD "," SAMPLES);
    Sluice__V1__Table t;

    spec_table(&t, spec, 0);
    T_EQ(t.buckets, 10);
    T_EQ(t.init, SLUICE__V1__INIT_KIND__INIT_TRUNCATED_NORMAL);
    T_NEAR(t.init_b, 0.5 / 0.87962566103423978, 1e-9);
    T_NEAR(t.scale, 0.5, 1e-12);
    T_NEAR(t.optimizer->l1 + t.optimizer->l2, 0.3, 1e-12);
    T_NEAR(t.optimizer->l2_shrinkage + t.optimizer->beta, 0.7, 1e-12);
    T_NEAR(t.optimizer->learning_rate_power, -0.25, 0);
    T_NEAR(t.optimizer->initial_accumulator_value, 0.1, 1e-12);
    T_EQ(t.min_count, 3);
    T_NEAR(t.probability, 0.5, 0);
    T_EQ(t.max_rows, 99);
    T_EQ(t.unused_steps, 7);
    T_NEAR(t.least_norm, 0.01, 1e-12);
    wire_free(&spec->base);
}

// FBGEMM's numbers, and Keras' of an optimizer that variables have as well.
TEST(spec_tables, an_optimizer_has_its_own_defaults)
{
    Sluice__V1__JobSpec *spec = tables_checked(
        "{'name':'a','dim':4,'optimizer':{'type':'rowwise_adagrad'}},"
        "{'name':'b','dim':4,'optimizer':{'type':'adam'}}",
        "," SGD "," SAMPLES);
    Sluice__V1__Table t;

    spec_table(&t, spec, 0);
    T_NEAR(t.scale, 0.02, 1e-12);
    T_NEAR(t.optimizer->epsilon, 1e-8, 0);
    T_NEAR(t.optimizer->initial_accumulator_value, 0, 0);
    spec_table(&t, spec, 1);
    T_NEAR(t.scale, 0.002, 1e-12);
    T_NEAR(t.optimizer->beta_2, 0.999, 1e-12);
    wire_free(&spec->base);
}

// A schedule multiplies both rates; what they are compared at is its first
// rate, or the one at which its warm-up ends.
TEST(spec_tables, a_rate_is_compared_with_the_schedules)
{
    static const struct {
        const char *optimizer;
        double rate;
    } cases[] = {
        {"'schedule':{'type':'piecewise_constant_decay','boundaries':[5],"
         "'values':[0.25,0.1]}",
         0.25},
        {"'learning_rate':0,'schedule':{'type':'cosine_decay','decay_steps':9,"
         "'warmup_steps':3,'warmup_target':2}",
         2},
        {"'learning_rate':4,'schedule':{'type':'exponential_decay',"
         "'decay_steps':9,'decay_rate':0.5}",
         4},
    };

    for (size_t i = 0; i < SL_COUNT(cases); i++) {
        Sluice__V1__JobSpec *spec;
        Sluice__V1__Table t;
        char rest[500];

        snprintf(rest, sizeof(rest), ",'optimizer':{'type':'sgd',%s}," SAMPLES,
                 cases[i].optimizer);
        spec = tables_checked("{'name':'a','dim':1,'optimizer':{'type':'sgd',"
                              "'learning_rate':1}},{'name':'b','dim':1}",
                              rest);
        spec_table(&t, spec, 0);
        T_NEAR(t.scale, 1 / cases[i].rate, 1e-12);
        spec_table(&t, spec, 1);
        T_NEAR(t.scale, 1, 1e-12);
        T_TRUE(t.optimizer->schedule == NULL);
        T_OK(spec_check(spec, t_err()));
        wire_free(&spec->base);
    }
}

// ---- refusals

#define T0 "model.tables[0] (a): "

TEST(spec_tables, wrong_tables)
{
    static const struct {
        const char *table, *why;
    } wrong[] = {
        {"{'dim':4}",
         "model.tables[0].name: wants 1 to 200 letters, digits or any of "
         "_-./:"},
        {"{'name':'a#b','dim':4}",
         "model.tables[0].name: wants 1 to 200 letters, digits or any of "
         "_-./:"},
        {"{'name':'a','dim':4},{'name':'a','dim':4}",
         "model.tables[1].name: 'a' is the name of another table, or of a "
         "variable; choose another"},
        {"{'name':'w','dim':4}",
         "model.tables[0].name: 'w' is the name of another table, or of a "
         "variable; choose another"},
        {"{'name':'a'}", T0 "dim is missing: the numbers of a row, e.g. dim: "
                            "16"},
        {"{'name':'a','dim':0}", T0 "dim: wants 1 to 4096, got 0"},
        {"{'name':'a','dim':4097}", T0 "dim: wants 1 to 4096, got 4097"},
        {"{'name':'a','dim':4,'buckets':0}",
         T0 "buckets: wants 1 to 65536, got 0"},
        {"{'name':'a','dim':4,'buckets':65537}",
         T0 "buckets: wants 1 to 65536, got 65537"},
        {"{'name':'a','dim':4,'admit':{'min_count':0}}",
         T0 "admit.min_count: wants 1 to 1000000, got 0"},
        {"{'name':'a','dim':4,'admit':{'probability':0}}",
         T0 "admit.probability: wants a number in (0, 1], got 0"},
        {"{'name':'a','dim':4,'admit':{'probability':1.5}}",
         T0 "admit.probability: wants a number in (0, 1], got 1.5"},
        {"{'name':'a','dim':4,'evict':{'max_rows':1099511627777}}",
         T0 "evict.max_rows: wants 0 to 1099511627776, got 1099511627777"},
        {"{'name':'a','dim':4,'evict':{'unused_steps':4294967295}}",
         T0 "evict.unused_steps: wants 0 to 4294967294, got 4294967295"},
        {"{'name':'a','dim':4,'evict':{'least_norm':-1}}",
         T0 "evict.least_norm: wants a number of at least 0, got -1"},
        {"{'name':'a','dim':4,'optimizer':{}}",
         T0 "optimizer.type is missing; known are sgd, adam, adamw, adamax, "
            "adagrad, rmsprop, nadam, lion, lamb, muon, rowwise_adagrad, ftrl"},
        {"{'name':'a','dim':4,'optimizer':{'type':'rowwise_adagard'}}",
         T0 "optimizer.type: unknown 'rowwise_adagard'; did you mean "
            "'rowwise_adagrad'?"},
        {"{'name':'a','dim':4,'optimizer':{'type':'ftrl','epsilon':1}}",
         T0 "optimizer: takes no 'epsilon' with ftrl"},
        {"{'name':'a','dim':4,'optimizer':{'type':'rowwise_adagrad','l1':1}}",
         T0 "optimizer: takes no 'l1' with rowwise_adagrad"},
        {"{'name':'a','dim':4,'optimizer':{'type':'adam','l1':1}}",
         T0 "optimizer: takes no 'l1' with adam"},
        {"{'name':'a','dim':4,'optimizer':{'type':'ftrl',"
         "'learning_rate_power':0.5}}",
         T0 "optimizer.learning_rate_power: wants a number in [-1, 0], got "
            "0.5"},
        {"{'name':'a','dim':4,'optimizer':{'type':'ftrl','l2':-1}}",
         T0 "optimizer.l2: wants a number of at least 0, got -1"},
        {"{'name':'a','dim':4,'optimizer':{'type':'sgd','learning_rate':0}}",
         T0 "optimizer.learning_rate: wants a number above 0, got 0"},
        {"{'name':'a','dim':4,'optimizer':{'type':'sgd','learning_rate':1e9}}",
         T0 "optimizer.learning_rate over the job's: wants a number in [0, "
            "1e+06], got 2e+09"},
        {"{'name':'a','dim':4,'optimizer':{'type':'sgd','schedule':{'type':"
         "'cosine_decay','decay_steps':5}}}",
         T0 "optimizer.schedule: not of a table; its rate follows that of the "
            "job, and clipvalue clips its gradients"},
        {"{'name':'a','dim':4,'optimizer':{'type':'sgd','clipnorm':1}}",
         T0 "optimizer.clipnorm: not of a table; its rate follows that of the "
            "job, and clipvalue clips its gradients"},
        {"{'name':'a','dim':4,'optimizer':{'type':'muon'}}",
         T0 "optimizer.type: muon looks at whole variables, which psservers "
            "alone have, and rows are updated one by one; take another one"},
        {"{'name':'a','dim':4,'optimizer':{'type':'ftrl','global_clipnorm':1}}",
         T0 "optimizer.global_clipnorm: not of a table; its rate follows that "
            "of the job, and clipvalue clips its gradients"},
        {"{'name':'a','dim':4,'optimizer':{'type':'sgd','groups':[{"
         "'variables':['*'],'momentum':0}]}}",
         T0 "optimizer.groups: not of a table; its rate follows that of the "
            "job, and clipvalue clips its gradients"},
    };

    for (size_t i = 0; i < SL_COUNT(wrong); i++)
        tables_refused(wrong[i].table, "," SGD "," SAMPLES, wrong[i].why);
}

TEST(spec_tables, jobs_that_tables_do_not_go_with)
{
    static const char *const table = "{'name':'a','dim':4}";
    static const struct {
        const char *rest, *why;
    } wrong[] = {
        {"," SGD "," SAMPLES ",'train':{'mode':'hybrid'}",
         "model.tables: programs have tables in mode async or allreduce, and "
         "train.mode is hybrid; take one of these, or layers with 'rows: "
         "dynamic'"},
        {"," SAMPLES ",'train':{'mode':'local'}",
         "model.tables: programs have tables in mode async or allreduce, and "
         "train.mode is local; take one of these"},
        {"," SGD "," SAMPLES ",'train':{'mode':'sync'}",
         "train.mode: sync is for models of layers; programs of the user's "
         "train in async, hybrid, local, or in allreduce, where no gradient is "
         "late either"},
        {"," SGD "," SAMPLES ",'train':{'mode':'allreduce'}",
         "train.contributions: say how many steps are one update (or "
         "train.workers.max), as the job has tables"},
        {"," SGD "," SAMPLES ",'train':{'mode':'allreduce','contributions':2,"
         "'steps_per_closure':4}",
         "train.steps_per_closure: wants 1 in allreduce with tables, where a "
         "closure is one contribution, got 4"},
        {"," SGD "," SAMPLES ",'train':{'staleness':'dc','max_delay':4}",
         "model.tables: train.staleness is dc, which wants the parameters as "
         "they were read, and rows are not kept; take inverse"},
        {"," SGD "," SAMPLES ",'train':{'accumulate':2}",
         "train.accumulate: the model is external, so its own program decides "
         "that; set train.batch to the samples of a step"},
        {"," SGD ",'data':{'train':{'samples':4294967296}},'train':{'batch':2,"
         "'epochs':2}",
         "model.tables: the job has 4294967296 steps, and one with tables at "
         "most 4294967294; take fewer epochs, or a larger train.batch"},
        {",'optimizer':{'type':'sgd','schedule':{'type':"
         "'piecewise_constant_decay','boundaries':[5],'values':[0,1]}}"
         "," SAMPLES,
         "model.tables: a table's learning rate is a multiple of the job's, "
         "which begins with 0; begin optimizer.schedule with a rate above 0"},
        {",'optimizer':{'type':'sgd','clipnorm':1}," SAMPLES,
         T0 "optimizer is missing, and the job's has clipnorm, which rows have "
            "not; say one, e.g. {type: rowwise_adagrad}"},
        {",'optimizer':{'type':'ftrl'}," SAMPLES,
         "optimizer.type: unknown 'ftrl'; known are sgd, adam, adamw, adamax, "
         "adagrad, rmsprop, nadam, lion, lamb, muon"},
    };

    for (size_t i = 0; i < SL_COUNT(wrong); i++)
        tables_refused(table, wrong[i].rest, wrong[i].why);
}

TEST(spec_tables, layers_have_none)
{
    Sluice__V1__JobSpec *spec = (void *)t_make(
        SPEC, "{'name':'a','model':{'input_shape':[4],'layers':[{'type':"
              "'dense','units':1}],'tables':[{'name':'a','dim':4}]},'loss':"
              "'mean_squared_error','optimizer':{'type':'sgd'},'data':{'train':"
              "{'format':'synthetic','generator':'binary','samples':100}}}");
    struct sl_error err = SL_ERROR_INIT;

    T_FAILS(SL_EINVAL, spec_check(spec, &err));
    T_STR(err.text, "model.tables: only an external model (type: external) "
                    "lists tables; a layer has rows of one by 'rows: dynamic' "
                    "(embedding)");
    wire_free(&spec->base);
}

// ---- tables of layers

#define LAYER_E                                                                \
    "'type':'embedding','name':'users','rows':'dynamic','ids':'user',"         \
    "'output_dim':8"
#define IDS "'format':'csv','x':'/a.csv','header':true,'label_column':'y'"

// A net of one layer with rows; `rest` and `job` begin with a comma, or are
// empty.
static Sluice__V1__JobSpec *layers_make(const char *rest, const char *job)
{
    char text[4000];

    snprintf(text, sizeof(text),
             "{'name':'a','model':{'input_shape':[2],'layers':[{" LAYER_E
             "%s},{'type':'dense','units':1}]},'loss':'mean_squared_error',"
             "'optimizer':{'type':'sgd','learning_rate':0.5},'data':{'train':"
             "{" IDS ",'ids':['user']}}%s}",
             rest, job);
    return (void *)t_make(SPEC, text);
}

// A worker gets its spec in a message, and looks at what it reads of it.
TEST(spec_tables, data_fit_layers_that_read_their_ids)
{
    Sluice__V1__JobSpec *spec = layers_make("", "");
    Sluice__V1__SourceSpec test = SLUICE__V1__SOURCE_SPEC__INIT;
    struct sl_error err = SL_ERROR_INIT;
    struct model *m = NULL;
    char *name;

    T_OK(spec_check(spec, t_err()));
    T_OK(model_make(&m, spec->model, t_err()));
    T_OK(spec_data_fits(spec, m, t_err()));
    test.format = spec->data->train->format;
    spec->data->test = &test;
    T_FAILS(SL_EINVAL, spec_data_fits(spec, m, &err));
    T_HAS(err.text, "data.test.ids: wants the columns of data.train.ids");
    spec->data->test = NULL;
    name = spec->data->train->ids[0]->name;
    spec->data->train->ids[0]->name = (char *)(uintptr_t) "item";
    T_FAILS(SL_EINVAL, spec_data_fits(spec, m, &err));
    T_HAS(err.text, "user");
    spec->data->train->ids[0]->name = name;
    model_free(m);
    wire_free(&spec->base);
}

TEST(spec_tables, a_layer_makes_one)
{
    Sluice__V1__JobSpec *spec =
        layers_make(",'combiner':'sqrtn','buckets':9,"
                    "'embeddings_initializer':'random_normal(1, 0.25)',"
                    "'optimizer':{'type':'ftrl','learning_rate':0.25},"
                    "'admit':{'min_count':3},'evict':{'max_rows':99}",
                    "");
    Sluice__V1__Table t;

    for (int again = 0; again < 2; again++) {
        T_OK(spec_check(spec, t_err()));
        T_EQ(spec->model->edition, MODEL_EDITION_ROWS);
        T_EQ(spec->model->n_tables, 1);
        spec_table(&t, spec, 0);
        T_STR(t.name, "users");
        T_EQ(t.dim, 8);
        T_EQ(t.buckets, 9);
        T_EQ(t.init, SLUICE__V1__INIT_KIND__INIT_NORMAL);
        T_NEAR(t.init_a, 1, 0);
        T_NEAR(t.init_b, 0.25, 0);
        T_STR(t.optimizer->type, "ftrl");
        T_NEAR(t.scale, 0.5, 1e-12);
        T_EQ(t.min_count, 3);
        T_EQ(t.max_rows, 99);
    }
    spec->model->tables[0]->buckets = 10;
    T_FAILS(SL_EINVAL, spec_check(spec, t_err()));
    wire_free(&spec->base);
}

TEST(spec_tables, rows_of_a_layer_may_begin_with_ones)
{
    Sluice__V1__JobSpec *spec =
        layers_make(",'embeddings_initializer':'ones'", "");
    Sluice__V1__Table t;

    T_OK(spec_check(spec, t_err()));
    spec_table(&t, spec, 0);
    T_EQ(t.init, SLUICE__V1__INIT_KIND__INIT_CONSTANT);
    T_NEAR(t.init_a, 1, 0);
    wire_free(&spec->base);
}

// The first check says so, before it lists the tables of layers.
TEST(spec_tables, shards_with_rows_of_layers_have_no_replica)
{
    Sluice__V1__JobSpec *spec = layers_make("", ",'placement':{'replicas':1}");
    struct sl_error err = SL_ERROR_INIT;

    T_FAILS(SL_EINVAL, spec_check(spec, &err));
    T_STR(err.text, "placement.replicas: a shard with rows of tables has none; "
                    "leave replicas out");
    wire_free(&spec->base);
}

// Its psservers hold rows until a round is whole, and it is audited as any job
// of rounds.
TEST(spec_tables, a_job_of_rounds_may_have_layers_with_rows)
{
    Sluice__V1__JobSpec *spec =
        layers_make("", ",'train':{'mode':'sync','contributions':4}");

    for (int again = 0; again < 2; again++) {
        T_OK(spec_check(spec, t_err()));
        T_EQ(spec->model->edition, MODEL_EDITION_ROUNDS);
        T_TRUE(spec_audit(spec->train) == 0.001);
    }
    wire_free(&spec->base);
}

// What rows travel as is the job's word, and else that of its parameters.
TEST(spec_tables, rows_may_travel_otherwise_than_parameters)
{
    static const struct {
        const char *train;
        enum wire_type rows;
        unsigned edition;
    } jobs[] = {
        {"", WIRE_F32, MODEL_EDITION_TABLES},
        {",'train':{'wire':'f16'}", WIRE_F16, MODEL_EDITION_TABLES},
        {",'train':{'wire':'f16','rows_wire':'f32'}", WIRE_F32,
         MODEL_EDITION_TABLES},
        {",'train':{'rows_wire':'int8'}", WIRE_INT8, MODEL_EDITION_INT8},
        {",'train':{'wire':'bf16','rows_wire':'int8'}", WIRE_INT8,
         MODEL_EDITION_INT8},
    };

    for (size_t i = 0; i < SL_COUNT(jobs); i++) {
        char rest[200];
        Sluice__V1__JobSpec *spec;

        snprintf(rest, sizeof(rest), "," SGD "," SAMPLES "%s", jobs[i].train);
        spec = tables_checked("{'name':'users','dim':16}", rest);
        T_EQ(spec_rows_wire(spec), jobs[i].rows);
        T_NE(spec_wire(spec), WIRE_INT8);
        T_EQ(spec->model->edition, jobs[i].edition);
        wire_free(&spec->base);
    }
    tables_refused("{'name':'users','dim':16}",
                   "," SGD "," SAMPLES ",'train':{'rows_wire':'int4'}",
                   "train.rows_wire: unknown 'int4'; did you mean 'int8'?");
    tables_refused("", "," SGD "," SAMPLES ",'train':{'rows_wire':'int8'}",
                   "train.rows_wire: int8, but the job has no tables; leave it "
                   "out, or say train.wire");
    tables_refused("{'name':'users','dim':16}",
                   "," SGD "," SAMPLES ",'train':{'wire':'int8'}",
                   "train.wire: unknown 'int8'; known are f32, bf16, f16");
}

// A worker of an older version takes the rows of a step's last micro-batch
// alone.
TEST(spec_tables, steps_of_micro_batches_are_for_workers_that_know_them)
{
    static const char *const jobs[] = {
        ",'train':{'mode':'hybrid'}",
        ",'train':{'accumulate':2,'batch':4}",
        ",'train':{'mode':'sync','contributions':4,'accumulate':2,'batch':4}",
    };

    for (size_t i = 0; i < SL_COUNT(jobs); i++) {
        Sluice__V1__JobSpec *spec = layers_make("", jobs[i]);

        T_OK(spec_check(spec, t_err()));
        T_EQ(spec->model->edition, MODEL_EDITION_PARTS);
        wire_free(&spec->base);
    }
}

// An older worker would audit these from rows that have changed meanwhile.
TEST(spec_tables, audits_of_rows_are_for_workers_that_keep_them)
{
    static const struct {
        const char *train;
        double audit;
        unsigned edition;
    } jobs[] = {
        {",'train':{'audit':0.5}", 0.5, MODEL_EDITION_AUDITED},
        {",'train':{'mode':'hybrid','audit':0.5}", 0.5, MODEL_EDITION_AUDITED},
        {",'train':{'accumulate':2,'batch':4,'audit':1,'rows_wire':'int8'}", 1,
         MODEL_EDITION_AUDITED},
        {",'train':{'mode':'sync','accumulate':2,'batch':4,'audit':0.5}", 0.5,
         MODEL_EDITION_AUDITED},
        {",'train':{'mode':'sync','audit':0.5}", 0.5, MODEL_EDITION_ROUNDS},
        {",'train':{'mode':'sync','accumulate':2,'batch':4}", 0,
         MODEL_EDITION_PARTS},
        {",'train':{'audit':0}", 0, MODEL_EDITION_ROWS},
    };

    for (size_t i = 0; i < SL_COUNT(jobs); i++) {
        Sluice__V1__JobSpec *spec = layers_make("", jobs[i].train);

        T_OK(spec_check(spec, t_err()));
        T_EQ(spec->model->edition, jobs[i].edition);
        T_TRUE(spec_audit(spec->train) == jobs[i].audit);
        wire_free(&spec->base);
    }
}

TEST(spec_tables, a_ring_beside_tables_has_rounds_of_known_closures)
{
    static const char *const jobs[] = {
        ",'train':{'mode':'allreduce','contributions':4}",
        ",'train':{'mode':'allreduce','workers':{'max':4}}",
    };

    for (size_t i = 0; i < SL_COUNT(jobs); i++) {
        Sluice__V1__JobSpec *spec = layers_make("", jobs[i]);

        T_OK(spec_check(spec, t_err()));
        T_TRUE(spec_ring_rows(spec));
        T_EQ(spec->model->edition, MODEL_EDITION_BESIDE_RINGS);
        T_EQ(spec->train->contributions, 4);
        T_EQ(spec->train->steps_per_closure, 1);
        T_TRUE(spec_audit(spec->train) == 0);
        wire_free(&spec->base);
    }
}

TEST(spec_tables, programs_that_are_ranks_know_tables)
{
    Sluice__V1__JobSpec *spec =
        tables_checked("{'name':'users','dim':4}",
                       "," SGD "," SAMPLES
                       ",'train':{'mode':'allreduce','workers':{'max':3}}");

    T_TRUE(spec_ring_rows(spec));
    T_EQ(spec->model->edition, MODEL_EDITION_RING_PROGRAMS);
    T_EQ(spec->train->contributions, 3);
    T_EQ(spec->train->steps_per_closure, 1);
    wire_free(&spec->base);
}

static void layers_refused(const char *rest, const char *job, const char *why)
{
    Sluice__V1__JobSpec *spec = layers_make(rest, job);
    struct sl_error err = SL_ERROR_INIT;

    T_FAILS(SL_EINVAL, spec_check(spec, &err));
    T_STR(err.text, why);
    wire_free(&spec->base);
}

TEST(spec_tables, what_a_layer_cannot_have_is_refused)
{
#define E0 "layer 'users' (embedding) "
    static const struct {
        const char *rest, *job, *why;
    } wrong[] = {
        {",'input_dim':3", "",
         E0 "takes no 'input_dim' beside 'rows: dynamic'"},
        {",'inputs':['input']", "",
         E0 "takes no 'inputs' beside 'rows: dynamic'"},
        {",'combiner':'max'", "",
         E0 "wants 'combiner' sum, mean or sqrtn, got 'max'"},
        {",'buckets':0", "",
         "model.tables[0] (users): buckets: wants 1 to 65536, got 0"},
        {",'optimizer':{'type':'sgd','clipnorm':1}", "",
         "model.tables[0] (users): optimizer.clipnorm: not of a table; its "
         "rate follows that of the job, and clipvalue clips its gradients"},
        {"", ",'train':{'mode':'allreduce'}",
         "train.contributions: say how many steps are one update (or "
         "train.workers.max), as the job has tables"},
        {"",
         ",'train':{'mode':'allreduce','workers':{'max':2},"
         "'steps_per_closure':4}",
         "train.steps_per_closure: wants 1 in allreduce with tables, where a "
         "closure is one contribution, got 4"},
        {"", ",'train':{'mode':'allreduce','on_resize':'scale'}",
         "train.on_resize: a round of a job with tables has the same "
         "contributions whatever the workers; leave it out"},
        {"", ",'train':{'mode':'allreduce','contributions':2,'audit':0.5}",
         "train.audit: rounds of allreduce are not audited if the job has "
         "tables; leave it out"},
        {"", ",'train':{'mode':'allreduce','contributions':1025}",
         "train.contributions: wants 1 to 1024, got 1025"},
    };

    for (size_t i = 0; i < SL_COUNT(wrong); i++)
        layers_refused(wrong[i].rest, wrong[i].job, wrong[i].why);
#undef E0
}

static Sluice__V1__JobSpec *with_tables(size_t count)
{
    struct buf text = BUF_INIT;
    Sluice__V1__JobSpec *spec;

    T_OK(buf_appendf(&text, "{'name':'a','model':{" VARIABLES ",'tables':["));
    for (size_t i = 0; i < count; i++)
        T_OK(buf_appendf(&text, "%s{'name':'t%zu','dim':4}", i > 0 ? "," : "",
                         i));
    T_OK(buf_appendf(&text, "]}," SGD "," SAMPLES "}"));
    spec = (void *)t_make(SPEC, buf_text(&text));
    buf_release(&text);
    return spec;
}

TEST(spec_tables, there_is_a_most_of_them)
{
    Sluice__V1__JobSpec *spec = with_tables(TABLES_MOST);
    struct sl_error err = SL_ERROR_INIT;

    T_OK(spec_check(spec, t_err()));
    wire_free(&spec->base);
    spec = with_tables(TABLES_MOST + 1);
    T_FAILS(SL_EINVAL, spec_check(spec, &err));
    T_STR(err.text, "model.tables: wants 1 to 1000, got 1001");
    wire_free(&spec->base);
}
