// SPDX-License-Identifier: Apache-2.0
// The audit log: its files, and denials that must not fill a disk.
#include "coordinator/service/audit.h"

#include <semaphore.h>
#include <stdatomic.h>
#include <stdio.h>
#include <string.h>

#include "common/base/buf.h"
#include "common/base/chain.h"
#include "coordinator/service/denials.h"
#include "coordinator/service/notes.h"
#include "tests/harness/t.h"

enum { FILE_BYTES = 4096 };

static struct clock_fake now;

static struct audit *open_log(uint32_t keep)
{
    struct audit_options options = {.fs = fs_posix(),
                                    .clock = &now.clock,
                                    .folder = t_tmpdir(),
                                    .bytes = FILE_BYTES,
                                    .keep = keep};
    struct audit *a;

    T_OK(audit_new(&a, &options, t_err()));
    return a;
}

static struct audit *begin(uint32_t keep)
{
    clock_fake_init(&now, 1000, 1782900000000000);
    return open_log(keep);
}

static void write_lines(struct audit *a, unsigned count)
{
    struct access_who who = {.role = ACCESS_ADMIN, .name = "ann"};
    struct audit_line line = {.who = &who, .call = "Stop", .job = "j-1"};

    for (unsigned i = 0; i < count; i++)
        audit_write(a, &line, NULL, NULL);
}

// ---- files

static const char *segment(unsigned number)
{
    char name[40];

    snprintf(name, sizeof(name), "audit.log.%06u", number);
    return t_path(name);
}

static bool there(unsigned number)
{
    return fs_exists(fs_posix(), segment(number));
}

// Every file from segment `first` on, as one chain; its lines.
static uint64_t verified(unsigned first)
{
    struct chain_end end;

    T_OK(chain_first(fs_posix(), segment(first), &end, t_err()));
    for (unsigned n = first; there(n); n++)
        T_OK(chain_verify(fs_posix(), segment(n), &end, t_err()));
    T_OK(chain_verify(fs_posix(), t_path("audit.log"), &end, t_err()));
    return end.lines;
}

TEST(audit, a_full_file_is_put_beside_and_its_chain_goes_on)
{
    struct audit *a = begin(0);
    struct fs_stat stat;

    write_lines(a, 60);
    audit_free(a);
    T_TRUE(there(1) && there(2) && there(3) && !there(4));
    T_EQ(verified(1), 60);
    for (unsigned n = 1; n <= 3; n++) {
        T_OK(fs_stat_path(fs_posix(), segment(n), &stat, t_err()));
        T_GE(stat.bytes, (uint64_t)FILE_BYTES);
        T_LT(stat.bytes, (uint64_t)FILE_BYTES + CHAIN_LINE_BYTES);
    }
    a = open_log(0); // another start
    write_lines(a, 30);
    audit_free(a);
    T_TRUE(there(5));
    T_EQ(verified(1), 90);
}

// A coordinator that died after the rename, or an operator who renamed by hand.
TEST(audit, a_new_file_follows_the_newest_full_one)
{
    struct audit *a = begin(0);

    write_lines(a, 5);
    audit_free(a);
    T_OK(fs_rename(fs_posix(), t_path("audit.log"), segment(7), t_err()));
    a = open_log(0);
    write_lines(a, 20); // and the next full one is number 8
    audit_free(a);
    T_TRUE(there(8));
    T_EQ(verified(7), 25);
}

TEST(audit, of_full_files_the_newest_are_kept)
{
    struct audit *a = begin(2);
    struct chain_end first;

    write_lines(a, 100);
    audit_free(a);
    for (unsigned n = 1; n <= 4; n++)
        T_FALSE(there(n));
    T_TRUE(there(5) && there(6) && !there(7));
    T_EQ(verified(5), 100);
    T_OK(chain_first(fs_posix(), segment(5), &first, t_err()));
    T_GT(first.lines, 0u); // what is gone is missed
}

// What follows it is a new chain, which does not hide that there was one.
TEST(audit, a_file_that_was_changed_is_not_gone_on_with)
{
    struct audit *a = begin(0);
    struct buf text = BUF_INIT;
    struct chain_end end;

    write_lines(a, 20); // one full file, and a few lines
    audit_free(a);
    T_TRUE(there(1));
    T_OK(fs_read_all(fs_posix(), t_path("audit.log"), 1 << 20, &text, t_err()));
    text.data[text.len - 5] ^= 1;
    T_OK(fs_write_durable(fs_posix(), t_path("audit.log"), text.data, text.len,
                          t_err()));
    a = open_log(0);
    write_lines(a, 1);
    audit_free(a);
    chain_begin(&end);
    T_OK(chain_verify(fs_posix(), t_path("audit.log"), &end, t_err()));
    T_EQ(end.lines, 1);
    buf_release(&text);
}

// ---- syncs: lines that come while one is under way are the next one together

enum { MANY = 1000 };

static struct {
    struct fs fs;
    struct fs_ops ops;
    sem_t begun, go;
    _Atomic unsigned syncs, written;
} disk;

static enum sl_err disk_open(struct fs *fs, struct fs_file **out,
                             const char *path, enum fs_mode mode,
                             struct sl_error *err)
{
    enum sl_err rc = fs_posix()->ops->open(fs_posix(), out, path, mode, err);

    if (rc == SL_OK)
        (*out)->fs = fs;
    return rc;
}

static enum sl_err disk_sync(struct fs_file *f, struct sl_error *err)
{
    atomic_fetch_add(&disk.syncs, 1);
    sem_post(&disk.begun);
    while (sem_wait(&disk.go) != 0)
        ;
    return fs_posix()->ops->sync(f, err);
}

static void disk_init(void)
{
    disk.ops = *fs_posix()->ops;
    disk.ops.open = disk_open;
    disk.ops.sync = disk_sync;
    disk.fs.ops = &disk.ops;
    sem_init(&disk.begun, 0, 0);
    sem_init(&disk.go, 0, 0);
}

static void wait_for_sync(void)
{
    while (sem_wait(&disk.begun) != 0)
        ;
}

static void on_written(void *arg)
{
    T_ASSERT(atomic_load(&disk.syncs) == *(unsigned *)arg);
    atomic_fetch_add(&disk.written, 1);
}

TEST(audit, a_thousand_lines_are_two_syncs_and_each_is_told_after_its_own)
{
    struct access_who who = {.role = ACCESS_ADMIN, .name = "ann"};
    struct audit_line line = {.who = &who, .call = "Stop", .job = "j-1"};
    struct audit_options options = {
        .fs = &disk.fs, .clock = &now.clock, .folder = t_tmpdir()};
    unsigned first = 1, second = 2;
    struct audit *a;

    clock_fake_init(&now, 1000, 1782900000000000);
    disk_init();
    T_OK(audit_new(&a, &options, t_err()));
    audit_write(a, &line, on_written, &first);
    wait_for_sync();
    for (unsigned i = 1; i < MANY; i++)
        audit_write(a, &line, on_written, &second);
    T_EQ(atomic_load(&disk.written), 0); // none is on disk
    sem_post(&disk.go);
    wait_for_sync();
    T_EQ(atomic_load(&disk.written), 1);
    sem_post(&disk.go);
    audit_wait(a);
    T_EQ(atomic_load(&disk.written), MANY);
    T_EQ(atomic_load(&disk.syncs), 2);
    audit_free(a);
}

// ---- denials

static void deny(struct denials *d, const char *id, const char *call)
{
    struct rpc_peer peer = {.way = RPC_WAY_TLS, .uris = 1};
    struct sl_error why = SL_ERROR_INIT;

    snprintf(peer.id, sizeof(peer.id), "%s", id);
    sl_fail(&why, SL_EDENIED, "may not");
    denials_note(d, &peer, call, &why);
}

static void read_log(struct audit *a, struct buf *out)
{
    audit_wait(a);
    out->len = 0;
    T_OK(fs_read_all(fs_posix(), t_path("audit.log"), 1 << 20, out, t_err()));
}

static unsigned lines_with(const struct buf *text, const char *word)
{
    unsigned count = 0;

    for (const char *at = buf_text(text); (at = strstr(at, word)) != NULL; at++)
        count++;
    return count;
}

static struct denials *begin_denials(struct audit **a)
{
    struct audit_options options = {
        .fs = fs_posix(), .clock = &now.clock, .folder = t_tmpdir()};
    struct denials *d;

    clock_fake_init(&now, 1000, 1782900000000000);
    T_OK(audit_new(a, &options, t_err()));
    T_OK(denials_new(&d, *a, &now.clock, t_err()));
    return d;
}

TEST(denials, the_first_is_a_line_at_once_and_the_others_are_counted)
{
    struct buf text = BUF_INIT;
    struct audit *a;
    struct denials *d = begin_denials(&a);

    deny(d, "spiffe://sluice/viewer/vic/tenant/a", "Stop");
    denials_tick(d);
    read_log(a, &text);
    T_HAS(buf_text(&text),
          "\"role\":\"viewer\",\"name\":\"vic\",\"tenant\":\"a\","
          "\"call\":\"Stop\",\"job\":\"\",\"result\":\"SL_EDENIED\",\"why\":"
          "\"may not\",\"times\":1,");
    for (unsigned i = 0; i < 100000; i++) {
        deny(d, "spiffe://sluice/viewer/vic/tenant/a", "Stop");
        denials_tick(d);
    }
    read_log(a, &text);
    T_EQ(lines_with(&text, "\n"), 1);
    deny(d, "spiffe://sluice/viewer/vic/tenant/a", "Delete"); // another call
    deny(d, "spiffe://sluice/gardener/g", "Stop");            // no role
    denials_tick(d);
    read_log(a, &text);
    T_EQ(lines_with(&text, "\n"), 3);
    T_HAS(buf_text(&text), "\"role\":\"nobody\",\"name\":"
                           "\"spiffe://sluice/gardener/g\"");
    clock_fake_advance_ms(&now, DENIALS_MS);
    denials_tick(d);
    read_log(a, &text);
    T_EQ(lines_with(&text, "\n"), 4);
    T_HAS(buf_text(&text), "\"times\":100000,");
    denials_free(d);
    audit_free(a);
    buf_release(&text);
}

// Whoever has many certificates, or many names in them.
TEST(denials, many_callers_are_few_lines_and_none_is_lost)
{
    struct buf text = BUF_INIT;
    struct audit *a;
    struct denials *d = begin_denials(&a);
    unsigned noted = 0;

    for (unsigned round = 0; round < 3; round++) {
        for (unsigned i = 0; i < 5000; i++, noted++) {
            char id[64];

            snprintf(id, sizeof(id), "spiffe://sluice/worker/w-%u", i);
            deny(d, id, "Submit");
            denials_tick(d);
        }
    }
    T_EQ(noted, 15000);
    read_log(a, &text);
    T_EQ(lines_with(&text, "\n"), DENIALS_CALLERS + 1);
    denials_free(d); // what was counted since
    read_log(a, &text);
    T_EQ(lines_with(&text, "\n"), 2 * (DENIALS_CALLERS + 1));
    T_EQ(lines_with(&text, "\"name\":\"(others)\""), 2);
    T_HAS(buf_text(&text), "\"times\":14903,"); // 3 * (5000 - 32) - 1
    audit_free(a);
    buf_release(&text);
}

// A caller that has stopped makes place for another one.
TEST(denials, who_has_stopped_is_forgotten)
{
    struct buf text = BUF_INIT;
    struct audit *a;
    struct denials *d = begin_denials(&a);

    for (unsigned round = 0; round < 2; round++) {
        for (unsigned i = 0; i < DENIALS_CALLERS; i++) {
            char id[64];

            snprintf(id, sizeof(id), "spiffe://sluice/worker/w-%u-%u", round,
                     i);
            deny(d, id, "Submit");
        }
        denials_tick(d);
        clock_fake_advance_ms(&now, DENIALS_MS);
        denials_tick(d);
    }
    read_log(a, &text);
    T_EQ(lines_with(&text, "\n"), 2 * DENIALS_CALLERS);
    T_EQ(lines_with(&text, "(others)"), 0);
    denials_free(d);
    audit_free(a);
    buf_release(&text);
}

// ---- calls that may be made, and fail

static unsigned fail_often(struct denials *d, const char *name, unsigned times)
{
    struct access_who who = {.role = ACCESS_SUBMITTER};
    struct sl_error why = SL_ERROR_INIT;
    const struct audit_line line = {.who = &who,
                                    .call = "Stop",
                                    .job = "j-999",
                                    .result = SL_ENOENT,
                                    .why = &why};
    unsigned whole = 0;

    snprintf(who.name, sizeof(who.name), "%s", name);
    sl_fail(&why, SL_ENOENT, "there is no job j-999");
    for (unsigned i = 0; i < times; i++) {
        whole += denials_whole(d, &line);
        denials_tick(d);
    }
    return whole;
}

TEST(denials, of_calls_that_fail_the_first_are_whole_and_the_others_counted)
{
    struct buf text = BUF_INIT;
    struct audit *a;
    struct denials *d = begin_denials(&a);

    T_EQ(fail_often(d, "ann", 100000), DENIALS_WHOLE);
    T_EQ(fail_often(d, "bob", 1), 1); // somebody else's is whole all the same
    audit_wait(a);
    clock_fake_advance_ms(&now, DENIALS_FAILED_MS);
    denials_tick(d);
    read_log(a, &text);
    T_EQ(lines_with(&text, "\n"), 1);
    T_HAS(buf_text(&text), "\"name\":\"ann\"");
    T_HAS(buf_text(&text), "\"job\":\"j-999\",\"result\":\"SL_ENOENT\"");
    T_HAS(buf_text(&text), "\"times\":99990,");
    T_EQ(fail_often(d, "ann", 20), DENIALS_WHOLE); // the next minute
    denials_free(d);
    read_log(a, &text);
    T_EQ(lines_with(&text, "\"times\":10,"), 1);
    audit_free(a);
    buf_release(&text);
}

// ---- from another thread

// A success has no error to copy.
TEST(audit, a_note_of_a_success_needs_no_error)
{
    struct watch_limits limits = {.watchers = 1, .per_caller = 1};
    struct access_who who = {.role = ACCESS_ADMIN, .name = "ann"};
    struct tasks_change change = {
        .who = &who, .call = "MakeQueue", .queue = "images"};
    struct audit *a = begin(0);
    struct buf text = BUF_INIT;
    struct notes notes;

    T_OK(loop_new(&notes.loop, t_err()));
    T_OK(api_new(&notes.api, notes.loop, a, &limits, &now.clock, t_err()));
    notes_take(&notes, &change);
    loop_turn(notes.loop);
    read_log(a, &text);
    T_EQ(lines_with(&text, "\"call\":\"MakeQueue\",\"job\":\"images\""), 1);
    T_EQ(lines_with(&text, "\"why\""), 0);
    api_free(notes.api);
    loop_free(notes.loop);
    audit_free(a);
    buf_release(&text);
}
