#include "client/persist/same_run.h"

#include <stdio.h>
#include <string.h>

/* In the order of the note, whose values have a space between them; the last one may have some inside. */
static const char *const paths[] = {"train.epochs",
				    "train.max_steps",
				    "train.optimizer.lr",
				    "train.schedule.kind",
				    "train.schedule.warmup_epochs",
				    "train.schedule.power",
				    "train.schedule.end_lr",
				    "train.chunk_loss",
				    "train.drop_last",
				    "data.kind",
				    "data.train_limit",
				    "data.crop_padding",
				    "data.flip",
				    "data.normalize",
				    "data.train_files"};
enum { N_PATHS = sizeof paths / sizeof paths[0] };

/* A character of several bytes whose last ones were cut off goes: a file takes UTF-8 alone. */
static void drop_half_character(char *text)
{
	size_t end = strlen(text), at = end, follow;
	unsigned char first;

	while (at > 0 && ((unsigned char)text[at - 1] & 0xc0) == 0x80)
		at--;
	first = at > 0 ? (unsigned char)text[at - 1] : 0;
	follow = first >= 0xf0 ? 3 : first >= 0xe0 ? 2 : first >= 0xc0 ? 1 : 0;
	if (end - at < follow)
		text[at - 1] = 0;
}

void sl_same_run_note(const struct sl_conf_client *conf, char out[SL_CHECKPOINT_NOTE])
{
	size_t at = 0;

	for (int i = 0; i < N_PATHS && at < SL_CHECKPOINT_NOTE - 1; i++) {
		if (i)
			out[at++] = ' ';
		if (sl_conf_value_text(&sl_conf_client_schema, conf, paths[i], out + at, SL_CHECKPOINT_NOTE - at))
			out[at] = 0;
		at += strlen(out + at);
	}
	out[at] = 0;
	drop_half_character(out);
}

bool sl_same_run_changed(const struct sl_conf_client *conf, const char *then, char out[SL_SAME_RUN_TEXT])
{
	char is[SL_CHECKPOINT_NOTE];
	const char *now = is;
	int at = 0;

	sl_same_run_note(conf, is);
	out[0] = 0;
	for (int i = 0; i < N_PATHS && *then && *now; i++) {
		const bool last = i == N_PATHS - 1;
		int was_len = (int)(last ? strlen(then) : strcspn(then, " "));
		int is_len = (int)(last ? strlen(now) : strcspn(now, " "));

		if ((was_len != is_len || strncmp(then, now, (size_t)is_len) != 0) && at < SL_SAME_RUN_TEXT)
			at += snprintf(out + at, (size_t)(SL_SAME_RUN_TEXT - at), "%s%s was %.*s, is %.*s",
				       at ? "; " : "", paths[i], was_len, then, is_len, now);
		then += was_len + (then[was_len] == ' ');
		now += is_len + (now[is_len] == ' ');
	}
	return at > 0;
}
