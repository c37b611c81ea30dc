// SPDX-License-Identifier: Apache-2.0
#include "host/daemon/statelock.h"

#include <errno.h>
#include <fcntl.h>
#include <linux/filter.h>
#include <linux/seccomp.h>
#include <sys/prctl.h>
#include <sys/syscall.h>
#include <sys/wait.h>
#include <unistd.h>

#include "common/base/buf.h"
#include "common/base/fs.h"
#include "tests/harness/t.h"

// From here on this process gets no lock of a file, as on NFS without a lock
// service.
static bool forget_locks(void)
{
    struct sock_filter code[] = {
        BPF_STMT(BPF_LD | BPF_W | BPF_ABS, offsetof(struct seccomp_data, nr)),
        BPF_JUMP(BPF_JMP | BPF_JEQ | BPF_K, SYS_fcntl, 0, 3),
        // The low half: of a little-endian machine.
        BPF_STMT(BPF_LD | BPF_W | BPF_ABS,
                 offsetof(struct seccomp_data, args[1])),
        BPF_JUMP(BPF_JMP | BPF_JEQ | BPF_K, F_SETLK, 0, 1),
        BPF_STMT(BPF_RET | BPF_K, SECCOMP_RET_ERRNO | ENOLCK),
        BPF_STMT(BPF_RET | BPF_K, SECCOMP_RET_ALLOW),
    };
    struct sock_fprog program = {SL_COUNT(code), code};
    struct flock lock = {.l_type = F_WRLCK, .l_whence = SEEK_SET};

    return prctl(PR_SET_NO_NEW_PRIVS, 1, 0, 0, 0) == 0 &&
           prctl(PR_SET_SECCOMP, SECCOMP_MODE_FILTER, &program) == 0 &&
           fcntl(STDERR_FILENO, F_SETLK, &lock) == -1 && errno == ENOLCK;
}

enum { CHILD_SKIPS = 254 };

// In a child: an fcntl lock does not hold against its own process. The exit
// code is what statelock_take said; the text goes through the pipe. `locks`:
// there are locks; without them the child may not come so far (CHILD_SKIPS).
static int try_in_child(const char *dir, bool locks, char *text, size_t room)
{
    int ends[2], status;
    pid_t pid;

    T_EQ(pipe(ends), 0);
    pid = fork();
    if (pid == 0) {
        struct statelock l = STATELOCK_INIT;
        struct sl_error err = SL_ERROR_INIT;
        bool skips = !locks && !forget_locks();
        enum sl_err rc = statelock_take(&l, dir, &err);
        ssize_t n = write(ends[1], err.text, strlen(err.text) + 1);

        if (skips)
            _exit(CHILD_SKIPS);
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
    T_EQ(try_in_child(t_tmpdir(), true, text, sizeof(text)), SL_EBUSY);
    snprintf(want, sizeof(want), "is held by process %d (pid %d boot ",
             (int)getpid(), (int)getpid());
    T_HAS(text, want);
    T_HAS(text, "with --state");
    statelock_release(&l);
    statelock_release(&l); // twice is allowed
    T_EQ(try_in_child(t_tmpdir(), true, text, sizeof(text)), SL_OK);
    T_OK(fs_read_all(fs_posix(), t_path("lock"), 1000, &file, t_err()));
    T_HAS(buf_text(&file), "pid ");
    buf_release(&file);
}

TEST(statelock, a_dead_process_holds_nothing)
{
    struct statelock l = STATELOCK_INIT;
    char text[SL_ERROR_TEXT];

    T_EQ(try_in_child(t_tmpdir(), true, text, sizeof(text)), SL_OK); // and dies
    T_OK(statelock_take(&l, t_tmpdir(), t_err()));
    statelock_release(&l);
}

TEST(statelock, a_file_system_without_locks_is_said_to_be_one)
{
    char text[SL_ERROR_TEXT];
    int rc = try_in_child(t_tmpdir(), false, text, sizeof(text));

    if (rc == CHILD_SKIPS)
        T_SKIP("this process may not filter its system calls");
    T_EQ(rc, SL_EIO);
    T_HAS(text, t_path("lock"));
    T_HAS(text, strerror(ENOLCK));
}

TEST(statelock, needs_a_folder)
{
    struct statelock l = STATELOCK_INIT;

    T_FAILS(SL_ENOENT, statelock_take(&l, t_path("none"), t_err()));
    T_EQ(l.fd, -1);
}
