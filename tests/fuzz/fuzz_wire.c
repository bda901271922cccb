/* sl_wire_decode on any bytes: [header length, 16 bits little-endian][header][payload]. With bit 15 of
 * the length the header is taken as it is; else its last 8 bytes are set to its check value. A decoded
 * frame must encode to the same bytes, and every text in it must be terminated and printable. */
#include <stdint.h>
#include <stdlib.h>
#include <string.h>

#include "common/link/proof.h"

static void check_text(const char *text, size_t cap)
{
	size_t len = strnlen(text, cap);

	if (len == cap)
		abort();
	for (size_t i = 0; i < len; i++)
		if ((unsigned char)text[i] < 0x20 || text[i] == 0x7f)
			abort();
}

static void check_frame(const struct sl_frame *f)
{
	const struct sl_hello *h = &f->u.hello;

	if ((unsigned)f->kind >= SL_FRAME_COUNT ||
	    (f->kind == SL_FRAME_PART || (f->kind == SL_FRAME_HELLO && !sl_proof_lacks(h))) != (f->payload.len > 0))
		abort();
	if (f->kind == SL_FRAME_HELLO) {
		check_text(h->software, sizeof h->software);
	} else if (f->kind == SL_FRAME_WELCOME) {
		check_text(f->u.welcome.software, sizeof f->u.welcome.software);
		check_text(f->u.welcome.device, sizeof f->u.welcome.device);
	} else if (f->kind == SL_FRAME_REFUSE) {
		check_text(f->u.refuse.text, sizeof f->u.refuse.text);
		check_text(f->u.refuse.key, sizeof f->u.refuse.key);
	} else if (f->kind == SL_FRAME_PART) {
		const struct sl_part *p = &f->u.part;

		if (p->what >= SL_PART_WHAT_COUNT || p->offset > p->total || f->payload.len > p->total - p->offset)
			abort();
	}
}

/* Sets a valid check value, which a fuzzer cannot guess. */
static void seal(uint8_t *header, size_t len)
{
	uint64_t check;

	if (len < sizeof check)
		return;
	check = sl_wire_hash((struct sl_bytes){header, len - sizeof check});
	for (size_t i = 0; i < sizeof check; i++)
		header[len - sizeof check + i] = (uint8_t)(check >> 8 * i);
}

int LLVMFuzzerTestOneInput(const uint8_t *data, size_t size);

int LLVMFuzzerTestOneInput(const uint8_t *data, size_t size)
{
	uint8_t again[SL_WIRE_HEADER_MAX], *header;
	struct sl_bytes payload;
	struct sl_frame frame;
	struct sl_fail fail;
	size_t len, again_len;

	if (size < 2)
		return 0;
	len = (size_t)(data[0] | (data[1] & 0x7f) << 8);
	if (len > size - 2)
		len = size - 2;
	/* a copy of its exact size, so that reading past the header is noticed */
	header = malloc(len ? len : 1);
	if (!header)
		return 0;
	memcpy(header, data + 2, len);
	if (!(data[1] & 0x80))
		seal(header, len);
	payload = (struct sl_bytes){data + 2 + len, size - 2 - len};
	if (sl_wire_decode((struct sl_bytes){header, len}, payload, &frame, &fail) == SL_OK) {
		check_frame(&frame);
		if (sl_wire_encode(&frame, again, &again_len) || again_len != len || memcmp(again, header, len) != 0)
			abort();
	} else {
		check_text(fail.text, sizeof fail.text);
	}
	free(header);
	return 0;
}
