/* Arrays that grow. */
#ifndef SL_BASE_GROW_H
#define SL_BASE_GROW_H

#include <stdbool.h>
#include <stddef.h>

/* Room for `need` elements of `each` bytes, of which the array has room for *cap: at least twice as many then, 0 to
 * begin with. `list` is the address of the pointer to them, which realloc may move. False: out of memory, and all is
 * as it was. Any thread. */
bool sl_grow(void *list, size_t *cap, size_t need, size_t each);

#endif
