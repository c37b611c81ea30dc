// SPDX-License-Identifier: Apache-2.0
// common/base/cgroup.c -- see cgroup.h.
#include "common/base/cgroup.h"

#include <inttypes.h>
#include <stdbool.h>
#include <stdio.h>
#include <string.h>
#include <unistd.h>

// Files of one version of control groups.
struct version {
    const char *mount, *limit, *kills;
};

static const struct version one = {
    "/sys/fs/cgroup/memory", "memory.limit_in_bytes", "memory.oom_control"};
static const struct version two = {"/sys/fs/cgroup", "memory.max",
                                   "memory.events"};

// Reads the number of the line that begins with `key`, or with "" the number
// that the file is. "max" is no number.
static bool cgroup_read_number(const char *path, const char *key, uint64_t *out)
{
    FILE *f = fopen(path, "re");
    size_t n = strlen(key);
    bool found = false;
    char line[256];

    while (f != NULL && !found && fgets(line, sizeof(line), f) != NULL)
        found = strncmp(line, key, n) == 0 &&
                sscanf(line + n, " %" SCNu64, out) == 1;
    if (f != NULL)
        fclose(f);
    return found;
}

// Finds the group of this process that limits memory, as a path below the
// mount: that of version 1 where the kernel has both.
static const struct version *find_group(const char *root, char out[CGROUP_PATH])
{
    const struct version *found = NULL;
    char path[CGROUP_PATH], line[CGROUP_PATH];
    FILE *f;

    snprintf(path, sizeof(path), "%s/proc/self/cgroup", root);
    f = fopen(path, "re");
    while (f != NULL && found != &one && fgets(line, sizeof(line), f) != NULL) {
        char *controllers = strchr(line, ':');
        char *group = controllers == NULL ? NULL : strchr(controllers + 1, ':');

        if (group == NULL)
            continue;
        *group++ = '\0';
        group[strcspn(group, "\n")] = '\0';
        if (strcmp(controllers + 1, "memory") == 0)
            found = &one;
        else if (controllers[1] == '\0')
            found = &two;
        else
            continue;
        snprintf(out, CGROUP_PATH, "%s", strcmp(group, "/") == 0 ? "" : group);
    }
    if (f != NULL)
        fclose(f);
    return found;
}

// A container sees its own group at the mount, whatever its path is outside.
static void fit_to_mount(char group[CGROUP_PATH], const char *mount)
{
    char path[2 * CGROUP_PATH];

    snprintf(path, sizeof(path), "%s%s", mount, group);
    if (access(path, F_OK) != 0)
        group[0] = '\0';
}

static void cgroup_narrow_limit(uint64_t *limit, uint64_t to)
{
    if (*limit == 0 || to < *limit)
        *limit = to;
}

static void read_group(struct cgroup_memory *out, const char *root,
                       const struct version *v, char group[CGROUP_PATH])
{
    char mount[CGROUP_PATH / 2], path[2 * CGROUP_PATH];
    uint64_t n;

    snprintf(mount, sizeof(mount), "%s%s", root, v->mount);
    fit_to_mount(group, mount);
    snprintf(path, sizeof(path), "%s%s/%s", mount, group, v->kills);
    if (strlen(path) < CGROUP_PATH &&
        cgroup_read_number(path, "oom_kill ", &out->oom_kills))
        memcpy(out->oom_file, path, strlen(path) + 1);
    for (;;) { // a limit holds for all groups below
        char *last = strrchr(group, '/');

        snprintf(path, sizeof(path), "%s%s/%s", mount, group, v->limit);
        if (cgroup_read_number(path, "", &n))
            cgroup_narrow_limit(&out->limit_bytes, n);
        if (last == NULL)
            break;
        *last = '\0';
    }
}

void cgroup_memory(struct cgroup_memory *out, const char *root)
{
    const struct version *v;
    char group[CGROUP_PATH], path[CGROUP_PATH];
    uint64_t n;

    memset(out, 0, sizeof(*out));
    v = find_group(root, group);
    if (v != NULL)
        read_group(out, root, v, group);
    snprintf(path, sizeof(path), "%s/proc/meminfo", root);
    if (cgroup_read_number(path, "MemTotal:", &n))
        cgroup_narrow_limit(&out->limit_bytes, n * 1024);
    // The topmost group counts nothing of its own; the host counts all.
    snprintf(path, sizeof(path), "%s/proc/vmstat", root);
    if (out->oom_file[0] == '\0' &&
        cgroup_read_number(path, "oom_kill ", &out->oom_kills))
        memcpy(out->oom_file, path, strlen(path) + 1);
}
