/* Takes the place of libc's calls that change files, for those below client/ and server/ in the current folder. Each is
 * a place to die, to fail and to lose power at. What no sync covers may be gone after a power cut
 * (tests/support/disk_model.h). Files are real ones. */
#include <dirent.h>
#include <errno.h>
#include <fcntl.h>
#include <limits.h>
#include <stdarg.h>
#include <stdio.h>
#include <stdlib.h>
#include <string.h>
#include <sys/stat.h>
#include <sys/syscall.h>
#include <unistd.h>

#include "tests/sim/sim.h"
#include "tests/support/disk_model.h"

enum { BASE_PID = 1 << 20 }; /* of records that say what a disk begins with */

static bool below(const char *path, const char *folder)
{
	const size_t n = strlen(folder);

	return strncmp(path, folder, n) == 0 && (path[n] == '/' || !path[n]);
}

/* The path from the current folder on, if it is of a file that is watched; else NULL. */
static const char *inside(int dir, const char *path, char room[PATH_MAX])
{
	static char here[PATH_MAX];
	char link[64];
	ssize_t n;

	if (!sim.cur || path[0] == '/')
		return NULL;
	if (dir == AT_FDCWD)
		return below(path, "client") || below(path, "server") ? path : NULL;
	if (!here[0] && !getcwd(here, sizeof here))
		return NULL;
	snprintf(link, sizeof link, "/proc/self/fd/%d", dir);
	n = readlink(link, room, PATH_MAX - 1);
	if (n < 0)
		return NULL;
	snprintf(room + n, PATH_MAX - (size_t)n, "/%s", path);
	return below(room, here) ? inside(AT_FDCWD, room + strlen(here) + 1, NULL) : NULL;
}

static bool is_open(int fd)
{
	return sim.cur && fd >= 0 && fd < SIM_FDS && sim.cur->open[fd];
}

static bool inside_fd(int fd)
{
	return is_open(fd) && sim.cur->inside[fd];
}

/* ---- the log of which tests/support/disk_model.c makes a disk ---- */

struct note {
	enum disk_op op;
	int fd;
	int64_t at;
	const char *path, *path2;
	const void *data;
	size_t len;
};

static void note(struct note what)
{
	static int room;
	uint8_t *data = NULL;

	if (sim.days) /* no disk goes back */
		return;
	if (disk_records == room) {
		room = room ? 2 * room : 1024;
		disk_record = realloc(disk_record, (size_t)room * sizeof *disk_record);
	}
	if (what.len) {
		data = malloc(what.len);
		if (!data)
			abort();
		memcpy(data, what.data, what.len);
	}
	if (!disk_record)
		abort();
	disk_record[disk_records++] = (struct disk_record){
		.head = {.op = (uint32_t)what.op,
			 .pid = sim.cur ? sim.cur->id << 8 | (sim.cur->starts & 255) : BASE_PID,
			 .fd = what.fd,
			 .at = what.at,
			 .data_len = what.len},
		.path = strdup(what.path ? what.path : ""),
		.path2 = strdup(what.path2 ? what.path2 : ""),
		.data = data,
	};
}

/* Before each call. Returns -1 and sets errno if it fails. `grows`: it needs room. */
static int pass(const char *call, const char *name, bool grows)
{
	const enum sim_side side = sim.cur->side;
	char where[96];

	snprintf(where, sizeof where, "before %s%s%.70s", call, name ? " " : "", name ? name : "");
	sim.cur->disk_calls++;
	if (sim_power_fires(SIM_POWER_DISK, side, where))
		sim_end_all((enum sim_side)sim.fault[sim.armed - 1].victim);
	if (sim_fires(SIM_KILL_DISK, sim.cur->id, where))
		sim_die();
	if (sim_fires(SIM_LOSE, sim.cur->id, where)) {
		sim.cur->loses = true;
		sim_die();
	}
	if (grows && sim_fires(SIM_FULL, (int)side, where)) {
		const struct sim_fault *f = &sim.fault[sim.armed - 1];

		sim.full_side = side;
		sim.full_left = 1 + (long)(f->ms % (f->mode < 5 ? 12 : 150));
	}
	if (sim_fires(SIM_IO_ERROR, (int)side, where)) {
		sim.failing_side = side;
		sim.failing_left = 1 + (long)(sim.fault[sim.armed - 1].ms % 3);
	}
	if (sim.failing_left > 0 && sim.failing_side == side) {
		sim.failing_left--;
		errno = EIO;
		return -1;
	}
	if (!grows || sim.full_left <= 0 || sim.full_side != side)
		return 0;
	sim.full_left--;
	errno = ENOSPC;
	return -1;
}

/* ---- libc's calls ---- */

static int open_at(int dir, const char *path, int flags, mode_t mode)
{
	char room[PATH_MAX];
	const char *in = inside(dir, path, room);
	int fd;

	if (in && flags & (O_CREAT | O_TRUNC) && pass("open", in, faccessat(dir, path, F_OK, 0) != 0))
		return -1;
	fd = (int)syscall(SYS_openat, dir, path, flags, mode);
	if (fd < 0 || fd >= SIM_FDS || !sim.cur)
		return fd;
	sim.cur->open[fd] = true;
	sim.cur->inside[fd] = in != NULL;
	if (in)
		note((struct note){.op = DISK_OPEN, .fd = fd, .at = flags, .path = in});
	return fd;
}

int open(const char *path, int flags, ...)
{
	va_list args;
	mode_t mode;

	va_start(args, flags);
	mode = flags & O_CREAT ? va_arg(args, mode_t) : 0;
	va_end(args);
	return open_at(AT_FDCWD, path, flags, mode);
}

int openat(int dir, const char *path, int flags, ...)
{
	va_list args;
	mode_t mode;

	va_start(args, flags);
	mode = flags & O_CREAT ? va_arg(args, mode_t) : 0;
	va_end(args);
	return open_at(dir, path, flags, mode);
}

ssize_t write(int fd, const void *from, size_t len)
{
	ssize_t put;

	if (!inside_fd(fd))
		return syscall(SYS_write, fd, from, len);
	if (pass("write", NULL, true))
		return -1;
	put = syscall(SYS_write, fd, from, len);
	if (put > 0)
		note((struct note){.op = DISK_WRITE,
				   .fd = fd,
				   .at = lseek(fd, 0, SEEK_CUR) - put,
				   .data = from,
				   .len = (size_t)put});
	return put;
}

ssize_t pwrite(int fd, const void *from, size_t len, off_t at)
{
	ssize_t put;

	if (inside_fd(fd) && pass("pwrite", NULL, true))
		return -1;
	put = syscall(SYS_pwrite64, fd, from, len, at);
	if (inside_fd(fd) && put > 0)
		note((struct note){.op = DISK_WRITE, .fd = fd, .at = at, .data = from, .len = (size_t)put});
	return put;
}

int ftruncate(int fd, off_t len)
{
	int rc;

	if (inside_fd(fd) && pass("ftruncate", NULL, false))
		return -1;
	rc = (int)syscall(SYS_ftruncate, fd, len);
	if (inside_fd(fd) && !rc)
		note((struct note){.op = DISK_TRUNCATE, .fd = fd, .at = len});
	return rc;
}

static int sync_fd(int fd, enum disk_op op)
{
	if (!inside_fd(fd))
		return 0;
	if (pass("fsync", NULL, true))
		return -1;
	note((struct note){.op = op, .fd = fd});
	return 0;
}

int fsync(int fd)
{
	return sync_fd(fd, DISK_SYNC);
}

int fdatasync(int fd)
{
	return sync_fd(fd, DISK_DATASYNC);
}

int close(int fd)
{
	if (inside_fd(fd))
		note((struct note){.op = DISK_CLOSE, .fd = fd});
	if (is_open(fd))
		sim.cur->open[fd] = false;
	return (int)syscall(SYS_close, fd);
}

int rename(const char *old, const char *path)
{
	char room[PATH_MAX], room2[PATH_MAX];
	const char *from = inside(AT_FDCWD, old, room), *to = inside(AT_FDCWD, path, room2);
	int rc;

	if (from && pass("rename", to, false))
		return -1;
	rc = (int)syscall(SYS_renameat2, AT_FDCWD, old, AT_FDCWD, path, 0);
	if (rc || !from || !to)
		return rc;
	note((struct note){.op = DISK_RENAME, .fd = -1, .path = from, .path2 = to});
	sim_note_gone(from);
	sim_note_file(to);
	return rc;
}

int unlinkat(int dir, const char *path, int flags)
{
	char room[PATH_MAX];
	const char *in = inside(dir, path, room);
	int rc;

	if (in && pass("unlink", in, false))
		return -1;
	rc = (int)syscall(SYS_unlinkat, dir, path, flags);
	if (rc || !in)
		return rc;
	note((struct note){.op = DISK_UNLINK, .fd = -1, .path = in});
	sim_note_gone(in);
	return rc;
}

int unlink(const char *path)
{
	return unlinkat(AT_FDCWD, path, 0);
}

int mkdir(const char *path, mode_t mode)
{
	char room[PATH_MAX];
	const char *in = inside(AT_FDCWD, path, room);
	int rc;

	if (in && pass("mkdir", in, true))
		return -1;
	rc = (int)syscall(SYS_mkdirat, AT_FDCWD, path, mode);
	if (!rc && in)
		note((struct note){.op = DISK_MKDIR, .fd = -1, .path = in});
	return rc;
}

/* ---- a power cut: the disk becomes what the model says, and its log begins anew ---- */

static enum sim_side side_of(const struct disk_record *r)
{
	if (r->path[0])
		return below(r->path, disk_side_name[SIM_SERVER]) ? SIM_SERVER : SIM_CLIENT;
	return r->head.pid == BASE_PID ? r->head.fd & 1 : sim.proc[r->head.pid >> 8].side;
}

static void forget(enum sim_side side)
{
	int n = 0;

	for (int i = 0; i < disk_records; i++) {
		struct disk_record *r = &disk_record[i];

		if (side_of(r) != side) {
			disk_record[n++] = *r;
			continue;
		}
		free(r->path);
		free(r->path2);
		free((void *)(uintptr_t)r->data);
	}
	disk_records = n;
}

static void note_file(const char *path, off_t size, int fd)
{
	const int f = (int)syscall(SYS_openat, AT_FDCWD, path, O_RDONLY, 0);
	char *data = malloc((size_t)size + 1);
	const ssize_t len = data ? syscall(SYS_read, f, data, (size_t)size) : -1;

	if (len < 0)
		abort();
	note((struct note){.op = DISK_OPEN, .fd = fd, .at = O_CREAT, .path = path});
	note((struct note){.op = DISK_WRITE, .fd = fd, .data = data, .len = (size_t)len});
	note((struct note){.op = DISK_SYNC, .fd = fd});
	note((struct note){.op = DISK_CLOSE, .fd = fd});
	free(data);
	syscall(SYS_close, f);
}

/* Notes what is below a folder as durable. */
static void note_folder(const char *folder, enum sim_side side)
{
	static int number;
	const int fd = 2 * ++number + (int)side;
	char path[PATH_MAX];
	DIR *d = opendir(folder);
	struct dirent *e;
	struct stat st;

	note((struct note){.op = DISK_OPEN, .fd = fd, .at = O_DIRECTORY, .path = folder});
	while (d && (e = readdir(d))) {
		snprintf(path, sizeof path, "%s/%s", folder, e->d_name);
		if (strcmp(e->d_name, ".") == 0 || strcmp(e->d_name, "..") == 0 || stat(path, &st))
			continue;
		if (!S_ISDIR(st.st_mode)) {
			note_file(path, st.st_size, 2 * ++number + (int)side);
			continue;
		}
		note((struct note){.op = DISK_MKDIR, .fd = -1, .path = path});
		note_folder(path, side);
	}
	if (d)
		closedir(d);
	note((struct note){.op = DISK_SYNC, .fd = fd});
	note((struct note){.op = DISK_CLOSE, .fd = fd});
}

void sim_disk_begin(void)
{
	for (int side = 0; side < SIM_BOTH; side++)
		note_folder(disk_side_name[side], (enum sim_side)side);
}

/* Gives this side the disk that the model makes of its first `records`. */
static void replace(enum sim_side side, int records, int mode)
{
	char was[64];

	snprintf(was, sizeof was, "old/%s-%u-%d", disk_side_name[side], (unsigned)disk_records, sim.armed);
	if (syscall(SYS_renameat2, AT_FDCWD, disk_side_name[side], AT_FDCWD, was, 0))
		abort();
	disk_state((int)side, records, (enum disk_mode)mode, sim_draw(SIM_MODE, UINT32_MAX), ".");
	forget(side);
	note_folder(disk_side_name[side], side);
}

void sim_disk_power(enum sim_side side, int mode)
{
	replace(side, disk_records, mode);
}

/* How many records there are up to the k-th call of this side, not counting what its disk began with. */
static int records_to(enum sim_side side, uint64_t k)
{
	int n = 0;

	for (int i = 0; i < disk_records; i++) {
		const bool begins = disk_record[i].head.pid == BASE_PID;

		if (side_of(&disk_record[i]) == side && (begins || k-- > 0))
			n = i + 1;
		else if (side_of(&disk_record[i]) == side)
			break;
	}
	return n;
}

void sim_disk_old(enum sim_side side)
{
	uint64_t calls = 0;

	for (int i = 0; i < disk_records; i++)
		calls += side_of(&disk_record[i]) == side && disk_record[i].head.pid != BASE_PID;
	replace(side, records_to(side, sim_draw(SIM_MODE, calls + 1)), DISK_ALL);
}

void sim_disk_lose(enum sim_side side)
{
	const char *path = disk_side_name[side];
	char was[64];

	snprintf(was, sizeof was, "old/%s-lost-%d", path, sim.armed);
	if (syscall(SYS_renameat2, AT_FDCWD, path, AT_FDCWD, was, 0) || mkdir(path, 0777) ||
	    (side == SIM_SERVER && mkdir("server/store", 0700)))
		abort();
	forget(side);
	note_folder(path, side);
}
