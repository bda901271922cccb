/* A table of memory pages with notes about each. One file of a program includes this, after its
 *   struct page {uintptr_t at; struct page *next; …};
 * at: the address / PAGE. The other fields are zero at first. */
#ifndef SL_TESTS_CUDA_SIM_PAGES_H
#define SL_TESTS_CUDA_SIM_PAGES_H

#include <stdint.h>
#include <stdlib.h>

enum { PAGE_BUCKETS = 1 << 16 };

static struct page *pages[PAGE_BUCKETS], *recent;

static struct page *page_of(uintptr_t address)
{
	const uintptr_t at = address / PAGE;
	struct page **p = &pages[at % PAGE_BUCKETS];

	if (recent != NULL && recent->at == at)
		return recent;
	while (*p != NULL && (*p)->at != at)
		p = &(*p)->next;
	if (*p == NULL) {
		*p = calloc(1, sizeof **p);
		if (*p == NULL)
			abort();
		(*p)->at = at;
	}
	return recent = *p;
}

#endif
