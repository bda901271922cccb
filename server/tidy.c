#include "server/tidy.h"

#include <dirent.h>
#include <errno.h>
#include <fcntl.h>
#include <limits.h>
#include <stdio.h>
#include <stdlib.h>
#include <string.h>
#include <sys/stat.h>
#include <unistd.h>

#include "common/base/log.h"
#include "server/store.h"

struct entry {
	char name[128];
	int64_t bytes, used_s;
};

struct list {
	struct entry *entry;
	int n, cap;
};

void sl_tidy_join(struct sl_tidy *w, const char id[SL_HEX16_TEXT])
{
	int n = atomic_load(&w->n_live);

	if (n < w->max_live)
		memcpy(w->live[n], id, sizeof w->live[n]);
	if (n <= w->max_live)
		atomic_store(&w->n_live, n + 1);
}

static bool is_live(const struct sl_tidy *w, const char *name)
{
	const char *id = name + strlen("session-");
	int n = atomic_load(&w->n_live);

	if (name[0] != 's')
		return false;
	for (int i = 0; i < n && i < w->max_live; i++)
		if (strncmp(id, w->live[i], strlen(w->live[i])) == 0)
			return true;
	return n > w->max_live;
}

static bool add(struct list *l, const char *name, const struct stat *st)
{
	struct entry *e;

	if (l->n == l->cap) {
		int cap = l->cap ? 2 * l->cap : 64;

		e = realloc(l->entry, (size_t)cap * sizeof *e);
		if (!e)
			return false;
		l->entry = e;
		l->cap = cap;
	}
	e = &l->entry[l->n++];
	snprintf(e->name, sizeof e->name, "%s", name);
	e->bytes = (int64_t)st->st_size;
	e->used_s = (int64_t)st->st_mtime;
	return true;
}

static void read_folder(struct list *l, const struct sl_tidy *w)
{
	DIR *dir = opendir(w->dir);
	struct dirent *d;
	struct stat st;

	while (dir && (d = readdir(dir)))
		if (sl_store_owns(d->d_name) && strlen(d->d_name) < sizeof l->entry->name &&
		    fstatat(dirfd(dir), d->d_name, &st, AT_SYMLINK_NOFOLLOW) == 0 && S_ISREG(st.st_mode) &&
		    !add(l, d->d_name, &st))
			break;
	if (dir)
		closedir(dir);
	else
		sl_log_limited(SL_LOG_WARN, "store-tidy", "%s: %s", w->dir, strerror(errno));
}

static int by_use(const void *a, const void *b)
{
	const struct entry *x = a, *y = b;

	if (x->used_s != y->used_s)
		return x->used_s < y->used_s ? -1 : 1;
	return strcmp(x->name, y->name);
}

static bool removed(const struct sl_tidy *w, const struct entry *e, int64_t age_s)
{
	char path[PATH_MAX];

	if (snprintf(path, sizeof path, "%s/%s", w->dir, e->name) >= PATH_MAX)
		return false;
	if (unlink(path) != 0 && errno != ENOENT) {
		sl_log_limited(SL_LOG_WARN, "store-tidy", "%s: %s", path, strerror(errno));
		return false;
	}
	sl_log_limited(SL_LOG_INFO, "store-tidy", "%s, %lld bytes, unused for %lld s, is removed", e->name,
		       (long long)e->bytes, (long long)age_s);
	return true;
}

int64_t sl_tidy_now(int64_t clock_s, int64_t opened_s, int64_t since_s)
{
	return clock_s < opened_s + since_s ? clock_s : opened_s + since_s;
}

struct sl_tidy_result sl_tidy_run(const struct sl_tidy *w, int64_t now_s)
{
	struct sl_tidy_result r = {0};
	struct list l = {0};

	if (!w->dir[0])
		return r;
	read_folder(&l, w);
	if (l.n)
		qsort(l.entry, (size_t)l.n, sizeof *l.entry, by_use);
	for (int i = 0; i < l.n; i++)
		r.bytes += l.entry[i].bytes;
	for (int i = 0; i < l.n; i++) {
		const struct entry *e = &l.entry[i];
		int64_t age_s = now_s > e->used_s ? now_s - e->used_s : 0;
		bool over = (w->ttl_s && age_s > w->ttl_s) || (w->bytes && r.bytes > w->bytes);

		if (over && !is_live(w, e->name) && removed(w, e, age_s)) {
			r.bytes -= e->bytes;
			r.removed++;
			r.removed_bytes += e->bytes;
			continue;
		}
		r.files++;
		r.oldest_s = age_s > r.oldest_s ? age_s : r.oldest_s;
	}
	free(l.entry);
	return r;
}
