// SPDX-License-Identifier: Apache-2.0
#include "proto/layout.h"
#include "tests/unit/proto/t_proto.h"

static struct model *net(void)
{
    ProtobufCMessage *spec = t_make(
        &sluice__v1__model_spec__descriptor,
        "{'input_shape':[8,8,1],'layers':[{'type':'conv2d','filters':6,"
        "'kernel_size':3},{'type':'batch_normalization'},{'type':'flatten'},"
        "{'type':'dense','units':10}]}");
    struct model *m = NULL;

    T_OK(model_make(&m, (Sluice__V1__ModelSpec *)spec, t_err()));
    wire_free(spec);
    return m;
}

// The piece, and the shard, that holds an element.
static uint32_t piece_of(const struct layout *l, uint64_t element)
{
    uint32_t piece = l->pieces_count - 1;

    while (l->pieces[piece].first > element)
        piece--;
    return piece;
}

static uint32_t shard_of(const struct layout *l, uint64_t element)
{
    return l->pieces[piece_of(l, element)].shard;
}

// model -> part -> messages -> layout, for several numbers of servers.
TEST(layout, what_part_cut_comes_back)
{
    struct model *m = net();

    for (unsigned servers = 1; servers <= 5; servers++) {
        struct part_rule rule = {.kind = PART_AUTO};
        struct part_plan plan;
        struct part_var *vars;
        Sluice__V1__Variable **variables;
        Sluice__V1__Piece **pieces;
        struct layout l;

        T_OK(layout_part_vars(&vars, m));
        T_OK(part_plan_make(&plan, vars, m->variables_count, &rule, 400,
                            servers, t_err()));
        T_OK(layout_variables(&variables, m));
        T_OK(layout_pieces(&pieces, &plan));
        T_OK(layout_make(&l, variables, m->variables_count, pieces,
                         plan.piece_count, 0, t_err()));
        T_EQ(l.elements, m->elements);
        T_EQ(l.shards_count, plan.shard_count);
        for (uint32_t s = 0; s < l.shards_count; s++) {
            T_EQ(l.shards[s].first, plan.shards[s].first_element);
            T_EQ(l.shards[s].elements, plan.shards[s].elements);
            T_EQ(shard_of(&l, l.shards[s].first), s);
            T_EQ(shard_of(&l, l.shards[s].first + l.shards[s].elements - 1), s);
        }
        for (uint32_t v = 0; v < l.variables_count; v++) {
            T_OK(wire_check(&variables[v]->base, t_err()));
            T_EQ(layout_find(&l, m->variables[v].name), v);
            T_EQ(l.variables[v].first, m->variables[v].first);
            T_EQ(l.variables[v].kind, m->variables[v].kind);
        }
        T_EQ(layout_find(&l, "nothing"), UINT32_MAX);
        layout_release(&l);
        layout_pieces_free(pieces, plan.piece_count);
        layout_variables_free(variables, m->variables_count);
        part_plan_release(&plan);
        sl_free(vars);
    }
    model_free(m);
}

TEST(layout, shards_of_rows_alone_come_last)
{
    struct layout l;
    Sluice__V1__CheckpointsReply *r =
        (void *)t_make(&sluice__v1__checkpoints_reply__descriptor,
                       "{'variables':[{'name':'a','shape':[4]}],'pieces':[{"
                       "'rows':4,'elements':4}]}");

    T_OK(layout_make(&l, r->variables, 1, r->pieces, 1, 2, t_err()));
    T_EQ(l.shards_count, 3);
    T_EQ(l.elements, 4);
    T_EQ(l.shards[0].elements, 4);
    for (uint32_t s = 1; s < 3; s++) {
        T_EQ(l.shards[s].first, 4);
        T_EQ(l.shards[s].elements + l.shards[s].pieces, 0);
    }
    layout_release(&l);
    T_OK(layout_make(&l, NULL, 0, NULL, 0, 2, t_err()));
    T_EQ(l.shards_count, 2);
    T_EQ(l.elements, 0);
    layout_release(&l);
    wire_free(&r->base);
}

static enum sl_err make(struct layout *l, const char *pieces,
                        struct sl_error *err)
{
    char text[600];
    Sluice__V1__CheckpointsReply *r;
    enum sl_err rc;

    snprintf(
        text, sizeof(text),
        "{'variables':[{'name':'a','shape':[4,3]},{'name':'b','shape':[5]},"
        "{'name':'c'}],'pieces':[%s]}",
        pieces);
    r = (void *)t_make(&sluice__v1__checkpoints_reply__descriptor, text);
    rc = layout_make(l, r->variables, r->n_variables, r->pieces, r->n_pieces, 0,
                     err);
    wire_free(&r->base);
    return rc;
}

#define A0 "{'variable':0,'first_row':0,'rows':3,'elements':9,'shard':0}"
#define A1 "{'variable':0,'first_row':3,'rows':1,'elements':3,'shard':1}"
#define B "{'variable':1,'first_row':0,'rows':5,'elements':5,'shard':1}"
#define C "{'variable':2,'first_row':0,'rows':1,'elements':1,'shard':1}"

TEST(layout, pieces_cover_every_row_once)
{
    struct layout l;

    T_OK(make(&l, A0 "," A1 "," B "," C, t_err()));
    T_EQ(l.shards_count, 2);
    T_EQ(l.shards[1].first, 9);
    T_EQ(l.shards[1].elements, 9);
    T_EQ(l.shards[1].pieces, 3);
    T_EQ(piece_of(&l, 8), 0);
    T_EQ(piece_of(&l, 9), 1);
    T_EQ(piece_of(&l, 17), 3);
    layout_release(&l);
}

TEST(layout, what_does_not_fit_is_refused)
{
    static const struct {
        const char *pieces, *why;
    } cases[] = {
        {A0 "," B "," C,
         "piece 1 does not follow the one before it, or does not fit variable "
         "1"},
        {A0 "," A1 "," B, "the pieces hold 17 elements, the variables 18"},
        {"{'variable':0,'rows':5,'elements':15}",
         "piece 0 does not follow the one before it, or does not fit variable "
         "0"},
        {"{'variable':7,'rows':1,'elements':1}",
         "piece 0 does not follow the one before it, or does not fit variable "
         "7"},
        {"{'variable':0,'rows':4,'elements':12,'shard':1}",
         "piece 0 lies on shard 1: shards are not in order"},
        {A0 ",{'variable':0,'first_row':3,'rows':'18446744073709551615',"
            "'elements':3,'shard':0}",
         "piece 1 does not follow the one before it, or does not fit variable "
         "0"},
    };

    for (unsigned i = 0; i < SL_COUNT(cases); i++) {
        struct sl_error err = SL_ERROR_INIT;
        struct layout l = {0};

        T_FAILS(SL_EINVAL, make(&l, cases[i].pieces, &err));
        T_STR(err.text, cases[i].why);
        T_PTR(l.pieces, NULL);
    }
}

TEST(layout, keras_order_of_a_filter)
{
    // ours [out 2, h 1, w 2, in 3]; Keras' [h, w, in, out].
    struct layout_variable v = {.shape = {4, {2, 1, 2, 3}},
                                .elements = 12,
                                .keras_rank = 4,
                                .keras_order = {1, 2, 3, 0}};
    float from[12], to[12];
    struct model_shape s = layout_keras_shape(&v);

    for (int i = 0; i < 12; i++)
        from[i] = (float)i;
    T_EQ(s.dim[0], 1);
    T_EQ(s.dim[1], 2);
    T_EQ(s.dim[2], 3);
    T_EQ(s.dim[3], 2);
    layout_to_keras(&v, to, from);
    for (int w = 0; w < 2; w++)
        for (int in = 0; in < 3; in++)
            for (int out = 0; out < 2; out++)
                T_NEAR(to[(w * 3 + in) * 2 + out], from[(out * 2 + w) * 3 + in],
                       0);
}

TEST(layout, keras_order_of_a_matrix_and_of_nothing)
{
    struct layout_variable dense = {.shape = {2, {2, 3}},
                                    .elements = 6,
                                    .keras_rank = 2,
                                    .keras_order = {1, 0}};
    struct layout_variable bias = {.shape = {1, {3}}, .elements = 3};
    static const float from[6] = {1, 2, 3, 4, 5, 6},
                       want[6] = {1, 4, 2, 5, 3, 6};
    float to[6];

    layout_to_keras(&dense, to, from);
    T_MEM(to, want, sizeof(to));
    layout_to_keras(&bias, to, from);
    T_MEM(to, from, 3 * sizeof(float));
}

TEST(layout, out_of_memory_at_every_step)
{
    struct model *m = net();
    bool failed = true;

    for (uint64_t n = 1; failed; n++) {
        Sluice__V1__Variable **list = NULL;
        uint64_t live = sl_mem_live();
        enum sl_err rc;

        sl_mem_fail_at(n);
        rc = layout_variables(&list, m);
        failed = sl_mem_failed();
        T_EQ(rc, failed ? SL_ENOMEM : SL_OK);
        layout_variables_free(list, m->variables_count);
        T_EQ(sl_mem_live(), live);
    }
    model_free(m);
}
