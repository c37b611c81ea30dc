// SPDX-License-Identifier: Apache-2.0
// proto/layout.h -- where the elements of a job lie: messages <-> plan/part.
//
// The flat vector is all variables, in order, concatenated. A layout is the
// checked form of Variable[] and Piece[] as JobOpen, CheckpointsReply and
// manifests carry them: every row of every variable in exactly one piece,
// pieces in model order, the pieces of a shard neighbours. So a shard is one
// range of the flat vector and its payload is exactly that range. Behind these
// shards there may be some without elements, which have rows of tables alone.
//
// Threads  a layout is read-only after it was made: any.
// Memory   layout_release; names are copied. The message arrays that
//          layout_variables and layout_pieces make are the caller's:
//          layout_*_free.
// Units    elements are f32, counted in the flat vector.
// Errors   SL_EINVAL says which piece or variable does not fit; SL_ENOMEM.
//          Outputs are then untouched. `err` may be NULL.
#ifndef PROTO_LAYOUT_H
#define PROTO_LAYOUT_H

#include <stddef.h>
#include <stdint.h>

#include "plan/part.h"
#include "common/base/status.h"
#include "proto/common.pb-c.h"
#include "proto/model.h"

struct layout_variable {
    char *name; // owned
    struct model_shape shape;
    enum model_kind kind;
    uint64_t first, elements;
    uint64_t rows, row_elements;
    uint32_t keras_rank; // 0: as it is
    uint32_t keras_order[MODEL_RANK_MAX];
};

struct layout_piece {
    uint32_t variable, shard;
    uint64_t first_row, rows;
    uint64_t first, elements; // its range of the flat vector
};

struct layout_shard {
    uint64_t first, elements; // its range of the flat vector
    uint32_t first_piece, pieces;
};

struct layout {
    struct layout_variable *variables;
    struct layout_piece *pieces;
    struct layout_shard *shards;
    uint32_t variables_count, pieces_count, shards_count;
    uint32_t first_rows; // shards before this one have no rows of tables; 0
                         // unless there are shards without elements
    uint64_t elements;   // elements of the flat vector
};

// Makes *out, for layout_release, of the variables, their pieces and
// `rows_shards`, the number of shards behind theirs that have no pieces (at
// most WIRE_SHARDS_MAX), and checks that they fit together; the messages, each
// checked by itself before (wire_check), are borrowed for the call. SL_EINVAL:
// a piece or variable does not fit, or two variables have one name; SL_ENOMEM.
enum sl_err layout_make(struct layout *out,
                        Sluice__V1__Variable *const *variables,
                        size_t variables_count,
                        Sluice__V1__Piece *const *pieces, size_t pieces_count,
                        uint32_t rows_shards, struct sl_error *err);
// Frees the arrays and names and leaves *l all zeroes, which is allowed.
void layout_release(struct layout *l);

// Returns the index of the variable `name` in l->variables; UINT32_MAX: there
// is none.
uint32_t layout_find(const struct layout *l, const char *name);

// ---- for the coordinator: model -> part -> messages

// Makes an array of what part_plan_make reads of variables, one element for
// each variable of `m`, with `whole` false; free it with sl_free. SL_ENOMEM.
enum sl_err layout_part_vars(struct part_var **out, const struct model *m);

// Makes an array of messages on the heap, one for each variable of `m`;
// layout_variables_free frees it. SL_ENOMEM.
enum sl_err layout_variables(Sluice__V1__Variable ***out,
                             const struct model *m);
// Makes an array of messages on the heap, one for each piece of `plan`;
// layout_pieces_free frees it. SL_ENOMEM.
enum sl_err layout_pieces(Sluice__V1__Piece ***out,
                          const struct part_plan *plan);
// Frees the array of layout_variables and its `count` messages. NULL is
// allowed.
void layout_variables_free(Sluice__V1__Variable **list, size_t count);
// Frees the array of layout_pieces and its `count` messages. NULL is allowed.
void layout_pieces_free(Sluice__V1__Piece **list, size_t count);

// Sets *rows to the size of the first axis of `v` (1 for a scalar) and
// *row_elements to the product of the others. SL_EINVAL if an axis is 0 or the
// product of all is more than MODEL_VARIABLE_MAX.
enum sl_err layout_rows(const Sluice__V1__Variable *v, uint64_t *rows,
                        uint64_t *row_elements, struct sl_error *err);

// ---- for export

// Returns the shape of a variable with its axes in Keras' order.
struct model_shape layout_keras_shape(const struct layout_variable *v);

// Copies all elements of a variable (row major, our shape) into Keras' order
// of axes (row major, layout_keras_shape). `to` and `from` have v->elements
// each and do not overlap.
void layout_to_keras(const struct layout_variable *v, float *to,
                     const float *from);

#endif
