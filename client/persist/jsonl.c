#include "client/persist/jsonl.h"

#include <errno.h>
#include <fcntl.h>
#include <jansson.h>
#include <limits.h>
#include <math.h>
#include <stdbool.h>
#include <stdio.h>
#include <stdlib.h>
#include <string.h>
#include <sys/file.h>
#include <unistd.h>

#include "common/base/failpoint.h"
#include "common/base/folder.h"
#include "common/base/guard.h"
#include "common/base/log.h"
#include "common/conf/conf.h"
#include "common/telemetry/chained.h"
#include "common/telemetry/json.h"

struct sl_jsonl {
	struct sl_chained lines;
};

static enum sl_err folder_of(char dir[PATH_MAX], const char *path, struct sl_fail *fail)
{
	return sl_folder_of(path, dir) ? SL_OK : sl_fail_set(fail, SL_ERR_CANTCREATE, "%s: path too long", path);
}

/* Locks the file until it is closed. On a file system without locks the log is written all the same. */
static enum sl_err lock(int fd, const char *path, struct sl_fail *fail)
{
	if (flock(fd, LOCK_EX | LOCK_NB) == 0 || errno != EWOULDBLOCK)
		return SL_OK;
	return sl_fail_set(fail, SL_ERR_BUSY, "%s: another run is writing it; give this one a log.dir of its own",
			   path);
}

enum sl_err sl_jsonl_check(const char *path, struct sl_fail *fail)
{
	int fd = open(path, O_WRONLY | O_CLOEXEC | O_APPEND | O_NONBLOCK | O_NOFOLLOW);
	char dir[PATH_MAX];
	enum sl_err err;

	if (fd < 0 && errno != ENOENT && errno != ENXIO) /* ENXIO: a pipe that nobody reads yet */
		return sl_guard_open_failed(path, fail);
	if (fd < 0) {
		err = folder_of(dir, path, fail);
		return err ? err : sl_folder_try(dir, fail);
	}
	err = sl_guard_written(fd, path, fail);
	if (!err)
		err = lock(fd, path, fail);
	close(fd);
	return err;
}

enum sl_err sl_jsonl_open(struct sl_jsonl **out, const char *path, struct sl_fail *fail)
{
	char dir[PATH_MAX];
	enum sl_err err = folder_of(dir, path, fail);
	struct sl_jsonl *log;

	if (!err)
		err = sl_folder_make(dir, 0700, fail);
	if (err)
		return err;
	log = calloc(1, sizeof *log);
	if (!log)
		return sl_fail_set(fail, SL_ERR_NOMEM, "%s: no memory", path);
	err = sl_chained_open(&log->lines, path, SL_FP_LOG_OPEN, fail);
	if (!err)
		err = lock(log->lines.fd, path, fail);
	if (err) {
		if (log->lines.fd >= 0)
			close(log->lines.fd);
		free(log);
		return err;
	}
	(void)sl_chained_head(&log->lines); /* no other process writes it */
	(void)!sl_folder_sync_of(path);     /* so that a log without checkpoints survives too; in /dev it may fail */
	*out = log;
	return SL_OK;
}

enum sl_err sl_jsonl_empty(struct sl_jsonl *log)
{
	sl_chain_begin(log->lines.head);
	return ftruncate(log->lines.fd, 0) == 0 || errno == EINVAL /* a pipe, a device */ ? SL_OK : SL_ERR_IO;
}

/* True after a sync that failed because the file is a pipe or a device: that is no error. */
static bool cannot_sync(void)
{
	return errno == EINVAL || errno == EROFS;
}

static json_t *integer(uint64_t n)
{
	return json_integer((json_int_t)n);
}

const char *sl_jsonl_head(struct sl_jsonl *log)
{
	return log ? sl_chained_head(&log->lines) : "";
}

enum sl_err sl_jsonl_line(struct sl_jsonl *log, json_t *line)
{
	if (log)
		return sl_chained_put(&log->lines, line, SL_FP_LOG_WRITE);
	json_decref(line);
	return SL_OK;
}

enum sl_err sl_jsonl_step(struct sl_jsonl *log, const struct sl_jsonl_step *s)
{
	json_t *line;

	if (!log)
		return SL_OK;
	line = json_pack("{ss so so so so so so so so so so}", "type", "step", "step", integer(s->step), "loss",
			 sl_json_real(s->loss), "acc", sl_json_real(s->acc), "lr", sl_json_real(s->lr), "wire_tx_bytes",
			 integer(s->wire_tx_bytes), "wire_rx_bytes", integer(s->wire_rx_bytes), "t_step_s",
			 sl_json_real(s->t_step_s), "t_compute_s", sl_json_real(s->t_compute_s), "t_wait_s",
			 sl_json_real(s->t_wait_s), "t_data_s", sl_json_real(s->t_data_s));
	if (isfinite(s->grad_norm))
		json_object_set_new(line, "grad_norm", sl_json_real(s->grad_norm));
	if (s->skipped)
		json_object_set_new(line, "skipped", json_true());
	return sl_jsonl_line(log, line);
}

static json_t *scores(const struct sl_jsonl_score *score)
{
	json_t *all = json_object();

	for (int i = 0; i < SL_JSONL_SCORES && score[i].name; i++)
		json_object_set_new(all, score[i].name, sl_json_real(score[i].value));
	return all;
}

enum sl_err sl_jsonl_epoch(struct sl_jsonl *log, const struct sl_jsonl_epoch *e)
{
	json_t *line = json_pack(
		"{ss so so so so so so so so so so so so so so ss?}", "type", "epoch", "epoch", integer(e->epoch),
		"steps", integer(e->steps), "train_loss", sl_json_real(e->train_loss), "train_acc",
		sl_json_real(e->train_acc), "test_loss", sl_json_real(e->test_loss), "test_acc",
		sl_json_real(e->test_acc), "lr", sl_json_real(e->lr), "wire_tx_bytes", integer(e->wire_tx_bytes),
		"wire_rx_bytes", integer(e->wire_rx_bytes), "t_train_s", sl_json_real(e->t_train_s), "t_eval_s",
		sl_json_real(e->t_eval_s), "samples_per_s", sl_json_real(e->samples_per_s), "test_metrics",
		scores(e->score), "dcor_squared", sl_json_real(e->dcor_squared), "evaluated_part", e->evaluated_part);

	if (isfinite(e->epsilon))
		json_object_set_new(line, "epsilon", sl_json_real(e->epsilon));
	return sl_jsonl_line(log, line);
}

enum sl_err sl_jsonl_audit(struct sl_jsonl *log, const struct sl_jsonl_audit *a)
{
	return sl_jsonl_line(log, json_pack("{ss so so ss so so}", "type", "audit", "step", integer(a->step), "steps",
					    integer(a->steps), "found", a->found, "t_s", sl_json_real(a->t_s),
					    "fetched_bytes", integer(a->fetched_bytes)));
}

json_t *sl_jsonl_directions(const struct sl_jsonl_direction *d)
{
	json_t *all = json_object();

	for (int i = 0; i < SL_JSONL_DIRECTIONS; i++)
		if (d[i].name)
			json_object_set_new(all, d[i].name,
					    json_pack("{ss* so so so so}", "codec", d[i].codec, "wire_bytes",
						      integer(d[i].wire_bytes), "payload_bytes",
						      integer(d[i].payload_bytes), "raw_bytes", integer(d[i].raw_bytes),
						      "nominal_bytes", sl_json_real(d[i].nominal_bytes)));
	return all;
}

json_t *sl_jsonl_words(const struct sl_jsonl_summary *s)
{
	json_t *all = json_array();

	for (int i = 0; i < SL_JSONL_WORDS && s->word[i]; i++)
		json_array_append_new(all, json_string(s->word[i]));
	return all;
}

json_t *sl_jsonl_baseline(const struct sl_jsonl_summary *s)
{
	if (s->majority)
		return json_pack("{s:o, s:o}", "class", sl_json_text(s->majority), "acc",
				 sl_json_real(s->majority_share));
	return isfinite(s->spread) ? json_pack("{s:o}", "rmse", sl_json_real(s->spread)) : json_null();
}

json_t *sl_jsonl_intervals(const struct sl_jsonl_summary *s)
{
	const struct {
		const char *name;
		const double *of;
	} all[] = {{"acc", s->acc_interval}, {"auc", s->auc_interval}};
	json_t *out = json_object();

	for (size_t i = 0; i < sizeof all / sizeof all[0]; i++)
		if (isfinite(all[i].of[0]))
			json_object_set_new(out, all[i].name, json_pack("[f, f]", all[i].of[0], all[i].of[1]));
	if (!json_object_size(out)) {
		json_decref(out);
		return json_null();
	}
	json_object_set_new(out, "level", json_real(0.95));
	json_object_set_new(out, "samples", integer(s->evaluated));
	json_object_set_new(out, "groups", s->groups ? integer(s->groups) : json_null());
	return out;
}

json_t *sl_jsonl_rounding(const double *rounding, int n)
{
	json_t *list = json_array();
	bool any = false;

	for (int k = 0; k < n && k < SL_CONF_LABELS_MAX && rounding; k++) {
		json_array_append_new(list, json_real(rounding[k]));
		any |= rounding[k] > 0;
	}
	if (any)
		return list;
	json_decref(list);
	return json_null();
}

json_t *sl_jsonl_audited(const struct sl_jsonl_summary *s)
{
	const struct sl_jsonl_share *a = s->audited;

	return s->audits ? json_pack("{so so so so so so}", "steps", integer(a[0].part), "of_steps", integer(a[0].of),
				     "eval_batches", integer(a[1].part), "of_eval_batches", integer(a[1].of),
				     "last_batches", integer(a[2].part), "of_last_batches", integer(a[2].of))
			 : json_null();
}

json_t *sl_jsonl_privacy(const struct sl_jsonl_summary *s)
{
	const struct sl_jsonl_privacy *p = &s->privacy;

	if (!(p->delta > 0))
		return json_null();
	return json_pack("{so so sf so so sb so so so}", "epsilon", sl_json_real(p->epsilon), "evaluated_epsilon",
			 sl_json_real(p->evaluated_epsilon), "delta", p->delta, "releases", integer(p->releases),
			 "evaluated_releases", integer(p->evaluated_releases), "spent", p->spent, "budget",
			 p->budget > 0 ? json_real(p->budget) : json_null(), "head_act_clipped",
			 sl_json_real(p->act_clipped), "mid_grad_clipped", sl_json_real(p->grad_clipped));
}

json_t *sl_jsonl_warnings(void)
{
	json_t *all = json_array();
	struct sl_log_warning w;

	for (int i = 0; sl_log_warning(i, &w); i++)
		json_array_append_new(all, json_pack("{s:s, s:o}", "id", w.id, "text", sl_json_text(w.text)));
	return all;
}

enum sl_err sl_jsonl_summary(struct sl_jsonl *log, const struct sl_jsonl_summary *s)
{
	json_t *line = json_pack(
		"{ss ss* so so so so so so so so so so so so so so so so so so so so so so so so so so so "
		"so ss? ss? so so so so so ss?}",
		"type", "summary", "outcome", s->outcome, "epochs", integer(s->epochs), "steps", integer(s->steps),
		"skipped", integer(s->skipped), "samples", integer(s->samples), "test_loss", sl_json_real(s->test_loss),
		"test_acc", sl_json_real(s->test_acc), "best_test_acc", sl_json_real(s->best_test_acc), "best_step",
		s->best_step ? integer(s->best_step) : json_null(), "t_total_s", sl_json_real(s->t_total_s),
		"t_per_batch_s", sl_json_real(s->t_per_batch_s), "t_compute_per_batch_s",
		sl_json_real(s->t_compute_per_batch_s), "avg_mb_s", sl_json_real(s->avg_mb_s), "peak_client_mb_s",
		sl_json_real(s->peak_client_mb_s), "peak_server_mb_s", sl_json_real(s->peak_server_mb_s),
		"wire_tx_bytes", integer(s->wire_tx_bytes), "wire_rx_bytes", integer(s->wire_rx_bytes),
		"weights_tx_bytes", integer(s->weights_tx_bytes), "weights_rx_bytes", integer(s->weights_rx_bytes),
		"framing_tx_bytes", integer(s->framing_tx_bytes), "framing_rx_bytes", integer(s->framing_rx_bytes),
		"curve_tx_bytes", integer(s->curve_tx_bytes), "curve_rx_bytes", integer(s->curve_rx_bytes),
		"audits_begun", integer(s->audits_begun), "audits_ended", integer(s->audits_ended), "direction",
		sl_jsonl_directions(s->direction), "test_metrics", scores(s->score), "tx_mb_s",
		sl_json_real(s->tx_mb_s), "rx_mb_s", sl_json_real(s->rx_mb_s), "test_undefined", s->undefined,
		"best_metric", s->best_metric, "still_steps", integer(s->still), "servers_word", sl_jsonl_words(s),
		"label_rounding", sl_jsonl_rounding(s->rounding, s->numbers), "warned", integer(sl_log_warned()),
		"warnings", sl_jsonl_warnings(), "evaluated_part", s->evaluated_part);

	json_object_set_new(line, "test_baseline", sl_jsonl_baseline(s));
	json_object_set_new(line, "test_intervals", sl_jsonl_intervals(s));
	json_object_set_new(line, "privacy", sl_jsonl_privacy(s));
	json_object_set_new(line, "audited", sl_jsonl_audited(s));
	json_object_set_new(line, "group", s->group ? json_loads(s->group, 0, NULL) : json_null());
	return sl_jsonl_line(log, line);
}

enum sl_err sl_jsonl_tell(struct sl_jsonl *log, uint64_t *offset)
{
	off_t end = log ? lseek(log->lines.fd, 0, SEEK_END) : 0;

	if (end < 0)
		return SL_ERR_IO;
	*offset = (uint64_t)end;
	return SL_OK;
}

enum sl_err sl_jsonl_cut(struct sl_jsonl *log, uint64_t offset, const char *head)
{
	uint64_t end;
	enum sl_err err = sl_jsonl_tell(log, &end);

	if (!log || err)
		return err;
	if (offset > end)
		return SL_ERR_DATA;
	snprintf(log->lines.head, sizeof log->lines.head, "%s", head);
	return SL_FAILPOINT_CALL(SL_FP_LOG_CUT, ftruncate(log->lines.fd, (off_t)offset)) == 0 ? SL_OK : SL_ERR_IO;
}

enum sl_err sl_jsonl_sync(struct sl_jsonl *log)
{
	return !log || SL_FAILPOINT_CALL(SL_FP_LOG_SYNC, fdatasync(log->lines.fd)) == 0 || cannot_sync() ? SL_OK
													 : SL_ERR_IO;
}

enum sl_err sl_jsonl_close(struct sl_jsonl *log)
{
	int fd, synced;

	if (!log)
		return SL_OK;
	fd = log->lines.fd;
	free(log);
	synced = SL_FAILPOINT_CALL(SL_FP_LOG_CLOSE, fsync(fd)) == 0 || cannot_sync();
	return close(fd) == 0 && synced ? SL_OK : SL_ERR_IO;
}
