#include "client/run/by_class.h"

#include <stdio.h>

enum { NAME = 24 };

struct of_class {
	int64_t is, said, right;
	int other; /* what was said most often of the others of this class; -1: nothing */
};

static struct of_class look(const int64_t *c, int width, int k)
{
	struct of_class o = {.right = c[k * width + k], .other = -1};

	for (int j = 0; j < width; j++) {
		o.is += c[k * width + j];
		o.said += c[j * width + k];
		if (j != k && c[k * width + j] > (o.other < 0 ? 0 : c[k * width + o.other]))
			o.other = j;
	}
	return o;
}

static const char *name_of(const struct sl_set *set, int k, char text[NAME])
{
	const char *name = set->source && set->source->class_name ? set->source->class_name(set, k) : NULL;

	if (name)
		return name;
	snprintf(text, NAME, "%d", k);
	return text;
}

static void put_share(int64_t part, int64_t all)
{
	if (all)
		printf("  %7.2f %%", 100 * (double)part / (double)all);
	else
		printf("  %9s", "-");
}

void sl_by_class_print(const struct sl_scores *scores, const struct sl_set *set)
{
	char text[NAME];
	int width;
	const int64_t *c = scores ? sl_scores_confusion(scores, &width) : NULL;

	if (c)
		printf("\nsamples  precision     recall         F1  class\n");
	for (int k = 0; c && k < width; k++) {
		const struct of_class o = look(c, width, k);

		if (!o.is && !o.said)
			continue;
		printf("%7lld", (long long)o.is);
		put_share(o.right, o.said);
		put_share(o.right, o.is);
		put_share(2 * o.right, o.is + o.said);
		printf("  %s", name_of(set, k, text));
		if (o.other >= 0)
			printf(", %lld taken for %s", (long long)c[k * width + o.other], name_of(set, o.other, text));
		putchar('\n');
	}
}

void sl_by_class_json(json_t *root, const struct sl_scores *scores, const struct sl_set *set)
{
	json_t *names = json_array(), *rows = json_array();
	char text[NAME];
	int width;
	const int64_t *c = scores ? sl_scores_confusion(scores, &width) : NULL;

	for (int k = 0; c && k < width; k++) {
		json_t *row = json_array();

		for (int j = 0; j < width; j++)
			json_array_append_new(row, json_integer((json_int_t)c[k * width + j]));
		json_array_append_new(rows, row);
		json_array_append_new(names, json_string(name_of(set, k, text)));
	}
	if (c) {
		json_object_set(root, "classes", names);
		json_object_set(root, "confusion", rows);
	}
	json_decref(names);
	json_decref(rows);
}
