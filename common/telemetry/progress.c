#include "common/telemetry/progress.h"

#include <errno.h>
#include <math.h>
#include <stdarg.h>
#include <stdio.h>
#include <stdlib.h>
#include <string.h>
#include <unistd.h>

#include "common/base/log.h"
#include "common/base/wrap.h"
#include "common/telemetry/rate.h"

enum { DRAW_MS = 100, PLAIN_MS = 10000, BAR_MIN = 8, BAR_MAX = 40, PLAIN_WIDTH = 400 };

enum { SAMPLES, STEPS };     /* what `pace` counts, at the end of each step */
enum { TX_BYTES, RX_BYTES }; /* what `link` counts, also during a step */

struct sl_progress {
	int fd;
	bool tty, colour, quiet;
	uint64_t interval_ms;
	uint64_t drawn_ms;
	bool drawn_once, visible; /* visible: the bar is on the screen; guarded by the log's lock */
	struct sl_progress_state state;
	struct sl_progress_rates rates;
	struct sl_rate pace, link;
};

const char *sl_progress_duration(double seconds, char out[16])
{
	if (!isfinite(seconds) || seconds < 0 || seconds > 1e8) {
		snprintf(out, 16, "-");
		return out;
	}
	unsigned s = (unsigned)(seconds + 0.5), m = s / 60, h = m / 60, d = h / 24;

	if (m == 0)
		snprintf(out, 16, "%us", s);
	else if (h == 0)
		snprintf(out, 16, "%um%02us", m, s % 60);
	else if (d == 0)
		snprintf(out, 16, "%uh%02um", h, m % 60);
	else
		snprintf(out, 16, "%ud%02uh", d, h % 24);
	return out;
}

struct line {
	char *text;
	int len, width;
	bool full; /* something was left out: nothing less important may follow */
};

/* Adds a part, after two blanks, if all of it fits. */
static void SL_PRINTF(2, 3) add(struct line *line, const char *fmt, ...)
{
	char part[128];
	va_list args;
	int n, gap = line->len > 0 ? 2 : 0;

	va_start(args, fmt);
	n = vsnprintf(part, sizeof part, fmt, args);
	va_end(args);
	if (line->full || n >= (int)sizeof part || line->len + gap + n > line->width) {
		line->full = true;
		return;
	}
	line->len += snprintf(line->text + line->len, (size_t)(SL_PROGRESS_LINE - line->len), "%*s%s", gap, "", part);
}

static void put_bar(char *out, int cells, uint64_t step, uint64_t steps)
{
	int inside = cells - 2, full = steps ? (int)((double)inside * (double)step / (double)steps) : 0;

	if (full > inside)
		full = inside;
	out[0] = '[';
	memset(out + 1, '#', (size_t)full);
	memset(out + 1 + full, '.', (size_t)(inside - full));
	out[cells - 1] = ']';
}

int sl_progress_line(char out[SL_PROGRESS_LINE], const struct sl_progress_state *s, const struct sl_progress_rates *r,
		     int width, bool bar)
{
	char text[SL_PROGRESS_LINE] = "", left[16], figure[SL_FIGURE_TEXT];
	int limit = width < SL_PROGRESS_LINE - 1 ? width : SL_PROGRESS_LINE - 1, cells, at;
	struct line line = {.text = text, .width = limit};

	add(&line, "%.12s %d/%d", s->phase, s->epoch, s->epochs);
	at = line.len;
	add(&line, "%llu/%llu", (unsigned long long)s->step, (unsigned long long)s->steps);
	if (!isnan(s->loss))
		add(&line, "loss %s", sl_figure_text(s->loss, figure));
	if (!isnan(s->acc))
		add(&line, "acc %.1f%%", 100 * s->acc);
	if (!isnan(r->left_s))
		add(&line, "%s left", sl_progress_duration(r->left_s, left));
	if (!isnan(r->samples_per_s))
		add(&line, "%.0f samples/s", r->samples_per_s);
	if (!isnan(r->tx_mb_s) && !isnan(r->rx_mb_s))
		add(&line, r->tx_mb_s < 1 && r->rx_mb_s < 1 ? "up %.2f down %.2f MB/s" : "up %.1f down %.1f MB/s",
		    r->tx_mb_s, r->rx_mb_s);
	cells = limit - line.len - 2 < BAR_MAX ? limit - line.len - 2 : BAR_MAX;
	if (!bar || cells < BAR_MIN) {
		memcpy(out, text, (size_t)line.len + 1);
		return line.len;
	}
	memcpy(out, text, (size_t)at);
	memcpy(out + at, "  ", 2);
	put_bar(out + at + 2, cells, s->step, s->steps);
	memcpy(out + at + 2 + cells, text + at, (size_t)(line.len - at) + 1);
	return line.len + 2 + cells;
}

static void write_whole(int fd, const char *data, size_t len)
{
	while (len > 0) {
		ssize_t n = write(fd, data, len);
		if (n < 0 && errno == EINTR)
			continue;
		if (n <= 0)
			return; /* a closed terminal must not end a run */
		data += n;
		len -= (size_t)n;
	}
}

/* The log's hook, under its lock. */
static void wipe(void *arg)
{
	struct sl_progress *p = arg;

	if (p->visible)
		write_whole(p->fd, "\r\033[K", 4);
	p->visible = false;
}

static void draw(void *arg)
{
	struct sl_progress *p = arg;
	char line[SL_PROGRESS_LINE], out[SL_PROGRESS_LINE + 32];
	int n;

	if (!p->tty) {
		sl_progress_line(line, &p->state, &p->rates, PLAIN_WIDTH, false);
		n = snprintf(out, sizeof out, "%s\n", line);
	} else {
		const int columns = sl_terminal_columns(p->fd);

		/* the last column stays free: some terminals wrap as soon as it is written */
		sl_progress_line(line, &p->state, &p->rates, (columns ? columns : 80) - 1, true);
		n = snprintf(out, sizeof out, "\r%s%s%s\033[K", p->colour ? "\033[36m" : "", line,
			     p->colour ? "\033[0m" : "");
		p->visible = true;
	}
	write_whole(p->fd, out, (size_t)n);
}

static void end_line(void *arg)
{
	struct sl_progress *p = arg;

	draw(p);
	if (p->tty)
		write_whole(p->fd, "\n", 1);
	p->visible = false;
}

enum sl_err sl_progress_open(struct sl_progress **out, const struct sl_progress_options *options, struct sl_fail *fail)
{
	const char *term = getenv("TERM"), *no_colour = getenv("NO_COLOR");
	struct sl_progress *p = calloc(1, sizeof *p);

	if (!p)
		return sl_fail_set(fail, SL_ERR_NOMEM, "no memory for the progress bar");
	p->fd = options->fd;
	p->quiet = options->quiet;
	p->interval_ms = options->plain_interval_ms > 0 ? (uint64_t)options->plain_interval_ms : PLAIN_MS;
	p->tty = isatty(p->fd) && term && *term && strcmp(term, "dumb") != 0;
	p->colour = p->tty && !(no_colour && *no_colour);
	if (p->tty && !p->quiet)
		sl_log_set_hook(wipe, p);
	*out = p;
	return SL_OK;
}

static void update_link(struct sl_progress *p, const struct sl_progress_state *s, uint64_t now_ms)
{
	const struct sl_rate_sample now = {now_ms, {s->tx_bytes, s->rx_bytes}};

	sl_rate_keep(&p->link, &now);
	p->rates.tx_mb_s = sl_rate_per_s(&p->link, &now, TX_BYTES) * 1e-6;
	p->rates.rx_mb_s = sl_rate_per_s(&p->link, &now, RX_BYTES) * 1e-6;
}

/* begins: another phase has another pace. */
static void update_pace(struct sl_progress *p, const struct sl_progress_state *s, bool begins, uint64_t now_ms)
{
	const struct sl_rate_sample now = {now_ms, {s->samples, s->step}};
	double grown[SL_RATE_COUNTERS], seconds;

	if (begins)
		p->pace.n = 0;
	sl_rate_keep(&p->pace, &now);
	seconds = sl_rate_grown(&p->pace, &now, grown);
	p->rates.samples_per_s = seconds > 0 ? grown[SAMPLES] / seconds : NAN;
	p->rates.left_s = seconds > 0 && grown[STEPS] > 0 ? (double)s->steps_left * seconds / grown[STEPS] : NAN;
}

void sl_progress_update(struct sl_progress *p, const struct sl_progress_state *state, uint64_t now_ms)
{
	bool complete = state->step >= state->steps;
	bool begins = !p->drawn_once || strcmp(p->state.phase, state->phase) != 0 || state->step < p->state.step;
	bool moved = begins || state->step != p->state.step || state->samples != p->state.samples;
	uint64_t interval = p->tty ? DRAW_MS : p->interval_ms;

	if (p->quiet)
		return;
	update_link(p, state, now_ms);
	if (moved)
		update_pace(p, state, begins, now_ms);
	else if (!p->tty)
		return;
	bool was_complete = p->drawn_once && p->state.step >= p->state.steps;
	p->state = *state;
	/* the first plain line comes after an interval, since each has a rate */
	if (!p->drawn_once) {
		p->drawn_once = true;
		p->drawn_ms = now_ms;
		if (!p->tty && !complete)
			return;
	} else if (now_ms - p->drawn_ms < interval && !(complete && !was_complete)) {
		return;
	}
	p->drawn_ms = now_ms;
	sl_log_exclusive(draw, p);
}

void sl_progress_close(struct sl_progress *p)
{
	if (!p)
		return;
	if (p->tty && !p->quiet) {
		if (p->drawn_once)
			sl_log_exclusive(end_line, p);
		sl_log_set_hook(NULL, NULL);
	}
	free(p);
}
