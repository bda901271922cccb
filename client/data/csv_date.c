#include "client/data/csv_date.h"

#include <string.h>
#include <time.h>

static const int64_t DAY = 86400;

/* Reads a number of `least` to `most` digits. */
static bool take(const char **at, size_t least, size_t most, int *out)
{
	const size_t n = strspn(*at, "0123456789");

	*out = 0;
	for (size_t i = 0; i < n && n <= most; i++)
		*out = *out * 10 + (*at)[i] - '0';
	*at += n;
	return n >= least && n <= most;
}

bool sl_date_read(const char *cell, enum sl_date_form form, struct sl_date *out)
{
	const bool iso = form == SL_DATE_ISO;
	const char *at = cell + strspn(cell, " \t");
	int number[3];
	char mark;
	struct tm tm = {.tm_year = 0}, is;

	if (!take(&at, iso ? 4 : 1, iso ? 4 : 2, &number[0]))
		return false;
	mark = *at;
	if (!mark || !strchr(iso ? "-/" : form == SL_DATE_DAY_FIRST ? "./-" : "/-", mark))
		return false;
	at++;
	if (!take(&at, 1, 2, &number[1]) || *at++ != mark || !take(&at, iso ? 1 : 4, iso ? 2 : 4, &number[2]) ||
	    (*at && *at != 'T' && *at != ' ') || at[strspn(at, "T 0123456789:.,+-Z")])
		return false;
	tm.tm_year = number[iso ? 0 : 2] - 1900;
	tm.tm_mon = number[form == SL_DATE_MONTH_FIRST ? 0 : 1] - 1;
	tm.tm_mday = number[iso ? 2 : form == SL_DATE_DAY_FIRST ? 0 : 1];
	is = tm;
	out->day = timegm(&is) / DAY;
	out->month = is.tm_mon;
	out->weekday = is.tm_wday;
	return tm.tm_year >= 1000 - 1900 && is.tm_mon == tm.tm_mon && is.tm_mday == tm.tm_mday; /* no 31 February */
}

void sl_date_print(int64_t day, char out[16])
{
	const time_t t = day * DAY;
	struct tm tm;

	out[0] = 0;
	if (gmtime_r(&t, &tm))
		strftime(out, 16, "%Y-%m-%d", &tm);
}
