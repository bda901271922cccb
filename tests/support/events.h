/* A strict reader of TensorBoard event files; TensorBoard's own is lenient. Header-only, for unit
 * tests and for a tool. */
#ifndef TEST_SUPPORT_EVENTS_H
#define TEST_SUPPORT_EVENTS_H

#include <stdbool.h>
#include <stdint.h>
#include <string.h>

#include "client/persist/crc32c.h"

enum { EVENT_VALUES = 40, EVENT_TEXT = 48 };

struct event {
	double wall_time;
	uint64_t step;
	char version[EVENT_TEXT];
	bool start; /* SessionLog START */
	int n;
	struct {
		char tag[EVENT_TEXT];
		float value;
	} value[EVENT_VALUES];
};

struct event_bytes {
	const uint8_t *at;
	size_t len;
};

static inline uint64_t event_fixed(const uint8_t *at, int width)
{
	uint64_t value = 0;

	for (int i = 0; i < width; i++)
		value |= (uint64_t)at[i] << 8 * i;
	return value;
}

static inline bool event_varint(struct event_bytes *b, uint64_t *out)
{
	*out = 0;
	for (int shift = 0; b->len && shift < 64; shift += 7) {
		uint8_t byte = *b->at++;

		b->len--;
		*out |= (uint64_t)(byte & 0x7f) << shift;
		if (!(byte & 0x80))
			return true;
	}
	return false;
}

/* Reads a protobuf field: its tag byte as *number, and its value as *n (varint, fixed) or as *in
 * (bytes: a message or a text). */
static inline bool event_field(struct event_bytes *b, uint64_t *number, uint64_t *n, struct event_bytes *in)
{
	uint64_t tag, width;

	*in = (struct event_bytes){NULL, 0};
	*n = 0;
	if (!event_varint(b, &tag))
		return false;
	*number = tag;
	switch (tag & 7) {
	case 0:
		return event_varint(b, n);
	case 2:
		if (!event_varint(b, &width) || width > b->len)
			return false;
		*in = (struct event_bytes){b->at, width};
		break;
	case 1:
	case 5:
		width = (tag & 7) == 1 ? 8 : 4;
		if (b->len < width)
			return false;
		*n = event_fixed(b->at, (int)width);
		break;
	default:
		return false;
	}
	b->at += width;
	b->len -= width;
	return true;
}

static inline bool event_text(struct event_bytes in, char out[EVENT_TEXT])
{
	if (in.len >= EVENT_TEXT || memchr(in.at, 0, in.len))
		return false;
	memcpy(out, in.at, in.len);
	out[in.len] = 0;
	return true;
}

static inline bool event_scalar(struct event_bytes b, struct event *out)
{
	bool has_tag = false, has_value = false;
	struct event_bytes in;
	uint64_t number, n;

	if (out->n == EVENT_VALUES)
		return false;
	while (b.len) {
		uint32_t bits;

		if (!event_field(&b, &number, &n, &in))
			return false;
		bits = (uint32_t)n;
		if (number == 0x0a && event_text(in, out->value[out->n].tag))
			has_tag = true;
		else if (number == 0x15 && memcpy(&out->value[out->n].value, &bits, 4))
			has_value = true;
		else
			return false;
	}
	out->n++;
	return has_tag && has_value;
}

/* Parses an Event that has exactly one payload. A field that is not known here is an error. */
static inline bool event_parse(struct event_bytes b, struct event *out)
{
	struct event_bytes in;
	uint64_t number, n;
	int says = 0;

	memset(out, 0, sizeof *out);
	while (b.len) {
		if (!event_field(&b, &number, &n, &in))
			return false;
		switch (number) {
		case 0x09:
			memcpy(&out->wall_time, &n, 8);
			break;
		case 0x10:
			out->step = n;
			break;
		case 0x1a:
			says++;
			if (!event_text(in, out->version))
				return false;
			break;
		case 0x2a:
			says++;
			for (struct event_bytes value; in.len;)
				if (!event_field(&in, &number, &n, &value) || number != 0x0a ||
				    !event_scalar(value, out))
					return false;
			break;
		case 0x3a:
			says++;
			out->start = in.len == 2 && in.at[0] == 0x08 && in.at[1] == 1;
			if (!out->start)
				return false;
			break;
		default:
			return false;
		}
	}
	return says == 1 && out->wall_time > 0;
}

static inline uint32_t event_masked(uint32_t crc)
{
	return (crc >> 15 | crc << 17) + 0xa282ead8u;
}

enum event_read { EVENT_READ, EVENT_END, EVENT_CUT_OFF, EVENT_BAD };

/* Takes the next record off *file. CUT_OFF: the file ends within the record. */
static inline enum event_read event_next(struct event_bytes *file, struct event *out)
{
	uint64_t len;

	if (!file->len)
		return EVENT_END;
	if (file->len < 12)
		return EVENT_CUT_OFF;
	len = event_fixed(file->at, 8);
	if (event_fixed(file->at + 8, 4) != event_masked(sl_crc32c(file->at, 8)))
		return EVENT_BAD;
	if (len + 16 > file->len)
		return EVENT_CUT_OFF;
	if (event_fixed(file->at + 12 + len, 4) != event_masked(sl_crc32c(file->at + 12, len)))
		return EVENT_BAD;
	if (!event_parse((struct event_bytes){file->at + 12, len}, out))
		return EVENT_BAD;
	file->at += len + 16;
	file->len -= len + 16;
	return EVENT_READ;
}

#endif
