/* DICOM, through a module of its own (dicom.h). */
#include <dlfcn.h>
#include <limits.h>
#include <stdatomic.h>

#include "client/data/dicom.h"
#include "client/data/picture_format.h"
#include "common/base/program.h"

static const char file_name[] = "libsplit_dicom.so";
static _Atomic(const struct sl_dicom *) loaded;

static enum sl_err load(const struct sl_dicom **out, struct sl_fail *fail)
{
	char beside[PATH_MAX];
	sl_dicom_fn *entry;
	void *handle;

	*out = atomic_load(&loaded);
	if (*out)
		return SL_OK;
	handle = dlopen(sl_beside_program(file_name, beside) ? beside : file_name,
			RTLD_NOW | RTLD_LOCAL | RTLD_NODELETE);
	if (!handle)
		return sl_fail_set(fail, SL_ERR_UNAVAILABLE,
				   "this is DICOM, and splitc's module for it is missing: install the package "
				   "split-client-dicom, or build where libdcmtk-dev is (scripts/install-deps.sh "
				   "--dicom). %.120s",
				   dlerror());
	entry = (sl_dicom_fn *)dlsym(handle, "sl_dicom_module");
	*out = entry ? entry() : NULL;
	if (!*out || (*out)->abi != SL_DICOM_ABI)
		return sl_fail_set(fail, SL_ERR_VERSION, "%s was built from other sources: install both together",
				   file_name);
	atomic_store(&loaded, *out);
	return SL_OK;
}

struct reading {
	const struct sl_picture_job *job;
	int channels;
	enum sl_err err;
};

/* The module's `room`: memory in room->data, large enough for RGB of 16 bits. */
static uint16_t *take_room(void *arg, int h, int w, int channels)
{
	struct reading *r = arg;

	r->channels = channels;
	r->err = sl_picture_bounds(r->job, (uint64_t)h, (uint64_t)w);
	if (!r->err)
		r->err = sl_picture_room(r->job, h, w, (size_t)w * SL_PICTURE_CHANNELS * sizeof(uint16_t));
	return r->err ? NULL : (uint16_t *)(void *)r->job->room->data;
}

/* Makes RGB of 8 bits in the same place: each number is read before its place is written to. */
static void make_bytes(uint8_t *out, const uint16_t *in, size_t pixels, int channels)
{
	for (size_t i = pixels; channels == 1 && i-- > 0;) {
		const uint8_t v = (uint8_t)((in[i] + 128u) / 257);

		out[3 * i] = out[3 * i + 1] = out[3 * i + 2] = v;
	}
	for (size_t i = 0; i < pixels * SL_PICTURE_CHANNELS && channels == SL_PICTURE_CHANNELS; i++)
		out[i] = (uint8_t)((in[i] + 128u) / 257);
}

enum sl_err sl_picture_read_dicom(const struct sl_picture_job *job)
{
	struct reading r = {.job = job};
	const struct sl_picture_spec *spec = job->spec;
	const struct sl_dicom_ask ask = {
		spec->max_pixels, spec->windowed, {spec->window[0], spec->window[1]}, take_room, &r};
	const struct sl_dicom *dicom;
	char why[SL_DICOM_WHY] = "";
	enum sl_err err = load(&dicom, job->fail);
	enum sl_dicom_outcome said;

	if (err)
		return err;
	said = dicom->read(job->bytes, job->len, &ask, why);
	if (said != SL_DICOM_READ && r.err)
		return r.err;
	if (said != SL_DICOM_READ) {
		sl_text_make_safe(why, '?');
		return sl_fail_set(job->fail, said == SL_DICOM_BAD ? SL_ERR_DATA : SL_ERR_NOMEM, "%s", why);
	}
	if (spec->deep)
		return sl_picture_deepen(job, job->room->data, 16, r.channels);
	make_bytes(job->room->data, (const uint16_t *)(const void *)job->room->data,
		   (size_t)job->out->dim[0] * (size_t)job->out->dim[1], r.channels);
	return SL_OK;
}
