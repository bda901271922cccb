/* Byte ranges. struct sl_bytes borrows; struct sl_buf is a fixed-capacity output range that its owner allocated. */
#ifndef SL_BASE_BUF_H
#define SL_BASE_BUF_H

#include <stddef.h>
#include <stdint.h>

#include "common/base/err.h"

struct sl_bytes {
	const uint8_t *data;
	size_t len;
};

/* Bytes [0, len) are written, [len, cap) are free. The buffer never grows: its owner makes it as large as its
 * writer's bound. */
struct sl_buf {
	uint8_t *data;
	size_t len, cap;
};

/* Appends `len` bytes. SL_ERR_LIMIT, and nothing is written, if they do not fit. */
enum sl_err sl_buf_put(struct sl_buf *buf, const void *src, size_t len) SL_MUST_CHECK;

/* Takes `len` bytes off the front of *in. SL_ERR_DATA, and nothing is taken, if fewer are left. */
enum sl_err sl_bytes_take(struct sl_bytes *in, size_t len, struct sl_bytes *out) SL_MUST_CHECK;

/* A uuid or a hash of 128 bits as 32 hexadecimal digits; returns `out`. */
enum { SL_HEX16_TEXT = 33 };
const char *sl_hex16(const uint8_t id[16], char out[SL_HEX16_TEXT]);

/* Reads a whole regular file of at most `max` bytes into malloc'ed memory that the caller frees (one NUL is added
 * behind the data and not counted). NOINPUT: cannot be opened; LIMIT: longer than max; IO: read failed. */
enum sl_err sl_file_read(const char *path, size_t max, uint8_t **data, size_t *len, struct sl_fail *fail) SL_MUST_CHECK;
/* Like sl_file_read, but refuses a file that every user may write to (CONFIG). */
enum sl_err sl_file_read_guarded(const char *path, size_t max, uint8_t **data, size_t *len,
				 struct sl_fail *fail) SL_MUST_CHECK;

#endif
