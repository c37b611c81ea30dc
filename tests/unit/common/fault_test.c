// SPDX-License-Identifier: Apache-2.0
// Fault points and history. In a build without SLUICE_TESTING: that they are
// nothing.
#include "common/base/fault.h"

#include <fcntl.h>
#include <signal.h>
#include <sys/wait.h>
#include <unistd.h>

#include "common/base/history.h"
#include "tests/harness/t.h"
#include "tests/mutants/mutant.h"

#ifndef SLUICE_FAULTS

TEST(fault, a_build_for_use_has_no_points)
{
    setenv("SLUICE_FAULT", "test.point=kill", 1);
    setenv("SLUICE_BREAK", "skip_dedupe", 1);
    FAULT("test.point"); // would be the end
    T_OK(FAULT_ERR("test.point"));
    T_FALSE(MUTANT(skip_dedupe));
    T_FALSE(fault_list());
}

TEST(fault, a_build_for_use_does_not_hold_their_names)
{
    char name[] = "no_such_point_?"; // written so that it is not a literal
    char path[] = "/proc/self/exe", bytes[4096];
    int fd = open(path, O_RDONLY);
    ssize_t n;

    // A literal of this file that only FAULT names.
    FAULT("no_such_point_!");
    name[14] = '!';
    T_TRUE(fd >= 0);
    while ((n = read(fd, bytes, sizeof(bytes))) > 0)
        T_TRUE(memmem(bytes, (size_t)n, name, 15) == NULL);
    close(fd);
}

#else

// What a child does with `armed` in its environment; gives its wait status.
static int child(const char *armed, void (*body)(void))
{
    const char *log = t_path("reached"); // the folder is the parent's
    int status = 0;
    pid_t pid = fork();

    if (pid == 0) {
        setenv("SLUICE_FAULT", armed, 1);
        setenv("SLUICE_FAULT_LOG", log, 1);
        body();
        _exit(0);
    }
    T_TRUE(pid > 0);
    T_EQ(waitpid(pid, &status, 0), pid);
    return status;
}

static void three_times(void)
{
    for (int i = 0; i < 3; i++)
        if (FAULT_ERR("test.point") != SL_OK)
            _exit(10 + i);
    _exit(3);
}

TEST(fault, an_unarmed_point_does_nothing)
{
    int status = child("test.other=kill", three_times);

    T_TRUE(WIFEXITED(status));
    T_EQ(WEXITSTATUS(status), 3);
}

TEST(fault, kill_kills)
{
    int status = child("test.point=kill", three_times);

    T_TRUE(WIFSIGNALED(status));
    T_EQ(WTERMSIG(status), SIGKILL);
}

TEST(fault, error_strikes_the_nth_time_only)
{
    T_EQ(WEXITSTATUS(child("test.point=error", three_times)), 10);
    T_EQ(WEXITSTATUS(child("test.point=error@2", three_times)), 11);
    T_EQ(WEXITSTATUS(child("test.x=kill,test.point=error@3", three_times)), 12);
    T_EQ(WEXITSTATUS(child("test.point=error@4", three_times)), 3);
}

TEST(fault, delay_goes_on)
{
    T_EQ(WEXITSTATUS(child("test.point=delay:1", three_times)), 3);
}

TEST(fault, pause_waits_for_the_file)
{
    char armed[400];
    int status, fd;
    pid_t pid;

    snprintf(armed, sizeof(armed), "test.point=pause:%s", t_path("go"));
    pid = fork();
    if (pid == 0) {
        setenv("SLUICE_FAULT", armed, 1);
        three_times();
    }
    T_EQ(waitpid(pid, &status, WNOHANG), 0);
    fd = open(t_path("go"), O_CREAT | O_WRONLY, 0600);
    T_TRUE(fd >= 0);
    close(fd);
    T_EQ(waitpid(pid, &status, 0), pid);
    T_EQ(WEXITSTATUS(status), 3);
}

TEST(fault, the_log_says_what_was_reached_once)
{
    char text[100] = "";
    int fd;

    T_EQ(WEXITSTATUS(child("", three_times)), 3);
    fd = open(t_path("reached"), O_RDONLY);
    T_TRUE(fd >= 0);
    T_TRUE(read(fd, text, sizeof(text) - 1) > 0);
    close(fd);
    T_STR(text, "test.point\n");
}

TEST(fault, nonsense_ends_the_process)
{
    T_EQ(WEXITSTATUS(child("test.point=explode", three_times)), 2);
    T_EQ(WEXITSTATUS(child("test.point", three_times)), 2);
}

static void broken_child(void)
{
    _exit(MUTANT(skip_dedupe) ? 20 : MUTANT(believe_old) ? 21 : 22);
}

TEST(broken, the_environment_chooses_one_mistake)
{
    setenv("SLUICE_BREAK", "believe_old", 1);
    T_EQ(WEXITSTATUS(child("", broken_child)), 21);
    setenv("SLUICE_BREAK", "no_such_mistake", 1);
    T_EQ(WEXITSTATUS(child("", broken_child)), 2);
    unsetenv("SLUICE_BREAK");
    T_EQ(WEXITSTATUS(child("", broken_child)), 22);
}

// What a process keeps of two payloads, of which one arrived in pieces.
static void keep_payloads(const char *folder)
{
    const struct sl_slice pieces[] = {{(const uint8_t *)"ab", 2},
                                      {(const uint8_t *)"", 0},
                                      {(const uint8_t *)"cde", 3}};
    struct sl_slices whole = slices_one(&pieces[0]),
                     cut = slices_all(pieces, 3);

    setenv("SLUICE_HISTORY", folder, 1);
    setenv("SLUICE_HISTORY_PAYLOADS", "1", 1);
    history_open("test", "node");
    _exit(history_bytes(&whole) == 0 && history_bytes(NULL) == -1 &&
                  history_bytes(&cut) == 2
              ? 0
              : 1);
}

TEST(history, payloads_are_kept_where_their_event_says)
{
    const char *folder = t_tmpdir(); // the parent's
    char path[400], text[100] = "";
    int fd, status = 1;
    pid_t pid = fork();

    if (pid == 0)
        keep_payloads(folder);
    T_EQ(waitpid(pid, &status, 0), pid);
    T_EQ(status, 0);
    snprintf(path, sizeof(path), "%s/test-%d.payloads", folder, (int)pid);
    fd = open(path, O_RDONLY);
    T_TRUE(fd >= 0);
    T_TRUE(read(fd, text, sizeof(text) - 1) > 0);
    close(fd);
    T_STR(text, "ababcde");
}

static void keep_another_payload(const char *folder)
{
    const struct sl_slice piece = {(const uint8_t *)"fg", 2};
    struct sl_slices whole = slices_one(&piece);
    char path[400];
    int fd;

    // What an earlier process with this one's number left.
    snprintf(path, sizeof(path), "%s/again-%d.payloads", folder, (int)getpid());
    fd = open(path, O_WRONLY | O_CREAT | O_CLOEXEC, 0600);
    if (fd < 0 || write(fd, "abcde", 5) != 5)
        _exit(2);
    close(fd);
    setenv("SLUICE_HISTORY", folder, 1);
    setenv("SLUICE_HISTORY_PAYLOADS", "1", 1);
    history_open("again", "node");
    _exit(history_bytes(&whole) == 5 && history_bytes(&whole) == 7 ? 0 : 1);
}

TEST(history, payloads_follow_those_of_an_earlier_process_of_that_number)
{
    const char *folder = t_tmpdir(); // the parent's
    int status = 1;
    pid_t pid = fork();

    if (pid == 0)
        keep_another_payload(folder);
    T_EQ(waitpid(pid, &status, 0), pid);
    T_EQ(status, 0);
}

static void write_history(const char *folder)
{
    setenv("SLUICE_HISTORY", folder, 1);
    history_open("test", "a \"node\"");
    HISTORY("counted", "job=%d text=%s", 7, "x=1 y");
    kill(getpid(), SIGKILL);
}

TEST(history, what_was_done_before_a_kill_is_in_the_file)
{
    const char *folder = t_tmpdir(); // the parent's
    char path[400], text[1000] = "";
    int fd;
    pid_t pid = fork();

    if (pid == 0)
        write_history(folder);
    T_EQ(waitpid(pid, NULL, 0), pid);
    snprintf(path, sizeof(path), "%s/test-%d.jsonl", folder, (int)pid);
    fd = open(path, O_RDONLY);
    T_TRUE(fd >= 0);
    T_TRUE(read(fd, text, sizeof(text) - 1) > 0);
    close(fd);
    T_TRUE(strstr(text, "\"seq\":1,\"role\":\"test\",\"node\":\"a "
                        "\\\"node\\\"\"") != NULL);
    T_TRUE(
        strstr(text, "\"event\":\"counted\",\"job\":7,\"text\":\"x=1 y\"}\n") !=
        NULL);
}

#endif
