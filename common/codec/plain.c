/* Payloads that are the tensor itself. */
#include "common/codec/frame.h"
#include "common/codec/impl.h"

bool sl_codec_is_plain(const struct sl_codec *c)
{
	return c->next == NULL && !c->device && c->n_transform == 0 && c->quantizer.stage->id == SL_STAGE_ID_NONE &&
	       c->bytes.stage == NULL && !c->spec.error_feedback;
}

void sl_codec_plain_head(const struct sl_codec *c, int64_t dim0, uint8_t *head)
{
	sl_frame_write(head, &c->spec, c->paired, dim0);
}

enum sl_err sl_codec_plain_check(const struct sl_codec *c, const uint8_t *head, size_t len, const struct sl_tensor *x,
				 struct sl_fail *fail)
{
	size_t expected = SL_FRAME_BYTES + (size_t)sl_shape_count(&x->shape) * sizeof(float);
	struct sl_bytes in = {head, len < SL_FRAME_BYTES ? len : SL_FRAME_BYTES};
	enum sl_err err = sl_frame_take(&in, &c->spec, c->paired, x->shape.dim[0], fail);

	if (err || len == expected)
		return err;
	return sl_fail_set(fail, SL_ERR_PAYLOAD, "none: %zu bytes, expected %zu", len - SL_FRAME_BYTES,
			   expected - SL_FRAME_BYTES);
}
