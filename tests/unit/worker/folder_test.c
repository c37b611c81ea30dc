// SPDX-License-Identifier: Apache-2.0
// A folder of images by class, and drawn images, as samples.
#include "tests/harness/roots.h"
#include "tests/harness/t.h"

#include <fcntl.h>
#include <sys/stat.h>
#include <unistd.h>

#include "common/base/mem.h"
#include "plan/schedule.h"
#include "worker/data/data.h"
#include "worker/data/data_folder.h"
#include "worker/data/input.h"

#define SIDE 8
#define FEATURES (SIDE * SIDE * 3)

// Lives until the program ends.
static char *join(const char *folder, const char *name)
{
    static char *paths[1000];
    static unsigned count;
    char **path = &paths[count++];

    T_TRUE(count < SL_COUNT(paths));
    T_TRUE(asprintf(path, "%s/%s", folder, name) > 0);
    return *path;
}

// A copy of one of images/; NULL: an empty file.
static void copy(const char *from, const char *folder, const char *name)
{
    uint8_t bytes[1 << 14];
    size_t n = 0;
    FILE *f;

    if (from != NULL) {
        f = fopen(join(IMAGES, from), "rb");
        T_TRUE(f != NULL);
        n = fread(bytes, 1, sizeof(bytes), f);
        fclose(f);
    }
    f = fopen(join(folder, name), "wb");
    T_TRUE(f != NULL);
    T_EQ(fwrite(bytes, 1, n, f), n);
    T_EQ(fclose(f), 0);
}

static char *new_folder(const char *in, const char *name)
{
    char *path = join(in, name);

    T_EQ(mkdir(path, 0755), 0);
    return path;
}

// Two classes with three images, and everything that is to be passed over.
static void fill(const char *root)
{
    char *cats, *dogs, *empty;

    T_EQ(mkdir(root, 0755), 0);
    dogs = new_folder(root, "dogs");
    copy("sampled.jpg", dogs, "b.JPG");
    copy("rgb.png", dogs, "a.png");
    cats = new_folder(root, "Cats");
    copy("grey.jpg", cats, "z.jpeg");
    empty = new_folder(root, "birds");
    copy("rgb.png", cats, ".hidden.png");
    copy("rgb.png", cats, "notes.txt");
    copy("rgb.png", root, "loose.png");
    new_folder(cats, "deeper.png");
    new_folder(root, ".git");
    T_EQ(symlink("z.jpeg", join(cats, "link.jpeg")), 0);
    T_EQ(symlink("dogs", join(root, "wolves")), 0);
    T_EQ(mkfifo(join(empty, "pipe.png"), 0600), 0);
}

// The same, with an image in each class.
static void fill_all(const char *root)
{
    fill(root);
    copy("rgb.png", join(root, "birds"), "only.png");
}

static struct data_want want_of(bool u8)
{
    return (struct data_want){.rank = 3,
                              .dim = {SIDE, SIDE, 3},
                              .outputs = 3,
                              .labels = DATA_INDEX,
                              .u8 = u8};
}

static struct data_source source_of(const char *root)
{
    return (struct data_source){
        .format = "images", .x = root, .scale = 1 / 255.0, .roots = t_roots()};
}

static const struct folder_names any = {NULL, 0};

TEST(folder, classes_and_files_are_in_byte_order_and_the_rest_is_counted)
{
    struct folder f;
    const char *root = t_path("root");

    fill(root);
    T_OK(folder_scan(&f, t_roots(), root, any, NULL, t_err()));
    T_EQ(f.classes_count, 3);
    T_STR(folder_class(&f, 0), "Cats");
    T_STR(folder_class(&f, 1), "birds");
    T_STR(folder_class(&f, 2), "dogs");
    T_EQ(f.count, 3);
    T_STR(folder_name(&f, 0), "z.jpeg");
    T_STR(folder_name(&f, 1), "a.png");
    T_STR(folder_name(&f, 2), "b.JPG");
    T_EQ(f.files[0].class, 0);
    T_EQ(f.files[2].class, 2);
    T_EQ(f.hidden, 2); // .git, .hidden.png
    T_EQ(f.links, 2);  // wolves, link.jpeg
    T_EQ(f.others, 4); // loose.png, notes.txt, deeper.png, pipe.png
    folder_release(&f);
}

TEST(folder, what_is_put_in_its_place_later_is_not_read)
{
    struct sl_error err = SL_ERROR_INIT;
    struct folder f;
    const char *root = t_path("root");
    int fd;

    fill(root);
    T_OK(folder_scan(&f, t_roots(), root, any, NULL, t_err()));
    T_OK(folder_open(&f, 1, &fd, t_err()));
    close(fd);
    T_EQ(unlink(join(root, "dogs/a.png")), 0);
    T_FAILS(SL_ENOENT, folder_open(&f, 1, &fd, &err));
    T_EQ(symlink("../Cats/z.jpeg", join(root, "dogs/a.png")), 0);
    T_NE(folder_open(&f, 1, &fd, &err), SL_OK);
    T_EQ(truncate(join(root, "dogs/b.JPG"), 100), 0);
    T_FAILS(SL_ECORRUPT, folder_open(&f, 2, &fd, &err));
    T_HAS(err.text, "changed");
    // The class itself becomes a way out.
    T_EQ(rename(join(root, "Cats"), join(root, "tomcats")), 0);
    T_EQ(symlink("tomcats", join(root, "Cats")), 0);
    T_NE(folder_open(&f, 0, &fd, &err), SL_OK);
    folder_release(&f);
}

TEST(folder, says_what_is_missing)
{
    struct data_want w = want_of(true);
    struct data_source s = source_of(t_path("nowhere"));
    struct sl_error err = SL_ERROR_INIT;
    struct data *d;

    T_FAILS(SL_ENOENT, data_open(&d, &s, &w, &err));
    T_HAS(err.text, "nowhere");
    T_EQ(mkdir(t_path("bare"), 0755), 0);
    T_EQ(mkdir(t_path("bare/class"), 0755), 0);
    s.x = t_path("bare");
    T_FAILS(SL_EINVAL, data_open(&d, &s, &w, &err));
    T_HAS(err.text, "holds no images");
    fill_all(t_path("root"));
    s.x = t_path("root");
    w.outputs = 4;
    T_FAILS(SL_EINVAL, data_open(&d, &s, &w, &err));
    T_HAS(err.text, "3 classes (folders), but the model has 4 outputs");
    w.outputs = 1;
    w.labels = DATA_VALUES;
    T_FAILS(SL_EINVAL, data_open(&d, &s, &w, &err));
    T_HAS(err.text, "0 or 1");
    w = want_of(true);
    w.dim[2] = 4;
    T_FAILS(SL_EINVAL, data_open(&d, &s, &w, &err));
    T_HAS(err.text, "channels");
    w.rank = 1;
    T_FAILS(SL_EINVAL, data_open(&d, &s, &w, &err));
    T_HAS(err.text, "[256, 256, 3]");
}

TEST(folder, bytes_and_floats_are_the_same_samples)
{
    struct data_want w = want_of(true);
    struct data_source s = source_of(t_path("root"));
    struct data *bytes, *floats;
    uint8_t b[FEATURES];
    float f[FEATURES];
    int32_t y;

    fill_all(t_path("root"));
    s.offset = -0.5;
    T_OK(data_open(&bytes, &s, &w, t_err()));
    w.u8 = false;
    T_OK(data_open(&floats, &s, &w, t_err()));
    T_TRUE(data_is_u8(bytes) && data_shared(bytes) && !data_is_u8(floats));
    T_EQ(data_sample_bytes(bytes), FEATURES);
    T_EQ(data_hash(bytes), data_hash(floats));
    for (uint64_t i = 0; i < 4; i++) {
        T_OK(data_read(bytes, i, b, &y, t_err()));
        T_OK(data_read(floats, i, f, &y, t_err()));
        T_EQ(y, i < 2 ? i : 2);
        for (size_t k = 0; k < FEATURES; k++)
            T_TRUE(f[k] ==
                   (float)b[k] * data_scale(bytes) + data_offset(bytes));
    }
    data_free(bytes);
    data_free(floats);
}

static uint64_t hash_of(const char *root)
{
    struct data_want w = want_of(true);
    struct data_source s = source_of(root);
    struct data *d;
    uint64_t hash;

    T_OK(data_open(&d, &s, &w, t_err()));
    hash = data_hash(d);
    data_free(d);
    return hash;
}

TEST(folder, the_hash_is_of_what_is_in_it)
{
    const char *a = t_path("a"), *b = t_path("b");
    uint64_t hash;

    fill_all(a);
    fill_all(b);
    hash = hash_of(a);
    T_EQ(hash, hash_of(b));
    T_EQ(unlink(join(b, "Cats/.hidden.png")), 0);
    T_EQ(hash, hash_of(b));
    T_EQ(rename(join(b, "dogs/a.png"), join(b, "dogs/c.png")), 0);
    T_NE(hash, hash_of(b));
    T_EQ(rename(join(b, "dogs/c.png"), join(b, "dogs/a.png")), 0);
    T_EQ(hash, hash_of(b));
    T_EQ(truncate(join(b, "dogs/a.png"), 5), 0);
    T_NE(hash, hash_of(b));
    T_EQ(rename(join(a, "birds"), join(a, "fish")), 0);
    T_NE(hash, hash_of(a));
}

TEST(folder, an_empty_class_is_refused_by_name)
{
    const char *a = t_path("a");
    struct data_want w = want_of(true);
    struct data_source s = source_of(a);
    struct sl_error err = SL_ERROR_INIT;
    struct data *data;

    fill(a);
    T_FAILS(SL_EINVAL, data_open(&data, &s, &w, &err));
    T_HAS(err.text, "a/birds holds no image");
    copy("rgb.png", join(a, "birds"), "only.png");
    T_OK(data_open(&data, &s, &w, t_err()));
    data_free(data);
    T_EQ(unlink(join(a, "dogs/a.png")), 0);
    T_EQ(unlink(join(a, "dogs/b.JPG")), 0);
    T_FAILS(SL_EINVAL, data_open(&data, &s, &w, &err));
    T_HAS(err.text, "a/dogs holds no image");
}

// ---- samples that cannot be read

static int32_t label_of(struct data *d, uint64_t number, uint8_t *x)
{
    int32_t y = -1;

    T_OK(data_read(d, number, x, &y, t_err()));
    return y;
}

static void break_file(const char *root, const char *name)
{
    T_EQ(truncate(join(root, name), 60), 0);
}

// Cats/z.jpeg, birds/only.png, dogs/a.png, dogs/b.JPG
TEST(folder, the_next_sample_stands_in_for_one_that_cannot_be_read)
{
    const char *a = t_path("set");
    struct data_want w = want_of(true);
    struct data_source s = source_of(a);
    uint8_t x[FEATURES], next[FEATURES];
    struct bad_sample told[4];
    struct data *d;

    fill_all(a);
    break_file(a, "dogs/b.JPG");
    break_file(a, "birds/only.png");
    s.bad = bad_new(2);
    T_OK(data_open(&d, &s, &w, t_err()));
    for (int again = 0; again < 2; again++) {
        T_EQ(label_of(d, 2, next), 2);
        T_EQ(label_of(d, 1, x), 2); // birds/only.png: dogs/a.png
        T_MEM(x, next, FEATURES);
        T_EQ(label_of(d, 0, next), 0);
        T_EQ(label_of(d, 3, x), 0); // the last: the first again
        T_MEM(x, next, FEATURES);
    }
    T_EQ(bad_tell(s.bad, told, 4), 2);
    T_EQ(told[0].number, 1);
    T_TRUE(strncmp(told[0].what, "set/birds/only.png: broken PNG", 30) == 0);
    T_EQ(told[1].number, 3);
    T_FALSE(told[1].test);
    data_free(d);
    bad_unref(s.bad);
}

TEST(folder, one_more_than_may_be_passed_over_names_them_all)
{
    const char *a = t_path("set");
    struct data_want w = want_of(true);
    struct data_source s = source_of(a);
    struct sl_error err = SL_ERROR_INIT;
    uint8_t x[FEATURES];
    struct data *d;
    int32_t y;

    fill_all(a);
    break_file(a, "dogs/b.JPG");
    break_file(a, "Cats/z.jpeg");
    s.bad = bad_new(1);
    T_OK(data_open(&d, &s, &w, t_err()));
    T_EQ(label_of(d, 0, x), 1);
    T_FAILS(SL_ERANGE, data_read(d, 3, x, &y, &err));
    T_HAS(err.text, "data.skip_bad is 1, but 2 samples cannot be read: ");
    T_FAILS(SL_ERANGE, data_read(d, 0, x, &y, NULL)); // from now on
    T_HAS(err.text, "set/Cats/z.jpeg: broken JPEG");
    T_HAS(err.text, "set/dogs/b.JPG: broken JPEG");
    data_free(d);
    bad_unref(s.bad);
}

// Another worker may have it: nothing is known of what it holds.
TEST(folder, a_file_that_is_gone_is_not_passed_over)
{
    const char *a = t_path("set");
    struct data_want w = want_of(true);
    struct data_source s = source_of(a);
    struct sl_error err = SL_ERROR_INIT;
    struct bad_sample told;
    uint8_t x[FEATURES];
    struct data *d;
    int32_t y;

    fill_all(a);
    s.bad = bad_new(2);
    T_OK(data_open(&d, &s, &w, t_err()));
    T_EQ(unlink(join(a, "dogs/a.png")), 0);
    T_FAILS(SL_ENOENT, data_read(d, 2, x, &y, &err));
    T_HAS(err.text, "dogs/a.png");
    T_EQ(bad_tell(s.bad, &told, 1), 0);
    data_free(d);
    bad_unref(s.bad);
}

TEST(folder, a_test_set_may_lack_a_class_and_has_no_other)
{
    static char *const names[] = {"Cats", "birds", "dogs"};
    const char *a = t_path("a"), *b = t_path("b");
    struct data_want w = want_of(true);
    struct data_source s = source_of(a);
    struct sl_error err = SL_ERROR_INIT;
    struct data *train, *test;
    uint8_t x[SIDE * SIDE * 3];
    int32_t y;

    fill_all(a);
    fill_all(b);
    T_OK(data_open(&train, &s, &w, t_err()));
    T_EQ(data_classes(train), 3);
    T_STR(data_class(train, 1), "birds");
    data_free(train);

    s.x = b;
    s.names = names;
    s.names_count = 3;
    w.test = true;
    T_EQ(rename(join(b, "birds"), join(b, ".birds")), 0);
    T_OK(data_open(&test, &s, &w, t_err()));
    T_EQ(data_samples(test), 3);
    T_OK(data_read(test, 1, x, &y, t_err()));
    T_EQ(y, 2); // dogs, as in training
    data_free(test);
    T_EQ(rename(join(b, ".birds"), join(b, "fish")), 0);
    T_FAILS(SL_EINVAL, data_open(&test, &s, &w, &err));
    T_HAS(err.text, "the folder 'fish' is none of the 3 classes");
    w.test = false;
    T_EQ(rename(join(b, "fish"), join(b, ".fish")), 0);
    T_FAILS(SL_EINVAL, data_open(&test, &s, &w, &err));
    T_HAS(err.text, "birds holds no image");
}

TEST(folder, classes_have_the_order_in_which_they_are_named)
{
    static char *const names[] = {"dogs", "Cats", "birds"};
    static const int32_t classes[] = {0, 0, 1, 2};
    const char *root = t_path("root");
    struct data_want w = want_of(true);
    struct data_source s = source_of(root);
    uint8_t x[SIDE * SIDE * 3];
    struct data *d;
    int32_t y;

    fill_all(root);
    s.names = names;
    s.names_count = 3;
    T_OK(data_open(&d, &s, &w, t_err()));
    T_STR(data_class(d, 0), "dogs");
    T_EQ(data_samples(d), 4);
    for (uint64_t i = 0; i < 4; i++) {
        T_OK(data_read(d, i, x, &y, t_err()));
        T_EQ(y, classes[i]);
    }
    data_free(d);
}

// ---- drawn images

static struct data *pattern(bool u8, bool test, uint32_t classes)
{
    struct data_want w = want_of(u8);
    struct data_source s = {.format = "synthetic",
                            .generator = "images",
                            .samples = 500,
                            .classes = classes,
                            .seed = 3,
                            .scale = 1 / 255.0};
    struct data *d;

    w.test = test;
    T_OK(data_open(&d, &s, &w, t_err()));
    return d;
}

TEST(pattern, an_image_is_a_function_of_seed_and_number)
{
    struct data *a = pattern(true, false, 3), *b = pattern(true, false, 3);
    struct data *test = pattern(true, true, 3), *f = pattern(false, false, 3);
    uint8_t x[FEATURES], z[FEATURES];
    float floats[FEATURES];
    double mean[3] = {0};
    unsigned count[3] = {0};
    int32_t y, other;

    for (uint64_t i = 0; i < 300; i++) {
        T_OK(data_read(a, i, x, &y, t_err()));
        T_OK(data_read(b, 299 - i, z, &other, t_err()));
        T_OK(data_read(b, i, z, &other, t_err()));
        T_MEM(x, z, FEATURES);
        T_EQ(y, other);
        T_OK(data_read(f, i, floats, &other, t_err()));
        for (size_t k = 0; k < FEATURES; k++) {
            T_TRUE(floats[k] == (float)x[k] * (float)(1 / 255.0));
            mean[y] += x[k] / (double)FEATURES;
        }
        count[y]++;
        T_OK(data_read(test, i, z, &other, t_err()));
        T_TRUE(memcmp(x, z, FEATURES) != 0);
    }
    for (int c = 0; c < 3; c++)
        T_GT(count[c], 50);
    // Classes differ in more than noise: of 12,800 bytes the mean has a
    // deviation of 0.3.
    T_TRUE(mean[0] / count[0] - mean[1] / count[1] > 2 ||
           mean[1] / count[1] - mean[0] / count[0] > 2);
    data_free(a);
    data_free(b);
    data_free(f);
    data_free(test);
}

// ---- many threads

// Every batch of an epoch, one behind the other.
static uint8_t *epoch_of(struct data *d, unsigned threads, uint64_t *digest)
{
    struct input_run run = {
        .data = d, .shuffle = true, .batch = 37, .count = data_samples(d)};
    uint8_t *all = malloc(data_samples(d) * FEATURES), *at = all;
    struct input *in;
    struct batch b;

    T_OK(order_init(&run.order, 5, 0, run.count));
    T_OK(input_new(&in, threads, t_err()));
    input_open(in, &run);
    *digest = 0;
    for (uint32_t k = 0; k < input_run_steps(&run); k++) {
        T_OK(input_get(in, &run, k, &b, t_err()));
        memcpy(at, b.x, b.n * (size_t)FEATURES);
        at += b.n * (size_t)FEATURES;
        *digest += b.digest;
        input_put(in, &b);
    }
    input_close(in, &run);
    input_free(in);
    return all;
}

TEST(threads, any_number_gives_the_same_batches)
{
    struct schedule s = {
        .samples = 500, .batch = 37, .epochs = 1, .steps_per_closure = 4};
    struct data *d = pattern(true, false, 3);
    uint64_t digest, again;
    uint8_t *one = epoch_of(d, 1, &digest);

    T_EQ(digest, schedule_epoch_digest(&s, 0));
    for (unsigned threads = 2; threads < 9; threads += 3) {
        uint8_t *many = epoch_of(d, threads, &again);

        T_EQ(again, digest);
        T_MEM(many, one, 500 * FEATURES);
        free(many);
    }
    free(one);
    data_free(d);
}

// Batches that nobody wants any more, at every moment of their being read.
TEST(threads, runs_are_closed_while_they_are_read)
{
    struct data *d = pattern(true, false, 3);
    struct input *in;

    T_OK(input_new(&in, 4, t_err()));
    for (int i = 0; i < 200; i++) {
        struct input_run a = {.data = d, .batch = 20, .count = 300}, b = a;
        struct batch x;

        b.first = 300, b.count = 200;
        input_open(in, &a);
        input_open(in, &b);
        for (uint64_t k = t_below(4); k > 0; k--) {
            T_OK(input_get(in, t_below(2) ? &a : &b, (uint32_t)t_below(10), &x,
                           t_err()));
            T_EQ(x.n, 20);
            input_put(in, &x);
        }
        input_close(in, &b);
        input_close(in, &a);
    }
    input_free(in);
    data_free(d);
}

TEST(threads, the_first_broken_file_of_a_batch_is_named)
{
    const char *root = t_path("root");
    struct data_want w = want_of(true);
    struct data_source s = source_of(root);
    struct sl_error err = SL_ERROR_INIT;
    struct input_run run = {.batch = 30, .count = 30};
    struct input *in;
    struct batch b;
    char name[40];

    T_EQ(mkdir(root, 0755), 0);
    for (int i = 0; i < 30; i++) {
        char *class = join(root, i < 10 ? "a" : i < 20 ? "b" : "c");

        (void)mkdir(class, 0755);
        snprintf(name, sizeof(name), "%02d.png", i);
        copy(i == 7 || i == 8 || i == 25 ? "cut.png" : "rgb.png", class, name);
    }
    T_OK(data_open(&run.data, &s, &w, t_err()));
    T_OK(input_new(&in, 6, t_err()));
    input_open(in, &run);
    for (int i = 0; i < 20; i++) {
        T_FAILS(SL_ECORRUPT, input_get(in, &run, 0, &b, &err));
        T_HAS(err.text, "a/07.png: broken PNG");
    }
    input_close(in, &run);
    input_free(in);
    data_free(run.data);
}
