/* Text wrapped for terminals, of 80 columns by default. Every character counts as one column. */
#ifndef SL_BASE_WRAP_H
#define SL_BASE_WRAP_H

#include <stdint.h>
#include <stdio.h>

enum { SL_WRAP_WIDTH = 79 };

int sl_terminal_columns(int fd);                   /* 0: fd is no terminal, or it does not say */
int sl_text_columns(const char *text, size_t len); /* of `len` bytes of UTF-8 */

/* Prints `text` and a newline, in lines of at most `width` columns (0: one line). The cursor stands at `column`;
 * further lines are indented to it. Text in [] is not broken. */
void sl_print_wrapped(FILE *to, const char *text, int column, int width);
/* Like sl_print_wrapped; `mark` (ASCII) stands in front of `column` in each line but the first. */
void sl_print_remark(FILE *to, const char *mark, const char *text, int column, int width);
enum { SL_BYTES_TEXT = 16 };

/* "999 B", "1.5 MB": powers of 1000. Returns `out`. */
const char *sl_bytes_text(uint64_t bytes, char out[SL_BYTES_TEXT]);
enum { SL_FIGURE_TEXT = 32 };

/* "0.5123"; below 0.001 and from a million on four digits, "0.0001234" and "1.235e+06"; of NaN and Inf "undefined".
 * Returns `out`. */
const char *sl_figure_text(double x, char out[SL_FIGURE_TEXT]);
/* A share as "32.90 %", or "undefined". Returns `out`. */
const char *sl_share_text(double x, char out[SL_FIGURE_TEXT]);
/* A time as "12.34 s", "2.518 ms" or "25.18 µs", or "unknown". Returns `out`. */
const char *sl_time_text(double seconds, char out[SL_FIGURE_TEXT]);
/* Prints a left-aligned cell of a table, in the column from `column`, where the cursor stands, to column + width. A
 * longer text gets a line of its own; the cursor then stands behind the cell in the next line. */
void sl_print_cell(FILE *to, const char *text, int column, int width);

#endif
