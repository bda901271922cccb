/* usage: make_cifar DIR TRAIN TEST
 * Synthetic CIFAR-10 for end-to-end tests: data_batch_1.bin with TRAIN images and test_batch.bin with TEST; the rest of
 * the standard 10,000 records is a hole in the file. A class is a colour under noise, so that a few steps learn it.
 * Every run writes the same bytes. */
#include <stdint.h>
#include <stdio.h>
#include <stdlib.h>
#include <unistd.h>

enum { CLASSES = 10, PLANE = 1024, IMAGE = 3 * PLANE, RECORD = 1 + IMAGE, STANDARD_RECORDS = 10000 };

static uint32_t state;

static int noise(void)
{
	state = state * 1664525u + 1013904223u;
	return (int)(state >> 24) % 64;
}

static int write_file(const char *dir, const char *name, int records, uint32_t seed)
{
	char path[4096];
	FILE *f;
	int failed;

	snprintf(path, sizeof path, "%s/%s", dir, name);
	f = fopen(path, "wb");
	if (!f)
		return -1;
	state = seed;
	for (int r = 0; r < records; r++) {
		int label = (r * 7 + r / CLASSES) % CLASSES;

		fputc(label, f);
		for (int i = 0; i < IMAGE; i++)
			fputc((label * 19 + i / PLANE * (label * 37 % 101)) % 190 + noise(), f);
	}
	failed = ferror(f);
	if (fclose(f) != 0 || failed)
		return -1;
	return truncate(path, (off_t)STANDARD_RECORDS * RECORD);
}

int main(int argc, char **argv)
{
	if (argc != 4)
		return 64;
	if (write_file(argv[1], "data_batch_1.bin", atoi(argv[2]), 1) ||
	    write_file(argv[1], "test_batch.bin", atoi(argv[3]), 2)) {
		perror(argv[1]);
		return 73;
	}
	return 0;
}
