/* Names of classes, as `splitc data` shows them. */
#ifndef SL_CLIENT_CMD_DATA_NAME_H
#define SL_CLIENT_CMD_DATA_NAME_H

#include "client/data/source.h"

enum { SL_DATA_NAME_BYTES = 256 };

/* The class's name, or its number if the source has no names; returns `out`. Folders may have any name, so what a
 * terminal or JSON cannot take becomes '?'. */
const char *sl_data_class_name(const struct sl_set *set, int label, char out[SL_DATA_NAME_BYTES]);

#endif
