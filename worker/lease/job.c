// SPDX-License-Identifier: Apache-2.0
// worker/lease/job.c -- the making of a job's model, data, programs and sync,
// each when it is first needed.
#include "worker/lease/job.h"

#include <inttypes.h>
#include <string.h>

#include "common/run/log.h"
#include "common/base/mem.h"
#include "kernels/beat.h"
#include "trainer/lease/hybrid.h"
#include "worker/lease/job_rank.h"
#include "trainer/push/sync_ps.h"

static const Sluice__V1__JobSpec *spec_of(const struct worker_job *j)
{
    return j->record->open->spec;
}

static enum sl_err job_read_spec(struct worker_job *j, struct sl_error *err)
{
    const Sluice__V1__JobSpec *spec = spec_of(j);
    const Sluice__V1__TrainSpec *train = spec->train;
    enum sl_err rc = model_make(&j->model, spec->model, err);

    if (rc != SL_OK)
        return rc;
    if (j->model->external)
        return sl_fail(err, SL_ENOTSUP,
                       "the job's model is external: its gradients come from "
                       "a program of the user's");
    // Data are read by what a message says, which may be anything.
    rc = spec_data_fits(spec, j->model, err);
    if (rc != SL_OK)
        return rc;
    if (spec->optimizer == NULL)
        return sl_fail(err, SL_EINVAL, "the job's optimizer is missing");
    j->loss = spec_loss(spec);
    j->heads_count = spec_heads(j->heads, spec);
    if (j->model->outputs != (j->heads_count > 0 ? j->heads_count : 1))
        return sl_fail(err, SL_EINVAL,
                       "the job has %zu losses and the model %u outputs",
                       spec->n_losses, j->model->outputs);
    j->nonfinite = nonfinite_rule(train);
    j->precision = spec_precision(spec);
    loss_scale_init(&j->scale, train->has_loss_scale ? train->loss_scale : 0,
                    j->record->open->loss_scale);
    return spec_optimizer(&j->optimizer, spec->optimizer, err);
}

// Sets the job's ranges: its shards, or the buckets that ranks sum one by one.
static enum sl_err make_ranges(struct worker_job *j, struct sl_error *err)
{
    const Sluice__V1__JobSpec *spec = spec_of(j);
    enum sl_err rc;

    j->ranges = j->record->shards;
    j->ranges_count = j->record->layout.shards_count;
    if (spec_hybrid(spec) && hybrid_new(&j->hybrid) != SL_OK)
        return sl_no_memory(err);
    if (!spec_allreduce(spec) || !j->record->placed)
        return SL_OK;
    rc = job_ring_new(&j->ring, j->model, spec->train->bucket_bytes);
    if (rc != SL_OK)
        return sl_fail(err, rc, "no memory");
    j->ranges = j->ring->buckets;
    j->ranges_count = j->ring->buckets_count;
    return SL_OK;
}

enum sl_err worker_job_new(struct worker_job **out, struct record *record,
                           const struct job_env *env, struct sl_error *err)
{
    struct worker_job *j = sl_calloc(1, sizeof(*j));
    enum sl_err rc;

    if (j == NULL)
        return sl_no_memory(err);
    j->record = record_ref(record);
    j->env = env;
    rc = job_read_spec(j, err);
    if (rc == SL_OK && record->placed)
        rc = record_fits(record, j->model, err);
    if (rc == SL_OK)
        rc = make_ranges(j, err);
    if (rc != SL_OK) {
        worker_job_free(j);
        return rc;
    }
    *out = j;
    return SL_OK;
}

static void program_drop(struct job_program *p)
{
    team_program_free(p->mates);
    device_program_free(p->placed);
    overlap_release(&p->overlap);
    program_free(p->program);
    memset(p, 0, sizeof(*p));
}

void worker_job_free(struct worker_job *j)
{
    if (j == NULL)
        return;
    if (j->device != NULL)
        // Waits until no step uses the vectors.
        (void)device_settle(j->device, NULL);
    if (j->sync != NULL) {
        record_attach(j->record, NULL);
        j->sync->ops->free(j->sync);
    }
    inner_free(j->inner);
    job_rows_free(j->rows);
    for (unsigned i = 0; i < JOB_PROGRAMS; i++)
        program_drop(&j->programs[i]);
    team_job_free(j->team);
    program_memory_release(&j->memory);
    job_rank_free(j);
    hybrid_free(j->hybrid);
    device_free(j->device);
    data_free(j->train);
    data_free(j->test);
    data_free(j->whole);
    sl_free(j->cut);
    model_free(j->model);
    record_unref(j->record);
    sl_free(j);
}

// ---- data

_Static_assert((uint64_t)SPEC_WEIGHT_MOST <= (uint64_t)DATA_WEIGHT_MOST,
               "a class weighs too much");
_Static_assert(SPEC_AUGMENT_MAX <= AUGMENT_MAX, "a spec has too many changes");
_Static_assert(SPEC_IDS_MAX <= IDS_COLUMNS_MAX, "a spec has too many ids");

// Returns the columns of ids of a source; sl_free'd. NULL: no memory.
static struct id_column *job_id_columns(const Sluice__V1__SourceSpec *s)
{
    struct id_column *ids = sl_malloc_array(s->n_ids, sizeof(*ids));

    for (size_t i = 0; ids != NULL && i < s->n_ids; i++)
        ids[i] = (struct id_column){.name = s->ids[i]->name,
                                    .hashed = s->ids[i]->hash != NULL,
                                    .seed = s->ids[i]->seed};
    return ids;
}

static enum data_decode job_decode(const char *word)
{
    static const char *const words[] = {
        [DATA_DECODE_JPEG] = "jpeg",
        [DATA_DECODE_PNG] = "png",
        [DATA_DECODE_RAW] = "raw",
    };

    for (unsigned i = DATA_DECODE_JPEG; word != NULL && i < SL_COUNT(words);
         i++)
        if (strcmp(word, words[i]) == 0)
            return (enum data_decode)i;
    return DATA_DECODE_AUTO;
}

// Returns a feature of a source as a plain value; `f` may be NULL.
static struct data_feature job_feature(const Sluice__V1__FeatureSpec *f)
{
    return f == NULL ? (struct data_feature){.key = NULL}
                     : (struct data_feature){.key = f->key,
                                             .field = f->field,
                                             .decode = job_decode(f->decode),
                                             .first = f->first};
}

static struct data_source job_data_source(const Sluice__V1__SourceSpec *s,
                                          const struct worker_job *j)
{
    const Sluice__V1__FeaturesSpec *f = s->features;

    return (struct data_source){
        .image = job_feature(f != NULL ? f->image : NULL),
        .number = job_feature(f != NULL ? f->x : NULL),
        .label = job_feature(f != NULL ? f->label : NULL),
        .roots = j->env->roots,
        .index = j->env->index,
        .bad = j->record->bad,
        .pulse = j->pulse,
        .format = s->format,
        .x = s->x,
        .y = s->y,
        .weights = s->sample_weight,
        .x_member = s->x_member,
        .y_member = s->y_member,
        .scale = s->has_scale ? s->scale : 1.0,
        .offset = s->offset,
        .header = s->header,
        .delimiter = s->delimiter != NULL ? s->delimiter[0] : '\0',
        .label_column = s->label_column,
        .label_columns = s->label_columns,
        .label_columns_count = s->n_label_columns,
        .columns = s->columns,
        .columns_count = s->n_columns,
        .ids_count = s->n_ids,
        .first_index = s->first_index,
        .samples = s->samples,
        .seed = s->seed,
        .generator = s->generator,
        .classes = s->classes,
        .names = spec_of(j)->data->classes,
        .names_count = spec_of(j)->data->n_classes,
        .depth = s->depth,
        .limit = s->limit,
    };
}

// Gives a test set of images the classes of the training set, which are read
// from its folders where the job does not name them.
static enum sl_err train_classes(struct worker_job *j,
                                 struct data_source *source,
                                 const char ***names, struct sl_error *err)
{
    struct data *train = NULL;
    enum sl_err rc;

    if (source->names_count > 0 || (strcmp(source->format, "images") != 0 &&
                                    strcmp(source->format, "tar") != 0))
        return SL_OK;
    rc = job_data(j, false, &train, err);
    if (rc != SL_OK || data_classes(train) == 0)
        return rc;
    *names = sl_malloc_array(data_classes(train), sizeof(**names));
    if (*names == NULL)
        return sl_fail(err, SL_ENOMEM, "no memory for names of classes");
    for (uint32_t i = 0; i < data_classes(train); i++)
        (*names)[i] = data_class(train, i);
    source->names = (char *const *)(uintptr_t)*names; // only read
    source->names_count = data_classes(train);
    return SL_OK;
}

// Returns the losses of several outputs; NULL: the job has one.
static const struct spec_head *job_heads(const struct worker_job *j)
{
    return j->heads_count > 0 ? j->heads : NULL;
}

static enum sl_err open_data(struct worker_job *j,
                             const Sluice__V1__SourceSpec *spec, bool test,
                             struct data **out, struct sl_error *err)
{
    struct data_source source = job_data_source(spec, j);
    struct id_column *ids = job_id_columns(spec);
    const char **names = NULL;
    struct data_want want;
    enum sl_err rc = ids == NULL ? sl_no_memory(err)
                                 : compile_wants(&want, j->model, j->loss,
                                                 job_heads(j), err);

    if (rc != SL_OK) {
        sl_free(ids);
        return rc;
    }
    source.ids = ids;
    if (spec_of(j)->data->has_validation)
        source.bad = NULL; // samples are passed over by their numbers in a part
    want.test = test;
    // Bytes stay bytes up to the program's first op: a quarter of the memory to
    // read, to keep and to copy.
    want.u8 = true;
    if (test)
        rc = train_classes(j, &source, &names, err);
    if (rc == SL_OK)
        rc = data_open(out, &source, &want, err);
    sl_free(names);
    sl_free(ids);
    if (rc == SL_OK)
        return SL_OK;
    j->data_amiss = true;
    return sl_prefix(err, rc, "data.%s", test ? "test" : "train");
}

// Makes the part of data.train that is trained with, or that is not.
static enum sl_err open_part(struct worker_job *j, bool test, struct data **out,
                             struct sl_error *err)
{
    const Sluice__V1__JobSpec *spec = spec_of(j);
    const struct data_part part = {spec->train->seed, spec->data->validation,
                                   test};
    enum sl_err rc = SL_OK;

    if (j->whole == NULL)
        rc = open_data(j, spec->data->train, false, &j->whole, err);
    if (rc == SL_OK)
        rc = data_split(out, j->whole, &part, j->record->bad, j->pulse, err);
    j->data_amiss = j->data_amiss || rc != SL_OK;
    return rc;
}

// Returns the set's file or folder for messages; its format if it has neither.
static const char *job_source_name(const struct worker_job *j, bool test)
{
    const Sluice__V1__DataSpec *spec = spec_of(j)->data;
    const Sluice__V1__SourceSpec *source = test ? spec->test : spec->train;

    return source->x == NULL || source->x[0] == '\0' ? source->format
                                                     : source->x;
}

static void note_found(struct worker_job *j, const struct data *d, bool test)
{
    j->data_amiss = j->data_differs = true;
    sluice__v1__data_facts__init(&j->found);
    *(test ? &j->found.test_samples : &j->found.train_samples) =
        data_samples(d);
    *(test ? &j->found.test_hash : &j->found.train_hash) = data_hash(d);
}

static enum sl_err job_check_facts(struct worker_job *j, const struct data *d,
                                   bool test, struct sl_error *err)
{
    const Sluice__V1__DataFacts *facts = j->record->open->facts;
    const char *set = test ? "test" : "train";
    uint64_t samples, hash;

    if (facts == NULL)
        return SL_OK;
    samples = test ? facts->test_samples : facts->train_samples;
    hash = test ? facts->test_hash : facts->train_hash;
    if (data_samples(d) == samples && data_hash(d) == hash)
        return SL_OK;
    note_found(j, d, test);
    if (data_samples(d) == samples)
        return sl_fail(err, SL_EINVAL,
                       "data.%s: %s has %" PRIu64 " samples here as where it "
                       "was seen first, but of other names, sizes, shapes or "
                       "versions; give all workers the same files, and submit "
                       "a job again whose objects were replaced",
                       set, job_source_name(j, test), samples);
    return sl_fail(err, SL_EINVAL,
                   "data.%s: %s has %" PRIu64 " samples here, %" PRIu64
                   " were seen first; give all workers the same files",
                   set, job_source_name(j, test), data_samples(d), samples);
}

enum sl_err job_cut(struct worker_job *j, struct sl_error *err)
{
    if (j->cut == NULL)
        j->cut = sl_aligned(64, (size_t)j->model->elements * sizeof(float));
    return j->cut != NULL
               ? SL_OK
               : sl_fail(err, SL_ENOMEM, "no memory for the cut's parameters");
}

// Returns the value of a byte that is nearest to `v`: a job may give pixels any
// range.
static float job_byte(double v)
{
    return (float)(v < 0 ? 0 : v > 255 ? 255 : v);
}

// Returns an entry of data.train.augment as plain values, for samples of `d`.
static struct augment_change job_change(const Sluice__V1__AugmentSpec *s,
                                        const struct data *d)
{
    double low = s->n_range > 0 ? s->range[0] : 0;
    double high = s->n_range > 0 ? s->range[1] : 255;
    float at[2] = {job_byte(low), job_byte(high)};
    const double amounts[AUGMENT_KINDS] = {
        s->crop,       s->flip != NULL, s->translate, s->rotate, s->zoom,
        s->brightness, s->contrast,     s->mixup,     s->cutmix};
    struct augment_change c = {.kind = AUGMENT_CROP};

    while (amounts[c.kind] == 0)
        c.kind++;
    c.high = amounts[c.kind];
    c.low = -c.high;
    c.rows = s->flip != NULL && strcmp(s->flip, "horizontal") != 0;
    c.columns = s->flip != NULL && strcmp(s->flip, "vertical") != 0;
    if (!data_is_u8(d)) { // as they are after scale and offset
        at[0] = (float)low * data_scale(d) + data_offset(d);
        at[1] = (float)high * data_scale(d) + data_offset(d);
    }
    c.range[0] = at[at[0] > at[1]];
    c.range[1] = at[at[0] <= at[1]];
    return c;
}

// Makes j->augment, which changes samples of `d`, from the job's spec.
static void job_augment(struct worker_job *j, const struct data *d)
{
    const Sluice__V1__SourceSpec *s = spec_of(j)->data->train;
    const struct model_shape *in = &j->model->nodes[0].out;
    struct augment *a = &j->augment;
    bool image = in->rank == 2 || in->rank == 3;
    uint64_t elements = model_shape_elements(in);

    *a = (struct augment){.seed = spec_of(j)->train->seed,
                          .u8 = data_is_u8(d),
                          .rows = image ? (uint32_t)in->dim[0] : 1,
                          .columns = image ? (uint32_t)in->dim[1] : 1};
    a->channels = (uint32_t)(elements / a->rows / a->columns);
    a->black = a->u8 ? 0 : data_offset(d);
    a->labels = data_label_bytes(d) / sizeof(float);
    for (size_t i = 0; i < s->n_augment && i < AUGMENT_MAX; i++) {
        struct augment_change c = job_change(s->augment[i], d);

        augment_add(a, &c);
    }
}

// Gives samples that are trained with the weights of their classes.
static enum sl_err job_weigh(struct worker_job *j, struct data *d,
                             struct sl_error *err)
{
    const Sluice__V1__TrainSpec *train = spec_of(j)->train;

    return train->n_class_weight == 0
               ? SL_OK
               : data_weigh_classes(d, train->class_weight,
                                    train->n_class_weight, err);
}

enum sl_err job_data(struct worker_job *j, bool test, struct data **out,
                     struct sl_error *err)
{
    const Sluice__V1__DataSpec *spec = spec_of(j)->data;
    const Sluice__V1__SourceSpec *source = NULL;
    struct data **slot = test ? &j->test : &j->train;
    struct data *d = NULL;
    enum sl_err rc;

    if (*slot == NULL) {
        if (spec != NULL)
            source = test ? spec->test : spec->train;
        if (source == NULL)
            return sl_fail(err, SL_EINVAL, "the job has no data.%s",
                           test ? "test" : "train");
        rc = spec->has_validation ? open_part(j, test, &d, err)
                                  : open_data(j, source, test, &d, err);
        if (rc == SL_OK)
            rc = job_check_facts(j, d, test, err);
        if (rc == SL_OK && !test)
            rc = job_weigh(j, d, err);
        if (rc != SL_OK) {
            data_free(d);
            return rc;
        }
        *slot = d;
        if (!test)
            job_augment(j, d);
        pulse_beat(j->pulse);
    }
    *out = *slot;
    return SL_OK;
}

enum sl_err job_run(struct worker_job *j, struct input_run *run, uint64_t epoch,
                    uint64_t first, uint64_t count, struct sl_error *err)
{
    const Sluice__V1__TrainSpec *train = spec_of(j)->train;
    const struct schedule *s = &j->record->schedule;
    enum sl_err rc = job_data(j, false, &run->data, err);

    run->pulse = j->pulse;
    run->shuffle = !train->has_shuffle || train->shuffle;
    run->epoch = epoch;
    run->first = first;
    run->count = count;
    run->batch = (uint32_t)s->batch / j->record->accumulate;
    run->share = (struct input_share){0};
    run->augment = j->augment.count > 0 ? &j->augment : NULL;
    if (rc == SL_OK && run->shuffle &&
        order_init(&run->order, train->seed, epoch, s->samples) != SL_OK)
        rc = sl_fail(err, SL_EINVAL, "the data has no order");
    return rc;
}

// Copies the names of the classes; many long ones are left unsaid, since the
// answer is one message.
static enum sl_err facts_classes(Sluice__V1__DataFacts *out,
                                 const struct data *train, struct sl_error *err)
{
    uint32_t count = data_classes(train);
    size_t bytes = 0;

    for (uint32_t i = 0; i < count; i++)
        bytes += strlen(data_class(train, i)) + 2;
    if (count == 0 || bytes > SPEC_CLASSES_BYTES)
        return SL_OK;
    out->classes = sl_calloc(count, sizeof(*out->classes));
    if (out->classes == NULL)
        return sl_fail(err, SL_ENOMEM, "no memory for names of classes");
    for (; out->n_classes < count; out->n_classes++) {
        char *name = sl_strdup(data_class(train, (uint32_t)out->n_classes));

        if (name == NULL)
            return sl_fail(err, SL_ENOMEM, "no memory for names of classes");
        out->classes[out->n_classes] = name;
    }
    return SL_OK;
}

enum sl_err job_facts(struct worker_job *j, Sluice__V1__DataFacts *out,
                      struct sl_error *err)
{
    const Sluice__V1__DataSpec *spec = spec_of(j)->data;
    struct data *train = NULL, *test = NULL;
    enum sl_err rc = job_data(j, false, &train, err);

    if (rc == SL_OK && spec->test != NULL)
        rc = job_data(j, true, &test, err);
    if (rc != SL_OK)
        return rc;
    sluice__v1__data_facts__init(out);
    out->train_samples = data_samples(train);
    out->train_hash = data_hash(train);
    if (test != NULL) {
        out->test_samples = data_samples(test);
        out->test_hash = data_hash(test);
    }
    return facts_classes(out, train, err);
}

// ---- shards and programs

enum sl_err job_device(struct worker_job *j, struct sl_error *err)
{
    enum sl_err rc = SL_OK;

    if (j->device == NULL && !j->env->dev->backend->host)
        rc = device_new(&j->device, j->env->dev, j->model->elements, err);
    if (rc == SL_OK && j->team == NULL)
        rc = team_job_new(&j->team, j->env->team, j->model, j->device, err);
    return rc;
}

static enum sl_err job_make_sync(struct worker_job *j,
                                 const struct sync_ps_options *o,
                                 struct sl_error *err)
{
    enum sl_err rc = SL_OK;

    if (j->rows == NULL)
        rc = job_rows_new(&j->rows, spec_of(j), j->model, o->shards_count, err);
    if (rc == SL_OK && j->hybrid != NULL)
        j->hybrid->rows = job_rows_group(j->rows);
    if (rc == SL_OK && j->inner == NULL)
        rc = inner_new(&j->inner, j->record, j->device != NULL, err);
    if (rc == SL_OK)
        rc = sync_ps_new(&j->sync, o, err);
    if (rc == SL_OK)
        record_attach(j->record, j->sync);
    return rc;
}

enum sl_err job_sync(struct worker_job *j, struct sync **out,
                     struct sl_error *err)
{
    struct record *r = j->record;
    struct sync_ps_options o = record_sync(r);
    enum sl_err rc;

    o.peers = j->env->peers;
    o.clock = j->env->clock;
    o.want_map = j->env->want_map;
    o.arg = j->env->arg;
    if (!r->placed)
        return sl_fail(err, SL_ESTATE, "the job's shards are not placed yet");
    rc = job_device(j, err);
    // In a stream steps compute beside what shards sent and are sent.
    if (rc == SL_OK && j->device != NULL && j->ring == NULL &&
        !spec_streams(r->open->spec->train)) {
        o.params = device_params(j->device);
        o.grads = device_grads(j->device);
    }
    if (rc == SL_OK && j->sync == NULL)
        rc = job_make_sync(j, &o, err);
    if (rc == SL_OK)
        *out = j->sync;
    return rc;
}

static enum kern_dtype compute_of(enum spec_precision precision)
{
    return precision == SPEC_BF16  ? KERN_BF16
           : precision == SPEC_F16 ? KERN_F16
                                   : KERN_F32;
}

// Logs once which precision is in effect: a job that may use TF32 finds none on
// a CPU.
static void tell_precision(struct worker_job *j, const struct program *p)
{
    bool half = compute_of(j->precision) != KERN_F32, tf32;
    bool slower = half && p->compute == KERN_F32;
    struct kern_info info;
    char about[160], why[200];

    if (j->told_precision)
        return;
    j->told_precision = true;
    j->env->dev->backend->info(&info, j->env->dev);
    kern_about(about, sizeof(about), j->env->dev);
    snprintf(why, sizeof(why), "%s%s",
             slower ? "16 bits are no faster here; " : "", about);
    tf32 = j->precision == SPEC_TF32 && info.tf32;
    LOG(INFO, "precision of a job",
        "job=%" PRIu64 " asked=%s products=%s sums=f32 parameters=f32 "
        "loss_scale=%s device=%s about=%s",
        j->record->open->job, spec_precision_name(j->precision),
        slower ? "f32"
        : half ? spec_precision_name(j->precision)
        : tf32 ? "tf32"
               : "f32",
        j->precision != SPEC_F16 ? "none"
        : j->scale.dynamic       ? "dynamic"
                                 : "fixed",
        info.name, why);
}

// Sets the type, scale and offset of the input to those of the data.
static enum sl_err job_set_input(struct worker_job *j, bool test,
                                 struct compile_options *o,
                                 struct sl_error *err)
{
    struct data *d = NULL;
    enum sl_err rc = job_data(j, test, &d, err);

    if (rc != SL_OK)
        return rc;
    o->weighted = data_weighted(d);
    o->input = data_is_u8(d) ? KERN_U8 : KERN_F32;
    o->input_scale = (double)data_scale(d);
    o->input_offset = (double)data_offset(d);
    return SL_OK;
}

// Returns true if the worker clips its own gradient; a ring clips the sum of
// all ranks' gradients.
static bool clips_its_own(const struct worker_job *j)
{
    return j->ring == NULL &&
           (j->optimizer.clipnorm > 0 || j->optimizer.global_clipnorm > 0);
}

static void job_on_beat(void *pulse)
{
    pulse_beat(pulse);
}

static enum sl_err job_set_options(struct worker_job *j, enum job_use use,
                                   uint32_t batch, struct compile_options *o,
                                   struct sl_error *err)
{
    *o = (struct compile_options){
        .loss = j->loss,
        .from_logits = spec_of(j)->from_logits,
        .smoothing = spec_of(j)->label_smoothing,
        .top_k = spec_of(j)->top_k,
        .heads = job_heads(j),
        .outputs = use == JOB_EVALUATES && spec_metrics_scored(spec_of(j)) != 0,
        .train = use != JOB_EVALUATES,
        .add = use == JOB_ADDS,
        .batch = batch,
        .seed = spec_of(j)->train->seed,
        .compute = compute_of(j->precision),
        .half_if_faster = true,
        .math = j->precision == SPEC_F32 ? KERN_MATH_F32 : KERN_MATH_DEVICE,
    };
    return job_set_input(j, use == JOB_EVALUATES, o, err);
}

enum sl_err job_compile(struct worker_job *j, enum job_use use, uint32_t batch,
                        struct program **out, struct sl_error *err)
{
    struct compile_options o;
    enum sl_err rc = job_set_options(j, use, batch, &o, err);

    if (rc != SL_OK)
        return rc;
    team_cut(j->team, 0, &o);
    kern_beat_to(job_on_beat,
                 j->pulse); // kernels are timed, which takes a while
    rc = compile(out, j->env->dev, j->model, &o, &j->memory, err);
    kern_beat_to(NULL, NULL);
    return rc;
}

static enum sl_err make_mates(struct worker_job *j, enum job_use use,
                              uint32_t batch, struct job_program *slot,
                              struct sl_error *err)
{
    bool train = use != JOB_EVALUATES;
    struct compile_options o;
    enum sl_err rc;

    if (j->team == NULL)
        return SL_OK;
    rc = job_set_options(j, use, batch, &o, err);
    return rc == SL_OK
               ? team_program_new(&slot->mates, j->team, &o,
                                  train ? j->ranges : NULL,
                                  train ? j->ranges_count : 0, j->pulse, err)
               : rc;
}

// Lets heartbeats say which kernels are left out of a whole micro-batch: of
// smaller ones not every worker has a program.
static void job_tell_left_out(struct worker_job *j, const struct job_program *p)
{
    const struct record *r = j->record;
    struct program_left_out all = p->program->left_out;
    struct record_left_out l = {.set = WIRE_LEFT_OUT_NONE};

    if (!r->placed || p->batch != r->schedule.batch / r->accumulate)
        return;
    team_left_out(&all, p->mates);
    if (all.count > 0)
        l.set += all.set;
    if (all.count == 1)
        snprintf(l.what, sizeof(l.what), "%s", all.first);
    else if (all.count > 1)
        snprintf(l.what, sizeof(l.what), "%s, and %u others", all.first,
                 all.count - 1);
    record_leave_out(j->record, &l);
}

static enum sl_err job_make_program(struct worker_job *j, enum job_use use,
                                    uint32_t batch, struct job_program *slot,
                                    struct sl_error *err)
{
    bool train = use != JOB_EVALUATES;
    enum sl_err rc = job_device(j, err);

    slot->batch = batch;
    if (rc == SL_OK)
        rc = job_compile(j, use, batch, &slot->program, err);
    if (rc == SL_OK)
        tell_precision(j, slot->program);
    if (rc == SL_OK && train)
        rc = overlap_make(&slot->overlap, slot->program, j->ranges,
                          j->ranges_count, err);
    if (rc == SL_OK && j->device != NULL)
        rc = device_place(&slot->placed, j->device, slot->program,
                          train ? &slot->overlap : NULL, j->ranges,
                          clips_its_own(j) ? j->model : NULL, err);
    if (rc == SL_OK)
        rc = make_mates(j, use, batch, slot, err);
    if (rc != SL_OK)
        program_drop(slot);
    else if (use == JOB_TRAINS)
        job_tell_left_out(j, slot);
    return rc;
}

struct step_program job_step_program(const struct job_program *p)
{
    return (struct step_program){p->program, p->placed, p->mates};
}

static enum job_use use_of(const struct program *p)
{
    return p->add ? JOB_ADDS : p->train ? JOB_TRAINS : JOB_EVALUATES;
}

enum sl_err job_program(struct worker_job *j, enum job_use use, uint32_t batch,
                        struct job_program **out, struct sl_error *err)
{
    struct job_program *slot = &j->programs[0];
    enum sl_err rc;

    for (unsigned i = 0; i < JOB_PROGRAMS; i++) {
        struct job_program *p = &j->programs[i];

        if (p->program != NULL && use_of(p->program) == use &&
            p->batch == batch) {
            p->used = ++j->uses;
            *out = p;
            return SL_OK;
        }
        if (p->used < slot->used)
            slot = p;
    }
    // Steps may still use what is freed or moved here.
    rc = j->device == NULL ? SL_OK : device_settle(j->device, err);
    program_drop(slot); // the least recently used program
    if (rc == SL_OK)
        rc = job_make_program(j, use, batch, slot, err);
    pulse_beat(j->pulse);
    if (rc != SL_OK)
        return rc;
    slot->used = ++j->uses;
    *out = slot;
    return SL_OK;
}

// ---- the memory that a job takes

#define SMALL (1u << 20) // model, plans and what else does not grow
#define OF_A_RANK 5      // vectors: parameters, two slots, gradient, its sum
#define OF_A_DEVICE 4    // parameters and gradient, here and there
#define OF_A_SYNC 2      // parameters and gradient

uint64_t job_bytes_least(const struct record *record)
{
    return SMALL + record->layout.elements * OF_A_SYNC * sizeof(float);
}

uint64_t job_bytes(const struct worker_job *j)
{
    uint64_t vectors = j->device != NULL ? OF_A_DEVICE
                       : j->sync != NULL ? OF_A_SYNC
                                         : 0;

    if (j->ring != NULL && rank_has_state(&j->ring->rank))
        vectors += OF_A_RANK;
    if (j->ring != NULL && j->ring->resident != NULL)
        vectors += resident_vectors(j->ring->resident);
    if (j->cut != NULL)
        vectors++;
    return SMALL + vectors * j->model->elements * sizeof(float) +
           j->memory.arena.bytes + j->memory.workspace.bytes +
           team_job_bytes(j->team) + job_rows_bytes(j->rows) +
           inner_bytes(j->inner) +
           (j->whole == NULL ? 0 : data_memory(j->whole)) +
           (j->train == NULL ? 0 : data_memory(j->train)) +
           (j->test == NULL ? 0 : data_memory(j->test));
}
