// SPDX-License-Identifier: Apache-2.0
// The cache of pieces on the disk: what is used longest ago goes, what is
// damaged is missing, and several processes share one folder.
#include "host/place/pieces_inner.h"

#include <dirent.h>
#include <errno.h>
#include <fcntl.h>
#include <sched.h>
#include <signal.h>
#include <sys/file.h>
#include <sys/mount.h>
#include <sys/resource.h>
#include <sys/socket.h>
#include <sys/stat.h>
#include <sys/wait.h>
#include <time.h>
#include <unistd.h>

#include "common/base/mem.h"
#include "common/run/log.h"
#include "tests/harness/t.h"

#define HEAD PIECES_HEAD

static struct sl_error err;
static uint8_t bytes[PIECE_BYTES], back[PIECE_BYTES];
static const uint8_t id[PIECES_ID] = {1, 2, 3};

static bool never(void *arg)
{
    return false;
}

static bool at_once(void *arg)
{
    return true;
}

static struct pieces *opened(uint64_t most)
{
    struct pieces *p = NULL;

    T_OK(pieces_new(&p, t_path("cache"), most, t_err()));
    p->fresh_ms = 0; // each use is noted
    return p;
}

static struct piece_name number(uint32_t index)
{
    return (struct piece_name){id, index};
}

// Fills `bytes` so that no block is like another, and no piece.
static void draw(uint32_t index)
{
    for (size_t i = 0; i < sizeof(bytes); i++)
        bytes[i] = (uint8_t)((i >> 14) * 7 + i * 13 + index);
}

static bool put(struct pieces *p, uint32_t index, size_t n)
{
    struct piece_name name = number(index);

    draw(index);
    return pieces_write(p, pieces_claim(p, &name, never, NULL), &name, bytes,
                        n);
}

static bool has(struct pieces *p, uint32_t index)
{
    struct piece_name name = number(index);

    return pieces_has(p, &name);
}

// Returns the file of a piece.
static const char *file_of(uint32_t index)
{
    static char path[2][600]; // rename takes two
    static unsigned turn;

    turn ^= 1;
    snprintf(path[turn], sizeof(path[turn]), "%s/cache/%02x/010203%058d-%08x",
             t_tmpdir(), (1 + index) & 0xff, 0, index);
    return path[turn];
}

// Sets the time of a piece's last use, so that no test waits for a clock.
static void used(uint32_t index, time_t when)
{
    const struct timespec at[2] = {{when, 0}, {when, 0}};

    T_EQ(utimensat(AT_FDCWD, file_of(index), at, 0), 0);
}

TEST(pieces, any_part_of_a_piece_comes_back)
{
    static const size_t sizes[] = {
        1, 100, PIECE_BLOCK, PIECE_BLOCK + 1, PIECE_BYTES - 1, PIECE_BYTES};
    struct pieces *p = opened(PIECES_LEAST);

    for (uint32_t i = 0; i < SL_COUNT(sizes); i++) {
        struct piece_name name = number(i);

        T_FALSE(has(p, i));
        T_TRUE(put(p, i, sizes[i]));
        T_TRUE(has(p, i));
        for (size_t at = 0; at < sizes[i]; at += 5000) {
            size_t n = sizes[i] - at < 40000 ? sizes[i] - at : 40000;

            T_TRUE(pieces_read(p, &name, at, back, n));
            T_MEM(back, bytes + at, n);
        }
        T_FALSE(pieces_read(p, &name, sizes[i], back, 1)); // past its end
    }
    pieces_free(p);
}

// What was used longest ago goes first; a read is a use.
TEST(pieces, the_longest_unused_goes)
{
    const uint32_t most = 7; // 8 MiB hold 7 with their heads
    struct pieces *p = opened(PIECES_LEAST);
    struct piece_name first = number(0);

    for (uint32_t i = 0; i < most; i++) {
        T_TRUE(put(p, i, PIECE_BYTES));
        used(i, 1000 + i);
    }
    T_EQ(pieces_bytes(p), most * (HEAD + PIECE_BYTES));
    T_TRUE(pieces_read(p, &first, 0, back, 1));
    T_TRUE(put(p, most, PIECE_BYTES));
    T_TRUE(has(p, 0));
    T_FALSE(has(p, 1));
    T_TRUE(has(p, most));
    T_LE(pieces_bytes(p), PIECES_LEAST);
    pieces_free(p);
}

// A piece with one wrong bit, a short one, and one of another object are none.
TEST(pieces, what_is_damaged_is_missing)
{
    struct pieces *p = opened(PIECES_LEAST);

    for (uint32_t at = 0; at < HEAD + 2 * PIECE_BLOCK; at += 97) {
        struct piece_name name = number(3);
        uint8_t byte = 0;
        int fd;

        if (at > sizeof(struct piece_head) && at < HEAD) // nothing stands there
            continue;
        T_TRUE(put(p, 3, 2 * PIECE_BLOCK));
        fd = open(file_of(3), O_RDWR);
        T_TRUE(fd >= 0);
        T_EQ(pread(fd, &byte, 1, at), 1);
        byte ^= 4;
        T_EQ(pwrite(fd, &byte, 1, at), 1);
        close(fd);
        T_FALSE(pieces_read(p, &name, 0, back, 2 * PIECE_BLOCK));
        T_FALSE(has(p, 3));
    }
    T_TRUE(put(p, 4, 2 * PIECE_BLOCK));
    T_EQ(truncate(file_of(4), HEAD + PIECE_BLOCK), 0);
    T_FALSE(pieces_read(p, &(struct piece_name){id, 4}, PIECE_BLOCK, back, 1));
    T_TRUE(put(p, 5, 100));
    T_EQ(rename(file_of(5), file_of(5 + 256)), 0);
    T_FALSE(pieces_read(p, &(struct piece_name){id, 5 + 256}, 0, back, 1));
    T_GT(p->damaged, 2);
    pieces_free(p);
}

// More than stay open; then each is read again.
TEST(pieces, of_many_pieces_each_is_what_it_was)
{
    struct pieces *p = opened((uint64_t)64 << 20);
    uint32_t count = 700;

    for (uint32_t i = 0; i < count; i++)
        T_TRUE(put(p, i, 6000));
    for (uint32_t turn = 0; turn < 2; turn++) {
        for (uint32_t i = 0; i < count; i++) {
            struct piece_name name = number(i);

            draw(i);
            T_TRUE(pieces_read(p, &name, 4000, back, 200)); // of two blocks
            T_MEM(back, bytes + 4000, 200);
        }
    }
    pieces_free(p);
}

// A disk that takes no more ends no reading, and what it took is given back.
TEST(pieces, a_full_disk_turns_the_cache_off)
{
    struct pieces *p = opened(PIECES_LEAST);
    struct piece_name name = number(1);
    struct rlimit was, small;
    uint64_t had;

    T_TRUE(put(p, 0, PIECE_BYTES));
    had = pieces_bytes(p);
    signal(SIGXFSZ, SIG_IGN);
    T_EQ(getrlimit(RLIMIT_FSIZE, &was), 0);
    small = was;
    small.rlim_cur = PIECE_BYTES / 2;
    T_EQ(setrlimit(RLIMIT_FSIZE, &small), 0);
    T_FALSE(put(p, 1, PIECE_BYTES));
    T_EQ(setrlimit(RLIMIT_FSIZE, &was), 0);
    T_FALSE(has(p, 1));
    T_EQ(pieces_bytes(p), had);
    T_EQ(pieces_claim(p, &name, never, NULL), -1); // it is off
    T_TRUE(pieces_read(p, &(struct piece_name){id, 0}, 0, back, 1));
    p->off_until_ms = 0;
    T_TRUE(put(p, 1, PIECE_BYTES));
    pieces_free(p);
}

// Runs where the cache lies on a disk of 4 MiB that it fills. Returns 77 where
// that cannot be made, else the number of the first thing that is wrong.
static int fills_a_disk(void)
{
    struct pieces *p = NULL;

    if (unshare(CLONE_NEWNS) != 0 ||
        mount("none", "/", NULL, MS_REC | MS_PRIVATE, NULL) != 0 ||
        mount("small", t_tmpdir(), "tmpfs", 0, "size=4m") != 0)
        return 77;
    if (pieces_new(&p, t_path("cache"), PIECES_LEAST, NULL) != SL_OK)
        return 1;
    p->fresh_ms = 0;
    for (uint32_t i = 0; i < 3; i++) {
        if (!put(p, i, PIECE_BYTES))
            return 2;
        used(i, 100 + i);
    }
    if (!put(p, 3, PIECE_BYTES)) // is not more than `most`, but has no room
        return 3;
    if (has(p, 0) || !has(p, 1) || !has(p, 2) || !has(p, 3))
        return 4;
    return pieces_bytes(p) == 3 * (HEAD + PIECE_BYTES) ? 0 : 5;
}

TEST(pieces, on_a_full_disk_the_longest_unused_goes)
{
    int status = -1;
    pid_t pid = fork();

    if (pid == 0)
        _exit(fills_a_disk());
    T_EQ(waitpid(pid, &status, 0), pid);
    if (WIFEXITED(status) && WEXITSTATUS(status) == 77)
        T_SKIP("no disk can be mounted here");
    T_EQ(status, 0);
}

// The account is wrong after a process died between two steps; a look through
// the folder makes it right.
TEST(pieces, a_wrong_account_is_put_right)
{
    struct pieces *p = opened(PIECES_LEAST);
    uint64_t wrong = UINT64_C(1) << 60;

    T_TRUE(put(p, 0, PIECE_BYTES));
    T_EQ(pwrite(p->account, &wrong, sizeof(wrong), 0), (ssize_t)sizeof(wrong));
    T_TRUE(put(p, 1, PIECE_BYTES));
    T_EQ(pieces_bytes(p), 2 * (HEAD + PIECE_BYTES));
    T_TRUE(has(p, 0));
    pieces_free(p);
}

// Runs `fn` in a process of its own, which has opened the folder anew.
// A lock is of the open file, which a fork shares: `claim` is closed there.
static pid_t beside(int (*fn)(struct pieces *p, int said), int said, int claim)
{
    pid_t pid = fork();
    struct pieces *p = NULL;

    if (pid != 0)
        return pid;
    if (claim >= 0)
        close(claim);
    if (pieces_new(&p, t_path("cache"), PIECES_LEAST, NULL) != SL_OK)
        _exit(9);
    _exit(fn(p, said));
}

static int exit_of(pid_t pid)
{
    int status = -1;

    T_EQ(waitpid(pid, &status, 0), pid);
    return WIFEXITED(status) ? WEXITSTATUS(status) : 100;
}

// Waits for the piece that the other process fetches, and finds it.
static int waits(struct pieces *p, int said)
{
    struct piece_name name = number(7);
    int claim;

    draw(7);
    if (pieces_claim(p, &name, at_once, NULL) >= 0)
        return 1; // the other has it
    if (write(said, "", 1) != 1)
        return 2;
    claim = pieces_claim(p, &name, never, NULL);
    if (!pieces_read(p, &name, 0, back, PIECE_BYTES))
        return 3;
    pieces_drop(p, claim, &name);
    return memcmp(back, bytes, PIECE_BYTES) == 0 ? 0 : 4;
}

// Claims the piece, and ends without it.
static int dies(struct pieces *p, int said)
{
    struct piece_name name = number(8);

    return pieces_claim(p, &name, never, NULL) >= 0 ? 0 : 1;
}

TEST(pieces, one_process_fetches_and_the_other_waits)
{
    struct pieces *p = opened(PIECES_LEAST);
    struct piece_name name = number(7), other = number(8);
    int claim = pieces_claim(p, &name, never, NULL), pair[2];
    pid_t pid;
    char byte;

    T_TRUE(claim >= 0);
    T_EQ(pipe(pair), 0);
    pid = beside(waits, pair[1], claim);
    T_EQ(read(pair[0], &byte, 1), 1);
    draw(7);
    T_TRUE(pieces_write(p, claim, &name, bytes, PIECE_BYTES));
    T_EQ(exit_of(pid), 0);
    T_EQ(exit_of(beside(dies, pair[1], -1)), 0);
    claim = pieces_claim(p, &other, never, NULL);
    T_TRUE(claim >= 0);
    T_TRUE(pieces_write(p, claim, &other, bytes, 10));
    T_TRUE(has(p, 8));
    pieces_free(p);
}

// Claims piece 9 and locks the account, and ends once the pipe does.
static int stands_still(struct pieces *p, int said)
{
    struct piece_name name = number(9);
    char byte;

    if (pieces_claim(p, &name, never, NULL) < 0 ||
        flock(p->account, LOCK_EX) != 0 || write(said, "", 1) != 1)
        return 1;
    return recv(said, &byte, 1, 0) == 0 ? 0 : 2;
}

// One that is stopped, say.
TEST(pieces, a_process_that_stands_still_holds_up_nobody)
{
    struct pieces *p = opened(PIECES_LEAST);
    struct piece_name name = number(9);
    uint8_t byte;
    int pair[2];
    pid_t pid;

    T_TRUE(put(p, 1, 10));
    p->patience_ms = 0;
    T_EQ(socketpair(AF_UNIX, SOCK_STREAM | SOCK_CLOEXEC, 0, pair), 0);
    pid = beside(stands_still, pair[1], pair[0]);
    T_EQ(read(pair[0], &byte, 1), 1);
    T_EQ(pieces_claim(p, &name, never, NULL), -1);
    T_FALSE(pieces_off(p)); // it goes on without that piece
    T_FALSE(put(p, 2, 10));
    T_TRUE(pieces_off(p));
    T_TRUE(pieces_read(p, &(struct piece_name){id, 1}, 0, back, 10));
    close(pair[1]);
    close(pair[0]);
    T_EQ(exit_of(pid), 0);
    p->off_until_ms = 0;
    T_TRUE(put(p, 2, 10));
    pieces_free(p);
}

static void find_words(void *arg, enum log_level level, const char *line,
                       size_t len)
{
    const char *words = strerror(EBADF);

    (void)level;
    *(bool *)arg |= memmem(line, len, words, strlen(words)) != NULL;
}

TEST(pieces, an_account_that_cannot_be_locked_is_told_with_the_reason)
{
    struct pieces *p = opened(PIECES_LEAST);
    int account = p->account;
    bool told = false;

    p->account = -1;
    log_set_sink(find_words, &told);
    T_FALSE(room_take(p, 10));
    log_set_sink(NULL, NULL);
    T_TRUE(pieces_off(p));
    T_TRUE(told);
    p->account = account;
    pieces_free(p);
}

TEST(pieces, a_folder_is_made_for_its_user_alone)
{
    struct pieces *p = opened(PIECES_LEAST);
    struct stat st;

    T_EQ(stat(t_path("cache"), &st), 0);
    T_EQ(st.st_mode & 077, 0);
    pieces_free(p);
    T_FAILS(SL_EINVAL, pieces_new(&p, t_path("cache"), PIECES_LEAST - 1, &err));
    T_HAS(err.text, "at least 8 MiB");
}
