/* Long copies, made in pieces: between two of them a worker's job gives way (worker.h). */
#ifndef SL_BASE_PIECES_H
#define SL_BASE_PIECES_H

#include <stddef.h>

enum { SL_PIECE_BYTES = 16 << 20 };

/* Bytes of the next piece, if `left` bytes are left. */
static inline size_t sl_piece(size_t left)
{
	return left < SL_PIECE_BYTES ? left : SL_PIECE_BYTES;
}

void sl_copy(void *to, const void *from, size_t bytes); /* memcpy */
void sl_clear(void *to, size_t bytes);                  /* memset to 0 */

#endif
