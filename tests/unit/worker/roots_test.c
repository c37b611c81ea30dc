// SPDX-License-Identifier: Apache-2.0
// The roots of a worker's data: what is read below them, and what never is.
#include <errno.h>
#include <fcntl.h>
#include <linux/filter.h>
#include <linux/seccomp.h>
#include <sys/prctl.h>
#include <sys/socket.h>
#include <sys/stat.h>
#include <sys/syscall.h>
#include <sys/sysmacros.h>
#include <sys/un.h>
#include <sys/wait.h>
#include <unistd.h>

#include "tests/harness/t.h"
#include "worker/data/data.h"

#define CANARY "canary-7f3a"
#define GOOD "1,2,0\n"

static void write_file(const char *path, const char *text)
{
    FILE *f = fopen(path, "wb");

    T_TRUE(f != NULL);
    T_EQ(fwrite(text, 1, strlen(text), f), strlen(text));
    T_EQ(fclose(f), 0);
}

static const char *in_root(const char *name)
{
    char path[300];

    snprintf(path, sizeof(path), "root/%s", name);
    return t_path(path);
}

static void link_to(const char *to, const char *name)
{
    T_EQ(symlink(to, in_root(name)), 0);
}

static void make_socket(const char *path)
{
    struct sockaddr_un at = {.sun_family = AF_UNIX};
    int fd = socket(AF_UNIX, SOCK_STREAM | SOCK_CLOEXEC, 0);

    T_LT(strlen(path), sizeof(at.sun_path));
    strcpy(at.sun_path, path);
    T_EQ(bind(fd, (struct sockaddr *)&at, sizeof(at)), 0);
    close(fd);
}

static const char *tree; // the root, absolute

// A root with a file in it, a secret beside it, and all ways from one to the
// other.
static void make_tree(void)
{
    tree = t_path("root");
    T_EQ(mkdir(tree, 0755), 0);
    T_EQ(mkdir(in_root("in"), 0755), 0);
    T_EQ(mkdir(t_path("root-2"), 0755), 0);
    write_file(t_path("secret"), CANARY);
    write_file(t_path("root-2/secret"), CANARY);
    write_file(in_root("in/good.csv"), GOOD);
    link_to("good.csv", "in/beside");
    link_to("../in/good.csv", "in/round");
    link_to("in", "folder");
    link_to("../secret", "out");
    link_to("out", "chain");
    link_to("../../secret", "in/far");
    link_to("..", "up");
    link_to("/", "all");
    link_to("/proc/self/fd", "descriptors");
    link_to(t_path("secret"), "absolute");
    link_to(in_root("in/good.csv"), "absolute-inside");
    link_to("loop", "loop");
    link_to("nothing", "dangling");
    T_EQ(mkfifo(in_root("fifo"), 0600), 0);
    make_socket(in_root("socket"));
    if (mknod(in_root("device"), S_IFCHR | 0600, makedev(1, 3)) != 0)
        link_to("/dev/null", "device"); // who may not make one
}

static struct roots *root_of(const char *dir)
{
    struct roots *r;

    T_OK(roots_new(&r, "worker", "--data-root", t_err()));
    T_OK(roots_add(r, dir, t_err()));
    return r;
}

// ---- what is refused

static const char *const hostile[] = {
    "..",
    "../secret",
    "../root-2/secret",
    "../../../../../../../../etc/passwd",
    "in/../../secret",
    "in/../in/good.csv",
    "in/good.csv/..",
    "in/good.csv/../../../secret",
    "out",
    "chain",
    "in/far",
    "folder/far",
    "up",
    "up/secret",
    "up/root-2/secret",
    "all",
    "all/etc/passwd",
    "all/proc/self/environ",
    "descriptors/0",
    "absolute",
    "absolute-inside",
    "loop",
    "loop/good.csv",
    "dangling",
    "fifo",
    "socket",
    "device",
    "",
    ".",
    "in",
    "folder",
    "in/good.csv/x",
    "in/good.csv/.",
    "nothing",
    "in/nothing/good.csv",
    "in\\..\\..\\secret",
    "...",
    ".. ",
    "in/good.csv ",
    "file:///etc/passwd",
    "~/secret",
    "$PWD/secret",
    "*",
    "%s%n%s%n",
    "in/\xff\xfe",
    "\xc0\xae\xc0\xae/secret", // '..' in a form that is no UTF-8
    "in/a\nb",
    "\x1b[31mred",
};

// Where each of them is tried. "%R": the root, absolute.
static const char *const places[] = {"%s",      "%R/%s",    "%R//./%s",
                                     ".//./%s", "in/../%s", "%s/"};

// Absolute paths that begin like the root, or do not.
static const char *const elsewhere[] = {
    "/etc/passwd",
    "//etc/passwd",
    "/proc/self/environ",
    "/proc/self/root/etc/passwd",
    "/dev/zero",
    "/dev/stdin",
    "/",
    "%R-2/secret",
    "%R/../secret",
    "%R/../root/in/good.csv",
    "/./%R/../secret",
    "%Rx",
};

static void fill_in(char *out, size_t size, const char *place, const char *path)
{
    size_t at = 0;

    for (; *place != '\0' && at + 1 < size; place++) {
        const char *part = strncmp(place, "%R", 2) == 0   ? tree
                           : strncmp(place, "%s", 2) == 0 ? path
                                                          : NULL;

        if (part == NULL) {
            out[at++] = *place;
            continue;
        }
        at += (size_t)snprintf(out + at, size - at, "%s", part);
        place++;
    }
    out[at < size ? at : size - 1] = '\0';
}

// NULL: refused as it should be, in words that show nothing. Else what is
// wrong.
static const char *try_path(const struct roots *r, const char *path)
{
    struct sl_error err = SL_ERROR_INIT;
    struct fs_file *f = NULL;
    enum sl_err rc = roots_file(r, &f, path, &err);

    if (rc == SL_OK) {
        fs_close(f);
        return "was opened";
    }
    if (rc != SL_EDENIED && rc != SL_ENOENT && rc != SL_EINVAL)
        return "fails with a code that blames this host";
    if (strstr(err.text, CANARY) != NULL || strstr(err.text, "root:x") != NULL)
        return "is quoted";
    if (strpbrk(err.text, "\n\x1b\xff") != NULL)
        return "is not told as text";
    if (strncmp(err.text, path, strlen(path) < 20 ? strlen(path) : 3) != 0 &&
        strpbrk(path, "\n\x1b\xff\xc0") == NULL)
        return "is not named as it was written";
    return NULL;
}

static const char *try_all(const struct roots *r, char *path, size_t size,
                           unsigned *tried)
{
    const char *wrong = NULL;

    for (size_t i = 0; i < SL_COUNT(hostile); i++) {
        for (size_t k = 0; k < SL_COUNT(places) && wrong == NULL; k++) {
            fill_in(path, size, places[k], hostile[i]);
            wrong = try_path(r, path);
            ++*tried;
        }
    }
    for (size_t i = 0; i < SL_COUNT(elsewhere) && wrong == NULL; i++) {
        fill_in(path, size, elsewhere[i], "");
        wrong = try_path(r, path);
        ++*tried;
    }
    for (size_t n = 100; n < size && wrong == NULL; n *= 2) { // long ones
        memset(path, 'a', n);
        path[n] = '\0';
        wrong = try_path(r, path);
        ++*tried;
    }
    return wrong;
}

TEST(roots, two_hundred_hostile_paths_are_refused_and_named)
{
    char path[20000];
    struct roots *r;
    const char *wrong;
    unsigned tried = 0;

    make_tree();
    r = root_of(t_path("root"));
    wrong = try_all(r, path, sizeof(path), &tried);
    if (wrong != NULL)
        T_FAIL("'%s' %s", path, wrong);
    T_GE(tried, 200);
    roots_free(r);
}

// ---- what is read

static void reads(const struct roots *r, const char *path)
{
    char text[sizeof(GOOD)] = "";
    struct fs_file *f = NULL;
    size_t got;

    T_OK(roots_file(r, &f, path, t_err()));
    T_OK(fs_pread(f, 0, text, sizeof(text), &got, t_err()));
    T_STR(text, GOOD);
    fs_close(f);
}

TEST(roots, files_below_a_root_are_read_by_either_name)
{
    static const char *const good[] = {"in/good.csv",  "./in//good.csv",
                                       "in/beside",    "in/round",
                                       "folder/round", "folder/good.csv"};
    char path[1000];
    struct roots *r;

    make_tree();
    r = root_of(t_path("root"));
    for (size_t i = 0; i < SL_COUNT(good); i++) {
        reads(r, good[i]);
        fill_in(path, sizeof(path), "%R/%s", good[i]);
        reads(r, path);
        fill_in(path, sizeof(path), "/.//%R/./%s", good[i]);
        reads(r, path);
    }
    roots_free(r);
}

// A root may be named by a link, with a slash at its end, or from here.
TEST(roots, a_root_is_what_its_words_say)
{
    char here[4096];
    struct roots *r;

    make_tree();
    T_EQ(symlink("root", t_path("alias")), 0);
    r = root_of(t_path("alias/"));
    reads(r, t_path("alias/in/good.csv"));
    T_FALSE(try_path(r, in_root("in/good.csv")) != NULL); // another text
    roots_free(r);
    T_TRUE(getcwd(here, sizeof(here)) != NULL);
    T_EQ(chdir(t_path("root")), 0);
    r = root_of("in");
    T_EQ(chdir("/"), 0);
    reads(r, "good.csv");
    reads(r, in_root("in/good.csv"));
    roots_free(r);
    T_EQ(chdir(here), 0);
}

TEST(roots, a_relative_path_is_looked_for_below_each_in_turn)
{
    struct sl_error err = SL_ERROR_INIT;
    struct fs_file *f = NULL;
    struct roots *r;

    make_tree();
    r = root_of(t_path("root-2"));
    T_OK(roots_add(r, t_path("root"), t_err()));
    T_OK(roots_add(r, in_root("in"), t_err()));
    T_EQ(roots_count(r), 3);
    reads(r, "in/good.csv");
    reads(r, "good.csv");
    reads(r, in_root("in/good.csv"));
    T_FAILS(SL_ENOENT, roots_file(r, &f, "absent.csv", &err));
    T_HAS(err.text, "absent.csv");
    T_HAS(err.text, t_path("root-2, "));
    // What is wrong with it below one is said, whatever lies below the next.
    write_file(in_root("in/out"), GOOD);
    T_FAILS(SL_EDENIED, roots_file(r, &f, "out", &err));
    T_HAS(err.text, "link");
    roots_free(r);
}

TEST(roots, without_one_nothing_is_read_and_it_says_so)
{
    struct data_source s = {.format = "csv", .scale = 1};
    struct data_want w = {.rank = 1, .dim = {2}, .outputs = 3};
    struct sl_error err = SL_ERROR_INIT;
    struct data *d = NULL;

    make_tree();
    s.x = in_root("in/good.csv");
    T_FAILS(SL_EDENIED, data_open(&d, &s, &w, &err));
    T_HAS(err.text, s.x);
    T_HAS(err.text, "--data-root DIR");
    s.format = "images";
    s.x = t_path("root");
    w = (struct data_want){.rank = 3, .dim = {2, 2, 3}, .outputs = 3};
    T_FAILS(SL_EDENIED, data_open(&d, &s, &w, &err));
    T_HAS(err.text, "--data-root DIR");
}

TEST(roots, one_that_is_no_folder_is_refused_when_it_is_named)
{
    struct sl_error err = SL_ERROR_INIT;
    struct roots *r;

    make_tree();
    T_OK(roots_new(&r, "worker", "--data-root", t_err()));
    T_FAILS(SL_ENOENT, roots_add(r, t_path("nowhere"), &err));
    T_HAS(err.text, "--data-root");
    T_FAILS(SL_ENOENT, roots_add(r, t_path("secret"), &err));
    T_EQ(roots_count(r), 0);
    roots_free(r);
}

// ---- all of this host

TEST(roots, below_slash_links_lead_anywhere_but_not_to_what_is_no_data)
{
    static const char *const never[] = {
        "/proc/self/environ",
        "/proc/self/root/etc/passwd",
        "/proc/self/fd/0",
        "/proc/self/cwd/CMakeLists.txt",
        "/proc/self/exe",
        "/proc/version",
        "/sys/kernel/uevent_seqnum",
        "/dev/null",
        "/dev/zero",
        "/dev/stdin",
        "/tmp/../etc/passwd",
        "/",
    };
    struct roots *r;

    make_tree();
    r = root_of("/");
    reads(r, in_root("in/good.csv"));
    reads(r, in_root("in/good.csv") + 1); // relative
    reads(r, in_root("absolute-inside"));
    for (size_t i = 0; i < SL_COUNT(never); i++) {
        const char *wrong = try_path(r, never[i]);

        if (wrong != NULL)
            T_FAIL("'%s' %s", never[i], wrong);
    }
    T_PTR(try_path(r, in_root("fifo")), NULL);
    T_PTR(try_path(r, in_root("loop")), NULL);
    roots_free(r);
}

// ---- without openat2

// From here on this process has no openat2, as on an old kernel.
static bool forget_openat2(void)
{
    struct sock_filter code[] = {
        BPF_STMT(BPF_LD | BPF_W | BPF_ABS, offsetof(struct seccomp_data, nr)),
        BPF_JUMP(BPF_JMP | BPF_JEQ | BPF_K, SYS_openat2, 0, 1),
        BPF_STMT(BPF_RET | BPF_K, SECCOMP_RET_ERRNO | ENOSYS),
        BPF_STMT(BPF_RET | BPF_K, SECCOMP_RET_ALLOW),
    };
    struct sock_fprog program = {SL_COUNT(code), code};

    return prctl(PR_SET_NO_NEW_PRIVS, 1, 0, 0, 0) == 0 &&
           prctl(PR_SET_SECCOMP, SECCOMP_MODE_FILTER, &program) == 0 &&
           syscall(SYS_openat2, AT_FDCWD, ".", NULL, 0) == -1 &&
           errno == ENOSYS;
}

enum { CHILD_FINE = 40, CHILD_SKIPS, CHILD_FAILS };

// As above, and no link is followed, wherever it leads.
static int in_child(const struct roots *r)
{
    static const char *const links[] = {"in/beside", "in/round",
                                        "folder/good.csv"};
    static const char *const good[] = {"in/good.csv", "./in//good.csv"};
    char path[20000];
    const char *wrong;
    unsigned tried = 0;

    if (!forget_openat2())
        return CHILD_SKIPS;
    wrong = try_all(r, path, sizeof(path), &tried);
    if (wrong != NULL)
        fprintf(stderr, "'%.200s' %s\n", path, wrong);
    for (size_t i = 0; i < SL_COUNT(links); i++) {
        struct sl_error err = SL_ERROR_INIT;
        struct fs_file *f = NULL;

        if (roots_file(r, &f, links[i], &err) != SL_EDENIED)
            wrong = "a link was followed";
    }
    for (size_t i = 0; i < SL_COUNT(good); i++) {
        struct fs_file *f = NULL;

        if (roots_file(r, &f, good[i], NULL) != SL_OK)
            wrong = "what lies below is not read";
        fs_close(f);
    }
    if (wrong != NULL)
        fprintf(stderr, "%s\n", wrong);
    return wrong == NULL ? CHILD_FINE : CHILD_FAILS;
}

TEST(roots, a_kernel_without_openat2_walks_and_follows_no_link)
{
    struct roots *r;
    int status = 0;
    pid_t pid;

    make_tree();
    r = root_of(t_path("root"));
    fflush(NULL);
    pid = fork();
    if (pid == 0)
        _exit(in_child(r));
    T_EQ(waitpid(pid, &status, 0), pid);
    T_TRUE(WIFEXITED(status));
    roots_free(r);
    if (WEXITSTATUS(status) == CHILD_SKIPS)
        T_SKIP("this host lets no process filter its calls");
    T_EQ(WEXITSTATUS(status), CHILD_FINE);
}

// ---- what a file holds is not told

static void says_nothing_of(const char *format, const char *name,
                            const void *bytes, size_t n)
{
    struct data_source s = {.format = format,
                            .scale = 1,
                            .x_member = "x",
                            .y_member = "y",
                            .label_column = "2"};
    struct data_want w = {
        .rank = 1, .dim = {2}, .outputs = 3, .labels = DATA_INDEX};
    struct sl_error err = SL_ERROR_INIT;
    struct roots *r = root_of(t_tmpdir());
    struct data *d = NULL;
    FILE *f = fopen(t_path(name), "wb");
    uint8_t x[16];
    int32_t y;
    enum sl_err rc;

    T_EQ(fwrite(bytes, 1, n, f), n);
    T_EQ(fclose(f), 0);
    s.roots = r;
    s.x = s.y = name;
    rc = data_open(&d, &s, &w, &err);
    for (uint64_t i = 0; rc == SL_OK && i < data_samples(d); i++)
        rc = data_read(d, i, x, &y, &err);
    T_NE(rc, SL_OK);
    T_HAS(err.text, name);
    // The canary is eleven signs long; any three of them in a row would tell.
    for (size_t i = 0; i + 3 <= strlen(CANARY); i++) {
        char piece[4] = {CANARY[i], CANARY[i + 1], CANARY[i + 2], '\0'};

        if (strstr(err.text, piece) != NULL)
            T_FAIL("%s of %s quotes the file: %s", format, name, err.text);
    }
    data_free(d);
    roots_free(r);
}

#define SAYS_NOTHING(format, bytes)                                            \
    says_nothing_of((format), "f.bin", (bytes), sizeof(bytes) - 1)

#define NPY_HEAD "\x93NUMPY\1\0\x76\0{'descr': '"

TEST(roots, no_error_quotes_what_a_file_holds)
{
    static const char *const formats[] = {"idx", "npy", "npz", "csv"};

    for (size_t i = 0; i < SL_COUNT(formats); i++) {
        SAYS_NOTHING(formats[i], CANARY);
        SAYS_NOTHING(formats[i], CANARY ":x:0:0\n" CANARY "\n");
        SAYS_NOTHING(formats[i], "\0\0\x08\x01" CANARY);
        SAYS_NOTHING(formats[i], "\0\0" CANARY);
        SAYS_NOTHING(formats[i], "\x1f\x8b" CANARY CANARY CANARY);
        SAYS_NOTHING(formats[i], NPY_HEAD CANARY "'}");
        SAYS_NOTHING(formats[i], "PK\3\4" CANARY CANARY CANARY);
    }
    SAYS_NOTHING("csv", "1," CANARY ",0\n");
    SAYS_NOTHING("csv", "1,2," CANARY "\n");
    SAYS_NOTHING("csv", "1,2,0\n1,2\n" CANARY "\n");
    SAYS_NOTHING("csv", "1,\"" CANARY ",0\n");
    SAYS_NOTHING("csv", "1,2,7.3\n"); // "7f3" is no number; nor is this told
}
