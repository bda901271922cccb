/* Dates as tables write them. */
#ifndef SL_CLIENT_DATA_CSV_DATE_H
#define SL_CLIENT_DATA_CSV_DATE_H

#include <stdbool.h>
#include <stdint.h>

/* ISO: 2024-12-31 or 2024/12/31. DAY_FIRST: 31.12.2024, 31/12/2024 or 31-12-2024. MONTH_FIRST: 12/31/2024 or
 * 12-31-2024. A time may follow, and does not count. */
enum sl_date_form { SL_DATE_NONE, SL_DATE_ISO, SL_DATE_DAY_FIRST, SL_DATE_MONTH_FIRST, SL_DATE_FORMS };

struct sl_date {
	int64_t day;        /* since 1970-01-01 */
	int month, weekday; /* from 0: January, Sunday */
};

/* Whether the cell is such a date, of the years 1000 to 9999. */
bool sl_date_read(const char *cell, enum sl_date_form form, struct sl_date *out);
/* Writes a day as 2024-12-31. */
void sl_date_print(int64_t day, char out[16]);

#endif
