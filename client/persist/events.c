#include "client/persist/events.h"

#include <dirent.h>
#include <errno.h>
#include <fcntl.h>
#include <limits.h>
#include <math.h>
#include <stdio.h>
#include <stdlib.h>
#include <string.h>
#include <unistd.h>

#include "client/persist/crc32c.h"
#include "common/base/clock.h"
#include "common/base/failpoint.h"
#include "common/base/folder.h"

#define PREFIX "events.out.tfevents."
#define OWNER  ".splitc"

enum {
	RECORD_MAX = 4096,
	VALUE_MAX = 64,
	SCALARS_MAX = 9 + SL_JSONL_SCORES,
	TAG_MAX = 40,
	TIME_DIGITS = 10,
	HOST_MAX = 65
};

struct sl_events {
	_Atomic int fd; /* -1: no file, since there was no event yet */
	char dir[PATH_MAX];
	uint64_t newest; /* time in the name of the newest file that an earlier process left; 0: none */
	uint64_t start;  /* step of a START to be written before the next event; 0: none */
	bool begun;      /* the file's version is written */
	bool torn;       /* the file ends with part of a record that could not be cut off: no reader gets past it */
};

/* ---- the part of protobuf that these messages need */

/* Tags: field number << 3 | wire type. */
enum field {
	EVENT_WALL_TIME = 1 << 3 | 1,
	EVENT_STEP = 2 << 3,
	EVENT_FILE_VERSION = 3 << 3 | 2,
	EVENT_SUMMARY = 5 << 3 | 2,
	EVENT_SESSION_LOG = 7 << 3 | 2,
	SUMMARY_VALUE = 1 << 3 | 2,
	VALUE_TAG = 1 << 3 | 2,
	VALUE_SIMPLE = 2 << 3 | 5,
	SESSION_LOG_STATUS = 1 << 3,
	STATUS_START = 1,
};

struct bytes {
	uint8_t data[RECORD_MAX];
	size_t len;
};

_Static_assert(SCALARS_MAX *VALUE_MAX + 64 <= RECORD_MAX, "an event and its frame fit in a record");

static void add(struct bytes *b, const void *from, size_t len)
{
	memcpy(b->data + b->len, from, len);
	b->len += len;
}

static void add_fixed(struct bytes *b, uint64_t value, int width)
{
	for (int i = 0; i < width; i++)
		b->data[b->len++] = (uint8_t)(value >> 8 * i);
}

static void add_varint(struct bytes *b, uint64_t value)
{
	for (; value >= 0x80; value >>= 7)
		b->data[b->len++] = (uint8_t)(value | 0x80);
	b->data[b->len++] = (uint8_t)value;
}

static void add_message(struct bytes *b, enum field field, const void *from, size_t len)
{
	add_varint(b, field);
	add_varint(b, len);
	add(b, from, len);
}

/* An event with its time and step, but without content. */
static struct bytes begin_event(uint64_t step)
{
	struct bytes event = {.len = 0};
	const double seconds = (double)sl_wall_ns() * 1e-9;
	uint64_t bits;

	memcpy(&bits, &seconds, sizeof bits);
	add_varint(&event, EVENT_WALL_TIME);
	add_fixed(&event, bits, 8);
	if (step) {
		add_varint(&event, EVENT_STEP);
		add_varint(&event, step);
	}
	return event;
}

struct scalar {
	const char *tag; /* at most VALUE_MAX - 16 bytes */
	double value;
};

static void add_scalar(struct bytes *summary, const struct scalar *s)
{
	struct bytes value = {.len = 0};
	float simple = (float)s->value;
	uint32_t bits;

	memcpy(&bits, &simple, sizeof bits);
	add_message(&value, VALUE_TAG, s->tag, strlen(s->tag));
	add_varint(&value, VALUE_SIMPLE);
	add_fixed(&value, bits, 4);
	add_message(summary, SUMMARY_VALUE, value.data, value.len);
}

/* ---- records */

/* TFRecord masks its checksums: the CRC of data that contains a plain CRC may be weak. */
static uint32_t masked(uint32_t crc)
{
	return (crc >> 15 | crc << 17) + 0xa282ead8u;
}

static enum sl_err write_all(struct sl_events *e, const struct bytes *record)
{
	off_t begin = lseek(e->fd, 0, SEEK_END);
	size_t done = 0;

	while (done < record->len) {
		ssize_t n = SL_FAILPOINT_WRITE(SL_FP_EVENTS_WRITE, e->fd, record->data + done, record->len - done);

		if (n > 0) {
			done += (size_t)n;
		} else if (n == 0 || errno != EINTR) {
			e->torn = done && (begin < 0 || ftruncate(e->fd, begin) != 0);
			return SL_ERR_IO;
		}
	}
	return SL_OK;
}

static enum sl_err write_record(struct sl_events *e, const struct bytes *event)
{
	struct bytes record = {.len = 0};

	if (e->torn)
		return SL_ERR_IO;
	add_fixed(&record, event->len, 8);
	add_fixed(&record, masked(sl_crc32c(record.data, 8)), 4);
	add(&record, event->data, event->len);
	add_fixed(&record, masked(sl_crc32c(event->data, event->len)), 4);
	return write_all(e, &record);
}

/* ---- files */

/* The time in the name events.out.tfevents.<time>.….splitc; 0: another program's file. */
static uint64_t time_of(const char *name)
{
	size_t len = strlen(name), owner = strlen(OWNER);

	if (strncmp(name, PREFIX, strlen(PREFIX)) != 0 || len < owner || strcmp(name + len - owner, OWNER) != 0)
		return 0;
	name += strlen(PREFIX);
	return strspn(name, "0123456789") == TIME_DIGITS && name[TIME_DIGITS] == '.' ? strtoull(name, NULL, 10) : 0;
}

/* Syncs a file of an earlier process, which may have been killed before it did. */
static void settle(int folder, const char *name)
{
	int fd = openat(folder, name, O_RDONLY | O_NOFOLLOW | O_NONBLOCK | O_CLOEXEC);

	if (fd < 0)
		return;
	(void)!fdatasync(fd);
	close(fd);
}

/* The time of splitc's newest file in `dir`; 0: none. `clear` also removes these files; otherwise they are synced. */
static uint64_t newest_in(const char *dir, bool clear)
{
	DIR *folder = opendir(dir);
	const struct dirent *entry;
	uint64_t newest = 0;

	while (folder && (entry = readdir(folder))) {
		uint64_t at = time_of(entry->d_name);

		newest = at > newest ? at : newest;
		if (at && clear)
			(void)!unlinkat(dirfd(folder), entry->d_name, 0);
		else if (at)
			settle(dirfd(folder), entry->d_name);
	}
	if (folder)
		closedir(folder);
	return newest;
}

/* The name of this host, with characters that a file's name can have. */
static void put_host(char out[HOST_MAX])
{
	memset(out, 0, HOST_MAX);
	if (gethostname(out, HOST_MAX - 1) != 0 || !out[0])
		strcpy(out, "localhost");
	for (char *c = out; *c; c++)
		if (*c == '/' || *c < '!' || *c > '~')
			*c = '-';
}

static enum sl_err create(struct sl_events *e)
{
	uint64_t now = (uint64_t)sl_wall_s();
	char path[PATH_MAX], host[HOST_MAX];

	put_host(host);
	if (snprintf(path, sizeof path, "%s/" PREFIX "%0*llu.%s.%ld" OWNER, e->dir, TIME_DIGITS,
		     (unsigned long long)(now > e->newest ? now : e->newest + 1), host,
		     (long)getpid()) >= (int)sizeof path)
		return SL_ERR_CANTCREATE;
	if (sl_folder_check(path, NULL) != SL_OK)
		return SL_ERR_CANTCREATE;
	e->fd = SL_FAILPOINT_CALL(SL_FP_EVENTS_OPEN,
				  open(path, O_WRONLY | O_CREAT | O_EXCL | O_CLOEXEC | O_APPEND, 0600));
	if (e->fd < 0)
		return SL_ERR_CANTCREATE;
	(void)!sl_folder_sync_of(path);
	return SL_OK;
}

/* ---- events */

static enum sl_err put_version(struct sl_events *e)
{
	static const char version[] = "brain.Event:2";
	struct bytes event = begin_event(0);
	enum sl_err err;

	add_message(&event, EVENT_FILE_VERSION, version, sizeof version - 1);
	err = write_record(e, &event);
	e->begun = !err;
	return err;
}

static enum sl_err put_start(struct sl_events *e)
{
	static const uint8_t start[] = {SESSION_LOG_STATUS, STATUS_START};
	struct bytes event = begin_event(e->start);
	enum sl_err err;

	add_message(&event, EVENT_SESSION_LOG, start, sizeof start);
	err = write_record(e, &event);
	if (!err)
		e->start = 0;
	return err;
}

static enum sl_err put(struct sl_events *e, const struct bytes *event)
{
	enum sl_err err = e->fd < 0 ? create(e) : SL_OK;

	if (!err && !e->begun)
		err = put_version(e);
	if (!err && e->start)
		err = put_start(e);
	return err ? err : write_record(e, event);
}

static enum sl_err put_scalars(struct sl_events *e, uint64_t step, const struct scalar *s, size_t n)
{
	struct bytes event = begin_event(step), summary = {.len = 0};

	for (size_t i = 0; i < n; i++)
		if (isfinite(s[i].value))
			add_scalar(&summary, &s[i]);
	add_message(&event, EVENT_SUMMARY, summary.data, summary.len);
	return put(e, &event);
}

enum sl_err sl_events_step(struct sl_events *e, const struct sl_jsonl_step *s)
{
	const struct scalar scalar[] = {
		{"train/loss", s->loss},
		{"train/acc", s->acc},
		{"lr", s->lr},
		{"train/grad_norm", s->grad_norm},
		{"wire/tx_bytes", (double)s->wire_tx_bytes},
		{"wire/rx_bytes", (double)s->wire_rx_bytes},
		{"time/step_s", s->t_step_s},
		{"time/compute_s", s->t_compute_s},
		{"time/wait_s", s->t_wait_s},
	};

	_Static_assert(sizeof scalar / sizeof scalar[0] <= SCALARS_MAX, "they fit in a record");
	return e ? put_scalars(e, s->step, scalar, sizeof scalar / sizeof scalar[0]) : SL_OK;
}

enum sl_err sl_events_epoch(struct sl_events *e, const struct sl_jsonl_epoch *s)
{
	struct scalar scalar[SCALARS_MAX] = {
		{"epoch/train_loss", s->train_loss},
		{"epoch/train_acc", s->train_acc},
		{"eval/loss", s->test_loss},
		{"eval/acc", s->test_acc},
		{"epoch/tx_bytes", (double)s->wire_tx_bytes},
		{"epoch/rx_bytes", (double)s->wire_rx_bytes},
		{"epoch/train_s", s->t_train_s},
		{"epoch/eval_s", s->t_eval_s},
		{"epoch/samples_per_s", s->samples_per_s},
	};
	char tag[SL_JSONL_SCORES][TAG_MAX];
	size_t n = SCALARS_MAX - SL_JSONL_SCORES;

	for (int i = 0; i < SL_JSONL_SCORES && s->score[i].name; i++, n++) {
		snprintf(tag[i], TAG_MAX, "eval/%s", s->score[i].name);
		scalar[n] = (struct scalar){tag[i], s->score[i].value};
	}
	return e ? put_scalars(e, s->steps, scalar, n) : SL_OK;
}

void sl_events_start(struct sl_events *e, uint64_t step)
{
	if (e)
		e->start = step;
}

enum sl_err sl_events_open(struct sl_events **out, const char *dir, bool anew, struct sl_fail *fail)
{
	struct sl_events *e = calloc(1, sizeof *e);

	if (!e)
		return sl_fail_set(fail, SL_ERR_NOMEM, "no memory for events");
	e->fd = -1;
	snprintf(e->dir, sizeof e->dir, "%s", dir);
	e->newest = newest_in(dir, anew);
	*out = e;
	return SL_OK;
}

enum sl_err sl_events_sync(struct sl_events *e)
{
	if (!e || e->fd < 0 || SL_FAILPOINT_CALL(SL_FP_EVENTS_SYNC, fdatasync(e->fd)) == 0)
		return SL_OK;
	return errno == EINVAL || errno == EROFS ? SL_OK : SL_ERR_IO; /* a file that cannot be synced, as in jsonl.c */
}

enum sl_err sl_events_close(struct sl_events *e)
{
	enum sl_err err = sl_events_sync(e);

	if (e && e->fd >= 0 && close(e->fd) != 0)
		err = SL_ERR_IO;
	free(e);
	return err;
}
