/* Any bytes as a file of rows: the first byte chooses the format and the columns, or all members of objects. Reading
 * must end, rows must lie in the text, and labels must be classes or numbers. */
#include <stdlib.h>
#include <string.h>

#include "client/text/label.h"
#include "client/text/records.h"

static unsigned sum(struct sl_bytes bytes)
{
	unsigned all = 0;

	for (size_t i = 0; i < bytes.len; i++)
		all += bytes.data[i];
	return all;
}

int LLVMFuzzerTestOneInput(const uint8_t *data, size_t size);

int LLVMFuzzerTestOneInput(const uint8_t *data, size_t size)
{
	struct sl_records_spec spec = {.path = "x", .a = {NULL, 1}, .b = {NULL, 0}, .label = {NULL, 2}};
	const struct sl_labels numbers = {.classes = 3}, any = {.regression = true};
	struct sl_records *records;
	struct sl_record row;
	struct sl_fail fail = {0};
	union sl_label value;
	size_t line = 0;
	enum sl_err err;

	if (size < 1)
		return 0;
	spec.format = (enum sl_records_format)(data[0] % SL_RECORDS_FORMAT_COUNT);
	spec.header = data[0] & 8;
	spec.skip_short = data[0] & 16;
	spec.members = data[0] & 32 && spec.format == SL_RECORDS_JSONL;
	if (spec.header || (spec.format == SL_RECORDS_JSONL && !spec.members)) {
		spec.a.name = "a";
		spec.label.name = "y";
	}
	if (sl_records_open_bytes(&records, &spec, (struct sl_bytes){data + 1, size - 1}, &fail) != SL_OK) {
		if (!fail.text[0])
			abort();
		return 0;
	}
	while (!(err = sl_records_next(records, &row, &fail)) && row.a.data) {
		if (row.line < line || (row.line == line && !spec.members)) /* of the first object, names and values */
			abort();
		line = row.line;
		(void)(sum(row.a) + sum(row.b) + sum(row.label));
		if (row.label.data && sl_label_read(&numbers, row.label, &value, &fail) == SL_OK &&
		    (value.label < 0 || value.label > 2))
			abort();
		if (row.label.data && sl_label_read(&any, row.label, &value, &fail) == SL_OK &&
		    value.target != value.target)
			abort();
	}
	if (err && !fail.text[0])
		abort();
	sl_records_close(records);
	return 0;
}
