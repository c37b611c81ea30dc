// SPDX-License-Identifier: Apache-2.0
// tests/sim/disk.c -- a process' view of its host's disk.
//
// A struct fs over the crash_fs of the host (or of the common store). Reads
// and writes fail at the seed's rates; a failed sync has thrown away what it
// should have made durable, as crash_fs does it. A process that is dead, or
// dies in the middle of what it does (dies_after), changes nothing any more.
#include "tests/sim/disk.h"

struct sim_file {
    struct fs_file base;
    struct fs_file *inner; // of the crash_fs
};

static struct sim_fs *fs_of(struct fs *fs)
{
    return sl_container_of(fs, struct sim_fs, fs);
}

static struct fs *disk_of(struct fs *fs)
{
    return crash_fs_ops(fs_of(fs)->disk);
}

static struct fs_file *inner_of(struct fs_file *f)
{
    return sl_container_of(f, struct sim_file, base)->inner;
}

// Dead, or about to be.
static bool gone(struct sim_fs *f)
{
    if (f->dies_after > 0 && --f->dies_after == 0)
        f->dead = true;
    return f->dead;
}

static enum sl_err refuse(const char *path, const char *why,
                          struct sl_error *err)
{
    return sl_fail(err, SL_EIO, "%s: simulated: %s", path, why);
}

// SL_OK, or why this read does not happen.
static enum sl_err may_read(struct fs *fs, const char *path,
                            struct sl_error *err)
{
    struct sim_fs *f = fs_of(fs);

    if (gone(f))
        return refuse(path, "the process died", err);
    if (!f->sim->healed && sim_chance(f->sim, f->sim->knobs.read_fault)) {
        f->sim->seen.read_faults++;
        return refuse(path, "a bad sector", err);
    }
    return SL_OK;
}

// The same for what changes the disk. A fault is the disk's own: its next
// step fails.
static enum sl_err may_write(struct fs *fs, const char *path,
                             struct sl_error *err)
{
    struct sim_fs *f = fs_of(fs);

    if (gone(f))
        return refuse(path, "the process died", err);
    if (f->proc->role == SIM_SERVER && f->proc->alive)
        sim_meanwhile(f->sim);
    if (!f->sim->healed && sim_chance(f->sim, f->sim->knobs.write_fault)) {
        f->sim->seen.write_faults++;
        crash_fs_fail_at(f->disk, 1);
    }
    return SL_OK;
}

static enum sl_err wrote(struct fs *fs, enum sl_err rc)
{
    crash_fs_fail_at(fs_of(fs)->disk, 0);
    return rc;
}

// A psserver looks for its newest snapshot first: it then loads an older one,
// which may lie before a cut that is being written (K7).
static bool sick(struct sim_fs *f)
{
    if (f->sick == 0 || f->sim->healed)
        return false;
    f->sick--;
    f->sim->seen.read_faults++;
    return true;
}

static enum sl_err sim_open(struct fs *fs, struct fs_file **out,
                            const char *path, enum fs_mode mode,
                            struct sl_error *err)
{
    struct fs_file *inner = NULL;
    struct sim_file *f;
    enum sl_err rc =
        mode == FS_READ ? may_read(fs, path, err) : may_write(fs, path, err);

    if (rc == SL_OK && mode == FS_READ && sick(fs_of(fs)))
        rc = refuse(path, "a bad sector", err);
    if (rc == SL_OK)
        rc = wrote(fs, fs_open(disk_of(fs), &inner, path, mode, err));
    if (rc != SL_OK)
        return rc;
    f = calloc(1, sizeof(*f));
    T_ASSERT(f != NULL);
    f->base.fs = fs;
    f->base.path = strdup(path);
    f->inner = inner;
    *out = &f->base;
    return SL_OK;
}

static void sim_close(struct fs_file *f)
{
    fs_close(inner_of(f));
    free(f->path);
    free(sl_container_of(f, struct sim_file, base));
}

static enum sl_err sim_write(struct fs_file *f, const void *bytes, size_t n,
                             struct sl_error *err)
{
    enum sl_err rc = may_write(f->fs, f->path, err);

    return rc == SL_OK ? wrote(f->fs, fs_write(inner_of(f), bytes, n, err))
                       : rc;
}

static enum sl_err sim_pwrite(struct fs_file *f, uint64_t offset,
                              const void *bytes, size_t n, struct sl_error *err)
{
    enum sl_err rc = may_write(f->fs, f->path, err);

    return rc == SL_OK
               ? wrote(f->fs, fs_pwrite(inner_of(f), offset, bytes, n, err))
               : rc;
}

static enum sl_err sim_pread(struct fs_file *f, uint64_t offset, void *to,
                             size_t n, size_t *got, struct sl_error *err)
{
    enum sl_err rc = may_read(f->fs, f->path, err);

    return rc == SL_OK ? fs_pread(inner_of(f), offset, to, n, got, err) : rc;
}

static enum sl_err sim_sync(struct fs_file *f, struct sl_error *err)
{
    enum sl_err rc = may_write(f->fs, f->path, err);

    return rc == SL_OK ? wrote(f->fs, fs_sync(inner_of(f), err)) : rc;
}

static enum sl_err sim_size(struct fs_file *f, uint64_t *out,
                            struct sl_error *err)
{
    enum sl_err rc = may_read(f->fs, f->path, err);

    return rc == SL_OK ? fs_size(inner_of(f), out, err) : rc;
}

static enum sl_err sim_map(struct fs_file *f, struct fs_map *out,
                           struct sl_error *err)
{
    enum sl_err rc = may_read(f->fs, f->path, err);

    return rc == SL_OK ? fs_map_file(inner_of(f), out, err) : rc;
}

static void sim_unmap(struct fs *fs, struct fs_map *m)
{
    fs_unmap(disk_of(fs), m);
}

static enum sl_err sim_rename(struct fs *fs, const char *from, const char *to,
                              struct sl_error *err)
{
    enum sl_err rc = may_write(fs, to, err);

    return rc == SL_OK ? wrote(fs, fs_rename(disk_of(fs), from, to, err)) : rc;
}

static enum sl_err sim_sync_dir(struct fs *fs, const char *dir,
                                struct sl_error *err)
{
    enum sl_err rc = may_write(fs, dir, err);

    return rc == SL_OK ? wrote(fs, fs_sync_dir(disk_of(fs), dir, err)) : rc;
}

static enum sl_err sim_unlink(struct fs *fs, const char *path,
                              struct sl_error *err)
{
    enum sl_err rc = may_write(fs, path, err);

    return rc == SL_OK ? wrote(fs, fs_unlink(disk_of(fs), path, err)) : rc;
}

static enum sl_err sim_mkdir(struct fs *fs, const char *path,
                             struct sl_error *err)
{
    struct fs *disk = disk_of(fs);
    enum sl_err rc = may_write(fs, path, err);

    return rc == SL_OK ? wrote(fs, disk->ops->mkdir(disk, path, err)) : rc;
}

static enum sl_err sim_stat(struct fs *fs, const char *path,
                            struct fs_stat *out, struct sl_error *err)
{
    enum sl_err rc = may_read(fs, path, err);

    return rc == SL_OK ? fs_stat_path(disk_of(fs), path, out, err) : rc;
}

static enum sl_err sim_list(struct fs *fs, const char *dir, fs_name_fn fn,
                            void *arg, struct sl_error *err)
{
    enum sl_err rc = may_read(fs, dir, err);

    return rc == SL_OK ? fs_list(disk_of(fs), dir, fn, arg, err) : rc;
}

static const struct fs_ops sim_ops = {
    .open = sim_open,
    .close = sim_close,
    .write = sim_write,
    .pwrite = sim_pwrite,
    .pread = sim_pread,
    .sync = sim_sync,
    .size = sim_size,
    .map = sim_map,
    .unmap = sim_unmap,
    .rename = sim_rename,
    .sync_dir = sim_sync_dir,
    .unlink = sim_unlink,
    .mkdir = sim_mkdir,
    .stat = sim_stat,
    .list = sim_list,
};

void disk_attach(struct sim *s, struct proc *p)
{
    p->files = (struct sim_fs){.fs = {.ops = &sim_ops},
                               .sim = s,
                               .proc = p,
                               .disk = disk_for(s, p->role, p->host)};
    if (p->role == SIM_SERVER && sim_chance(s, s->knobs.sick))
        p->files.sick = (unsigned)sim_between(s, 1, 2);
}

struct crash_fs *disk_for(struct sim *s, enum sim_role role, uint32_t host)
{
    bool shared = role == SIM_SERVER   ? s->knobs.shared_store
                  : role == SIM_WORKER ? s->knobs.mode == SIM_RING
                                       : false;

    return shared ? s->store : s->hosts[host];
}

static struct crash_fs *fresh(struct sim *s)
{
    struct crash_fs *fs = crash_fs_new(sim_below(s, UINT64_MAX));
    struct sl_error err = SL_ERROR_INIT;

    T_OK(fs_mkdirs(crash_fs_ops(fs), "/store", &err));
    return fs;
}

void disk_new(struct sim *s, struct crash_fs **disk)
{
    *disk = fresh(s);
}

// The old one stays until the end: somebody may have a file of it open.
void disk_lose(struct sim *s, uint32_t host)
{
    T_LT(s->lost_count, SIM_LOST);
    s->lost[s->lost_count++] = s->hosts[host];
    s->hosts[host] = fresh(s);
    s->seen.disks_lost++;
}
