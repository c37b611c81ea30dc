// SPDX-License-Identifier: Apache-2.0
// state/rows/row_rule.h -- how an update changes one row, and what a row keeps
// for it.
//
// Every optimizer of plan/optimizers.def is a rule of rows: it is applied to
// the rows of an update and leaves all others alone (lazy), with t the shard's
// version, as torch.optim.SparseAdam and TensorFlow count it. Two more rules
// exist for rows alone: `rowwise_adagrad`, which keeps one number for a row,
// and `ftrl`.
//
//   rowwise_adagrad  s += mean(g^2); w -= lr / (sqrt(s) + epsilon) g
//                    (FBGEMM's EXACT_ROWWISE_ADAGRAD)
//   ftrl             l2' = l2 + beta / (2 lr); g' = g + 2 l2_shrinkage w
//                    n' = n + g^2; z += g' - (n'^-p - n^-p) / lr w
//                    w = (clip(z, -l1, l1) - z) / (n'^-p / lr + 2 l2')
//                    (Keras' Ftrl; p: the learning rate's power)
//
// Both clip gradients (clipvalue) and decay the row (weight_decay, decoupled)
// before, as kernels/optim.h does. ftrl at a rate of 0 changes nothing.
//
// Threads  functions of their arguments; any.
// Memory   nothing is kept; names are static text.
// Units    elements are f32, dim is at most TABLE_DIM_MOST; slots lie behind
//          the row's values.
// Errors   only row_rule_check can fail. `err` may be NULL.
#ifndef STATE_ROWS_ROW_RULE_H
#define STATE_ROWS_ROW_RULE_H

#include <stddef.h>
#include <stdint.h>

#include "common/base/status.h"
#include "kernels/optim.h"

enum row_rule_kind { ROW_RULE_OPTIM, ROW_RULE_ROWWISE_ADAGRAD, ROW_RULE_FTRL };
#define ROW_RULE_KINDS 3

struct row_rule {
    enum row_rule_kind kind;
    // ROW_RULE_OPTIM: the optimizer. Others: an adagrad, of which clipvalue,
    // weight_decay, initial_accumulator and (rowwise_adagrad) epsilon are used.
    struct optim optim;
    double power, l1, l2, l2_shrinkage, beta; // ftrl
};

// Sets *r to a rule's defaults. ROW_RULE_OPTIM: those of the optimizer `optim`.
// rowwise_adagrad: initial accumulator 0, epsilon 1e-8, as FBGEMM. ftrl: power
// -0.5, initial accumulator 0.1 and zeroes, as Keras.
void row_rule_defaults(struct row_rule *r, enum row_rule_kind kind,
                       enum optim_kind optim);

// Checks the numbers of a rule. Returns SL_OK; SL_EINVAL says which is out of
// range, or that there is no such kind, or that the optimizer updates whole
// variables (optim_is_whole).
enum sl_err row_rule_check(const struct row_rule *r, struct sl_error *err);

// Returns the name of a rule: "rowwise_adagrad", "ftrl", or that of the
// optimizer. Static text.
const char *row_rule_name(const struct row_rule *r);

// Returns how many f32 a row of `dim` values keeps behind them for the rule.
uint32_t row_rule_slots(const struct row_rule *r, uint32_t dim);

// Sets the slots (row_rule_slots of them) of a new row of `dim` values to what
// they are before its first update.
void row_rule_begin(const struct row_rule *r, uint32_t dim, float *slots);

// The numbers of one update, computed once for all its rows.
struct row_rule_update {
    const struct row_rule *rule; // borrowed
    struct optim_consts consts;
    double lr, l2; // ftrl: l2' of the formula
};

// Computes the numbers of update t (from 1) with the learning rate lr,
// scheduled and times the table's scale. The rule is borrowed as long as *out
// is used.
void row_rule_update_init(struct row_rule_update *out,
                          const struct row_rule *rule, uint64_t t, double lr);

#define ROW_RULE_ROWS 8 // of one call

// Applies an update to n rows, 0 to ROW_RULE_ROWS: grads[i] is dim f32 at any
// address; the values rows[i] are aligned, and the slots follow them. Changes
// values and slots of each.
void row_rule_apply(const struct row_rule_update *u, uint32_t dim, size_t n,
                    const void *const *grads, float *const *rows);

#endif
