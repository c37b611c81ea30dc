// SPDX-License-Identifier: Apache-2.0
#include "common/net/ownsock.h"

#include <stdlib.h>
#include <sys/socket.h>
#include <sys/stat.h>
#include <sys/un.h>
#include <unistd.h>

#include "tests/harness/t.h"

static unsigned mode_of(const char *path)
{
    struct stat st;

    T_EQ(lstat(path, &st), 0);
    return st.st_mode & 0777;
}

TEST(ownsock, lies_in_a_folder_that_is_the_users_alone)
{
    char address[OWNSOCK_BYTES], want[400];
    mode_t mask = umask(0);

    T_EQ(mkdir(t_path("run"), 0700), 0);
    setenv("XDG_RUNTIME_DIR", t_path("run"), 1);
    T_OK(ownsock_make(address, t_err()));
    snprintf(want, sizeof(want), "unix:%s", t_path("run/sluice/up.sock"));
    T_STR(address, want);
    T_EQ(mode_of(t_path("run/sluice")), 0700);
    T_OK(ownsock_make(address, t_err())); // it is there by now
    umask(mask);
}

// Each of them may have been put there by another user.
TEST(ownsock, passes_over_a_folder_that_others_may_change)
{
    char address[OWNSOCK_BYTES];
    const char *run = t_path("run");

    T_EQ(mkdir(run, 0700), 0);
    setenv("XDG_RUNTIME_DIR", run, 1);

    T_EQ(mkdir(t_path("run/sluice"), 0700), 0);
    T_EQ(chmod(t_path("run/sluice"), 0755), 0);
    T_OK(ownsock_make(address, t_err()));
    T_TRUE(strstr(address, run) == NULL);

    T_EQ(rmdir(t_path("run/sluice")), 0);
    T_EQ(mkdir(t_path("elsewhere"), 0700), 0);
    T_EQ(symlink(t_path("elsewhere"), t_path("run/sluice")), 0);
    T_OK(ownsock_make(address, t_err()));
    T_TRUE(strstr(address, run) == NULL);

    T_EQ(unlink(t_path("run/sluice")), 0);
    T_EQ(chmod(run, 0777), 0); // without the sticky bit
    T_OK(ownsock_make(address, t_err()));
    T_TRUE(strstr(address, run) == NULL);
    T_EQ(chmod(run, 01777), 0);
    T_OK(ownsock_make(address, t_err()));
    T_TRUE(strstr(address, run) != NULL);
}

TEST(ownsock, a_path_that_no_socket_can_have_is_no_place)
{
    char address[OWNSOCK_BYTES], run[150] = "/";

    memset(run + 1, 'x', sizeof(run) - 2);
    setenv("XDG_RUNTIME_DIR", run, 1);
    T_OK(ownsock_make(address, t_err()));
    T_LT(strlen(address),
         strlen("unix:") + sizeof(((struct sockaddr_un *)0)->sun_path));
}

TEST(ownsock, is_found_when_a_process_answers_there)
{
    struct sockaddr_un at = {.sun_family = AF_UNIX};
    char made[OWNSOCK_BYTES], found[OWNSOCK_BYTES];
    int fd = socket(AF_UNIX, SOCK_STREAM | SOCK_CLOEXEC, 0);

    T_EQ(mkdir(t_path("run"), 0700), 0);
    setenv("XDG_RUNTIME_DIR", t_path("run"), 1);
    T_OK(ownsock_make(made, t_err()));
    snprintf(at.sun_path, sizeof(at.sun_path), "%.107s",
             made + strlen("unix:"));
    T_EQ(bind(fd, (struct sockaddr *)&at, sizeof(at)), 0);
    T_EQ(listen(fd, 8), 0);
    T_STR(ownsock_find(found), made);

    // Nor is one believed that another user could have put there.
    T_EQ(chmod(t_path("run/sluice"), 0755), 0);
    T_TRUE(strcmp(ownsock_find(found), made) != 0);
    close(fd);
}
