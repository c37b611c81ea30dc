// SPDX-License-Identifier: Apache-2.0
// proto/spec_check.h -- what the spec_*.c files share. For this room only.
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

// Raises the edition of models that a worker must know to compute the job.
static inline void spec_needs(Sluice__V1__JobSpec *spec, unsigned edition)
{
    if (spec->model->has_edition && spec->model->edition >= edition)
        return;
    spec->model->has_edition = true;
    spec->model->edition = edition;
}

// Set a field that is absent: a string to a copy of `value`, a message of type
// `of` to its defaults. SL_ENOMEM.
enum sl_err spec_string(char **at, const char *value);
enum sl_err spec_message(void *at, const ProtobufCMessageDescriptor *of);

// Checks that `word` is one of words[count]: "<path>: wants one of a, b; got
// 'x'; did you mean 'a'?". On success *index (may be NULL) is the word's place.
// NULL: "<path> is missing; known are ...".
enum sl_err spec_word(const char *path, const char *word,
                      const char *const *words, size_t count, unsigned *index,
                      struct sl_error *err);

// Returns SL_EINVAL if a field has a value that `words` does not list: "<path>:
// takes no 'x' with <what>".
enum sl_err spec_only(const char *path, const ProtobufCMessage *m,
                      const char *words, const char *what,
                      struct sl_error *err);

// Checks min <= value <= max: SL_EINVAL names `path`.
enum sl_err spec_range(const char *path, uint64_t value, uint64_t min,
                       uint64_t max, struct sl_error *err);

// Checks that `value` lies between min and max; `ends` says which end is open.
enum spec_ends { SPEC_CLOSED, SPEC_OPEN_LOW, SPEC_OPEN_HIGH };
enum sl_err spec_real(const char *path, double value, double min, double max,
                      enum spec_ends ends, struct sl_error *err);

// Each checks its part of a spec and sets its defaults. SL_EINVAL names the
// field.
enum sl_err spec_check_loss(Sluice__V1__JobSpec *spec, const struct model *m,
                            struct sl_error *err);
enum sl_err spec_check_labels(const char *path, const Sluice__V1__SourceSpec *s,
                              enum spec_loss loss, const struct model *m,
                              struct sl_error *err);
enum sl_err spec_check_optimizer(Sluice__V1__OptimizerSpec *o,
                                 struct sl_error *err);
// `fields`: names that its optimizer takes, for spec_only.
enum sl_err spec_check_groups(const Sluice__V1__OptimizerSpec *o,
                              const char *fields, struct sl_error *err);
// Checks that each name in a group is of variables of the model.
enum sl_err spec_check_grouped(Sluice__V1__JobSpec *spec, const struct model *m,
                               struct sl_error *err);
enum sl_err spec_check_schedule(Sluice__V1__ScheduleSpec *s,
                                struct sl_error *err);
// Fills *out with the schedule of rates; it borrows the spec's points.
void spec_schedule(struct rate *out, const Sluice__V1__OptimizerSpec *o);
enum sl_err spec_check_data(Sluice__V1__JobSpec *spec, bool external,
                            struct sl_error *err);
enum sl_err spec_check_train(Sluice__V1__JobSpec *spec, struct sl_error *err);
enum sl_err spec_check_ring(Sluice__V1__JobSpec *spec, struct sl_error *err);
enum sl_err spec_check_hybrid(Sluice__V1__JobSpec *spec, struct sl_error *err);
enum sl_err spec_check_placement(Sluice__V1__JobSpec *spec,
                                 struct sl_error *err);
enum sl_err spec_check_checkpoint(Sluice__V1__JobSpec *spec,
                                  struct sl_error *err);
enum sl_err spec_check_evaluate(Sluice__V1__JobSpec *spec,
                                struct sl_error *err);
enum sl_err spec_check_callbacks(Sluice__V1__JobSpec *spec,
                                 struct sl_error *err);
enum sl_err spec_check_observe(Sluice__V1__JobSpec *spec, struct sl_error *err);
enum sl_err spec_check_metrics(Sluice__V1__JobSpec *spec, struct sl_error *err);

#endif
