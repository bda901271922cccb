#include "client/data/transform_step.h"

#include <ctype.h>
#include <math.h>
#include <stdio.h>
#include <stdlib.h>
#include <string.h>

enum { MOST_PARAMS = 7, MOST_NUMBERS = 4, WORD = 48, HUE = 3 };

static const struct {
	const char *name;
	const char *param[MOST_PARAMS + 1]; /* in torchvision's order */
} kinds[SL_STEP_COUNT] = {
	[SL_STEP_RESIZE] = {"Resize", {"size", "interpolation", "max_size", "antialias"}},
	[SL_STEP_CENTER_CROP] = {"CenterCrop", {"size"}},
	[SL_STEP_RANDOM_CROP] = {"RandomCrop", {"size", "padding", "pad_if_needed", "fill", "padding_mode"}},
	[SL_STEP_RANDOM_RESIZED_CROP] = {"RandomResizedCrop", {"size", "scale", "ratio", "interpolation", "antialias"}},
	[SL_STEP_HORIZONTAL_FLIP] = {"RandomHorizontalFlip", {"p"}},
	[SL_STEP_VERTICAL_FLIP] = {"RandomVerticalFlip", {"p"}},
	[SL_STEP_RANDOM_ROTATION] = {"RandomRotation", {"degrees", "interpolation", "expand", "center", "fill"}},
	[SL_STEP_RANDOM_AFFINE] = {"RandomAffine",
				   {"degrees", "translate", "scale", "shear", "interpolation", "fill", "center"}},
	[SL_STEP_GRAYSCALE] = {"Grayscale", {"num_output_channels"}},
	[SL_STEP_RANDOM_GRAYSCALE] = {"RandomGrayscale", {"p"}},
	[SL_STEP_RAND_AUGMENT] = {"RandAugment",
				  {"num_ops", "magnitude", "num_magnitude_bins", "interpolation", "fill"}},
	[SL_STEP_COLOR_JITTER] = {"ColorJitter", {"brightness", "contrast", "saturation", "hue"}},
	[SL_STEP_TO_TENSOR] = {"ToTensor", {NULL}},
	[SL_STEP_NORMALIZE] = {"Normalize", {"mean", "std", "inplace"}},
	[SL_STEP_RANDOM_ERASING] = {"RandomErasing", {"p", "scale", "ratio", "value", "inplace"}},
	[SL_STEP_CUTOUT] = {"Cutout", {"size"}},
	[SL_STEP_FLIP] = {"RandomFlip", {"axes", "p"}},
	[SL_STEP_GAMMA] = {"RandomGamma", {"gamma", "p"}},
	[SL_STEP_NOISE] = {"RandomNoise", {"std", "p"}},
	[SL_STEP_INTENSITY] = {"RandomIntensity", {"scale", "shift", "p"}},
	[SL_STEP_AFFINE_3D] = {"RandomAffine3d", {"degrees", "scale", "p"}},
};

/* A parameter's value: numbers, in brackets or alone, or a word (a name, a text in quotes, None). */
struct value {
	int n;
	bool list;
	double number[MOST_NUMBERS];
	char word[WORD];
};

struct reader {
	const char *at;
	struct sl_fail *fail;
};

double sl_step_neutral(int colour)
{
	return colour == HUE ? 0 : 1;
}

static void blanks(struct reader *r)
{
	while (*r->at == ' ')
		r->at++;
}

static bool take(struct reader *r, char c)
{
	blanks(r);
	if (*r->at != c)
		return false;
	r->at++;
	return true;
}

static bool word(struct reader *r, char out[WORD])
{
	size_t n = 0;

	blanks(r);
	if (!isalpha((unsigned char)*r->at) && *r->at != '_')
		return false;
	while (isalnum((unsigned char)*r->at) || *r->at == '_' || *r->at == '.') {
		if (n + 1 < WORD)
			out[n++] = *r->at;
		r->at++;
	}
	out[n] = 0;
	return true;
}

/* "0.5", "3/4" */
static bool number(struct reader *r, double *out)
{
	char *end;
	double over;

	blanks(r);
	if (!*r->at || !strchr("0123456789.-+", *r->at) || r->at[strspn(r->at, "+-.")] > '9')
		return false;
	*out = strtod(r->at, &end);
	if (end == r->at)
		return false;
	r->at = end;
	if (take(r, '/')) {
		over = strtod(r->at, &end);
		if (end == r->at || over == 0)
			return false;
		r->at = end;
		*out /= over;
	}
	return isfinite(*out);
}

static bool quoted(struct reader *r, char out[WORD])
{
	const char quote = *r->at;
	size_t n = 0;

	for (r->at++; *r->at && *r->at != quote; r->at++)
		if (n + 1 < WORD)
			out[n++] = *r->at;
	out[n] = 0;
	return take(r, quote);
}

static bool value(struct reader *r, struct value *out)
{
	*out = (struct value){0};
	blanks(r);
	if (*r->at == '"' || *r->at == '\'')
		return quoted(r, out->word);
	if (word(r, out->word))
		return true;
	if (take(r, '(') || take(r, '[')) {
		const char close = r->at[-1] == '(' ? ')' : ']';

		out->list = true;
		do {
			blanks(r);
			if (*r->at == close)
				break;
			if (out->n == MOST_NUMBERS || !number(r, &out->number[out->n++]))
				return false;
		} while (take(r, ','));
		return take(r, close) && out->n > 0;
	}
	out->n = 1;
	return number(r, &out->number[0]);
}

static enum sl_err wrong(struct sl_fail *fail, const char *param, const char *wanted)
{
	return sl_fail_set(fail, SL_ERR_CONFIG, "%s must be %s", param, wanted);
}

static bool is_integer(double x, double low, double high)
{
	return x == floor(x) && x >= low && x <= high;
}

static enum sl_err set_size(struct sl_step *s, const struct value *v, struct sl_fail *fail)
{
	if (v->n < 1 || v->n > 2 || !is_integer(v->number[0], 1, SL_CONF_MAX_IMAGE) ||
	    !is_integer(v->number[v->n - 1], 1, SL_CONF_MAX_IMAGE))
		return wrong(fail, "size", "a whole number of pixels, or (height, width)");
	s->h = (int)v->number[0];
	s->w = v->n == 2 ? (int)v->number[1] : s->kind == SL_STEP_RESIZE ? 0 : s->h;
	return SL_OK;
}

static enum sl_err set_padding(struct sl_step *s, const struct value *v, struct sl_fail *fail)
{
	for (int i = 0; i < v->n; i++)
		if (!is_integer(v->number[i], 0, SL_CONF_MAX_IMAGE))
			return wrong(fail, "padding", "whole numbers of pixels");
	if (strcmp(v->word, "None") == 0)
		return SL_OK;
	if (v->n != 1 && v->n != 2 && v->n != 4)
		return wrong(fail, "padding",
			     "one number, (left and right, top and bottom), or (left, top, right, bottom)");
	s->pad_left = (int)v->number[0];
	s->pad_top = (int)v->number[v->n == 1 ? 0 : 1];
	s->pad_right = (int)v->number[v->n == 4 ? 2 : 0];
	s->pad_bottom = (int)v->number[v->n == 4 ? 3 : v->n == 2 ? 1 : 0];
	return SL_OK;
}

static enum sl_err set_mode(struct sl_step *s, const struct value *v, struct sl_fail *fail)
{
	static const char *const modes[] = {"constant", "reflect", "edge", "symmetric"};

	for (int i = 0; i < 4; i++)
		if (strcmp(v->word, modes[i]) == 0) {
			s->mode = (enum sl_padding)i;
			return SL_OK;
		}
	return wrong(fail, "padding_mode", "constant, reflect, edge or symmetric");
}

/* One number for all channels, or three. */
static enum sl_err set_colour(double out[3], const char *param, const struct value *v, double low, double high,
			      struct sl_fail *fail)
{
	char wanted[80];

	snprintf(wanted, sizeof wanted, "one number or three, from %g to %g", low, high);
	if (v->n != 1 && v->n != 3)
		return wrong(fail, param, wanted);
	for (int c = 0; c < 3; c++) {
		out[c] = v->number[v->n == 3 ? c : 0];
		if (!(out[c] >= low && out[c] <= high))
			return wrong(fail, param, wanted);
	}
	return SL_OK;
}

static enum sl_err set_pair(double out[2], const char *param, const struct value *v, double low, double high,
			    struct sl_fail *fail)
{
	char wanted[80];

	snprintf(wanted, sizeof wanted, "two numbers that rise, from %g to %g", low, high);
	if (v->n != 2 || !(v->number[0] >= low && v->number[0] <= v->number[1] && v->number[1] <= high))
		return wrong(fail, param, wanted);
	memcpy(out, v->number, 2 * sizeof *out);
	return SL_OK;
}

/* A number x means [1 − x, 1 + x], for hue [−x, x]; two numbers are the range itself. */
static enum sl_err set_range(struct sl_step *s, int colour, const struct value *v, struct sl_fail *fail)
{
	const double middle = sl_step_neutral(colour), low = colour == HUE ? -0.5 : 0, high = colour == HUE ? 0.5 : 100;
	const char *param = kinds[SL_STEP_COLOR_JITTER].param[colour];
	struct value range = *v;

	if (v->n == 1 && !v->list) {
		if (!(v->number[0] >= 0 && v->number[0] <= high))
			return wrong(fail, param, colour == HUE ? "from 0 to 0.5" : "from 0 to 100");
		range.n = 2;
		range.number[0] = fmax(middle - v->number[0], low);
		range.number[1] = middle + v->number[0];
	}
	return set_pair(s->range[colour], param, &range, low, middle + high, fail);
}

static enum sl_err set_normal(struct sl_step *s, const char *param, const struct value *v, struct sl_fail *fail)
{
	const bool std = strcmp(param, "std") == 0;
	double x[3];
	enum sl_err err = set_colour(x, param, v, std ? 1e-6 : -1000, 1000, fail);

	for (int c = 0; c < 3 && !err; c++)
		(std ? s->std : s->mean)[c] = (float)x[c];
	return err;
}

static enum sl_err set_fill(struct sl_step *s, const char *param, const struct value *v, struct sl_fail *fail)
{
	const bool byte = strcmp(param, "fill") == 0;
	double x[3];
	enum sl_err err;

	s->noise = !byte && strcmp(v->word, "random") == 0;
	if (s->noise)
		return SL_OK;
	err = set_colour(x, param, v, byte ? 0 : -1000, byte ? 255 : 1000, fail);
	for (int c = 0; c < 3 && !err; c++) {
		s->fill[c] = byte ? (uint8_t)x[c] : 0;
		s->value[c] = byte ? 0 : (float)x[c];
	}
	return err;
}

static enum sl_err set_flag(bool *out, const char *param, const struct value *v, struct sl_fail *fail)
{
	*out = strcmp(v->word, "True") == 0;
	return *out || strcmp(v->word, "False") == 0 ? SL_OK : wrong(fail, param, "True or False");
}

/* Parameters that take several values in torchvision, but one here. */
static enum sl_err only(const char *param, const struct value *v, struct sl_fail *fail)
{
	const char *dot = strrchr(v->word, '.'), *name = dot ? dot + 1 : v->word;

	if (strcmp(param, "interpolation") == 0)
		return strcasecmp(name, "bilinear") == 0 || (v->n == 1 && v->number[0] == 2)
			       ? SL_OK
			       : wrong(fail, param, "bilinear: there is no other");
	if (strcmp(param, "antialias") == 0)
		return strcmp(name, "True") == 0 || strcmp(name, "None") == 0
			       ? SL_OK
			       : wrong(fail, param, "True: pictures are always resized with antialiasing");
	if (strcmp(param, "max_size") == 0)
		return strcmp(name, "None") == 0 ? SL_OK : wrong(fail, param, "None: there is no such limit");
	return SL_OK; /* inplace may have any value */
}

static bool is_word(const struct value *v, const char *name)
{
	const char *dot = strrchr(v->word, '.');

	return strcasecmp(dot ? dot + 1 : v->word, name) == 0;
}

/* The interpolation of steps that turn an image. */
static enum sl_err set_interpolation(struct sl_step *s, const struct value *v, struct sl_fail *fail)
{
	s->bilinear = is_word(v, "bilinear") || (v->n == 1 && v->number[0] == 2);
	return s->bilinear || is_word(v, "nearest") || (v->n == 1 && v->number[0] == 0)
		       ? SL_OK
		       : wrong(fail, "interpolation", "nearest or bilinear");
}

/* A number x means [−x, x]; two numbers are a range; four, for shear, are two ranges. */
static enum sl_err set_angles(double out[][2], int most, const char *param, const struct value *v, struct sl_fail *fail)
{
	const double most_degrees = most > 1 ? 89 : 360;
	struct value range = *v;

	if (is_word(v, "None"))
		return SL_OK;
	if (v->n == 1 && !v->list) {
		range.n = 2;
		range.number[0] = -v->number[0];
		range.number[1] = v->number[0];
	}
	if (range.n != 2 && range.n != 2 * most)
		return wrong(fail, param, most > 1 ? "a number, two or four" : "a number, or two that rise");
	for (int i = 0; i < range.n / 2; i++) {
		const double low = range.number[2 * i], high = range.number[2 * i + 1];

		if (!(low >= -most_degrees && low <= high && high <= most_degrees))
			return wrong(fail, param,
				     most > 1 ? "degrees that rise, from -89 to 89"
					      : "degrees that rise, from -360 to 360");
		out[i][0] = low;
		out[i][1] = high;
	}
	return SL_OK;
}

static enum sl_err set_translate(struct sl_step *s, const struct value *v, struct sl_fail *fail)
{
	for (int i = 0; i < v->n; i++)
		if (!(v->number[i] >= 0 && v->number[i] <= 1))
			return wrong(fail, "translate", "two shares of width and height, from 0 to 1");
	if (v->n != 2 && !is_word(v, "None"))
		return wrong(fail, "translate", "two shares of width and height, from 0 to 1");
	memcpy(s->translate, v->number, sizeof s->translate);
	return SL_OK;
}

static enum sl_err set_centre(struct sl_step *s, const struct value *v, struct sl_fail *fail)
{
	s->centred = v->n == 2;
	memcpy(s->centre, v->number, sizeof s->centre);
	return s->centred || is_word(v, "None") ? SL_OK : wrong(fail, "center", "(x, y) in pixels, or None");
}

static enum sl_err set_whole(int *out, const char *param, const struct value *v, int low, int high,
			     struct sl_fail *fail)
{
	char wanted[80];

	snprintf(wanted, sizeof wanted, "a whole number from %d to %d", low, high);
	if (v->n != 1 || !is_integer(v->number[0], low, high))
		return wrong(fail, param, wanted);
	*out = (int)v->number[0];
	return SL_OK;
}

/* Sets a parameter of RandomRotation, RandomAffine, RandAugment or Grayscale. */
static enum sl_err set_other_param(struct sl_step *s, const char *param, const struct value *v, struct sl_fail *fail)
{
	int channels = 0;

	if (strcmp(param, "degrees") == 0)
		return set_angles(&s->degrees, 1, param, v, fail);
	if (strcmp(param, "shear") == 0)
		return set_angles(s->shear, 2, param, v, fail);
	if (strcmp(param, "translate") == 0)
		return set_translate(s, v, fail);
	if (strcmp(param, "scale") == 0)
		return is_word(v, "None") ? SL_OK : set_pair(s->grow, param, v, 0.01, 100, fail);
	if (strcmp(param, "center") == 0)
		return set_centre(s, v, fail);
	if (strcmp(param, "interpolation") == 0)
		return set_interpolation(s, v, fail);
	if (strcmp(param, "expand") == 0)
		return is_word(v, "False") ? SL_OK : wrong(fail, param, "False: images keep their size");
	if (strcmp(param, "num_ops") == 0)
		return set_whole(&s->ops, param, v, 0, SL_STEP_MOST_OPS, fail);
	if (strcmp(param, "magnitude") == 0)
		return set_whole(&s->magnitude, param, v, 0, 999, fail);
	if (strcmp(param, "num_magnitude_bins") == 0)
		return set_whole(&s->bins, param, v, 2, 1000, fail);
	if (strcmp(param, "num_output_channels") == 0) {
		enum sl_err err = set_whole(&channels, param, v, 1, 3, fail);

		return err || channels != 2 ? err : wrong(fail, param, "1 or 3");
	}
	return is_word(v, "None") ? SL_OK : set_fill(s, param, v, fail);
}

static enum sl_err set_probability(struct sl_step *s, const struct value *v, struct sl_fail *fail)
{
	s->p = v->number[0];
	return v->n == 1 && s->p >= 0 && s->p <= 1 ? SL_OK : wrong(fail, "p", "from 0 to 1");
}

static enum sl_err set_turn(struct sl_step *s, const struct value *v, struct sl_fail *fail)
{
	bool fits = v->n == 1 || v->n == 3;

	for (int axis = 0; axis < 3 && fits; axis++) {
		s->turn[axis] = v->number[v->n == 3 ? axis : 0];
		fits = s->turn[axis] >= 0 && s->turn[axis] <= 180;
	}
	return fits ? SL_OK
		    : wrong(fail, "degrees", "one number from 0 to 180, or three, about depth, height and width");
}

static enum sl_err set_volume_param(struct sl_step *s, const char *param, const struct value *v, struct sl_fail *fail)
{
	double *to = &s->spread[strcmp(param, "shift") == 0];

	if (strcmp(param, "p") == 0)
		return set_probability(s, v, fail);
	if (strcmp(param, "gamma") == 0)
		return set_pair(s->gamma, param, v, 0.1, 10, fail);
	if (strcmp(param, "degrees") == 0)
		return set_turn(s, v, fail);
	memset(s->axis, 0, sizeof s->axis);
	for (int i = 0; i < v->n && s->kind == SL_STEP_FLIP; i++) {
		if (!is_integer(v->number[i], 0, 2))
			return wrong(fail, param, "of 0, 1 and 2: depth, height, width");
		s->axis[(int)v->number[i]] = true;
	}
	if (s->kind == SL_STEP_FLIP)
		return v->n > 0 ? SL_OK : wrong(fail, param, "of 0, 1 and 2: depth, height, width");
	*to = v->number[0];
	if (s->kind == SL_STEP_AFFINE_3D && v->n == 1 && *to > 0.9)
		return wrong(fail, param, "from 0 to 0.9");
	return v->n == 1 && *to >= 0 && *to <= 1 ? SL_OK : wrong(fail, param, "from 0 to 1");
}

static bool has_other_params(const struct sl_step *s)
{
	return s->kind == SL_STEP_RANDOM_ROTATION || s->kind == SL_STEP_RANDOM_AFFINE ||
	       s->kind == SL_STEP_RAND_AUGMENT || s->kind == SL_STEP_GRAYSCALE;
}

static enum sl_err set_param(struct sl_step *s, int i, const struct value *v, struct sl_fail *fail)
{
	const char *param = kinds[s->kind].param[i];

	if (s->kind >= SL_STEP_VOLUMES)
		return set_volume_param(s, param, v, fail);
	if (strcmp(param, "size") == 0)
		return set_size(s, v, fail);
	if (has_other_params(s))
		return set_other_param(s, param, v, fail);
	if (s->kind == SL_STEP_COLOR_JITTER)
		return set_range(s, i, v, fail);
	if (strcmp(param, "padding") == 0)
		return set_padding(s, v, fail);
	if (strcmp(param, "padding_mode") == 0)
		return set_mode(s, v, fail);
	if (strcmp(param, "pad_if_needed") == 0)
		return set_flag(&s->pad_if_needed, param, v, fail);
	if (strcmp(param, "fill") == 0 || strcmp(param, "value") == 0)
		return set_fill(s, param, v, fail);
	if (strcmp(param, "scale") == 0)
		return set_pair(s->scale, param, v, 0, 1, fail);
	if (strcmp(param, "ratio") == 0)
		return set_pair(s->ratio, param, v, 0.001, 1000, fail);
	if (strcmp(param, "mean") == 0 || strcmp(param, "std") == 0)
		return set_normal(s, param, v, fail);
	if (strcmp(param, "p") == 0)
		return set_probability(s, v, fail);
	return only(param, v, fail);
}

static enum sl_err find_kind(struct sl_step *s, const char *name, struct sl_fail *fail)
{
	const char *dot = strrchr(name, '.');
	char all[400] = "";

	name = dot ? dot + 1 : name;
	for (int i = 0; i < SL_STEP_COUNT; i++) {
		if (strcmp(name, kinds[i].name) == 0) {
			s->kind = (enum sl_step_kind)i;
			return SL_OK;
		}
		snprintf(all + strlen(all), sizeof all - strlen(all), "%s%s", i ? ", " : "", kinds[i].name);
	}
	return sl_fail_set(fail, SL_ERR_CONFIG, "there is no step of this name; there are %s", all);
}

static void set_defaults(struct sl_step *s, int h, int w)
{
	const bool erases = s->kind == SL_STEP_RANDOM_ERASING;

	s->h = h;
	s->w = w;
	s->p = s->kind == SL_STEP_RANDOM_GRAYSCALE ? 0.1 : s->kind > SL_STEP_FLIP ? 0.3 : 0.5;
	s->axis[0] = s->axis[1] = s->axis[2] = true;
	s->gamma[0] = 0.7;
	s->gamma[1] = 1.5;
	s->spread[0] = s->spread[1] = 0.1;
	s->turn[0] = s->turn[1] = s->turn[2] = 15;
	s->grow[0] = s->grow[1] = 1;
	s->ops = 2;
	s->magnitude = 9;
	s->bins = 31;
	s->scale[0] = erases ? 0.02 : 0.08;
	s->scale[1] = erases ? 0.33 : 1;
	s->ratio[0] = erases ? 0.3 : 3. / 4;
	s->ratio[1] = erases ? 3.3 : 4. / 3;
	for (int i = 0; i <= HUE; i++)
		s->range[i][0] = s->range[i][1] = sl_step_neutral(i);
}

/* The parameter that a value is for: that of "name=" in front of it, or the next one. -1: there is none such, or it
 * was given already. */
static int which_param(struct reader *r, const struct sl_step *s, int next, unsigned given)
{
	const char *const *param = kinds[s->kind].param;
	struct reader ahead = *r;
	char name[WORD];

	if (word(&ahead, name) && take(&ahead, '=')) {
		r->at = ahead.at;
		for (next = 0; param[next] && strcmp(param[next], name) != 0;)
			next++;
	}
	return next < MOST_PARAMS && param[next] && !(given >> next & 1) ? next : -1;
}

static enum sl_err read_params(struct reader *r, struct sl_step *s, unsigned *given)
{
	for (int next = 0; !take(r, ')'); next++) {
		struct value v;
		const int i = which_param(r, s, next, *given);
		enum sl_err err;

		if (i < 0)
			return sl_fail_set(r->fail, SL_ERR_CONFIG, "%s has no such parameter, or it is given twice",
					   kinds[s->kind].name);
		if (!value(r, &v))
			return sl_fail_set(r->fail, SL_ERR_CONFIG,
					   "%s must be a number, a list of at most %d numbers in brackets, or a word",
					   kinds[s->kind].param[i], MOST_NUMBERS);
		err = set_param(s, i, &v, r->fail);
		if (err)
			return err;
		*given |= 1u << i;
		if (!take(r, ',')) {
			blanks(r);
			if (*r->at != ')')
				return *r->at ? sl_fail_set(r->fail, SL_ERR_CONFIG,
							    "a comma is missing before \"%.20s\"", r->at)
					      : sl_fail_set(r->fail, SL_ERR_CONFIG, "the last \")\" is missing");
		}
	}
	return SL_OK;
}

enum sl_err sl_step_read(struct sl_step *out, const char *text, int h, int w, struct sl_fail *fail)
{
	struct reader r = {text, fail};
	struct sl_step s = {0};
	unsigned given = 0;
	char name[WORD];
	enum sl_err err;

	if (!word(&r, name))
		return sl_fail_set(fail, SL_ERR_CONFIG, "a step begins with its name");
	err = find_kind(&s, name, fail);
	if (err)
		return err;
	set_defaults(&s, h, w);
	if (take(&r, '('))
		err = read_params(&r, &s, &given);
	blanks(&r);
	if (!err && *r.at)
		err = sl_fail_set(fail, SL_ERR_CONFIG, "\"%.20s\" stands behind the step", r.at);
	if (!err && s.kind == SL_STEP_NORMALIZE && given % 4 != 3)
		err = sl_fail_set(fail, SL_ERR_CONFIG, "Normalize needs mean and std");
	if (!err && (s.kind == SL_STEP_RANDOM_ROTATION || s.kind == SL_STEP_RANDOM_AFFINE) && !(given & 1))
		err = sl_fail_set(fail, SL_ERR_CONFIG, "%s needs degrees", kinds[s.kind].name);
	if (!err && s.kind == SL_STEP_RAND_AUGMENT && s.magnitude >= s.bins)
		err = sl_fail_set(fail, SL_ERR_CONFIG, "magnitude must be below num_magnitude_bins, %d", s.bins);
	if (!err && s.kind == SL_STEP_CUTOUT && !given)
		err = sl_fail_set(fail, SL_ERR_CONFIG, "Cutout needs a size");
	if (!err && s.pad_if_needed && s.mode != SL_PAD_CONSTANT)
		err = sl_fail_set(fail, SL_ERR_CONFIG, "pad_if_needed goes with padding_mode='constant' alone");
	if (!err)
		*out = s;
	return err;
}
