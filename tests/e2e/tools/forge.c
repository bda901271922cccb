/* forge FILE STEP PART DIR: copies a checkpoint to DIR (prefix "forged") with a changed PART and a right hash: damage
 * that no accident makes and no check of the hash finds. A PART of floats gets 1000 as its first value; any other PART
 * loses a byte. PART may be KEY=VALUE, a note: only that changes, such as the session's name. */
#include <stdio.h>
#include <stdlib.h>
#include <string.h>

#include "common/session/checkpoint.h"

static const char *changed; /* KEY=VALUE; NULL: all notes are as they were */

static void take_note(void *arg, const char *key, const char *value)
{
	const size_t n = strlen(key);

	if (changed && strncmp(key, changed, n) == 0 && changed[n] == '=')
		sl_checkpoint_note(arg, key, "%s", changed + n + 1);
	else if (strcmp(key, "xxh3") != 0)
		sl_checkpoint_note(arg, key, "%s", value);
}

static enum sl_err take_part(struct sl_checkpoint *c, const struct sl_st_file *file, const struct sl_st_tensor *t,
			     const char *forged, struct sl_fail *fail)
{
	uint8_t *data = malloc((size_t)t->bytes + sizeof(float));
	enum sl_err err = data ? sl_st_read_raw(file, t, 0, data, (size_t)t->bytes, fail) : SL_ERR_NOMEM;
	const float many = 1000;

	if (!err && strcmp(t->name, forged) == 0 && strcmp(t->dtype, "F32") == 0)
		memcpy(data, &many, sizeof many);
	if (strcmp(t->dtype, "F32") == 0)
		sl_checkpoint_floats(c, t->name, (float *)(void *)data, t->count);
	else
		sl_checkpoint_bytes(c, t->name, data, t->count - (strcmp(t->name, forged) == 0));
	return err;
}

int main(int argc, char **argv)
{
	struct sl_checkpoint c = {.prefix = "forged"};
	struct sl_st_file *file = NULL;
	struct sl_fail fail = {0};
	enum sl_err err;

	if (argc != 5)
		return 64;
	c.dir = argv[4];
	changed = strchr(argv[3], '=') ? argv[3] : NULL;
	err = sl_st_open(&file, argv[1], &fail);
	if (!err && !changed && !sl_st_find(file, argv[3]))
		err = sl_fail_set(&fail, SL_ERR_DATA, "%s: no %s", argv[1], argv[3]);
	if (!err)
		sl_st_each_note(file, take_note, &c);
	for (int i = 0; !err && i < sl_st_count(file); i++)
		err = take_part(&c, file, sl_st_at(file, i), argv[3], &fail);
	if (!err)
		err = sl_checkpoint_write(&c, strtoull(argv[2], NULL, 10), &fail);
	if (err)
		fprintf(stderr, "forge: %s\n", fail.text);
	for (int i = 0; i < c.n_part; i++)
		free(c.part[i].data);
	sl_st_close(file);
	return err ? 1 : 0;
}
