/* What a user of a trained network must know of its pictures (about.h). */
#include <stdio.h>
#include <string.h>

#include "client/setup/about.h"
#include "client/setup/setup_pictures.h"

void sl_about_norm(char out[SL_CONF_TEXT], const float mean[3], const float std[3], bool grey)
{
	if (grey)
		snprintf(out, SL_CONF_TEXT, "Normalize((%.9g,), (%.9g,))", (double)mean[0], (double)std[0]);
	else
		snprintf(out, SL_CONF_TEXT, "Normalize((%.9g, %.9g, %.9g), (%.9g, %.9g, %.9g))", (double)mean[0],
			 (double)mean[1], (double)mean[2], (double)std[0], (double)std[1], (double)std[2]);
}

void sl_about_pictures(json_t *about, const struct sl_setup *s, const struct sl_set *set)
{
	const struct sl_conf_client *c = s->conf;
	const struct sl_transform *t = s->transform[SL_SPLIT_TEST];
	const bool grey = set->field[SL_FIELD_INPUT].dim[2] == 1;
	json_t *list = json_array();
	struct sl_conf_list steps;
	char norm[SL_CONF_TEXT];
	float mean[3], std[3];

	sl_setup_steps(&steps, c, SL_SPLIT_TEST);
	if (grey) /* the decoder gives grey pictures */
		json_array_append_new(list, json_string("Grayscale()"));
	for (int i = 0; i < steps.n; i++)
		if (!strstr(steps.item[i], "Normalize") && !(grey && strstr(steps.item[i], "Grayscale")))
			json_array_append_new(list, json_string(steps.item[i]));
	if (t)
		sl_transform_norm(t, mean, std);
	else
		sl_norm_values(c->data.normalize, mean, std);
	sl_about_norm(norm, mean, std, grey);
	json_array_append_new(list, json_string(norm));
	json_object_set_new(about, "image", json_pack("[i, i]", c->model.image.h, c->model.image.w));
	if (grey)
		json_object_set_new(about, "channels", json_integer(1));
	if (c->data.bits == SL_BITS_16)
		json_object_set_new(about, "bits", json_integer(16));
	if (c->data.exif)
		json_object_set_new(about, "exif", json_true());
	if (sl_setup_decodes(c))
		json_object_set_new(about, "jpeg", json_string(c->data.jpeg == SL_JPEG_EXACT ? "exact" : "fast"));
	if (c->data.window.n == 2)
		json_object_set_new(about, "window",
				    json_pack("[s, s]", c->data.window.item[0], c->data.window.item[1]));
	json_object_set_new(about, "transforms", list);
}
