#include "server/store/retention.h"

#include <dirent.h>
#include <errno.h>
#include <fcntl.h>
#include <inttypes.h>
#include <limits.h>
#include <stdio.h>
#include <stdlib.h>
#include <string.h>
#include <sys/stat.h>
#include <sys/statvfs.h>
#include <unistd.h>

#include "common/base/assert.h"
#include "common/base/clock.h"
#include "common/base/folder.h"
#include "common/base/grow.h"
#include "common/base/log.h"
#include "server/store/store.h"

enum { ID_HEX = 32 };

struct entry {
	char name[SL_RETENTION_NAME + 4]; /* 4: for ".tmp" */
	char owner[SL_FINGERPRINT];       /* "": no key */
	int64_t bytes, used_s, used_ns;   /* time of the last use; used_ns: its nanoseconds */
	bool goes, written;               /* goes: to be removed; written: it is being written, so it stays */
};

/* An owner's files, entry[… end), in the order of removal. Those before `next` are chosen, or have to stay. */
struct share {
	const char *owner;
	int next, end;
	int64_t bytes;
};

struct list {
	struct entry *entry;
	struct share *share;
	size_t cap;
	int n, n_share;
	int64_t bytes;
};

/* ---- live sessions */

static void halves_of(const uint8_t session[16], uint64_t id[2])
{
	for (int half = 0; half < 2; half++) {
		id[half] = 0;
		for (int i = 0; i < 8; i++)
			id[half] = id[half] << 8 | session[8 * half + i];
	}
}

void sl_retention_join(struct sl_retention *w, int place, const uint8_t session[16])
{
	struct sl_retention_live *live = &w->live[place];
	uint64_t id[2];

	halves_of(session, id);
	atomic_store(&live->id[0], id[0]);
	atomic_store(&live->id[1], id[1]);
	atomic_store(&live->on, true);
}

void sl_retention_leave(struct sl_retention *w, int place)
{
	atomic_store(&w->live[place].on, false);
}

/* A session that joins during housekeeping may lose a file, as if it had joined just after it. */
static bool is_live(const struct sl_retention *w, const char *name)
{
	uint64_t id[2];

	if (sscanf(name, "session-%16" SCNx64 "%16" SCNx64, &id[0], &id[1]) != 2)
		return false;
	for (int i = 0; i < w->n_live; i++)
		if (atomic_load(&w->live[i].on) && atomic_load(&w->live[i].id[0]) == id[0] &&
		    atomic_load(&w->live[i].id[1]) == id[1])
			return true;
	return false;
}

/* ---- the folder as a list */

/* The owner's fingerprint, which follows the hash or the session's id; "": there is no key. */
static void owner_of(const char *name, char out[SL_FINGERPRINT])
{
	const char *at = name + (name[0] == 's' ? strlen("session-") : 0) + ID_HEX;

	out[0] = 0;
	if (at[0] == '.' && strspn(at + 1, "0123456789abcdef-") >= SL_FINGERPRINT - 1)
		snprintf(out, SL_FINGERPRINT, "%s", at + 1);
}

static bool add(struct list *l, const char *name, const struct stat *st)
{
	struct entry *e;

	if (!sl_grow(&l->entry, &l->cap, (size_t)l->n + 1, sizeof *l->entry))
		return false;
	e = &l->entry[l->n++];
	*e = (struct entry){
		.bytes = (int64_t)st->st_size, .used_s = (int64_t)st->st_mtim.tv_sec, .used_ns = st->st_mtim.tv_nsec};
	snprintf(e->name, sizeof e->name, "%s", name);
	owner_of(name, e->owner);
	l->bytes += e->bytes;
	return true;
}

static bool is_state(const struct entry *e)
{
	return e->name[0] == 's';
}

/* The order of removal within an owner: weights before states, since a client can upload weights again. */
static int by_owner_and_use(const void *a, const void *b)
{
	const struct entry *x = a, *y = b;
	int order = strcmp(x->owner, y->owner);

	if (order)
		return order;
	if (is_state(x) != is_state(y))
		return is_state(x) ? 1 : -1;
	if (x->used_s != y->used_s)
		return x->used_s < y->used_s ? -1 : 1;
	if (x->used_ns != y->used_ns)
		return x->used_ns < y->used_ns ? -1 : 1;
	return strcmp(x->name, y->name);
}

static bool divide(struct list *l)
{
	if (l->n)
		qsort(l->entry, (size_t)l->n, sizeof *l->entry, by_owner_and_use);
	l->share = calloc((size_t)l->n + 1, sizeof *l->share);
	for (int i = 0; l->share && i < l->n; i++) {
		if (!i || strcmp(l->entry[i].owner, l->entry[i - 1].owner) != 0)
			l->share[l->n_share++] = (struct share){l->entry[i].owner, i, i, 0};
		l->share[l->n_share - 1].end = i + 1;
		l->share[l->n_share - 1].bytes += l->entry[i].bytes;
	}
	return l->share != NULL;
}

static struct entry *find(struct list *l, const char *name)
{
	for (int i = 0; i < l->n; i++)
		if (strcmp(l->entry[i].name, name) == 0)
			return &l->entry[i];
	return NULL;
}

/* Adds the files that are being written, with their final sizes. */
static bool add_writing(struct list *l, const struct sl_retention_write *write)
{
	const struct stat none = {.st_mtim.tv_sec = sl_wall_s()};

	for (; write; write = write->next) {
		char name[sizeof l->entry->name];
		struct entry *e;

		snprintf(name, sizeof name, "%s.tmp", write->name);
		e = find(l, name);
		if (!e && !add(l, name, &none))
			return false;
		e = e ? e : &l->entry[l->n - 1];
		e->written = true;
		if (write->bytes <= e->bytes)
			continue;
		l->bytes += write->bytes - e->bytes;
		e->bytes = write->bytes;
	}
	return true;
}

/* Each file is one owner's, what is chosen to go is not counted any more, and nothing goes that is being written. */
static void check_list(const struct list *l)
{
	int64_t all = 0;
	int at = 0;

	for (int s = 0; s < l->n_share; s++) {
		int64_t bytes = 0;

		sl_assert_int(at, <=, l->share[s].next);
		sl_assert_int(l->share[s].next, <=, l->share[s].end);
		for (; at < l->share[s].end; at++) {
			const struct entry *e = &l->entry[at];

			sl_assert(strcmp(e->owner, l->share[s].owner) == 0);
			sl_assert_if(e->goes, !e->written);
			bytes += e->goes ? 0 : e->bytes;
		}
		sl_assert_int(bytes, ==, l->share[s].bytes);
		all += bytes;
	}
	sl_assert_int(at, ==, l->n);
	sl_assert_int(all, ==, l->bytes);
}

static void list_close(struct list *l)
{
	free(l->entry);
	free(l->share);
}

/* The store was moved, or another folder has its name: nothing there is this server's. */
static enum sl_err check_place(const struct sl_retention *w, struct sl_fail *fail)
{
	char path[PATH_MAX];

	return snprintf(path, sizeof path, "%s/lock", w->dir) < PATH_MAX ? sl_folder_check(path, fail) : SL_OK;
}

static bool is_away(const struct sl_retention *w)
{
	struct sl_fail why;

	if (check_place(w, &why) == SL_OK)
		return false;
	sl_log_limited(SL_LOG_WARN, "store-retention", "%s", why.text);
	return true;
}

static bool list_open(struct list *l, const struct sl_retention *w)
{
	DIR *dir = opendir(w->dir);
	struct dirent *d;
	struct stat st;
	bool whole = dir != NULL;

	*l = (struct list){0};
	if (is_away(w)) {
		if (dir)
			closedir(dir);
		return false;
	}
	while (whole && (d = readdir(dir)))
		if (sl_store_owns(d->d_name) && strlen(d->d_name) < sizeof l->entry->name &&
		    fstatat(dirfd(dir), d->d_name, &st, AT_SYMLINK_NOFOLLOW) == 0 && S_ISREG(st.st_mode))
			whole = add(l, d->d_name, &st);
	if (!whole)
		sl_log_limited(SL_LOG_WARN, "store-retention", "%s: %s", w->dir, strerror(errno));
	if (dir)
		closedir(dir);
	whole = whole && add_writing(l, w->writing) && divide(l);
	if (whole)
		check_list(l);
	else
		list_close(l);
	return whole;
}

/* ---- what goes */

static void let_go(struct list *l, struct share *s, struct entry *e)
{
	sl_assert(!e->goes); /* its bytes are taken off once */
	e->goes = true;
	s->bytes -= e->bytes;
	l->bytes -= e->bytes;
}

/* The first file of an owner that may be removed. */
static struct entry *oldest(const struct sl_retention *w, const char *keep, struct list *l, struct share *s)
{
	for (; s->next < s->end; s->next++) {
		struct entry *e = &l->entry[s->next];

		if (!e->goes && !e->written && !is_live(w, e->name) &&
		    !(keep && strncmp(e->name, keep, strlen(keep)) == 0))
			return e;
	}
	return NULL;
}

/* The same for the owner that has the most bytes, if these are more than `than`; *of: its share. */
static struct entry *oldest_of_largest(const struct sl_retention *w, struct list *l, const char *keep, int64_t than,
				       struct share **of)
{
	struct entry *found = NULL;

	for (int i = 0; i < l->n_share; i++) {
		struct entry *e = l->share[i].bytes > than ? oldest(w, keep, l, &l->share[i]) : NULL;

		if (!e)
			continue;
		than = l->share[i].bytes;
		found = e;
		*of = &l->share[i];
	}
	return found;
}

static bool has_key(const struct share *s)
{
	return s->owner[0] != 0;
}

static void choose_expired(const struct sl_retention *w, struct list *l, int64_t now_s)
{
	for (int s = 0; s < l->n_share; s++)
		for (int i = l->share[s].next; i < l->share[s].end; i++)
			if (w->ttl_s && now_s - l->entry[i].used_s > w->ttl_s && !l->entry[i].written &&
			    !is_live(w, l->entry[i].name))
				let_go(l, &l->share[s], &l->entry[i]);
}

static void choose_beyond_limits(const struct sl_retention *w, struct list *l)
{
	struct share *of;
	struct entry *e;

	for (int s = 0; s < l->n_share; s++)
		while (w->bytes_per_key && has_key(&l->share[s]) && l->share[s].bytes > w->bytes_per_key &&
		       (e = oldest(w, NULL, l, &l->share[s])))
			let_go(l, &l->share[s], e);
	while (w->bytes && l->bytes > w->bytes && (e = oldest_of_largest(w, l, NULL, -1, &of)))
		let_go(l, of, e);
}

static int64_t age_of(const struct entry *e, int64_t now_s)
{
	return now_s > e->used_s ? now_s - e->used_s : 0;
}

static bool removed(const struct sl_retention *w, const struct entry *e, int64_t age_s)
{
	char path[PATH_MAX];

	if (is_away(w) || snprintf(path, sizeof path, "%s/%s", w->dir, e->name) >= PATH_MAX)
		return false;
	if (unlink(path) != 0 && errno != ENOENT) {
		sl_log_limited(SL_LOG_WARN, "store-retention", "%s: %s", path, strerror(errno));
		return false;
	}
	sl_log_limited(SL_LOG_INFO, "store-retention", "%s, %lld bytes, unused for %lld s, is removed", e->name,
		       (long long)e->bytes, (long long)age_s);
	return true;
}

/* When a server last looked at the folder, by the time that it went by: that of the lock file, which sl_retention_run
 * sets. INT64_MAX: there is no such file. */
static int64_t last_look_s(const struct sl_retention *w)
{
	char path[PATH_MAX];
	struct stat st;

	return snprintf(path, sizeof path, "%s/lock", w->dir) < PATH_MAX && lstat(path, &st) == 0
		       ? (int64_t)st.st_mtim.tv_sec
		       : INT64_MAX;
}

static void set_used(const struct sl_retention *w, const char *name, int64_t used_s, int64_t used_ns)
{
	const struct timespec used = {.tv_sec = used_s, .tv_nsec = used_ns}, at[2] = {used, used};
	char path[PATH_MAX];

	if (snprintf(path, sizeof path, "%s/%s", w->dir, name) < PATH_MAX)
		(void)!utimensat(AT_FDCWD, path, at, AT_SYMLINK_NOFOLLOW);
}

int64_t sl_retention_opened(const struct sl_retention *w, int64_t clock_s)
{
	int64_t newest_s = INT64_MIN, last_s;
	int moved = 0;
	struct list l;

	if (!w->dir[0] || !w->ttl_s || access(w->dir, F_OK) != 0 || !list_open(&l, w))
		return clock_s;
	for (int i = 0; i < l.n; i++)
		newest_s = l.entry[i].used_s > newest_s ? l.entry[i].used_s : newest_s;
	last_s = last_look_s(w);
	last_s = newest_s < last_s ? newest_s : last_s;
	for (int i = 0; i < l.n && clock_s - last_s > w->ttl_s; i++) {
		const struct entry *e = &l.entry[i];

		if (e->used_s > last_s && clock_s - e->used_s <= w->ttl_s)
			continue;
		/* one that was used after the last look, as before a crash, counts as used now */
		set_used(w, e->name, e->used_s > last_s ? clock_s : e->used_s + clock_s - last_s, e->used_ns);
		moved++;
	}
	list_close(&l);
	if (moved)
		sl_log(SL_LOG_WARN, "store-clock",
		       "%s: by this host's clock no server looked at %d file%s for %lld s, and they would be removed "
		       "(store_ttl_s): is the clock right? The time in which no server ran is not counted",
		       w->dir, moved, sl_plural(moved), (long long)(clock_s - last_s));
	return clock_s;
}

int64_t sl_retention_now(int64_t clock_s, int64_t opened_s, int64_t since_s)
{
	return clock_s < opened_s + since_s ? clock_s : opened_s + since_s;
}

/* The defaults are such that no file has to be removed at once. They only grow. */
static void measure(struct sl_retention *w, const struct list *l)
{
	struct statvfs fs;
	int64_t half, most = w->bytes;

	if (w->measured && statvfs(w->dir, &fs) == 0 && fs.f_blocks) {
		half = (int64_t)(((uint64_t)fs.f_bavail * fs.f_frsize + (uint64_t)l->bytes) / 2);
		most = half > most ? half : most;
		most = l->bytes > most ? l->bytes : most;
		w->bytes = most + !most; /* an empty store on a full disk: 0 would mean no limit */
	}
	if (w->halved && (w->bytes + 1) / 2 > w->bytes_per_key)
		w->bytes_per_key = (w->bytes + 1) / 2;
}

void sl_retention_set_limits(struct sl_retention *w)
{
	struct list l;

	if (!w->dir[0] || (w->bytes && w->bytes_per_key) || !list_open(&l, w))
		return;
	w->measured = !w->bytes;
	w->halved = !w->bytes_per_key;
	measure(w, &l);
	if (w->bytes && w->halved) {
		for (int i = 0; i < l.n_share; i++)
			if (has_key(&l.share[i]) && l.share[i].bytes > w->bytes_per_key)
				w->bytes_per_key = l.share[i].bytes;
	}
	list_close(&l);
}

struct sl_retention_result sl_retention_run(const struct sl_retention *w, int64_t now_s)
{
	struct sl_retention_result r = {0};
	struct list l;

	if (!w->dir[0] || !list_open(&l, w))
		return r;
	choose_expired(w, &l, now_s);
	choose_beyond_limits(w, &l);
	check_list(&l);
	for (int i = 0; i < l.n; i++) {
		const struct entry *e = &l.entry[i];
		int64_t age_s = age_of(e, now_s);

		/* the session may have joined since the file was chosen */
		if (e->goes && !is_live(w, e->name) && removed(w, e, age_s)) {
			r.removed++;
			continue;
		}
		r.files++;
		r.bytes += e->bytes;
		r.oldest_s = age_s > r.oldest_s ? age_s : r.oldest_s;
	}
	list_close(&l);
	set_used(w, "lock", now_s, 0);
	r.space = sl_diskspace_of(w->dir);
	return r;
}

static enum sl_err choose_for(const struct sl_retention *w, struct list *l, const char *print, const char *keep,
			      int64_t bytes, struct sl_fail *fail)
{
	struct share none = {.owner = print}, *own = &none, *of;
	int64_t held = l->bytes, own_held;
	struct entry *e;

	for (int i = 0; i < l->n_share; i++)
		if (strcmp(l->share[i].owner, print) == 0)
			own = &l->share[i];
	own_held = own->bytes;
	while (w->bytes_per_key && has_key(own) && own->bytes + bytes > w->bytes_per_key) {
		e = oldest(w, keep, l, own);
		if (!e)
			return sl_fail_set(fail, SL_ERR_LIMIT,
					   "the key %s has %" PRId64 " bytes in the store and may have %" PRId64
					   " (store_bytes_per_key): %" PRId64 " more do not fit",
					   print, own_held, w->bytes_per_key, bytes);
		let_go(l, own, e);
	}
	while (w->bytes && l->bytes + bytes > w->bytes) {
		e = oldest(w, keep, l, own);
		of = own;
		if (!e)
			e = oldest_of_largest(w, l, keep, own->bytes + bytes, &of);
		if (!e)
			return sl_fail_set(fail, SL_ERR_LIMIT,
					   "the store holds %" PRId64 " bytes and may hold %" PRId64
					   " (store_bytes): %" PRId64 " more do not fit",
					   held, w->bytes, bytes);
		let_go(l, of, e);
	}
	return SL_OK;
}

enum sl_err sl_retention_make_room(struct sl_retention *w, const struct sl_key *owner, const char *keep, int64_t bytes,
				   struct sl_fail *fail)
{
	char print[SL_FINGERPRINT] = "";
	struct sl_diskspace space;
	struct list l;
	enum sl_err err;

	if (!w->dir[0] || (!w->bytes && !w->bytes_per_key))
		return SL_OK;
	err = check_place(w, fail);
	if (err)
		return err;
	if (!list_open(&l, w))
		return sl_fail_set(fail, SL_ERR_IO, "the store '%s' could not be listed", w->dir);
	if (owner)
		sl_key_fingerprint(owner, print);
	measure(w, &l);
	err = choose_for(w, &l, print, keep, bytes, fail);
	check_list(&l);
	if (!err && w->bytes) /* there is room now, once what goes has gone */
		sl_assert_int(l.bytes + bytes, <=, w->bytes);
	space = sl_diskspace_of(w->dir);
	if (err && w->measured && space.all && space.free < bytes) /* the limit only says that the disk is full */
		err = sl_fail_set(fail, SL_ERR_LIMIT,
				  "the disk of the store '%s' is full: it has %" PRId64 " bytes free, and %" PRId64
				  " more do not fit",
				  w->dir, space.free, bytes);
	for (int i = 0; i < l.n && !err; i++)
		if (l.entry[i].goes && !removed(w, &l.entry[i], age_of(&l.entry[i], sl_wall_s())))
			err = sl_fail_set(fail, SL_ERR_IO, "space in the store could not be freed");
	list_close(&l);
	if (err)
		atomic_fetch_add(&w->not_stored, 1);
	return err;
}

enum sl_err sl_retention_begin(struct sl_retention *w, struct sl_retention_write *write, const char *name,
			       const struct sl_key *owner, const char *keep, int64_t bytes, struct sl_fail *fail)
{
	enum sl_err err;

	for (const struct sl_retention_write *other = w->writing; other; other = other->next)
		if (strcmp(other->name, name) == 0)
			return sl_fail_set(fail, SL_ERR_BUSY, "%s is being written already", name);
	err = sl_retention_make_room(w, owner, keep, bytes, fail);
	if (err)
		return err;
	sl_assert_int(strlen(name), <, sizeof write->name);
	sl_assert_int(bytes, >, 0);
	snprintf(write->name, sizeof write->name, "%s", name);
	write->bytes = bytes;
	write->next = w->writing;
	w->writing = write;
	return SL_OK;
}

void sl_retention_end(struct sl_retention *w, struct sl_retention_write *write)
{
	for (struct sl_retention_write **at = &w->writing; *at; at = &(*at)->next)
		if (*at == write) {
			*at = write->next;
			return;
		}
}
