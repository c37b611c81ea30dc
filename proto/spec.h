// SPDX-License-Identifier: Apache-2.0
// proto/spec.h -- the job spec: defaults, limits, cross-checks.
//
// spec_check makes of what a user said what the job is: it writes the defaults
// into the spec, but those of some younger fields (train.accumulate, priority,
// rows_wire ...), which the functions below know. It is the same for client
// (before it submits) and coordinator (before it journals); checking twice
// changes nothing. What plain C wants to know (optimizer, loss, partitioner)
// comes as plain structs, since kernels/ and the messages are strangers.
//
// Threads  any.
// Memory   The spec must be a message of the heap (pbjson_read, wire_dup): the
//          defaults are added with wire_heap. wire_free frees it all. No
//          pointer is NULL but `err`, which may be. Structs that are returned
//          borrow nothing, but where it is said; names are static.
// Errors   SL_EINVAL with the path of the field ("train.batch: ..."), what is
//          wrong and what would be right. A failed check may have filled in
//          some defaults.
#ifndef PROTO_SPEC_H
#define PROTO_SPEC_H

#include <stdbool.h>
#include <stdint.h>

#include "plan/fragments.h"
#include "plan/optimizer.h"
#include "plan/part.h"
#include "plan/rate.h"
#include "common/base/status.h"
#include "proto/job.pb-c.h"
#include "proto/model.h"
#include "proto/wire.h"

#define SPEC_NAME_BYTES 63 // as long as a DNS label

// Checks `spec` and sets its defaults, model.edition (whatever it was), with
// data.validation data.test and, of layers with rows, model.tables. SL_EINVAL
// names the field that is wrong; SL_ERANGE: a pattern of data.train or
// data.test names too much; SL_ENOMEM. A "checked" spec below is one for which
// this returned SL_OK: it has model, data.train, train, placement, checkpoint
// and evaluate, and an optimizer unless it is external in mode local.
enum sl_err spec_check(Sluice__V1__JobSpec *spec, struct sl_error *err);

// Checks that the name of a checked spec is one that a new job may have:
// SL_EINVAL if it looks like a job's id, "j-7"; no other error. Older jobs, and
// their manifests, may have such a name.
enum sl_err spec_check_new(const Sluice__V1__JobSpec *spec,
                           struct sl_error *err);

// Returns true if the model is external: gradients come from a program of the
// user's own. The spec need not be checked.
bool spec_external(const Sluice__V1__JobSpec *spec);

// Returns true if the model is external and has tables alone, no variables. The
// spec need not be checked.
bool spec_rows_only(const Sluice__V1__JobSpec *spec);

// Returns checkpoint.every_seconds of a checked spec in ms, at most 1e15; 0:
// checkpoints are not made by time.
uint64_t spec_checkpoint_ms(const Sluice__V1__CheckpointSpec *checkpoint);

// Returns train.stall_seconds of a spec in ms; 0: no limit. A spec without it,
// which need not be checked, has the default: 60 s, and 600 s if it is external
// or of mode local.
uint64_t spec_stall_ms(const Sluice__V1__JobSpec *spec);

// Returns the batches of a counted step: train.accumulate of a spec, or 1 if it
// says none; times train.group.size in a hybrid one; in mode local
// train.inner.closure, or its default, all of train.inner.steps. The spec need
// not be checked, and may lack `train` (1); the number of one that was not may
// be 0, and what is beyond 32 bits is cut off.
uint32_t spec_accumulate(const Sluice__V1__JobSpec *spec);

// Returns how many samples that cannot be read a job may leave out
// (data.skip_bad); 0: none, also without data. The spec need not be checked.
uint32_t spec_skip_bad(const Sluice__V1__JobSpec *spec);

// Returns the number of samples of a step of a checked spec: train.batch times
// spec_accumulate.
uint64_t spec_step_samples(const Sluice__V1__JobSpec *spec);

// Returns true if steps that are not finite are skipped, and false if they end
// the job: train.nonfinite of a spec, or its default, to skip them.
bool spec_skips_nonfinite(const Sluice__V1__TrainSpec *train);

// Returns the index of the column of ids named `name` in s->ids; s->n_ids if
// there is none. `s` has passed spec_check_ids: each column has a name.
size_t spec_ids_column(const Sluice__V1__SourceSpec *s, const char *name);

// Checks what a worker reads of the data of a spec that need not be checked:
// that there is data.train, formats and names of ids, a share in (0, 1), ids
// that the layers of its model `m`, which is not external, read, and that
// data.test has the same if they read some, and changes of its images. The rest
// is looked at where the data are opened. SL_EINVAL names the field.
enum sl_err spec_data_fits(const Sluice__V1__JobSpec *spec,
                           const struct model *m, struct sl_error *err);

// Returns train.wire of a spec, or WIRE_F32 if it says none, or a word that is
// no type. The spec need not be checked, and may lack `train`; so, too, that of
// spec_rows_wire.
enum wire_type spec_wire(const Sluice__V1__JobSpec *spec);
// Returns train.rows_wire of a spec, how rows of tables travel, WIRE_INT8 among
// others; spec_wire if it says none.
enum wire_type spec_rows_wire(const Sluice__V1__JobSpec *spec);

// Returns how many closures a window may have so that its counted set fits into
// a message (wire_window_most): from steps_per_closure and epochs of `train`,
// which need not be checked. Not NULL.
uint64_t spec_window_most(const Sluice__V1__TrainSpec *train);

// Returns true if train.mode is local. The spec need not be checked.
bool spec_local(const Sluice__V1__JobSpec *spec);

// What a worker does in mode local between two rounds.
struct spec_inner {
    uint32_t steps;          // of a contribution; each of one batch
    uint32_t closure;        // batches of a closure; divides `steps`
    bool keep;               // slots go on from the worker's last contribution
    bool store;              // and the psservers keep those of one worker
    bool own;                // a slower worker has fewer closures
    enum wire_type up, down; // of contributions, and of parameters
    // Share of its own parameters that a worker keeps when new ones come, if it
    // streams.
    double blend;
};

#define SPEC_INNER_STEPS_MOST (1 << 20)

#define SPEC_NORM_RATIO 10 // of train.max_norm_ratio, if it is not said

// Returns train.max_norm_ratio of a spec in mode local, or SPEC_NORM_RATIO if
// it says none; 0: no contribution is set aside.
double spec_max_norm_ratio(const Sluice__V1__TrainSpec *train);

// Returns true if a contribution of a checked spec in mode local counts several
// closures (L5).
bool spec_sets(const Sluice__V1__TrainSpec *train);

// Returns true if contributions longer than the median are made as long as that
// (train.norm).
bool spec_norm_median(const Sluice__V1__TrainSpec *train);

// Returns true if the mean of a round is that of directions (train.average).
bool spec_directions(const Sluice__V1__TrainSpec *train);
// Returns true if older contributions weigh less (train.weight).
bool spec_aged(const Sluice__V1__TrainSpec *train);

// Returns true if a worker takes closures of a checked spec in mode local one
// after another, and its parameters leave and come meanwhile, in parts
// (train.fragments) or with an overlap (L8).
bool spec_streams(const Sluice__V1__TrainSpec *train);
// Returns the number of these parts, train.fragments, or its default, 1; at
// most FRAGMENTS_MOST in a checked spec.
uint32_t spec_fragments(const Sluice__V1__TrainSpec *train);

// Returns train.inner of a spec in mode local, with defaults for what it does
// not say: 100 steps, one closure of all, moments reset, an equal pace, `up`
// and `down` as train.wire, a blend of 0, or 0.5 if train.overlap is above 0.
struct spec_inner spec_inner(const Sluice__V1__TrainSpec *train);

// The moments that psservers keep of the optimizer of workers (L9).
struct spec_moments {
    unsigned vectors;    // the optimizer's slots; 0: none are kept
    enum wire_type wire; // of their elements
    uint64_t every;      // number of closures of which one leaves them
};

// Returns what moments a checked spec keeps; all zeroes unless it is in mode
// local with an optimizer and train.inner.moments is store.
struct spec_moments spec_moments(const Sluice__V1__JobSpec *spec);

// Returns the bytes of a push that a psserver allows for each element of its
// shard: the element, and what moments it has. A shard with more than
// WIRE_PAYLOAD_BYTES is refused there.
uint64_t spec_push_bytes(const Sluice__V1__JobSpec *spec);

// Returns how many closures a contribution of a checked spec in mode local has
// at most.
uint32_t spec_inner_closures(const Sluice__V1__TrainSpec *train);

// Returns the optimizer that updates shards: the job's, or in mode local
// train.outer. Borrowed; NULL in a spec that has none, or in mode local if it
// was not checked.
const Sluice__V1__OptimizerSpec *
spec_shard_optimizer(const Sluice__V1__JobSpec *spec);

// Returns true if contributions or parameters of a checked spec travel in
// another way than train.wire says (state/shard/coded.h).
bool spec_coded(const Sluice__V1__JobSpec *spec);

// Returns the code of the changes that a shard of a checked spec sends to
// workers, a wire_type from WIRE_INT8 on; 0: it sends whole parameters.
uint32_t spec_down_code(const Sluice__V1__JobSpec *spec);

// Returns the contributions of a round with fixed slots at the shards (Y1), of
// a checked spec, in sync and local; 0 in the other modes, also in allreduce,
// which has rounds of a ring, and where rounds are open.
uint32_t spec_contributions(const Sluice__V1__TrainSpec *train);

// Returns true if rounds are open in mode local (L1): train.quorum is less than
// train.contributions, of a checked spec.
bool spec_open(const Sluice__V1__TrainSpec *train);
// Returns the most contributions of an open round that becomes one update; with
// train.quorum 1, where each contribution is an update, 1 if train.inner.up is
// a code, else 0. 0 if rounds are not open. For a checked spec.
uint32_t spec_open_contributions(const Sluice__V1__TrainSpec *train);

// Returns how many slots of a round may have a copy (a second worker that
// computes the same contribution), for a checked spec; 0: none may, as in
// modes without rounds at the shards.
uint32_t spec_backup(const Sluice__V1__TrainSpec *train);

// Returns the share of rounds, in async and hybrid of closures, that are
// audited (train.audit) of a checked spec; 0: none.
double spec_audit(const Sluice__V1__TrainSpec *train);

#define SPEC_PRIORITY_MAX 100 // and as far below 0
// Returns train.priority of a spec, or its default, 0; higher ones come first.
int32_t spec_priority(const Sluice__V1__TrainSpec *train);

enum spec_staleness_rule { // numbers as in StalenessRule
    SPEC_STALENESS_NONE,
    SPEC_STALENESS_INVERSE,
    SPEC_STALENESS_DC,
};

#define SPEC_DELAY_MAX (1 << 20)
#define SPEC_SKIP_BAD_MAX 1000
#define SPEC_IDS_MAX 256    // id columns of data
#define SPEC_AUGMENT_MAX 16 // changes of images
// Of a class; the product with that of a sample is an f32.
#define SPEC_WEIGHT_MOST 1e15
#define SPEC_CLASSES_BYTES 65536 // bytes of all names of classes, with 0s
// Closures of a window; one that is not shorter follows the number of workers.
#define SPEC_WINDOW_DEFAULT 1024
#define SPEC_DC_DELAY_MAX 64 // so many copies of the parameters

// Checks names of classes, which are folders: SL_EINVAL, with a text that says
// data.classes, for one that is not 1 to 255 bytes of UTF-8 without control
// characters (utf8_plain) and '/', that is hidden or stands twice, or for more
// bytes than SPEC_CLASSES_BYTES; SL_ENOMEM. No name is NULL.
enum sl_err spec_check_classes(char *const *names, size_t count,
                               struct sl_error *err);

// Most ranges of an evaluation. Each is a lease; they cost no memory (see
// coordinator/rules/evaluation.h), but at some ten thousand a second so many
// are half an hour of a coordinator.
#define SPEC_RANGES_MAX (UINT64_C(1) << 24)

// Returns how many samples each range of an evaluation has, but the last, which
// may have fewer; for a checked spec.
uint64_t spec_range_samples(const Sluice__V1__JobSpec *spec);

// Checks how many ranges a test set of `samples` samples has, for a checked
// spec with data; SL_OK if it has no test set or never evaluates. SL_EINVAL
// names the field, the numbers, the limit, and what it wants to be instead.
enum sl_err spec_check_ranges(const Sluice__V1__JobSpec *spec, uint64_t samples,
                              struct sl_error *err);

struct spec_staleness {
    uint64_t max_delay; // in updates; 0: no limit
    enum spec_staleness_rule rule;
    double lambda; // of SPEC_STALENESS_DC: weight of the correction; else 0
};

// Returns the rule for late gradients of a checked spec, and its limit.
struct spec_staleness spec_staleness(const Sluice__V1__TrainSpec *train);
// Returns true if a checked spec takes gradients of any delay as they are; also
// in modes where none is late.
bool spec_any_delay(const Sluice__V1__TrainSpec *train);

// Returns how many vectors of the model's size the psservers of a checked spec
// keep. They are the parameters and the optimizer's slots; of rounds with fixed
// slots their contributions and the parameters before the last one (Y2), of
// open ones, if spec_open_contributions is not 0, one vector; in local with a
// code down the parameters that workers have, and moments twice, those that are
// kept and those of the round that is open or was before (in 16 bits a vector
// counts half, rounded down at the end); for staleness dc the versions that
// delayed gradients may be based on. Rows of tables are none of them, and
// replicas keep as many again. In mode allreduce, where workers have the state,
// the result counts what no psserver keeps.
uint64_t spec_kept_vectors(const Sluice__V1__JobSpec *spec);

// Returns true if the replicas of a checked spec's shards may lack what was
// answered (placement.replicate: follow).
bool spec_follows(const Sluice__V1__PlacementSpec *placement);

// ---- precision

// How workers compute (TrainSpec.precision).
enum spec_precision { SPEC_TF32, SPEC_F32, SPEC_BF16, SPEC_F16 };

// Returns train.precision; SPEC_TF32 if a spec says none, or an unknown word.
enum spec_precision spec_precision(const Sluice__V1__JobSpec *spec);
// Returns the word for `precision` in a spec, "tf32"; static text.
const char *spec_precision_name(enum spec_precision precision);

// ---- loss

// X(CODE, "name in the spec")
#define SPEC_LOSS_MAP(X)                                                       \
    X(SPARSE_CATEGORICAL_CROSSENTROPY, "sparse_categorical_crossentropy")      \
    X(CATEGORICAL_CROSSENTROPY, "categorical_crossentropy")                    \
    X(BINARY_CROSSENTROPY, "binary_crossentropy")                              \
    X(MEAN_SQUARED_ERROR, "mean_squared_error")                                \
    X(MEAN_ABSOLUTE_ERROR, "mean_absolute_error")

enum spec_loss {
    SPEC_LOSS_NONE, // an external model's own business
#define SPEC_LOSS_ENUM(code, name) SPEC_LOSS_##code,
    SPEC_LOSS_MAP(SPEC_LOSS_ENUM)
#undef SPEC_LOSS_ENUM
        SPEC_LOSS_COUNT,
    SPEC_LOSS_SEVERAL // those of several outputs (spec_heads)
};

// Returns the loss of a checked spec; SPEC_LOSS_NONE for an external model.
// spec->from_logits says the rest.
enum spec_loss spec_loss(const Sluice__V1__JobSpec *spec);

// The loss of one of several outputs.
struct spec_head {
    enum spec_loss loss;
    bool from_logits;
    double smoothing; // of the labels of crossentropies, [0, 1)
    double weight;    // factor in the job's loss
};
// Fills heads[0] and so on with the losses of a checked spec's outputs, in the
// order of its labels. Returns how many they are, at most MODEL_OUTPUTS_MAX; 0
// for a spec that has one loss (spec_loss) or none.
size_t spec_heads(struct spec_head heads[MODEL_OUTPUTS_MAX],
                  const Sluice__V1__JobSpec *spec);
// Returns how many numbers of a sample's label the loss of an output of shape
// `out` reads: a class for each row of outputs, or a number for each output.
uint64_t spec_label_numbers(enum spec_loss loss, const struct model_shape *out);

// Returns the name of a loss in a spec; "none" for SPEC_LOSS_NONE, "several
// outputs" for SPEC_LOSS_SEVERAL. Static text.
const char *spec_loss_name(enum spec_loss loss);
// Returns true if the loss is one over classes, of which one is right.
bool spec_loss_has_classes(enum spec_loss loss);
// Returns false if the loss is a distance, or those of several outputs. Else
// true: predictions of classes or bits are right or wrong; true for
// SPEC_LOSS_NONE as well.
bool spec_loss_counts(enum spec_loss loss);

// ---- metrics of an evaluation

// X(CODE, "name in the spec")
#define SPEC_METRIC_MAP(X)                                                     \
    X(ACCURACY, "accuracy")                                                    \
    X(TOP_K, "top_k")                                                          \
    X(PRECISION, "precision")                                                  \
    X(RECALL, "recall")                                                        \
    X(AUC, "auc")                                                              \
    X(MEAN_ABSOLUTE_ERROR, "mean_absolute_error")                              \
    X(MEAN_SQUARED_ERROR, "mean_squared_error")                                \
    X(ROOT_MEAN_SQUARED_ERROR, "root_mean_squared_error")

enum spec_metric {
#define SPEC_METRIC_ENUM(code, name) SPEC_METRIC_##code,
    SPEC_METRIC_MAP(SPEC_METRIC_ENUM)
#undef SPEC_METRIC_ENUM
        SPEC_METRIC_COUNT
};

#define SPEC_TOP_K 5 // the metric's k, where the spec says none

// Returns the metrics that a checked spec wants: bit m for metric m; 0: none.
uint32_t spec_metrics(const Sluice__V1__JobSpec *spec);
// Returns the bits of metrics for which workers report sums (ScoreSums): all
// that are wanted but accuracy.
uint32_t spec_metrics_scored(const Sluice__V1__JobSpec *spec);
// Returns the name of `metric`, below SPEC_METRIC_COUNT, in a spec, "top_k";
// static text.
const char *spec_metric_name(enum spec_metric metric);
// Returns the metric with exactly that name, which is not NULL;
// SPEC_METRIC_COUNT: none has it.
enum spec_metric spec_metric_named(const char *name);
// Returns the bits of the metrics that a job with this loss may want; 0 for
// SPEC_LOSS_NONE.
uint32_t spec_metrics_offered(enum spec_loss loss);

// ---- optimizer

struct spec_optimizer {
    struct optim optim;               // what a shard applies
    double clipnorm, global_clipnorm; // by the worker; 0: none
    struct rate schedule;
};

// Fills *out from a checked OptimizerSpec, from which it borrows the points of
// a schedule. SL_EINVAL: `spec` was not checked, or is of a type that only
// tables have (rowwise_adagrad, ftrl); *out is then untouched.
enum sl_err spec_optimizer(struct spec_optimizer *out,
                           const Sluice__V1__OptimizerSpec *spec,
                           struct sl_error *err);
// Returns the edition that a program must know which applies this optimizer: a
// psserver, or a worker in mode allreduce. 0: any program knows it, or
// spec_optimizer refuses it.
unsigned spec_optim_edition(const Sluice__V1__OptimizerSpec *o);

// Returns true if the optimizer of a checked spec looks at whole variables,
// which are never cut (optim_is_whole); false if it has none.
bool spec_optim_whole(const Sluice__V1__JobSpec *spec);

// Returns the number, from 1, of the first group with a name or pattern that
// fits all of the variable's name ('*': any characters, '?': one); 0: none
// does.
uint32_t spec_optimizer_group(const Sluice__V1__OptimizerSpec *spec,
                              const char *variable);

// Fills *out with the optimizer of `group` and *scale with the factor of its
// rate; for group 0 as spec_optimizer, and 1. `group` is a number that
// spec_optimizer_group gives. *out borrows as that of spec_optimizer.
// SL_EINVAL: `spec` was not checked; *out and *scale are then undefined.
enum sl_err spec_optimizer_of(struct spec_optimizer *out, double *scale,
                              const Sluice__V1__OptimizerSpec *spec,
                              uint32_t group, struct sl_error *err);

// Returns how many slots of a parameter's size the optimizer of a checked spec
// keeps; 0 for one that spec_optimizer refuses.
unsigned spec_optimizer_slots(const Sluice__V1__OptimizerSpec *spec);

// ---- tables

// Fills *out with table `i`, from 0, of a checked spec that has it; texts and
// optimizer are borrowed from `spec`.
void spec_table(Sluice__V1__Table *out, const Sluice__V1__JobSpec *spec,
                size_t i);

// ---- allreduce

// Returns true if workers of a spec are ranks of a ring and keep the state. The
// spec need not be checked.
bool spec_allreduce(const Sluice__V1__JobSpec *spec);
// Returns true if psservers keep rows of tables beside the ring: in allreduce
// with model.tables, where spec_check lists those of layers, too.
bool spec_ring_rows(const Sluice__V1__JobSpec *spec);
// Returns true if a round has one contribution of each rank, however many there
// are (train.on_resize: scale). For a spec with `train`.
bool spec_ring_scales(const Sluice__V1__JobSpec *spec);

// ---- hybrid

// Returns true if workers compute steps in groups and their leaders push. The
// spec need not be checked.
bool spec_hybrid(const Sluice__V1__JobSpec *spec);

// The groups of a spec in that mode.
struct spec_group {
    bool by_host; // all members of a group on one host
    uint32_t size;
};
// Returns train.group of a spec with `train`, or the defaults: groups of 4, by
// host.
struct spec_group spec_group(const Sluice__V1__JobSpec *spec);

// ---- callbacks

enum spec_monitor {
    SPEC_VAL_LOSS,
    SPEC_TRAIN_LOSS,
    SPEC_TRAIN_ACCURACY,
    SPEC_VAL_METRIC, // first of the metrics of SPEC_METRIC_MAP, in order
    SPEC_VAL_ACCURACY = SPEC_VAL_METRIC + SPEC_METRIC_ACCURACY,
    SPEC_MONITORS = SPEC_VAL_METRIC + SPEC_METRIC_COUNT,
};
// Returns the name of a monitored value, below SPEC_MONITORS, in a spec:
// "val_loss", "loss", "accuracy", "val_auc"; static text.
const char *spec_monitor_name(enum spec_monitor monitor);

// The monitored value of a callback.
struct spec_watch {
    bool on; // the spec has this callback
    enum spec_monitor monitor;
    bool larger;      // larger values are better
    double min_delta; // at least 0
};

struct spec_early_stopping {
    struct spec_watch watch;
    // patience: evaluations in a row that are no better and end the job
    uint32_t patience, start_from_epoch;
    bool has_baseline, restores;
    double baseline;
};

struct spec_plateau {
    struct spec_watch watch;
    // patience: evaluations in a row that are no better and reduce the rate;
    // cooldown: evaluations after that which do not count for it
    uint32_t patience, cooldown;
    double factor, min_rate;
};

struct spec_callbacks {
    struct spec_early_stopping early;
    struct spec_plateau plateau;
    struct spec_watch best;
};

// Returns the callbacks of a checked spec; all are off if it has none.
struct spec_callbacks spec_callbacks(const Sluice__V1__JobSpec *spec);
// Returns true if at least one callback of `c` is on.
bool spec_callbacks_any(const struct spec_callbacks *c);

// Returns true if training waits for the callbacks at each evaluation, since
// they may change how it goes on: early stopping or reduce-on-plateau is on.
bool spec_callbacks_wait(const struct spec_callbacks *c);

// ---- placement

// Fills *out with the partitioner of a checked spec; sets *target_bytes to the
// size that automatic shards aim at, as part_plan_make takes it: shard_bytes,
// of which 0 is by the size of the model; PART_TARGET_BYTES if it says none.
void spec_part_rule(struct part_rule *out, uint64_t *target_bytes,
                    const Sluice__V1__PlacementSpec *spec);

#endif
