/* What a file is that is not what it should be, by its first bytes. */
#ifndef SL_BASE_FILEKIND_H
#define SL_BASE_FILEKIND_H

#include <stddef.h>

enum { SL_FILEKIND_BYTES = 64 }; /* as many are enough */

/* What the file is and what to do, as the end of a sentence ("a gzip archive: …"); NULL: not known. Thread-safe. */
const char *sl_filekind(const void *data, size_t len);

#endif
