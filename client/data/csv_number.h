/* Numbers as tables write them: 3.14 or 3,14, with groups of digits, a minus sign of Unicode, or a unit. */
#ifndef SL_CLIENT_DATA_CSV_NUMBER_H
#define SL_CLIENT_DATA_CSV_NUMBER_H

#include "client/data/csv_file.h"

enum { SL_CSV_NUMBER = 64, SL_CSV_UNIT = 20 };

struct sl_csv_number {
	char plain[SL_CSV_NUMBER]; /* the number as strtod reads it */
	char unit[SL_CSV_UNIT];    /* "": the cell is the number alone */
	const char *rest;          /* the cell's text behind the number */
	bool fraction;
};

/* Whether the cell is a number, perhaps with blanks around it and a unit such as % or mg/l behind it. `mark` is the
 * decimal mark, '.' or ','. Three digits make a group behind a no-break blank or, if `mark` follows, behind the other
 * mark: "1,234" is no number with '.', but "1,234.5" is. */
bool sl_csv_number(const char *cell, char mark, struct sl_csv_number *out);
/* Whether all cells of the column, except missing ones, are numbers with that mark and one unit, which may be "". */
bool sl_csv_measures(const struct sl_csv *s, int column, char mark, char unit[SL_CSV_UNIT]);
/* What to do about a cell that is a number in another notation; NULL: it is none. */
const char *sl_csv_advice(const char *cell);
/* Finds how the file s->path is written, and sets s->form. An unreadable file leaves it unchanged. */
void sl_csv_notice(struct sl_csv *s);

#endif
