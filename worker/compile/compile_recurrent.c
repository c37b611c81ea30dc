// SPDX-License-Identifier: Apache-2.0
// worker/compile/compile_recurrent.c -- layers that go step by step: lstm, gru,
// simple_rnn, with Keras' formulas.
//
// What comes from the input is one product for all steps, before them, and so
// are the gradients of the kernels, behind them. Between are a step's own ops,
// in f32: a product with the recurrent kernel, and what the cell computes. A
// step's tensors are [gates x units, samples], so that each gate's numbers lie
// together; each is transposed on its way in and out.
#include "worker/compile/compile_build.h"

// What a step keeps for its backward pass, as tensors one behind the other.
enum recurrent_step {
    GATES, // after their activations
    STATE, // h, what the next step reads
    CELL,  // lstm: c
    OUT,   // lstm: the activation of c. gru: h before, less the candidate
    AGAIN, // gru: the product with the recurrent kernel, and its bias
    STEP_TENSORS
};

enum recurrent_kept {
    STEPS,
    BEFORE
}; // in b->kept: the first step's tensors;
   // h before each step, [samples, steps, u]
enum lstm_gate { LSTM_IN, LSTM_FORGET, LSTM_CELL, LSTM_OUT };
enum gru_gate { GRU_UPDATE, GRU_RESET, GRU_CANDIDATE };

struct recurrent {
    struct build *b;
    const struct model_node *node;
    uint32_t i;
    int64_t n, steps, in, units, gates;
    uint32_t kernel; // recurrent, f32
    uint32_t first;  // tensors of the state before the first step
};

static struct recurrent recurrent_of(struct build *b, uint32_t i)
{
    const struct model_node *node = &b->model->nodes[i];
    int64_t gates = node->type == MODEL_LSTM  ? 4
                    : node->type == MODEL_GRU ? 3
                                              : 1;
    int64_t units = (int64_t)node->out.dim[node->out.rank - 1];

    return (struct recurrent){
        .b = b,
        .node = node,
        .i = i,
        .n = (int64_t)b->o->batch,
        .steps = (int64_t)node->in.dim[0],
        .in = (int64_t)node->in.dim[1],
        .units = units,
        .gates = gates,
        .kernel =
            compile_cast(b, i, compile_operand(b, i, MODEL_RECURRENT_KERNEL),
                         gates * units * units, b->t, KERN_F32),
        .first = *compile_kept(b, i, STEPS),
    };
}

static uint32_t recurrent_tensor(const struct recurrent *r, int64_t rows)
{
    return compile_tensor(r->b, (size_t)(rows * r->n) * r->b->real);
}

// Returns the tensor that step `s` keeps, or, of step -1, what is before it.
static uint32_t of_step(const struct recurrent *r, int64_t s,
                        enum recurrent_step which)
{
    return r->first + (uint32_t)(s + 1) * STEP_TENSORS + which;
}

// Returns the rows of gate `gate` of a tensor with a row for each unit of each.
static struct build_ref gate_of(const struct recurrent *r, uint32_t t,
                                unsigned gate)
{
    return (struct build_ref){t, (size_t)(gate * r->units * r->n) * r->b->real};
}

// Returns the position of step `s` in the input.
static int64_t place_of(const struct recurrent *r, int64_t s)
{
    return r->node->backwards ? r->steps - 1 - s : s;
}

// ---- a step's ops

static void step_emit(const struct recurrent *r, struct kern_desc *d,
                      const struct build_ref *refs)
{
    compile_type(r->b, d, KERN_F32);
    compile_emit(r->b, r->i, d, refs);
}

// Appends z = x op y for the numbers of one gate.
static void step_combine(const struct recurrent *r, enum kern_binary_kind kind,
                         struct build_ref x, struct build_ref y,
                         struct build_ref z)
{
    struct kern_desc d;

    kern_desc_binary(&d, kind, 2, 2, (int64_t[]){r->units, r->n});
    step_emit(r, &d, (struct build_ref[]){x, y, z});
}

// Applies an activation to `gates` gates in place, or to y, or turns `dy` of
// the result `x` into what is before it.
static void step_activate(const struct recurrent *r, enum model_act act,
                          int64_t gates, struct build_ref x, struct build_ref y)
{
    struct model_node node = {.act = act, .alpha = r->node->alpha};
    struct kern_desc d;
    float a;
    enum kern_unary_kind kind = compile_unary(&node, &a);

    kern_desc_unary(&d, KERN_UNARY_FWD, kind, a, 2,
                    (int64_t[]){gates * r->units, r->n});
    step_emit(r, &d, (struct build_ref[]){x, y});
}

static void step_unactivate(const struct recurrent *r, enum model_act act,
                            int64_t gates, struct build_ref y,
                            struct build_ref dy)
{
    struct model_node node = {.act = act, .alpha = r->node->alpha};
    struct kern_desc d;
    float a;
    enum kern_unary_kind kind = compile_unary(&node, &a);

    kern_desc_unary(&d, KERN_UNARY_BWD, kind, a, 2,
                    (int64_t[]){gates * r->units, r->n});
    step_emit(r, &d, (struct build_ref[]){y, dy, dy});
}

// Appends y = x or, with `adds`, y += x, for one gate.
static void step_move(const struct recurrent *r, bool adds, struct build_ref x,
                      struct build_ref y)
{
    struct kern_shape all =
        kern_shape(KERN_F32, 2, (int64_t[]){r->units, r->n});
    struct kern_desc d;

    kern_desc_axpby(&d, &all, &all, 1, adds);
    step_emit(r, &d, (struct build_ref[]){x, y});
}

// Sets `gates` gates to zeroes.
static void step_clear(const struct recurrent *r, uint32_t t, int64_t gates)
{
    struct kern_shape all =
        kern_shape(KERN_F32, 2, (int64_t[]){gates * r->units, r->n});
    struct kern_desc d;

    kern_desc_fill(&d, &all, 0);
    step_emit(r, &d, (struct build_ref[]){WHOLE(t)});
}

// Copies between a step's tensor of `rows` rows and place `at` of a sequence
// [samples, length, rows].
static void sequence_copy(const struct recurrent *r, int64_t rows, uint32_t t,
                          uint32_t sequence, int64_t length, int64_t at,
                          bool out)
{
    struct kern_shape step = kern_shape(KERN_F32, 2, (int64_t[]){rows, r->n});
    struct kern_shape there = step;
    struct build_ref place = {sequence, (size_t)(at * rows) * r->b->real};
    struct kern_desc d;

    there.stride[0] = 1;
    there.stride[1] = length * rows;
    kern_desc_axpby(&d, out ? &step : &there, out ? &there : &step, 1, 0);
    step_emit(
        r, &d,
        (struct build_ref[]){out ? WHOLE(t) : place, out ? place : WHOLE(t)});
}

// Appends z = kernel h, or z += kernel h.
static void step_product(const struct recurrent *r, uint32_t h, uint32_t z,
                         bool adds)
{
    struct kern_desc d;

    kern_desc_matmul(&d, r->gates * r->units, r->n, r->units, false, false,
                     adds ? KERN_ACCUM : 0);
    step_emit(r, &d,
              (struct build_ref[]){WHOLE(r->kernel), WHOLE(h), WHOLE(z)});
}

// Appends dh += kernel^T dz.
static void step_product_back(const struct recurrent *r, uint32_t dz,
                              uint32_t dh)
{
    struct kern_desc d;

    kern_desc_matmul(&d, r->units, r->n, r->gates * r->units, true, false,
                     KERN_ACCUM);
    step_emit(r, &d,
              (struct build_ref[]){WHOLE(r->kernel), WHOLE(dz), WHOLE(dh)});
}

// ---- a mask: a step that does not count carries on what was before it

// Returns a new tensor [units, samples] with 1 for the samples in which step
// `s` counts or, with `rests`, in which it does not, and 0 for the others.
static uint32_t step_mask(const struct recurrent *r, int64_t s, bool rests)
{
    struct kern_shape all =
        kern_shape(KERN_F32, 2, (int64_t[]){r->units, r->n});
    struct kern_shape one = all;
    uint32_t mask = compile_mask(r->b, r->i, r->node->mask, rests);
    uint32_t t = recurrent_tensor(r, r->units);
    struct kern_desc d;

    one.stride[0] = 0;
    one.stride[1] = r->steps;
    kern_desc_axpby(&d, &one, &all, 1, 0);
    step_emit(r, &d,
              (struct build_ref[]){{mask, (size_t)place_of(r, s) * r->b->real},
                                   WHOLE(t)});
    return t;
}

// Appends y = counts y + rests before, of STATE or CELL.
static void step_carry(const struct recurrent *r, int64_t s,
                       enum recurrent_step which, uint32_t counts,
                       uint32_t rests)
{
    uint32_t y = of_step(r, s, which), t = recurrent_tensor(r, r->units);

    step_combine(r, KERN_MUL, WHOLE(y), WHOLE(counts), WHOLE(y));
    step_combine(r, KERN_MUL, WHOLE(of_step(r, s - 1, which)), WHOLE(rests),
                 WHOLE(t));
    step_combine(r, KERN_ADD, WHOLE(y), WHOLE(t), WHOLE(y));
}

static void step_masked(const struct recurrent *r, int64_t s)
{
    uint32_t counts, rests;

    if (r->node->mask == MODEL_NONE)
        return;
    counts = step_mask(r, s, false);
    rests = step_mask(r, s, true);
    step_carry(r, s, STATE, counts, rests);
    if (r->node->type == MODEL_LSTM)
        step_carry(r, s, CELL, counts, rests);
}

static bool step_gives_zeroes(const struct recurrent *r)
{
    return r->node->mask != MODEL_NONE && r->node->zero_masked;
}

// Returns what step `s` gives: STATE, or zeroes where it does not count.
static uint32_t step_output(const struct recurrent *r, int64_t s)
{
    uint32_t y = of_step(r, s, STATE), t;

    if (!step_gives_zeroes(r))
        return y;
    t = step_mask(r, s, false);
    step_combine(r, KERN_MUL, WHOLE(y), WHOLE(t), WHOLE(t));
    return t;
}

// ---- the cells: from GATES, what came from the input, to STATE

static void lstm_step(const struct recurrent *r, int64_t s)
{
    uint32_t z = of_step(r, s, GATES), c = of_step(r, s, CELL);
    uint32_t t = recurrent_tensor(r, r->units);

    step_product(r, of_step(r, s - 1, STATE), z, true);
    step_activate(r, r->node->gate_act, 2, WHOLE(z), WHOLE(z));
    step_activate(r, r->node->step_act, 1, gate_of(r, z, LSTM_CELL),
                  gate_of(r, z, LSTM_CELL));
    step_activate(r, r->node->gate_act, 1, gate_of(r, z, LSTM_OUT),
                  gate_of(r, z, LSTM_OUT));
    step_combine(r, KERN_MUL, gate_of(r, z, LSTM_FORGET),
                 WHOLE(of_step(r, s - 1, CELL)), WHOLE(c));
    step_combine(r, KERN_MUL, gate_of(r, z, LSTM_IN), gate_of(r, z, LSTM_CELL),
                 WHOLE(t));
    step_combine(r, KERN_ADD, WHOLE(c), WHOLE(t), WHOLE(c));
    step_activate(r, r->node->step_act, 1, WHOLE(c), WHOLE(of_step(r, s, OUT)));
    step_combine(r, KERN_MUL, gate_of(r, z, LSTM_OUT),
                 WHOLE(of_step(r, s, OUT)), WHOLE(of_step(r, s, STATE)));
}

// Adds to a step's product with the recurrent kernel that one's bias, the
// second row of the variable.
static void gru_bias(const struct recurrent *r, uint32_t z)
{
    struct kern_shape all =
        kern_shape(KERN_F32, 2, (int64_t[]){3 * r->units, r->n});
    struct kern_shape row = all;
    struct build_ref bias;
    struct kern_desc d;

    if (r->node->weight[MODEL_BIAS] == MODEL_NONE)
        return;
    bias = (struct build_ref){
        compile_weight(r->b, r->node, MODEL_BIAS, PROGRAM_PARAMS),
        (size_t)(3 * r->units) * r->b->real};
    row.stride[0] = 1;
    row.stride[1] = 0;
    kern_desc_axpby(&d, &row, &all, 1, 1);
    step_emit(r, &d, (struct build_ref[]){bias, WHOLE(z)});
}

// h = candidate + update (h before - candidate).
static void gru_step(const struct recurrent *r, int64_t s)
{
    uint32_t z = of_step(r, s, GATES), q = of_step(r, s, AGAIN);
    uint32_t before = of_step(r, s - 1, STATE), less = of_step(r, s, OUT);
    uint32_t h = of_step(r, s, STATE);
    struct build_ref candidate = gate_of(r, z, GRU_CANDIDATE);

    step_product(r, before, q, false);
    gru_bias(r, q);
    for (unsigned gate = GRU_UPDATE; gate <= GRU_RESET; gate++)
        step_move(r, true, gate_of(r, q, gate), gate_of(r, z, gate));
    step_activate(r, r->node->gate_act, 2, WHOLE(z), WHOLE(z));
    step_combine(r, KERN_MUL, gate_of(r, z, GRU_RESET),
                 gate_of(r, q, GRU_CANDIDATE), WHOLE(h));
    step_combine(r, KERN_ADD, candidate, WHOLE(h), candidate);
    step_activate(r, r->node->step_act, 1, candidate, candidate);
    step_combine(r, KERN_SUB, WHOLE(before), candidate, WHOLE(less));
    step_combine(r, KERN_MUL, gate_of(r, z, GRU_UPDATE), WHOLE(less), WHOLE(h));
    step_combine(r, KERN_ADD, WHOLE(h), candidate, WHOLE(h));
}

static void simple_step(const struct recurrent *r, int64_t s)
{
    uint32_t z = of_step(r, s, GATES);

    step_product(r, of_step(r, s - 1, STATE), z, true);
    step_activate(r, r->node->step_act, 1, WHOLE(z),
                  WHOLE(of_step(r, s, STATE)));
}

// ---- the cells' ways back: from dh, the gradient of STATE, and dc, that of
// CELL, to dz, that of the gates before their activations, and dh and dc of the
// step before. dq is that of the product with the recurrent kernel

struct recurrent_back {
    uint32_t dh, dc, dz, dq;
};

static void lstm_back(const struct recurrent *r, int64_t s,
                      const struct recurrent_back *k)
{
    uint32_t z = of_step(r, s, GATES), t = recurrent_tensor(r, r->units);
    struct build_ref out = WHOLE(of_step(r, s, OUT));

    step_combine(r, KERN_MUL, WHOLE(k->dh), out, gate_of(r, k->dz, LSTM_OUT));
    step_combine(r, KERN_MUL, WHOLE(k->dh), gate_of(r, z, LSTM_OUT), WHOLE(t));
    step_unactivate(r, r->node->step_act, 1, out, WHOLE(t));
    step_combine(r, KERN_ADD, WHOLE(k->dc), WHOLE(t), WHOLE(k->dc));
    step_combine(r, KERN_MUL, WHOLE(k->dc), gate_of(r, z, LSTM_CELL),
                 gate_of(r, k->dz, LSTM_IN));
    step_combine(r, KERN_MUL, WHOLE(k->dc), WHOLE(of_step(r, s - 1, CELL)),
                 gate_of(r, k->dz, LSTM_FORGET));
    step_combine(r, KERN_MUL, WHOLE(k->dc), gate_of(r, z, LSTM_IN),
                 gate_of(r, k->dz, LSTM_CELL));
    step_combine(r, KERN_MUL, WHOLE(k->dc), gate_of(r, z, LSTM_FORGET),
                 WHOLE(k->dc));
    step_unactivate(r, r->node->gate_act, 2, WHOLE(z), WHOLE(k->dz));
    step_unactivate(r, r->node->step_act, 1, gate_of(r, z, LSTM_CELL),
                    gate_of(r, k->dz, LSTM_CELL));
    step_unactivate(r, r->node->gate_act, 1, gate_of(r, z, LSTM_OUT),
                    gate_of(r, k->dz, LSTM_OUT));
    step_clear(r, k->dh, 1);
    step_product_back(r, k->dz, k->dh);
}

static void gru_back(const struct recurrent *r, int64_t s,
                     const struct recurrent_back *k)
{
    uint32_t z = of_step(r, s, GATES), q = of_step(r, s, AGAIN);
    struct build_ref candidate = gate_of(r, z, GRU_CANDIDATE);
    struct build_ref update = gate_of(r, z, GRU_UPDATE);
    struct build_ref d = gate_of(r, k->dz, GRU_CANDIDATE);

    step_combine(r, KERN_MUL, WHOLE(k->dh), WHOLE(of_step(r, s, OUT)),
                 gate_of(r, k->dz, GRU_UPDATE));
    step_combine(r, KERN_MUL, WHOLE(k->dh), update, WHOLE(k->dc));
    step_combine(r, KERN_SUB, WHOLE(k->dh), WHOLE(k->dc), d);
    step_unactivate(r, r->node->step_act, 1, candidate, d);
    step_combine(r, KERN_MUL, d, gate_of(r, q, GRU_CANDIDATE),
                 gate_of(r, k->dz, GRU_RESET));
    step_unactivate(r, r->node->gate_act, 2, WHOLE(z), WHOLE(k->dz));
    for (unsigned gate = GRU_UPDATE; gate <= GRU_RESET; gate++)
        step_move(r, false, gate_of(r, k->dz, gate), gate_of(r, k->dq, gate));
    step_combine(r, KERN_MUL, d, gate_of(r, z, GRU_RESET),
                 gate_of(r, k->dq, GRU_CANDIDATE));
    step_move(r, false, WHOLE(k->dc), WHOLE(k->dh));
    step_product_back(r, k->dq, k->dh);
}

static void simple_back(const struct recurrent *r, int64_t s,
                        const struct recurrent_back *k)
{
    step_move(r, false, WHOLE(k->dh), WHOLE(k->dz));
    step_unactivate(r, r->node->step_act, 1, WHOLE(of_step(r, s, STATE)),
                    WHOLE(k->dz));
    step_clear(r, k->dh, 1);
    step_product_back(r, k->dz, k->dh);
}

// ---- all steps

static const struct recurrent_cell {
    void (*step)(const struct recurrent *r, int64_t s);
    void (*back)(const struct recurrent *r, int64_t s,
                 const struct recurrent_back *k);
} cells[MODEL_LAYER_COUNT] = {
    [MODEL_LSTM] = {lstm_step, lstm_back},
    [MODEL_GRU] = {gru_step, gru_back},
    [MODEL_SIMPLE_RNN] = {simple_step, simple_back},
};

// Makes the tensors of all steps; what is before the first are zeroes.
static void recurrent_begin(struct recurrent *r)
{
    for (int64_t s = -1; s < r->steps; s++) {
        for (unsigned which = 0; which < STEP_TENSORS; which++) {
            bool wide = which == GATES || which == AGAIN;
            uint32_t t = recurrent_tensor(r, (wide ? r->gates : 1) * r->units);

            if (s == -1 && which == 0)
                r->first = *compile_kept(r->b, r->i, STEPS) = t;
        }
    }
    step_clear(r, of_step(r, -1, STATE), 1);
    if (r->node->type == MODEL_LSTM)
        step_clear(r, of_step(r, -1, CELL), 1);
}

// Returns x kernel^T and the bias for all steps, [samples, steps, gates x
// units], in f32.
static uint32_t recurrent_input(const struct recurrent *r)
{
    struct compile_projection p = {.kernel = MODEL_KERNEL,
                                   .rows = r->n * r->steps,
                                   .k = r->in,
                                   .units = r->gates * r->units};
    uint32_t x = r->b->value[r->node->input[0]];

    return compile_cast(r->b, r->i, compile_project(r->b, r->i, &p, x),
                        p.rows * p.units, r->b->t, KERN_F32);
}

// Returns the place of step `s` in the output's sequence.
static int64_t sequence_place(const struct recurrent *r, int64_t s)
{
    return r->node->keep_order ? place_of(r, s) : s;
}

static void recurrent_forward(struct build *b, uint32_t i)
{
    struct recurrent r = recurrent_of(b, i);
    bool all = r.node->sequences;
    int64_t length = all ? r.steps : 1;
    uint32_t zs = recurrent_input(&r),
             y = recurrent_tensor(&r, length * r.units);
    uint32_t before = recurrent_tensor(&r, r.steps * r.units);

    recurrent_begin(&r);
    *compile_kept(b, i, BEFORE) = before;
    for (int64_t s = 0; s < r.steps; s++) {
        sequence_copy(&r, r.gates * r.units, of_step(&r, s, GATES), zs, r.steps,
                      place_of(&r, s), false);
        if (b->o->train && !r.node->frozen)
            sequence_copy(&r, r.units, of_step(&r, s - 1, STATE), before,
                          r.steps, place_of(&r, s), true);
        cells[r.node->type].step(&r, s);
        step_masked(&r, s);
        if (all || s + 1 == r.steps)
            sequence_copy(&r, r.units, step_output(&r, s), y, length,
                          all ? sequence_place(&r, s) : 0, true);
    }
    b->value[i] = compile_cast(b, i, y, r.n * length * r.units, KERN_F32, b->t);
}

// Sets the gradient of step s's STATE, which already has what the step after it
// gave.
static void recurrent_take(const struct recurrent *r, int64_t s, uint32_t dy,
                           uint32_t dh)
{
    bool all = r->node->sequences;
    uint32_t t;

    if (s + 1 < r->steps && !all)
        return;
    t = s + 1 < r->steps ? recurrent_tensor(r, r->units) : dh;
    sequence_copy(r, r->units, t, dy, all ? r->steps : 1,
                  all ? sequence_place(r, s) : 0, false);
    if (step_gives_zeroes(r))
        step_combine(r, KERN_MUL, WHOLE(t), WHOLE(step_mask(r, s, false)),
                     WHOLE(t));
    if (t != dh)
        step_combine(r, KERN_ADD, WHOLE(dh), WHOLE(t), WHOLE(dh));
}

// Computes the gradients of the GRU's biases, the sums of both gradients' rows.
static void gru_bias_grad(const struct recurrent *r, uint32_t dzs, uint32_t dqs)
{
    int64_t each = 3 * r->units;
    struct kern_desc d;
    uint32_t sum;

    if (r->node->weight[MODEL_BIAS] == MODEL_NONE)
        return;
    sum = compile_grad(r->b, r->i, MODEL_BIAS);
    for (unsigned k = 0; k < 2; k++) {
        kern_desc_reduce(&d, 2, (int64_t[]){r->n * r->steps, each}, 0);
        step_emit(r, &d,
                  (struct build_ref[]){
                      WHOLE(k == 0 ? dzs : dqs),
                      {sum, (size_t)(k * (size_t)each) * r->b->real}});
    }
    compile_grad_home(r->b, r->i, MODEL_BIAS, sum, KERN_F32);
}

// Computes the gradients of both kernels and the bias from dzs and dqs, the
// gradients of all steps, and gives the input its own.
static void recurrent_grads(const struct recurrent *r, uint32_t dzs,
                            uint32_t dqs)
{
    struct build *b = r->b;
    uint32_t before = *compile_kept(b, r->i, BEFORE);
    bool gru = r->node->type == MODEL_GRU;
    struct compile_projection p = {.kernel = MODEL_KERNEL,
                                   .rows = r->n * r->steps,
                                   .k = r->in,
                                   .units = r->gates * r->units,
                                   .bias_apart = gru};
    int64_t count = p.rows * p.units;
    uint32_t dz = compile_cast(b, r->i, dzs, count, KERN_F32, b->t), dq = dz;

    if (compile_wants_grad(b, r->node, 0)) {
        uint32_t dx = compile_target(b, r->node->input[0]);

        compile_project_input(b, r->i, &p, dz, dx);
        compile_took(b, r->node->input[0], dx);
    }
    if (r->node->frozen)
        return;
    compile_project_grads(b, r->i, &p, b->value[r->node->input[0]], dz);
    if (gru) {
        gru_bias_grad(r, dzs, dqs);
        dq = compile_cast(b, r->i, dqs, count, KERN_F32, b->t);
    }
    p.kernel = MODEL_RECURRENT_KERNEL;
    p.k = r->units;
    before = compile_cast(b, r->i, before, p.rows * p.k, KERN_F32, b->t);
    compile_project_grads(b, r->i, &p, before, dq);
}

// Leaves in `d` what goes into the step, and returns what goes past it.
static uint32_t step_split(const struct recurrent *r, uint32_t d,
                           uint32_t counts, uint32_t rests)
{
    uint32_t past = recurrent_tensor(r, r->units);

    step_combine(r, KERN_MUL, WHOLE(d), WHOLE(rests), WHOLE(past));
    step_combine(r, KERN_MUL, WHOLE(d), WHOLE(counts), WHOLE(d));
    return past;
}

// Goes back through step `s`, and past it where it does not count.
static void recurrent_back_step(const struct recurrent *r, int64_t s,
                                const struct recurrent_back *k)
{
    bool masked = r->node->mask != MODEL_NONE;
    bool lstm = r->node->type == MODEL_LSTM;
    uint32_t counts, rests, dh = NO_TENSOR, dc = NO_TENSOR;

    if (masked) {
        counts = step_mask(r, s, false);
        rests = step_mask(r, s, true);
        dh = step_split(r, k->dh, counts, rests);
        if (lstm)
            dc = step_split(r, k->dc, counts, rests);
    }
    cells[r->node->type].back(r, s, k);
    if (masked)
        step_move(r, true, WHOLE(dh), WHOLE(k->dh));
    if (masked && lstm)
        step_move(r, true, WHOLE(dc), WHOLE(k->dc));
}

static void recurrent_backward(struct build *b, uint32_t i)
{
    struct recurrent r = recurrent_of(b, i);
    int64_t wide = r.gates * r.units, length = r.node->sequences ? r.steps : 1;
    bool gru = r.node->type == MODEL_GRU;
    uint32_t dy =
        compile_cast(b, i, b->grad[i], r.n * length * r.units, b->t, KERN_F32);
    uint32_t dzs = recurrent_tensor(&r, r.steps * wide), dqs = NO_TENSOR;
    struct recurrent_back k = {.dh = recurrent_tensor(&r, r.units),
                               .dc = recurrent_tensor(&r, r.units),
                               .dz = recurrent_tensor(&r, wide),
                               .dq = NO_TENSOR};

    if (gru) {
        dqs = recurrent_tensor(&r, r.steps * wide);
        k.dq = recurrent_tensor(&r, wide);
    }
    if (r.node->type == MODEL_LSTM)
        step_clear(&r, k.dc, 1);
    for (int64_t s = r.steps - 1; s >= 0; s--) {
        recurrent_take(&r, s, dy, k.dh);
        recurrent_back_step(&r, s, &k);
        sequence_copy(&r, wide, k.dz, dzs, r.steps, place_of(&r, s), true);
        if (gru)
            sequence_copy(&r, wide, k.dq, dqs, r.steps, place_of(&r, s), true);
    }
    recurrent_grads(&r, dzs, dqs);
}

static void recurrent_product(const struct build *b, uint32_t i,
                              struct kern_desc *d)
{
    const struct model_node *node = &b->model->nodes[i];
    const struct model_variable *v =
        &b->model->variables[node->weight[MODEL_KERNEL]];

    kern_desc_matmul(d, (int64_t)(b->o->batch * node->in.dim[0]),
                     (int64_t)v->shape.dim[0], (int64_t)v->shape.dim[1], false,
                     true, 0);
}

const struct compile_layer compile_recurrent = {.forward = recurrent_forward,
                                                .backward = recurrent_backward,
                                                .product = recurrent_product};
