/* Declares sl_source_NAME for every row of SL_DATA_KINDS. A file of this folder defines and describes each. */
#ifndef SL_CLIENT_DATA_SOURCES_H
#define SL_CLIENT_DATA_SOURCES_H

#include "client/data/source.h"
#include "common/conf/conf.h"

#define SL_DATA_SOURCE(id, name, word) extern const struct sl_source sl_source_##name;
SL_DATA_KINDS(SL_DATA_SOURCE)

#endif
