#include "client/setup/setup_volumes.h"

#include <math.h>
#include <stdio.h>

const struct sl_volume_spec *sl_setup_volume(struct sl_setup_volume *out, const struct sl_conf_client *c)
{
	struct sl_volume_spec *v = &out->spec;
	double patch[3] = {1, 1, 1};

	if (c->data.kind != SL_DATA_VOLUMES)
		return NULL;
	*v = (struct sl_volume_spec){.xyz = c->data.axes == SL_AXES_XYZ,
				     .whole = c->data.size.n > 0,
				     .patches = c->data.patches,
				     .foreground = c->data.foreground,
				     .cache = out->cache,
				     .step = c->data.transforms.item,
				     .steps = c->data.transforms.n};
	(void)sl_conf_three(v->whole ? &c->data.size : &c->data.patch, 1, SL_CONF_MAX_PATCH, true, patch);
	(void)sl_conf_three(&c->data.spacing, 0, INFINITY, false, v->spacing);
	(void)sl_conf_intensity_read(c->data.intensity, &v->intensity);
	for (int axis = 0; axis < 3; axis++)
		v->patch[axis] = (int64_t)patch[axis];
	snprintf(out->cache, sizeof out->cache, "%.*s%s", PATH_MAX - 16, c->data.cache[0] ? c->data.cache : c->log.dir,
		 c->data.cache[0] || !c->log.dir[0] ? "" : "/volumes");
	return v;
}

enum sl_err sl_setup_check_patch(const struct sl_setup *s, const int64_t patch[3], struct sl_fail *fail)
{
	const struct sl_conf_client *c = s->conf;
	const int64_t depth = s->plan ? s->plan->model->depth[0] : 0;
	const char *key = c->data.size.n ? "data.size" : "data.patch";

	if (patch[0] * patch[1] == c->model.image.h && patch[2] == c->model.image.w && (!s->plan || depth == patch[0]))
		return SL_OK;
	if (s->plan && !depth)
		return sl_conf_client_fail(
			c, "model.network", fail,
			"is a network of pictures: write one of volumes by split.write_network with an "
			"example [n, C, D, H, W]");
	if (!depth)
		return sl_conf_client_fail(c, key, fail,
					   "depth times height is %lld and width %lld, and the network takes %d and "
					   "%d, as the example of its "
					   "file had",
					   (long long)(patch[0] * patch[1]), (long long)patch[2], c->model.image.h,
					   c->model.image.w);
	return sl_conf_client_fail(
		c, key, fail,
		"the network takes volumes of [%lld, %lld, %d], as the example of its file had: give these",
		(long long)depth, (long long)c->model.image.h / depth, c->model.image.w);
}
