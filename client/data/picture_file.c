/* Reads the file of a picture, and that of its mask. */
#include <errno.h>
#include <fcntl.h>
#include <limits.h>
#include <stdio.h>
#include <stdlib.h>
#include <string.h>
#include <strings.h>
#include <sys/stat.h>
#include <unistd.h>

#include "client/data/picture_format.h"

enum sl_err sl_picture_read_file(const char *path, struct sl_room *room, size_t *len, struct sl_fail *fail)
{
	const int fd = open(path, O_RDONLY | O_CLOEXEC | O_NONBLOCK); /* a FIFO must not block us */
	enum sl_err err = SL_OK;
	struct stat st;
	size_t at = 0;

	if (fd < 0)
		return sl_fail_set(fail, SL_ERR_NOINPUT, "%s: %s", path, strerror(errno));
	if (fstat(fd, &st) || !S_ISREG(st.st_mode))
		err = sl_fail_set(fail, SL_ERR_NOINPUT, "%s: not a regular file", path);
	else if (st.st_size > SL_PICTURE_MAX_FILE)
		err = sl_fail_set(fail, SL_ERR_DATA, "%s: %lld bytes are too many for a picture: at most %d", path,
				  (long long)st.st_size, SL_PICTURE_MAX_FILE);
	else if (sl_room_need_file(room, (size_t)st.st_size + 1))
		err = sl_fail_set(fail, SL_ERR_NOMEM, "%s: no memory for %lld bytes", path, (long long)st.st_size);
	while (!err && at < (size_t)st.st_size) {
		const ssize_t n = read(fd, room->file + at, (size_t)st.st_size - at);

		if (n < 0 && errno == EINTR)
			continue;
		if (n < 0)
			err = sl_fail_set(fail, SL_ERR_IO, "%s: %s", path, strerror(errno));
		if (n <= 0)
			break;
		at += (size_t)n;
	}
	close(fd);
	*len = at;
	return err;
}

int64_t sl_picture_file(const char *path, struct sl_room *room)
{
	struct sl_fail why;
	struct stat st;
	size_t len;

	if (!room)
		return stat(path, &st) ? -1 : (int64_t)st.st_size;
	return sl_picture_read_file(path, room, &len, &why) == SL_OK ? (int64_t)len : -1;
}

bool sl_picture_is(const char *folder, const char *name)
{
	uint8_t bytes[SL_PICTURE_DICOM_AT + 4];
	char path[PATH_MAX];
	ssize_t n = -1;
	int fd;

	if (sl_picture_name(name))
		return true;
	if (strcasecmp(name, "DICOMDIR") == 0 || snprintf(path, sizeof path, "%s/%s", folder, name) >= PATH_MAX)
		return false;
	fd = open(path, O_RDONLY | O_CLOEXEC | O_NONBLOCK);
	if (fd >= 0) {
		n = read(fd, bytes, sizeof bytes);
		close(fd);
	}
	return n == (ssize_t)sizeof bytes && sl_picture_is_dicom(bytes, sizeof bytes);
}

bool sl_picture_mask_path(char out[PATH_MAX], const char *picture, const char *dir, const char *masks)
{
	const char *below = picture + strlen(dir) + 1;

	return snprintf(out, PATH_MAX, "%s/%s/%.*s.png", dir, masks, (int)sl_picture_stem(below), below) < PATH_MAX;
}

static enum sl_err check_classes(const struct sl_value *mask, int classes, struct sl_fail *fail)
{
	const uint8_t *pixel = mask->data;
	const int64_t n = mask->dim[0] * mask->dim[1];

	for (int64_t i = 0; i < n; i++)
		if (pixel[i] >= classes && pixel[i] != SL_LEARN_IGNORED)
			return sl_fail_set(
				fail, SL_ERR_DATA,
				"pixel (%lld, %lld) is %d: the network has the classes 0 to %d, and %d is not "
				"counted",
				(long long)(i % mask->dim[1]), (long long)(i / mask->dim[1]), pixel[i], classes - 1,
				SL_LEARN_IGNORED);
	return SL_OK;
}

enum sl_err sl_picture_read_mask(struct sl_value *out, const char *picture, const char *dir, const char *masks,
				 int classes, struct sl_room *room, struct sl_fail *fail)
{
	const struct sl_picture_spec spec = {.max_pixels = (int64_t)SL_PICTURE_MAX_SIDE * SL_PICTURE_MAX_SIDE,
					     .index = true};
	char path[PATH_MAX];
	struct sl_fail why = {0};
	size_t len = 0;
	enum sl_err err;

	if (!sl_picture_mask_path(path, picture, dir, masks))
		return sl_fail_set(fail, SL_ERR_NOINPUT, "%.300s: the path of its mask is too long", picture);
	if (!room->mask)
		room->mask = calloc(1, sizeof *room->mask);
	if (!room->mask)
		return sl_fail_set(fail, SL_ERR_NOMEM, "no memory for a mask");
	err = sl_picture_read_file(path, room->mask, &len, fail);
	if (err)
		return err;
	err = sl_picture_decode(out, room->mask->file, len, &spec, room->mask, &why);
	if (!err)
		err = check_classes(out, classes, &why);
	return err ? sl_fail_set(fail, err, "%s: %s", path, why.text) : SL_OK;
}
