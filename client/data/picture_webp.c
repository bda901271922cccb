/* WebP through libwebp. */
#include <webp/decode.h>

#include "client/data/picture_format.h"

enum sl_err sl_picture_read_webp(const struct sl_picture_job *job)
{
	WebPBitstreamFeatures features;
	enum sl_err err;

	if (WebPGetFeatures(job->bytes, job->len, &features) != VP8_STATUS_OK)
		return sl_fail_set(job->fail, SL_ERR_DATA, "WebP: damaged or cut off");
	if (features.has_animation)
		return sl_fail_set(job->fail, SL_ERR_DATA, "WebP: animated: only still pictures are read");
	err = sl_picture_bounds(job, (uint64_t)features.height, (uint64_t)features.width);
	if (!err)
		err = sl_picture_whole(job, features.height, features.width);
	if (!err && !WebPDecodeRGBInto(job->bytes, job->len, job->room->data,
				       (size_t)features.height * (size_t)features.width * SL_PICTURE_CHANNELS,
				       features.width * SL_PICTURE_CHANNELS))
		err = sl_fail_set(job->fail, SL_ERR_DATA, "WebP: damaged or cut off");
	return err;
}
