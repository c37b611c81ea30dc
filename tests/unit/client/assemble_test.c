// SPDX-License-Identifier: Apache-2.0
#include "client/files/assemble.h"

#include "common/base/hash.h"
#include "tests/harness/t.h"

// Two variables on two shards: a dense kernel [out 3, in 2], cut after its
// second row, and its bias [3]. The flat vector counts 0, 1, 2 ...
enum { KERNEL = 6, ALL = 9, FIRST_SHARD = 4 };

struct net {
    Sluice__V1__Variable kernel, bias, *variables[2];
    Sluice__V1__Piece piece[3], *pieces[3];
    uint64_t kernel_shape[2], bias_shape[1];
    uint32_t order[2];
    struct layout layout;
};

static void set_piece(Sluice__V1__Piece *p, uint32_t variable, uint64_t row,
                      uint64_t rows, uint32_t shard, uint64_t elements)
{
    sluice__v1__piece__init(p);
    p->variable = variable;
    p->first_row = row;
    p->rows = rows;
    p->shard = shard;
    p->elements = elements;
}

static void net_init(struct net *n)
{
    *n = (struct net){
        .kernel_shape = {3, 2}, .bias_shape = {3}, .order = {1, 0}};
    sluice__v1__variable__init(&n->kernel);
    sluice__v1__variable__init(&n->bias);
    n->kernel.name = (char *)"dense/kernel";
    n->kernel.n_shape = 2;
    n->kernel.shape = n->kernel_shape;
    n->kernel.n_keras_order = 2;
    n->kernel.keras_order = n->order;
    n->bias.name = (char *)"dense/bias";
    n->bias.n_shape = 1;
    n->bias.shape = n->bias_shape;
    n->variables[0] = &n->kernel;
    n->variables[1] = &n->bias;
    set_piece(&n->piece[0], 0, 0, 2, 0, 4);
    set_piece(&n->piece[1], 0, 2, 1, 1, 2);
    set_piece(&n->piece[2], 1, 0, 3, 1, 3);
    for (int i = 0; i < 3; i++)
        n->pieces[i] = &n->piece[i];
    T_OK(layout_make(&n->layout, n->variables, 2, n->pieces, 3, 0, t_err()));
}

static void count_up(float flat[ALL])
{
    for (int i = 0; i < ALL; i++)
        flat[i] = (float)i;
}

// Checks a cut of the net with these shards, as many as `count`.
static enum sl_err names(const uint32_t *shard, size_t count,
                         struct sl_error *err)
{
    Sluice__V1__CheckpointShard at[3], *list[3];
    Sluice__V1__Checkpoint cut = SLUICE__V1__CHECKPOINT__INIT;
    enum sl_err rc;
    struct net n;

    net_init(&n);
    for (size_t i = 0; i < count; i++) {
        sluice__v1__checkpoint_shard__init(&at[i]);
        at[i].shard = shard[i];
        list[i] = &at[i];
    }
    cut.shards = list;
    cut.n_shards = count;
    rc = assemble_names_all(&cut, &n.layout, err);
    layout_release(&n.layout);
    return rc;
}

TEST(assemble, a_cut_names_each_shard_once)
{
    struct sl_error err;

    T_OK(names((uint32_t[]){0, 1}, 2, t_err()));
    T_OK(names((uint32_t[]){1, 0}, 2, t_err()));
    T_FAILS(SL_ECORRUPT, names((uint32_t[]){0}, 1, &err));
    T_FAILS(SL_ECORRUPT, names((uint32_t[]){0, 1, 1}, 3, &err));
    T_FAILS(SL_ECORRUPT, names((uint32_t[]){1, 1}, 2, &err));
    T_HAS(err.text, "names shard 1 twice");
    T_FAILS(SL_ECORRUPT, names((uint32_t[]){0, 2}, 2, &err));
}

TEST(assemble, payloads_land_where_the_shards_lie)
{
    struct net n;
    float all[ALL], flat[ALL] = {0};
    struct sl_slice cut[2];
    struct sl_slices first, second;

    net_init(&n);
    count_up(all);
    // Cut inside a float, as the transport may.
    cut[0] = (struct sl_slice){(uint8_t *)(all + FIRST_SHARD), 7};
    cut[1] = (struct sl_slice){(uint8_t *)(all + FIRST_SHARD) + 7, 13};
    second = slices_all(cut, 2);
    T_OK(assemble_payload(flat, &n.layout, 1, &second, t_err()));
    first = slices_one(&(struct sl_slice){(uint8_t *)all, 16});
    T_OK(assemble_payload(flat, &n.layout, 0, &first, t_err()));
    T_MEM(flat, all, sizeof(all));

    T_FAILS(SL_ECORRUPT, assemble_payload(flat, &n.layout, 1, &first, t_err()));
    T_FAILS(SL_ECORRUPT, assemble_payload(flat, &n.layout, 2, &first, t_err()));
    layout_release(&n.layout);
}

TEST(assemble, the_file_has_keras_layout)
{
    static const float kernel[KERNEL] = {0, 2, 4, 1, 3, 5}; // [in 2, out 3]
    static const float bias[3] = {6, 7, 8};
    const struct tensor_meta meta[] = {{"sluice.layout", "keras"}};
    const struct tensor_info *t;
    struct tensorfile *file;
    struct net n;
    float flat[ALL];
    uint64_t bytes = 0;

    net_init(&n);
    count_up(flat);
    T_OK(assemble_write(fs_posix(), t_path("m.safetensors"), &n.layout, flat,
                        meta, 1, &bytes, t_err()));
    T_OK(tensorfile_open(&file, fs_posix(), t_path("m.safetensors"), 0,
                         t_err()));
    T_EQ(tensorfile_count(file), 2);
    t = tensorfile_find(file, "dense/kernel");
    T_TRUE(t != NULL);
    T_EQ(t->shape[0], 2);
    T_EQ(t->shape[1], 3);
    T_MEM(tensorfile_data(file, t), kernel, sizeof(kernel));
    t = tensorfile_find(file, "dense/bias");
    T_MEM(tensorfile_data(file, t), bias, sizeof(bias));
    T_STR(tensorfile_meta(file, "sluice.layout"), "keras");
    T_GT(bytes, sizeof(flat));
    tensorfile_close(file);
    layout_release(&n.layout);
}

// A snapshot of shard 1 as a psserver writes it: values by variable, slots.
static void write_snapshot(const char *path, const float *values)
{
    struct tensor_info t[] = {
        {.name = "dense/kernel",
         .dtype = TENSOR_F32,
         .rank = 2,
         .shape = {1, 2},
         .begin = 0,
         .end = 8},
        {.name = "dense/bias",
         .dtype = TENSOR_F32,
         .rank = 1,
         .shape = {3},
         .begin = 8,
         .end = 20},
        {.name = "dense/bias#m",
         .dtype = TENSOR_F32,
         .rank = 1,
         .shape = {3},
         .begin = 20,
         .end = 32},
    };
    struct tensorfile_writer *w;
    float slots[3] = {-1, -1, -1};

    T_OK(tensorfile_create(&w, fs_posix(), path, t, 3, NULL, 0, true, t_err()));
    T_OK(tensorfile_append(w, values, 20, t_err()));
    T_OK(tensorfile_append(w, slots, 12, t_err()));
    T_OK(tensorfile_finish(w, NULL, t_err()));
}

TEST(assemble, a_snapshot_gives_the_same_values)
{
    struct net n;
    float all[ALL], flat[ALL] = {0};
    uint8_t wrong[SHA256_BYTES] = {1};
    const char *path = t_path("shard-1.i1.n1.safetensors");

    net_init(&n);
    count_up(all);
    write_snapshot(path, all + FIRST_SHARD);
    T_OK(
        assemble_snapshot(flat, &n.layout, 1, fs_posix(), path, NULL, t_err()));
    T_MEM(flat + FIRST_SHARD, all + FIRST_SHARD, 20);

    T_FAILS(SL_ECORRUPT, assemble_snapshot(flat, &n.layout, 1, fs_posix(), path,
                                           wrong, t_err()));
    // Shard 0 has another size of the kernel.
    T_FAILS(SL_ECORRUPT, assemble_snapshot(flat, &n.layout, 0, fs_posix(), path,
                                           NULL, t_err()));
    T_FAILS(SL_ENOENT, assemble_snapshot(flat, &n.layout, 1, fs_posix(),
                                         t_path("none"), NULL, t_err()));
    layout_release(&n.layout);
}

TEST(assemble, a_flipped_bit_is_found)
{
    struct net n;
    float all[ALL], flat[ALL] = {0};
    const char *path = t_path("s.safetensors");
    FILE *file;

    net_init(&n);
    count_up(all);
    write_snapshot(path, all + FIRST_SHARD);
    file = fopen(path, "r+");
    T_TRUE(file != NULL && fseek(file, -20, SEEK_END) == 0);
    fputc(0x55, file);
    fclose(file);
    T_FAILS(SL_ECORRUPT, assemble_snapshot(flat, &n.layout, 1, fs_posix(), path,
                                           NULL, t_err()));
    layout_release(&n.layout);
}
