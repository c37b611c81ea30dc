// SPDX-License-Identifier: Apache-2.0
#include "client/files/table_feed.h"

#include <sys/stat.h>
#include <unistd.h>

#include "client/files/feed_rows.h"
#include "common/base/buf.h"
#include "common/base/mem.h"
#include "tests/unit/client/json_short.h"
#include "tests/unit/client/table_world.h"

enum { MOST = 3 };

static struct sl_error why; // the last failure

static enum sl_err feed_of(struct table_feed *f, const char *id,
                           const char *table, uint32_t dim)
{
    return table_feed_open(f, place("feed"), id, table, dim, MOST, &why);
}

// Returns the path of a file of the feed.
static const char *in_feed(const char *name)
{
    char path[FEED_NAME + 8];

    snprintf(path, sizeof(path), "feed/%s", name);
    return place(path);
}

static enum sl_err add(struct table_feed *f, const struct world *w,
                       uint64_t cut)
{
    struct table_export x;
    enum sl_err rc;

    open_cut(&x, w);
    rc = table_feed_add(f, &x, "job-j-1-0", cut, &why);
    table_export_release(&x);
    return rc;
}

// Checks that the files of the feed are the table.
static void check_feed(const struct table_feed *f, const struct world *w)
{
    bool has[IDS] = {false};
    struct feed_rows rows;
    struct table_row row;

    T_OK(feed_rows_open(&rows, f, t_err()));
    for (;;) {
        T_OK(rows.stream.next(&rows.stream, &row, t_err()));
        if (row.values == NULL)
            break;
        T_TRUE(find_id(row.id) >= 0 && !has[find_id(row.id)]);
        has[find_id(row.id)] = true;
        T_MEM(row.values, w->values[find_id(row.id)], sizeof(float) * DIM);
    }
    T_MEM(has, w->has, sizeof(has));
    feed_rows_release(&rows);
}

// Checks that a reader at the cut before the last finds its delta, and that
// the list has an end.
static void check_list(const struct table_feed *f, uint64_t cut)
{
    size_t deltas = 0;

    for (size_t i = 0; i < f->count; i++) {
        T_TRUE(fs_exists(fs_posix(), in_feed(f->files[i].name)));
        deltas += !f->files[i].base && f->files[i].from == cut - 1;
    }
    T_EQ(deltas, cut > 1);
    T_TRUE(f->count <= 2 * MOST + 2);
    T_EQ(table_feed_last(f)->cut, cut);
}

// A cut whose index cannot be written is not listed, whatever it needed: the
// first base, a delta, or a delta and a base. Added again, it is.
TEST(table_feed, a_cut_without_its_index_is_not_listed)
{
    struct world w = {.has = {false}};
    struct table_feed f;

    T_OK(feed_of(&f, "j-1", "users", DIM));
    for (uint64_t cut = 1; cut < 2 * MOST + 4; cut++) {
        world_step(&w);
        T_EQ(mkdir(in_feed(FEED_INDEX ".tmp"), 0700), 0);
        T_TRUE(add(&f, &w, cut) != SL_OK);
        if (cut == 1)
            T_PTR(table_feed_last(&f), NULL);
        else
            T_EQ(table_feed_last(&f)->cut, cut - 1);
        T_EQ(rmdir(in_feed(FEED_INDEX ".tmp")), 0);
        T_OK(add(&f, &w, cut));
        check_feed(&f, &w);
        check_list(&f, cut);
    }
    table_feed_release(&f);
}

// Without memory at one moment the index is as it was: a delta that does not
// say which cut it begins at would be read as a base.
TEST(table_feed, an_index_is_whole_or_as_it_was)
{
    struct world w = {.has = {false}};
    struct table_feed f, read;
    enum sl_err rc = SL_ENOMEM;

    T_OK(feed_of(&f, "j-1", "users", DIM));
    for (uint64_t cut = 1; cut < 3; cut++) {
        world_step(&w);
        T_OK(add(&f, &w, cut));
    }
    for (size_t before = 0; rc == SL_ENOMEM; before++) {
        json_short(before);
        rc = feed_index_write(&f, NULL);
        json_enough();
    }
    T_OK(rc);
    read = (struct table_feed){
        .folder = f.folder, .id = f.id, .table = f.table, .dim = f.dim};
    T_OK(feed_index_read(&read, t_err()));
    T_EQ(read.count, f.count);
    for (size_t i = 0; i < f.count; i++) {
        T_EQ(read.files[i].base, f.files[i].base);
        T_EQ(read.files[i].from, f.files[i].from);
    }
    sl_free(read.files);
    sl_free(read.job);
    table_feed_release(&f);
}

TEST(table_feed, base_and_deltas_are_the_table_of_each_cut)
{
    struct world w = {.has = {false}};
    struct table_feed f;

    T_OK(feed_of(&f, "j-1", "users", DIM));
    for (uint64_t cut = 1; cut < 40; cut++) {
        world_step(&w);
        T_OK(add(&f, &w, cut));
        check_feed(&f, &w);
        check_list(&f, cut);
        if (t_rand() % 3 == 0) { // it is ended, and started again
            table_feed_release(&f);
            T_OK(feed_of(&f, "j-1", "users", DIM));
            check_feed(&f, &w);
        }
    }
    table_feed_release(&f);
}

static bool there(const char *name)
{
    return fs_exists(fs_posix(), in_feed(name));
}

// As at the end of a job that restores its best checkpoint.
TEST(table_feed, it_may_go_back_to_a_cut_with_a_lower_number)
{
    struct world best = {.has = {true, true}}, last = best;
    struct table_feed f;

    last.has[1] = false;
    last.values[0][2] = 7;
    T_OK(feed_of(&f, "j-1", "users", DIM));
    T_OK(add(&f, &best, 3));
    T_OK(add(&f, &last, 5));
    T_OK(add(&f, &best, 3));
    check_feed(&f, &best);
    T_TRUE(there("delta-5-3.safetensors"));
    T_EQ(table_feed_last(&f)->cut, 3);
    T_EQ(table_feed_last(&f)->sum.digest, f.files[0].sum.digest);
    table_feed_release(&f);
}

static void put(const char *name, const char *text)
{
    T_OK(fs_mkdirs(fs_posix(), place("feed"), t_err()));
    T_OK(fs_write_durable(fs_posix(), in_feed(name), text, strlen(text),
                          t_err()));
}

TEST(table_feed, what_a_killed_process_left_goes_and_nothing_else)
{
    struct world w = {.has = {true}};
    struct table_feed f;

    put("base-1.safetensors.tmp", "");
    put("base-1.safetensors", "before there was an index");
    T_OK(feed_of(&f, "j-1", "users", DIM));
    T_TRUE(!there("base-1.safetensors") && !there("base-1.safetensors.tmp"));
    T_OK(add(&f, &w, 1));
    table_feed_release(&f);
    put("delta-1-2.safetensors", "not listed");
    put("fetched-17-0.tmp", "");
    put("index.json.tmp", "");
    put("notes.txt", "of a person");
    T_OK(feed_of(&f, "j-1", "users", DIM));
    T_TRUE(!there("delta-1-2.safetensors") && !there("fetched-17-0.tmp"));
    T_TRUE(!there("index.json.tmp") && there("notes.txt"));
    check_feed(&f, &w);
    table_feed_release(&f);
}

TEST(table_feed, a_folder_of_something_else_is_refused)
{
    struct world w = {.has = {true}};
    struct table_feed f;
    struct table_export x;

    put("notes.txt", "of a person");
    T_FAILS(SL_EEXIST, feed_of(&f, "j-1", "users", DIM));
    T_HAS(why.text, "has other files (notes.txt)");
    table_feed_release(&f);
    T_OK(fs_unlink(fs_posix(), in_feed("notes.txt"), t_err()));
    T_OK(feed_of(&f, "j-1", "users", DIM));
    T_OK(add(&f, &w, 1));
    open_cut(&x, &w);
    T_FAILS(SL_EEXIST, table_feed_add(&f, &x, "job-j-1-1", 2, &why));
    T_HAS(why.text, "follows job job-j-1-0");
    table_export_release(&x);
    table_feed_release(&f);
    T_FAILS(SL_EEXIST, feed_of(&f, "j-2", "users", DIM));
    T_HAS(why.text, "follows table users of j-1");
    table_feed_release(&f);
    T_FAILS(SL_EEXIST, feed_of(&f, "j-1", "items", DIM));
    table_feed_release(&f);
    T_FAILS(SL_EEXIST, feed_of(&f, "j-1", "users", DIM + 1));
    table_feed_release(&f);
    T_OK(feed_of(&f, "j-1", "users", DIM));
    table_feed_release(&f);
}

static enum sl_err reopened_with(const char *old, const char *new)
{
    static char text[8192];
    struct buf index = BUF_INIT;
    struct table_feed f;
    const char *at;
    enum sl_err rc;

    T_OK(fs_read_all(fs_posix(), in_feed(FEED_INDEX), sizeof(text), &index,
                     t_err()));
    at = strstr(buf_text(&index), old);
    T_TRUE(at != NULL);
    snprintf(text, sizeof(text), "%.*s%s%s", (int)(at - buf_text(&index)),
             buf_text(&index), new, at + strlen(old));
    put(FEED_INDEX, text);
    rc = feed_of(&f, "j-1", "users", DIM);
    if (rc != SL_OK)
        T_EQ(why.code, rc); // the command's exit status follows from it
    table_feed_release(&f);
    put(FEED_INDEX, buf_text(&index));
    buf_release(&index);
    return rc;
}

TEST(table_feed, an_index_that_does_not_hold_is_refused)
{
    struct world w = {.has = {true}};
    struct table_feed f;

    T_OK(feed_of(&f, "j-1", "users", DIM));
    T_OK(add(&f, &w, 1));
    table_feed_release(&f);
    T_FAILS(SL_ENOTSUP, reopened_with("\"format\": 1", "\"format\": 2"));
    T_FAILS(SL_ECORRUPT, reopened_with("{", "["));
    T_FAILS(SL_ECORRUPT, reopened_with("\"job\"", "\"jot\""));
    T_FAILS(SL_ECORRUPT, reopened_with("\"cut\": 1,\n      ", ""));
    T_FAILS(SL_ECORRUPT, reopened_with("base-1", "../base-1"));
    T_FAILS(SL_ECORRUPT, reopened_with("\"digest\": \"", "\"digest\": \"x"));
    T_FAILS(SL_ECORRUPT,
            reopened_with("\"changed\"", "\"from\": 1, \"changed\""));
    T_FAILS(SL_ECORRUPT, reopened_with("\"files\"", "\"filed\""));
    T_OK(reopened_with("{", "{"));
}

TEST(table_feed, a_damaged_file_is_found_before_anything_is_added)
{
    struct world w = {.has = {true, true, true}, .values = {{1}}};
    struct table_feed f;
    FILE *file;

    T_OK(feed_of(&f, "j-1", "users", DIM));
    T_OK(add(&f, &w, 1));
    file = fopen(in_feed("base-1.safetensors"), "r+");
    T_TRUE(file != NULL && fseek(file, -3, SEEK_END) == 0);
    fputc(0x55, file);
    fclose(file);
    T_FAILS(SL_ECORRUPT, add(&f, &w, 2));
    T_HAS(why.text, "remove them and begin anew");
    T_EQ(table_feed_last(&f)->cut, 1);
    T_OK(fs_unlink(fs_posix(), in_feed("base-1.safetensors"), t_err()));
    T_FAILS(SL_ECORRUPT, add(&f, &w, 2));
    T_HAS(why.text, "base-1.safetensors is missing");
    table_feed_release(&f);
}
