// SPDX-License-Identifier: Apache-2.0
// The test vector that a worker computes when it joins.
#include "worker/device/test_vector.h"

#include "kernels/kern.h"
#include "tests/harness/t.h"
#include "worker/device/kind.h"

static struct test_vector computed(const char *device, const char *options)
{
    struct test_vector v = {0};
    struct kern_dev *dev = NULL;

    T_OK(kern_open(&dev, device, options, t_err()));
    T_OK(test_vector_compute(&v, dev, NULL, t_err()));
    kern_close(dev);
    T_TRUE(v.kind != 0);
    return v;
}

TEST(test_vector, A7_it_has_the_same_bits_each_time)
{
    static const char *const devices[] = {"cpu", "ref"};

    for (size_t i = 0; i < SL_COUNT(devices); i++) {
        struct test_vector a = computed(devices[i], NULL);
        struct test_vector b = computed(devices[i], NULL);

        T_EQ(a.kind, b.kind);
        T_EQ(a.output, b.output);
    }
}

TEST(test_vector, A7_a_kind_is_all_that_decides_the_bits)
{
    struct test_vector one = computed("cpu", "cpu.threads=1");

#ifdef __SANITIZE_THREAD__
    T_SKIP("the sanitizer does not see the barriers of OpenMP's threads");
#endif
    T_TRUE(one.kind != computed("cpu", "cpu.threads=2").kind);
    T_TRUE(one.kind != computed("ref", NULL).kind);
}

// ---- a kernel that goes wrong once it has proved itself

static struct kern_backend worn; // the device's own, but for these two
static enum sl_err (*right_plan)(struct kern_plan **out, size_t *bytes,
                                 struct kern_dev *dev,
                                 const struct kern_desc *d, size_t cap,
                                 struct sl_error *err);
static enum sl_err (*right_run)(struct kern_plan *plan, struct kern_stream *s,
                                void *const *io, void *workspace);
static struct kern_desc planned; // of the newest plan
static unsigned runs;            // of it
static unsigned spoils;          // plans that are still to be spoilt

static enum sl_err worn_plan(struct kern_plan **out, size_t *bytes,
                             struct kern_dev *dev, const struct kern_desc *d,
                             size_t cap, struct sl_error *err)
{
    enum sl_err rc = right_plan(out, bytes, dev, d, cap, err);

    planned = *d;
    runs = 0;
    if (rc == SL_OK)
        (*out)->backend = &worn;
    return rc;
}

// One bit of one element, in the run behind the two of a proof.
static enum sl_err worn_run(struct kern_plan *plan, struct kern_stream *s,
                            void *const *io, void *workspace)
{
    enum sl_err rc = right_run(plan, s, io, workspace);
    const struct kern_shape *y = &planned.io[planned.inputs];
    uint32_t *element = io[planned.inputs];

    if (++runs == 3 && spoils > 0) {
        element[kern_shape_count(y) / 2] ^= 1;
        spoils--;
    }
    return rc;
}

static struct test_vector computed_worn(unsigned plans)
{
    struct test_vector v = {0};
    struct kern_dev *dev = NULL;

    T_OK(kern_open(&dev, "cpu", NULL, t_err()));
    worn = *dev->backend;
    right_plan = worn.plan;
    right_run = worn.run;
    worn.plan = worn_plan;
    worn.run = worn_run;
    dev->backend = &worn;
    spoils = plans;
    T_OK(test_vector_compute(&v, dev, NULL, t_err()));
    T_EQ(spoils, 0);
    kern_close(dev);
    return v;
}

TEST(test_vector, A7_one_wrong_bit_shows)
{
    struct test_vector right = computed("cpu", NULL);

    T_EQ(computed_worn(0).output, right.output);
    for (unsigned plans = 1; plans <= 3; plans++) {
        struct test_vector wrong = computed_worn(plans);

        T_EQ(wrong.kind, right.kind);
        T_TRUE(wrong.output != right.output);
    }
}

// ---- several devices

TEST(test_vector, A7_a_team_s_is_of_all_its_devices)
{
    struct test_vector alone = computed("cpu", "cpu.threads=1"), v[2];
    struct team_names names;

    T_OK(team_names_read(&names, "cpu,cpu,cpu", t_err()));
    for (unsigned i = 0; i < 2; i++) {
        struct kern_dev *dev = NULL;
        struct team *team = NULL;

        T_OK(kern_open(&dev, "cpu", "cpu.threads=1", t_err()));
        T_OK(team_new(&team, dev, &names, "cpu.threads=1", t_err()));
        T_OK(test_vector_compute(&v[i], dev, team, t_err()));
        team_free(team);
        kern_close(dev);
    }
    T_EQ(v[0].kind, v[1].kind);
    T_EQ(v[0].output, v[1].output);
    T_TRUE(v[0].kind != alone.kind && v[0].output != alone.output);
    T_TRUE(v[0].kind != v[0].output);
}
