/* The columns of a file of texts or of a table, as far as splitc init looks at them. */
#ifndef SL_CLIENT_CMD_PRESET_COLUMNS_H
#define SL_CLIENT_CMD_PRESET_COLUMNS_H

#include "common/conf/conf.h"

struct sl_preset_columns {
	int n; /* at most SL_CONF_LIST_MAX */
	char name[SL_CONF_LIST_MAX][SL_CONF_TEXT];
	double blanks[SL_CONF_LIST_MAX]; /* of a cell, on average: texts have many */
	bool pictures[SL_CONF_LIST_MAX]; /* the first cell names a picture */
};

/* Reads the names and the first rows of a CSV or TSV file. n is 0 where it cannot be read. */
void sl_preset_columns_read(struct sl_preset_columns *out, const char *path);
/* Whether such a column is usually the one to be predicted: label, target, class … */
bool sl_preset_is_label(const char *name);
/* Chooses the column of texts and that of labels; label -1: it is not clear which. */
void sl_preset_columns_choose(const struct sl_preset_columns *c, int *text, int *label);
/* Writes "a, b, c", for messages. */
void sl_preset_columns_list(const struct sl_preset_columns *c, char *out, size_t size);

#endif
