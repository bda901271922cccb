/* Text for terminals of 80 columns. A letter beyond ASCII is taken to be as wide as one. */
#ifndef SL_BASE_WRAP_H
#define SL_BASE_WRAP_H

#include <stdint.h>
#include <stdio.h>

enum { SL_WRAP_WIDTH = 79 };

int sl_terminal_columns(int fd); /* 0: it is no terminal, or one that does not say */

/* Words of `text` and a newline, in lines of at most `width` (0: one line) that begin at `column`, where the cursor
 * stands. What is in [] is one word. */
void sl_print_wrapped(FILE *to, const char *text, int column, int width);
/* The same behind `mark` (ASCII), which stands in front of `column` in each line but the first. */
void sl_print_remark(FILE *to, const char *mark, const char *text, int column, int width);
enum { SL_BYTES_TEXT = 16 };

/* "999 B", "1.5 MB": powers of 1000. Returns `out`. */
const char *sl_bytes_text(uint64_t bytes, char out[SL_BYTES_TEXT]);
/* A cell to the left, in a column of a table that begins at `column`, where the cursor stands: one that is too long has
 * a line of its own, and the cursor stands behind the cell in the next. */
void sl_print_cell(FILE *to, const char *text, int column, int width);

#endif
