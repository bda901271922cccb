#include "server/store/keep.h"

#include <dirent.h>
#include <errno.h>
#include <inttypes.h>
#include <limits.h>
#include <stdio.h>
#include <string.h>
#include <sys/stat.h>

#include "common/base/assert.h"
#include "common/base/failpoint.h"

void sl_keep_open(struct sl_keep *k, const char *dir, struct sl_retention *retention, const uint8_t session[16],
		  const struct sl_key *owner, const struct sl_plan *plan, const char *core)
{
	char id[SL_HEX16_TEXT];
	int n = snprintf(k->prefix, sizeof k->prefix, "session-%s", sl_hex16(session, id));

	k->retention = retention;
	k->owned = owner != NULL;
	if (owner) {
		k->owner = *owner;
		char print[SL_FINGERPRINT];

		sl_key_fingerprint(owner, print);
		snprintf(k->prefix + n, sizeof k->prefix - (size_t)n, ".%s", print);
	}
	k->dir = dir;
	k->n_pin = 0;
	k->made = 0;
	k->left[0] = '\0';
	k->plan = plan;
	k->core = core;
}

bool sl_keep_of_other_key(const struct sl_keep *k)
{
	const size_t session = strcspn(k->prefix, "."), own = strlen(k->prefix);
	DIR *dir = k->dir[0] ? opendir(k->dir) : NULL;
	struct dirent *entry;
	bool found = false;

	while (dir && !found && (entry = readdir(dir)))
		found = strncmp(entry->d_name, k->prefix, session) == 0 &&
			(strncmp(entry->d_name, k->prefix, own) != 0 || entry->d_name[own] != '-');
	if (dir)
		closedir(dir);
	return found;
}

enum { HEADER_BYTES = 8192 };

static const char left_key[] = "left", asked_key[] = "asked";

/* A state that is being written or read. */
struct snapshot {
	struct sl_exec_state exec;
	struct sl_codecs_state codecs;
	const struct sl_buf *records; /* of a group, instead of codecs; otherwise NULL */
	struct sl_checkpoint c;
};

/* A snapshot refers to the executor's weights, without a copy. Only a group's state is read into a copy: if reading
 * fails, its members go on with what they have. */
static enum sl_err open_snapshot(struct snapshot *s, const struct sl_keep *k, struct sl_exec *exec,
				 struct sl_port *port, bool reading, struct sl_fail *fail)
{
	enum sl_err err;

	*s = (struct snapshot){0};
	err = sl_exec_state_open(&s->exec, &k->plan->segment[SL_MIDDLE],
				 reading && !port ? NULL : sl_exec_weights_at(exec));
	if (!err && port)
		err = sl_codecs_state_open(&s->codecs, sl_port_codecs(port));
	return err ? sl_fail_set(fail, err, "no memory for a checkpoint") : SL_OK;
}

static void close_snapshot(struct snapshot *s)
{
	sl_exec_state_close(&s->exec);
	sl_codecs_state_close(&s->codecs);
}

/* Lists the checkpoint's parts, and its notes, whose values must be equal on reading. */
static void list_parts(struct snapshot *s, const struct sl_keep *k, uint64_t step, bool reading)
{
	struct sl_checkpoint *c = &s->c;

	*c = (struct sl_checkpoint){.dir = k->dir, .prefix = k->prefix};
	memcpy(c->pin, k->pin, sizeof c->pin);
	c->n_pin = k->n_pin;
	sl_checkpoint_plan(c, k->plan);
	sl_checkpoint_note(c, "core", "%s", k->core);
	sl_checkpoint_note(c, "step", "%" PRIu64, step);
	if (reading)
		sl_checkpoint_note(c, "link", "%s", "");
	else
		sl_checkpoint_note(c, "link", "%" PRIu64, k->made);
	if (s->records && !reading && k->left[0])
		sl_checkpoint_note(c, left_key, "%s", k->left);
	if (s->records && !reading)
		sl_checkpoint_note(c, asked_key, "%" PRIu64 " %" PRIu64 " %" PRIu64, k->asked[0], k->asked[1], k->run);
	else if (s->records)
		sl_checkpoint_ask(c, asked_key);
	sl_exec_state_parts(&s->exec, c);
	if (s->records)
		sl_checkpoint_bytes(c, "members", s->records->data,
				    (int64_t)(reading ? s->records->cap : s->records->len));
	else
		sl_codecs_state_parts(&s->codecs, reading, c);
}

/* A state and its file are of one step: that which the executor stands at. All of it is in the file, and nothing else;
 * a group's file has the members' records in place of codecs. */
static void check_snapshot(const struct snapshot *s, const struct sl_exec *exec, const struct sl_port *port,
			   uint64_t step)
{
	sl_assert_int(sl_exec_done(exec), ==, step);
	sl_assert(!port == (s->records != NULL));
	sl_assert(!s->c.too_many && s->c.n_part > 0);
	sl_assert_int(s->c.n_pin, <=, SL_CHECKPOINT_MAX_PINS);
	for (int i = 0; i < s->c.n_part; i++) {
		sl_assert_int(s->c.part[i].count, >=, 0);
		sl_assert_if(s->c.part[i].count, s->c.part[i].data);
		for (int j = 0; j < i; j++)
			sl_assert(strcmp(s->c.part[i].name, s->c.part[j].name) != 0);
	}
	for (int dir = 0; dir < SL_DIR_COUNT; dir++)
		sl_assert_int(s->codecs.dir[dir].len, <=, s->codecs.dir[dir].cap);
}

/* The size of the file, with an upper bound for its header. */
static int64_t bytes_of(const struct sl_checkpoint *c)
{
	int64_t bytes = HEADER_BYTES + (c->agreement ? (int64_t)strlen(c->agreement) : 0);

	for (int i = 0; i < c->n_part; i++)
		bytes += c->part[i].count * (c->part[i].floats ? (int64_t)sizeof(float) : 1);
	return bytes;
}

/* Makes room first. Between sl_retention_begin and _end no other job removes the file, even if its session has ended.
 */
static enum sl_err write_file(const struct sl_keep *k, const struct sl_checkpoint *c, uint64_t step,
			      struct sl_fail *fail)
{
	struct sl_retention_write write;
	char name[SL_RETENTION_NAME];
	enum sl_err err;

	if (!k->retention)
		return sl_checkpoint_write(c, step, fail);
	sl_checkpoint_name(name, sizeof name, k->prefix, step);
	err = sl_retention_begin(k->retention, &write, name, k->owned ? &k->owner : NULL, k->prefix, bytes_of(c), fail);
	if (err)
		return err;
	err = sl_checkpoint_write(c, step, fail);
	sl_retention_end(k->retention, &write);
	return err;
}

enum sl_err sl_keep_write(const struct sl_keep *k, uint64_t step, struct sl_exec *exec, struct sl_port *port,
			  const struct sl_buf *records, struct sl_fail *fail)
{
	struct snapshot s;
	enum sl_err err;

	if (!k->dir[0])
		return sl_fail_set(fail, SL_ERR_BUG, "no store to write to");
	err = open_snapshot(&s, k, exec, port, false, fail);
	s.records = records;
	if (!err &&
	    (sl_exec_state_take(&s.exec, exec) || (port && sl_codecs_state_take(&s.codecs, sl_port_codecs(port)))))
		err = sl_fail_set(fail, SL_ERR_DEVICE, "the middle's state could not be read");
	if (!err) {
		list_parts(&s, k, step, false);
		check_snapshot(&s, exec, port, step);
		err = write_file(k, &s.c, step, fail);
	}
	close_snapshot(&s);
	return err;
}

static enum sl_err install(struct snapshot *s, uint64_t step, struct sl_exec *exec, struct sl_port *port,
			   struct sl_fail *fail)
{
	enum sl_err err;

	if (port)
		sl_codecs_state_read(&s->codecs, &s->c);
	err = sl_exec_state_check(&s->exec, exec);
	if (err)
		return sl_fail_set(fail, err,
				   "step %" PRIu64 ": its loss scale or its count of applied steps is not valid", step);
	if (port && sl_codecs_state_give(&s->codecs, sl_port_codecs(port)))
		return sl_fail_set(fail, SL_ERR_DATA, "step %" PRIu64 ": its state does not fit these codecs", step);
	sl_checkpoint_touch(&s->c, step);
	return sl_exec_state_give(&s->exec, exec)
		       ? sl_fail_set(fail, SL_ERR_DEVICE, "the middle's state could not be set")
		       : SL_OK;
}

enum sl_err sl_keep_read(struct sl_keep *k, uint64_t step, struct sl_exec *exec, struct sl_port *port,
			 struct sl_buf *records, struct sl_fail *fail)
{
	struct snapshot s;
	uint64_t made = 0;
	enum sl_err err;

	if (!k->dir[0])
		return sl_fail_set(fail, SL_ERR_NOINPUT, "the server has no store");
	err = open_snapshot(&s, k, exec, port, true, fail);
	s.records = records;
	if (!err) {
		list_parts(&s, k, step, true);
		check_snapshot(&s, exec, port, step);
		if (SL_FAILPOINT_CALL(SL_FP_CKPT_READ_S, 0) != 0)
			err = sl_fail_set(fail, SL_ERR_IO, "the checkpoint of step %" PRIu64 ": %s", step,
					  strerror(errno));
		else
			err = sl_checkpoint_read(&s.c, step, fail);
		if (err == SL_ERR_CANTCREATE) /* the store was moved: this file is not there */
			err = fail->code = SL_ERR_NOINPUT;
	}
	if (!err && !sl_checkpoint_link(&s.c, &made))
		err = sl_fail_set(fail, SL_ERR_DATA, "step %" PRIu64 ": its notes do not name a link", step);
	if (!err)
		err = install(&s, step, exec, port, fail);
	for (int i = 0; i < s.c.n_part && records && !err; i++)
		if (s.c.part[i].data == records->data)
			records->len = (size_t)s.c.part[i].count;
	if (!err)
		k->made = made;
	if (!err && records) {
		sl_assert_int(records->len, <=, records->cap);
		memset(k->asked, 0, sizeof k->asked); /* a file of an earlier version may lack them */
		k->run = 0;
		(void)!sscanf(sl_checkpoint_noted(&s.c, asked_key), "%" SCNu64 " %" SCNu64 " %" SCNu64, &k->asked[0],
			      &k->asked[1], &k->run);
	}
	close_snapshot(&s);
	return err;
}

enum { PREFIX = sizeof((struct sl_keep *)0)->prefix + 8 };

static const char *ends_prefix(const struct sl_keep *k, char out[PREFIX])
{
	snprintf(out, PREFIX, "%s.ends", k->prefix);
	return out;
}

/* The file of heads and tails, with the middle's plan, since these fit no other. */
static void list_ends(struct sl_checkpoint *c, const struct sl_keep *k, const char *prefix, uint64_t step,
		      uint8_t *data, size_t bytes)
{
	*c = (struct sl_checkpoint){.dir = k->dir, .prefix = prefix};
	sl_checkpoint_plan(c, k->plan);
	sl_checkpoint_note(c, "step", "%" PRIu64, step);
	sl_checkpoint_bytes(c, "ends", data, (int64_t)bytes);
}

enum sl_err sl_keep_write_ends(const struct sl_keep *k, uint64_t step, uint64_t branch, struct sl_bytes ends,
			       struct sl_fail *fail)
{
	struct sl_keep keep = *k;
	struct sl_checkpoint c;
	char prefix[PREFIX];

	list_ends(&c, k, ends_prefix(k, prefix), step, (uint8_t *)(uintptr_t)ends.data, ends.len);
	sl_checkpoint_note(&c, "link", "%" PRIu64, branch);
	memcpy(keep.prefix, prefix, sizeof keep.prefix);
	return write_file(&keep, &c, step, fail);
}

enum sl_err sl_keep_read_ends(const struct sl_keep *k, uint64_t step, uint64_t *branch, struct sl_buf *buf,
			      struct sl_fail *fail)
{
	struct sl_checkpoint c;
	char prefix[PREFIX];
	enum sl_err err;

	list_ends(&c, k, ends_prefix(k, prefix), step, buf->data, buf->cap);
	sl_checkpoint_note(&c, "link", "%s", "");
	err = sl_checkpoint_read(&c, step, fail);
	if (!err && !sl_checkpoint_link(&c, branch))
		err = sl_fail_set(fail, SL_ERR_DATA, "step %" PRIu64 ": its notes do not name a link", step);
	for (int i = 0; i < c.n_part && !err; i++)
		if (c.part[i].data == buf->data)
			buf->len = (size_t)c.part[i].count;
	return err || buf->len == buf->cap
		       ? err
		       : sl_fail_set(fail, SL_ERR_DATA, "step %" PRIu64 ": its head and tail have another size", step);
}

void sl_keep_remove_later(const struct sl_keep *k, uint64_t step)
{
	char prefix[PREFIX];

	if (!k->dir[0])
		return;
	sl_checkpoint_leave(k->dir, k->prefix, step);
	sl_checkpoint_leave(k->dir, ends_prefix(k, prefix), step);
}

void sl_keep_only(const struct sl_keep *k, uint64_t step)
{
	char prefix[PREFIX];

	if (!k->dir[0])
		return;
	sl_checkpoint_only(k->dir, k->prefix, step);
	sl_checkpoint_only(k->dir, ends_prefix(k, prefix), step);
}

bool sl_keep_read_seats(const struct sl_keep *k, uint64_t *step, char left[SL_KEEP_SEATS])
{
	struct sl_checkpoint c = {.dir = k->dir, .prefix = k->prefix};
	struct sl_fail why;

	*step = UINT64_MAX;
	sl_checkpoint_ask(&c, left_key);
	if (!k->dir[0] || !sl_checkpoint_older(k->dir, k->prefix, step) || sl_checkpoint_read(&c, *step, &why))
		return false;
	snprintf(left, SL_KEEP_SEATS, "%s", sl_checkpoint_noted(&c, left_key));
	return left[0] != '\0';
}

int64_t sl_keep_file_bytes(const struct sl_keep *k, uint64_t step)
{
	char name[SL_RETENTION_NAME], path[PATH_MAX];
	struct stat st;

	sl_checkpoint_name(name, sizeof name, k->prefix, step);
	return snprintf(path, sizeof path, "%s/%s", k->dir, name) < PATH_MAX && stat(path, &st) == 0 ? st.st_size : 0;
}
