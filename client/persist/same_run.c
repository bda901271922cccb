#include "client/persist/same_run.h"

#include <stdio.h>
#include <string.h>

/* A note that is too long is cut off, so lists that may be very long are the last. */
static const char *const paths[] = {"privacy.clip", /* first: a cut note must not hide them */
				    "privacy.clip_grad",
				    "privacy.noise",
				    "train.epochs",
				    "train.max_steps",
				    "train.optimizer.lr",
				    "train.schedule.kind",
				    "train.schedule.warmup_epochs",
				    "train.schedule.warmup",
				    "train.schedule.by",
				    "train.schedule.power",
				    "train.schedule.end_lr",
				    "train.schedule.every_epochs",
				    "train.schedule.milestones",
				    "train.schedule.gamma",
				    "train.schedule.points",
				    "train.label_smoothing",
				    "train.mixup",
				    "train.chunk_loss",
				    "train.drop_last",
				    "model.tokens",
				    "data.kind",
				    "data.patch",
				    "data.patches",
				    "data.foreground",
				    "data.group_by_length",
				    "data.sampling",
				    "data.train_limit",
				    "data.crop_padding",
				    "data.flip",
				    "data.normalize",
				    "data.channels",
				    "data.bits",
				    "data.exif",
				    "data.jpeg",
				    "data.window",
				    "data.transforms",
				    "data.label",
				    "model.task",
				    "train.loss",
				    "train.class_weights",
				    "data.ignore",
				    "data.dates",
				    "data.ids",
				    "data.buckets",
				    "data.mask_rate",
				    "noise.head_act",
				    "noise.mid_grad",
				    "train.phases",
				    "data.test_transforms",
				    "train.freeze",
				    "train.groups",
				    "data.train_files",
				    "data.also"};
enum { N_PATHS = sizeof paths / sizeof paths[0] };

/* Drops a UTF-8 character at the end whose last bytes were cut off: notes must be valid UTF-8. */
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

/* One line "KEY=VALUE" for each key; values have no line feeds. */
void sl_same_run_note(const struct sl_conf_client *conf, char out[SL_CHECKPOINT_NOTE])
{
	size_t at = 0;

	for (int i = 0; i < N_PATHS && at < SL_CHECKPOINT_NOTE - 1; i++) {
		int n = snprintf(out + at, SL_CHECKPOINT_NOTE - at, "%s%s=", i ? "\n" : "", paths[i]);

		at += (size_t)n;
		if (at >= SL_CHECKPOINT_NOTE)
			break;
		if (sl_conf_value_text(&sl_conf_client_schema, conf, paths[i], out + at, SL_CHECKPOINT_NOTE - at))
			out[at] = 0;
		at += strlen(out + at);
	}
	drop_half_character(out);
}

struct value {
	const char *text;
	int len;
};

/* The value of a key in a note; text NULL: the note lacks the key. */
static struct value value_in(const char *note, const char *path)
{
	const size_t len = strlen(path);

	while (note) {
		if (strncmp(note, path, len) == 0 && note[len] == '=')
			return (struct value){note + len + 1, (int)strcspn(note + len + 1, "\n")};
		note = strchr(note, '\n');
		note += note ? 1 : 0;
	}
	return (struct value){NULL, 0};
}

bool sl_same_run_changed(const struct sl_conf_client *conf, const char *then, char out[SL_SAME_RUN_TEXT])
{
	char now[SL_CHECKPOINT_NOTE];
	int at = 0;

	sl_same_run_note(conf, now);
	out[0] = 0;
	for (int i = 0; i < N_PATHS; i++) {
		const struct value was = value_in(then, paths[i]), is = value_in(now, paths[i]);

		if (!was.text || !is.text || (was.len == is.len && memcmp(was.text, is.text, (size_t)is.len) == 0))
			continue;
		if (at < SL_SAME_RUN_TEXT)
			at += snprintf(out + at, (size_t)(SL_SAME_RUN_TEXT - at), "%s%s was %.*s, is %.*s",
				       at ? "; " : "", paths[i], was.len, was.text, is.len, is.text);
	}
	return at > 0;
}
