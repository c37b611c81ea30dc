// SPDX-License-Identifier: Apache-2.0
// client/doctor/doctor_host.c -- programs, libraries, limits and disks of this
// host.
#include <errno.h>
#include <fcntl.h>
#include <limits.h>
#include <stdio.h>
#include <stdlib.h>
#include <string.h>
#include <sys/resource.h>
#include <sys/stat.h>
#include <sys/statvfs.h>
#include <unistd.h>

#include "client/cli/command.h"
#include "client/doctor/findings.h"
#include "client/cli/out.h"
#include "common/base/clock.h"
#include "common/base/mem.h"
#include "common/base/storemark.h"
#include "host/store/store_place.h"

#define PROGRAM_MS 10000
#define NOFILE_WANTED 4096
#define MEMORY_WANTED ((uint64_t)256 << 20)
#define SYNC_ROUNDS 9
#define SYNC_SLOW_MS 50.0
#define SPACE_LOW ((uint64_t)1 << 30)
#define SPACE_NONE ((uint64_t)64 << 20)

// ---- programs

static void doctor_list_devices(struct findings *f, const char *worker)
{
    const char *const args[] = {worker, "--list-devices", NULL};
    struct buf text = BUF_INIT;
    struct sl_error err = SL_ERROR_INIT;
    enum sl_err rc = command_run(args, PROGRAM_MS, &text, &err);
    char *rest = NULL, *line;

    if (rc != SL_OK)
        finding(f, FINDING_WARN, "devices", "%s", err.text);
    else if (text.len > 0)
        for (line = strtok_r((char *)text.data, "\n", &rest); line != NULL;
             line = strtok_r(NULL, "\n", &rest))
            finding(f, FINDING_OK, "device", "%s", line);
    buf_release(&text);
}

static void check_program(struct findings *f, const char *dir, const char *name)
{
    char path[PATH_MAX];
    const char *const args[] = {path, "--version", NULL};
    struct buf text = BUF_INIT;
    struct sl_error err = SL_ERROR_INIT;
    enum sl_err rc;

    snprintf(path, sizeof(path), "%s/%s", dir, name);
    if (access(path, X_OK) != 0) {
        finding(f, FINDING_WARN, "program",
                "%s is not here; 'sluice up' cannot start it", path);
        return;
    }
    rc = command_run(args, PROGRAM_MS, &text, &err);
    if (rc != SL_OK)
        finding(f, FINDING_BAD, "program", "%s", err.text);
    else if (strstr(buf_text(&text), SLUICE_VERSION) == NULL)
        finding(f, FINDING_WARN, "program",
                "%s has another version than sluice %s: %.80s", path,
                SLUICE_VERSION, buf_text(&text));
    else
        finding(f, FINDING_OK, "program", "%s %s", path, SLUICE_VERSION);
    if (rc == SL_OK && strcmp(name, "worker") == 0)
        doctor_list_devices(f, path);
    buf_release(&text);
}

void doctor_programs(struct findings *f)
{
    char self[PATH_MAX - 32];
    ssize_t n = readlink("/proc/self/exe", self, sizeof(self) - 1);
    static const char *const names[] = {"coordinator", "psserver", "worker"};

    finding(f, FINDING_OK, "program", "sluice %s", SLUICE_VERSION);
    finding(f, FINDING_OK, "build", "%s", SLUICE_BUILD);
    if (n <= 0)
        return;
    self[n] = '\0';
    *strrchr(self, '/') = '\0';
    for (size_t i = 0; i < SL_COUNT(names); i++)
        check_program(f, self, names[i]);
}

// ---- libraries

// What is loaded, by the names of the files: they carry the versions.
void doctor_libraries(struct findings *f)
{
    static const char *const wanted[] = {"libgrpc.so",    "libprotobuf-c.so",
                                         "libuv.so",      "libcrypto.so",
                                         "libjansson.so", "libyaml-"};
    FILE *maps = fopen("/proc/self/maps", "re");
    bool seen[SL_COUNT(wanted)] = {false};
    char line[PATH_MAX + 128];

    while (maps != NULL && fgets(line, sizeof(line), maps) != NULL) {
        char *path = strchr(line, '/'), *name;

        if (path == NULL)
            continue;
        path[strcspn(path, "\n")] = '\0';
        name = strrchr(path, '/') + 1;
        for (size_t i = 0; i < SL_COUNT(wanted); i++) {
            if (seen[i] || strncmp(name, wanted[i], strlen(wanted[i])) != 0)
                continue;
            seen[i] = true;
            finding(f, FINDING_OK, "library", "%s", name);
        }
    }
    if (maps != NULL)
        fclose(maps);
    finding(f, FINDING_NOTE, "library",
            "Debian's gRPC 1.51 has had no update since 2022: keep the ports "
            "on a private network, with TLS");
}

// ---- limits

static void check_memory(struct findings *f)
{
    FILE *file = fopen("/proc/meminfo", "re");
    char line[128], text[OUT_NUMBER];
    unsigned long long kib = 0;

    while (file != NULL && fgets(line, sizeof(line), file) != NULL)
        if (sscanf(line, "MemAvailable: %llu kB", &kib) == 1)
            break;
    if (file != NULL)
        fclose(file);
    if (kib == 0)
        return;
    out_bytes(text, kib << 10);
    if (kib << 10 < MEMORY_WANTED)
        finding(f, FINDING_WARN, "memory", "only %s are available", text);
    else
        finding(f, FINDING_OK, "memory", "%s available", text);
}

void doctor_limits(struct findings *f)
{
    struct rlimit files;

    if (getrlimit(RLIMIT_NOFILE, &files) == 0) {
        if (files.rlim_cur < NOFILE_WANTED)
            finding(f, FINDING_WARN, "limits",
                    "at most %llu open files; a busy psserver wants %d: "
                    "ulimit -n, or LimitNOFILE= in the unit",
                    (unsigned long long)files.rlim_cur, NOFILE_WANTED);
        else
            finding(f, FINDING_OK, "limits", "%llu open files",
                    (unsigned long long)files.rlim_cur);
    }
    finding(f, FINDING_OK, "cores", "%ld online",
            sysconf(_SC_NPROCESSORS_ONLN));
    check_memory(f);
}

// ---- disks

static int by_value(const void *a, const void *b)
{
    double x = *(const double *)a, y = *(const double *)b;

    return (x > y) - (x < y);
}

// The median time of a small write and fsync in this folder, in ms; < 0: it
// cannot be written, errno tells.
static double sync_ms(const char *folder)
{
    char path[PATH_MAX], block[4096] = {0};
    double took[SYNC_ROUNDS];
    int fd, failed = 0;

    snprintf(path, sizeof(path), "%s/.sluice-doctor-XXXXXX", folder);
    fd = mkostemp(path, O_CLOEXEC);
    if (fd < 0)
        return -1;
    for (int i = 0; i < SYNC_ROUNDS && failed == 0; i++) {
        uint64_t began = sl_real_us();

        if (pwrite(fd, block, sizeof(block), i * 4096) != sizeof(block) ||
            fsync(fd) != 0)
            failed = errno;
        took[i] = (double)(sl_real_us() - began) / 1000;
    }
    unlink(path);
    close(fd);
    if (failed != 0) {
        errno = failed;
        return -1;
    }
    qsort(took, SYNC_ROUNDS, sizeof(took[0]), by_value);
    return took[SYNC_ROUNDS / 2];
}

// Snapshots are written beside the last ones, journals only grow.
void doctor_space(struct findings *f, const char *folder)
{
    char text[OUT_NUMBER];
    struct statvfs disk;
    uint64_t bytes;
    bool low;

    if (statvfs(folder, &disk) != 0)
        return; // said already
    bytes = (uint64_t)disk.f_bavail * disk.f_frsize;
    low = bytes < SPACE_LOW || disk.f_bavail < disk.f_blocks / 50;
    finding(f,
            bytes < SPACE_NONE ? FINDING_BAD
            : low              ? FINDING_WARN
                               : FINDING_OK,
            "disk", "%s: %s free%s", folder, out_bytes(text, bytes),
            low ? ": checkpoints fail without space, and jobs then wait" : "");
}

// Written and removed again, as a checkpoint would be.
static enum sl_err try_s3(struct fs *fs, const char *store, uint64_t *cluster,
                          struct sl_error *err)
{
    char name[64];
    char *path;
    enum sl_err rc = storemark_read(cluster, fs, store, err);

    snprintf(name, sizeof(name), ".sluice-doctor-%d-%llx", (int)getpid(),
             (unsigned long long)sl_real_us());
    path = fs_join(store, name);
    if (path == NULL)
        return sl_no_memory(err);
    if (rc == SL_OK)
        rc = fs_write_new(fs, path, name, strlen(name), err);
    if (rc == SL_OK)
        rc = fs_unlink(fs, path, err);
    sl_free(path);
    return rc;
}

static void check_s3(struct findings *f, const char *store,
                     const struct conf *conf)
{
    struct store_setup setup = store_setup_of(conf);
    struct sl_error err = SL_ERROR_INIT;
    uint64_t cluster = 0;
    struct fs *fs = NULL;

    if (store_fs(&fs, store, &setup, &err) != SL_OK ||
        try_s3(fs, store, &cluster, &err) != SL_OK)
        finding(f, FINDING_BAD, "store", "%s", err.text);
    else if (cluster == 0)
        finding(f, FINDING_OK, "store",
                "%s can be read and written; no cluster has used it yet",
                store);
    else
        finding(f, FINDING_OK, "store",
                "%s can be read and written; it is of cluster %016llx", store,
                (unsigned long long)cluster);
}

void doctor_disks(struct findings *f, const struct conf *conf)
{
    const char *state = conf_str(conf, "state");
    const char *store = conf_str(conf, "store");
    const char *folder = state != NULL ? state : ".";
    double ms = sync_ms(folder);
    struct stat a, b;

    if (ms < 0)
        finding(f, FINDING_BAD, "disk", "%s: %s", folder, strerror(errno));
    else
        finding(f, ms > SYNC_SLOW_MS ? FINDING_WARN : FINDING_OK, "disk",
                "%s: a synced write takes %.2f ms%s", folder, ms,
                ms > SYNC_SLOW_MS ? "; every accepted job and every snapshot "
                                    "waits for it"
                                  : "");
    doctor_space(f, folder);
    if (store != NULL && store_is_s3(store)) {
        check_s3(f, store, conf);
        return;
    }
    if (store != NULL)
        doctor_space(f, store);
    if (store == NULL || state == NULL)
        return;
    if (stat(state, &a) != 0 || stat(store, &b) != 0)
        finding(f, FINDING_BAD, "disk", "%s or %s: %s", state, store,
                strerror(errno));
    else if (a.st_dev == b.st_dev)
        finding(f, FINDING_WARN, "disk",
                "%s and %s are on the same disk: checkpoints do not survive "
                "its loss; give --store a folder on another one",
                state, store);
    else
        finding(f, FINDING_OK, "disk", "the store is on another disk");
}
