// SPDX-License-Identifier: Apache-2.0
#include "common/net/local/shm.h"

#include <fcntl.h>
#include <sys/mman.h>
#include <sys/socket.h>
#include <sys/stat.h>
#include <unistd.h>

#include "common/run/loop.h"
#include "tests/harness/t.h"

enum { BYTES = 8192 };

// ---- the memory

TEST(shm, is_seen_by_both_and_outlives_its_maker)
{
    struct shm ours, theirs;
    int fd;

    T_OK(shm_new(&ours, &fd, BYTES, t_err()));
    T_EQ(ours.bytes, BYTES);
    for (int i = 0; i < BYTES; i++)
        T_EQ(ours.at[i], 0);
    T_OK(shm_map(&theirs, fd, BYTES, t_err()));
    close(fd);
    ours.at[BYTES - 1] = 7;
    T_EQ(theirs.at[BYTES - 1], 7);
    theirs.at[0] = 9;
    T_EQ(ours.at[0], 9);
    shm_release(&ours);
    T_EQ(theirs.at[BYTES - 1], 7);
    shm_release(&theirs);
    shm_release(&theirs); // all zeroes
}

TEST(shm, its_maker_cannot_make_it_smaller_or_change_the_seals)
{
    struct shm m;
    int fd;

    T_OK(shm_new(&m, &fd, BYTES, t_err()));
    T_EQ(ftruncate(fd, 0), -1);
    T_EQ(ftruncate(fd, 2 * BYTES), -1);
    T_EQ(fcntl(fd, F_ADD_SEALS, F_SEAL_WRITE), -1);
    close(fd);
    shm_release(&m);
}

static int memfd(unsigned flags, off_t bytes, int seals)
{
    int fd = memfd_create("test", MFD_CLOEXEC | flags);

    if (fd < 0)
        return -1;
    T_EQ(ftruncate(fd, bytes), 0);
    if (seals != 0)
        T_EQ(fcntl(fd, F_ADD_SEALS, seals), 0);
    return fd;
}

static void is_refused(int fd, size_t bytes, const char *why)
{
    struct sl_error err = SL_ERROR_INIT;
    struct shm m;

    T_GE(fd, 0);
    T_FAILS(SL_EDENIED, shm_map(&m, fd, bytes, &err));
    T_HAS(err.text, why);
    close(fd);
}

TEST(shm, what_its_maker_could_take_away_is_refused)
{
    int all = F_SEAL_SHRINK | F_SEAL_GROW | F_SEAL_SEAL, fd, plain;

    is_refused(memfd(MFD_ALLOW_SEALING, BYTES, 0), BYTES, "not sealed");
    is_refused(memfd(MFD_ALLOW_SEALING, BYTES, all & ~F_SEAL_SHRINK), BYTES,
               "not sealed");
    is_refused(memfd(MFD_ALLOW_SEALING, BYTES, all & ~F_SEAL_GROW), BYTES,
               "not sealed");
    is_refused(memfd(MFD_ALLOW_SEALING, BYTES, all & ~F_SEAL_SEAL), BYTES,
               "not sealed");
    is_refused(memfd(MFD_ALLOW_SEALING, BYTES, all | F_SEAL_WRITE), BYTES,
               "read-only");
    is_refused(memfd(MFD_ALLOW_SEALING, BYTES, all), BYTES + 1, "8192 bytes");
    is_refused(memfd(MFD_ALLOW_SEALING, BYTES, all), BYTES - 1, "8192 bytes");
    is_refused(memfd(MFD_ALLOW_SEALING, 0, all), 0, "0 bytes");
    plain = open(t_path("file"), O_RDWR | O_CREAT | O_CLOEXEC, 0600);
    T_EQ(ftruncate(plain, BYTES), 0);
    is_refused(plain, BYTES, "not sealed");
    // Mapping them works even where there are none; touching them does not.
    fd = memfd(MFD_ALLOW_SEALING | MFD_HUGETLB, 2 << 20, all);
    if (fd >= 0)
        is_refused(fd, 2 << 20, "no plain memory");
}

TEST(shm, a_boot_has_a_name_and_secrets_differ)
{
    char a[SHM_BOOT_ID], b[SHM_BOOT_ID];
    uint64_t x, y;

    T_TRUE(shm_boot_id(a));
    T_TRUE(shm_boot_id(b));
    T_STR(a, b);
    T_EQ(strlen(a), 36);
    T_OK(shm_secret(&x));
    T_OK(shm_secret(&y));
    T_NE(x, 0);
    T_NE(x, y);
}

// ---- the socket

struct pair {
    int listening, near, far;
};

static void pair_open(struct pair *p, const char *path)
{
    T_OK(shm_listen(&p->listening, path, t_err()));
    T_FAILS(SL_EBUSY, shm_accept(&p->far, p->listening));
    T_OK(shm_connect(&p->near, path, t_err()));
    T_OK(shm_accept(&p->far, p->listening));
}

static void pair_close(struct pair *p)
{
    close(p->listening);
    close(p->near);
    close(p->far);
}

TEST(shm_sock, memory_goes_over_it)
{
    struct shm ours, theirs;
    int fd, passed, got = 0;
    struct pair p;

    pair_open(&p, t_path("s"));
    T_OK(shm_new(&ours, &fd, BYTES, t_err()));
    T_FAILS(SL_EBUSY, shm_receive(p.far, &got, sizeof(got), &passed));
    T_OK(shm_send(p.near, &(int){42}, sizeof(int), fd));
    close(fd);
    T_OK(shm_receive(p.far, &got, sizeof(got), &passed));
    T_EQ(got, 42);
    T_TRUE((fcntl(passed, F_GETFD) & FD_CLOEXEC) != 0);
    T_OK(shm_map(&theirs, passed, BYTES, t_err()));
    close(passed);
    ours.at[5] = 5;
    T_EQ(theirs.at[5], 5);
    T_OK(shm_send(p.far, &(int){43}, sizeof(int), -1)); // and back, without
    T_OK(shm_receive(p.near, &got, sizeof(got), &passed));
    T_EQ(got, 43);
    T_EQ(passed, -1);
    shm_release(&ours);
    shm_release(&theirs);
    close(p.near);
    T_FAILS(SL_EUNAVAIL, shm_receive(p.far, &got, sizeof(got), &passed));
    T_FAILS(SL_EUNAVAIL, shm_send(p.far, &got, sizeof(got), -1));
    close(p.far);
    close(p.listening);
}

static int descriptors(void)
{
    int n = 0;

    for (int fd = 0; fd < 1024; fd++)
        n += fcntl(fd, F_GETFD) >= 0;
    return n;
}

// What shm_send never sends.
static void say_two(int fd, int a, int b)
{
    int passed[2] = {a, b}, byte = 0;
    struct iovec part = {&byte, sizeof(byte)};
    union {
        struct cmsghdr align;
        char room[CMSG_SPACE(sizeof(passed))];
    } c = {.room = {0}};
    struct msghdr m = {.msg_iov = &part,
                       .msg_iovlen = 1,
                       .msg_control = &c,
                       .msg_controllen = sizeof(c)};

    c.align.cmsg_level = SOL_SOCKET;
    c.align.cmsg_type = SCM_RIGHTS;
    c.align.cmsg_len = CMSG_LEN(sizeof(passed));
    memcpy(CMSG_DATA(&c.align), passed, sizeof(passed));
    T_EQ(sendmsg(fd, &m, 0), (ssize_t)sizeof(byte));
}

TEST(shm_sock, other_messages_leave_no_descriptors_behind)
{
    int before, passed, got;
    struct pair p;

    pair_open(&p, t_path("s"));
    before = descriptors();
    say_two(p.near, 0, 1);
    T_FAILS(SL_ECORRUPT, shm_receive(p.far, &got, sizeof(got), &passed));
    T_OK(shm_send(p.near, "long", 5, 0));
    T_FAILS(SL_ECORRUPT, shm_receive(p.far, &got, sizeof(got), &passed));
    T_OK(shm_send(p.near, "s", 1, 0));
    T_FAILS(SL_ECORRUPT, shm_receive(p.far, &got, sizeof(got), &passed));
    T_EQ(descriptors(), before);
    pair_close(&p);
}

TEST(shm_sock, is_private_replaces_a_stale_one_and_may_have_a_long_path)
{
    char path[400];
    struct stat st;
    struct pair p;
    int fd;

    pair_open(&p, t_path("s"));
    pair_close(&p); // the file stays, as after a kill
    T_EQ(stat(t_path("s"), &st), 0);
    T_EQ(st.st_mode & 0777, 0600);
    pair_open(&p, t_path("s"));
    pair_close(&p);

    memset(path, 0, sizeof(path));
    snprintf(path, 150, "%s/%0120d", t_tmpdir(), 1);
    T_EQ(mkdir(path, 0700), 0);
    strcat(path, "/s");
    T_GT(strlen(path), 108);
    pair_open(&p, path);
    pair_close(&p);
    T_FAILS(SL_ENOENT, shm_connect(&fd, t_path("nothing"), t_err()));
    T_FAILS(SL_EUNAVAIL, shm_connect(&fd, path, t_err())); // nobody answers
}

// ---- watched by the loop

struct heard {
    int fd;
    unsigned times;
    enum sl_err rc;
    struct loop_watch *watch;
};

static void on_news(void *arg)
{
    struct heard *h = arg;
    int got, passed;

    h->times++;
    h->rc = shm_receive(h->fd, &got, sizeof(got), &passed);
    if (h->rc != SL_OK) { // from its own callback
        loop_watch_free(h->watch);
        h->watch = NULL;
        close(h->fd);
    }
}

TEST(shm_sock, the_loop_tells_of_messages_and_of_the_end)
{
    struct heard h = {.times = 0};
    struct loop *loop;
    struct pair p;

    pair_open(&p, t_path("s"));
    T_OK(loop_new(&loop, t_err()));
    h.fd = p.far;
    T_OK(loop_watch_new(&h.watch, loop, p.far, on_news, &h));
    loop_turn(loop);
    T_EQ(h.times, 0);
    T_OK(shm_send(p.near, &(int){1}, sizeof(int), -1));
    loop_turn(loop);
    T_EQ(h.times, 1);
    T_EQ(h.rc, SL_OK);
    close(p.near);
    loop_turn(loop);
    T_EQ(h.times, 2);
    T_EQ(h.rc, SL_EUNAVAIL);
    loop_watch_free(h.watch); // NULL
    loop_free(loop);
    close(p.listening);
}
