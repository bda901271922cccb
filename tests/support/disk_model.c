#include "tests/support/disk_model.h"

#include <fcntl.h>
#include <inttypes.h>
#include <stdio.h>
#include <stdlib.h>
#include <string.h>
#include <sys/stat.h>
#include <time.h>

#include <xxhash.h>

const char *const disk_mode_name[DISK_MODE_COUNT] = {"all",     "none", "data",   "names", "zeros",
						     "unlinks", "keep", "prefix", "random"};
const char *const disk_side_name[DISK_SIDES] = {"client", "server"};

struct disk_record *disk_record;
int disk_records;

void disk_die(const char *what, const char *about)
{
	fprintf(stderr, "disk model: %s %s\n", what, about);
	exit(1);
}

static void *grown(void *old, size_t n, size_t size)
{
	void *p = n & (n - 1) ? old : realloc(old, (n ? 2 * n : 1) * size);

	return p ? p : (disk_die("no memory", ""), NULL);
}

uint64_t disk_random(uint64_t *seed, uint64_t n)
{
	uint64_t x = *seed += 0x9e3779b97f4a7c15;

	x = (x ^ (x >> 30)) * 0xbf58476d1ce4e5b9;
	x = (x ^ (x >> 27)) * 0x94d049bb133111eb;
	return (x ^ (x >> 31)) % n;
}

/* ---- one disk */

enum change { WRITE, TRUNCATE, SET, REMOVE, RENAME };

struct op {
	enum change change;
	int rec, inode;         /* SET, RENAME: the inode that the name refers to */
	const char *name, *old; /* name: also that of a REMOVE */
};

struct entry {
	const char *name;
	int inode;
};

struct names {
	struct entry *entry;
	int n;
};

struct inode {
	bool folder;
	uint8_t *data; /* the durable content; data and those below are what survives */
	size_t size, room;
	struct names durable, live; /* live: what processes see */
	struct op *pending;
	int n_pending, last; /* last: the record that changed it last */
};

struct open_fd {
	int pid, fd, inode;
};

struct disk {
	struct inode *inode;
	int n;
	struct open_fd *fd;
	int n_fd;
};

static int new_inode(struct disk *d, bool folder)
{
	d->inode = grown(d->inode, (size_t)d->n, sizeof *d->inode);
	d->inode[d->n] = (struct inode){.folder = folder};
	return d->n++;
}

static int find(const struct names *s, const char *name)
{
	for (int i = 0; i < s->n; i++)
		if (strcmp(s->entry[i].name, name) == 0)
			return i;
	return -1;
}

static void set(struct names *s, const char *name, int inode)
{
	int i = find(s, name);

	if (i < 0) {
		s->entry = grown(s->entry, (size_t)s->n, sizeof *s->entry);
		i = s->n++;
	}
	s->entry[i] = (struct entry){name, inode};
}

static void take_out(struct names *s, const char *name)
{
	int i = find(s, name);

	if (i >= 0)
		memmove(&s->entry[i], &s->entry[i + 1], (size_t)(--s->n - i) * sizeof *s->entry);
}

static void change_names(struct names *s, const struct op *op)
{
	if (op->change == REMOVE || op->change == RENAME)
		take_out(s, op->change == RENAME ? op->old : op->name);
	if (op->change != REMOVE)
		set(s, op->name, op->inode);
}

static void resize(struct inode *f, size_t size)
{
	if (size > f->room) {
		f->room = size * 2;
		f->data = realloc(f->data, f->room);
		if (!f->data)
			disk_die("no memory", "");
	}
	if (size > f->size)
		memset(f->data + f->size, 0, size - f->size);
	f->size = size;
}

/* sector 0: the whole write; else torn at sectors of `sector` bytes. */
static void write_data(struct inode *f, const struct disk_record *r, size_t sector, uint64_t *seed)
{
	size_t at = (size_t)r->head.at, len = (size_t)r->head.data_len, end = at + len, n;

	if (!sector || disk_random(seed, 2)) /* the length grows, perhaps without the data */
		resize(f, f->size > end ? f->size : end);
	for (size_t from = at; from < end; from += n) {
		n = sector ? sector - from % sector : len;
		n = n < end - from ? n : end - from;
		if (sector && disk_random(seed, 2))
			continue;
		resize(f, f->size > from + n ? f->size : from + n);
		memcpy(f->data + from, r->data + (from - at), n);
	}
}

/* Applies an operation to the durable state of an inode. */
static void apply(struct inode *i, const struct op *op, size_t sector, uint64_t *seed)
{
	const struct disk_record *r = &disk_record[op->rec];

	if (op->change == WRITE)
		write_data(i, r, sector, seed);
	else if (op->change == TRUNCATE)
		resize(i, (size_t)(r->head.op == DISK_OPEN ? 0 : r->head.at));
	else
		change_names(&i->durable, op);
	i->last = op->rec;
}

static void settle(struct inode *i)
{
	for (int k = 0; k < i->n_pending; k++)
		apply(i, &i->pending[k], 0, NULL);
	i->n_pending = 0;
}

static void pend(struct disk *d, int inode, struct op op)
{
	struct inode *i = &d->inode[inode];

	if (i->folder)
		change_names(&i->live, &op);
	i->pending = grown(i->pending, (size_t)i->n_pending, sizeof *i->pending);
	i->pending[i->n_pending++] = op;
}

/* Returns the folder that holds the last component of a path, which *name is set to; -1 if there is none. */
static int folder_of(const struct disk *d, const char *path, const char **name)
{
	int at = 0;

	*name = strchr(path, '/'); /* skip the machine's own folder, which is inode 0 */
	if (!*name)
		return -1;
	for (const char *part = ++*name, *slash; (slash = strchr(part, '/')); part = *name = slash + 1) {
		char *word = strndup(part, (size_t)(slash - part));
		int i = find(&d->inode[at].live, word);

		free(word);
		if (i < 0)
			return -1;
		at = d->inode[at].live.entry[i].inode;
	}
	return at;
}

static void do_open(struct disk *d, int rec)
{
	const struct disk_record *r = &disk_record[rec];
	const char *name;
	int folder = folder_of(d, r->path, &name), i, inode = 0;

	if (folder >= 0) {
		i = find(&d->inode[folder].live, name);
		inode = i < 0 ? -1 : d->inode[folder].live.entry[i].inode;
	}
	if (inode < 0 && r->head.at & O_CREAT) {
		inode = new_inode(d, false);
		pend(d, folder, (struct op){SET, rec, inode, name, NULL});
	} else if (inode > 0 && r->head.at & O_TRUNC) {
		pend(d, inode, (struct op){TRUNCATE, rec, 0, NULL, NULL});
	}
	if (inode < 0)
		disk_die("nobody made", r->path);
	d->fd = grown(d->fd, (size_t)d->n_fd, sizeof *d->fd);
	d->fd[d->n_fd++] = (struct open_fd){r->head.pid, r->head.fd, inode};
}

/* The inode behind a record's file descriptor; -1 if it belongs to the other disk. */
static int open_inode(const struct disk *d, const struct disk_record *r, int *at)
{
	for (*at = d->n_fd - 1; *at >= 0; --*at)
		if (d->fd[*at].pid == r->head.pid && d->fd[*at].fd == r->head.fd)
			return d->fd[*at].inode;
	return -1;
}

static void do_fd(struct disk *d, int rec)
{
	const struct disk_record *r = &disk_record[rec];
	int at, inode = open_inode(d, r, &at);

	if (inode < 0)
		return;
	if (r->head.op == DISK_WRITE)
		pend(d, inode, (struct op){WRITE, rec, 0, NULL, NULL});
	else if (r->head.op == DISK_TRUNCATE)
		pend(d, inode, (struct op){TRUNCATE, rec, 0, NULL, NULL});
	else if (r->head.op == DISK_CLOSE)
		d->fd[at] = d->fd[--d->n_fd];
	else
		settle(&d->inode[inode]);
}

static void do_name(struct disk *d, int rec)
{
	const struct disk_record *r = &disk_record[rec];
	const char *name, *to;
	int folder = folder_of(d, r->path, &name), inode;
	struct op op = {REMOVE, rec, 0, name, NULL};

	if (folder < 0)
		disk_die("no such folder:", r->path);
	if (r->head.op == DISK_MKDIR) {
		inode = new_inode(d, true);
		op = (struct op){SET, rec, inode, name, NULL};
	} else if (r->head.op == DISK_RENAME) {
		if (folder_of(d, r->path2, &to) != folder)
			disk_die("renamed into another folder:", r->path2);
		inode = d->inode[folder].live.entry[find(&d->inode[folder].live, name)].inode;
		op = (struct op){RENAME, rec, inode, to, name};
	}
	pend(d, folder, op);
}

static void replay(struct disk *d, int side, int cut)
{
	size_t n = strlen(disk_side_name[side]);

	*d = (struct disk){0};
	new_inode(d, true);
	for (int rec = 0; rec < cut; rec++) {
		const struct disk_record *r = &disk_record[rec];

		if (!r->path[0])
			do_fd(d, rec);
		else if (strncmp(r->path, disk_side_name[side], n) != 0 || (r->path[n] && r->path[n] != '/'))
			continue;
		else if (r->head.op == DISK_OPEN)
			do_open(d, rec);
		else if (r->path[n]) /* not the mkdir of the machine's own folder */
			do_name(d, rec);
	}
}

/* ---- the power cut */

/* Mode prefix: chooses the record of the last operation that took place. */
static int choose_last(const struct disk *d, uint64_t *seed)
{
	int last = -1;
	uint64_t seen = 0;

	for (int i = 0; i < d->n; i++)
		for (int k = 0; k < d->inode[i].n_pending; k++)
			if (disk_random(seed, ++seen) == 0)
				last = d->inode[i].pending[k].rec;
	return last;
}

static bool took_place(enum disk_mode mode, const struct op *op, int last, uint64_t *seed)
{
	bool on_file = op->change == WRITE || op->change == TRUNCATE;

	switch (mode) {
	case DISK_ALL:
		return true;
	case DISK_DATA:
		return on_file;
	case DISK_NAMES:
	case DISK_ZEROS:
		return !on_file;
	case DISK_UNLINKS:
		return op->change == REMOVE;
	case DISK_KEEP:
		return op->change != REMOVE;
	case DISK_PREFIX:
		return op->rec <= last;
	case DISK_RANDOM:
		return disk_random(seed, 2);
	default:
		return false;
	}
}

static void cut_power(struct disk *d, enum disk_mode mode, uint64_t seed)
{
	int last = mode == DISK_PREFIX ? choose_last(d, &seed) : 0;
	size_t sector = disk_random(&seed, 2) ? 512 : 4096;

	for (int n = 0; n < d->n; n++) {
		struct inode *i = &d->inode[n];

		for (int k = 0; k < i->n_pending; k++) {
			const struct op *op = &i->pending[k];
			bool torn = mode == DISK_RANDOM || (mode == DISK_PREFIX && op->rec == last);
			const struct disk_record *r = &disk_record[op->rec];

			if (took_place(mode, op, last, &seed))
				apply(i, op, torn ? sector : 0, &seed);
			else if (mode == DISK_ZEROS && op->change == WRITE &&
				 i->size < (size_t)r->head.at + r->head.data_len)
				resize(i, (size_t)r->head.at + r->head.data_len);
		}
	}
}

static uint64_t hash_of(const struct disk *d, int inode, const char *path)
{
	const struct inode *i = &d->inode[inode];
	uint64_t sum = XXH3_64bits_withSeed(i->data, i->size, XXH3_64bits(path, strlen(path)));
	char below_it[4096];

	for (int k = 0; k < i->durable.n; k++) {
		snprintf(below_it, sizeof below_it, "%s/%s", path, i->durable.entry[k].name);
		sum += hash_of(d, i->durable.entry[k].inode, below_it);
	}
	return sum;
}

/* Modification times follow the order of the last writes, seconds apart, because some code goes by
 * a file's age. Modes are 0600, as the daemons create files. */
static void write_out(const struct disk *d, int inode, const char *path)
{
	const struct inode *i = &d->inode[inode];
	const struct timespec at = {time(NULL) - 7200 + i->last, 0}, times[2] = {at, at};
	char below_it[4096];
	FILE *file;

	if (i->folder && mkdir(path, 0777) != 0)
		disk_die("cannot make", path);
	for (int k = 0; k < i->durable.n; k++) {
		snprintf(below_it, sizeof below_it, "%s/%s", path, i->durable.entry[k].name);
		write_out(d, i->durable.entry[k].inode, below_it);
	}
	if (i->folder)
		return;
	file = fopen(path, "wb");
	if (!file || fchmod(fileno(file), 0600) != 0 || fwrite(i->data, 1, i->size, file) != i->size ||
	    fclose(file) != 0 || utimensat(AT_FDCWD, path, times, 0) != 0)
		disk_die("cannot write", path);
}

static void free_disk(struct disk *d)
{
	for (int i = 0; i < d->n; i++) {
		free(d->inode[i].data);
		free(d->inode[i].durable.entry);
		free(d->inode[i].live.entry);
		free(d->inode[i].pending);
	}
	free(d->inode);
	free(d->fd);
}

uint64_t disk_state(int side, int cut, enum disk_mode mode, uint64_t seed, const char *dir)
{
	struct disk d;
	char path[4096];
	uint64_t hash;

	replay(&d, side, cut);
	cut_power(&d, mode, seed + (uint64_t)side);
	hash = hash_of(&d, 0, "");
	if (dir) {
		snprintf(path, sizeof path, "%s/%s", dir, disk_side_name[side]);
		write_out(&d, 0, path);
	}
	free_disk(&d);
	return hash;
}
