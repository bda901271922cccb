/* model.safetensors.index.json from an unknown source, beside two files of weights. If it opens, it
 * has the tensors of both, and all of them can be read; else it is refused in one line. */
#include <fcntl.h>
#include <stdio.h>
#include <stdlib.h>
#include <string.h>
#include <unistd.h>

#include "common/weights/safetensors.h"

static char dir[] = "/dev/shm/fuzz_weights_index.XXXXXX";

static void must(bool good)
{
	if (!good)
		abort();
}

static const char *in_dir(const char *name)
{
	static char path[128];

	snprintf(path, sizeof path, "%s/%s", dir, name);
	return path;
}

static void remove_dir(void)
{
	unlink(in_dir("one.safetensors"));
	unlink(in_dir("two.safetensors"));
	unlink(in_dir("model.safetensors.index.json"));
	rmdir(dir);
}

static void write_shard(const char *name, const char *first, const char *second)
{
	static const float value[] = {1, 2, 3};
	const struct sl_st_item items[] = {
		{.name = first, .dtype = "F32", .ndim = 1, .dim = {3}, .data = value},
		{.name = second, .dtype = "F32", .ndim = 1, .dim = {2}, .data = value},
	};
	struct sl_fail fail;

	must(sl_st_write(in_dir(name), items, 2, NULL, 0, SL_FP_NONE, &fail) == SL_OK);
}

int LLVMFuzzerTestOneInput(const uint8_t *data, size_t size);

int LLVMFuzzerTestOneInput(const uint8_t *data, size_t size)
{
	static int fd = -1;
	struct sl_st_file *file;
	struct sl_fail fail = {0};

	if (fd < 0) {
		must(mkdtemp(dir) != NULL);
		atexit(remove_dir);
		write_shard("one.safetensors", "a", "b");
		write_shard("two.safetensors", "c", "d.weight");
		fd = open(in_dir("model.safetensors.index.json"), O_RDWR | O_CREAT | O_CLOEXEC, 0600);
		must(fd >= 0);
	}
	must(ftruncate(fd, 0) == 0 && pwrite(fd, data, size, 0) == (ssize_t)size);
	if (sl_st_open_folder(&file, dir, &fail) != SL_OK) {
		must(fail.text[0] && !strchr(fail.text, '\n'));
		return 0;
	}
	for (int i = 0; i < sl_st_count(file); i++) {
		float value[3];

		must(sl_st_at(file, i)->count <= 3);
		must(sl_st_read_f32(file, sl_st_at(file, i), value, &fail) == SL_OK);
		must(sl_st_find(file, sl_st_at(file, i)->name) == sl_st_at(file, i));
	}
	sl_st_close(file);
	return 0;
}
