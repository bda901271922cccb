/* Any bytes as a checkpoint file. An accepted file stays within the parts asked for and has the
 * required notes. Written again, it reads as the same. */
#include <fcntl.h>
#include <stdio.h>
#include <stdlib.h>
#include <string.h>
#include <sys/stat.h>
#include <unistd.h>

#include "common/session/checkpoint.h"

enum { FLOATS = 5, BYTES = 24, STEP = 7 };

struct state {
	float *weights; /* of their exact size, so that a write beyond is noticed */
	uint8_t *codec;
	struct sl_checkpoint c;
};

static char dir[] = "/dev/shm/fuzz_checkpoint.XXXXXX", path[sizeof dir + 64];

static void must(bool good)
{
	if (!good)
		abort();
}

static void remove_dir(void)
{
	sl_checkpoint_clear(dir, "side");
	rmdir(dir);
}

static void open_state(struct state *s)
{
	*s = (struct state){.weights = calloc(FLOATS, sizeof(float)), .codec = calloc(BYTES, 1)};
	must(s->weights && s->codec);
	s->c = (struct sl_checkpoint){.dir = dir, .prefix = "side"};
	sl_checkpoint_floats(&s->c, "weights", s->weights, FLOATS);
	sl_checkpoint_bytes(&s->c, "codec", s->codec, BYTES);
	sl_checkpoint_note(&s->c, "plan", "%s", "0123");
	sl_checkpoint_note(&s->c, "session", "%s", "");
}

static void close_state(struct state *s)
{
	free(s->weights);
	free(s->codec);
}

static void write_input(const uint8_t *data, size_t size)
{
	int fd = open(path, O_WRONLY | O_CREAT | O_TRUNC, 0600);

	must(fd >= 0 && write(fd, data, size) == (ssize_t)size);
	close(fd);
}

static void write_and_compare(const struct state *s)
{
	struct sl_fail fail;
	struct state t;

	must(sl_checkpoint_write(&s->c, STEP + 1, &fail) == SL_OK);
	open_state(&t);
	must(sl_checkpoint_read(&t.c, STEP + 1, &fail) == SL_OK);
	must(memcmp(s->weights, t.weights, FLOATS * sizeof(float)) == 0);
	must(t.c.part[1].count == s->c.part[1].count);
	must(memcmp(s->codec, t.codec, (size_t)t.c.part[1].count) == 0);
	must(strcmp(sl_checkpoint_noted(&s->c, "session"), sl_checkpoint_noted(&t.c, "session")) == 0);
	close_state(&t);
}

/* A note may hold any JSON text, but only UTF-8 can be written. This test writes printable ASCII alone. */
static bool is_plain(const char *text)
{
	for (; *text; text++)
		if ((unsigned char)*text < 0x20 || (unsigned char)*text > 0x7e)
			return false;
	return true;
}

int LLVMFuzzerTestOneInput(const uint8_t *data, size_t size);

int LLVMFuzzerTestOneInput(const uint8_t *data, size_t size)
{
	struct sl_fail fail = {0};
	struct state s;
	enum sl_err err;

	if (!*path) {
		must(mkdtemp(dir) != NULL);
		snprintf(path, sizeof path, "%s/side-%012d.safetensors", dir, STEP);
		atexit(remove_dir);
		open_state(&s);
		must(sl_checkpoint_write(&s.c, STEP, &fail) == SL_OK);
		must(access(path, F_OK) == 0 || !"the name of a checkpoint has changed");
		close_state(&s);
	}
	write_input(data, size);
	open_state(&s);
	err = sl_checkpoint_read(&s.c, STEP, &fail);
	if (err) {
		must(err == SL_ERR_DATA || err == SL_ERR_MISMATCH || err == SL_ERR_NOINPUT || err == SL_ERR_LIMIT);
		must(fail.text[0] != 0);
	} else {
		must(s.c.part[1].count >= 0 && s.c.part[1].count <= BYTES);
		must(strcmp(sl_checkpoint_noted(&s.c, "plan"), "0123") == 0);
		if (is_plain(sl_checkpoint_noted(&s.c, "session")))
			write_and_compare(&s);
	}
	close_state(&s);
	return 0;
}
