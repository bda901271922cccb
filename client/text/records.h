/* Rows of text files: one text or two, and perhaps a label. Formats: plain lines, TSV without quotes, CSV by RFC 4180,
 * and JSON Lines. */
#ifndef SL_CLIENT_TEXT_RECORDS_H
#define SL_CLIENT_TEXT_RECORDS_H

#include <stdbool.h>
#include <stddef.h>

#include "common/base/buf.h"
#include "common/base/err.h"

enum sl_records_format {
	SL_RECORDS_LINES, /* the whole line is the text */
	SL_RECORDS_TSV,
	SL_RECORDS_CSV,
	SL_RECORDS_JSONL,
	SL_RECORDS_FORMAT_COUNT
};

/* Whether a name ends with `end`, in upper or lower case, and is longer. */
bool sl_records_ends(const char *name, const char *end);
/* The format of that name, or that the end of a file's name shows; COUNT: there is none. */
enum sl_records_format sl_records_format_of(const char *name);

/* The word of data.separator for that character: "comma", "semicolon" or "tab". */
static inline const char *sl_records_separator(char is)
{
	return is == ',' ? "comma" : is == ';' ? "semicolon" : "tab";
}

/* A column: by the name that the header (or a JSON object) gives it, or without a name by its number from 0. */
struct sl_records_column {
	const char *name;
	int number; /* read if there is no name; -1: there is no such column */
};

struct sl_records_spec {
	const char *path; /* "-": standard input */
	enum sl_records_format format;
	char separator;  /* CSV: between cells, and errors name the key data.separator; 0: a comma */
	bool header;     /* TSV, CSV: the first row names the columns */
	bool exact;      /* refuse a row with more cells than the header has; some files of GLUE have such rows */
	bool skip_short; /* leave out rows with too few columns, as GLUE's own reader does in QQP */
	bool members;    /* JSONL, without columns: the first row has the names of the first object's members. Then each
			    object is a row of their values; null is an empty field */
	/* LINES, TSV without a header: DATA if the first line with data is an object, or names these columns (NULL:
	 * none is known), since it would be read as a text */
	bool checks_form;
	const char *named[2];
	size_t above;                         /* lines that came before the first one; messages count them, too */
	struct sl_records_column a, b, label; /* not read for SL_RECORDS_LINES */
};

/* Valid until the next row is read. */
struct sl_record {
	struct sl_bytes a, b, label; /* data NULL: there is none; of `a`: the file has ended */
	size_t line;                 /* where the row begins, from 1 */
};

struct sl_records;

/* NOINPUT; DATA: the header lacks a column, and *fail names the columns that there are; IO, NOMEM. Texts of *spec have
 * to outlive it. */
enum sl_err sl_records_open(struct sl_records **out, const struct sl_records_spec *spec,
			    struct sl_fail *fail) SL_MUST_CHECK;
/* The same for bytes in memory, which have to outlive it; spec->path is for errors. */
enum sl_err sl_records_open_bytes(struct sl_records **out, const struct sl_records_spec *spec, struct sl_bytes bytes,
				  struct sl_fail *fail) SL_MUST_CHECK;
void sl_records_close(struct sl_records *rows); /* NULL is fine */

/* DATA: a row has too few columns, or too many, or is no CSV or JSON, or too long; IO, NOMEM. *fail names file and
 * line. */
enum sl_err sl_records_next(struct sl_records *rows, struct sl_record *row, struct sl_fail *fail) SL_MUST_CHECK;
/* All fields of the row that was read last, for TSV and CSV. They are valid as long as the row. */
int sl_records_fields(const struct sl_records *rows);
struct sl_bytes sl_records_field(const struct sl_records *rows, int i);
size_t sl_records_skipped(const struct sl_records *rows); /* short rows that were left out so far */

#endif
