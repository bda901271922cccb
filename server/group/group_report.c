/* Figures of members' evaluations: GROUP.reports.jsonl in the store, a line for each report, with its signature. On the
 * loop. A report that is not taken costs its member nothing but an answer that says why. */
#include <errno.h>
#include <fcntl.h>
#include <inttypes.h>
#include <limits.h>
#include <stdio.h>
#include <stdlib.h>
#include <string.h>
#include <sys/stat.h>
#include <unistd.h>

#include <jansson.h>

#include "common/base/clock.h"
#include "common/base/folder.h"
#include "common/base/guard.h"
#include "common/base/log.h"
#include "common/link/proof.h"
#include "common/telemetry/json.h"
#include "server/group/group_impl.h"

enum { SCORES_MOST = 32, FILE_MOST = 64 << 20 };

static bool is_figure(const json_t *x)
{
	return json_is_number(x) || json_is_null(x);
}

static bool are_scores(const json_t *scores)
{
	const char *name;
	json_t *value;

	if (!json_is_object(scores) || json_object_size(scores) > SCORES_MOST)
		return false;
	json_object_foreach((json_t *)(uintptr_t)scores, name,
			    value) if (!is_figure(value) || strlen(name) > 40) return false;
	return true;
}

/* Whether the report has its five figures, and nothing else. */
static bool is_report(const json_t *r)
{
	const json_t *correct = json_object_get(r, "correct");

	return json_object_size(r) == 5 && json_is_integer(json_object_get(r, "step")) &&
	       json_is_integer(json_object_get(r, "samples")) && is_figure(json_object_get(r, "loss")) &&
	       (json_is_null(correct) || json_is_integer(correct)) && are_scores(json_object_get(r, "scores"));
}

static enum sl_err check(const struct sl_group *g, const struct sl_middle *m, const struct sl_wire_report *report,
			 uint64_t *step, struct sl_fail *fail)
{
	const int k = sl_group_seat_of(m);
	const struct sl_group_member *p = &g->member[k];
	const size_t len = strlen(report->text);
	json_t *r = len <= SL_WIRE_REPORT_MOST ? json_loadb(report->text, len, JSON_REJECT_DUPLICATES, NULL) : NULL;
	const bool is = is_report(r);
	const json_int_t samples = json_integer_value(json_object_get(r, "samples")),
			 correct = json_integer_value(json_object_get(r, "correct")),
			 at = json_integer_value(json_object_get(r, "step"));

	json_decref(r);
	*step = (uint64_t)at;
	if (len > SL_WIRE_REPORT_MOST)
		return sl_fail_set(fail, SL_ERR_LIMIT, "a report has at most %d bytes, and this one has %zu",
				   SL_WIRE_REPORT_MOST, len);
	if (!sl_report_holds(report, sl_port_session(m->port)->hello.session, g->name, k))
		return sl_fail_set(fail, SL_ERR_AUTH, "it is not signed by the key of member %d", k);
	if (!is)
		return sl_fail_set(fail, SL_ERR_PROTOCOL,
				   "a report is JSON with step, samples, loss, correct and scores: numbers, or null");
	if (samples < m->env.report_samples)
		return sl_fail_set(fail, SL_ERR_LIMIT,
				   "an evaluation of %lld samples, and limits.report_samples is %d: fewer tell about "
				   "single ones",
				   (long long)samples, m->env.report_samples);
	if (correct < 0 || correct > samples || at < 0 || *step > g->t.step)
		return sl_fail_set(fail, SL_ERR_PROTOCOL,
				   "%lld of %lld samples are correct in step %lld, and the group has done %" PRIu64
				   " steps",
				   (long long)correct, (long long)samples, (long long)at, g->t.step);
	if (*step < p->reported)
		return sl_fail_set(fail, SL_ERR_PROTOCOL, "step %" PRIu64 " was reported before", *step);
	return SL_OK;
}

/* NULL: no memory. */
static char *write_line(const struct sl_group *g, const struct sl_middle *m, const struct sl_wire_report *report)
{
	const uint8_t *session = sl_port_session(m->port)->hello.session;
	char id[2 * SL_SESSION_BYTES + 1], signature[2 * SL_PROOF_BYTES + 1], run[17];
	json_t *line;
	char *text;

	for (int i = 0; i < SL_SESSION_BYTES; i++)
		snprintf(id + 2 * i, 3, "%02x", session[i]);
	for (int i = 0; i < SL_PROOF_BYTES; i++)
		snprintf(signature + 2 * i, 3, "%02x", report->signature[i]);
	snprintf(run, sizeof run, "%016" PRIx64, g->run);
	line = json_pack("{sisisssssssssI}", "member", sl_group_seat_of(m), "members", g->n, "run", run, "report",
			 report->text, "session", id, "signature", signature, "time", (json_int_t)sl_wall_s());
	text = line ? sl_json_dump(line, JSON_COMPACT) : NULL;
	json_decref(line);
	return text;
}

/* A power cut can leave half a line at the end, which would spoil the next one. */
static bool ends_whole(int fd, off_t size)
{
	char last = '\n';

	if (size)
		(void)!pread(fd, &last, 1, size - 1);
	return last == '\n';
}

/* The member takes a report for kept once no answer says otherwise: so it is on the disk then. */
static bool write_down(int fd, const char *path, off_t size, const char *line, size_t len)
{
	return (ends_whole(fd, size) || write(fd, "\n", 1) == 1) && write(fd, line, len) == (ssize_t)len &&
	       fdatasync(fd) == 0 && (size || sl_folder_sync_of(path) == 0);
}

static enum sl_err append(const char *path, const char *line, size_t len, struct sl_fail *fail)
{
	const int fd = open(path, O_RDWR | O_CREAT | O_CLOEXEC | O_APPEND | O_NOFOLLOW, 0600);
	enum sl_err err = fd < 0 ? sl_guard_open_failed(path, fail) : sl_guard_written(fd, path, fail);
	struct stat st;

	if (!err && (fstat(fd, &st) || st.st_size > FILE_MOST))
		err = sl_fail_set(fail, SL_ERR_LIMIT, "the server's file of reports is full");
	if (!err && !write_down(fd, path, st.st_size, line, len)) {
		err = sl_fail_set(fail, SL_ERR_IO, "the server cannot write it: %s", strerror(errno));
		(void)!ftruncate(fd, st.st_size); /* half a line would spoil the next one, too */
	}
	if (fd >= 0)
		close(fd);
	return err;
}

static enum sl_err keep(const struct sl_group *g, const struct sl_middle *m, const struct sl_wire_report *report,
			struct sl_fail *fail)
{
	char path[PATH_MAX], *line;
	enum sl_err err;

	if (!m->env.store[0] || snprintf(path, sizeof path, "%s/%s.reports.jsonl", m->env.store, g->name) >= PATH_MAX)
		return sl_fail_set(fail, SL_ERR_UNAVAILABLE, "the server has no store for reports");
	err = sl_folder_check(path, fail);
	line = err ? NULL : write_line(g, m, report);
	if (!err && !line)
		err = sl_fail_set(fail, SL_ERR_NOMEM, "no memory for a report");
	if (!err) {
		const size_t len = strlen(line);

		line[len] = '\n'; /* over the NUL */
		err = append(path, line, len + 1, fail);
	}
	free(line);
	return err;
}

void sl_group_hear_report(struct sl_group *g, struct sl_middle *m)
{
	const struct sl_wire_report *report = sl_port_report(m->port);
	struct sl_wire_report answer = {.text = ""};
	struct sl_fail fail;
	uint64_t step;
	enum sl_err err = check(g, m, report, &step, &fail);

	if (!err)
		err = keep(g, m, report, &fail);
	if (!err) {
		g->member[sl_group_seat_of(m)].reported = step + 1;
		return;
	}
	sl_log_limited(SL_LOG_WARN, "report-refused", "group %s: the report of member %d: %s", g->name,
		       sl_group_seat_of(m), fail.text);
	snprintf(answer.text, sizeof answer.text, "%.400s", fail.text);
	sl_port_event(m->port, &(struct sl_event){.kind = SL_EV_SAY, .report = &answer});
}
