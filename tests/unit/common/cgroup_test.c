// SPDX-License-Identifier: Apache-2.0
#include "common/base/cgroup.h"

#include <stdio.h>
#include <stdlib.h>
#include <string.h>

#include "tests/harness/t.h"

// Writes a file of the host that the test plays, with the folders above it.
static void put(const char *path, const char *text)
{
    char command[1024];
    FILE *f;

    snprintf(command, sizeof(command), "mkdir -p \"$(dirname '%s%s')\"",
             t_tmpdir(), path);
    T_EQ(system(command), 0);
    snprintf(command, sizeof(command), "%s%s", t_tmpdir(), path);
    f = fopen(command, "we");
    T_ASSERT(f != NULL);
    fputs(text, f);
    fclose(f);
}

static struct cgroup_memory of_host(void)
{
    struct cgroup_memory m;

    cgroup_memory(&m, t_tmpdir());
    return m;
}

static void ends_with(const struct cgroup_memory *m, const char *path)
{
    T_STR(m->oom_file + strlen(t_tmpdir()), path);
}

TEST(cgroup, the_narrowest_limit_of_version_2_counts)
{
    struct cgroup_memory m;

    put("/proc/meminfo", "MemFree: 5 kB\nMemTotal:   1000 kB\n");
    put("/proc/self/cgroup", "0::/pods/one\n");
    put("/sys/fs/cgroup/pods/memory.max", "300000\n");
    put("/sys/fs/cgroup/pods/one/memory.max", "max\n");
    put("/sys/fs/cgroup/pods/one/memory.events",
        "low 0\noom 4\noom_kill 3\noom_group_kill 0\n");
    m = of_host();
    T_EQ(m.limit_bytes, 300000);
    T_EQ(m.oom_kills, 3);
    ends_with(&m, "/sys/fs/cgroup/pods/one/memory.events");
    put("/sys/fs/cgroup/pods/one/memory.max", "200000\n");
    T_EQ(of_host().limit_bytes, 200000);
}

TEST(cgroup, version_1_is_read_where_the_kernel_has_both)
{
    struct cgroup_memory m;

    put("/proc/meminfo", "MemTotal: 1000 kB\n");
    put("/proc/self/cgroup", "0::/\n4:memory:/a/b\n2:cpu:/a\n");
    put("/sys/fs/cgroup/memory/memory.limit_in_bytes", "9223372036854771712");
    put("/sys/fs/cgroup/memory/a/memory.limit_in_bytes", "400000\n");
    put("/sys/fs/cgroup/memory/a/b/memory.limit_in_bytes", "500000\n");
    put("/sys/fs/cgroup/memory/a/b/memory.oom_control",
        "oom_kill_disable 0\nunder_oom 0\noom_kill 7\n");
    m = of_host();
    T_EQ(m.limit_bytes, 400000);
    T_EQ(m.oom_kills, 7);
    ends_with(&m, "/sys/fs/cgroup/memory/a/b/memory.oom_control");
}

// Its path is that of the host, its mount begins with its own group.
TEST(cgroup, a_container_reads_its_own_group)
{
    struct cgroup_memory m;

    put("/proc/meminfo", "MemTotal: 1000 kB\n");
    put("/proc/self/cgroup", "0::/kubepods/pod-5\n");
    put("/sys/fs/cgroup/memory.max", "123456\n");
    put("/sys/fs/cgroup/memory.events", "oom_kill 1\n");
    m = of_host();
    T_EQ(m.limit_bytes, 123456);
    T_EQ(m.oom_kills, 1);
}

TEST(cgroup, without_groups_the_host_says_both)
{
    struct cgroup_memory m;

    m = of_host();
    T_EQ(m.limit_bytes, 0);
    T_STR(m.oom_file, "");
    put("/proc/meminfo", "MemTotal: 1000 kB\n");
    put("/proc/vmstat", "nr_free_pages 5\noom_kill 2\n");
    m = of_host();
    T_EQ(m.limit_bytes, 1024000);
    T_EQ(m.oom_kills, 2);
    ends_with(&m, "/proc/vmstat");
    cgroup_memory(&m, "");
    T_GT(m.limit_bytes, 0);
}
