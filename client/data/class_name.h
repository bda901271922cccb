/* Names of classes as users see them. */
#ifndef SL_CLIENT_DATA_CLASS_NAME_H
#define SL_CLIENT_DATA_CLASS_NAME_H

#include "client/data/source.h"

enum { SL_CLASS_NAME_BYTES = 256 };

/* The name of a class, or of a label or number of the target; its number if the source has no names. Returns `out`.
 * Folders may have any name, so what a terminal or JSON cannot take becomes '?'. */
const char *sl_class_name(const struct sl_set *set, int label, char out[SL_CLASS_NAME_BYTES]);

#endif
