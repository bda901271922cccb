/* The frame of a payload, little-endian; docs/CODECS.md has the same table.
 *
 *   0  u8   format, 1
 *   1  u8   number of stages of the chain
 *   2  u16  flags: bit 0, places are those of the activation; bit 1, the values are changes (change.c)
 *   4  u32  dimension 0 of the tensor
 *   8  u16  ids of the stages [4], 0 after the last
 *  16       body; with a stage of bytes: u32 length of the body, then the packed body
 *
 * Body: for every transform { u32 values it leaves, u32 side bytes }, then the values as the quantizer coded them, then
 * the side bytes of every transform, in order. */
#ifndef SL_CODEC_FRAME_H
#define SL_CODEC_FRAME_H

#include <stdint.h>
#include <string.h>

#include "common/base/buf.h"
#include "common/codec/codec.h"

enum {
	SL_FRAME_FORMAT = 1,
	SL_FRAME_BYTES = 16,
	SL_FRAME_PAIRED = 1,
	SL_FRAME_CHANGE = 2,
	SL_FRAME_TRANSFORM_BYTES = 8
};

_Static_assert(__BYTE_ORDER__ == __ORDER_LITTLE_ENDIAN__, "payloads are copied as they lie in memory");

static inline void sl_put_u32(uint8_t *at, uint32_t value)
{
	memcpy(at, &value, sizeof value);
}

static inline uint32_t sl_get_u32(const uint8_t *at)
{
	uint32_t value;

	memcpy(&value, at, sizeof value);
	return value;
}

/* Writes the header, SL_FRAME_BYTES. */
void sl_frame_write(uint8_t *at, const struct sl_codec_spec *spec, bool paired, int64_t rows);
/* Takes the header off *in. PAYLOAD if it is not exactly the expected one. */
enum sl_err sl_frame_take(struct sl_bytes *in, const struct sl_codec_spec *spec, bool paired, int64_t rows,
			  struct sl_fail *fail) SL_MUST_CHECK;

#endif
