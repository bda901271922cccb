/* Who took part in the steps of groups, in a status: below its table, and as metrics. */
#include <inttypes.h>

#include "common/base/text.h"
#include "common/telemetry/status.h"

/* What a record (docs/OUTPUT.md, `groups`) says of member k: of the steps, and of all members' rows, 0 to 1. */
static bool parts_of(const json_t *record, size_t k, double *steps, double *rows)
{
	const json_t *member = json_array_get(json_object_get(record, "members"), k);
	const double all = json_number_value(json_object_get(record, "steps"));

	*steps = all > 0 ? json_number_value(json_object_get(member, "steps")) / all : 0;
	*rows = json_number_value(json_object_get(member, "rows")) / 100;
	return member && all > 0;
}

static void print_name(FILE *file, const char *name)
{
	char text[SL_STATUS_TEXT];

	snprintf(text, sizeof text, "%s", name);
	sl_text_make_safe(text, '?');
	fputs(text, file);
}

void sl_status_groups_table(json_t *groups, FILE *file)
{
	const json_t *record;
	const char *name;
	double steps, rows;

	json_object_foreach(groups, name, record)
	{
		fputs("group ", file);
		print_name(file, name);
		fprintf(file, ", as of step %" JSON_INTEGER_FORMAT ":\n",
			json_integer_value(json_object_get(record, "steps")));
		for (size_t k = 0; parts_of(record, k, &steps, &rows); k++)
			fprintf(file, "  member %-4zu %5.1f %% of the steps, %5.1f %% of the rows\n", k, 100 * steps,
				100 * rows);
	}
}

static void print_parts(FILE *file, json_t *groups, bool of_rows)
{
	const json_t *record;
	const char *name;
	double steps, rows;

	json_object_foreach(groups, name, record)
	{
		for (size_t k = 0; parts_of(record, k, &steps, &rows); k++) {
			fprintf(file, "split_group_member_%s_ratio{group=\"", of_rows ? "rows" : "steps");
			print_name(file, name); /* letters, digits, '.', '_' and '-' */
			fprintf(file, "\",member=\"%zu\"} %.3f\n", k, of_rows ? rows : steps);
		}
	}
}

void sl_status_groups_metrics(json_t *groups, FILE *file)
{
	fputs("# HELP split_group_member_steps_ratio Part of the group's steps that the member had, 0 to 1.\n"
	      "# TYPE split_group_member_steps_ratio gauge\n",
	      file);
	print_parts(file, groups, false);
	fputs("# HELP split_group_member_rows_ratio Part of all rows that were the member's, 0 to 1.\n"
	      "# TYPE split_group_member_rows_ratio gauge\n",
	      file);
	print_parts(file, groups, true);
}
