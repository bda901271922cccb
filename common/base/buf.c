#include "common/base/buf.h"

#include <errno.h>
#include <fcntl.h>
#include <stdio.h>
#include <stdlib.h>
#include <string.h>
#include <sys/stat.h>
#include <unistd.h>

#include "common/base/pieces.h"

enum sl_err sl_buf_put(struct sl_buf *buf, const void *src, size_t len)
{
	if (len > buf->cap - buf->len)
		return SL_ERR_LIMIT;
	if (len > 0)
		sl_copy(buf->data + buf->len, src, len);
	buf->len += len;
	return SL_OK;
}

const char *sl_hex16(const uint8_t id[16], char out[SL_HEX16_TEXT])
{
	for (int i = 0; i < 16; i++)
		snprintf(out + 2 * i, 3, "%02x", id[i]);
	return out;
}

enum sl_err sl_bytes_take(struct sl_bytes *in, size_t len, struct sl_bytes *out)
{
	if (len > in->len)
		return SL_ERR_DATA;
	*out = (struct sl_bytes){in->data, len};
	if (len > 0)
		in->data += len;
	in->len -= len;
	return SL_OK;
}

/* Reads until `len` bytes or the end of the file; returns the bytes read, -1 with errno. */
static ssize_t read_up_to(int fd, uint8_t *data, size_t len)
{
	size_t got = 0;

	while (got < len) {
		ssize_t n = read(fd, data + got, len - got);
		if (n < 0 && errno == EINTR)
			continue;
		if (n < 0)
			return -1;
		if (n == 0)
			break;
		got += (size_t)n;
	}
	return (ssize_t)got;
}

static enum sl_err read_file(const char *path, size_t max, bool guarded, uint8_t **data, size_t *len,
			     struct sl_fail *fail)
{
	enum sl_err err;
	struct stat st;
	uint8_t *mem = NULL;
	ssize_t got;
	/* NONBLOCK: opening a FIFO must not wait for a writer */
	int fd = open(path, O_RDONLY | O_CLOEXEC | O_NONBLOCK);

	if (fd < 0)
		return sl_fail_set(fail, SL_ERR_NOINPUT, "%s: %s", path, strerror(errno));
	if (fstat(fd, &st) != 0 || !S_ISREG(st.st_mode)) {
		err = sl_fail_set(fail, SL_ERR_NOINPUT, "%s: not a regular file", path);
		goto fail;
	}
	if (guarded && (st.st_mode & S_IWOTH)) {
		err = sl_fail_set(
			fail, SL_ERR_CONFIG,
			"%s: every user may write to this file (mode %04o): chmod o-w it, and look at what it "
			"says",
			path, (unsigned)st.st_mode & 07777);
		goto fail;
	}
	if ((uint64_t)st.st_size > max) {
		err = sl_fail_set(fail, SL_ERR_LIMIT, "%s: %lld bytes, at most %zu are read", path,
				  (long long)st.st_size, max);
		goto fail;
	}
	mem = malloc((size_t)st.st_size + 1);
	if (!mem) {
		err = sl_fail_set(fail, SL_ERR_NOMEM, "%s: no memory for %lld bytes", path, (long long)st.st_size);
		goto fail;
	}
	got = read_up_to(fd, mem, (size_t)st.st_size);
	if (got < 0) {
		err = sl_fail_set(fail, SL_ERR_IO, "%s: %s", path, strerror(errno));
		goto fail;
	}
	close(fd);
	mem[got] = 0;
	*data = mem;
	*len = (size_t)got;
	return SL_OK;
fail:
	free(mem);
	close(fd);
	return err;
}

enum sl_err sl_file_read(const char *path, size_t max, uint8_t **data, size_t *len, struct sl_fail *fail)
{
	return read_file(path, max, false, data, len, fail);
}

enum sl_err sl_file_read_guarded(const char *path, size_t max, uint8_t **data, size_t *len, struct sl_fail *fail)
{
	return read_file(path, max, true, data, len, fail);
}
