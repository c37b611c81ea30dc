// SPDX-License-Identifier: Apache-2.0
// proto/spec_check.h -- what the spec_*.c files share. For this room only.
//
// Threads  any.
// Memory   texts and words are borrowed for the call; what is set in a spec is
//          a copy of the heap, freed with the spec.
// Errors   `err` may be NULL, no other pointer may but where it is said. A
//          check that fails may have set some defaults. SL_ENOMEM need not have
//          a text: spec_check sets one.
#ifndef PROTO_SPEC_CHECK_H
#define PROTO_SPEC_CHECK_H

#include "proto/spec.h"
#include "proto/wire.h"

// A proto2 scalar that is not set gets its default.
#define SPEC_DEFAULT(m, field, value)                                          \
    do {                                                                       \
        if (!(m)->has_##field) {                                               \
            (m)->has_##field = 1;                                              \
            (m)->field = (value);                                              \
        }                                                                      \
    } while (0)

// Raises the edition that a worker must know to compute the job, which is
// model.edition, to `edition`, if it is lower or not set.
static inline void spec_needs(Sluice__V1__JobSpec *spec, unsigned edition)
{
    if (spec->model->has_edition && spec->model->edition >= edition)
        return;
    spec->model->has_edition = true;
    spec->model->edition = edition;
}

// Sets the string *at, if it is NULL, to a copy of `value`. SL_ENOMEM leaves it
// NULL.
enum sl_err spec_string(char **at, const char *value);
// Sets the message pointer that `at` points to, if it is NULL, to a new message
// of type `of`, which is empty. SL_ENOMEM leaves it NULL.
enum sl_err spec_message(void *at, const ProtobufCMessageDescriptor *of);
// Sets *same to whether two messages of one type are equal. SL_ENOMEM leaves it
// as it was.
enum sl_err spec_same(bool *same, const ProtobufCMessage *a,
                      const ProtobufCMessage *b);

// Checks that `word` is one of words[count]; on success *index (may be NULL) is
// its place. SL_EINVAL: "<path>: unknown 'x'; did you mean 'a'?" or "<path>:
// unknown 'x'; known are a, b"; for a `word` of NULL "<path> is missing; known
// are ...". *index is then untouched; no other error.
enum sl_err spec_word(const char *path, const char *word,
                      const char *const *words, size_t count, unsigned *index,
                      struct sl_error *err);

// Returns the type that a word of a checked spec names, one of the first
// `count` types; `missing` if the word is NULL or none of these.
enum wire_type spec_type_of(const char *word, unsigned count,
                            enum wire_type missing);

// Checks that all fields of `m` with a value are listed in `words`, where each
// has a blank on both sides; else SL_EINVAL: "<path>: takes no 'x' with
// <what>".
enum sl_err spec_only(const char *path, const ProtobufCMessage *m,
                      const char *words, const char *what,
                      struct sl_error *err);

// Checks min <= value <= max: SL_EINVAL names `path`.
enum sl_err spec_range(const char *path, uint64_t value, uint64_t min,
                       uint64_t max, struct sl_error *err);

// The end of a range that is open: min or max itself is not allowed.
enum spec_ends { SPEC_CLOSED, SPEC_OPEN_LOW, SPEC_OPEN_HIGH };
// Checks that `value` is finite and lies between min and max; `ends` says which
// end is open. `max` may be INFINITY. SL_EINVAL names `path`.
enum sl_err spec_real(const char *path, double value, double min, double max,
                      enum spec_ends ends, struct sl_error *err);

// ---- the parts of a spec: each function checks one and sets its defaults.
// SL_EINVAL names the field; SL_ENOMEM.

// Sets model.outputs to the outputs that `losses` name; checks that these are
// said, and in no other way as well. Before model_make.
enum sl_err spec_set_outputs(Sluice__V1__JobSpec *spec, struct sl_error *err);
// Checks the loss, from_logits, label_smoothing and top_k against the output of
// model `m`, or those of each of `losses`, with their weights; sets from_logits
// and weights, and raises the edition that workers need. An external model has
// none of these fields.
enum sl_err spec_check_loss(Sluice__V1__JobSpec *spec, const struct model *m,
                            struct sl_error *err);
// Checks that the classes that source `s` makes up, if it is a generator, are
// no more than the outputs for sparse_categorical_crossentropy, and than 2 for
// binary_crossentropy; and that its format is npy, npz or idx if the model's
// output has several rows, each of which has a label, and one that has labels
// of several numbers if the model has several outputs; of a csv that it names
// as many columns as a label of the job `spec` has numbers. SL_OK for an
// external model, and if `s`, which `path` names, is NULL. After the source and
// the loss.
enum sl_err spec_check_labels(const char *path, const Sluice__V1__SourceSpec *s,
                              const Sluice__V1__JobSpec *spec,
                              const struct model *m, struct sl_error *err);
// Refuses an optimizer that looks at whole variables (optim_is_whole):
// SL_EINVAL, the only error, with the reason `why`, as "they are cut". SL_OK
// for any other, and for one that spec_check_optimizer refuses.
enum sl_err spec_optim_no_whole(const Sluice__V1__OptimizerSpec *o,
                                const char *why, struct sl_error *err);

// Checks an optimizer with its schedule, but not its groups, and sets the
// defaults of its type and the learning rate, which piecewise_constant_decay
// has not: there one that is given is refused. Tables' own types are refused.
enum sl_err spec_check_optimizer(Sluice__V1__OptimizerSpec *o,
                                 struct sl_error *err);
// Checks the ranges of the numbers of an optimizer that are given, whatever its
// type, and that it has at most one of clipvalue, clipnorm and global_clipnorm.
enum sl_err spec_optim_check_values(const Sluice__V1__OptimizerSpec *o,
                                    struct sl_error *err);
// Returns the names of the fields that an optimizer of this type takes, for
// spec_only; static text. The optimizer is one that spec_check_optimizer
// accepted.
const char *spec_optimizer_fields(const Sluice__V1__OptimizerSpec *o);
// Returns the name of a field that is set and that only the optimizer of a job
// has, not that of a table nor the outer one: the first of schedule, groups,
// clipnorm and global_clipnorm; NULL: none is set. Static text. `o` need not
// have been checked.
const char *spec_optim_of_jobs(const Sluice__V1__OptimizerSpec *o);
// Checks the groups of an optimizer that spec_check_optimizer accepted: their
// number, that each has names, and the values that it gives. Whether variables
// have these names is spec_check_grouped's to say.
enum sl_err spec_check_groups(const Sluice__V1__OptimizerSpec *o,
                              struct sl_error *err);
// Checks that each name or pattern in a group of the job's optimizer fits a
// trained variable of the model, and refuses one of whole variables
// (optim_is_whole) in modes allreduce and local; in allreduce raises the
// edition that workers need. SL_OK without an optimizer. After `train`.
enum sl_err spec_check_grouped(Sluice__V1__JobSpec *spec, const struct model *m,
                               struct sl_error *err);
// Checks the schedule of the learning rate, and sets the defaults of its type.
enum sl_err spec_check_schedule(Sluice__V1__ScheduleSpec *s,
                                struct sl_error *err);
// Fills *out with the schedule of rates of a checked spec, whose points it
// borrows; with the constant learning_rate if that has none.
void spec_schedule(struct rate *out, const Sluice__V1__OptimizerSpec *o);
// Returns "the label_column", "one of label_columns" or "one of columns" if
// `name` is that of the source; NULL if it is none. Static text.
const char *spec_column_used(const Sluice__V1__SourceSpec *s, const char *name);
// Checks the names and hashes of a source's columns of ids, if it has some,
// against its other fields and its `format`, which were checked before; a hash
// without a seed gets 0.
enum sl_err spec_check_ids(const Sluice__V1__SourceSpec *s, const char *format,
                           const char *path, struct sl_error *err);
// Checks which features a source reads, if it says it, against the input of
// `m`, which is not external; `records`: it is a tfrecord, which has to say it.
// In other formats the key of `x` becomes "npy", if it has none. `path` names
// the source in errors, here and below.
enum sl_err spec_check_features(const Sluice__V1__SourceSpec *s, bool records,
                                const struct model *m, const char *path,
                                struct sl_error *err);
// Checks that data.test, if there is one, has the columns of ids of data.train.
enum sl_err spec_check_ids_same(const Sluice__V1__DataSpec *data,
                                struct sl_error *err);
// Checks that layers of the model read all columns of ids of a source, and no
// others. `s` is data.train, and not NULL; each of its columns has a name
// (spec_check_ids). SL_EINVAL names the layer or the column.
enum sl_err spec_check_columns(const Sluice__V1__SourceSpec *s,
                               const struct model *m, struct sl_error *err);
// Checks the changes of data.train.augment, if there are some, against the
// input of model `m` and the loss. SL_EINVAL names the field.
enum sl_err spec_augment_fits(const Sluice__V1__JobSpec *spec,
                              const struct model *m, struct sl_error *err);
// Checks data.train.augment against the input of model `m`, the loss and the
// rest of the source; refuses one of data.test. Raises the edition that workers
// need, if it has entries. After the source and the loss.
enum sl_err spec_check_augment(Sluice__V1__JobSpec *spec, const struct model *m,
                               struct sl_error *err);
// Checks train.class_weight against the loss and the outputs of model `m`, and
// the names of data's sample_weight; refuses both beside changes that mix
// samples, and class_weight of an external model. Raises the edition that
// workers need. After the data, the loss and the training.
enum sl_err spec_check_weights(Sluice__V1__JobSpec *spec, const struct model *m,
                               struct sl_error *err);
// Checks the sources of data: external ones for an external model, the fields
// that each format wants, columns of ids, classes, augment and skip_bad; raises
// the edition that workers need. With data.validation makes data.test a copy of
// data.train, without augment; one that is there must be such a copy.
// SL_ERANGE: a pattern of files names too many, or is too long. After the loss.
enum sl_err spec_check_data(Sluice__V1__JobSpec *spec, const struct model *m,
                            struct sl_error *err);
// Checks `train`, which it makes if it is missing, with its parts for
// allreduce, hybrid and local (the three functions below). After the model and
// the optimizer.
enum sl_err spec_check_train(Sluice__V1__JobSpec *spec, struct sl_error *err);
// Checks the fields of `train` for allreduce (workers, on_resize, bucket_bytes,
// contributions, what tables beside a ring want) and sets their defaults;
// refuses max_delay, staleness and max_workers there, and the first three in
// other modes. train.mode and train.staleness were checked before, and are not
// NULL.
enum sl_err spec_check_ring(Sluice__V1__JobSpec *spec, struct sl_error *err);
// Checks train.group, and makes it with its defaults if it is missing; refuses
// it in other modes than hybrid.
enum sl_err spec_check_hybrid(Sluice__V1__JobSpec *spec, struct sl_error *err);
// Checks what train has for local alone (inner, outer, quorum, grace_ms,
// fragments, overlap, max_norm_ratio, average, norm, weight), and that nothing
// is asked for that local has not (accumulate, audit, reduce_on_plateau); sets
// defaults and raises the edition that workers need. In other modes refuses
// what is of local alone, and external variables that are moving; in all,
// optimizer.delay. After the mode with its contributions, and the optimizer;
// window_closures is set.
enum sl_err spec_check_local(Sluice__V1__JobSpec *spec, struct sl_error *err);
// Checks placement, which it makes if it is missing, and sets its defaults: the
// partitioner with its keys, `move`, and replicas. After the model and `train`.
enum sl_err spec_check_placement(Sluice__V1__JobSpec *spec,
                                 struct sl_error *err);
// Checks when checkpoints are made, and how many are kept; makes `checkpoint`
// if it is missing, and sets its defaults.
enum sl_err spec_check_checkpoint(Sluice__V1__JobSpec *spec,
                                  struct sl_error *err);
// Checks when and how the job is evaluated, how many ranges that are
// (spec_check_ranges) if the test set's size is given, and the metrics
// (spec_check_metrics); makes `evaluate` if it is missing, and sets its
// defaults. After the loss and the data.
enum sl_err spec_check_evaluate(Sluice__V1__JobSpec *spec,
                                const struct model *m, struct sl_error *err);
// Checks the callbacks, if there are some: what they watch is evaluated. Sets
// their defaults, and in allreduce raises the edition that workers need. After
// the loss, the optimizer, the data, `train` and `evaluate`.
enum sl_err spec_check_callbacks(Sluice__V1__JobSpec *spec,
                                 struct sl_error *err);
// Checks the path of the folder of curves, if the spec has `observe`: it must
// be given, and stay below another folder (grown_check). Looks at no file. Sets
// the default of histograms.
enum sl_err spec_check_observe(Sluice__V1__JobSpec *spec, struct sl_error *err);
// Checks evaluate.metrics (each offered for the loss, and once; none where
// nothing is evaluated) and top_k, which it sets if top_k is wanted, and raises
// the edition that workers need to report them. After the loss, the data and
// the rest of `evaluate`.
enum sl_err spec_check_metrics(Sluice__V1__JobSpec *spec, const struct model *m,
                               struct sl_error *err);

// Returns true if the model has tables, or a layer that is to have rows of one
// (rows: dynamic). The model is not NULL; the spec need not be checked.
bool spec_has_tables(const Sluice__V1__JobSpec *spec);

// Returns true if a layer of the model says `rows`: it has rows of a table
// (rows: dynamic). The model is not NULL; the spec need not be checked.
bool spec_has_rows(const Sluice__V1__JobSpec *spec);

// A list of tables on the heap.
struct spec_table_list {
    size_t count;
    Sluice__V1__TableSpec **tables;
};
// Makes the tables of the layers with rows, in the order of the layers, without
// what a check fills in; spec_free_tables frees them, copies that borrow
// nothing. SL_ENOMEM leaves *out as it was.
enum sl_err spec_layer_tables(struct spec_table_list *out,
                              const Sluice__V1__ModelSpec *spec,
                              const struct model *m);
// Frees tables and array; *list is all zeroes then, and may be before.
void spec_free_tables(struct spec_table_list *list);
// Checks that *had, the list that a spec came with, is empty or equal to the
// checked list that it has now. SL_EINVAL: they differ; SL_ENOMEM.
enum sl_err spec_same_tables(const struct spec_table_list *had,
                             const Sluice__V1__ModelSpec *model,
                             struct sl_error *err);
// Checks model.tables of an external model. Of another one it sets them to the
// tables of the layers with rows: a list that was there must be equal, and is
// freed, also on failure. Sets the defaults of each table. Checks
// train.rows_wire and that the job's other parts go with tables; raises the
// edition that workers and psservers need. After all other parts.
enum sl_err spec_check_tables(Sluice__V1__JobSpec *spec, const struct model *m,
                              struct sl_error *err);

#endif
