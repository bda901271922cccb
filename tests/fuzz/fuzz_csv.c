/* Any bytes as a table: source_target.h. The first byte says how many of the others are train.csv;
 * val.csv is their first line and the rest. */
#include "tests/fuzz/source_target.h"

#include <string.h>

int LLVMFuzzerTestOneInput(const uint8_t *data, size_t size)
{
	static uint8_t val[1 << 17];
	const uint8_t *line;
	size_t train, head;

	if (size < 2 || size > sizeof val / 2)
		return 0;
	train = 1 + (size - 2) * data[0] / 255;
	data++;
	size--;
	line = memchr(data, '\n', train);
	head = line ? (size_t)(line - data) + 1 : train;
	memcpy(val, data, head);
	memcpy(val + head, data + train, size - train);
	source_put("train.csv", data, train);
	source_put("val.csv", val, head + size - train);
	for (int split = 0; split < SL_SPLIT_COUNT; split++) {
		source_read("csv", (enum sl_split)split);
		source_read_as("csv", (enum sl_split)split, SL_LEARN_NUMBER, false);
		source_read_as("csv", (enum sl_split)split, SL_LEARN_NUMBER, true);
		source_read_as("csv", (enum sl_split)split, SL_LEARN_LABELS, false);
		source_read_as("csv", (enum sl_split)split, SL_LEARN_CLASSES, true);
		source_read_ids("csv", (enum sl_split)split, SL_LEARN_CLASSES, split == SL_SPLIT_TRAIN, 0);
		source_read_ids("csv", (enum sl_split)split, SL_LEARN_CLASSES, split != SL_SPLIT_TRAIN, 7);
	}
	return 0;
}
