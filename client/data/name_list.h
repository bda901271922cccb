/* Many short texts in one block of memory. */
#ifndef SL_CLIENT_DATA_NAME_LIST_H
#define SL_CLIENT_DATA_NAME_LIST_H

#include <stdbool.h>
#include <stddef.h>
#include <stdint.h>

/* Begins zeroed. */
struct sl_names {
	char *text;
	size_t bytes, cap, n_cap;
	size_t *at; /* [n], where each begins */
	int64_t n;
};

/* False: out of memory; the list is as it was. */
bool sl_names_add(struct sl_names *list, const char *text);
void sl_names_sort(struct sl_names *list); /* by bytes */
/* Finds a text that the list has twice: twice[2] are its first two places, or -1 if all texts differ. Of several such
 * texts it is the first by bytes. False: out of memory. */
bool sl_names_twice(const struct sl_names *list, int64_t twice[2]);
/* Adds each distinct text of *all to the empty list *out, sorted: by value if all are numbers, else by bytes. Sorts
 * *all by bytes, too. False: out of memory. */
bool sl_names_different(struct sl_names *out, struct sl_names *all);
void sl_names_close(struct sl_names *list);

/* Whether the text is a finite decimal number; blanks around it are allowed. */
bool sl_text_number(const char *text, double *out);

static inline const char *sl_name(const struct sl_names *list, int64_t i)
{
	return list->text + list->at[i];
}

#endif
