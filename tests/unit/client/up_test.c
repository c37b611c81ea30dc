// SPDX-License-Identifier: Apache-2.0
#include "client/up/up.h"

#include <signal.h>
#include <sys/wait.h>
#include <unistd.h>

#include "common/base/fs.h"
#include "common/base/mem.h"
#include "tests/harness/t.h"

static void free_list(char **list)
{
    for (size_t i = 0; list[i] != NULL; i++)
        sl_free(list[i]);
    sl_free(list);
}

TEST(up, children_do_not_inherit_what_is_meant_for_the_client)
{
    char *ours[] = {(char *)"PATH=/bin",
                    (char *)"SLUICE_TLS_CA=x",
                    (char *)"SLUICE_COORDINATOR=other:1",
                    (char *)"NOTIFY_SOCKET=/run/systemd/notify",
                    (char *)"WATCHDOG_USEC=1",
                    (char *)"SLUICE_LOG_LEVEL=debug",
                    (char *)"SLUICE_UP_DIR=/old",
                    NULL};
    char **env;

    T_OK(up_environment(&env, ours, "/d/notify.sock", "/d"));
    T_STR(env[0], "PATH=/bin");
    T_STR(env[1], "SLUICE_LOG_LEVEL=debug");
    T_STR(env[2], "NOTIFY_SOCKET=/d/notify.sock");
    T_STR(env[3], "SLUICE_UP_DIR=/d");
    T_PTR(env[4], NULL);
    free_list(env);
}

TEST(up, port_0_becomes_one_that_is_free)
{
    char *address;

    T_OK(up_choose_address(&address, "127.0.0.1:7070", t_err()));
    T_STR(address, "127.0.0.1:7070");
    sl_free(address);
    T_OK(up_choose_address(&address, "unix:/tmp/a:0", t_err()));
    T_STR(address, "unix:/tmp/a:0");
    sl_free(address);
    T_OK(up_choose_address(&address, "127.0.0.1:0", t_err()));
    T_TRUE(strncmp(address, "127.0.0.1:", 10) == 0);
    T_GT(atoi(address + 10), 1023);
    sl_free(address);
}

TEST(up, one_per_folder)
{
    struct updir a;
    int status;
    pid_t other;

    T_OK(updir_open(&a, t_path("c"), t_err()));
    T_EQ(updir_read_pid(t_path("c/up.pid")), getpid());
    // An fcntl lock keeps out other processes, not our own.
    other = fork();
    if (other == 0) {
        struct updir b;
        struct sl_error err = SL_ERROR_INIT;
        enum sl_err rc = updir_open(&b, t_path("c"), &err);

        _exit(rc == SL_EBUSY && strstr(err.text, "sluice down") ? 0 : 1);
    }
    T_EQ(waitpid(other, &status, 0), other);
    T_EQ(status, 0);
    T_EQ(updir_read_pid(t_path("c/up.pid")), getpid());

    updir_release(&a);
    T_FALSE(fs_exists(fs_posix(), t_path("c/up.pid")));
    T_FALSE(fs_exists(fs_posix(), t_path("c/lock")));
}

TEST(up, a_folder_that_cannot_be_opened_stays_as_it_was)
{
    struct sl_error err = SL_ERROR_INIT;
    struct updir d;

    T_OK(fs_mkdirs(fs_posix(), t_path("c/up.pid"), t_err()));
    T_TRUE(updir_open(&d, t_path("c"), &err) != SL_OK);
    T_FALSE(fs_exists(fs_posix(), t_path("c/lock")));
    updir_release(&d);
}

// What a killed `sluice up` leaves: a daemon, pid files, a socket.
TEST(up, strays_are_ended_and_strangers_are_not)
{
    struct updir d;
    char variable[600], text[16], ready[8];
    pid_t stray, stranger;
    int status, pipes[2], silence[2];

    T_OK(updir_open(&d, t_path("c"), t_err()));
    snprintf(variable, sizeof(variable), "%s=%s", UPDIR_VARIABLE, d.path);
    T_EQ(pipe(pipes), 0);
    T_EQ(pipe(silence), 0);
    stray = fork();
    if (stray == 0) {
        // It becomes nobody else after its word: in the middle of an exec a
        // process has no environment.
        char *args[] = {(char *)"/bin/sh", (char *)"-c",
                        (char *)"echo ok; read nothing", NULL};
        char *env[] = {variable, NULL};

        dup2(silence[0], STDIN_FILENO);
        dup2(pipes[1], STDOUT_FILENO);
        execve(args[0], args, env);
        _exit(1);
    }
    T_EQ(read(pipes[0], ready, 3), 3);
    stranger = fork();
    if (stranger == 0) {
        pause();
        _exit(1);
    }
    snprintf(text, sizeof(text), "%d\n", (int)stray);
    T_OK(updir_write(&d, "ps-0.pid", text, t_err()));
    snprintf(text, sizeof(text), "%d\n", (int)stranger);
    T_OK(updir_write(&d, "worker-0.pid", text, t_err()));
    T_OK(updir_write(&d, "ps-0.sock", "", t_err()));

    T_OK(updir_end_strays(&d, 30000, t_err()));
    T_EQ(waitpid(stray, &status, 0), stray);
    T_TRUE(WIFSIGNALED(status));
    T_EQ(waitpid(stranger, &status, WNOHANG), 0);
    T_FALSE(fs_exists(fs_posix(), t_path("c/ps-0.pid")));
    T_FALSE(fs_exists(fs_posix(), t_path("c/worker-0.pid")));
    T_FALSE(fs_exists(fs_posix(), t_path("c/ps-0.sock")));
    T_TRUE(fs_exists(fs_posix(), t_path("c/up.pid")));

    kill(stranger, SIGKILL);
    waitpid(stranger, &status, 0);
    close(pipes[0]);
    close(pipes[1]);
    close(silence[0]);
    close(silence[1]);
    updir_release(&d);
}
