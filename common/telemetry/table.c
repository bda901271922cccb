/* The status as a table for people. */
#include <inttypes.h>
#include <math.h>
#include <stdbool.h>
#include <stddef.h>
#include <string.h>

#include "common/base/wrap.h"
#include "common/telemetry/progress.h"
#include "common/telemetry/status.h"

enum { CELL = 64, ID_SHOWN = 8, PEER_LEAST = 8, LONG_TASK_S = 10 };

/* Members of struct sl_status_session: a text, a whole number with its total, a double (NaN: not known), seconds. */
enum kind { TEXT, SHARE, REAL, AGE };

struct column {
	const char *title;
	enum kind kind; /* TEXT is left-aligned, numbers are right-aligned */
	size_t at, of;  /* offsets of members; of: the total of a SHARE */
	/* for REAL */
	double scale;
	const char *format; /* NULL: as sl_figure_text */
	bool spare;         /* left out if the table is wider than the terminal */
};

/* Replaces everything but printable ASCII: a peer's text must not control the terminal, and columns must stay
 * straight. */
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

static void put_bytes(char out[CELL], int64_t n)
{
	char text[SL_BYTES_TEXT];

	put_text(out, sl_bytes_text(n > 0 ? (uint64_t)n : 0, text));
}

/* n of `all`: "3/782"; "-" if neither is known, such as the epoch of a server's session. */
static void put_share(char out[CELL], int64_t n, int64_t all)
{
	if (all)
		snprintf(out, CELL, "%" PRId64 "/%" PRId64, n, all);
	else if (n)
		snprintf(out, CELL, "%" PRId64, n);
	else
		strcpy(out, "-");
}

#define AT(member) offsetof(struct sl_status_session, member)
enum { SESSION, PEER };
static const struct column columns[] = {
	[SESSION] = {"SESSION", TEXT, AT(id)},
	[PEER] = {"PEER", TEXT, AT(peer)},
	{"PHASE", TEXT, AT(phase)},
	{"EPOCH", SHARE, AT(epoch), AT(epochs)},
	{"STEP", SHARE, AT(step), AT(steps)},
	{"LOSS", REAL, AT(loss), 0, 1, NULL},
	{"ACC", REAL, AT(acc), 0, 100, "%.1f%%"},
	{"SAMPLES/S", REAL, AT(samples_per_s), 0, 1, "%.0f"},
	{"TX MB/S", REAL, AT(tx_mb_s), 0, 1, "%.1f", true},
	{"RX MB/S", REAL, AT(rx_mb_s), 0, 1, "%.1f", true},
	{"LEFT", AGE, AT(left_s)},
	{"IDLE", AGE, AT(idle_s)},
};

static void put_real(char out[CELL], const struct column *column, double value)
{
	const bool slow = column->spare && value > 0 && value < 1; /* a slow link has less than 0.1 MB/s */

	if (!column->format)
		(void)sl_figure_text(value, out);
	else
		snprintf(out, CELL, slow ? "%.2f" : column->format, value);
}

static void put_cell(char out[CELL], const struct sl_status_session *s, int c)
{
	const struct column *column = &columns[c];
	const void *at = (const char *)s + column->at, *of = (const char *)s + column->of;
	char text[16];

	switch (column->kind) {
	case TEXT:
		put_text(out, at);
		if (c == SESSION)
			out[ID_SHOWN] = 0;
		break;
	case SHARE:
		put_share(out, *(const int64_t *)at, *(const int64_t *)of);
		break;
	case REAL:
		if (isnan(*(const double *)at))
			strcpy(out, "-");
		else
			put_real(out, column, column->scale * *(const double *)at);
		break;
	case AGE:
		put_text(out, sl_progress_duration(*(const double *)at, text));
		break;
	}
}

enum { COLUMNS = sizeof columns / sizeof columns[0] };

/* Chooses the widths of the columns. A column that is empty in all sessions has width 0; so has PEER for a client,
 * whose peer's address is printed above. If the sum is above `most`, spare columns are dropped, and then peers'
 * names are cut. */
static void choose_columns(const struct sl_status *status, int most, int width[COLUMNS])
{
	bool client = strcmp(status->role, "client") == 0;
	int sum = -2;

	for (int c = 0; c < COLUMNS; c++) {
		char cell[CELL];
		bool says = false, known = client && c == PEER;

		width[c] = (int)strlen(columns[c].title);
		for (int i = 0; i < status->n_session; i++) {
			int n;

			put_cell(cell, &status->session[i], c);
			n = (int)strlen(cell);
			says = says || (!known && strcmp(cell, "-") != 0);
			width[c] = n > width[c] ? n : width[c];
		}
		width[c] = says ? width[c] : 0;
		sum += says ? width[c] + 2 : 0;
	}
	if (!most || sum <= most)
		return;
	for (int c = 0; c < COLUMNS; c++) {
		sum -= columns[c].spare && width[c] ? width[c] + 2 : 0;
		width[c] = columns[c].spare ? 0 : width[c];
	}
	if (sum > most && width[PEER] > PEER_LEAST)
		width[PEER] = width[PEER] - PEER_LEAST < sum - most ? PEER_LEAST : width[PEER] - (sum - most);
}

static void print_row(FILE *file, const int width[COLUMNS], const struct sl_status_session *s)
{
	char cell[CELL];
	const char *gap = "";

	for (int c = 0; c < COLUMNS; c++) {
		if (!width[c])
			continue;
		if (s)
			put_cell(cell, s, c);
		else
			strcpy(cell, columns[c].title);
		fprintf(file, columns[c].kind == TEXT ? "%s%-*.*s" : "%s%*.*s", gap, width[c], width[c], cell);
		gap = "  ";
	}
	fputc('\n', file);
}

static void print_text(FILE *file, const char *before, const char *text)
{
	char line[SL_STATUS_TEXT];

	put_line(line, sizeof line, text);
	fprintf(file, "%s%s", before, line);
}

static void print_bytes(FILE *file, const char *before, int64_t bytes)
{
	char text[CELL];

	put_bytes(text, bytes);
	fprintf(file, "%s%s", before, text);
}

static void print_group(FILE *file, const struct sl_status_session *s)
{
	char name[SL_STATUS_TEXT];

	put_line(name, sizeof name, s->group);
	fprintf(file, "  member %" PRId64 " of ", s->member);
	fprintf(file, "%" PRId64 " in group %s, which has done %" PRId64 " step%s", s->members, name, s->group_step,
		sl_plural(s->group_step));
	if (s->members_here < s->members)
		fprintf(file, "; %" PRId64 " %s there", s->members_here, s->members_here == 1 ? "is" : "are");
	if (s->missing[0])
		print_text(file, "; missing: ", s->missing);
	if (s->late && s->group_step)
		fprintf(file, "; %" PRId64 " of these without it (it has %.1f %%)", s->late,
			100.0 * (double)(s->group_step - s->late) / (double)s->group_step);
	fprintf(file, "%s\n", s->awaited ? "; awaited" : "");
}

static void print_ends(FILE *file, const struct sl_status_session *s)
{
	print_bytes(file, "  of shared heads and tails: end_grad ", s->end_grad_bytes);
	print_bytes(file, ", end_mean ", s->end_mean_bytes);
	fputc('\n', file);
}

static void print_memory(FILE *file, const struct sl_status_session *s)
{
	print_bytes(file, "  memory ", s->memory_bytes);
	if (s->memory_device_bytes)
		print_bytes(file, ", on the device ", s->memory_device_bytes);
	print_bytes(file, "\n    weights ", s->weights_bytes);
	print_bytes(file, ", activations ", s->activations_bytes);
	print_bytes(file, ", codecs ", s->codecs_bytes);
	print_bytes(file, ", payloads ", s->payloads_bytes);
	fputc('\n', file);
}

/* Prints below a session's row what does not change from step to step, and totals. */
static void print_details(FILE *file, const struct sl_status_session *s, int most)
{
	char sent[CELL], received[CELL], age[16], figure[SL_FIGURE_TEXT], codec[5 * SL_STATUS_TEXT] = "codec";
	bool same = true;

	for (int i = 1; i < 4; i++)
		same = same && strcmp(s->codec[i], s->codec[0]) == 0;
	print_text(file, "  ", s->model);
	print_text(file, ", ", s->partition);
	fputs("\n  ", file);
	for (int i = 0; i < (same ? 1 : 4); i++) {
		char line[SL_STATUS_TEXT];

		put_line(line, sizeof line, s->codec[i]);
		strcat(strcat(codec, " "), line);
	}
	sl_print_wrapped(file, codec, 2, most);
	put_bytes(sent, s->tx_bytes);
	put_bytes(received, s->rx_bytes);
	fprintf(file, "  sent %s, received %s in %s", sent, received, sl_progress_duration(s->age_s, age));
	if (s->checkpoint_step)
		fprintf(file, "; checkpoint at step %" PRId64, s->checkpoint_step);
	if (s->best_step && s->best_metric[0] && strcmp(s->best_metric, "accuracy") != 0)
		fprintf(file, "; best weights by %s %s at step %" PRId64, s->best_metric,
			sl_figure_text(s->best_acc, figure), s->best_step);
	else if (s->best_step)
		fprintf(file, "; best weights %.2f %% at step %" PRId64, 100 * s->best_acc, s->best_step);
	if (s->skipped)
		fprintf(file,
			"; steps skipped (NaN or Inf; in a group also late, or above share.member_norm): %" PRId64,
			s->skipped);
	fputc('\n', file);
	if (s->evaluated_step && !isnan(s->dcor_squared))
		fprintf(file, "  step %" PRId64 ": squared distance correlation of inputs and head_act %.3f\n",
			s->evaluated_step, s->dcor_squared);
	if (s->epsilon > 0)
		fprintf(file, "  epsilon of a training sample so far: %.4g\n", s->epsilon);
	if (s->members)
		print_group(file, s);
	if (!s->members && s->missing[0]) {
		print_text(file, "  missing in its group: member ", s->missing);
		fputc('\n', file);
	}
	if (s->end_grad_bytes || s->end_mean_bytes)
		print_ends(file, s);
	if (s->memory_bytes)
		print_memory(file, s);
}

/* Prints below the table that a checkpoint failed, which an operator must look into. */
static void print_missed(FILE *file, const struct sl_status_session *s)
{
	char id[CELL], why[SL_STATUS_TEXT];

	if (!s->checkpoint_missed)
		return;
	put_cell(id, s, SESSION);
	put_line(why, sizeof why, s->checkpoint_error);
	fprintf(file, "%s checkpoint: failed at step %" PRId64 ": %s; last good %" PRId64 "\n", id,
		s->checkpoint_missed, why, s->checkpoint_step);
}

static void print_daemon(FILE *file, const struct sl_status *status)
{
	bool server = strcmp(status->role, "server") == 0;
	char text[16];

	print_text(file, server ? "splits " : "splitc ", status->version);
	fprintf(file, "  pid %" PRId64, status->pid);
	print_text(file, "  ", status->address);
	fprintf(file, "  up %s  %d session%s\n", sl_progress_duration(status->uptime_s, text), status->n_session,
		sl_plural(status->n_session));
	print_text(file, "", status->device);
	fprintf(file, ", %" PRId64 " thread%s", status->threads, sl_plural(status->threads));
	if (status->memory_limit_bytes) {
		print_bytes(file, ", memory ", status->memory_bytes);
		print_bytes(file, " of ", status->memory_limit_bytes);
	}
	fputc('\n', file);
}

static void print_trouble(FILE *file, const struct sl_status *status)
{
	char text[16];

	if (status->malformed || status->turned_away)
		fprintf(file, "%" PRId64 " malformed message%s, %" PRId64 " peer%s turned away\n", status->malformed,
			sl_plural(status->malformed), status->turned_away, sl_plural(status->turned_away));
	if (status->lost || status->rejected || status->stale)
		fprintf(file,
			"%" PRId64 " of %" PRId64 " links lost, %" PRId64 " of %" PRId64 " frames rejected, %" PRId64
			" of older epochs\n",
			status->lost, status->links, status->rejected, status->frames, status->stale);
	if (status->task_s >= LONG_TASK_S)
		fprintf(file, "a task has run for %s\n", sl_progress_duration(status->task_s, text));
}

void sl_status_table(const struct sl_status *status, int columns_most, FILE *file)
{
	char bytes[CELL], most[CELL], text[16];
	int width[COLUMNS];

	print_daemon(file, status);
	print_trouble(file, status);
	if (status->store_files) {
		put_bytes(bytes, status->store_bytes);
		put_bytes(most, status->store_limit_bytes);
		fprintf(file, "store: %" PRId64 " file%s, %s%s%s, the oldest unused for %s\n", status->store_files,
			sl_plural(status->store_files), bytes, status->store_limit_bytes ? " of at most " : "",
			status->store_limit_bytes ? most : "", sl_progress_duration(status->store_oldest_s, text));
	}
	if (status->n_session == 0) {
		sl_status_groups_table(status->groups, file);
		return;
	}
	choose_columns(status, columns_most, width);
	print_row(file, width, NULL);
	for (int i = 0; i < status->n_session; i++) {
		print_row(file, width, &status->session[i]);
		print_details(file, &status->session[i], columns_most);
	}
	for (int i = 0; i < status->n_session; i++)
		print_missed(file, &status->session[i]);
	sl_status_groups_table(status->groups, file);
}
