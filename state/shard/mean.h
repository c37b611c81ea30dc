// SPDX-License-Identifier: Apache-2.0
// state/shard/mean.h -- the mean of a round's contributions, which exists only
// for some thousand elements at a time.
//
// An update is bound by memory. So the sum of a round is no array: each element
// of it is made where the optimizer wants it, of the parts that are held, and
// of the payload that ends the round, which is decoded then and there.
//
// Where directions are averaged (train.average), the mean of a piece is
//
//   (sum n |v| / sum n) u / |u|,   u = sum n v / |v|
//
// over contributions v of n samples: as long as they are in the mean, however
// they differ in direction. One that is zero has no direction; u is zero if
// they cancel. Moving statistics and embeddings have the plain mean.
//
// Threads  the shard's lock.
// Memory   what a function does not allocate is borrowed.
// Units    elements of the shard.
// Errors   only directions_init can fail.
#ifndef STATE_SHARD_MEAN_H
#define STATE_SHARD_MEAN_H

#include <stdbool.h>
#include <stddef.h>
#include <stdint.h>

#include "state/shard/plan.h"

// What a round knows of each piece; all zeroes where elements are averaged.
struct directions {
    const struct plan_piece *pieces; // borrowed
    size_t count;
    double *sizes; // owned: sum of weights times norm
    double *last;  // owned: norms of the contribution that came last
    float *by;     // owned: times the sum, to be the mean
};

struct mean_part {
    const float *values; // NULL: they come from the payload
    float weight;
    float most;          // at least the largest magnitude of its values
    const double *norms; // of its pieces, which are divided by them; NULL: not
};

struct mean {
    const struct mean_part *parts; // added in this order; at least 1
    size_t count;
    size_t elements;
    float by; // times their sum
    // Pieces, and what their sums are multiplied by; NULL: not by piece.
    const struct directions *directions;
    // The payload that a part without values is read from.
    const struct coded *coded;
    enum wire_type type;
    struct sl_slices payload;
    // Where it is.
    size_t at;
    size_t piece;
    struct coded_reader reader;
};

// Prepares for the pieces of a shard; without plan->directions *d becomes
// zeroes. plan->pieces are borrowed until the release. Returns SL_OK or
// SL_ENOMEM, after which *d is for directions_release.
enum sl_err directions_init(struct directions *d, const struct plan *plan);
// Frees the memory, and zeroes *d; a zeroed one is allowed.
void directions_release(struct directions *d);
// Writes the norm of each piece of a payload that coded_check has passed to
// norms[d->count].
void directions_norms(const struct directions *d, const struct coded *coded,
                      enum wire_type type, const struct sl_slices *payload,
                      double *norms);
// Makes *m a sum of directions: each part that has norms is divided by them,
// piece by piece, and the sum is multiplied by 1 (d->by). m->directions borrows
// *d. Does nothing if *d is zeroes.
void directions_sum(struct directions *d, struct mean *m);
// Makes *m, of which all parts have norms, a mean of directions: walks over it
// once to compute d->by. d->sizes has the sums over all contributions, which
// weigh `weight` together. *d is not zeroes. Call mean_begin next.
void directions_mean(struct directions *d, double weight, struct mean *m);

// Returns true if every element of the mean is finite. It is computed for this
// only if the parts are so large that their sum may not be, or weigh less than
// 1 together; call mean_begin after this.
bool mean_finite(struct mean *m);

// Goes to the first element; before the first mean_take.
void mean_begin(struct mean *m);
// Writes the next n elements of the mean, which must be there, to `out`, from
// where mean_begin and earlier calls have come to.
void mean_take(struct mean *m, size_t n, float *out);
// Writes all m->elements of the mean, from its first element, to `out`, which
// may be the values of a part.
void mean_write(struct mean *m, float *out);

#endif
