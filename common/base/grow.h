/* Arrays that grow. Any thread. */
#ifndef SL_BASE_GROW_H
#define SL_BASE_GROW_H

#include <stdbool.h>
#include <stddef.h>

/* Makes room for `need` elements of `each` bytes. *cap is the capacity: 0 at first, at least doubled when it grows.
 * `list` is the address of the pointer to the elements, which realloc may move. False: out of memory, and nothing
 * has changed. */
bool sl_grow(void *list, size_t *cap, size_t need, size_t each);

#endif
