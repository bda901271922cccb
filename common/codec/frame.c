#include "common/codec/frame.h"

#include "common/codec/stage.h"

void sl_frame_write(uint8_t *at, const struct sl_codec_spec *spec, bool paired, int64_t rows)
{
	memset(at, 0, SL_FRAME_BYTES);
	at[0] = SL_FRAME_FORMAT;
	at[1] = (uint8_t)spec->n_stage;
	at[2] = (uint8_t)((paired ? SL_FRAME_PAIRED : 0) | (spec->of_change ? SL_FRAME_CHANGE : 0));
	sl_put_u32(at + 4, (uint32_t)rows);
	for (int s = 0; s < spec->n_stage && s < SL_CODEC_MAX_STAGES; s++)
		memcpy(at + 8 + 2 * s, &spec->stage[s].stage->id, 2);
}

enum sl_err sl_frame_take(struct sl_bytes *in, const struct sl_codec_spec *spec, bool paired, int64_t rows,
			  struct sl_fail *fail)
{
	uint8_t expect[SL_FRAME_BYTES];
	struct sl_bytes head;

	if (sl_bytes_take(in, SL_FRAME_BYTES, &head) != SL_OK)
		return sl_fail_set(fail, SL_ERR_PAYLOAD, "payload of %zu bytes is shorter than its header", in->len);
	if (head.data[0] != SL_FRAME_FORMAT)
		return sl_fail_set(fail, SL_ERR_PAYLOAD, "payload format %d, expected %d", head.data[0],
				   SL_FRAME_FORMAT);
	sl_frame_write(expect, spec, paired, rows);
	if (memcmp(head.data + 8, expect + 8, 8) != 0 || head.data[1] != expect[1])
		return sl_fail_set(fail, SL_ERR_PAYLOAD, "payload is of another codec than '%s'", spec->text);
	if ((head.data[2] ^ expect[2]) & SL_FRAME_CHANGE)
		return sl_fail_set(fail, SL_ERR_PAYLOAD, "payload has %s, expected %s",
				   spec->of_change ? "values" : "changes", spec->of_change ? "changes" : "values");
	if (head.data[2] != expect[2] || head.data[3] != 0)
		return sl_fail_set(fail, SL_ERR_PAYLOAD, "payload %s places, expected %s",
				   head.data[2] & SL_FRAME_PAIRED ? "without" : "with", paired ? "none" : "them");
	if (memcmp(head.data + 4, expect + 4, 4) != 0)
		return sl_fail_set(fail, SL_ERR_PAYLOAD, "payload of %u rows, expected %lld", sl_get_u32(head.data + 4),
				   (long long)rows);
	return SL_OK;
}
