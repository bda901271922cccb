#include "common/base/wrap.h"

#include <math.h>
#include <stdbool.h>
#include <stddef.h>
#include <string.h>
#include <sys/ioctl.h>

int sl_terminal_columns(int fd)
{
	struct winsize size;

	return ioctl(fd, TIOCGWINSZ, &size) == 0 ? size.ws_col : 0;
}

int sl_text_columns(const char *text, size_t len)
{
	int n = 0;

	for (size_t i = 0; i < len; i++)
		n += ((unsigned char)text[i] & 0xc0) != 0x80;
	return n;
}

static size_t word_length(const char *text)
{
	int depth = 0;
	size_t n = 0;

	for (; text[n] && (text[n] != ' ' || depth > 0); n++)
		depth += (text[n] == '[') - (text[n] == ']');
	return n;
}

void sl_print_remark(FILE *to, const char *mark, const char *text, int column, int width)
{
	int at = column;

	while (*text) {
		size_t len = word_length(text);
		int word = sl_text_columns(text, len);

		if (at > column && width && at + 1 + word > width) {
			fprintf(to, "\n%*s", column, mark);
			at = column;
		} else if (at > column) {
			fputc(' ', to);
			at++;
		}
		fprintf(to, "%.*s", (int)len, text);
		at += word;
		for (text += len; *text == ' '; text++)
			;
	}
	fputc('\n', to);
}

void sl_print_wrapped(FILE *to, const char *text, int column, int width)
{
	sl_print_remark(to, "", text, column, width);
}

const char *sl_bytes_text(uint64_t bytes, char out[SL_BYTES_TEXT])
{
	static const char *const unit[] = {"B", "kB", "MB", "GB", "TB", "PB", "EB"};
	double x = (double)bytes;
	int i = 0;

	while (x >= 999.95 && i < 6) {
		x /= 1000;
		i++;
	}
	snprintf(out, SL_BYTES_TEXT, i ? "%.1f %s" : "%.0f %s", x, unit[i]);
	return out;
}

const char *sl_figure_text(double x, char out[SL_FIGURE_TEXT])
{
	const bool far = x != 0 && (fabs(x) < 0.001 || fabs(x) >= 1e6);

	if (!isfinite(x))
		snprintf(out, SL_FIGURE_TEXT, "undefined");
	else
		snprintf(out, SL_FIGURE_TEXT, far ? "%.4g" : "%.4f", x);
	return out;
}

const char *sl_share_text(double x, char out[SL_FIGURE_TEXT])
{
	snprintf(out, SL_FIGURE_TEXT, isfinite(x) ? "%.2f %%" : "undefined", 100 * x);
	return out;
}

const char *sl_time_text(double seconds, char out[SL_FIGURE_TEXT])
{
	if (!isfinite(seconds))
		snprintf(out, SL_FIGURE_TEXT, "unknown");
	else if (seconds == 0 || seconds >= 1)
		snprintf(out, SL_FIGURE_TEXT, seconds < 100 ? "%.4g s" : "%.0f s", seconds);
	else
		snprintf(out, SL_FIGURE_TEXT, seconds < 1e-3 ? "%.4g µs" : "%.4g ms",
			 seconds * (seconds < 1e-3 ? 1e6 : 1e3));
	return out;
}

void sl_print_cell(FILE *to, const char *text, int column, int width)
{
	const int n = sl_text_columns(text, strlen(text)), over = n > width;

	fprintf(to, over ? "%s\n" : "%s", text);
	fprintf(to, "%*s", over ? column + width : width - n, "");
}
