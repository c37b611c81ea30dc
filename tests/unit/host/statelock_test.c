// SPDX-License-Identifier: Apache-2.0
#include "host/daemon/statelock.h"

#include <sys/wait.h>
#include <unistd.h>

#include "common/base/buf.h"
#include "common/base/fs.h"
#include "tests/harness/t.h"

// In a child: an fcntl lock does not hold against its own process. The exit
// code is what statelock_take said; the text goes through the pipe.
static int try_in_child(const char *dir, char *text, size_t room)
{
    int ends[2], status;
    pid_t pid;

    T_EQ(pipe(ends), 0);
    pid = fork();
    if (pid == 0) {
        struct statelock l = STATELOCK_INIT;
        struct sl_error err = SL_ERROR_INIT;
        enum sl_err rc = statelock_take(&l, dir, &err);
        ssize_t n = write(ends[1], err.text, strlen(err.text) + 1);

        _exit(n > 0 ? (int)rc : 255);
    }
    close(ends[1]);
    T_GT(read(ends[0], text, room), 0);
    close(ends[0]);
    T_EQ(waitpid(pid, &status, 0), pid);
    T_TRUE(WIFEXITED(status));
    return WEXITSTATUS(status);
}

TEST(statelock, the_second_process_names_the_first)
{
    struct statelock l = STATELOCK_INIT;
    char text[SL_ERROR_TEXT], want[64];
    struct buf file = BUF_INIT;

    T_OK(statelock_take(&l, t_tmpdir(), t_err()));
    T_EQ(try_in_child(t_tmpdir(), text, sizeof(text)), SL_EBUSY);
    snprintf(want, sizeof(want), "is held by process %d (pid %d boot ",
             (int)getpid(), (int)getpid());
    T_HAS(text, want);
    T_HAS(text, "with --state");
    statelock_release(&l);
    statelock_release(&l); // twice is allowed
    T_EQ(try_in_child(t_tmpdir(), text, sizeof(text)), SL_OK);
    T_OK(fs_read_all(fs_posix(), t_path("lock"), 1000, &file, t_err()));
    T_HAS(buf_text(&file), "pid ");
    buf_release(&file);
}

TEST(statelock, a_dead_process_holds_nothing)
{
    struct statelock l = STATELOCK_INIT;
    char text[SL_ERROR_TEXT];

    T_EQ(try_in_child(t_tmpdir(), text, sizeof(text)), SL_OK); // and dies
    T_OK(statelock_take(&l, t_tmpdir(), t_err()));
    statelock_release(&l);
}

TEST(statelock, needs_a_folder)
{
    struct statelock l = STATELOCK_INIT;

    T_FAILS(SL_ENOENT, statelock_take(&l, t_path("none"), t_err()));
    T_EQ(l.fd, -1);
}
