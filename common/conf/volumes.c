/* Keys of volumes: data.patch, data.size, data.spacing, data.intensity, and what goes with data.kind: volumes. */
#include <math.h>
#include <stdlib.h>
#include <string.h>

#include "common/conf/check.h"
#include "common/conf/check_keys.h"

static const double most_value = 1e6; /* of data.intensity */

/* Reads up to four numbers with commas between them. Returns how many they are, or 0. */
static int read_numbers(const char *text, double out[4])
{
	for (int n = 0; n < 4; n++) {
		char *end;

		out[n] = strtod(text, &end);
		if (end == text || !(fabs(out[n]) <= most_value) || (*end && *end != ','))
			return 0;
		if (!*end)
			return n + 1;
		text = end + 1;
	}
	return 0;
}

bool sl_conf_intensity_read(const char *text, struct sl_conf_intensity *out)
{
	struct sl_conf_intensity x = {.kind = SL_INTENSITY_CT};
	double number[4];
	int n;

	if (strcmp(text, "none") == 0 || strcmp(text, "mri") == 0) {
		*out = (struct sl_conf_intensity){.kind = text[0] == 'n' ? SL_INTENSITY_NONE : SL_INTENSITY_MRI};
		return true;
	}
	if (strncmp(text, "ct:", 3) != 0)
		return false;
	n = read_numbers(text + 3, number);
	if ((n != 2 && n != 4) || !(number[0] < number[1]) || (n == 4 && !(number[3] > 0)))
		return false;
	x.low = number[0];
	x.high = number[1];
	x.mean = n == 4 ? number[2] : x.low;
	x.deviation = n == 4 ? number[3] : x.high - x.low;
	*out = x;
	return true;
}

const char *sl_conf_check_intensity(const void *value, char why[SL_CONF_WHY])
{
	struct sl_conf_intensity never;
	const char *text = value;

	if (!*text || sl_conf_intensity_read(text, &never))
		return NULL;
	return sl_conf_say(
		why, why,
		"must be ct:LOW,HIGH, ct:LOW,HIGH,MEAN,DEVIATION, mri or none, such as ct:-57,164, got \"%.60s\"",
		text);
}

bool sl_conf_three(const struct sl_conf_list *list, double low, double high, bool whole, double out[3])
{
	double number[3];

	for (int i = 0; i < 3 && list->n == 3; i++) {
		char *end;

		number[i] = strtod(list->item[i], &end);
		if (end == list->item[i] || *end || !(number[i] >= low && number[i] <= high) ||
		    (whole && number[i] != floor(number[i])))
			return false;
	}
	if (list->n == 3)
		memcpy(out, number, sizeof number);
	return list->n == 3;
}

const char *sl_conf_check_volumes(const struct sl_conf_client *c, char why[SL_CONF_WHY])
{
	const bool whole = c->data.size.n > 0;
	double never[3];

	if (c->data.kind != SL_DATA_VOLUMES)
		return NULL;
	if (c->model.task != SL_CONF_PIXELS && !whole && !c->model.network[0]) /* else the file may say the task */
		return sl_conf_say(why, "model.task",
				   "volumes have masks: give pixels, and a network of volumes in model.network");
	if (c->data.also.n || c->also || sl_agreed_is_vertical(&c->agreed))
		return sl_conf_say(
			why, sl_agreed_is_vertical(&c->agreed) ? "share.mode" : "data.also",
			"volumes are the only data of a run, and a member has both them and their masks or classes; "
			"leave this key out");
	if (whole && c->data.patch.n)
		return sl_conf_say(why, "data.patch",
				   "volumes with masks have data.patch, and those with a class each have data.size: "
				   "give one of them");
	if (!sl_conf_three(whole ? &c->data.size : &c->data.patch, 1, SL_CONF_MAX_PATCH, true, never))
		return sl_conf_say(why, whole ? "data.size" : "data.patch",
				   "volumes need three whole numbers from 1 to %d, depth, height and width, such as "
				   "[96, 96, 96]%s",
				   SL_CONF_MAX_PATCH,
				   whole || c->data.patch.n ? "" : "; or, with a class for each case, data.size");
	if (c->data.spacing.n && !sl_conf_three(&c->data.spacing, 0.01, 100, false, never))
		return sl_conf_say(why, "data.spacing",
				   "must be three numbers of mm from 0.01 to 100, of depth, height and width, such as "
				   "[3, 1, 1]");
	if (!c->data.intensity[0])
		return sl_conf_say(why, "data.intensity",
				   "volumes need one: ct:LOW,HIGH such as ct:-57,164, with the same numbers at all "
				   "sites; mri; or none");
	return NULL;
}
