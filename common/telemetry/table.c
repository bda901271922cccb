/* The status as a table for people. */
#include <inttypes.h>
#include <math.h>
#include <stdarg.h>
#include <stdbool.h>
#include <string.h>

#include "common/telemetry/progress.h"
#include "common/telemetry/status.h"

enum { CELL = 64, ID_SHOWN = 8, LONG_TASK_S = 10 };

struct column {
	const char *title;
	bool left; /* else numbers, to the right */
	void (*cell)(const struct sl_status_session *s, char out[CELL]);
};

/* What a peer sent must not steer the terminal; nothing but ASCII keeps columns straight. */
static void put_line(char *out, int cap, const char *text)
{
	int i;

	for (i = 0; i < cap - 1 && text[i]; i++)
		out[i] = text[i] >= ' ' && text[i] < 0x7f ? text[i] : '?';
	out[i] = 0;
	if (i == 0)
		strcpy(out, "-");
}

static void put_text(char out[CELL], const char *text)
{
	put_line(out, CELL, text);
}

static void SL_PRINTF(3, 4) put_real(char out[CELL], double x, const char *fmt, ...)
{
	va_list args;

	va_start(args, fmt);
	if (isnan(x))
		strcpy(out, "-");
	else
		vsnprintf(out, CELL, fmt, args);
	va_end(args);
}

static void put_bytes(char out[CELL], int64_t n)
{
	static const char *const unit[] = {"B", "kB", "MB", "GB", "TB", "PB"};
	double x = (double)n;
	int i = 0;

	while (x >= 999.95 && i < 5) {
		x /= 1000;
		i++;
	}
	snprintf(out, CELL, i ? "%.1f %s" : "%.0f %s", x, unit[i]);
}

static void cell_id(const struct sl_status_session *s, char out[CELL])
{
	put_text(out, s->id);
	out[ID_SHOWN] = 0;
}

static void cell_peer(const struct sl_status_session *s, char out[CELL])
{
	put_text(out, s->peer);
}

static void cell_model(const struct sl_status_session *s, char out[CELL])
{
	put_text(out, s->model);
}

static void cell_cut(const struct sl_status_session *s, char out[CELL])
{
	put_text(out, s->partition);
}

static void cell_codec(const struct sl_status_session *s, char out[CELL])
{
	char all[4 * SL_STATUS_TEXT + 4];
	bool same = true;

	for (int i = 1; i < 4; i++)
		same = same && strcmp(s->codec[i], s->codec[0]) == 0;
	snprintf(all, sizeof all, "%s %s %s %s", s->codec[0], s->codec[1], s->codec[2], s->codec[3]);
	put_text(out, same ? s->codec[0] : all);
}

static void cell_phase(const struct sl_status_session *s, char out[CELL])
{
	put_text(out, s->phase);
}

static void cell_epoch(const struct sl_status_session *s, char out[CELL])
{
	snprintf(out, CELL, "%" PRId64, s->epoch);
}

static void cell_step(const struct sl_status_session *s, char out[CELL])
{
	snprintf(out, CELL, "%" PRId64, s->step);
}

static void cell_loss(const struct sl_status_session *s, char out[CELL])
{
	put_real(out, s->loss, "%.4f", s->loss);
}

static void cell_acc(const struct sl_status_session *s, char out[CELL])
{
	put_real(out, s->acc, "%.1f%%", 100 * s->acc);
}

static void cell_rate(const struct sl_status_session *s, char out[CELL])
{
	put_real(out, s->images_per_s, "%.0f", s->images_per_s);
}

static void cell_tx_rate(const struct sl_status_session *s, char out[CELL])
{
	put_real(out, s->tx_mb_s, "%.1f", s->tx_mb_s);
}

static void cell_rx_rate(const struct sl_status_session *s, char out[CELL])
{
	put_real(out, s->rx_mb_s, "%.1f", s->rx_mb_s);
}

static void cell_tx(const struct sl_status_session *s, char out[CELL])
{
	put_bytes(out, s->tx_bytes);
}

static void cell_rx(const struct sl_status_session *s, char out[CELL])
{
	put_bytes(out, s->rx_bytes);
}

static void cell_age(const struct sl_status_session *s, char out[CELL])
{
	char text[16];

	put_text(out, sl_progress_duration(s->age_s, text));
}

static void cell_idle(const struct sl_status_session *s, char out[CELL])
{
	char text[16];

	put_text(out, sl_progress_duration(s->idle_s, text));
}

static const struct column columns[] = {
	{"SESSION", true, cell_id},       {"PEER", true, cell_peer},   {"MODEL", true, cell_model},
	{"CUT", true, cell_cut},          {"CODEC", true, cell_codec}, {"PHASE", true, cell_phase},
	{"EPOCH", false, cell_epoch},     {"STEP", false, cell_step},  {"LOSS", false, cell_loss},
	{"ACC", false, cell_acc},         {"IMG/S", false, cell_rate}, {"TX MB/S", false, cell_tx_rate},
	{"RX MB/S", false, cell_rx_rate}, {"SENT", false, cell_tx},    {"RECEIVED", false, cell_rx},
	{"AGE", false, cell_age},         {"IDLE", false, cell_idle},
};

enum { COLUMNS = sizeof columns / sizeof columns[0] };

static void print_cell(FILE *file, int column, int width, const char *text)
{
	const char *gap = column ? "  " : "";

	if (!columns[column].left)
		fprintf(file, "%s%*s", gap, width, text);
	else
		fprintf(file, "%s%-*s", gap, width, text);
}

/* Below the table: what needs somebody's hand. */
static void print_missed(FILE *file, const struct sl_status_session *s)
{
	char id[CELL], why[SL_STATUS_TEXT];

	if (!s->checkpoint_missed)
		return;
	cell_id(s, id);
	put_line(why, sizeof why, s->checkpoint_error);
	fprintf(file, "%s checkpoint: failed at step %" PRId64 ": %s; last good %" PRId64 "\n", id,
		s->checkpoint_missed, why, s->checkpoint_step);
}

void sl_status_table(const struct sl_status *status, FILE *file)
{
	char cell[CELL], text[4][CELL], up[16];
	int width[COLUMNS];

	put_text(text[0], status->role);
	put_text(text[1], status->version);
	put_text(text[2], status->address);
	put_text(text[3], status->device);
	fprintf(file, "%s %s  pid %" PRId64 "  %s  %s, %" PRId64 " threads  up %s  %d session%s\n", text[0], text[1],
		status->pid, text[2], text[3], status->threads, sl_progress_duration(status->uptime_s, up),
		status->n_session, status->n_session == 1 ? "" : "s");
	if (status->malformed || status->turned_away)
		fprintf(file, "%" PRId64 " malformed messages, %" PRId64 " peers turned away\n", status->malformed,
			status->turned_away);
	if (status->lost || status->rejected || status->stale)
		fprintf(file,
			"%" PRId64 " of %" PRId64 " links lost, %" PRId64 " of %" PRId64 " frames rejected, %" PRId64
			" of older epochs\n",
			status->lost, status->links, status->rejected, status->frames, status->stale);
	if (status->task_s >= LONG_TASK_S)
		fprintf(file, "a task has run for %s\n", sl_progress_duration(status->task_s, up));
	if (status->store_files) {
		put_bytes(cell, status->store_bytes);
		fprintf(file, "store: %" PRId64 " files, %s, the oldest unused for %s\n", status->store_files, cell,
			sl_progress_duration(status->store_oldest_s, up));
	}
	if (status->n_session == 0)
		return;
	for (int c = 0; c < COLUMNS; c++) {
		width[c] = (int)strlen(columns[c].title);
		for (int i = 0; i < status->n_session; i++) {
			columns[c].cell(&status->session[i], cell);
			if ((int)strlen(cell) > width[c])
				width[c] = (int)strlen(cell);
		}
	}
	for (int c = 0; c < COLUMNS; c++)
		print_cell(file, c, width[c], columns[c].title);
	fputc('\n', file);
	for (int i = 0; i < status->n_session; i++) {
		for (int c = 0; c < COLUMNS; c++) {
			columns[c].cell(&status->session[i], cell);
			print_cell(file, c, width[c], cell);
		}
		fputc('\n', file);
	}
	for (int i = 0; i < status->n_session; i++)
		if (status->session[i].skipped)
			fprintf(file, "%.*s: %" PRId64 " steps skipped for NaN or Inf\n", ID_SHOWN,
				status->session[i].id, status->session[i].skipped);
	for (int i = 0; i < status->n_session; i++)
		print_missed(file, &status->session[i]);
}
