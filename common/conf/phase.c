/* Phases of a run: "epochs=N image=PIXELS batch=N chunks=N lr=FACTOR". */
#include <stdlib.h>
#include <string.h>

#include "common/conf/check.h"

static const double most_epochs = 1e6, most_lr = 1000;

/* Reads a whole number from `least` to `most` that is all of [text, end). */
static bool whole(const char *text, const char *end, double least, double most, int *out)
{
	char *stop;
	const long n = strtol(text, &stop, 10);

	*out = (int)n;
	return end > text && strspn(text, "0123456789") == (size_t)(end - text) && stop == end && n >= least &&
	       n <= most;
}

/* "224", or "224x192". */
static bool size(const char *text, const char *end, struct sl_conf_size *out)
{
	const char *x = memchr(text, 'x', (size_t)(end - text));

	if (!whole(text, x ? x : end, SL_CONF_MIN_IMAGE, SL_CONF_MAX_IMAGE, &out->h))
		return false;
	out->w = out->h;
	return !x || whole(x + 1, end, SL_CONF_MIN_IMAGE, SL_CONF_MAX_IMAGE, &out->w);
}

/* Takes KEY=VALUE, if the key was not given yet. */
static bool take_word(const char *word, size_t len, struct sl_conf_phase *p)
{
	const char *is = memchr(word, '=', len), *end = word + len;
	const size_t key = is ? (size_t)(is - word) : 0;

#define IS(name) (key == sizeof name - 1 && strncmp(word, name, key) == 0)
	if (IS("epochs") && !p->epochs)
		return whole(is + 1, end, 1, most_epochs, &p->epochs);
	if (IS("image") && !p->image.h)
		return size(is + 1, end, &p->image);
	if (IS("batch") && !p->batch)
		return whole(is + 1, end, 1, SL_CONF_MAX_BATCH, &p->batch);
	if (IS("chunks") && !p->chunks)
		return whole(is + 1, end, 1, SL_CONF_MAX_CHUNKS, &p->chunks);
	return IS("lr") && p->lr == 0 && sl_conf_number(is + 1, end, most_lr, &p->lr) && p->lr > 0;
#undef IS
}

bool sl_conf_phase_read(const char *text, struct sl_conf_phase *out)
{
	struct sl_conf_phase p = {0};

	for (; *text; text += *text == ' ') {
		size_t len = strcspn(text, " ");

		if (len && !take_word(text, len, &p))
			return false;
		text += len;
	}
	if (!p.epochs)
		return false;
	p.lr = p.lr > 0 ? p.lr : 1;
	*out = p;
	return true;
}

const char *sl_conf_check_phase(const void *value, char why[SL_CONF_WHY])
{
	struct sl_conf_phase p;

	if (sl_conf_phase_read(value, &p))
		return NULL;
	return sl_conf_say(
		why, why,
		"must be {epochs: N, image: PIXELS, batch: N, chunks: N, lr: FACTOR}, of which only epochs is needed, "
		"such as {epochs: 5, image: 128, batch: 512}; got \"%.60s\"",
		(const char *)value);
}
