#include "client/train/group_record.h"

#include <inttypes.h>
#include <stdio.h>
#include <string.h>

json_t *sl_group_record_read(const char *text)
{
	json_t *record = text ? json_loads(text, 0, NULL) : NULL;
	const json_t *member = json_object_get(record, "members");

	for (size_t k = 0; record && k < json_array_size(member); k++)
		if (!json_is_integer(json_object_get(json_array_get(member, k), "steps"))) {
			json_decref(record);
			record = NULL;
		}
	if (record && json_is_array(member) && json_is_integer(json_object_get(record, "steps")) &&
	    json_is_number(json_object_get(record, "least")) && json_is_string(json_object_get(record, "absent")))
		return record;
	json_decref(record);
	return NULL;
}

static void take_text(const json_t *record, const char *key, char out[SL_STATUS_TEXT])
{
	const char *is = json_string_value(json_object_get(record, key));

	snprintf(out, SL_STATUS_TEXT, "%.*s", SL_STATUS_TEXT - 1, is ? is : "");
}

struct sl_group_says sl_group_record_says(const char *text)
{
	json_t *record = sl_group_record_read(text);
	struct sl_group_says says = {.unkept = json_is_true(json_object_get(record, "unkept"))};

	take_text(record, "waits", says.waits);
	take_text(record, "away", says.away);
	json_decref(record);
	return says;
}

static double part_of(const json_t *record, size_t k)
{
	const json_t *member = json_array_get(json_object_get(record, "members"), k);
	const double steps = json_number_value(json_object_get(record, "steps"));

	return steps > 0 ? json_number_value(json_object_get(member, "steps")) / steps : 1;
}

/* Its operator took the member off the list of clients. */
static bool is_off(const json_t *record, size_t k)
{
	return json_is_true(json_object_get(json_array_get(json_object_get(record, "members"), k), "off"));
}

/* The first item of the list, or of what is left of it, that is member k's; *len: of its number and colon. NULL: none.
 */
static const char *find_item(const char *list, size_t k, size_t *len)
{
	char name[24];

	*len = (size_t)snprintf(name, sizeof name, "%zu:", k);
	for (; *list; list += strcspn(list, ","), list += *list == ',')
		if (strncmp(list, name, *len) == 0)
			return list;
	return NULL;
}

/* Prints the items of the list that are member k's, without its number. */
static void print_away(const char *list, size_t k)
{
	size_t len;
	int n = 0;

	for (const char *at = list; (at = find_item(at, k, &len)); at += strcspn(at, ",")) {
		unsigned long long from, to;

		if (++n > 4)
			continue;
		if (sscanf(at + len, "%llu-%llu", &from, &to) == 2 && to + 1 == from)
			printf("%scame back before step %llu", n == 1 ? "  " : ", ", from);
		else
			printf("%saway in steps %.*s", n == 1 ? "  " : ", ", (int)(strcspn(at, ",") - len), at + len);
	}
	if (n > 4)
		printf(" and %d time%s more", n - 4, sl_plural(n - 4));
}

static void print_norms(const json_t *member)
{
	const json_int_t empty = json_integer_value(json_object_get(member, "empty"));
	const json_int_t clipped = json_integer_value(json_object_get(member, "clipped"));

	if (empty)
		printf("  no gradient in %" JSON_INTEGER_FORMAT " step%s (NaN, Inf or above share.member_norm)", empty,
		       sl_plural(empty));
	if (clipped)
		printf("  clipped in %" JSON_INTEGER_FORMAT " step%s", clipped, sl_plural(clipped));
}

void sl_group_record_print(const json_t *record)
{
	const json_t *members = json_object_get(record, "members");
	const char *absent = json_string_value(json_object_get(record, "absent"));

	if (!record)
		return;
	printf("member   steps           rows\n");
	for (size_t k = 0; k < json_array_size(members); k++) {
		const json_t *member = json_array_get(members, k);

		printf("%-8zu %-7" JSON_INTEGER_FORMAT " %5.1f %%  %5.1f %%", k,
		       json_integer_value(json_object_get(member, "steps")), 100 * part_of(record, k),
		       json_number_value(json_object_get(member, "rows")));
		print_away(absent, k);
		print_norms(member);
		if (is_off(record, k))
			printf(", taken off the server's list");
		putchar('\n');
	}
	if (*absent)
		printf("the same run in one process, if members' configs are equal: --local --clients %zu --absent "
		       "%s\n",
		       json_array_size(members), absent);
}

/* Why member k got less than share.least of its steps. */
static void say_cause(const json_t *record, size_t k, char out[200])
{
	const json_t *member = json_array_get(json_object_get(record, "members"), k);
	const json_int_t empty = json_integer_value(json_object_get(member, "empty"));
	size_t n = 0, len;
	const bool was_away =
		!empty || find_item(json_string_value(json_object_get(record, "absent")), k, &len) != NULL;

	if (was_away)
		n = (size_t)snprintf(out, 200,
				     "share.unmet is go_on, or its train.epochs or train.max_steps is another one");
	if (empty)
		snprintf(out + n, 200 - n,
			 "%sit had no gradient in %" JSON_INTEGER_FORMAT
			 " step%s (NaN, Inf or above share.member_norm)",
			 was_away ? "; and " : "", empty, sl_plural(empty));
}

enum sl_err sl_group_record_check(const json_t *record, struct sl_fail *fail)
{
	const double least = json_number_value(json_object_get(record, "least"));
	char cause[200];

	for (size_t k = 0; k < json_array_size(json_object_get(record, "members")); k++) {
		if (part_of(record, k) >= least || is_off(record, k))
			continue;
		say_cause(record, k, cause);
		return sl_fail_at(fail, "share.least", SL_ERR_UNMET,
				  "the run is done, and member %zu took part in %.1f %% of its steps, where %.1f %% "
				  "were to be: %s",
				  k, 100 * part_of(record, k), 100 * least, cause);
	}
	return SL_OK;
}
